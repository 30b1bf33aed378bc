/* SPDX-License-Identifier: MIT
 *
 * The tests of behaviour/runtime_lost.c, with random pauses between atomic operations of the
 * runtime. */
#include "support/perturbed.h"

#include "behaviour/runtime_lost.c"
