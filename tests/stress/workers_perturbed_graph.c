/* SPDX-License-Identifier: MIT
 *
 * The same graphs, with other threads in between any two steps of the workers. */
#include "support/workers_perturbed.h"

#include "torture/workers_graph.c"
