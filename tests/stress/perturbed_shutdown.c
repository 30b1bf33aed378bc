/* SPDX-License-Identifier: MIT
 *
 * The same storms, with other threads in between any two steps of the runtime. */
#include "support/perturbed.h"

#include "shutdown.c"
