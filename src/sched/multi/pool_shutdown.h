/* SPDX-License-Identifier: MIT
 *
 * Shutdown of a multi-thread runtime (context/scheduler.h). */
#ifndef AW_SCHED_MULTI_POOL_SHUTDOWN_H
#define AW_SCHED_MULTI_POOL_SHUTDOWN_H

#include "sched/multi/pool.h"

size_t aw__pool_shutdown(aw_runtime *rt, uint64_t limit);
void aw__pool_end(aw_runtime *rt);
void aw__pool_abandon(aw_runtime *rt);
void aw__pool_forget(aw_runtime *rt); /* in the child of a fork */
/* By the monitor. True: the runtime was abandoned, no task is left, and it has ended. */
bool aw__pool_end_abandoned(aw__pool *p);

#endif
