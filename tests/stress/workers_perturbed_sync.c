/* SPDX-License-Identifier: MIT
 *
 * The same waits, with other threads in between any two steps of the workers. */
#include "support/workers_perturbed.h"

#include "behaviour/workers_sync.c"
