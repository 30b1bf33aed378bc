/* SPDX-License-Identifier: MIT
 *
 * The loop of the current-thread scheduler. Owner only.
 *
 * One iteration: run a batch of tasks; serve the inbox; fire timers; poll the driver; make yielded
 * tasks ready again. When nothing is ready, sleep until the next timer, event or inbox request. */
#include <errno.h>

#include "sched/current/current.h"
#include "sched/park_deadline.h"
#include "sched/report.h"
#include "task/inbox.h"
#include "task/owner_park.h"

/* ---- One task -------------------------------------------------------------------------------- */

static void fail_task(aw_runtime *rt, aw__task *t, aw_poll r) {
    if (r == AW_READY) return;
    if (!t->fail) t->fail = (int16_t)rt->meter.fail;
    if (r == AW_PENDING) t->flags |= AW__CANCEL | AW__QUEUED;
}

/* Rare cases before and after a poll, kept out of the hot path. */
static AW__COLD aw_poll poll_special(aw_runtime *rt, aw__task *t, aw_future *f, aw_cx *cx) {
    if (t->flags & AW__UNBUDGETED) rt->meter.budget = UINT32_MAX;
    rt->meter.borrows = t->borrows;
    return t->flags & AW__CANCEL ? aw_future_cancel(f, cx) : aw_future_poll(f, cx);
}

static AW__COLD void count_special(aw_runtime *rt, aw__task *t, aw_poll r) {
    aw__task_save_borrows(t, &rt->meter);
    if (rt->meter.fail) fail_task(rt, t, r);
    if ((rt->meter.cancelling || t->flags & AW__COUNTED) &&
        aw__count_cancels(t, rt->meter.cancelling, r != AW_PENDING) && rt->watch_at == AW_FOREVER)
        aw__cancel_watch_begin(rt);
}

/* True: the task has ended. */
static inline bool loop_run_task(aw_runtime *rt, aw__task *t, aw_cx *cx) {
    uint16_t flags = t->flags & (uint16_t) ~(AW__QUEUED | AW__YIELDED);
    aw_future *f = AW__UNLIKELY(flags & AW__MAIN) ? rt->main : aw__task_frame(t);
    rt->meter.budget = rt->base.budget;
    rt->meter.armed = rt->meter.outside = rt->meter.cancelling = rt->meter.fail = 0;
    rt->meter.self_waits = 0;
    rt->current = t;
    t->flags = flags;
    const uint16_t special = AW__UNBUDGETED | AW__CANCEL | AW__BORROWS;
    aw_poll r = AW__UNLIKELY(flags & special) ? poll_special(rt, t, f, cx) : aw_future_poll(f, cx);
    rt->current = NULL;
    t->armed += rt->meter.armed;
    rt->outside += rt->meter.outside;
    if (AW__UNLIKELY(flags & AW__MAIN)) rt->main_outside += rt->meter.outside;
    if (AW__UNLIKELY(rt->meter.fail | rt->meter.cancelling | (int32_t)rt->meter.borrows ||
                     flags & (AW__COUNTED | AW__BORROWS)))
        count_special(rt, t, r);
    if (r != AW_PENDING)
        aw__task_complete(rt, t, r);
    else if (t->flags & AW__QUEUED) /* woken while it ran */
        aw__queue_push(t->flags & AW__YIELDED ? &rt->yielded : &rt->ready, t);
    else if (AW__UNLIKELY(t->armed <= rt->meter.self_waits))
        aw__report_if_lost(rt, t);
    return r != AW_PENDING;
}

/* ---- The queue ------------------------------------------------------------------------------- */

/* The seam picks one of the first 32 ready tasks. */
static AW__COLD aw__task *ready_pick(aw_runtime *rt) {
    aw__queue *q = &rt->ready;
    aw__task *before = NULL, *t = q->head;
    uint32_t n = 0, i;
    for (const aw__task *next = t; next && n < 32; next = next->next)
        n++;
    i = n > 1 ? rt->base.seam.pick(rt->base.seam.data, n) : 0;
    for (i = i < n ? i : 0; i; i--) {
        before = t;
        t = t->next;
    }
    if (before)
        before->next = t->next;
    else
        q->head = t->next;
    if (q->tail == t) q->tail = before;
    return t;
}

static inline aw__task *ready_pop(aw_runtime *rt) {
    aw__queue *q = &rt->ready;
    aw__task *t = q->head;
    if (!t) return NULL;
    if (AW__UNLIKELY(rt->base.seam.pick != NULL)) return ready_pick(rt);
    q->head = t->next;
    if (!q->head) q->tail = NULL;
    return t;
}

/* Yielded tasks run after those that are ready. */
static void append_yielded(aw_runtime *rt) {
    aw__queue *q = &rt->ready, *y = &rt->yielded;
    if (!y->head) return;
    if (q->tail)
        q->tail->next = y->head;
    else
        q->head = y->head;
    q->tail = y->tail;
    *y = (aw__queue){NULL, NULL};
}

void aw__rt_drain_inbox(aw_runtime *rt) {
    for (aw__task *t = aw__inbox_take(rt), *next; t; t = next) {
        next = t->inbox_next; /* once served, it may be freed, or in the inbox again */
        aw__task_serve(t);
    }
}

/* ---- Sleeping -------------------------------------------------------------------------------- */

/* Nothing is ready: a paused clock jumps to the next timer, unless a thread holds the runtime.
 * False: it is not paused, it is held, or there is no timer. */
static bool jump_clock(aw_runtime *rt) {
    if (!aw__load_relaxed(&rt->base.paused) || aw__load_acquire(&rt->holds)) return false;
    uint64_t next = aw__wheel_next(&rt->wheel, true);
    if (next == AW_FOREVER) return false;
    if (rt->watch_at < next) next = rt->watch_at;
    if (aw__load_relaxed(&rt->inbox) == NULL && next > aw__load_relaxed(&rt->base.paused_now))
        aw__store_release(&rt->base.paused_now, next);
    return true;
}

/* The deadline of the next sleep, in the seam's clock. */
static uint64_t loop_next_deadline(aw_runtime *rt, bool *timer) {
    uint64_t next = aw__wheel_next(&rt->wheel, false);
    *timer = next != AW_FOREVER;
    if (rt->watch_at < next) next = rt->watch_at;
    return aw__park_deadline(rt, next);
}

/* Nothing is ready: sleep. -EDEADLK when nothing can ever become ready. */
static int loop_idle(aw_runtime *rt) {
    bool timer;
    if (jump_clock(rt)) return 0;
    uint64_t next = loop_next_deadline(rt, &timer);
    if (!timer && !aw__load_acquire(&rt->holds) && !aw__load_acquire(&rt->followers) &&
        aw__is_deadlock(rt))
        return -EDEADLK;
    if (!aw__inbox_park(rt)) return 0;
    aw__rt_park(rt, next);
    aw__inbox_unpark(rt);
    aw__rt_drain_inbox(rt);
    return 0;
}

static inline bool loop_is_done(const aw_runtime *rt, aw__until until) {
    if (until != AW__MAIN_ENDED && rt->live == 0) return true;
    return until != AW__ALL_ENDED && rt->main_task.flags & AW__DONE;
}

/* Run a batch of tasks, then serve everything that can make tasks ready. True: the loop is done. */
static inline __attribute__((always_inline)) bool loop_iterate(aw_runtime *rt, aw__until until) {
    enum { TASK_BATCH = 64 };
    aw_waker waker = {&aw__task_waker_type, NULL};
    aw_cx cx = {&waker, rt, &rt->meter};
    aw__task *t;
    for (int n = 0; n < TASK_BATCH && (t = ready_pop(rt)); n++) {
        waker.data = t;
        if (loop_run_task(rt, t, &cx) && loop_is_done(rt, until)) return true;
    }
    if (aw__load_relaxed(&rt->inbox)) aw__rt_drain_inbox(rt);
    /* Unlocked: a thread that inserts a timer later unparks the owner according to `asleep`. */
    uint64_t soonest = aw__load_relaxed(&rt->wheel.soonest);
    if (soonest != AW_FOREVER || rt->watch_at != AW_FOREVER) {
        /* Yielded tasks run after all timers that are due now: a cached time is too old. */
        if (!rt->wheel.looked || rt->yielded.head) rt->wheel.now = aw__rt_now(rt);
        uint64_t now = rt->wheel.now;
        if (soonest <= now) aw__wheel_advance(&rt->wheel, now);
        if (rt->watch_at <= now) aw__cancel_watch(rt, now);
    }
    rt->wheel.looked = false;
    if (rt->yielded.head)
        aw__thread_io_poll_for_yield(&rt->thread_io);
    else if (rt->ready.head) /* otherwise loop_idle polls it */
        aw__thread_io_poll(&rt->thread_io);
    append_yielded(rt);
    return loop_is_done(rt, until);
}

int aw__rt_run(aw_runtime *rt, aw__until until) {
    while (!loop_iterate(rt, until))
        if (!rt->ready.head) {
            int error = loop_idle(rt);
            if (error) return error;
        }
    return 0;
}

bool aw__rt_run_once(aw_runtime *rt) {
    enum { MAX_ITERATIONS = 16 }; /* then return to the caller */
    for (int i = 0; i < MAX_ITERATIONS; i++) {
        loop_iterate(rt, AW__ALL_ENDED);
        if (rt->ready.head || jump_clock(rt)) continue;
        aw__thread_io_poll(&rt->thread_io);
        if (aw__load_relaxed(&rt->inbox)) aw__rt_drain_inbox(rt);
        if (!rt->ready.head) return false;
    }
    return true;
}

uint64_t aw__rt_next_deadline(aw_runtime *rt) {
    bool timer;
    return loop_next_deadline(rt, &timer);
}
