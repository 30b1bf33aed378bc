/* SPDX-License-Identifier: MIT
 *
 * The same storms, with other threads in between any two steps of the locks. */
#include "support/perturbed_locks.h"

#include "locks.c"
