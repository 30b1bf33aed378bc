/* SPDX-License-Identifier: MIT
 *
 * The tasks of a multi-thread runtime: the functions of task/task.c for it, and the lists of all
 * tasks. */
#ifndef AW_SCHED_MULTI_POOL_TASK_H
#define AW_SCHED_MULTI_POOL_TASK_H

#include "sched/multi/pool.h"

extern const aw_waker_type aw__pool_waker_type;

aw_future *aw__pool_spawn(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                          const aw_location *location, void *storage,
                          const aw__member_args *member);
void aw__pool_abort(aw__task *t);
void aw__pool_drop(aw__task *t);
void aw__pool_task_unref(aw__task *t);
void aw__pool_complete(aw__pool *p, aw__task *t, aw_poll answer);
void aw__pool_abort_all(aw__pool *p);
/* Calls `f` for each task. A task that is neither running nor queued cannot run meanwhile. */
void aw__pool_each(aw__pool *p, void (*f)(const aw__task_view *v, void *data), void *data);
/* Worker only: the task that it polls has failed. */
void aw__pool_cancel_running(aw_runtime *rt, aw__task *t);

/* Worker only: begins the poll of a task taken out of a queue (rules 2 and 7 of task_state.h).
 * True: cancel it instead. */
static inline bool aw__pool_begin(aw__task *t) {
    if (!(t->flags & AW__QUEUED_RUNNING)) return aw__word_run(&t->word);
    t->flags &= (uint16_t) ~(AW__QUEUED_RUNNING | AW__YIELDED | AW__PASSED);
    return aw__word_run_on(&t->word);
}
/* The poll is pending. True: queue the task. */
static inline bool aw__pool_pause(aw__task *t, bool woken) {
    if (!woken) return aw__word_pend(&t->word);
    t->flags |= AW__QUEUED_RUNNING;
    return true;
}

#endif
