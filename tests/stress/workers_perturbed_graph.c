/* SPDX-License-Identifier: MIT
 *
 * The tests of torture/workers_graph.c, with random pauses between atomic operations of the runtime
 * and its workers. */
#include "support/workers_perturbed.h"

#include "torture/workers_graph.c"
