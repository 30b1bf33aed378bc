/* SPDX-License-Identifier: MIT
 *
 * Where a task that was woken goes, and who is told. */
#include "os/park.h"
#include "workers/pool.h"

void aw__worker_unpark(aw__worker *w) {
    aw__place_unpark(&w->place);
}

void aw__pool_notify(aw__pool *p) {
    aw__sleeper *s = aw__idle_notify(&p->idle);
    if (s) aw__worker_unpark((aw__worker *)(void *)((char *)s - offsetof(aw__worker, sleeper)));
}

void aw__worker_push(aw__worker *w, aw__task *t) {
    for (int tries = 0; !aw__ring_push(&w->ring, t);) {
        aw__task *last = NULL, *first = aw__ring_spill(&w->ring, &last);
        if (!first) { /* a thief has made room, or is about to */
            aw__os_wait(&tries);
            continue;
        }
        aw__count(&w->counters.overflows);
        aw__inject_push(&w->pool->inject, first, last);
    }
}

/* To its own worker, which must look whoever else is awake. */
static void push_pinned(aw__worker *w, aw__task *t) {
    if (aw__thread.worker == w) {
        aw__pinned_keep(&w->pinned, t);
        return;
    }
    aw__pinned_send(&w->pinned, t);
    aw__worker_unpark(w);
}

void aw__pool_schedule(aw__pool *p, aw__task *t, bool yielding) {
    aw__worker *w = aw__thread.worker;
    uint16_t pin = aw__load_relaxed(&t->pin);
    bool foreign = !w || w->pool != p;
    if (foreign && aw__rt_forked(p->rt)) return; /* nobody is there to run it */
    if (AW__UNLIKELY(pin)) {
        push_pinned(&p->workers[pin - 1], t);
        return;
    }
    if (foreign) {
        aw__inject_push(&p->inject, t, t);
    } else if (yielding) {
        aw__worker_push(w, t);
        w->untold = true; /* see aw__worker_main */
        return;
    } else {
        t = aw__lifo_put(&w->lifo, t);
        if (!t) return; /* the one that came is run next, by us */
        aw__worker_push(w, t);
    }
    aw__pool_notify(p);
}

bool aw__pool_anything(const aw__pool *p) {
    if (!aw__inject_is_empty(&p->inject)) return true;
    for (uint32_t i = 0; i < p->count; i++)
        if (!aw__ring_is_empty(&p->workers[i].ring)) return true;
    return false;
}

void aw__pool_unpark_all(aw__pool *p) {
    for (uint32_t i = 0; i < p->count; i++)
        aw__worker_unpark(&p->workers[i]);
}
