/* SPDX-License-Identifier: MIT
 *
 * The tests of behaviour/task_join_foreign.c, with random pauses between atomic operations of the
 * runtime. */
#include "support/perturbed.h"

#include "behaviour/task_join_foreign.c"
