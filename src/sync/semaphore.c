/* SPDX-License-Identifier: MIT
 *
 * Semaphore. `state` has the number of permits and two bits. While nobody waits, to acquire is one
 * compare-and-swap and so is to release: no lock. The queue is under the lock (waiters.h); it is not lock-free because
 * what a release gives may be for several at once, in order.
 *
 *   1. QUEUED says that somebody waits. It is set and cleared under the lock. While it is set, permits are added
 *      and taken under the lock only: so nobody overtakes the first one, and what stands in the queue cannot
 *      have what it wants. Who sets it sees in the same compare-and-swap that the permits do not suffice.
 *   2. Who has acquired may free the semaphore, if he knows that nobody else uses it; the release that gave him the
 *      permits may still be in its call. So it does not touch the semaphore after the addition or, with the lock, after
 *      that is free; and who has acquired has seen the lock free since: in the queue by rule 3 of waiters.h, without it
 *      by a look.
 *   3. CLOSED is for ever, and ends the wait of all. */
#include <awake/semaphore.h>

#include "sync/semaphore.h"
#include "sync/waiters.h"

enum { QUEUED = 1, CLOSED = 2, ONE = 4 };

static uint32_t permits_of(uint32_t state) {
    return state / ONE;
}

int aw_semaphore_try_acquire(aw_semaphore *s, uint32_t permits) {
    if (permits > AW_SEMAPHORE_MAX) return -EINVAL;
    uint32_t state = aw__load_relaxed(&s->state);
    do {
        if (state & CLOSED) return -EPIPE;
        if (state & QUEUED || permits_of(state) < permits) return -EAGAIN;
    } while (!aw__cas(&s->state, &state, state - permits * ONE));
    if (AW__UNLIKELY(aw__load_acquire(&s->lock))) { /* rule 2 */
        aw__lock(&s->lock);
        aw__unlock(&s->lock);
    }
    return 0;
}

/* Under the lock, with so many permits more: those at the front get what they want. What remains can be seen
 * afterwards, and not before: rule 1 lets us count on our own meanwhile. False: the wakes are full. */
static bool hand_out(aw_semaphore *s, uint32_t more, aw__wakes *wakes) {
    uint32_t state = aw__load_relaxed(&s->state), closed = state & CLOSED;
    if (!(state & QUEUED)) return true;
    uint32_t permits = permits_of(state) + more;
    bool full = false;
    for (aw__waiter *w; (w = s->waiters.first) && !aw__waiter_is_busy(w);) {
        if (!closed && permits < w->wants) break;
        if ((full = aw__wakes_full(wakes))) break;
        if (!closed) permits -= w->wants;
        aw__waiter_end(&s->waiters, w, closed ? -EPIPE : 0, wakes);
    }
    uint32_t queued = s->waiters.first ? QUEUED : 0;
    aw__store_release(&s->state, permits * ONE | closed | queued);
    return !full;
}

/* With the lock; without it afterwards. */
static void hand_out_and_unlock(aw_semaphore *s, uint32_t more) {
    aw__wakes wakes = {.count = 0};
    for (; !hand_out(s, more, &wakes); more = 0)
        if (!aw__wakes_between(&s->lock, &s->waiters, &wakes)) return;
    aw__unlock(&s->lock);
    aw__wakes_run(&wakes);
}

/* While nobody waits. -EAGAIN: somebody does. */
static int add(aw_semaphore *s, uint32_t permits) {
    uint32_t state = aw__load_relaxed(&s->state);
    do {
        if (permits > AW_SEMAPHORE_MAX - permits_of(state)) return -EOVERFLOW;
        if (state & QUEUED) return -EAGAIN;
    } while (!aw__cas(&s->state, &state, state + permits * ONE));
    return 0;
}

int aw_semaphore_release(aw_semaphore *s, uint32_t permits) {
    int error = add(s, permits);
    if (error != -EAGAIN) return error;
    aw__lock(&s->lock);
    error = add(s, permits); /* those who waited may have left */
    if (error != -EAGAIN) {
        aw__unlock(&s->lock);
        return error;
    }
    hand_out_and_unlock(s, permits);
    return 0;
}

void aw_semaphore_close(aw_semaphore *s) {
    aw__lock(&s->lock);
    aw__fetch_or(&s->state, (uint32_t)CLOSED);
    hand_out_and_unlock(s, 0);
}

bool aw_semaphore_is_closed(const aw_semaphore *s) {
    return aw__load_acquire(&s->state) & CLOSED;
}

uint32_t aw_semaphore_available(const aw_semaphore *s) {
    return permits_of(aw__load_relaxed(&s->state));
}

/* ---- The future ------------------------------------------------------------------------------- */

/* Under the lock: take them, or say that somebody waits. */
static int take_or_queue(aw__waiter *w) {
    aw_semaphore *s = ((aw_acquire *)(void *)w)->semaphore;
    uint32_t state = aw__load_relaxed(&s->state), next;
    bool enough;
    do {
        if (state & CLOSED) return -EPIPE;
        if (state & QUEUED) return -EAGAIN; /* rule 1: it stays so */
        enough = permits_of(state) >= w->wants;
        next = enough ? state - w->wants * ONE : state | QUEUED;
    } while (!aw__cas(&s->state, &state, next));
    return enough ? 0 : -EAGAIN;
}

aw_poll aw__acquire_poll(aw_future *self, aw_cx *cx) {
    aw_acquire *f = (aw_acquire *)self;
    aw_semaphore *s = f->semaphore;
    if (!aw__wait_began((aw__waiter *)f) && !aw_cx_exhausted(cx)) {
        f->out = aw_semaphore_try_acquire(s, f->wants);
        if (f->out != -EAGAIN) {
            aw_cx_spend(cx);
            return AW_READY;
        }
    }
    return aw__wait_poll((aw__waiter *)f, &s->lock, &s->waiters, take_or_queue, cx);
}

aw_poll aw__acquire_cancel(aw_future *self, aw_cx *cx) {
    aw_acquire *f = (aw_acquire *)self;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&f->semaphore->lock);
    bool left = aw__wait_leave_busy(&f->semaphore->lock, &f->semaphore->waiters, w);
    if (left)
        hand_out_and_unlock(f->semaphore, 0);
    else
        aw__unlock(&f->semaphore->lock);
    return aw__wait_cancelled(w, left, cx);
}

void aw__acquire_discard(aw_future *self) {
    aw_acquire *f = (aw_acquire *)self;
    if (f->out == 0) aw_semaphore_release(f->semaphore, f->wants);
}

const aw_future_type aw_acquire_type = {
    AW_TYPE_OF(aw_acquire, "semaphore_acquire"),
    .flags = AW_OUT_ERRNO,
    .poll = aw__acquire_poll,
    .cancel = aw__acquire_cancel,
    .discard = aw__acquire_discard,
};
