/* SPDX-License-Identifier: MIT
 *
 * block_on of the current-thread scheduler: which thread owns the runtime, the main future, and
 * threads that follow while another thread is the owner. */
#include <errno.h>

#include "base/list.h"
#include "base/misuse.h"
#include "future/unstarted.h"
#include "os/lock.h"
#include "sched/block_on.h"
#include "sched/current/current.h"
#include "sched/embedded.h"
#include "sched/main_poll.h"
#include "sched/report.h"
#include "task/hold.h"

/* Run until all tasks have ended, but at most for `limit`. */
static void run_with_limit(aw_runtime *rt, uint64_t limit);

void aw__rt_end_tasks(aw_runtime *rt, uint32_t closing, uint64_t limit) {
    aw__store_release(&rt->closing, closing);
    aw__task *t;
    for (aw__task_walk w = {.rt = rt}; (t = aw__task_walk_next(&w));)
        aw__task_abort_local(t);
    /* This cancels tasks that other threads have just spawned; `closing` refuses further spawns. */
    aw__rt_drain_inbox(rt);
    if (!rt->live || !limit) return;
    if (limit != AW_FOREVER) {
        run_with_limit(rt, limit);
        return;
    }
    if (aw__rt_run(rt, AW__ALL_ENDED) == 0) return;
    aw__report_deadlock(rt);
    aw__rt_log(rt, AW_LOG_PROBLEM, "%zu tasks cannot be cancelled and are left behind", rt->live);
}

/* ---- Ownership ------------------------------------------------------------------------------- */

/* A thread in block_on while another thread owns the runtime. */
struct aw__follower {
    aw__hold_parker *parker;
    struct aw__follower *next, *prev;
    aw__main_future main;
    aw__task task; /* only for the counts of the main future */
};

bool aw__rt_own(aw_runtime *rt) {
    uint32_t free = 0;
    if (!aw__cas(&rt->owned, &free, 1u)) return false;
    aw__context.runtime = aw__context.owned = rt;
    aw__context.task = &rt->current;
    aw__context.wheel = &rt->wheel;
    aw__context.thread_io = &rt->thread_io;
    aw__thread_io_begin(&rt->thread_io);
    if (AW__UNLIKELY(rt->embedded.used)) aw__embedded_awake(rt);
    return true;
}

/* The last thread to leave cancels the tasks: no thread would run them. Not with keep_tasks, nor in
 * an embedded runtime, which another event loop runs again; and in a runtime that is closing they
 * have been cancelled already. */
void aw__rt_disown(aw_runtime *rt) {
    bool open = !aw__load_relaxed(&rt->closing);
    if (open && !rt->keep_tasks && !rt->embedded.used && !aw__load_acquire(&rt->followers)) {
        aw__rt_end_tasks(rt, AW__CLOSING_FOR_NOW, AW_FOREVER);
        aw__store_release(&rt->closing, 0u);
    }
    aw__rt_disown_keep_tasks(rt);
}

/* Unparks the followers: one of them becomes the owner. */
void aw__rt_disown_keep_tasks(aw_runtime *rt) {
    aw__thread_io_leave(&rt->thread_io);
    if (AW__UNLIKELY(rt->embedded.used)) aw__embedded_asleep(rt);
    aw__context_leave();
    aw__store_release(&rt->owned, 0u);
    aw__lock(&rt->base.lock);
    for (struct aw__follower *w = rt->follower_list; w; w = w->next)
        aw__hold_unpark(w->parker);
    aw__unlock(&rt->base.lock);
}

/* ---- block_on -------------------------------------------------------------------------------- */

/* Run the main future to its end, as the owner. `so_far` is what its polls counted while this
 * thread was a follower. */
static int run_main(aw_runtime *rt, aw_future *f, const struct aw__follower *so_far,
                    aw__until until) {
    aw__task *t = &rt->main_task;
    rt->main = f;
    t->flags = AW__MAIN | (so_far->main.error ? AW__CANCEL : 0) |
               (so_far->task.flags & AW__BORROWS);
    t->armed += so_far->task.armed; /* a wait may span several block_on */
    rt->main_outside = so_far->main.outside;
    rt->outside += so_far->main.outside;
    t->fail = (int16_t)so_far->main.error;
    t->cancelling = 0;
    t->borrows = so_far->task.borrows;
    t->status = AW__RUNNING;
    aw__task_wake_local(rt, t);
    int error = aw__rt_run(rt, until);
    if (error) aw__report_deadlock(rt);
    if (!(t->flags & AW__DONE)) {
        /* The future is in the caller's memory: it must end before this returns. */
        aw__task_abort_local(t);
        if (aw__rt_run(rt, AW__MAIN_ENDED))
            aw__misuse("the main future '%s' cannot be cancelled: nothing will wake it",
                       f->type->name);
    }
    rt->main = NULL;
    /* A wait that was armed as a follower is armed again as the owner, because the waker changed,
     * but disarmed only once. So as many as `so_far` has may still be counted although they are
     * over. Each of them counts in `armed` too: `outside` is a part of that. What remains beyond
     * this number stays counted. */
    int64_t before = so_far->main.outside,
            counted_twice = rt->main_outside < before ? rt->main_outside : before;
    if (counted_twice > 0) {
        rt->outside -= counted_twice;
        t->armed -= (int32_t)counted_twice;
    }
    int status = t->status;
    return status == AW__FINISHED ? 0 : error && status == -ECANCELED ? error : status;
}

static void run_with_limit(aw_runtime *rt, uint64_t limit) {
    aw_sleep sleep = aw_sleep_for(limit);
    run_main(rt, &sleep.future, &(struct aw__follower){0}, AW__EITHER_ENDED);
}

/* Another thread owns the runtime: poll the future on this one. The owner serves its timers and
 * joins. When the owner leaves, take over. */
static int block_on_follower(aw_runtime *rt, aw_future *f) {
    struct aw__follower w = {.parker = aw__hold_parker_new(rt),
                             .main = aw__main_future_of(rt, f),
                             .task = {.flags = AW__MAIN}};
    if (!w.parker) {
        aw__cancel_unstarted(f);
        return -ENOMEM;
    }
    /* Like any outside thread, it does not hold a paused clock. */
    aw__fetch_add(&rt->followers, 1u);
    aw__lock(&rt->base.lock);
    aw__list_insert_head(&rt->follower_list, &w);
    aw__unlock(&rt->base.lock);

    aw_waker waker = aw__hold_parker_waker(w.parker);
    bool owner = false;
    aw_poll r = AW_PENDING;
    aw__context_follow(rt, NULL);
    while (!(owner = aw__rt_own(rt)) &&
           (r = aw__main_poll(rt, &w.main, &w.task, &waker)) == AW_PENDING)
        aw__hold_park(w.parker, AW_FOREVER);
    if (!owner) aw__context_leave();

    aw__lock(&rt->base.lock);
    aw__list_remove(&rt->follower_list, &w);
    aw__unlock(&rt->base.lock);
    aw__rt_unhold(rt, &rt->followers);
    int error = r == AW_CANCELLED ? w.main.error : 0;
    if (owner) {
        error = run_main(rt, f, &w, AW__MAIN_ENDED);
        aw__rt_disown(rt);
    }
    aw__hold_parker_free(w.parker);
    return error;
}

int aw__current_block_on(aw_runtime *rt, aw_future *f) {
    if (!aw__rt_own(rt)) return block_on_follower(rt, f);
    int error = run_main(rt, f, &(struct aw__follower){0}, AW__MAIN_ENDED);
    aw__rt_disown(rt);
    return error;
}
