/* SPDX-License-Identifier: MIT
 *
 * A thread that looks after workers that are stuck in a poll. What is in a worker's ring others can steal;
 * but nobody else sees the task in its LIFO place, and nobody fires its timers. A worker whose number of
 * polls has not changed from one look to the next, though it is in one, is stuck: the monitor hands its task
 * to all, fires its timers, and wakes somebody for what is in its ring. Pinned tasks have to wait for it.
 *
 * The monitor looks every few milliseconds while a worker is awake, and sleeps without a timeout while none
 * is. Going to sleep it says so, and then looks whether all are parked; a worker that wakes up says so, and
 * then looks whether the monitor sleeps (all sequentially consistent): one of them sees the other. */
#include <awake/blocking.h>

#include "os/park.h"
#include "workers/pool.h"
#include "workers/quiet.h"

enum { PERIOD_NS = 4000000 };

static bool all_parked(const aw__pool *p) {
    return aw__idle_parked(aw__load_seq(&p->idle.word)) == p->count;
}

/* ---- Cancels that take long ------------------------------------------------------------------- */

void aw__pool_count_cancels(aw__pool *p, aw__task *t, int32_t change, bool ended) {
    bool counted = t->flags & AW__COUNTED, begins = aw__count_cancels(t, change, ended);
    if (counted && !(t->flags & AW__COUNTED)) aw__fetch_sub(&p->cancelling, 1u);
    if (!begins) return;
    aw__fetch_add_seq(&p->cancelling, 1u); /* and then look: see watch */
    if (aw__load_seq(&p->rt->watch_at) != AW_FOREVER) return;
    aw__watch_begin(p->rt);
    aw__monitor_wake(p);
}

struct watched {
    bool again;
    uint32_t seen; /* tasks that count */
    aw__reports reports;
};

static void watch_one(aw__task *t, void *data) {
    struct watched *w = data;
    w->seen += (t->flags & AW__COUNTED) != 0;
    if (aw__watch_task(aw__task_rt(t), t, &w->reports)) w->again = true;
}

/* A paused clock does not go on while this looks: watch_at stays as it is until all are looked at. One that
 * was just running, or has just begun to count, is looked at next time: who begins counts itself and then
 * looks at watch_at, and this says that there is nothing to watch and then looks at the count. */
static void watch(aw__pool *p, uint64_t now) {
    struct watched w;
    w.again = false;
    w.seen = 0;
    w.reports.length = w.reports.left_out = 0;
    p->rt->looks++;
    aw__pool_each(p, watch_one, NULL, &w);
    aw__mains_each_asleep(p, watch_one, &w);
    aw__reports_log(p->rt, &w.reports);
    if (!w.again) aw__store_seq(&p->rt->watch_at, AW_FOREVER);
    if (w.again || w.seen < aw__load_seq(&p->cancelling)) aw__watch_again(p->rt, now);
}

/* Ages are counted in looks. A paused clock may have been moved beyond many: all of them are made up for. */
static void catch_up(aw__pool *p) {
    uint64_t at, now;
    while ((at = aw__load_relaxed(&p->rt->watch_at)) <= (now = aw__rt_now(p->rt)))
        watch(p, aw__load_acquire(&p->rt->paused) ? at : now);
}

/* When to wake up for it, by the system's clock. */
static uint64_t watch_deadline(const aw_runtime *rt) {
    uint64_t at = aw__load_relaxed(&rt->watch_at);
    if (at == AW_FOREVER || aw__load_acquire(&rt->paused)) return AW_FOREVER;
    return at - aw__load_relaxed(&rt->clock_lead);
}

/* ---- Workers that are stuck ------------------------------------------------------------------- */

static void take_over(aw__worker *w) {
    aw__pool *p = w->pool;
    uint64_t now = aw__rt_now(p->rt);
    if (aw__load_relaxed(&w->wheel.soonest) <= now) aw__wheel_advance(&w->wheel, now);
    aw__place_turn(&w->place);
    /* After the timers: on its own thread (aw_block_in_place) the task that one woke is here. */
    aw__lock(&p->look_lock); /* for a moment it is in no queue */
    aw__task *t = aw__lifo_take(&w->lifo);
    if (t) aw__inject_push(&p->inject, t, t);
    aw__unlock(&p->look_lock);
    if (t || !aw__ring_is_empty(&w->ring)) aw__pool_notify(p);
}

/* Since the last look. */
static bool is_stuck(aw__worker *w) {
    uint64_t polls = aw__load_relaxed(&w->counters.polls);
    bool same = polls == w->polls_seen;
    w->polls_seen = polls;
    return aw__load_relaxed(&w->current) && (same || aw__load_relaxed(&w->in_place));
}

void *aw__monitor_main(void *arg) {
    aw__pool *p = arg;
    aw__thread_begins(&p->rt->threads, AW_THREAD_MONITOR, 0);
    while (!aw__load_acquire(&p->stop)) {
        aw__store_seq(&p->monitor_asleep, 1u);
        bool rest = all_parked(p);
        uint64_t until = rest ? AW_FOREVER : aw__os_now() + PERIOD_NS, look = watch_deadline(p->rt);
        if (!rest) aw__store_seq(&p->monitor_asleep, 0u);
        aw__os_park(&p->monitor_word, look < until ? look : until);
        aw__store_seq(&p->monitor_asleep, 0u);
        if (aw__pool_end_alone(p)) return NULL;
        if (aw__load_relaxed(&p->rt->watch_at) != AW_FOREVER) {
            catch_up(p);
            aw__pool_look(p); /* a paused clock has waited for this */
        }
        for (uint32_t i = 0; i < p->count; i++)
            if (is_stuck(&p->workers[i])) {
                aw__count(&p->workers[i].counters.takeovers);
                take_over(&p->workers[i]);
            }
    }
    aw__thread_ends(&p->rt->threads, AW_THREAD_MONITOR, 0);
    return NULL;
}

void aw__monitor_wake(aw__pool *p) {
    aw__os_unpark(&p->monitor_word);
}

/* ---- Code that knows that it will block ------------------------------------------------------- */

long aw_block_in_place(long (*fn)(void *arg), void *arg) {
    aw__worker *w = aw__thread.worker;
    if (!w || !w->current) return fn(arg);
    bool outer = w->in_place;
    aw__store_relaxed(&w->in_place, true);
    take_over(w);
    aw__monitor_wake(w->pool);
    long result = fn(arg);
    aw__store_relaxed(&w->in_place, outer);
    return result;
}
