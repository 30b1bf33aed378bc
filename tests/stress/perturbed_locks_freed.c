/* SPDX-License-Identifier: MIT
 *
 * The same ends, with other threads in between any two steps of the locks. */
#include "support/perturbed_locks.h"

#include "behaviour/locks_freed.c"
