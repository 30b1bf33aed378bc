/* SPDX-License-Identifier: MIT
 *
 * The tests of references.c, with random pauses between atomic operations of the runtime. */
#include "support/perturbed.h"

#include "references.c"
