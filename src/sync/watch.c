/* SPDX-License-Identifier: MIT
 *
 * Watch: a value, its version and the queues of waiters, under a short lock. Any thread may call
 * these functions; a receiver is used by one task at a time. Nothing is lock-free: a value of any
 * size must be read whole.
 *
 * Each receiver remembers the version that it has seen. A waiting receiver has seen the latest one.
 * So when the version changes, the waiters at the front of the queue have an older version and are
 * woken, in batches between which the lock is free. Waiters that are queued meanwhile have the new
 * version and stay. A waiter is judged by the version at which it began to wait (`before`): its
 * receiver may have seen the new value by another call, which must not stop the wake-up of the
 * waiters behind it. */
#include <awake/watch.h>

#include <string.h>

#include "base/misuse.h"
#include "future/waiters.h"

static aw_watch_future *watch_future_of(aw__waiter *w) {
    return (aw_watch_future *)(void *)w;
}

void aw__watch_init(aw_watch *w, void *storage, const void *first, size_t size) {
    *w = (aw_watch){.size = size, .value = storage, .sender_count = 1};
    memcpy(storage, first, size);
}

void aw__watch_free(aw_watch *w) {
    if (w->receivers.first || w->closers.first)
        aw__misuse("a watch was freed while futures wait for it");
    if (w->release) w->release(w->value);
}

/* ---- Waking ---------------------------------------------------------------------------------- */

/* Under the lock: the queue of a waiter that can proceed, or NULL. */
static aw__waiters *watch_ready_queue(void *owner) {
    aw_watch *w = owner;
    aw__waiter *first = w->receivers.first;
    if (first && (watch_future_of(first)->before != w->version || !w->sender_count))
        return &w->receivers;
    return w->closers.first && !w->receiver_count ? &w->closers : NULL;
}

/* Takes over the held lock and releases it. */
static void watch_wake_and_unlock(aw_watch *w) {
    aw__wake_ready_and_unlock(&w->lock, watch_ready_queue, w);
}

/* ---- Senders --------------------------------------------------------------------------------- */

int aw__watch_send(aw_watch *w, const void *next, void *old, bool subscribed) {
    aw_release_fn *release = w->release;
    aw__lock(&w->lock);
    if (subscribed && !w->receiver_count) {
        aw__unlock(&w->lock);
        return -EPIPE;
    }
    if (release) memcpy(old, w->value, w->size);
    memcpy(w->value, next, w->size);
    w->version++;
    watch_wake_and_unlock(w);
    if (release) release(old);
    return 0;
}

bool aw__watch_modify(aw_watch *w, aw_watch_modify_fn *fn, void *arg) {
    aw__lock(&w->lock);
    bool changed = fn(w->value, arg);
    if (changed) w->version++;
    watch_wake_and_unlock(w);
    return changed;
}

void aw__watch_sender_keep(aw_watch *w) {
    aw__lock(&w->lock);
    w->sender_count++;
    aw__unlock(&w->lock);
}

void aw__watch_sender_drop(aw_watch *w) {
    aw__lock(&w->lock);
    if (w->sender_count == 0) aw__misuse("a watch sender was dropped more often than kept");
    w->sender_count--;
    watch_wake_and_unlock(w);
}

/* ---- Receivers ------------------------------------------------------------------------------- */

aw_watch_receiver aw__watch_subscribe(aw_watch *w) {
    aw__lock(&w->lock);
    w->receiver_count++;
    aw_watch_receiver r = {w, w->version};
    aw__unlock(&w->lock);
    return r;
}

void aw_watch_unsubscribe(aw_watch_receiver *r) {
    aw_watch *w = r->watch;
    if (!w) return;
    r->watch = NULL;
    aw__lock(&w->lock);
    if (w->receiver_count == 0)
        aw__misuse("a watch was unsubscribed from more often than subscribed to");
    w->receiver_count--;
    watch_wake_and_unlock(w);
}

void aw__watch_get(aw_watch *w, aw_watch_receiver *r, void *copy) {
    aw__lock(&w->lock);
    if (w->clone)
        w->clone(copy, w->value);
    else
        memcpy(copy, w->value, w->size);
    if (r) r->seen = w->version;
    aw__unlock(&w->lock);
}

/* Under the lock. 1: changed; 0: not yet; -EPIPE: it never will. */
static int watch_status(const aw_watch_receiver *r) {
    if (r->seen != r->watch->version) return 1;
    return r->watch->sender_count ? 0 : -EPIPE;
}

static void check_subscribed(const aw_watch *w) {
    if (AW__UNLIKELY(!w))
        aw__misuse("a watch receiver was used that is not subscribed: call aw_watch_subscribe");
}

int aw_watch_has_changed(const aw_watch_receiver *r) {
    check_subscribed(r->watch);
    aw__lock(&r->watch->lock);
    int changed = watch_status(r);
    aw__unlock(&r->watch->lock);
    return changed;
}

/* ---- The futures ----------------------------------------------------------------------------- */

static void watch_unlock(aw__waiter *w, void *deferred) {
    (void)deferred;
    aw__unlock(&watch_future_of(w)->watch->lock);
}

/* Under the lock: the receiver has now seen the latest version. 0: it had not; -EAGAIN; -EPIPE. */
static int mark_seen(aw_watch_future *f) {
    aw_watch_receiver *r = f->receiver;
    int changed = watch_status(r);
    f->before = r->seen;
    r->seen = r->watch->version;
    return changed > 0 ? 0 : changed < 0 ? changed : -EAGAIN;
}

static int watch_changed_attempt(aw__waiter *w, bool fresh, void *deferred) {
    (void)deferred;
    int out = mark_seen(watch_future_of(w));
    if (out == -EAGAIN && !fresh) aw__waiters_add(&watch_future_of(w)->watch->receivers, w);
    return out;
}

static aw_poll watch_changed_poll(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_watch *watch = watch_future_of(w)->watch;
    check_subscribed(watch);
    return aw__wait_poll_attempt(w, &watch->lock, &watch->receivers, watch_changed_attempt,
                                 watch_unlock, NULL, cx);
}

static aw_poll watch_changed_cancel(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_watch *watch = watch_future_of(w)->watch;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&watch->lock);
    bool dequeued = aw__wait_leave(&watch->receivers, w);
    /* The receiver may have seen the new version meanwhile, by another call. */
    bool seen = !dequeued && (w->out = mark_seen(watch_future_of(w))) == -EAGAIN;
    aw__unlock(&watch->lock);
    return aw__wait_cancelled(w, dequeued || seen, cx);
}

static void watch_changed_discard(aw_future *self) {
    aw_watch_future *f = (aw_watch_future *)self;
    if (f->out < 0) return;
    aw__lock(&f->watch->lock);
    f->receiver->seen = f->before;
    aw__unlock(&f->watch->lock);
}

bool aw__watch_is_closed(aw_watch *w) {
    aw__lock(&w->lock);
    bool closed = w->receiver_count == 0;
    aw__unlock(&w->lock);
    return closed;
}

/* Under the lock. "Closed" is a state, not an event: a receiver that subscribed after the wake
 * counts. */
static int watch_closed_attempt(aw__waiter *w, bool fresh, void *deferred) {
    (void)deferred;
    aw_watch *watch = watch_future_of(w)->watch;
    if (!watch->receiver_count) return 0;
    if (!fresh) aw__waiters_add(&watch->closers, w);
    return -EAGAIN;
}

static aw_poll watch_closed_poll(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_watch *watch = watch_future_of(w)->watch;
    return aw__wait_poll_attempt(w, &watch->lock, &watch->closers, watch_closed_attempt,
                                 watch_unlock, NULL, cx);
}

static aw_poll watch_closed_cancel(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_watch *watch = watch_future_of(w)->watch;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&watch->lock);
    bool cancelled = aw__wait_leave(&watch->closers, w) || watch->receiver_count;
    aw__unlock(&watch->lock);
    return aw__wait_cancelled(w, cancelled, cx);
}

const aw_future_type aw_watch_changed_type = {
    AW_TYPE_OF(aw_watch_future, "watch_changed"),
    .flags = AW_OUT_ERRNO,
    .poll = watch_changed_poll,
    .cancel = watch_changed_cancel,
    .discard = watch_changed_discard,
};

const aw_future_type aw_watch_closed_type = {
    AW_TYPE_OF(aw_watch_future, "watch_closed"),
    .flags = AW_OUT_ERRNO,
    .poll = watch_closed_poll,
    .cancel = watch_closed_cancel,
};
