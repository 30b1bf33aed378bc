/* SPDX-License-Identifier: MIT
 *
 * The same joins, with other threads in between any two steps of the workers. */
#include "support/workers_perturbed.h"

#include "behaviour/workers_join.c"
