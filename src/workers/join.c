/* SPDX-License-Identifier: MIT
 *
 * Waiting for a task that any worker may run: rule 4 of word.h. The join points to the task, and while it
 * waits the task to the join. */
#include "core/misuse.h"
#include "os/park.h"
#include "workers/pool.h"

enum { FRESH, ARMED, ARMED_OUTSIDE, TOOK }; /* as in runtime/join.c */

static void disarm(aw_task_join_future *j, aw_cx *cx) {
    if (!aw_waker_will_wake(&j->waker, cx->waker)) return; /* armed by another task */
    if (j->future.state == ARMED_OUTSIDE) aw_cx_disarm(cx);
    if (j->future.state == ARMED) aw_cx_disarm_inside(cx);
}

/* It is done, and a worker may still be taking our waker. */
static void wait_for_worker(const aw__task *t) {
    for (int i = 0; aw__load_acquire(&t->joiner); i++)
        i < 100 ? aw__spin_hint() : aw__os_yield();
}

static aw_poll finish(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    if (j->future.state != FRESH) {
        wait_for_worker(t);
        disarm(j, cx);
    }
    int status = aw__load_relaxed(&t->status);
    if (status == AW__FINISHED) {
        aw__store_relaxed(&t->status, AW__TAKEN);
        j->future.state = TOOK;
    }
    j->out = status == AW__TAKEN ? 0 : status;
    return AW_READY;
}

aw_poll aw__pool_join_poll(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    bool armed = j->future.state != FRESH;
    if (aw__word_is_done(&t->word)) {
        if (aw_cx_spend(cx)) return finish(j, t, cx);
        if (armed) wait_for_worker(t); /* the waker of the poll before may be gone */
        return AW_PENDING;
    }
    if (armed) {
        if (aw_waker_will_wake(&j->waker, cx->waker)) return AW_PENDING;
        if (aw__word_unjoin(&t->word)) return finish(j, t, cx);
    } else if (aw__load_relaxed(&t->joiner)) {
        char name[256];
        aw__name_task(name, sizeof name, t);
        aw__misuse("two joins wait for %s at once", name);
    }
    bool outside = cx->runtime != aw__task_rt(t);
    j->future.state = outside ? ARMED_OUTSIDE : ARMED;
    j->waker = *cx->waker;
    if (outside)
        aw_cx_arm(cx);
    else
        aw_cx_arm_inside(cx);
    aw__store_relaxed(&t->joiner, j);
    if (!aw__word_join(&t->word)) return AW_PENDING;
    aw__store_relaxed(&t->joiner, (aw_task_join_future *)NULL); /* nobody looks at us */
    return finish(j, t, cx);
}

aw_poll aw__pool_join_cancel(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    if (aw__word_unjoin(&t->word)) return finish(j, t, cx);
    aw__store_relaxed(&t->joiner, (aw_task_join_future *)NULL);
    disarm(j, cx);
    return AW_CANCELLED;
}
