/* SPDX-License-Identifier: MIT
 *
 * Mutex. Any thread may call these functions, also an unlock for a lock taken on another thread.
 *
 * `word` is 0 when the mutex is free, MUTEX_LOCKED, or MUTEX_LOCKED | MUTEX_QUEUED. Without
 * waiters, lock and unlock are one compare-and-swap each. The queue is guarded by a short lock
 * (waiters.h). An unlock that finds QUEUED takes that lock and makes the first waiter the holder.
 * The word stays LOCKED, so no later lock overtakes. QUEUED changes only under the short lock. It
 * is set by the same compare-and-swap that finds the mutex LOCKED, so the next unlock sees it.
 *
 * An unlock does not touch the mutex after another lock can succeed: by then the mutex may have
 * been freed together with what it guards.
 *
 * Holder and location are written by the holder, or on its behalf when the mutex is handed over.
 * They are read for messages and to detect self waits: relaxed. Clear `holder` before unlocking, so
 * that the next owner is never reported as the old one. */
#include <awake/mutex.h>

#include <inttypes.h>
#include <stdio.h>

#include "base/misuse.h"
#include "future/self_wait.h"
#include "future/waiters.h"
#include "sync/lock_order.h"

enum { MUTEX_LOCKED = 1, MUTEX_QUEUED = 2 };

static void set_holder(aw_mutex *m, const aw_location *location, uint64_t holder,
                       const aw_runtime *rt) {
    aw__store_relaxed(&m->location, location);
    aw__store_relaxed(&m->holder, holder);
    aw__store_relaxed(&m->runtime, rt);
}

/* Called by the new holder. */
static void mutex_acquired(aw_mutex *m, const aw_location *location, const aw_runtime *rt) {
    set_holder(m, location, aw_current_task_id(), rt);
    aw__order_locked(m, location);
}

static bool mutex_try_take(aw_mutex *m) {
    uint32_t free = 0;
    return aw__cas(&m->word, &free, (uint32_t)MUTEX_LOCKED);
}

int aw__mutex_try_lock(aw_mutex *m, const aw_location *location) {
    if (!mutex_try_take(m)) return -EAGAIN;
    mutex_acquired(m, location, aw_runtime_current());
    return 0;
}

/* Under the lock: makes the first waiter the holder. */
static void hand_over(aw_mutex *m, aw__wakes *wakes) {
    aw__waiter *w = m->waiters.first;
    if (w == m->waiters.last) aw__fetch_and(&m->word, ~(uint32_t)MUTEX_QUEUED);
    set_holder(m, ((aw_mutex_lock_future *)(void *)w)->location, 0, NULL);
    aw__waiter_end(&m->waiters, w, 0, wakes);
}

/* False: the waiters have been cancelled. */
static AW__COLD bool unlock_queued(aw_mutex *m) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&m->lock);
    bool handed_over = m->waiters.first;
    if (handed_over) hand_over(m, &wakes);
    aw__unlock(&m->lock);
    aw__wakes_run(&wakes);
    return handed_over;
}

void aw_mutex_unlock(aw_mutex *m) {
    aw__order_unlocked(m);
    aw__store_relaxed(&m->holder, (uint64_t)0);
    for (uint32_t word = MUTEX_LOCKED; AW__UNLIKELY(!aw__cas(&m->word, &word, 0u));
         word = MUTEX_LOCKED) {
        if (!(word & MUTEX_LOCKED)) aw__misuse("a mutex was unlocked that is not locked");
        if (unlock_queued(m)) return;
    }
}

bool aw_mutex_is_locked(const aw_mutex *m) {
    return aw__load_acquire(&m->word) & MUTEX_LOCKED;
}

const aw_location *aw_mutex_holder(const aw_mutex *m, uint64_t *task) {
    if (!aw_mutex_is_locked(m)) return NULL;
    if (task) *task = aw__load_relaxed(&m->holder);
    return aw__load_relaxed(&m->location);
}

/* ---- The future ------------------------------------------------------------------------------ */

/* `wants` of a wait that was counted as a wait for a mutex of the same task (future/self_wait.h).
 * Another branch of the task may hold the mutex and unlock it, so the runtime decides whether the
 * task is lost. */
enum { NOT_COUNTED, COUNTED };

static bool is_held_by(const aw_mutex *m, const aw_runtime *rt, uint64_t task) {
    return task && aw__load_relaxed(&m->holder) == task && aw__load_relaxed(&m->runtime) == rt;
}

static bool is_self_wait(const aw_future *self, const aw_runtime *rt, uint64_t task) {
    const aw_mutex_lock_future *f = (const aw_mutex_lock_future *)self;
    return aw__load_acquire(&self->state) == AW__WAITING && f->wants == COUNTED &&
           is_held_by(f->mutex, rt, task);
}

/* Under the lock: takes the mutex, or sets QUEUED, which then stays set until the lock is
 * released. */
static int mutex_take_or_queue(aw__waiter *w) {
    aw_mutex *m = ((aw_mutex_lock_future *)(void *)w)->mutex;
    uint32_t word = aw__load_relaxed(&m->word);
    if (word & MUTEX_QUEUED) return -EAGAIN;
    while (!aw__cas(&m->word, &word, word ? word | MUTEX_QUEUED : MUTEX_LOCKED))
        ;
    return word ? -EAGAIN : 0;
}

static aw_poll lock_poll(aw_future *self, aw_cx *cx) {
    aw_mutex_lock_future *f = (aw_mutex_lock_future *)self;
    aw_mutex *m = f->mutex;
    bool fresh = !aw__wait_began((aw__waiter *)f);
    if (fresh) aw__order_waiting(m, f->location);
    if (fresh && !aw_cx_exhausted(cx) && AW__LIKELY(mutex_try_take(m)))
        aw_cx_spend(cx);
    else if (aw__wait_poll((aw__waiter *)f, &m->lock, &m->waiters, mutex_take_or_queue, cx) ==
             AW_PENDING) {
        if (fresh && aw__wait_began((aw__waiter *)f) &&
            is_held_by(m, cx->runtime, aw_current_task_id()) && aw__cx_self_wait(cx))
            f->wants = COUNTED;
        return AW_PENDING;
    }
    mutex_acquired(m, f->location, cx->runtime);
    return AW_READY;
}

static aw_poll lock_cancel(aw_future *self, aw_cx *cx) {
    aw_mutex_lock_future *f = (aw_mutex_lock_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    aw_mutex *m = f->mutex;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&m->lock);
    bool dequeued = aw__wait_leave(&m->waiters, w);
    if (dequeued && !m->waiters.first) aw__fetch_and(&m->word, ~(uint32_t)MUTEX_QUEUED);
    aw__unlock(&m->lock);
    if (!dequeued) mutex_acquired(m, f->location, cx->runtime);
    return aw__wait_cancelled(w, dequeued, cx);
}

static void lock_discard(aw_future *self) {
    aw_mutex_unlock(((aw_mutex_lock_future *)self)->mutex);
}

static void lock_describe(const aw_future *self, char *buf, size_t size) {
    uint64_t task;
    const aw_location *location = aw_mutex_holder(((const aw_mutex_lock_future *)self)->mutex,
                                                  &task);
    if (!location) return;
    int n = snprintf(buf, size, "taken at %s:%d", location->file, location->line);
    if (task && n > 0 && (size_t)n < size)
        snprintf(buf + n, size - (size_t)n, " by task %" PRIu64, task);
}

static const aw__self_wait self_wait = {is_self_wait};

const aw_future_type aw_mutex_lock_type = {
    AW_TYPE_OF(aw_mutex_lock_future, "mutex_lock"),
    .flags = AW_OUT_ERRNO | AW__SELF_WAIT,
    .extra = &self_wait,
    .poll = lock_poll,
    .cancel = lock_cancel,
    .discard = lock_discard,
    .describe = lock_describe,
};
