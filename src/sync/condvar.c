/* SPDX-License-Identifier: MIT
 *
 * Condition variable: a queue under a short lock. Any thread may signal. A wait has two stages:
 * waiting in the queue without the mutex, and locking the mutex again, with a future of its own.
 * Only the first stage can be cancelled.
 *
 * A broadcast may have to release the lock between wakes. It wakes the waiters of older
 * generations; a concurrent signal goes to the first waiter that came after the broadcast. */
#include <awake/condvar.h>

#include "future/waiters.h"

/* Values of `stage`. */
enum { CONDVAR_WAITING, CONDVAR_SIGNALLED, CONDVAR_CANCELLED };
/* Result of the wait in the queue; kept in `wants` while the mutex is locked again. */
enum { BY_BROADCAST, BY_SIGNAL };

void aw_condvar_signal(aw_condvar *c) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&c->lock);
    aw__waiter *w = c->waiters.first;
    while (w && (aw__waiter_is_busy(w) || aw__waiter_is_older(w, c->generation)))
        w = w->next;
    if (w) aw__waiter_end(&c->waiters, w, BY_SIGNAL, &wakes);
    aw__unlock(&c->lock);
    aw__wakes_run(&wakes);
}

void aw_condvar_broadcast(aw_condvar *c) {
    aw__lock(&c->lock);
    c->generation++;
    aw__end_older_and_unlock(&c->lock, &c->waiters, &c->generation, BY_BROADCAST);
}

/* ---- The future ------------------------------------------------------------------------------ */

static int condvar_queue(aw__waiter *w) {
    w->wants = ((aw_condvar_wait_future *)(void *)w)->condvar->generation;
    return -EAGAIN;
}

static aw_poll wait_for_signal(aw_condvar_wait_future *f, aw_cx *cx) {
    aw_condvar *c = f->condvar;
    aw__waiter *w = (aw__waiter *)f;
    bool fresh = !aw__wait_began(w);
    aw_poll r = aw__wait_poll(w, &c->lock, &c->waiters, condvar_queue, cx);
    if (fresh && aw__wait_began(w)) aw_mutex_unlock(f->relock.mutex);
    return r;
}

static aw_poll condvar_poll(aw_future *self, aw_cx *cx) {
    aw_condvar_wait_future *f = (aw_condvar_wait_future *)self;
    if (f->stage == CONDVAR_WAITING) {
        if (wait_for_signal(f, cx) == AW_PENDING) return AW_PENDING;
        f->stage = CONDVAR_SIGNALLED;
        f->wants = (uint32_t)f->out;
        f->out = 0;
    }
    return aw_future_poll(&f->relock.future, cx);
}

static aw_poll condvar_cancel(aw_future *self, aw_cx *cx) {
    aw_condvar_wait_future *f = (aw_condvar_wait_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED; /* the mutex is still held */
    if (f->stage == CONDVAR_WAITING) {
        aw__lock(&f->condvar->lock);
        bool dequeued = aw__wait_leave_busy(&f->condvar->lock, &f->condvar->waiters, w);
        aw__unlock(&f->condvar->lock);
        aw__wait_cancelled(w, dequeued, cx);
        f->stage = dequeued ? CONDVAR_CANCELLED : CONDVAR_SIGNALLED;
        f->wants = (uint32_t)f->out;
        f->out = 0;
    }
    if (aw_future_poll(&f->relock.future, cx) == AW_PENDING) return AW_PENDING;
    return f->stage == CONDVAR_CANCELLED ? AW_CANCELLED : AW_READY;
}

/* The caller keeps the mutex. A signal that was not used goes to the next waiter. */
static void condvar_discard(aw_future *self) {
    aw_condvar_wait_future *f = (aw_condvar_wait_future *)self;
    if (f->wants == BY_SIGNAL) aw_condvar_signal(f->condvar);
}

static const aw_future *condvar_child(const aw_future *self, size_t i) {
    const aw_condvar_wait_future *f = (const aw_condvar_wait_future *)self;
    return i == 0 && f->stage != CONDVAR_WAITING ? &f->relock.future : NULL;
}

const aw_future_type aw_condvar_wait_type = {
    AW_TYPE_OF(aw_condvar_wait_future, "condvar_wait"),
    .flags = AW_OUT_ERRNO,
    .poll = condvar_poll,
    .cancel = condvar_cancel,
    .discard = condvar_discard,
    .child = condvar_child,
};
