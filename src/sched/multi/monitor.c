/* SPDX-License-Identifier: MIT
 *
 * The monitor: a thread that takes over for workers that are stuck in a poll, and reports cancels
 * that take long.
 *
 * Other workers can steal from the ring of a stuck worker, but they do not see the task in its LIFO
 * slot, and do not fire its timers. A worker is stuck if it is in a poll and its number of polls
 * has not changed since the last check. The monitor then moves its LIFO task to the inject queue,
 * fires its timers, polls its I/O, and wakes a worker for the tasks in its ring. Pinned tasks have
 * to wait.
 *
 * The monitor checks every few milliseconds while a worker is awake, and sleeps without a timeout
 * while all are parked. It stores `monitor_asleep` and then checks whether all are parked; a worker
 * that wakes up counts itself as awake and then loads `monitor_asleep` (all seq_cst): one of them
 * sees the other. */
#include "sched/multi/monitor.h"

#include "os/park.h"
#include "sched/multi/pool.h"
#include "sched/multi/pool_shutdown.h"
#include "sched/multi/pool_task.h"
#include "sched/multi/quiescence.h"
#include "sched/multi/schedule.h"
#include "sched/report.h"

enum { PERIOD_NS = 4000000, BLOCKED_NS = 1000000000 };

static bool all_parked(const aw__pool *p) {
    return aw__idle_parked(aw__load_seq(&p->idle.word)) == p->count;
}

/* ---- Cancels that take long ------------------------------------------------------------------ */

/* `cancelling` is incremented, and then `watch_at` is loaded: see aw__cancel_watch. */
void aw__pool_count_cancels(aw_runtime *rt, aw__task *t, int32_t change, bool ended) {
    bool counted = t->flags & AW__COUNTED, begins = aw__count_cancels(t, change, ended);
    if (counted && !(t->flags & AW__COUNTED)) aw__fetch_sub(&rt->cancelling, 1u);
    if (!begins) return;
    aw__fetch_add_seq(&rt->cancelling, 1u);
    if (aw__load_seq(&rt->watch_at) != AW_FOREVER) return;
    aw__cancel_watch_begin(rt);
    aw__monitor_wake(rt->pool);
}

/* The age of a cancel is counted in checks. A paused clock may have been advanced past several of
 * them: make up for each. */
static void catch_up(aw__pool *p) {
    uint64_t at, now;
    while ((at = aw__load_relaxed(&p->rt->watch_at)) <= (now = aw__rt_now(p->rt)))
        aw__cancel_watch(p->rt, aw__load_acquire(&p->rt->base.paused) ? at : now);
}

/* The time of the next check, by the clock of the operating system. */
static uint64_t watch_deadline(const aw_runtime *rt) {
    uint64_t at = aw__load_relaxed(&rt->watch_at);
    if (at == AW_FOREVER || aw__load_acquire(&rt->base.paused)) return AW_FOREVER;
    return at - aw__load_relaxed(&rt->base.clock_lead);
}

/* ---- Stuck workers --------------------------------------------------------------------------- */

static void take_over(aw__worker *w) {
    aw__pool *p = w->pool;
    uint64_t now = aw__rt_now(p->rt);
    /* A timer that fires is in no wheel and no queue for a moment: see still_quiescent. */
    aw__fetch_add(&p->rt->holds, 1u);
    if (aw__load_relaxed(&w->wheel.soonest) <= now) aw__wheel_advance(&w->wheel, now);
    aw__thread_io_poll(&w->thread_io);
    /* After the timers: when the worker's own thread calls this (aw_block_in_place), a task that a
     * timer woke is in the LIFO slot. */
    aw__lock(&p->quiescence_lock); /* for a moment the task is in no queue */
    aw__task *t = aw__lifo_take(&w->lifo);
    if (t) aw__inject_push(&p->inject, t, t);
    aw__unlock(&p->quiescence_lock);
    if (t || !aw__ring_is_empty(&w->ring)) aw__pool_notify(p);
    aw__pool_unhold(p, &p->rt->holds);
}

struct blocked {
    uint64_t since;
    bool reported;
};

/* In one poll since the last check, or in aw_block_in_place. */
static bool is_stuck(aw__worker *w) {
    uint64_t polls = aw__load_relaxed(&w->counters.polls);
    bool same = polls == w->polls_seen;
    w->polls_seen = polls;
    return aw__load_relaxed(&w->current) && (same || aw__load_relaxed(&w->in_place));
}

/* Every worker is in aw_block_in_place, and tasks are ready. No task runs until a call returns; if
 * the calls wait for these tasks, that is never. Logged once while it lasts. */
static void report_blocked(aw__pool *p, struct blocked *b) {
    if (aw__load_relaxed(&p->in_place_workers) < p->count || !aw__pool_has_work(p)) {
        *b = (struct blocked){0};
        return;
    }
    uint64_t now = aw__os_now();
    if (!b->since) b->since = now;
    if (b->reported || now - b->since < BLOCKED_NS) return;
    b->reported = true;
    aw__rt_log(p->rt, AW_LOG_PROBLEM,
               "all %u workers are in aw_block_in_place, and tasks that are ready wait for one of "
               "them: use aw_blocking, or more workers",
               p->count);
}

void *aw__monitor_main(void *arg) {
    aw__pool *p = arg;
    struct blocked blocked = {0};
    aw__thread_begins(&p->rt->threads, AW_THREAD_MONITOR, 0);
    while (!aw__load_acquire(&p->stop)) {
        aw__store_seq(&p->monitor_asleep, 1u);
        bool idle = all_parked(p);
        uint64_t until = idle ? AW_FOREVER : aw__os_now() + PERIOD_NS,
                 watch = watch_deadline(p->rt);
        if (!idle) aw__store_seq(&p->monitor_asleep, 0u);
        aw__os_park(&p->monitor_word, watch < until ? watch : until);
        aw__store_seq(&p->monitor_asleep, 0u);
        if (aw__pool_end_abandoned(p)) return NULL;
        if (aw__load_relaxed(&p->rt->watch_at) != AW_FOREVER) {
            catch_up(p);
            /* A paused clock does not pass watch_at: let it continue. */
            aw__pool_check_quiescence(p);
        }
        for (uint32_t i = 0; i < p->count; i++)
            if (is_stuck(&p->workers[i])) {
                aw__count(&p->workers[i].counters.takeovers);
                take_over(&p->workers[i]);
            }
        report_blocked(p, &blocked);
    }
    aw__thread_ends(&p->rt->threads, AW_THREAD_MONITOR, 0);
    return NULL;
}

void aw__monitor_wake(aw__pool *p) {
    aw__os_unpark(&p->monitor_word);
}

/* ---- aw_block_in_place ----------------------------------------------------------------------- */

void aw__worker_leave(aw__worker *w) {
    aw__pool *p = w->pool;
    aw__store_relaxed(&w->in_place, true);
    take_over(w);
    /* Hold the runtime before the worker is counted: a paused clock must wait for this thread. */
    aw__fetch_add(&p->rt->holds, 1u);
    aw__fetch_add_seq(&p->in_place_workers, 1u);
    aw__monitor_wake(p);
}

void aw__worker_return(aw__worker *w) {
    aw__pool *p = w->pool;
    aw__fetch_add_seq(&p->in_place_workers, -1u);
    aw__store_relaxed(&w->in_place, false);
    aw__pool_unhold(p, &p->rt->holds);
}
