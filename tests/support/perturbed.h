/* SPDX-License-Identifier: MIT
 *
 * The runtime, compiled into the test with atomics that pause at random. The rest comes from the
 * library as usual. Include this first, before the tests. */
#ifndef AWAKE_TEST_PERTURBED_H
#define AWAKE_TEST_PERTURBED_H

#include "support/perturbed_atomics.h"

#include "time/clock.c"
#include "sched/current/current_fork.c"
#include "task/join.c"
#include "task/task_local.c"
#include "sched/report.c"
#include "sched/runtime.c"
#include "sched/block_on.c"
#include "sched/current/current.c"
#include "sched/current/current_block_on.c"
#include "sched/current/current_loop.c"
#include "sched/current/current_shutdown.c"
#include "sched/shutdown.c"
#include "time/interval.c"
#include "time/sleep.c"
#include "task/task.c"
#include "time/wheel.c"

#endif
