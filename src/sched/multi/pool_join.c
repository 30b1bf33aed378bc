/* SPDX-License-Identifier: MIT
 *
 * Joining a task of a multi-thread runtime: rule 4 of task_state.h. The join points to the task,
 * and while it waits the task points to the join. */
#include "sched/multi/pool_join.h"

#include "os/park.h"
#include "sched/multi/pool.h"
#include "task/join.h"

/* The task is DONE, but its worker may still be taking our waker (rule 4). */
static void wait_for_worker(const aw__task *t) {
    for (int tries = 0; aw__load_acquire(&t->joiner) && !aw__rt_forked(aw__task_rt(t));)
        aw__os_wait(&tries);
}

static aw_poll pool_join_finish(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    if (j->future.state != AW__JOIN_FRESH) {
        wait_for_worker(t);
        aw__join_disarm(j, cx);
    }
    return aw__join_take(j, t, aw__load_relaxed(&t->status));
}

aw_poll aw__pool_join_poll(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    bool armed = j->future.state != AW__JOIN_FRESH;
    if (aw__word_is_done(&t->word)) {
        if (aw_cx_spend(cx)) return pool_join_finish(j, t, cx);
        if (armed) wait_for_worker(t); /* the waker of an earlier poll may be gone after this one */
        return AW_PENDING;
    }
    if (aw__rt_forked(aw__task_rt(t))) return aw__join_forked(j, cx);
    if (armed) {
        if (aw_waker_will_wake(&j->waker, cx->waker)) return AW_PENDING;
        if (aw__word_unjoin(&t->word)) return pool_join_finish(j, t, cx);
    } else if (aw__load_relaxed(&t->joiner)) {
        aw__join_twice(t);
    }
    aw__join_arm(j, cx, cx->runtime != aw__task_rt(t));
    j->waker = *cx->waker;
    aw__store_relaxed(&t->joiner, j);
    if (!aw__word_join(&t->word)) return AW_PENDING;
    /* DONE came first: the worker does not use the join. */
    aw__store_relaxed(&t->joiner, (aw_task_join_future *)NULL);
    return pool_join_finish(j, t, cx);
}

aw_poll aw__pool_join_cancel(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    if (aw__word_unjoin(&t->word)) return pool_join_finish(j, t, cx);
    aw__store_relaxed(&t->joiner, (aw_task_join_future *)NULL);
    aw__join_disarm(j, cx);
    return AW_CANCELLED;
}
