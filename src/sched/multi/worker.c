/* SPDX-License-Identifier: MIT
 *
 * The loop of a worker. One iteration runs a task: one of its own, one of the inject queue, one
 * that a timer made ready, or one stolen from another worker with half of its ring. Without a task
 * the worker sleeps.
 *
 * A worker runs its tasks in the order in which they became ready, those of the ring and the pinned
 * ones alike, except for the one in the LIFO slot. A task that yielded is in the same queues, where
 * other workers can steal it, and is marked AW__YIELDED. When its turn comes:
 *
 *   1. The worker polls timers and I/O, unless it has done so since the task yielded: then
 *      `poll_epoch` has changed. One poll counts for all tasks that yielded before it, so any
 *      number of them costs one poll per round.
 *   2. If a task that did not yield has become ready behind it, by that poll or before, the yielded
 *      task goes to the end of its queue and is marked AW__PASSED: it waits once, and runs when its
 *      turn comes again. It does not wait for other tasks that yielded. `nonyielded_end` tells
 *      whether a task that did not yield is behind it in the ring. */
#include "sched/multi/worker.h"

#include <string.h>

#include "base/misuse.h"
#include "fiber/fiber_state.h"
#include "os/park.h"
#include "sched/multi/monitor.h"
#include "sched/multi/pool.h"
#include "sched/multi/pool_task.h"
#include "sched/multi/quiescence.h"
#include "sched/multi/schedule.h"
#include "sched/park_deadline.h"
#include "sched/report.h"
#include "sched/run_task.h"

/* Every so many iterations, timers, I/O and the inject queue come before the worker's own tasks. */
enum { POLL_INTERVAL = 61 };

/* ---- One task -------------------------------------------------------------------------------- */

/* Pending, and nothing can wake it: no other thread has a waker. The task is still RUNNING, so no
 * other thread inspects the frame. */
static bool worker_task_is_lost(const aw__task *t, int32_t self_waits) {
    uint64_t word = aw__load_acquire(&t->word);
    uint64_t known = 1 + !!(word & AW__W_HANDLE);
    return t->armed <= self_waits && !(word & AW__W_NOTIFIED) && word / AW__W_REF <= known;
}

static void worker_run_task(aw__worker *w, aw__task *t) {
    aw_runtime *rt = w->pool->rt;
    aw_waker waker = {&aw__pool_waker_type, t};
    aw_cx cx = {&waker, rt, &w->meter};
    aw_future *f = aw__task_frame(t);
    bool cancel = aw__pool_begin(t);
    w->meter.pinned = w->self_woken = w->woken_not_yielded = false;
    aw__store_relaxed(&w->current, t);
    aw__count(&w->counters.polls);
    aw_poll r = aw__run_task(rt, t, f, &cx, &w->meter, cancel);
    aw__store_relaxed(&w->current, (aw__task *)NULL);
    if (w->meter.outside) aw__store_relaxed(&w->outside, w->outside + w->meter.outside);
    if (AW__UNLIKELY(w->meter.pinned) && !t->pin)
        aw__store_relaxed(&t->pin, (uint16_t)(w->index + 1));
    if (r != AW_PENDING) {
        aw__pool_complete(w->pool, t, r);
        return;
    }
    if (!w->self_woken && AW__UNLIKELY(worker_task_is_lost(t, w->meter.self_waits)))
        aw__report_lost(rt, t, f);
    if (w->self_woken && !w->woken_not_yielded) {
        t->flags |= AW__YIELDED;
        t->poll_epoch = w->poll_epoch;
    }
    /* From here on another worker may run it. */
    if (aw__pool_pause(t, w->self_woken)) aw__pool_schedule(w->pool, t, !w->woken_not_yielded);
}

/* ---- Tasks of other queues ------------------------------------------------------------------- */

/* A share of the inject queue; the first task is to be run now. */
static aw__task *take_injected(aw__worker *w) {
    aw__pool *p = w->pool;
    if (aw__inject_is_empty(&p->inject)) return NULL;
    /* During the pop the tasks behind the first are in no queue for a moment, and a worker may park
     * because of that: hence the notify below. At least one of them is taken along, so that there
     * is a batch, and a notify, whenever there are such tasks. */
    uint32_t extra = AW__RING_SIZE / 4 / p->count;
    aw__task *batch, *t = aw__inject_pop(&p->inject, extra ? extra : 1, &batch);
    if (!batch) return t;
    for (aw__task *next; batch; batch = next) {
        next = batch->next;
        aw__worker_push(w, batch);
    }
    aw__pool_notify(p);
    return t;
}

static void fire_timers(aw__worker *w) {
    aw__wheel *wheel = &w->wheel;
    if (aw__load_relaxed(&wheel->soonest) == AW_FOREVER) return;
    if (!wheel->looked) wheel->now = aw__rt_now(wheel->rt);
    if (aw__load_relaxed(&wheel->soonest) <= wheel->now) aw__wheel_advance(wheel, wheel->now);
    wheel->looked = false;
}

/* Steals a task, or takes one from the inject queue. */
static aw__task *search_task(aw__worker *w) {
    aw__pool *p = w->pool;
    /* Not the random numbers of the meter: the number of searches is a matter of chance, and the
     * choices of the tasks must not depend on it. */
    uint32_t start = (uint32_t)aw__random_seed(w->index, w->searches++);
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

/* ---- Its own tasks --------------------------------------------------------------------------- */

/* Rule 1: makes ready what a task that yielded has to wait for. */
static void poll_for_yield(aw__worker *w) {
    aw__task *t;
    w->poll_epoch++;
    w->wheel.looked = false; /* read the clock again */
    fire_timers(w);
    aw__thread_io_poll_for_yield(&w->thread_io);
    aw__pinned_fetch(&w->pinned, aw__ring_end(&w->ring));
    /* A full ring would spill at once what it gets. */
    if (aw__ring_length(&w->ring) < AW__RING_SIZE / 2 && (t = take_injected(w)))
        aw__pool_schedule(w->pool, t, false);
}

/* The task that has been ready longest. Those behind it have a ring position of `behind` or
 * above. */
static aw__task *take_oldest(aw__worker *w, uint32_t *behind) {
    const aw__task *pinned = w->pinned.ready.head;
    if (!pinned || (int32_t)(aw__ring_first(&w->ring) - pinned->ring_at) < 0) {
        aw__task *t = aw__ring_pop(&w->ring, behind);
        if (t) ++*behind;
        if (t || !pinned) return t;
    }
    *behind = pinned->ring_at;
    return aw__pinned_take(&w->pinned);
}

/* A task that yielded has its turn. False: other tasks go first (rule 2). A stolen task has the
 * epoch of another worker: usually it differs, and there is no poll here; if it is equal by chance,
 * there is one poll too many. */
static bool may_resume(aw__worker *w, aw__task *t, uint32_t behind) {
    if (t->poll_epoch == w->poll_epoch) poll_for_yield(w);
    return !aw__lifo_is_full(&w->lifo) && !w->pinned.nonyielded &&
           (int32_t)(w->nonyielded_end - behind) <= 0;
}

static void requeue_yielded(aw__worker *w, aw__task *t) {
    t->flags |= AW__PASSED;
    if (t->pin) {
        aw__pinned_push(&w->pinned, t, aw__ring_end(&w->ring));
    } else {
        aw__worker_push(w, t);
        w->notify_due = true;
    }
}

/* The LIFO task first, but not always (rule 3 of lifo.h). */
static aw__task *take_local(aw__worker *w) {
    uint32_t behind;
    for (;;) {
        aw__task *newest = aw__lifo_is_full(&w->lifo) ? aw__lifo_take(&w->lifo) : NULL;
        if (aw__lifo_may_run(&w->lifo, newest)) return newest;
        aw__pinned_fetch(&w->pinned, aw__ring_end(&w->ring));
        if (newest) {
            if (!w->pinned.ready.head && aw__ring_is_empty(&w->ring)) return newest;
            aw__pool_schedule(w->pool, newest, true);
        }
        aw__task *t = take_oldest(w, &behind);
        if (!t || (t->flags & (AW__YIELDED | AW__PASSED)) != AW__YIELDED) return t;
        if (may_resume(w, t, behind)) return t;
        requeue_yielded(w, t);
    }
}

static aw__task *worker_next_task(aw__worker *w) {
    aw__task *t;
    if (++w->tick % POLL_INTERVAL == 0) {
        fire_timers(w);
        aw__thread_io_poll(&w->thread_io);
        if ((t = take_injected(w))) return t;
    }
    if ((t = take_local(w)) || (t = take_injected(w))) return t;
    fire_timers(w);
    if ((t = take_local(w)) || w->pool->no_stealing) return t;
    if (!w->searching && !(w->searching = aw__idle_search(&w->pool->idle))) return NULL;
    return search_task(w);
}

/* ---- Sleeping -------------------------------------------------------------------------------- */

static void worker_park(aw__worker *w) {
    aw__pool *p = w->pool;
    aw__events events;
    events.count = 0;
    bool none_searches = aw__idle_park(&p->idle, &w->sleeper, w->searching);
    uint64_t next = aw__park_deadline(p->rt, aw__wheel_next(&w->wheel, false));
    bool work = none_searches && aw__pool_has_work(p);
    if (!work) aw__pool_check_quiescence(p);
    if (!work) aw__magazine_idle(w, aw__idle_parked(aw__load_relaxed(&p->idle.word)) == p->count);
    if (!work && !aw__pinned_sent(&w->pinned) && !aw__load_acquire(&p->stop)) {
        aw__count(&w->counters.parks);
        aw__busy_end(&w->busy, aw__os_now());
        if (aw__thread_io_park(&w->thread_io, next, &events)) aw__count(&w->counters.wakes);
        aw__busy_begin(&w->busy, aw__os_now());
    }
    w->searching = aw__idle_unpark(&p->idle, &w->sleeper);
    if (work && !w->searching) w->searching = aw__idle_search_on(&p->idle);
    if (aw__load_seq(&p->monitor_asleep)) aw__monitor_wake(p);
    aw__thread_io_deliver(&w->thread_io, &events);
}

void *aw__worker_main(void *arg) {
    aw__worker *w = arg;
    aw__pool *p = w->pool;
    int error = aw__thread_begins(&p->rt->threads, AW_THREAD_WORKER, w->index);
    if (error)
        aw__rt_log(p->rt, AW_LOG_INFO, "worker %u is not bound to a processor: %s", w->index,
                   strerror(-error));
    aw__context.runtime = p->rt;
    aw__context.task = &w->current;
    aw__context.worker = w;
    aw__context.wheel = &w->wheel;
    aw__context.thread_io = &w->thread_io;
    aw__thread_io_begin(&w->thread_io);
    aw__busy_begin(&w->busy, aw__os_now());
    while (!aw__load_acquire(&p->stop)) {
        aw__task *t = worker_next_task(w);
        if (!t) {
            worker_park(w);
            continue;
        }
        if (w->searching) {
            w->searching = false;
            if (aw__idle_found(&p->idle)) aw__pool_notify(p);
        }
        /* A task that yielded and is alone runs next on this worker; waking another worker for it
         * would only move it. So notify only when another task runs first. */
        if (w->notify_due) {
            w->notify_due = false;
            if (!aw__ring_is_empty(&w->ring)) aw__pool_notify(p);
        }
        worker_run_task(w, t);
    }
    /* Completes the operations that still wait: only this thread may enter its ring. */
    aw__thread_io_close(&w->thread_io);
    aw__thread_io_leave(&w->thread_io);
    aw__magazine_clear(w);
    aw__context_leave();
    aw__thread_ends(&p->rt->threads, AW_THREAD_WORKER, w->index);
    return NULL;
}
