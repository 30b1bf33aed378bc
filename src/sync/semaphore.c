/* SPDX-License-Identifier: MIT
 *
 * Semaphore. Any thread may call these functions. `state` holds the number of permits and two bits.
 * Without waiters, acquire and release are one compare-and-swap each, without the lock. The queue
 * is guarded by the lock (waiters.h). It is not lock-free, because one release may serve several
 * waiters, in order.
 *
 *   1. QUEUED: there are waiters. It is set and cleared under the lock. While it is set, permits
 *      are added and taken only under the lock. So no acquire overtakes the first waiter, and a
 *      waiter is queued only while it cannot be served. The compare-and-swap that sets QUEUED also
 *      finds that the permits do not suffice.
 *   2. After an acquire the caller may free the semaphore, if it knows that there is no other user;
 *      the release that provided the permits may not have returned yet. So a release does not touch
 *      the semaphore after the addition or, if it took the lock, after unlocking. And a successful
 *      acquire has seen the lock free since: after a wait by rule 3 of waiters.h, otherwise by an
 *      explicit check.
 *   3. CLOSED is final, and ends all waits. */
#include <awake/semaphore.h>

#include <inttypes.h>

#include "base/misuse.h"
#include "future/waiters.h"
#include "sync/acquire.h"

enum { SEM_QUEUED = 1, SEM_CLOSED = 2, SEM_PERMIT = 4 };

static uint32_t permits_of(uint32_t state) {
    return state / SEM_PERMIT;
}

aw_semaphore aw__semaphore_of(uint64_t permits, const char *file, int line) {
    if (AW__UNLIKELY(permits > AW_SEMAPHORE_MAX))
        aw__misuse("%s:%d: a semaphore of %" PRIu64 " permits: at most %u (AW_SEMAPHORE_MAX)", file,
                   line, permits, AW_SEMAPHORE_MAX);
    return (aw_semaphore){.state = (uint32_t)permits * SEM_PERMIT};
}

int aw_semaphore_try_acquire(aw_semaphore *s, uint32_t permits) {
    if (permits > AW_SEMAPHORE_MAX) return -EINVAL;
    uint32_t state = aw__load_relaxed(&s->state);
    do {
        if (state & SEM_CLOSED) return -EPIPE;
        if (state & SEM_QUEUED || permits_of(state) < permits) return -EAGAIN;
    } while (!aw__cas(&s->state, &state, state - permits * SEM_PERMIT));
    if (AW__UNLIKELY(aw__load_acquire(&s->lock))) { /* rule 2 */
        aw__lock(&s->lock);
        aw__unlock(&s->lock);
    }
    return 0;
}

/* Under the lock: adds `more` permits and serves the waiters at the front. The count is kept in a
 * local meanwhile, as rule 1 allows; the rest is published at the end. False: the batch of wakes
 * is full. */
static bool grant(aw_semaphore *s, uint32_t more, aw__wakes *wakes) {
    uint32_t state = aw__load_relaxed(&s->state), closed = state & SEM_CLOSED;
    if (!(state & SEM_QUEUED)) return true;
    uint32_t permits = permits_of(state) + more;
    bool full = false;
    for (aw__waiter *w; (w = s->waiters.first) && !aw__waiter_is_busy(w);) {
        if (!closed && permits < w->wants) break;
        if ((full = aw__wakes_full(wakes))) break;
        if (!closed) permits -= w->wants;
        aw__waiter_end(&s->waiters, w, closed ? -EPIPE : 0, wakes);
    }
    uint32_t queued = s->waiters.first ? SEM_QUEUED : 0;
    aw__store_release(&s->state, permits * SEM_PERMIT | closed | queued);
    return !full;
}

/* Takes over the held lock and releases it. */
static void grant_and_unlock(aw_semaphore *s, uint32_t more) {
    aw__wakes wakes = {.count = 0};
    for (; !grant(s, more, &wakes); more = 0)
        if (!aw__wakes_flush(&s->lock, &s->waiters, &wakes)) return;
    aw__unlock(&s->lock);
    aw__wakes_run(&wakes);
}

/* Adds permits if there are no waiters; otherwise -EAGAIN. */
static int semaphore_add(aw_semaphore *s, uint32_t permits) {
    uint32_t state = aw__load_relaxed(&s->state);
    do {
        if (permits > AW_SEMAPHORE_MAX - permits_of(state)) return -EOVERFLOW;
        if (state & SEM_QUEUED) return -EAGAIN;
    } while (!aw__cas(&s->state, &state, state + permits * SEM_PERMIT));
    return 0;
}

int aw_semaphore_release(aw_semaphore *s, uint32_t permits) {
    int error = semaphore_add(s, permits);
    if (error != -EAGAIN) return error;
    aw__lock(&s->lock);
    error = semaphore_add(s, permits); /* the waiters may have been cancelled */
    if (error != -EAGAIN) {
        aw__unlock(&s->lock);
        return error;
    }
    grant_and_unlock(s, permits);
    return 0;
}

void aw_semaphore_close(aw_semaphore *s) {
    aw__lock(&s->lock);
    aw__fetch_or(&s->state, (uint32_t)SEM_CLOSED);
    grant_and_unlock(s, 0);
}

bool aw_semaphore_is_closed(const aw_semaphore *s) {
    return aw__load_acquire(&s->state) & SEM_CLOSED;
}

uint32_t aw_semaphore_available(const aw_semaphore *s) {
    return permits_of(aw__load_relaxed(&s->state));
}

/* ---- The future ------------------------------------------------------------------------------ */

/* Under the lock: takes the permits, or sets QUEUED. */
static int semaphore_take_or_queue(aw__waiter *w) {
    aw_semaphore *s = ((aw_acquire *)(void *)w)->semaphore;
    uint32_t state = aw__load_relaxed(&s->state), next;
    bool enough;
    do {
        if (state & SEM_CLOSED) return -EPIPE;
        if (state & SEM_QUEUED) return -EAGAIN; /* rule 1: it stays set */
        enough = permits_of(state) >= w->wants;
        next = enough ? state - w->wants * SEM_PERMIT : state | SEM_QUEUED;
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
    return aw__wait_poll((aw__waiter *)f, &s->lock, &s->waiters, semaphore_take_or_queue, cx);
}

aw_poll aw__acquire_cancel(aw_future *self, aw_cx *cx) {
    aw_acquire *f = (aw_acquire *)self;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&f->semaphore->lock);
    bool dequeued = aw__wait_leave_busy(&f->semaphore->lock, &f->semaphore->waiters, w);
    if (dequeued)
        grant_and_unlock(f->semaphore, 0);
    else
        aw__unlock(&f->semaphore->lock);
    return aw__wait_cancelled(w, dequeued, cx);
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
