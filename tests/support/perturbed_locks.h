/* SPDX-License-Identifier: MIT
 *
 * The locks, compiled into the test with atomics that stop now and then. Included first, before the tests. */
#ifndef AWAKE_TEST_PERTURBED_LOCKS_H
#define AWAKE_TEST_PERTURBED_LOCKS_H

#include "support/perturbed_atomics.h"

#include "sync/semaphore.c"
#define QUEUED        MUTEX_QUEUED
#define take_or_queue mutex_take_or_queue
#include "sync/mutex.c"
#undef QUEUED
#undef take_or_queue
#include "sync/condvar.c"
#include "sync/rwlock.c"

#endif
