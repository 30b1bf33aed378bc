/* SPDX-License-Identifier: MIT
 *
 * The tests of locks.c, with random pauses between atomic operations of the locks. */
#include "support/perturbed_locks.h"

#include "locks.c"
