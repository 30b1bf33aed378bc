/* SPDX-License-Identifier: MIT
 *
 * Mutex. `word` is 0 when it is free, LOCKED, or LOCKED with QUEUED. While nobody waits, to lock is one
 * compare-and-swap and so is to unlock. The queue is under a short lock (waiters.h): an unlock that finds QUEUED
 * takes it and makes the first waiter the holder; the word stays LOCKED, so nobody overtakes. QUEUED changes under
 * the lock only, and is set together with finding that the mutex is LOCKED: so the unlock that follows sees it.
 *
 * Whose it is and since when is written by the holder, or for him by who hands it over, and read by anybody
 * who wants to tell: relaxed. */
#include <awake/mutex.h>

#include <inttypes.h>
#include <stdio.h>

#include "core/misuse.h"
#include "sync/waiters.h"

enum { LOCKED = 1, QUEUED = 2 };

static void remember(aw_mutex *m, const aw_place *place, uint64_t holder, const aw_runtime *rt) {
    aw__store_relaxed(&m->place, place);
    aw__store_relaxed(&m->holder, holder);
    aw__store_relaxed(&m->runtime, rt);
}

static bool take(aw_mutex *m) {
    uint32_t free = 0;
    return aw__cas(&m->word, &free, (uint32_t)LOCKED);
}

int aw__mutex_try_lock(aw_mutex *m, const aw_place *place) {
    if (!take(m)) return -EAGAIN;
    remember(m, place, aw_current_task_id(), aw_runtime_current());
    return 0;
}

/* Under the lock: the first waiter is the holder. */
static void hand_over(aw_mutex *m, aw__wakes *wakes) {
    aw__waiter *w = m->waiters.first;
    if (w == m->waiters.last) aw__fetch_and(&m->word, ~(uint32_t)QUEUED);
    remember(m, ((aw_mutex_lock_future *)(void *)w)->place, 0, NULL);
    aw__waiter_end(&m->waiters, w, 0, wakes);
}

static AW__COLD void unlock_slow(aw_mutex *m, uint32_t word) {
    aw__wakes wakes = {.count = 0};
    if (!(word & LOCKED)) aw__misuse("a mutex is unlocked that is not locked");
    aw__lock(&m->lock);
    if (m->waiters.first)
        hand_over(m, &wakes);
    else
        aw__store_release(&m->word, 0u); /* who waited has been cancelled */
    aw__unlock(&m->lock);
    aw__wakes_run(&wakes);
}

void aw_mutex_unlock(aw_mutex *m) {
    uint32_t word = LOCKED;
    if (AW__UNLIKELY(!aw__cas(&m->word, &word, 0u))) unlock_slow(m, word);
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

static void report_own(const aw_mutex *m, const aw_place *here) {
    uint64_t task;
    const aw_place *place = aw_mutex_holder(m, &task);
    if (!place || !task || task != aw_current_task_id()) return;
    if (aw__load_relaxed(&m->runtime) != aw_runtime_current()) return;
    aw__rt_log(aw_runtime_current(), AW_LOG_PROBLEM,
               "task %" PRIu64 " waits at %s:%d for a mutex that it has taken itself at %s:%d",
               task, here->file, here->line, place->file, place->line);
}

/* Under the lock: take it, or say that somebody waits. */
static int take_or_queue(aw__waiter *w) {
    aw_mutex *m = ((aw_mutex_lock_future *)(void *)w)->mutex;
    uint32_t word = aw__load_relaxed(&m->word);
    while (!aw__cas(&m->word, &word, word ? word | QUEUED : LOCKED))
        ;
    return word ? -EAGAIN : 0;
}

static aw_poll lock_poll(aw_future *self, aw_cx *cx) {
    aw_mutex_lock_future *f = (aw_mutex_lock_future *)self;
    aw_mutex *m = f->mutex;
    bool fresh = self->state == AW__WAIT_FRESH;
    if (fresh && !aw_cx_exhausted(cx) && AW__LIKELY(take(m)))
        aw_cx_spend(cx);
    else if (aw__wait_poll((aw__waiter *)f, &m->lock, &m->waiters, take_or_queue, cx) ==
             AW_PENDING) {
        if (fresh && self->state != AW__WAIT_FRESH) report_own(m, f->place);
        return AW_PENDING;
    }
    remember(m, f->place, aw_current_task_id(), cx->runtime);
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
