/* SPDX-License-Identifier: MIT
 *
 * The same behaviour, with other threads in between any two steps of the runtime. */
#include "support/perturbed.h"

#include "behaviour/runtime_outlive.c"
