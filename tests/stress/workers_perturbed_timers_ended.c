/* SPDX-License-Identifier: MIT
 *
 * The tests of timers_ended.c, with random pauses between atomic operations of the runtime and its
 * workers. */
#include "support/workers_perturbed.h"

#include "timers_ended.c"
