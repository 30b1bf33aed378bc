/* SPDX-License-Identifier: MIT
 *
 * The tests of semaphore_histories.c, with random pauses between atomic operations of the
 * semaphore. */
#include "support/perturbed_atomics.h"

#include "sync/semaphore.c"

#include "semaphore_histories.c"
