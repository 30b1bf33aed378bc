/* SPDX-License-Identifier: MIT
 *
 * block_on of the current-thread scheduler: which thread owns the runtime, the main future, and
 * threads that follow while another thread is the owner. */
#include <errno.h>

#include "base/misuse.h"
#include "future/unstarted.h"
#include "os/lock.h"
#include "sched/block_on.h"
#include "sched/current/current.h"
#include "sched/embedded.h"
#include "sched/report.h"
#include "task/hold.h"
#include "task/task_borrows.h"

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
    struct aw__follower *next;
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
static int run_main(aw_runtime *rt, aw_future *f, const aw__meter *so_far, aw__until until) {
    aw__task *t = &rt->main_task;
    rt->main = f;
    t->flags = AW__MAIN | (so_far->fail ? AW__CANCEL : 0) | (so_far->borrows ? AW__BORROWS : 0);
    t->armed += so_far->armed; /* a wait may span several block_on */
    rt->main_outside = so_far->outside;
    rt->outside += so_far->outside;
    t->fail = (int16_t)so_far->fail;
    t->cancelling = 0;
    t->borrows = (uint16_t)so_far->borrows;
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
    int64_t counted_twice = rt->main_outside < so_far->outside ? rt->main_outside : so_far->outside;
    if (counted_twice > 0) {
        rt->outside -= counted_twice;
        t->armed -= (int32_t)counted_twice;
    }
    int status = t->status;
    return status == AW__FINISHED ? 0 : error && status == -ECANCELED ? error : status;
}

static void run_with_limit(aw_runtime *rt, uint64_t limit) {
    aw_sleep sleep = aw_sleep_for(limit);
    run_main(rt, &sleep.future, &(aw__meter){0}, AW__EITHER_ENDED);
}

/* Another thread owns the runtime: poll the future on this one. The owner serves its timers and
 * joins. When the owner leaves, take over. */
static int block_on_follower(aw_runtime *rt, aw_future *f) {
    struct aw__follower w = {aw__hold_parker_new(rt), NULL};
    if (!w.parker) {
        aw__cancel_unstarted(f);
        return -ENOMEM;
    }
    /* A follower may still wake tasks, so while there is one there is no deadlock. Like any outside
     * thread, it does not hold a paused clock. */
    aw__fetch_add(&rt->followers, 1u);
    aw__lock(&rt->base.lock);
    w.next = rt->follower_list;
    rt->follower_list = &w;
    aw__unlock(&rt->base.lock);

    aw_waker waker = aw__hold_parker_waker(w.parker);
    aw__meter meter = {.budget = rt->base.budget,
                       .random = aw__rt_next_seed(rt),
                       .stack_size = rt->meter.stack_size};
    aw_cx cx = {&waker, rt, &meter};
    bool owner = false;
    int fail = 0;
    aw_poll r = AW_PENDING;
    aw__context_follow(rt, NULL);
    while (!(owner = aw__rt_own(rt))) {
        meter.fail = 0;
        r = fail ? aw_future_cancel(f, &cx) : aw_future_poll(f, &cx);
        if (r != AW_PENDING) {
            aw__borrow_check_main(f, meter.borrows);
            break;
        }
        meter.budget = rt->base.budget;
        /* If it fails again during the cancel, the cancel is polled again at once. */
        if (!fail && meter.fail)
            fail = meter.fail; /* cancel it in the next iteration */
        else if (!meter.fail)
            aw__hold_park(w.parker, AW_FOREVER);
    }
    if (!owner) aw__context_leave();

    aw__lock(&rt->base.lock);
    struct aw__follower **at = &rt->follower_list;
    while (*at != &w)
        at = &(*at)->next;
    *at = w.next;
    aw__unlock(&rt->base.lock);
    aw__rt_unhold(rt, &rt->followers);
    int error = r == AW_CANCELLED ? fail : 0;
    meter.fail = fail;
    if (owner) {
        error = run_main(rt, f, &meter, AW__MAIN_ENDED);
        aw__rt_disown(rt);
    }
    aw__hold_parker_free(w.parker);
    return error;
}

int aw__current_block_on(aw_runtime *rt, aw_future *f) {
    if (!aw__rt_own(rt)) return block_on_follower(rt, f);
    int error = run_main(rt, f, &(aw__meter){0}, AW__MAIN_ENDED);
    aw__rt_disown(rt);
    return error;
}
