/* SPDX-License-Identifier: MIT
 *
 * The monitor: a thread that takes over for workers that are stuck in a poll, and reports cancels
 * that take long. */
#ifndef AW_SCHED_MULTI_MONITOR_H
#define AW_SCHED_MULTI_MONITOR_H

#include "sched/multi/pool.h"

void *aw__monitor_main(void *pool);
void aw__monitor_wake(aw__pool *p);
/* By a worker's thread, in a poll, around a call that blocks. In between it does not act as this
 * worker; the monitor takes over what it can. */
void aw__worker_leave(aw__worker *w);
void aw__worker_return(aw__worker *w);
void aw__pool_count_cancels(aw_runtime *rt, aw__task *t, int32_t change, bool ended);

#endif
