/* SPDX-License-Identifier: MIT
 *
 * The tests of workers_storm.c, with random pauses between atomic operations of the runtime and its
 * workers. */
#include "support/workers_perturbed.h"

#include "workers_storm.c"
