/* SPDX-License-Identifier: MIT
 *
 * Watch: a value, its version, and who waits, under a short lock. Nothing is lock-free: a value of any size has to be read
 * whole.
 *
 * Each receiver remembers the version that it has seen. One that waits has seen the latest: so when the version
 * changes, those at the front of the queue have an older one, and those who come meanwhile, or wait again, have the
 * new one and stay. They are woken some at a time, and the lock is free in between. What counts is the version at
 * which one began to wait: its receiver may see the new one in another way meanwhile, and must not keep those behind
 * it from being woken. */
#include <awake/watch.h>

#include <string.h>

#include "core/misuse.h"
#include "sync/waiters.h"

static aw_watch_future *of(aw__waiter *w) {
    return (aw_watch_future *)(void *)w;
}

void aw__watch_init(aw_watch *w, void *place, const void *first, size_t size) {
    *w = (aw_watch){.size = size, .value = place, .sender_count = 1};
    memcpy(place, first, size);
}

void aw__watch_free(aw_watch *w) {
    if (w->receivers.first || w->closers.first)
        aw__misuse("a watch is freed while somebody waits for it");
    if (w->release) w->release(w->value);
}

/* ---- Waking ----------------------------------------------------------------------------------- */

/* With the lock: who can go on, if anybody. */
static aw__waiters *ready_queue(void *owner) {
    aw_watch *w = owner;
    aw__waiter *first = w->receivers.first;
    if (first && (of(first)->before != w->version || !w->sender_count)) return &w->receivers;
    return w->closers.first && !w->receiver_count ? &w->closers : NULL;
}

/* With the lock, which is given back. */
static void wake_and_unlock(aw_watch *w) {
    aw__wake_ready_and_unlock(&w->lock, ready_queue, w);
}

/* ---- Senders ---------------------------------------------------------------------------------- */

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
    wake_and_unlock(w);
    if (release) release(old);
    return 0;
}

bool aw__watch_modify(aw_watch *w, aw_watch_modify_fn *fn, void *arg) {
    aw__lock(&w->lock);
    bool changed = fn(w->value, arg);
    if (changed) w->version++;
    wake_and_unlock(w);
    return changed;
}

void aw__watch_sender_clone(aw_watch *w) {
    aw__lock(&w->lock);
    w->sender_count++;
    aw__unlock(&w->lock);
}

void aw__watch_sender_drop(aw_watch *w) {
    aw__lock(&w->lock);
    if (w->sender_count == 0) aw__misuse("a watch is dropped by more senders than it has");
    w->sender_count--;
    wake_and_unlock(w);
}

/* ---- Receivers -------------------------------------------------------------------------------- */

aw_watch_receiver aw__watch_subscribe(aw_watch *w) {
    aw__lock(&w->lock);
    w->receiver_count++;
    aw_watch_receiver r = {w, w->version};
    aw__unlock(&w->lock);
    return r;
}

void aw_watch_unsubscribe(aw_watch_receiver *r) {
    aw_watch *w = r->watch;
    aw__lock(&w->lock);
    if (w->receiver_count == 0) aw__misuse("a watch is unsubscribed by more than have subscribed");
    w->receiver_count--;
    wake_and_unlock(w);
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

/* With the lock. */
static int changed(const aw_watch_receiver *r) {
    if (r->seen != r->watch->version) return 1;
    return r->watch->sender_count ? 0 : -EPIPE;
}

int aw_watch_has_changed(const aw_watch_receiver *r) {
    aw__lock(&r->watch->lock);
    int is = changed(r);
    aw__unlock(&r->watch->lock);
    return is;
}

/* ---- The futures ------------------------------------------------------------------------------ */

static void plain_unlock(aw__waiter *w, void *after) {
    (void)after;
    aw__unlock(&of(w)->watch->lock);
}

/* With the lock. */
static int see(aw_watch_future *f) {
    aw_watch_receiver *r = f->receiver;
    int is = changed(r);
    f->before = r->seen;
    r->seen = r->watch->version;
    return is > 0 ? 0 : is < 0 ? is : -EAGAIN;
}

static int changed_look(aw__waiter *w, bool fresh, void *after) {
    (void)after;
    int out = see(of(w));
    if (out == -EAGAIN && !fresh) aw__waiters_add(&of(w)->watch->receivers, w);
    return out;
}

static aw_poll changed_poll(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_watch *watch = of(w)->watch;
    return aw__wait_poll_look(w, &watch->lock, &watch->receivers, changed_look, plain_unlock, NULL,
                              cx);
}

static aw_poll changed_cancel(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_watch *watch = of(w)->watch;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&watch->lock);
    bool left = aw__wait_leave(&watch->receivers, w);
    bool seen = !left && (w->out = see(of(w))) == -EAGAIN; /* in another way */
    aw__unlock(&watch->lock);
    return aw__wait_cancelled(w, left || seen, cx);
}

static void changed_discard(aw_future *self) {
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

static int closed_look(aw__waiter *w, bool fresh, void *after) {
    (void)after;
    return fresh && of(w)->watch->receiver_count ? -EAGAIN : 0;
}

static aw_poll closed_poll(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_watch *watch = of(w)->watch;
    return aw__wait_poll_look(w, &watch->lock, &watch->closers, closed_look, plain_unlock, NULL,
                              cx);
}

static aw_poll closed_cancel(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_watch *watch = of(w)->watch;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&watch->lock);
    bool left = aw__wait_leave(&watch->closers, w);
    aw__unlock(&watch->lock);
    return aw__wait_cancelled(w, left, cx);
}

const aw_future_type aw_watch_changed_type = {
    AW_TYPE_OF(aw_watch_future, "watch_changed"),
    .flags = AW_OUT_ERRNO,
    .poll = changed_poll,
    .cancel = changed_cancel,
    .discard = changed_discard,
};

const aw_future_type aw_watch_closed_type = {
    AW_TYPE_OF(aw_watch_future, "watch_closed"),
    .flags = AW_OUT_ERRNO,
    .poll = closed_poll,
    .cancel = closed_cancel,
};
