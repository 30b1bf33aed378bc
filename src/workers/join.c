/* SPDX-License-Identifier: MIT
 *
 * Waiting for a task that any worker may run: rule 4 of word.h. The join points to the task, and while it
 * waits the task to the join. */
#include "os/park.h"
#include "runtime/join.h"
#include "workers/pool.h"

/* It is done, and a worker may still be taking our waker. */
static void wait_for_worker(const aw__task *t) {
    for (int tries = 0; aw__load_acquire(&t->joiner) && !aw__rt_forked(aw__task_rt(t));)
        aw__os_wait(&tries);
}

static aw_poll finish(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    if (j->future.state != AW__JOIN_FRESH) {
        wait_for_worker(t);
        aw__join_disarm(j, cx);
    }
    return aw__join_take(j, t, aw__load_relaxed(&t->status));
}

aw_poll aw__pool_join_poll(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    bool armed = j->future.state != AW__JOIN_FRESH;
    if (aw__word_is_done(&t->word)) {
        if (aw_cx_spend(cx)) return finish(j, t, cx);
        if (armed) wait_for_worker(t); /* the waker of the poll before may be gone */
        return AW_PENDING;
    }
    if (aw__rt_forked(aw__task_rt(t))) return aw__join_forked(j, cx);
    if (armed) {
        if (aw_waker_will_wake(&j->waker, cx->waker)) return AW_PENDING;
        if (aw__word_unjoin(&t->word)) return finish(j, t, cx);
    } else if (aw__load_relaxed(&t->joiner)) {
        aw__join_twice(t);
    }
    aw__join_arm(j, cx, cx->runtime != aw__task_rt(t));
    j->waker = *cx->waker;
    aw__store_relaxed(&t->joiner, j);
    if (!aw__word_join(&t->word)) return AW_PENDING;
    aw__store_relaxed(&t->joiner, (aw_task_join_future *)NULL); /* nobody looks at us */
    return finish(j, t, cx);
}

aw_poll aw__pool_join_cancel(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    if (aw__word_unjoin(&t->word)) return finish(j, t, cx);
    aw__store_relaxed(&t->joiner, (aw_task_join_future *)NULL);
    aw__join_disarm(j, cx);
    return AW_CANCELLED;
}
