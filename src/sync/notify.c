/* SPDX-License-Identifier: MIT
 *
 * Notify. A short lock guards the permit and the list of waiters, first polled first; nothing here is
 * lock-free but the look at `got`: who notifies stores it with release, still under the lock, and a
 * waiter that sees it takes the lock once before it ends, so that its borrowed waker is not in use any
 * more when its frame goes away.
 *
 * notify_waiters may have to let the lock go between wakes. It wakes those whose generation is older
 * than the one it began, so that whoever comes meanwhile is not woken by it. */
#include <awake/notify.h>

#include "core/lock.h"
#include "core/wake.h"

enum { WAITING, BY_ONE, BY_ALL }; /* got */
enum { FRESH, LINKED };           /* state of the future */

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

/* Under the lock. First `got`, then the wake: a waiter that is polled at once must see it. */
static void deliver(aw_notify *n, aw_notified *w, uint32_t how, aw_waker *later) {
    list_remove(n, w);
    aw__store_release(&w->got, how);
    aw__wake_or_clone(&w->waker, later);
}

void aw_notify_one(aw_notify *n) {
    aw_waker later = {NULL, NULL};
    aw__lock(&n->lock);
    if (n->first)
        deliver(n, n->first, BY_ONE, &later);
    else
        n->permit = 1;
    aw__unlock(&n->lock);
    if (later.type) aw_waker_wake(later);
}

void aw_notify_waiters(aw_notify *n) {
    aw_waker later;
    aw__lock(&n->lock);
    uint64_t generation = ++n->generation;
    for (bool more = true; more;) {
        later.type = NULL;
        while ((more = n->first && n->first->generation < generation) && !later.type)
            deliver(n, n->first, BY_ALL, &later);
        aw__unlock(&n->lock);
        /* Without more waiters `n` may be gone as soon as this one is woken. */
        if (later.type) aw_waker_wake(later);
        if (more) aw__lock(&n->lock);
    }
}

static aw_poll end(aw_notified *w, aw_cx *cx) {
    /* A wait that another task armed, before this was moved here, stays with that task. */
    if (w->future.state == LINKED && aw_waker_will_wake(&w->waker, cx->waker)) aw_cx_disarm(cx);
    return AW_READY;
}

static aw_poll notified_poll(aw_future *self, aw_cx *cx) {
    aw_notified *w = (aw_notified *)self;
    aw_notify *n = w->notify;
    if (self->state == LINKED && aw__load_acquire(&w->got) == WAITING &&
        aw_waker_will_wake(&w->waker, cx->waker))
        return AW_PENDING;

    aw__lock(&n->lock);
    bool ready = w->got != WAITING || (self->state == FRESH && n->permit);
    if (ready && aw_cx_exhausted(cx)) {
        aw__unlock(&n->lock);
        aw_cx_spend(cx); /* wakes us again */
        return AW_PENDING;
    }
    if (self->state == FRESH && n->permit) {
        n->permit = 0;
        w->got = BY_ONE;
    }
    if (!ready) w->waker = *cx->waker;
    if (!ready && self->state == FRESH) {
        w->generation = n->generation;
        w->prev = n->last;
        w->next = NULL;
        if (n->last)
            n->last->next = w;
        else
            n->first = w;
        n->last = w;
    }
    aw__unlock(&n->lock);
    if (ready) {
        aw_cx_spend(cx);
        return end(w, cx);
    }
    self->state = LINKED;
    aw_cx_arm(cx);
    return AW_PENDING;
}

static aw_poll notified_cancel(aw_future *self, aw_cx *cx) {
    aw_notified *w = (aw_notified *)self;
    if (self->state == FRESH) return AW_CANCELLED;
    aw__lock(&w->notify->lock);
    bool got = w->got != WAITING;
    if (!got) list_remove(w->notify, w);
    aw__unlock(&w->notify->lock);
    aw_poll r = end(w, cx);
    return got ? r : AW_CANCELLED;
}

/* Nobody used the notification: the next waiter gets it. */
static void notified_discard(aw_future *self) {
    aw_notified *w = (aw_notified *)self;
    if (w->got == BY_ONE) aw_notify_one(w->notify);
}

const aw_future_type aw_notified_type = {
    AW_TYPE_OF(aw_notified, "notified"), .flags = AW_OUT_ERRNO,       .poll = notified_poll,
    .cancel = notified_cancel,           .discard = notified_discard,
};
