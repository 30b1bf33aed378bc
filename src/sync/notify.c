/* SPDX-License-Identifier: MIT
 *
 * Notify. A short lock guards the permit and the list of waiters, first polled first; nothing here is
 * lock-free but the look at `state`: who notifies stores it with release, still under the lock, and a
 * waiter that sees it takes the lock once before it ends, so that its borrowed waker is not in use any
 * more when its frame goes away.
 *
 * notify_waiters may have to let the lock go between wakes. It wakes those whose generation is older
 * than the one it began, so that whoever comes meanwhile is not woken by it; and a notify_one that comes
 * meanwhile passes them by, so that it is not lost on one that is notified already. A generation counts in steps
 * that leave the low bits of a waiter's `state` free, and wraps around: those that meet are close. */
#include <awake/notify.h>

#include <errno.h>

#include "core/lock.h"
#include "core/wake.h"

/* state: one of these and, while it waits, the generation */
enum { FRESH, WAITING, BY_ONE, BY_ALL, HOW = 3, GENERATION = 4 };

static uint32_t state_of(const aw_notified *w) {
    return aw__load_acquire(&w->future.state);
}

/* Under the lock. */
static void list_remove(aw_notify *n, aw_notified *w) {
    if (w->prev)
        w->prev->next = w->next;
    else
        n->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        n->last = w->prev;
    w->next = w->prev = NULL;
}

/* Under the lock. First the state, then the wake: a waiter that is polled at once must see it. */
static void deliver(aw_notify *n, aw_notified *w, uint32_t how, aw_waker *later) {
    list_remove(n, w);
    aw__store_release(&w->future.state, how);
    aw__wake_or_clone(&w->waker, later);
}

static bool is_older(const aw_notified *w, uint32_t generation) {
    return (int32_t)((w->future.state & ~(uint32_t)HOW) - generation) < 0;
}

void aw_notify_one(aw_notify *n) {
    aw_waker later = {NULL, NULL};
    aw__lock(&n->lock);
    aw_notified *w = n->first;
    while (w && is_older(w, n->generation))
        w = w->next;
    if (w)
        deliver(n, w, BY_ONE, &later);
    else
        n->permit = 1;
    aw__unlock(&n->lock);
    if (later.type) aw_waker_wake(later);
}

void aw_notify_waiters(aw_notify *n) {
    aw_waker later;
    aw__lock(&n->lock);
    uint32_t generation = n->generation += GENERATION;
    for (bool more = true; more;) {
        later.type = NULL;
        while ((more = n->first && is_older(n->first, generation)) && !later.type)
            deliver(n, n->first, BY_ALL, &later);
        aw__unlock(&n->lock);
        /* Without more waiters `n` may be gone as soon as this one is woken. */
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

/* A wait that another task armed, before this was moved here, stays with that task. */
static void disarm(aw_notified *w, aw_cx *cx) {
    if (aw_waker_will_wake(&w->waker, cx->waker)) aw_cx_disarm(cx);
}

static aw_poll notified_poll(aw_future *self, aw_cx *cx) {
    aw_notified *w = (aw_notified *)self;
    aw_notify *n = w->notify;
    if ((state_of(w) & HOW) == WAITING && aw_waker_will_wake(&w->waker, cx->waker))
        return AW_PENDING;

    aw__lock(&n->lock);
    uint32_t how = self->state & HOW;
    bool ready = how > WAITING || (how == FRESH && n->permit);
    if (ready && aw_cx_exhausted(cx)) {
        aw__unlock(&n->lock);
        aw_cx_spend(cx); /* wakes us again */
        return AW_PENDING;
    }
    if (ready && how == FRESH) {
        n->permit = 0;
        self->state = BY_ONE;
    }
    if (!ready) w->waker = *cx->waker;
    if (!ready && how == FRESH) {
        self->state = n->generation | WAITING;
        w->prev = n->last;
        w->next = NULL;
        if (n->last)
            n->last->next = w;
        else
            n->first = w;
        n->last = w;
    }
    aw__unlock(&n->lock);
    if (!ready) {
        aw_cx_arm(cx);
        return AW_PENDING;
    }
    aw_cx_spend(cx);
    if (how != FRESH) disarm(w, cx);
    return AW_READY;
}

static aw_poll notified_cancel(aw_future *self, aw_cx *cx) {
    aw_notified *w = (aw_notified *)self;
    if (state_of(w) == FRESH) return AW_CANCELLED;
    aw__lock(&w->notify->lock);
    bool got = (self->state & HOW) > WAITING;
    if (!got) list_remove(w->notify, w);
    aw__unlock(&w->notify->lock);
    disarm(w, cx);
    return got ? AW_READY : AW_CANCELLED;
}

/* Nobody used the notification: the next waiter gets it. */
static void notified_discard(aw_future *self) {
    aw_notified *w = (aw_notified *)self;
    if (self->state == BY_ONE) aw_notify_one(w->notify);
}

const aw_future_type aw_notified_type = {
    AW_TYPE_OF(aw_notified, "notified"), .flags = AW_OUT_ERRNO,       .poll = notified_poll,
    .cancel = notified_cancel,           .discard = notified_discard,
};
