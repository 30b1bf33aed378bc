/* SPDX-License-Identifier: MIT
 *
 * Oneshot: a state under a short lock, and at most one waiter on each side. Any thread may call
 * these functions. A future takes the lock before it ends, so its borrowed waker is never used
 * after its frame is gone. */
#include <awake/oneshot.h>

#include <errno.h>
#include <string.h>

#include "future/wake.h"
#include "os/lock.h"

/* Bits of `state`. */
enum {
    ONESHOT_SENT = 1,
    ONESHOT_TAKEN = 2,       /* received */
    ONESHOT_NO_SENDER = 4,   /* closed, or has sent */
    ONESHOT_NO_RECEIVER = 8, /* closed */
};

/* Under the lock. */
static void wake_waiter(aw_oneshot_future *w, aw_waker *later) {
    if (w) aw__wake_or_clone(&w->waker, later);
}

static void unlock_and_wake(aw_oneshot *c, aw_waker later) {
    aw__unlock(&c->lock);
    if (later.type) aw_waker_wake(later);
}

int aw__oneshot_send(aw_oneshot *c, void *slot, const void *value, size_t size) {
    aw_waker later = {NULL, NULL};
    int error = 0;
    aw__lock(&c->lock);
    if (c->state & ONESHOT_NO_SENDER) {
        error = -EALREADY;
    } else if (c->state & ONESHOT_NO_RECEIVER) {
        error = -EPIPE;
    } else {
        memcpy(slot, value, size);
        c->state |= ONESHOT_SENT | ONESHOT_NO_SENDER;
        wake_waiter(c->receiver, &later);
    }
    unlock_and_wake(c, later);
    return error;
}

void aw__oneshot_close_sender(aw_oneshot *c) {
    aw_waker later = {NULL, NULL};
    aw__lock(&c->lock);
    c->state |= ONESHOT_NO_SENDER;
    wake_waiter(c->receiver, &later);
    unlock_and_wake(c, later);
}

void aw__oneshot_close_receiver(aw_oneshot *c) {
    aw_waker later = {NULL, NULL}, receiver = {NULL, NULL};
    aw__lock(&c->lock);
    c->state |= ONESHOT_NO_RECEIVER;
    wake_waiter(c->closed, &later);
    wake_waiter(c->receiver, &receiver); /* another task may be waiting */
    unlock_and_wake(c, later);
    if (receiver.type) aw_waker_wake(receiver);
}

/* Under the lock. After the value was taken, nothing more will come. */
static int oneshot_receive(aw_oneshot *c, aw_waker *later) {
    if (c->state & ONESHOT_SENT && !(c->state & ONESHOT_TAKEN)) {
        c->state |= ONESHOT_TAKEN;
        wake_waiter(c->closed, later);
        return 0;
    }
    return c->state & (ONESHOT_NO_SENDER | ONESHOT_NO_RECEIVER) ? -EPIPE : -EAGAIN;
}

int aw__oneshot_try_recv(aw_oneshot *c) {
    aw_waker later = {NULL, NULL};
    aw__lock(&c->lock);
    int r = oneshot_receive(c, &later);
    unlock_and_wake(c, later);
    return r;
}

bool aw__oneshot_is_closed(aw_oneshot *c) {
    aw__lock(&c->lock);
    bool closed = c->state & (ONESHOT_NO_RECEIVER | ONESHOT_TAKEN);
    aw__unlock(&c->lock);
    return closed;
}

/* Under the lock: the output of the future, or -EAGAIN. */
static int oneshot_attempt(const aw_oneshot_future *w, aw_waker *later) {
    if (w->future.type == &aw_oneshot_recv_type) return oneshot_receive(w->channel, later);
    return w->channel->state & (ONESHOT_NO_RECEIVER | ONESHOT_TAKEN) ? 0 : -EAGAIN;
}

/* Under the lock: whether oneshot_attempt would return an output. */
static bool oneshot_is_ready(const aw_oneshot_future *w) {
    bool recv = w->future.type == &aw_oneshot_recv_type;
    return w->channel->state & (recv ? ONESHOT_SENT | ONESHOT_NO_SENDER | ONESHOT_NO_RECEIVER
                                     : ONESHOT_NO_RECEIVER | ONESHOT_TAKEN);
}

static aw_oneshot_future **waiter_slot(const aw_oneshot_future *w) {
    aw_oneshot *c = w->channel;
    return w->future.type == &aw_oneshot_recv_type ? &c->receiver : &c->closed;
}

static aw_poll poll_or_cancel(aw_oneshot_future *w, aw_cx *cx, bool cancel) {
    aw_oneshot *c = w->channel;
    aw_waker later = {NULL, NULL};
    aw__lock(&c->lock);
    if (!cancel && oneshot_is_ready(w) && aw_cx_exhausted(cx)) {
        /* Replace the waker of an earlier poll: it may be gone when the other side wakes again. */
        bool changed = w->linked && !aw_waker_will_wake(&w->waker, cx->waker);
        if (changed) w->waker = *cx->waker;
        aw__unlock(&c->lock);
        if (changed) aw_cx_arm(cx);
        aw_cx_spend(cx); /* wakes this task again */
        return AW_PENDING;
    }
    int r = oneshot_attempt(w, &later);
    bool wait = r == -EAGAIN && !cancel;
    bool arm = wait && (!w->linked || !aw_waker_will_wake(&w->waker, cx->waker));
    if (wait) {
        w->waker = *cx->waker;
        *waiter_slot(w) = w;
    } else if (w->linked && *waiter_slot(w) == w) {
        *waiter_slot(w) = NULL;
    }
    unlock_and_wake(c, later);
    if (arm) aw_cx_arm(cx);
    if (!wait && !cancel) aw_cx_spend(cx);
    /* If another task armed the wait, before the future moved to this task, it stays armed
     * there. */
    if (!wait && w->linked && aw_waker_will_wake(&w->waker, cx->waker)) aw_cx_disarm(cx);
    w->linked = wait;
    w->out = r;
    if (wait) return AW_PENDING;
    return r == -EAGAIN ? AW_CANCELLED : AW_READY;
}

static aw_poll oneshot_poll(aw_future *self, aw_cx *cx) {
    return poll_or_cancel((aw_oneshot_future *)self, cx, false);
}

static aw_poll oneshot_cancel(aw_future *self, aw_cx *cx) {
    if (!aw_future_started(self)) return AW_CANCELLED;
    return poll_or_cancel((aw_oneshot_future *)self, cx, true);
}

/* The value was not used: it can be received again. */
static void oneshot_recv_discard(aw_future *self) {
    aw_oneshot_future *w = (aw_oneshot_future *)self;
    if (w->out != 0) return;
    aw__lock(&w->channel->lock);
    w->channel->state &= ~(uint32_t)ONESHOT_TAKEN;
    aw__unlock(&w->channel->lock);
}

const aw_future_type aw_oneshot_recv_type = {
    AW_TYPE_OF(aw_oneshot_future, "oneshot_recv"),
    .flags = AW_OUT_ERRNO,
    .poll = oneshot_poll,
    .cancel = oneshot_cancel,
    .discard = oneshot_recv_discard,
};

const aw_future_type aw_oneshot_closed_type = {
    AW_TYPE_OF(aw_oneshot_future, "oneshot_closed"),
    .flags = AW_OUT_ERRNO,
    .poll = oneshot_poll,
    .cancel = oneshot_cancel,
};
