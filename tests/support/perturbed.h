/* SPDX-License-Identifier: MIT
 *
 * The runtime, compiled into the test with atomics that stop now and then. What the runtime does not define comes from the
 * library as usual. Included first, before the tests. */
#ifndef AWAKE_TEST_PERTURBED_H
#define AWAKE_TEST_PERTURBED_H

#include "support/perturbed_atomics.h"

#include "runtime/clock.c"
#define disarm disarm_join /* there is one in sleep.c too */
#include "runtime/forked.c"
#include "runtime/join.c"
#undef disarm
#include "runtime/local.c"
#include "runtime/report.c"
#include "runtime/runtime.c"
#include "runtime/scheduler.c"
#include "runtime/shutdown.c"
#include "runtime/sleep.c"
#include "runtime/task.c"
#include "runtime/wheel.c"

#endif
