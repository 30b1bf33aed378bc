/* SPDX-License-Identifier: MIT
 *
 * The locks, compiled into the test with atomics that pause at random. Include this first,
 * before the tests. */
#ifndef AWAKE_TEST_PERTURBED_LOCKS_H
#define AWAKE_TEST_PERTURBED_LOCKS_H

#include "support/perturbed_atomics.h"

#include "sync/semaphore.c"
#include "sync/mutex.c"
#include "sync/condvar.c"
#include "sync/rwlock.c"

#endif
