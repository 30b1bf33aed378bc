/* SPDX-License-Identifier: MIT
 *
 * The tests of behaviour/workers_sync.c, with random pauses between atomic operations of the
 * runtime and its workers. */
#include "support/workers_perturbed.h"

#include "behaviour/workers_sync.c"
