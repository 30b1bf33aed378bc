/* SPDX-License-Identifier: MIT
 *
 * perturbed.h for the workers as well: other threads can run between any two steps of a worker.
 * Include this first, before the tests. */
#ifndef AWAKE_TEST_WORKERS_PERTURBED_H
#define AWAKE_TEST_WORKERS_PERTURBED_H

#define _GNU_SOURCE

#include "support/perturbed.h"

#include "sched/multi/pool_shutdown.c"
#include "sched/multi/multi.c"
#include "sched/multi/pool_join.c"
#include "sched/multi/pool.c"
#include "sched/multi/schedule.c"
#include "sched/multi/pool_task.c"
#include "sched/multi/worker.c"

#endif
