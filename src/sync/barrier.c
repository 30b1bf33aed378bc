/* SPDX-License-Identifier: MIT
 *
 * Barrier. Everything is under the lock: whoever comes has to count and to queue in one step. The last one begins a new
 * generation, and from then on those of the one before have passed, also when they are not woken yet. */
#include <awake/barrier.h>

#include "sync/waiters.h"

/* Under the lock. */
static int come(aw__waiter *w) {
    aw_barrier *b = ((aw_barrier_wait_future *)(void *)w)->barrier;
    w->wants = b->generation;
    if (++b->here < b->count) return -EAGAIN;
    b->here = 0;
    b->generation++;
    return 1;
}

int aw_barrier_try_wait(aw_barrier *b) {
    aw__lock(&b->lock);
    if (b->here + 1 < b->count) {
        aw__unlock(&b->lock);
        return -EAGAIN;
    }
    b->here = 0;
    b->generation++;
    aw__end_older_and_unlock(&b->lock, &b->waiters, &b->generation, 0);
    return 1;
}

static aw_poll barrier_poll(aw_future *self, aw_cx *cx) {
    aw_barrier_wait_future *f = (aw_barrier_wait_future *)self;
    aw_barrier *b = f->barrier;
    aw_poll r = aw__wait_poll((aw__waiter *)f, &b->lock, &b->waiters, come, cx);
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
    bool left = aw__wait_leave_busy(&b->lock, &b->waiters, w);
    if (left) f->out = 0;
    if (!passed) b->here--;
    aw__unlock(&b->lock);
    return aw__wait_cancelled(w, !passed, cx);
}

const aw_future_type aw_barrier_wait_type = {
    AW_TYPE_OF(aw_barrier_wait_future, "barrier_wait"),
    .flags = AW_OUT_ERRNO,
    .poll = barrier_poll,
    .cancel = barrier_cancel,
};
