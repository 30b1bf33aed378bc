/* SPDX-License-Identifier: MIT
 *
 * Mutex. `word` is 0 when it is free, LOCKED, or LOCKED with QUEUED. While nobody waits, to lock is one
 * compare-and-swap and so is to unlock. The queue is under a short lock (waiters.h): an unlock that finds QUEUED
 * takes it and makes the first waiter the holder; the word stays LOCKED, so nobody overtakes. QUEUED changes under
 * the lock only, and is set together with finding that the mutex is LOCKED: so the unlock that follows sees it.
 *
 * An unlock is over when another can have the mutex, and does not touch it after that: with what it guards it may be gone
 * by then.
 *
 * Whose it is and where it was taken is written by the holder, or for him by who hands it over, and read by anybody
 * who wants to tell: relaxed. It is nobody's before it is free, so that who has it next is not taken for who had
 * it before. */
#include <awake/mutex.h>

#include <inttypes.h>
#include <stdio.h>

#include "core/misuse.h"
#include "sync/lock_order.h"
#include "sync/waiters.h"

enum { LOCKED = 1, QUEUED = 2 };

static void remember(aw_mutex *m, const aw_place *place, uint64_t holder, const aw_runtime *rt) {
    aw__store_relaxed(&m->place, place);
    aw__store_relaxed(&m->holder, holder);
    aw__store_relaxed(&m->runtime, rt);
}

/* By who has it now. */
static void has_taken(aw_mutex *m, const aw_place *place, const aw_runtime *rt) {
    remember(m, place, aw_current_task_id(), rt);
    aw__order_taken(m, place);
}

static bool take(aw_mutex *m) {
    uint32_t free = 0;
    return aw__cas(&m->word, &free, (uint32_t)LOCKED);
}

int aw__mutex_try_lock(aw_mutex *m, const aw_place *place) {
    if (!take(m)) return -EAGAIN;
    has_taken(m, place, aw_runtime_current());
    return 0;
}

/* Under the lock: the first waiter is the holder. */
static void hand_over(aw_mutex *m, aw__wakes *wakes) {
    aw__waiter *w = m->waiters.first;
    if (w == m->waiters.last) aw__fetch_and(&m->word, ~(uint32_t)QUEUED);
    remember(m, ((aw_mutex_lock_future *)(void *)w)->place, 0, NULL);
    aw__waiter_end(&m->waiters, w, 0, wakes);
}

/* False: who waited has been cancelled. */
static AW__COLD bool unlock_queued(aw_mutex *m) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&m->lock);
    bool waits = m->waiters.first;
    if (waits) hand_over(m, &wakes);
    aw__unlock(&m->lock);
    aw__wakes_run(&wakes);
    return waits;
}

void aw_mutex_unlock(aw_mutex *m) {
    aw__order_given(m);
    aw__store_relaxed(&m->holder, (uint64_t)0);
    for (uint32_t word = LOCKED; AW__UNLIKELY(!aw__cas(&m->word, &word, 0u)); word = LOCKED) {
        if (!(word & LOCKED)) aw__misuse("a mutex is unlocked that is not locked");
        if (unlock_queued(m)) return;
    }
}

bool aw_mutex_is_locked(const aw_mutex *m) {
    return aw__load_acquire(&m->word) & LOCKED;
}

const aw_place *aw_mutex_holder(const aw_mutex *m, uint64_t *task) {
    if (!aw_mutex_is_locked(m)) return NULL;
    if (task) *task = aw__load_relaxed(&m->holder);
    return aw__load_relaxed(&m->place);
}

/* ---- The future ------------------------------------------------------------------------------- */

/* Another part of the task may hold it, in a join: then it will be unlocked. That is for the runtime to tell. */
static bool is_own(const aw_mutex *m, const aw_cx *cx) {
    uint64_t task = aw__load_relaxed(&m->holder);
    return task && task == aw_current_task_id() && aw__load_relaxed(&m->runtime) == cx->runtime;
}

/* Under the lock: take it, or say that somebody waits. Where that is said, it stays so until the lock is free. */
static int take_or_queue(aw__waiter *w) {
    aw_mutex *m = ((aw_mutex_lock_future *)(void *)w)->mutex;
    uint32_t word = aw__load_relaxed(&m->word);
    if (word & QUEUED) return -EAGAIN;
    while (!aw__cas(&m->word, &word, word ? word | QUEUED : LOCKED))
        ;
    return word ? -EAGAIN : 0;
}

static aw_poll lock_poll(aw_future *self, aw_cx *cx) {
    aw_mutex_lock_future *f = (aw_mutex_lock_future *)self;
    aw_mutex *m = f->mutex;
    bool fresh = !aw__wait_began((aw__waiter *)f);
    if (fresh) aw__order_wanted(m, f->place);
    if (fresh && !aw_cx_exhausted(cx) && AW__LIKELY(take(m)))
        aw_cx_spend(cx);
    else if (aw__wait_poll((aw__waiter *)f, &m->lock, &m->waiters, take_or_queue, cx) ==
             AW_PENDING) {
        if (fresh && aw__wait_began((aw__waiter *)f) && is_own(m, cx)) aw__cx_own(cx);
        return AW_PENDING;
    }
    has_taken(m, f->place, cx->runtime);
    return AW_READY;
}

static aw_poll lock_cancel(aw_future *self, aw_cx *cx) {
    aw_mutex_lock_future *f = (aw_mutex_lock_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    aw_mutex *m = f->mutex;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&m->lock);
    bool left = aw__wait_leave(&m->waiters, w);
    if (left && !m->waiters.first) aw__fetch_and(&m->word, ~(uint32_t)QUEUED);
    aw__unlock(&m->lock);
    if (!left) has_taken(m, f->place, cx->runtime);
    return aw__wait_cancelled(w, left, cx);
}

static void lock_discard(aw_future *self) {
    aw_mutex_unlock(((aw_mutex_lock_future *)self)->mutex);
}

static void lock_describe(const aw_future *self, char *buf, size_t size) {
    uint64_t task;
    const aw_place *place = aw_mutex_holder(((const aw_mutex_lock_future *)self)->mutex, &task);
    if (!place) return;
    int n = snprintf(buf, size, "taken at %s:%d", place->file, place->line);
    if (task && n > 0 && (size_t)n < size)
        snprintf(buf + n, size - (size_t)n, " by task %" PRIu64, task);
}

const aw_future_type aw_mutex_lock_type = {
    AW_TYPE_OF(aw_mutex_lock_future, "mutex_lock"),
    .flags = AW_OUT_ERRNO,
    .poll = lock_poll,
    .cancel = lock_cancel,
    .discard = lock_discard,
    .describe = lock_describe,
};
