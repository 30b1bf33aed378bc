/* SPDX-License-Identifier: MIT
 *
 * The tests of handles.c, with random pauses between atomic operations of the runtime. */
#include "support/perturbed.h"

#include "handles.c"
