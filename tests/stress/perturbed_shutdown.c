/* SPDX-License-Identifier: MIT
 *
 * The tests of shutdown.c, with random pauses between atomic operations of the runtime. */
#include "support/perturbed.h"

#include "shutdown.c"
