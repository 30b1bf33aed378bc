/* SPDX-License-Identifier: MIT
 *
 * Scheduling: the queue that a woken task goes to, and the worker that is notified. Any thread. */
#include "sched/multi/schedule.h"

#include "os/park.h"
#include "sched/multi/pool.h"

void aw__worker_unpark(aw__worker *w) {
    aw__thread_io_unpark(&w->thread_io);
}

void aw__pool_notify(aw__pool *p) {
    aw__sleeper *s = aw__idle_notify(&p->idle);
    if (s) aw__worker_unpark((aw__worker *)(void *)((char *)s - offsetof(aw__worker, sleeper)));
}

void aw__worker_push(aw__worker *w, aw__task *t) {
    bool yielded = t->flags & AW__YIELDED; /* after the push a thief may own the task */
    for (int tries = 0; !aw__ring_push(&w->ring, t);) {
        aw__task *last = NULL, *first = aw__ring_spill(&w->ring, &last);
        if (!first) { /* a thief has made space, or is about to */
            aw__os_wait(&tries);
            continue;
        }
        aw__count(&w->counters.overflows);
        aw__inject_push(&w->pool->inject, first, last);
    }
    if (!yielded) w->nonyielded_end = aw__ring_end(&w->ring);
}

/* Only its own worker can run it, so unpark that one even if other workers are awake. */
static void push_pinned(aw__worker *w, aw__task *t) {
    if (aw__context.worker == w) {
        aw__pinned_push(&w->pinned, t, aw__ring_end(&w->ring));
        return;
    }
    aw__pinned_send(&w->pinned, t);
    aw__worker_unpark(w);
}

void aw__pool_schedule(aw__pool *p, aw__task *t, bool to_ring) {
    aw__worker *w = aw__context.worker;
    uint16_t pin = aw__load_relaxed(&t->pin);
    bool foreign = !w || w->pool != p;
    if (foreign && aw__rt_forked(p->rt)) return; /* no worker exists in the child of a fork */
    if (AW__UNLIKELY(pin)) {
        push_pinned(&p->workers[pin - 1], t);
        return;
    }
    if (foreign) {
        aw__inject_push(&p->inject, t, t);
    } else if (to_ring) {
        aw__worker_push(w, t);
        w->notify_due = true; /* see aw__worker_main */
        return;
    } else {
        t = aw__lifo_put(&w->lifo, t);
        if (!t) return; /* this worker runs it next */
        aw__worker_push(w, t);
    }
    aw__pool_notify(p);
}

bool aw__pool_has_work(const aw__pool *p) {
    if (!aw__inject_is_empty(&p->inject)) return true;
    for (uint32_t i = 0; i < p->count; i++)
        if (!aw__ring_is_empty(&p->workers[i].ring)) return true;
    return false;
}

void aw__pool_unpark_all(aw__pool *p) {
    for (uint32_t i = 0; i < p->count; i++)
        aw__worker_unpark(&p->workers[i]);
}
