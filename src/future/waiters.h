/* SPDX-License-Identifier: MIT
 *
 * FIFO queue of waiting futures, shared by the synchronization primitives. The queue belongs to a
 * primitive and is guarded by its short lock (os/lock.h); any thread may use it. A waiter is part
 * of its future, so a wait allocates nothing.
 *
 *   1. `state` of a waiter is FRESH, then WAITING while it is in the queue, then DONE with its
 *      result in `out`. Once it is WAITING, `state` changes only under the lock.
 *   2. To end a wait, remove the waiter from the queue, write `out`, store DONE with release, and
 *      only then wake it: an immediate poll must see DONE. The waker is borrowed, so it is used
 *      only under the lock. A waker that does more than touch a queue is cloned under the lock and
 *      woken after the unlock (aw__wakes).
 *   3. A waiter reads `state` without the lock. After it has read DONE, it must see the lock free
 *      once before it ends, so that its waker is no longer in use when its frame goes away. It need
 *      not take the lock: DONE is stored under the lock, so after reading DONE the waiter cannot
 *      read a lock value from before that section. If it reads "free", the section has ended.
 *   4. The owner of the queue must exist as long as the queue has waiters. It may be freed as
 *      soon as the last waiter has its result and the lock is free. Nothing of it is touched
 *      after that. */
#ifndef AW_FUTURE_WAITERS_H
#define AW_FUTURE_WAITERS_H

#include <errno.h>

#include <awake/detail/waiter.h>

#include "base/list.h"
#include "future/wake.h"
#include "os/lock.h"

enum { AW__WAIT_FRESH, AW__WAITING, AW__WAIT_DONE };

/* All of these are called under the lock. Inserts `w` before `next`; NULL: at the end. */
static inline void aw__waiters_add_before(aw__waiters *q, aw__waiter *next, aw__waiter *w) {
    aw__tailq_insert_before(q, next, w);
}

static inline void aw__waiters_add(aw__waiters *q, aw__waiter *w) {
    aw__tailq_insert_tail(q, w);
}

static inline void aw__waiters_remove(aw__waiters *q, aw__waiter *w) {
    aw__tailq_remove(q, w);
    w->next = w->prev = NULL;
}

/* ---- Ending waits ---------------------------------------------------------------------------- */

/* A batch of wakers to wake when the lock is free. Initialize `count` to 0. */
#ifndef AW__WAKES
#define AW__WAKES 8
#endif
typedef struct aw__wakes {
    unsigned count;
    aw_waker wakers[AW__WAKES];
} aw__wakes;

/* Under the lock: end a wait (rule 2). The batch must not be full. When it is, run it with the lock
 * released (aw__wakes_flush) and continue. */
static inline bool aw__wakes_full(const aw__wakes *k) {
    return k->count == AW__WAKES;
}
static inline void aw__waiter_complete(aw__waiter *w, int out, aw__wakes *k) {
    w->out = out;
    aw__store_release(&w->future.state, (uint32_t)AW__WAIT_DONE);
    if (aw__wake_or_clone(&w->waker, &k->wakers[k->count])) k->count++;
}
static inline void aw__waiter_end(aw__waiters *q, aw__waiter *w, int out, aw__wakes *k) {
    aw__waiters_remove(q, w);
    aw__waiter_complete(w, out, k);
}

/* Without the lock. */
static inline void aw__wakes_run(aw__wakes *k) {
    for (unsigned i = 0; i < k->count; i++)
        aw_waker_wake(k->wakers[i]);
    k->count = 0;
}

/* Called under the lock when the batch is full: unlocks, runs the wakers, and locks again.
 * Meanwhile a *busy marker* of this thread heads the queue. Other threads that serve the queue stop
 * at the marker (aw__waiter_is_busy), so no waiter is served before this thread continues. The
 * remaining waiters may still be cancelled. The last of them also removes the marker, because the
 * owner of the queue may be freed after it: it sets the marker to DONE. If this thread is already
 * on its way to the lock (WAITING), the last waiter lets it pass first (aw__wait_leave_busy).
 *
 * Returns false if no waiter is left. Then the lock is not held, and the owner may be gone. */
static inline bool aw__waiter_is_busy(const aw__waiter *first) {
    return !first->future.type;
}
static inline bool aw__wakes_flush(uint32_t *lock, aw__waiters *q, aw__wakes *k) {
    aw__waiter busy = {.wants = UINT32_MAX};
    aw__tailq_insert_head(q, &busy);
    aw__unlock(lock);
    aw__wakes_run(k);
    if (aw__exchange(&busy.future.state, (uint32_t)AW__WAITING) == AW__WAIT_DONE) return false;
    aw__lock(lock);
    aw__waiters_remove(q, &busy);
    return true;
}

/* While `ready` returns a queue, ends the wait of its first waiter. Takes over the held lock and
 * releases it; the lock is also released between batches. The owner is not touched once no waiter
 * is ready. */
static inline void aw__wake_ready_and_unlock(uint32_t *lock, aw__waiters *(*ready)(void *owner),
                                             void *owner) {
    enum { WAKE_BATCH = 32 };
    aw__wakes wakes = {.count = 0};
    unsigned ended = 0;
    for (aw__waiters *q; (q = ready(owner));) {
        if (ended == WAKE_BATCH || aw__wakes_full(&wakes)) {
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

/* Ends all waits with `wants` older than *generation, and none that began later. Takes over the
 * held lock and releases it. If another thread is busy with this queue, it ends these waits too.
 * Generations wrap around; those that are compared are close. */
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
        else if (!aw__wakes_flush(lock, q, &wakes))
            return;
    }
    aw__unlock(lock);
    aw__wakes_run(&wakes);
}

/* ---- Waiting: poll and cancel of the future -------------------------------------------------- */

/* Under the lock: the output if there is one, or -EAGAIN to wait. */
typedef int aw__wait_try(aw__waiter *w);

/* If another task armed the wait, before the future moved to this task, it stays armed there. */
static inline void aw__wait_disarm(aw__waiter *w, aw_cx *cx) {
    if (aw_waker_will_wake(&w->waker, cx->waker)) aw_cx_disarm(cx);
}

/* Rule 3. */
static inline void aw__wait_see_unlocked(uint32_t *lock) {
    if (AW__LIKELY(!aw__load_acquire(lock))) return;
    aw__lock(lock);
    aw__unlock(lock);
}

/* True: the budget is exhausted, and the task has been woken to poll again. The waker of a DONE
 * waiter may be that of another task, which could go away after this poll: rule 3. */
static inline bool aw__wait_exhausted(uint32_t state, uint32_t *lock, aw_cx *cx) {
    if (AW__LIKELY(!aw_cx_exhausted(cx))) return false;
    if (state == AW__WAIT_DONE) aw__wait_see_unlocked(lock);
    aw_cx_spend(cx);
    return true;
}

/* The waiter has its result. */
static inline aw_poll aw__wait_done(aw__waiter *w, uint32_t *lock, aw_cx *cx) {
    aw__wait_see_unlocked(lock);
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

/* The same for a future that must check again after its wait was ended, and may have to wait again.
 * `attempt` is called under the lock, at the first poll (`fresh`) and after the wait was ended. It
 * returns the output or -EAGAIN. In the latter case it must have put a waiter that is not fresh
 * back into the queue, at its position. `unlock` releases the lock when there is an output. Both
 * receive `deferred`. */
typedef int aw__wait_attempt(aw__waiter *w, bool fresh, void *deferred);
typedef void aw__wait_unlock(aw__waiter *w, void *deferred);

/* Without the lock. True: the poll returns AW_PENDING; there is nothing else to do. */
static inline bool aw__wait_stays_pending(const aw__waiter *w, uint32_t *lock, aw_cx *cx) {
    uint32_t state = aw__load_acquire(&w->future.state);
    if (state == AW__WAITING) return aw_waker_will_wake(&w->waker, cx->waker);
    return aw__wait_exhausted(state, lock, cx);
}

/* Under the lock, which is released. */
static inline __attribute__((always_inline)) aw_poll aw__wait_locked_attempt(
    aw__waiter *w, uint32_t *lock, aw__waiters *q, aw__wait_attempt *attempt,
    aw__wait_unlock *unlock, void *deferred, aw_cx *cx) {
    uint32_t state = w->future.state;
    bool fresh = state == AW__WAIT_FRESH;
    int out = state == AW__WAITING ? -EAGAIN : attempt(w, fresh, deferred);
    if (out == -EAGAIN) {
        if (fresh) aw__waiters_add(q, w);
        bool arm = fresh || !aw_waker_will_wake(&w->waker, cx->waker);
        w->waker = *cx->waker;
        w->future.state = AW__WAITING;
        aw__unlock(lock);
        if (arm) aw_cx_arm(cx);
        return AW_PENDING;
    }
    unlock(w, deferred);
    w->out = out;
    if (!fresh) aw__wait_disarm(w, cx);
    aw_cx_spend(cx);
    return AW_READY;
}

static inline __attribute__((always_inline)) aw_poll aw__wait_poll_attempt(
    aw__waiter *w, uint32_t *lock, aw__waiters *q, aw__wait_attempt *attempt,
    aw__wait_unlock *unlock, void *deferred, aw_cx *cx) {
    if (aw__wait_stays_pending(w, lock, cx)) return AW_PENDING;
    aw__lock(lock);
    return aw__wait_locked_attempt(w, lock, q, attempt, unlock, deferred, cx);
}

/* A cancel has this form:
 *
 *     if (!aw__wait_began(w)) return AW_CANCELLED;
 *     lock; bool dequeued = aw__wait_leave(q, w);
 *     if (dequeued) serve the waiters that can proceed now; unlock
 *     return aw__wait_cancelled(w, dequeued, cx); */
static inline bool aw__wait_began(const aw__waiter *w) {
    return aw__load_acquire(&w->future.state) != AW__WAIT_FRESH;
}

/* Under the lock. False: the waiter already has its result. */
static inline bool aw__wait_leave(aw__waiters *q, aw__waiter *w) {
    if (w->future.state == AW__WAIT_DONE) return false;
    aw__waiters_remove(q, w);
    return true;
}

/* Under the lock, after a waiter has left: removes a busy marker that is alone in the queue. True:
 * the marker's thread is on its way to the lock and must pass first. */
static inline bool aw__waiters_drop_busy(aw__waiters *q) {
    aw__waiter *busy = q->first;
    if (!busy || busy != q->last || !aw__waiter_is_busy(busy)) return false;
    if (aw__exchange(&busy->future.state, (uint32_t)AW__WAIT_DONE) != AW__WAIT_FRESH) return true;
    q->first = q->last = NULL; /* the marker may be gone: do not touch it */
    return false;
}

/* aw__wait_leave for a queue that may have a busy marker. May release the lock for a while. */
static inline bool aw__wait_leave_busy(uint32_t *lock, aw__waiters *q, aw__waiter *w) {
    if (!aw__wait_leave(q, w)) return false;
    while (aw__waiters_drop_busy(q)) {
        aw__unlock(lock);
        aw__spin_hint();
        aw__lock(lock);
    }
    return true;
}

static inline aw_poll aw__wait_cancelled(aw__waiter *w, bool dequeued, aw_cx *cx) {
    aw__wait_disarm(w, cx);
    return dequeued ? AW_CANCELLED : AW_READY;
}

#endif
