/* SPDX-License-Identifier: MIT
 *
 * A queue of futures that wait, first polled first, under a short lock (core/lock.h) of whoever has the queue.
 *
 *   1. `state` of a waiter is FRESH, WAITING while it is in the queue, and then DONE, with its result in
 *      `out`. Only who holds the lock changes it once it is WAITING.
 *   2. Who ends a wait takes the waiter out of the queue, writes `out`, stores DONE with release, and then
 *      wakes it: one that is polled at once must see it. Its waker is borrowed and used under the lock only; one
 *      that does more than touch a queue is cloned there and woken when the lock is free (aw__wakes).
 *   3. A waiter looks at `state` without the lock. If it is DONE it sees the lock free once before it ends, so that
 *      nobody uses its waker any more when its frame goes away. It need not take it: who has seen DONE cannot see the
 *      lock as it was before it was taken by who stored that, so what he sees free was given back since.
 *   4. What holds the queue must stay as long as it has waiters, and may be gone as soon as the last one
 *      was given its result and the lock is free: nothing of it is touched after that. */
#ifndef AW_SYNC_WAITERS_H
#define AW_SYNC_WAITERS_H

#include <errno.h>

#include <awake/wait.h>

#include "core/lock.h"
#include "core/wake.h"

enum { AW__WAIT_FRESH, AW__WAITING, AW__WAIT_DONE };

/* All of these under the lock. Before that one; NULL: as the last. */
static inline void aw__waiters_add_before(aw__waiters *q, aw__waiter *next, aw__waiter *w) {
    w->prev = next ? next->prev : q->last;
    w->next = next;
    if (w->prev)
        w->prev->next = w;
    else
        q->first = w;
    if (next)
        next->prev = w;
    else
        q->last = w;
}

static inline void aw__waiters_add(aw__waiters *q, aw__waiter *w) {
    aw__waiters_add_before(q, NULL, w);
}

static inline void aw__waiters_remove(aw__waiters *q, aw__waiter *w) {
    if (w->prev)
        w->prev->next = w->next;
    else
        q->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        q->last = w->prev;
    w->next = w->prev = NULL;
}

/* ---- Ending waits ----------------------------------------------------------------------------- */

/* Wakers that are to be woken when the lock is free. Begin with count 0. */
#ifndef AW__WAKES
#define AW__WAKES 8
#endif
typedef struct aw__wakes {
    unsigned count;
    aw_waker wakers[AW__WAKES];
} aw__wakes;

/* Under the lock: the first waiter has its result. Not when the wakes are full: then aw__wakes_between, and go on. */
static inline bool aw__wakes_full(const aw__wakes *k) {
    return k->count == AW__WAKES;
}
static inline void aw__waiter_tell(aw__waiter *w, int out, aw__wakes *k) {
    w->out = out;
    aw__store_release(&w->future.state, (uint32_t)AW__WAIT_DONE);
    if (aw__wake_or_clone(&w->waker, &k->wakers[k->count])) k->count++;
}
static inline void aw__waiter_end(aw__waiters *q, aw__waiter *w, int out, aw__wakes *k) {
    aw__waiters_remove(q, w);
    aw__waiter_tell(w, out, k);
}

/* When the lock is free. */
static inline void aw__wakes_run(aw__wakes *k) {
    for (unsigned i = 0; i < k->count; i++)
        aw_waker_wake(k->wakers[i]);
    k->count = 0;
}

/* With the lock, when the wakes are full: lets it go for them, and takes it again. Meanwhile this thread itself
 * stands at the front of the queue. So nobody is served before it goes on: whoever else serves the queue stops at
 * aw__waiter_is_busy. But those who are left may be cancelled. The last of them takes this one out, too, and says so
 * (DONE), for with him what holds the queue may be gone; or, when this one is on its way to the lock (WAITING), lets
 * it pass first (aw__wait_leave_busy). False: nobody is left, and the lock is not held. */
static inline bool aw__waiter_is_busy(const aw__waiter *first) {
    return !first->future.type;
}
static inline bool aw__wakes_between(uint32_t *lock, aw__waiters *q, aw__wakes *k) {
    aw__waiter busy = {.wants = UINT32_MAX};
    aw__waiters_add_before(q, q->first, &busy);
    aw__unlock(lock);
    aw__wakes_run(k);
    if (aw__exchange(&busy.future.state, (uint32_t)AW__WAITING) == AW__WAIT_DONE) return false;
    aw__lock(lock);
    aw__waiters_remove(q, &busy);
    return true;
}

/* With the lock, without it afterwards: ends all waits that `ready` has a queue for, the first of it each time, some
 * at a time. When nobody is left who can go on, the owner is not touched any more. */
static inline void aw__wake_ready_and_unlock(uint32_t *lock, aw__waiters *(*ready)(void *owner),
                                             void *owner) {
    enum { BATCH = 32 };
    aw__wakes wakes = {.count = 0};
    unsigned ended = 0;
    for (aw__waiters *q; (q = ready(owner));) {
        if (ended == BATCH || aw__wakes_full(&wakes)) {
            aw__unlock(lock);
            aw__wakes_run(&wakes);
            aw__lock(lock);
            ended = 0;
            continue;
        }
        aw__waiter_end(q, q->first, 0, &wakes);
        ended++;
    }
    aw__unlock(lock);
    aw__wakes_run(&wakes);
}

/* With the lock, without it afterwards: all those end whose `wants` is a number before *generation, and nobody who came
 * later. Another thread that is busy with the same does it for this one, too. Numbers wrap around: those that meet are
 * close. */
static inline bool aw__waiter_is_older(const aw__waiter *w, uint32_t generation) {
    return (int32_t)(w->wants - generation) < 0;
}
static inline void aw__end_older_and_unlock(uint32_t *lock, aw__waiters *q,
                                            const uint32_t *generation, int out) {
    aw__wakes wakes = {.count = 0};
    for (aw__waiter *w; (w = q->first) && !aw__waiter_is_busy(w);) {
        if (!aw__waiter_is_older(w, *generation)) break;
        if (!aw__wakes_full(&wakes))
            aw__waiter_end(q, w, out, &wakes);
        else if (!aw__wakes_between(lock, q, &wakes))
            return;
    }
    aw__unlock(lock);
    aw__wakes_run(&wakes);
}

/* ---- Waiting: poll and cancel of the future --------------------------------------------------- */

/* Under the lock: what it waits for, as `out`; -EAGAIN: not yet. */
typedef int aw__wait_try(aw__waiter *w);

/* A wait that another task armed, before this was moved here, stays with that task. */
static inline void aw__wait_disarm(aw__waiter *w, aw_cx *cx) {
    if (aw_waker_will_wake(&w->waker, cx->waker)) aw_cx_disarm(cx);
}

/* Rule 3. */
static inline void aw__wait_see_free(uint32_t *lock) {
    if (AW__LIKELY(!aw__load_acquire(lock))) return;
    aw__lock(lock);
    aw__unlock(lock);
}

/* No budget is left, and it has been woken again. Its waker may have been that of another. */
static inline bool aw__wait_exhausted(uint32_t state, uint32_t *lock, aw_cx *cx) {
    if (AW__LIKELY(!aw_cx_exhausted(cx))) return false;
    if (state == AW__WAIT_DONE) aw__wait_see_free(lock);
    aw_cx_spend(cx);
    return true;
}

/* It has its result. */
static inline aw_poll aw__wait_done(aw__waiter *w, uint32_t *lock, aw_cx *cx) {
    aw__wait_see_free(lock);
    aw__wait_disarm(w, cx);
    aw_cx_spend(cx);
    return AW_READY;
}

static inline aw_poll aw__wait_poll(aw__waiter *w, uint32_t *lock, aw__waiters *q,
                                    aw__wait_try *try, aw_cx *cx) {
    uint32_t state = aw__load_acquire(&w->future.state);
    if (state == AW__WAITING && aw_waker_will_wake(&w->waker, cx->waker)) return AW_PENDING;
    if (state != AW__WAITING && aw__wait_exhausted(state, lock, cx)) return AW_PENDING;
    if (state == AW__WAIT_DONE) return aw__wait_done(w, lock, cx);

    aw__lock(lock);
    state = w->future.state;
    int out = state == AW__WAIT_FRESH ? try(w) : -EAGAIN;
    if (state == AW__WAITING || (state == AW__WAIT_FRESH && out == -EAGAIN)) {
        if (state == AW__WAIT_FRESH) aw__waiters_add(q, w);
        w->waker = *cx->waker;
        w->future.state = AW__WAITING;
        aw__unlock(lock);
        aw_cx_arm(cx);
        return AW_PENDING;
    }
    aw__unlock(lock);
    if (state == AW__WAIT_FRESH)
        w->out = out;
    else
        aw__wait_disarm(w, cx);
    aw_cx_spend(cx);
    return AW_READY;
}

/* The same for who has to look again when its wait was ended, and may have to go on waiting. `look` is called with
 * the lock, at the first poll (`fresh`) and after the wait was ended; it answers with the output or -EAGAIN, and then
 * one that is not fresh has to be in the queue again, where it belongs. `unlock` gives the lock back when it has an
 * output. Both get `after`. */
typedef int aw__wait_look(aw__waiter *w, bool fresh, void *after);
typedef void aw__wait_unlock(aw__waiter *w, void *after);

/* Before the lock. True: there is nothing to do. */
static inline bool aw__wait_goes_on(const aw__waiter *w, uint32_t *lock, aw_cx *cx) {
    uint32_t state = aw__load_acquire(&w->future.state);
    if (state == AW__WAITING) return aw_waker_will_wake(&w->waker, cx->waker);
    return aw__wait_exhausted(state, lock, cx);
}

/* With the lock. */
static inline __attribute__((always_inline)) aw_poll aw__wait_locked_look(
    aw__waiter *w, uint32_t *lock, aw__waiters *q, aw__wait_look *look, aw__wait_unlock *unlock,
    void *after, aw_cx *cx) {
    uint32_t state = w->future.state;
    bool fresh = state == AW__WAIT_FRESH;
    int out = state == AW__WAITING ? -EAGAIN : look(w, fresh, after);
    if (out == -EAGAIN) {
        if (fresh) aw__waiters_add(q, w);
        bool arm = fresh || !aw_waker_will_wake(&w->waker, cx->waker);
        w->waker = *cx->waker;
        w->future.state = AW__WAITING;
        aw__unlock(lock);
        if (arm) aw_cx_arm(cx);
        return AW_PENDING;
    }
    unlock(w, after);
    w->out = out;
    if (!fresh) aw__wait_disarm(w, cx);
    aw_cx_spend(cx);
    return AW_READY;
}

static inline __attribute__((always_inline)) aw_poll aw__wait_poll_look(
    aw__waiter *w, uint32_t *lock, aw__waiters *q, aw__wait_look *look, aw__wait_unlock *unlock,
    void *after, aw_cx *cx) {
    if (aw__wait_goes_on(w, lock, cx)) return AW_PENDING;
    aw__lock(lock);
    return aw__wait_locked_look(w, lock, q, look, unlock, after, cx);
}

/* A cancel is this, with the lock held for aw__wait_leave and what has to follow from it:
 *
 *     if (!aw__wait_began(w)) return AW_CANCELLED;
 *     lock; bool left = aw__wait_leave(q, w); if (left) look whether others can go on now; unlock
 *     return aw__wait_cancelled(w, left, cx); */
static inline bool aw__wait_began(const aw__waiter *w) {
    return aw__load_acquire(&w->future.state) != AW__WAIT_FRESH;
}

/* False: it has its result. */
static inline bool aw__wait_leave(aw__waiters *q, aw__waiter *w) {
    if (w->future.state == AW__WAIT_DONE) return false;
    aw__waiters_remove(q, w);
    return true;
}

/* Under the lock: nobody is left but a thread that is busy. True: it comes back, and has to pass. */
static inline bool aw__waiters_let_go(aw__waiters *q) {
    aw__waiter *busy = q->first;
    if (!busy || busy != q->last || !aw__waiter_is_busy(busy)) return false;
    if (aw__exchange(&busy->future.state, (uint32_t)AW__WAIT_DONE) != AW__WAIT_FRESH) return true;
    q->first = q->last = NULL; /* it may be gone */
    return false;
}

/* The same where a thread may be busy between wakes. */
static inline bool aw__wait_leave_busy(uint32_t *lock, aw__waiters *q, aw__waiter *w) {
    if (!aw__wait_leave(q, w)) return false;
    while (aw__waiters_let_go(q)) {
        aw__unlock(lock);
        aw__spin_hint();
        aw__lock(lock);
    }
    return true;
}

static inline aw_poll aw__wait_cancelled(aw__waiter *w, bool left, aw_cx *cx) {
    aw__wait_disarm(w, cx);
    return left ? AW_CANCELLED : AW_READY;
}

#endif
