/* SPDX-License-Identifier: MIT
 *
 * The tests of timers.c, with random pauses between atomic operations of the runtime. */
#include "support/perturbed.h"

#include "timers.c"
