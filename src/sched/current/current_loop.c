/* SPDX-License-Identifier: MIT
 *
 * The loop of the current-thread scheduler. Owner only.
 *
 * One iteration: run a batch of tasks; serve the inbox; fire timers; poll the driver; make yielded
 * tasks ready again. When nothing is ready, sleep until the next timer, event or inbox request. */
#include <errno.h>

#include "sched/current/current.h"
#include "sched/idle_check.h"
#include "sched/park_deadline.h"
#include "sched/report.h"
#include "sched/run_task.h"
#include "task/inbox.h"
#include "task/owner_park.h"

/* ---- Wakers ---------------------------------------------------------------------------------- */

static int known_references(const aw__task *t) {
    return t->flags & AW__HANDLE ? 2 : 1; /* of the runtime, and of the handle */
}

/* Whether a waker of the task exists, or a request is pending. One load: a wake and the drop after
 * it are in the same word. */
static AW__COLD bool loop_may_be_woken(const aw__task *t) {
    uint32_t shared = aw__load_acquire(&t->shared);
    return shared & AW__INBOX || t->local + aw__ref_count(shared) > known_references(t);
}

/* As loop_may_be_woken, before a sleep. If wakers exist, their references move to `shared` and
 * WATCH is set (rule 3 of task_header.h): the drop of the last one must wake the owner, because it
 * may complete a deadlock. */
static bool watch_wakers(aw__task *t) {
    uint32_t old = aw__load_acquire(&t->shared), new;
    do {
        int32_t wakers = t->local + aw__ref_count(old) - known_references(t);
        if (old & AW__INBOX) return true;
        if (wakers <= 0) return false;
        new = AW__WATCH | (uint32_t)(wakers * AW__REF);
    } while (!aw__cas(&t->shared, &old, new));
    t->local = known_references(t);
    return true;
}

/* Checks the inbox last: a thread may have pushed a request before it dropped its reference. */
static bool loop_any_may_be_woken(aw_runtime *rt) {
    if (rt->main && watch_wakers(&rt->main_task)) return true;
    aw__task *t;
    for (aw__task_walk w = {.rt = rt}; (t = aw__task_walk_next(&w));)
        if (watch_wakers(t)) return true;
    return aw__load_acquire(&rt->inbox) != NULL;
}

/* ---- One task -------------------------------------------------------------------------------- */

/* True: the task has ended. */
static inline bool loop_run_task(aw_runtime *rt, aw__task *t, aw_cx *cx) {
    uint16_t flags = t->flags & (uint16_t) ~(AW__QUEUED | AW__YIELDED);
    aw_future *f = AW__UNLIKELY(flags & AW__MAIN) ? rt->main : aw__task_frame(t);
    rt->current = t;
    t->flags = flags;
    aw_poll r = aw__run_task(rt, t, f, cx, &rt->meter, flags & AW__CANCEL);
    rt->current = NULL;
    rt->outside += rt->meter.outside;
    if (AW__UNLIKELY(flags & AW__MAIN)) rt->main_outside += rt->meter.outside;
    if (r != AW_PENDING)
        aw__task_complete(rt, t, r);
    else if (t->flags & AW__QUEUED) /* woken while it ran */
        aw__queue_push(t->flags & AW__YIELDED ? &rt->yielded : &rt->ready, t);
    else if (AW__UNLIKELY(t->armed <= rt->meter.self_waits) && !loop_may_be_woken(t))
        aw__report_lost(rt, t, f);
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

/* Nothing is ready. Returns AW__IDLE_JUMP after it has advanced the clock. A follower may still wake
 * tasks, so while there is one there is no deadlock; nor is there one in an embedded runtime, whose
 * foreign loop may wake tasks at any time. */
static aw__idle_action loop_check_idle(aw_runtime *rt, bool embedded) {
    if (aw__load_acquire(&rt->holds)) return AW__IDLE_SLEEP;
    int64_t outside = embedded ? 1 : rt->outside + aw__load_acquire(&rt->followers);
    bool paused = aw__load_relaxed(&rt->base.paused);
    uint64_t timer = aw__wheel_next(&rt->wheel, paused);
    aw__idle_action action = aw__idle_check(rt, paused, timer, outside, loop_any_may_be_woken);
    if (action == AW__IDLE_JUMP && !aw__load_relaxed(&rt->inbox))
        aw__clock_jump(rt, timer, rt->watch_at);
    return action;
}

uint64_t aw__rt_next_deadline(aw_runtime *rt) {
    uint64_t next = aw__wheel_next(&rt->wheel, false);
    return aw__park_deadline(rt, rt->watch_at < next ? rt->watch_at : next);
}

/* Nothing is ready: sleep. -EDEADLK when nothing can ever become ready. */
static int loop_idle(aw_runtime *rt) {
    switch (loop_check_idle(rt, false)) {
    case AW__IDLE_JUMP: return 0;
    case AW__IDLE_DEADLOCK: return -EDEADLK;
    case AW__IDLE_SLEEP: break;
    }
    uint64_t next = aw__rt_next_deadline(rt);
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
        if (rt->ready.head || loop_check_idle(rt, true) == AW__IDLE_JUMP) continue;
        aw__thread_io_poll(&rt->thread_io);
        if (aw__load_relaxed(&rt->inbox)) aw__rt_drain_inbox(rt);
        if (!rt->ready.head) return false;
    }
    return true;
}
