/* SPDX-License-Identifier: MIT
 *
 * Barrier. Any thread may call these functions. Everything is under the lock: an arrival must be
 * counted and queued in one step. The last arrival begins a new generation. From then on the
 * waiters of the previous generation have passed, even if they are not woken yet. */
#include <awake/barrier.h>

#include "future/waiters.h"

/* Under the lock. 1: this is the last arrival. */
static int barrier_arrive(aw__waiter *w) {
    aw_barrier *b = ((aw_barrier_wait_future *)(void *)w)->barrier;
    w->wants = b->generation;
    if (++b->arrived < b->count) return -EAGAIN;
    b->arrived = 0;
    b->generation++;
    return 1;
}

int aw_barrier_try_wait(aw_barrier *b) {
    aw__lock(&b->lock);
    if (b->arrived + 1 < b->count) {
        aw__unlock(&b->lock);
        return -EAGAIN;
    }
    b->arrived = 0;
    b->generation++;
    aw__end_older_and_unlock(&b->lock, &b->waiters, &b->generation, 0);
    return 1;
}

static aw_poll barrier_poll(aw_future *self, aw_cx *cx) {
    aw_barrier_wait_future *f = (aw_barrier_wait_future *)self;
    aw_barrier *b = f->barrier;
    aw_poll r = aw__wait_poll((aw__waiter *)f, &b->lock, &b->waiters, barrier_arrive, cx);
    if (r == AW_READY && f->out == 1) {
        aw__lock(&b->lock);
        aw__end_older_and_unlock(&b->lock, &b->waiters, &b->generation, 0);
    }
    return r;
}

static aw_poll barrier_cancel(aw_future *self, aw_cx *cx) {
    aw_barrier_wait_future *f = (aw_barrier_wait_future *)self;
    aw_barrier *b = f->barrier;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&b->lock);
    bool passed = aw__waiter_is_older(w, b->generation);
    bool dequeued = aw__wait_leave_busy(&b->lock, &b->waiters, w);
    if (dequeued) f->out = 0;
    if (!passed) b->arrived--;
    aw__unlock(&b->lock);
    return aw__wait_cancelled(w, !passed, cx);
}

const aw_future_type aw_barrier_wait_type = {
    AW_TYPE_OF(aw_barrier_wait_future, "barrier_wait"),
    .flags = AW_OUT_ERRNO,
    .poll = barrier_poll,
    .cancel = barrier_cancel,
};
