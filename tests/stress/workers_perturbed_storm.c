/* SPDX-License-Identifier: MIT
 *
 * The same storms, with other threads in between any two steps of the workers. */
#include "support/workers_perturbed.h"

#include "workers_storm.c"
