/* SPDX-License-Identifier: MIT
 *
 * The loop of a worker. One turn: a task of its own, or one from all, or what a timer makes ready, or half
 * of another worker's; or sleep. */
#include <string.h>

#include "core/misuse.h"
#include "fiber/fiber.h"
#include "os/park.h"
#include "workers/pool.h"
#include "workers/quiet.h"

enum {
    TURNS = 61 /* so often timers and the queue of all come first, whatever there is to do here */
};

/* ---- One task --------------------------------------------------------------------------------- */

/* Still RUNNING, so nobody else looks at the frame. Who has no waker cannot wake. */
static bool is_lost(const aw__task *t, int32_t own_waits) {
    uint64_t word = aw__load_acquire(&t->word);
    uint64_t own = 1 + !!(word & AW__W_HANDLE);
    return t->armed <= own_waits && !(word & AW__W_NOTIFIED) && word / AW__W_REF <= own;
}

static void run_task(aw__worker *w, aw__task *t) {
    aw_runtime *rt = w->pool->rt;
    aw_waker waker = {&aw__pool_waker_type, t};
    aw_cx cx = {&waker, rt, &w->meter};
    aw_future *f = aw__task_frame(t);
    bool cancel = aw__pool_begin(t);
    w->meter.budget = AW__UNLIKELY(t->flags & AW__FREELY) ? UINT32_MAX : rt->budget;
    w->meter.armed = w->meter.outside = w->meter.cancelling = w->meter.fail = 0;
    w->meter.own = 0;
    w->meter.pinned = w->woken = w->eager = false;
    if (AW__UNLIKELY(t->flags & AW__OPENED)) w->meter.opened = t->opened;
    aw__store_relaxed(&w->current, t);
    aw__count(&w->counters.polls);
    aw_poll r = AW__UNLIKELY(cancel) ? aw_future_cancel(f, &cx) : aw_future_poll(f, &cx);
    aw__store_relaxed(&w->current, (aw__task *)NULL);
    t->armed += w->meter.armed;
    if (w->meter.outside) aw__store_relaxed(&w->outside, w->outside + w->meter.outside);
    if (AW__UNLIKELY(w->meter.cancelling || t->flags & AW__COUNTED))
        aw__pool_count_cancels(w->pool, t, w->meter.cancelling, r != AW_PENDING);
    if (AW__UNLIKELY(w->meter.opened || t->flags & AW__OPENED)) aw__task_opened(t, &w->meter);
    if (AW__UNLIKELY(w->meter.pinned) && !t->pin)
        aw__store_relaxed(&t->pin, (uint16_t)(w->index + 1));
    if (AW__UNLIKELY(w->meter.fail) && r != AW_READY) {
        if (!t->fail) t->fail = (int16_t)w->meter.fail;
        if (r == AW_PENDING) {
            aw__word_abort(&t->word);
            aw__word_wake(&t->word); /* also when it fails once more in its cleanup */
        }
        w->eager = true;
    }
    if (r != AW_PENDING) {
        aw__pool_complete(w->pool, t, r);
        return;
    }
    if (!w->woken && AW__UNLIKELY(is_lost(t, w->meter.own))) aw__report_lost(rt, t);
    /* From here on another worker may run it. */
    if (aw__pool_pause(t, w->woken)) aw__pool_schedule(w->pool, t, !w->eager);
}

/* ---- Looking for one -------------------------------------------------------------------------- */

/* What was just woken first, but not for ever. */
static aw__task *take_own(aw__worker *w) {
    aw__task *last = aw__lifo_is_full(&w->lifo) ? aw__lifo_take(&w->lifo) : NULL;
    if (aw__lifo_may_run(&w->lifo, last)) return last;
    aw__task *t = aw__ring_pop(&w->ring);
    if (!last) return t;
    if (!t) return last;
    aw__pool_schedule(w->pool, last, true);
    return t;
}

/* A share of what is there for all, the first of it to be run. */
static aw__task *take_injected(aw__worker *w) {
    aw__pool *p = w->pool;
    if (aw__inject_is_empty(&p->inject)) return NULL;
    /* At least one more: what it would leave behind was out of sight for a moment, and nobody told. */
    uint32_t more = AW__RING_SIZE / 4 / p->count;
    aw__task *rest, *t = aw__inject_pop(&p->inject, more ? more : 1, &rest);
    if (!rest) return t;
    for (aw__task *next; rest; rest = next) {
        next = rest->next;
        aw__worker_push(w, rest);
    }
    aw__pool_notify(p); /* they were nobody's for a moment */
    return t;
}

static void fire_timers(aw__worker *w) {
    aw__wheel *wheel = &w->wheel;
    if (aw__load_relaxed(&wheel->soonest) == AW_FOREVER) return;
    if (!wheel->looked) wheel->now = aw__rt_now(wheel->rt);
    if (aw__load_relaxed(&wheel->soonest) <= wheel->now) aw__wheel_advance(wheel, wheel->now);
    wheel->looked = false;
}

static aw__task *steal(aw__worker *w) {
    aw__pool *p = w->pool;
    uint32_t start = (uint32_t)(w->meter.random = w->meter.random * 6364136223846793005u +
                                                  1442695040888963407u);
    for (uint32_t i = 0; i < p->count; i++) {
        aw__worker *victim = &p->workers[(start + i) % p->count];
        if (victim == w) continue;
        aw__task *t = aw__ring_steal(&victim->ring, &w->ring);
        if (t) {
            aw__count(&w->counters.steals);
            return t;
        }
    }
    return take_injected(w);
}

/* By turns: fibers that yield shall not keep the others away, nor the others them. */
static aw__task *take_local(aw__worker *w) {
    aw__task *t;
    if (w->tick % 2) return (t = aw__pinned_take(&w->pinned)) ? t : take_own(w);
    return (t = take_own(w)) ? t : aw__pinned_take(&w->pinned);
}

static aw__task *take(aw__worker *w) {
    aw__task *t;
    if (++w->tick % TURNS == 0) {
        fire_timers(w);
        aw__place_turn(&w->place);
        if ((t = take_injected(w))) return t;
    }
    if ((t = take_local(w)) || (t = take_injected(w))) return t;
    fire_timers(w);
    if ((t = take_local(w)) || w->pool->apart) return t;
    if (!w->searching && !(w->searching = aw__idle_search(&w->pool->idle))) return NULL;
    return steal(w);
}

/* ---- Sleeping --------------------------------------------------------------------------------- */

static void park(aw__worker *w) {
    aw__pool *p = w->pool;
    aw__events events;
    events.count = 0;
    bool last = aw__idle_park(&p->idle, &w->sleeper, w->searching);
    uint64_t next = aw__wheel_next(&w->wheel, false);
    if (aw__load_acquire(&p->rt->paused)) next = AW_FOREVER; /* it stands still */
    if (next != AW_FOREVER) next -= aw__load_relaxed(&p->rt->clock_lead);
    if (aw__stacks_here) {
        uint64_t stacks = aw__stacks_idle(aw__os_now());
        if (stacks < next) next = stacks;
    }
    bool work = last && aw__pool_anything(p);
    if (!work) aw__pool_look(p);
    if (!work) aw__shelf_idle(w, aw__idle_parked(aw__load_relaxed(&p->idle.word)) == p->count);
    if (!work && !aw__pinned_sent(&w->pinned) && !aw__load_acquire(&p->stop)) {
        aw__count(&w->counters.parks);
        aw__busy_end(&w->busy, aw__os_now());
        if (aw__place_park(&w->place, next, &events)) aw__count(&w->counters.wakes);
        aw__busy_begin(&w->busy, aw__os_now());
    }
    w->searching = aw__idle_unpark(&p->idle, &w->sleeper);
    if (work && !w->searching) w->searching = aw__idle_search_on(&p->idle);
    if (aw__load_seq(&p->monitor_asleep)) aw__monitor_wake(p);
    aw__place_tell(&w->place, &events);
}

void *aw__worker_main(void *arg) {
    aw__worker *w = arg;
    aw__pool *p = w->pool;
    int error = aw__thread_begins(&p->rt->threads, AW_THREAD_WORKER, w->index);
    if (error)
        aw__rt_log(p->rt, AW_LOG_INFO, "worker %u is not bound to a processor: %s", w->index,
                   strerror(-error));
    aw__thread.worker = w;
    aw__thread.wheel = &w->wheel;
    aw__place_begin(&w->place);
    aw__busy_begin(&w->busy, aw__os_now());
    while (!aw__load_acquire(&p->stop)) {
        aw__task *t = take(w);
        if (!t) {
            park(w);
            continue;
        }
        if (w->searching) {
            w->searching = false;
            if (aw__idle_found(&p->idle)) aw__pool_notify(p);
        }
        /* One that yielded and is alone runs next, here; to wake another for it would only make it move.
         * It is told only when something else is run first. */
        if (w->untold) {
            w->untold = false;
            if (!aw__ring_is_empty(&w->ring)) aw__pool_notify(p);
        }
        run_task(w, t);
    }
    /* Who still waits there is told, by the only thread that may enter its ring. */
    aw__place_close(&w->place);
    aw__place_leave(&w->place);
    aw__shelf_clear(w);
    aw__thread.worker = NULL;
    aw__thread.wheel = NULL;
    aw__thread_ends(&p->rt->threads, AW_THREAD_WORKER, w->index);
    return NULL;
}
