/* SPDX-License-Identifier: MIT
 *
 * perturbed.h, and the workers as well: other threads get in between any two steps of a worker. Included
 * first, before the tests. */
#ifndef AWAKE_TEST_WORKERS_PERTURBED_H
#define AWAKE_TEST_WORKERS_PERTURBED_H

#define _GNU_SOURCE

#include "support/perturbed.h"

/* What has the same name in runtime/. */
#define FRESH             POOL_FRESH
#define ARMED             POOL_ARMED
#define ARMED_OUTSIDE     POOL_ARMED_OUTSIDE
#define TOOK              POOL_TOOK
#define disarm            pool_disarm
#define finish            pool_finish
#define list_remove       pool_list_remove
#define run_task          pool_run_task
#define take              pool_take
#define waker_clone       pool_waker_clone
#define waker_drop        pool_waker_drop
#define waker_wake        pool_waker_wake
#define waker_wake_by_ref pool_waker_wake_by_ref
#include "workers/end.c"
#include "workers/join.c"
#include "workers/pool.c"
#include "workers/queue.c"
#include "workers/task.c"
#include "workers/worker.c"
#undef FRESH
#undef ARMED
#undef ARMED_OUTSIDE
#undef TOOK
#undef disarm
#undef finish
#undef list_remove
#undef run_task
#undef take
#undef waker_clone
#undef waker_drop
#undef waker_wake
#undef waker_wake_by_ref

#endif
