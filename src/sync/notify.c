/* SPDX-License-Identifier: MIT
 *
 * Notify. Any thread may notify. A short lock guards the permit and the FIFO list of waiters. Two
 * loads do without the lock: of `state` in a poll, and of the generation in the constructor. Both
 * are stored with release, under the lock. A waiter that sees a notification takes the lock once
 * before it ends, so that its borrowed waker is no longer in use when its frame goes away.
 *
 * notify_waiters may have to release the lock between wakes. It wakes the waiters of generations
 * older than the one it began, so that later waiters are not woken. A concurrent notify_one skips
 * these waiters, so that its notification is not lost on one that is notified anyway. Generations
 * count in steps that leave the low bits of `state` free. They wrap around; those that are compared
 * here are close.
 *
 * For notify_waiters, a future counts as waiting from its construction, before the first poll. The
 * constructor loads the generation into `state`, with acquire and without the lock. The first poll
 * compares it under the lock, and is ready if there was a notify_waiters in between. So this loses
 * no wake-up:
 *
 *     waiter:     make the future; test the condition; poll
 *     notifier:   set the condition; notify_waiters, which stores the generation with release
 *
 * If the poll takes the lock before notify_waiters does, the waiter is in the list and is woken. If
 * the poll takes it later, it sees the new generation. Then the future is ready, unless its
 * constructor had already loaded the new generation. In that case the load synchronized with the
 * store, and the test, which came later, has seen the condition.
 *
 * The first poll tests for any difference, because it may come long after the construction. Only
 * exactly 2^30 calls of notify_waiters in between look like none. */
#include <awake/notify.h>

#include <errno.h>

#include "base/list.h"
#include "future/wake.h"
#include "os/lock.h"

/* `state`: one of these and, while fresh or waiting, the generation in the other bits. */
enum {
    NOTIFY_FRESH,
    NOTIFY_WAITING,
    NOTIFIED_BY_ONE,
    NOTIFIED_BY_ALL,
    NOTIFY_MASK = 3,
    NOTIFY_GENERATION = 4
};

static uint32_t notified_state(const aw_notified *w) {
    return aw__load_acquire(&w->future.state);
}

/* Under the lock, under which it changes. */
static uint32_t generation_of(const aw_notify *n) {
    return aw__load_relaxed(&n->generation);
}

/* Under the lock. */
static void notify_remove(aw_notify *n, aw_notified *w) {
    aw__tailq_remove(n, w);
    w->next = w->prev = NULL;
}

/* Under the lock. Store the state, then wake: an immediate poll must see it. */
static void deliver(aw_notify *n, aw_notified *w, uint32_t state, aw_waker *later) {
    notify_remove(n, w);
    aw__store_release(&w->future.state, state);
    aw__wake_or_clone(&w->waker, later);
}

static bool is_older(const aw_notified *w, uint32_t generation) {
    return (int32_t)((w->future.state & ~(uint32_t)NOTIFY_MASK) - generation) < 0;
}

void aw_notify_one(aw_notify *n) {
    aw_waker later = {NULL, NULL};
    aw__lock(&n->lock);
    aw_notified *w = n->first;
    uint32_t generation = generation_of(n);
    while (w && is_older(w, generation))
        w = w->next;
    if (w)
        deliver(n, w, NOTIFIED_BY_ONE, &later);
    else
        n->permit = 1;
    aw__unlock(&n->lock);
    if (later.type) aw_waker_wake(later);
}

void aw_notify_waiters(aw_notify *n) {
    aw_waker later;
    aw__lock(&n->lock);
    uint32_t generation = generation_of(n) + NOTIFY_GENERATION;
    aw__store_release(&n->generation, generation);
    for (bool more = true; more;) {
        later.type = NULL;
        while ((more = n->first && is_older(n->first, generation)) && !later.type)
            deliver(n, n->first, NOTIFIED_BY_ALL, &later);
        aw__unlock(&n->lock);
        /* If there are no more waiters, `n` may be gone. */
        if (later.type) aw_waker_wake(later);
        if (more) aw__lock(&n->lock);
    }
}

int aw_notify_try_wait(aw_notify *n) {
    aw__lock(&n->lock);
    uint32_t permit = n->permit;
    n->permit = 0;
    aw__unlock(&n->lock);
    return permit ? 0 : -EAGAIN;
}

/* If another task armed the wait, before the future moved to this task, it stays armed there. */
static void notified_disarm(aw_notified *w, aw_cx *cx) {
    if (aw_waker_will_wake(&w->waker, cx->waker)) aw_cx_disarm(cx);
}

static aw_poll notified_poll(aw_future *self, aw_cx *cx) {
    aw_notified *w = (aw_notified *)self;
    aw_notify *n = w->notify;
    if ((notified_state(w) & NOTIFY_MASK) == NOTIFY_WAITING &&
        aw_waker_will_wake(&w->waker, cx->waker))
        return AW_PENDING;

    aw__lock(&n->lock);
    uint32_t state = self->state & NOTIFY_MASK, generation = generation_of(n);
    bool missed = state == NOTIFY_FRESH && self->state != generation; /* FRESH is 0 */
    bool ready = state > NOTIFY_WAITING || missed || (state == NOTIFY_FRESH && n->permit);
    if (ready && aw_cx_exhausted(cx)) {
        aw__unlock(&n->lock);
        aw_cx_spend(cx); /* wakes this task again */
        return AW_PENDING;
    }
    if (missed) {
        self->state = NOTIFIED_BY_ALL;
    } else if (ready && state == NOTIFY_FRESH) {
        n->permit = 0;
        self->state = NOTIFIED_BY_ONE;
    }
    if (!ready) w->waker = *cx->waker;
    if (!ready && state == NOTIFY_FRESH) {
        self->state = generation | NOTIFY_WAITING;
        aw__tailq_insert_tail(n, w);
    }
    aw__unlock(&n->lock);
    if (!ready) {
        aw_cx_arm(cx);
        return AW_PENDING;
    }
    aw_cx_spend(cx);
    if (state != NOTIFY_FRESH) notified_disarm(w, cx);
    return AW_READY;
}

static aw_poll notified_cancel(aw_future *self, aw_cx *cx) {
    aw_notified *w = (aw_notified *)self;
    if ((notified_state(w) & NOTIFY_MASK) == NOTIFY_FRESH) return AW_CANCELLED;
    aw__lock(&w->notify->lock);
    bool notified = (self->state & NOTIFY_MASK) > NOTIFY_WAITING;
    if (!notified) notify_remove(w->notify, w);
    aw__unlock(&w->notify->lock);
    notified_disarm(w, cx);
    return notified ? AW_READY : AW_CANCELLED;
}

/* The notification was not used: pass it to the next waiter. */
static void notified_discard(aw_future *self) {
    aw_notified *w = (aw_notified *)self;
    if (self->state == NOTIFIED_BY_ONE) aw_notify_one(w->notify);
}

const aw_future_type aw_notified_type = {
    AW_TYPE_OF(aw_notified, "notified"), .flags = AW_OUT_ERRNO,       .poll = notified_poll,
    .cancel = notified_cancel,           .discard = notified_discard,
};
