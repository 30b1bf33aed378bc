/* SPDX-License-Identifier: MIT
 *
 * Scheduling: the queue that a woken task goes to, and the worker that is notified. Any thread. */
#ifndef AW_SCHED_MULTI_SCHEDULE_H
#define AW_SCHED_MULTI_SCHEDULE_H

#include "sched/multi/pool.h"

/* The caller has set the task NOTIFIED, or AW__QUEUED_RUNNING. `to_ring`: on a worker, push it to
 * the ring instead of the LIFO slot, and notify later (`notify_due`). Other threads, and pinned
 * tasks, ignore it. */
void aw__pool_schedule(aw__pool *p, aw__task *t, bool to_ring);
void aw__pool_notify(aw__pool *p);
/* Whether a queue that all workers can take from has a task. A snapshot. */
bool aw__pool_has_work(const aw__pool *p);
/* Makes all workers read the clock again. */
void aw__pool_unpark_all(aw__pool *p);
/* Pushes to the ring of this thread's worker. If it is full, half of it moves to the inject
 * queue. */
void aw__worker_push(aw__worker *w, aw__task *t);
void aw__worker_unpark(aw__worker *w);

#endif
