/* SPDX-License-Identifier: MIT
 *
 * The same histories, with other threads in between any two steps of the semaphore. */
#include "support/perturbed_atomics.h"

#include "sync/semaphore.c"

#include "semaphore_histories.c"
