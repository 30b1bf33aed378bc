/* SPDX-License-Identifier: MIT
 *
 * The tests of behaviour/locks_freed.c, with random pauses between atomic operations of the
 * locks. */
#include "support/perturbed_locks.h"

#include "behaviour/locks_freed.c"
