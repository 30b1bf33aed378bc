/* SPDX-License-Identifier: MIT
 *
 * Checking for quiescence: the paused clock, and deadlocks. Any thread; see quiescence.h. */
#include "sched/multi/quiescence.h"

#include "os/park.h"
#include "sched/idle_check.h"
#include "sched/multi/monitor.h"
#include "sched/multi/schedule.h"

/* ---- Are all threads asleep? ----------------------------------------------------------------- */

/* Each worker is parked or in aw_block_in_place. An old value of `in_place_workers` does no harm: a
 * thread in aw_block_in_place checks by itself when it waits, and one that returns holds the
 * runtime until it has decremented the count. */
static bool all_parked_or_in_place(const aw__pool *p) {
    return aw__idle_parked(aw__load_seq(&p->idle.word)) + aw__load_acquire(&p->in_place_workers) ==
           p->count;
}

static bool workers_parked(aw__pool *p, uint64_t *stamp) {
    aw__lock(&p->idle.lock);
    bool all = all_parked_or_in_place(p);
    *stamp = p->idle.parks;
    aw__unlock(&p->idle.lock);
    return all;
}

/* Ignores tasks that cannot run before a call in aw_block_in_place returns, because that call may
 * wait for the clock: tasks pinned to a worker in such a call, and all tasks if every worker is. */
static bool queues_empty(const aw__pool *p) {
    if (aw__load_relaxed(&p->in_place_workers) == p->count) return true;
    for (uint32_t i = 0; i < p->count; i++) {
        const aw__worker *w = &p->workers[i];
        if (aw__pinned_sent(&w->pinned) && !aw__load_relaxed(&w->in_place)) return false;
    }
    return !aw__pool_has_work(p);
}

/* `stamp` changes once a worker was awake. */
static bool workers_quiescent(aw__pool *p, uint64_t *stamp) {
    return workers_parked(p, stamp) && queues_empty(p);
}

static void unwatch_block_ons(aw__block_on *b, const aw__block_on *end) {
    for (; b != end; b = b->next)
        aw__block_on_unwatch(b);
}

/* Keeps the threads in block_on asleep until they are unwatched. False: one is awake. */
static bool watch_block_ons(aw__pool *p) {
    aw__block_on *b;
    aw__lock(&p->rt->base.lock);
    for (b = p->block_ons; b && (aw__block_on_watch(b) || aw__block_on_is_in_place(b));)
        b = b->next;
    if (b) unwatch_block_ons(p->block_ons, b);
    aw__unlock(&p->rt->base.lock);
    return !b;
}

/* All are still asleep: none was woken, and no other thread has entered block_on. */
static bool block_ons_quiescent(aw__pool *p) {
    aw__lock(&p->rt->base.lock);
    const aw__block_on *b = p->block_ons;
    while (b && (aw__block_on_is_quiescent(b) || aw__block_on_is_in_place(b)))
        b = b->next;
    aw__unlock(&p->rt->base.lock);
    return !b;
}

static bool still_quiescent(aw__pool *p, uint64_t stamp) {
    uint64_t again;
    /* `holds` first: the monitor holds the runtime while a timer that it fires is in no wheel and
     * no queue. */
    return !aw__load_acquire(&p->rt->holds) && workers_quiescent(p, &again) && again == stamp &&
           block_ons_quiescent(p);
}

/* ---- The clock ------------------------------------------------------------------------------- */

/* The worker that has the next timer, and its time; NULL: there is no timer. */
static aw__worker *next_timer(aw__pool *p, bool exact, uint64_t *when) {
    aw__worker *first = NULL;
    *when = AW_FOREVER;
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t next = aw__wheel_next(&p->workers[i].wheel, exact);
        if (next >= *when) continue;
        *when = next;
        first = &p->workers[i];
    }
    return first;
}

/* If the clock stops at `watch_at`, the monitor checks long cancels, and then checks for quiescence
 * again. */
static void pool_jump_clock(aw__pool *p, aw__worker *w, uint64_t when) {
    uint64_t watch = aw__load_relaxed(&p->rt->watch_at);
    aw__clock_jump(p->rt, when, watch);
    if (watch >= when) aw__worker_unpark(w);
    if (watch <= when || aw__load_relaxed(&w->in_place)) aw__monitor_wake(p);
}

/* ---- Deadlock -------------------------------------------------------------------------------- */

/* Waits that something outside the runtime may end. Under the runtime's lock. */
static int64_t sum_outside_waits(const aw__pool *p) {
    int64_t n = 0;
    for (uint32_t i = 0; i < p->count; i++)
        n += aw__load_relaxed(&p->workers[i].outside);
    for (const aw__block_on *b = p->block_ons; b; b = b->next)
        n += aw__load_seq(&b->outside);
    return n;
}

static bool state_may_be_woken(uint64_t word) {
    uint64_t known = 1 + !!(word & AW__W_HANDLE);
    return word & (AW__W_NOTIFIED | AW__W_RUNNING) || word / AW__W_REF > known;
}

/* If so, the thread that drops the reference checks again (rule 8 of task_state.h). */
static bool task_may_be_woken(aw__task *t) {
    return state_may_be_woken(aw__load_acquire(&t->word)) &&
           state_may_be_woken(aw__word_request_check(&t->word));
}

static bool pool_any_may_be_woken(aw_runtime *rt) {
    aw__pool *p = rt->pool;
    bool found = false;
    for (int i = 0; i < AW__SHARDS && !found; i++) {
        aw__lock(&p->shards[i].lock);
        for (aw__slab *r = p->shards[i].slabs; r && !found; r = r->next)
            found = task_may_be_woken((aw__task *)(void *)(r + 1));
        aw__unlock(&p->shards[i].lock);
    }
    aw__lock(&p->rt->base.lock);
    for (const aw__block_on *b = p->block_ons; b; b = b->next)
        found |= aw__load_seq(&b->refs) > 1;
    aw__unlock(&p->rt->base.lock);
    return found;
}

/* Makes every block_on cancel its future with -EDEADLK; one of them reports the deadlock. Ends the
 * wait of a shutdown too. */
static void declare_deadlock(aw__pool *p) {
    bool first = true;
    aw__lock(&p->rt->base.lock);
    for (aw__block_on *b = p->block_ons; b; b = b->next) {
        if (!aw__block_on_is_quiescent(b)) continue;
        b->reports_deadlock = first;
        first = false;
        aw__fetch_add(&b->deadlocks, 1u);
        aw__block_on_wake(b); /* it runs once it is unwatched */
    }
    aw__unlock(&p->rt->base.lock);
    if (!aw__load_acquire(&p->ending)) return;
    aw__store_release(&p->deadlocked, 1u);
    aw__os_unpark(&p->ended_word);
    if (aw__load_seq(&p->abandoned)) aw__monitor_wake(p);
}

/* ---- The check ------------------------------------------------------------------------------- */

/* Whether a thread waits for the tasks, in block_on or in a shutdown. Without one the program may
 * still be spawning and setting up. */
static bool has_waiter(aw__pool *p, int64_t *outside_waits) {
    aw__lock(&p->rt->base.lock);
    bool any = p->block_ons || (aw__load_acquire(&p->ending) && aw__load_seq(&p->live));
    *outside_waits = sum_outside_waits(p);
    aw__unlock(&p->rt->base.lock);
    return any;
}

static void act_on_quiescence(aw__pool *p, bool paused) {
    uint64_t stamp, when;
    int64_t outside_waits;
    if (!workers_quiescent(p, &stamp) || !has_waiter(p, &outside_waits)) return;
    aw__worker *w = next_timer(p, paused, &when);
    aw__idle_action action = aw__idle_check(p->rt, paused, when, outside_waits,
                                            pool_any_may_be_woken);
    if (action == AW__IDLE_SLEEP || !still_quiescent(p, stamp)) return;
    if (action == AW__IDLE_JUMP)
        pool_jump_clock(p, w, when);
    else
        declare_deadlock(p);
}

void aw__pool_check_quiescence(aw__pool *p) {
    int64_t outside_waits;
    if (!all_parked_or_in_place(p)) return;
    if (aw__load_seq(&p->rt->holds) || aw__load_acquire(&p->stop)) return;
    if (aw__rt_forked(p->rt)) return; /* in the child of a fork the counted threads do not exist */
    bool paused = aw__load_acquire(&p->rt->base.paused);
    if (!has_waiter(p, &outside_waits) || (!paused && outside_waits > 0)) return;
    aw__lock(&p->quiescence_lock);
    if (watch_block_ons(p)) {
        act_on_quiescence(p, paused);
        aw__lock(&p->rt->base.lock);
        unwatch_block_ons(p->block_ons, NULL);
        aw__unlock(&p->rt->base.lock);
    }
    aw__unlock(&p->quiescence_lock);
}

void aw__pool_unhold(aw__pool *p, uint32_t *count) {
    aw__pool_ref(p);
    aw__fetch_sub_seq(count, 1u);
    aw__pool_check_quiescence(p);
    aw__pool_unref(p);
}
