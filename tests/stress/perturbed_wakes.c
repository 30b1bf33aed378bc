/* SPDX-License-Identifier: MIT
 *
 * The tests of wakes.c, with random pauses between atomic operations of the runtime. */
#include "support/perturbed.h"

#include "wakes.c"
