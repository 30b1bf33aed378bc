/* SPDX-License-Identifier: MIT
 *
 * Oneshot: a state under a short lock, and at most one waiter on each side. Whoever ends takes the
 * lock first, so a borrowed waker is never used after its frame. */
#include <awake/oneshot.h>

#include <errno.h>
#include <string.h>

#include "core/lock.h"
#include "core/wake.h"

enum { /* state */
       SENT = 1,
       TAKEN = 2,       /* received */
       NO_SENDER = 4,   /* it has closed, or has sent */
       NO_RECEIVER = 8, /* it has closed */
};

/* Under the lock: wake whoever waits there. */
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
    if (c->state & NO_SENDER) {
        error = -EALREADY;
    } else if (c->state & NO_RECEIVER) {
        error = -EPIPE;
    } else {
        memcpy(slot, value, size);
        c->state |= SENT | NO_SENDER;
        wake_waiter(c->receiver, &later);
    }
    unlock_and_wake(c, later);
    return error;
}

void aw__oneshot_close_sender(aw_oneshot *c) {
    aw_waker later = {NULL, NULL};
    aw__lock(&c->lock);
    c->state |= NO_SENDER;
    wake_waiter(c->receiver, &later);
    unlock_and_wake(c, later);
}

void aw__oneshot_close_receiver(aw_oneshot *c) {
    aw_waker later = {NULL, NULL}, receiver = {NULL, NULL};
    aw__lock(&c->lock);
    c->state |= NO_RECEIVER;
    wake_waiter(c->closed, &later);
    wake_waiter(c->receiver, &receiver); /* which another task closes */
    unlock_and_wake(c, later);
    if (receiver.type) aw_waker_wake(receiver);
}

/* Under the lock. A value that was taken is gone: nothing more will come. */
static int receive(aw_oneshot *c, aw_waker *later) {
    if (c->state & SENT && !(c->state & TAKEN)) {
        c->state |= TAKEN;
        wake_waiter(c->closed, later);
        return 0;
    }
    return c->state & (NO_SENDER | NO_RECEIVER) ? -EPIPE : -EAGAIN;
}

int aw__oneshot_try_recv(aw_oneshot *c) {
    aw_waker later = {NULL, NULL};
    aw__lock(&c->lock);
    int r = receive(c, &later);
    unlock_and_wake(c, later);
    return r;
}

bool aw__oneshot_is_closed(aw_oneshot *c) {
    aw__lock(&c->lock);
    bool closed = c->state & (NO_RECEIVER | TAKEN);
    aw__unlock(&c->lock);
    return closed;
}

/* What the future waits for, under the lock: -EAGAIN when it has not come. */
static int look(const aw_oneshot_future *w, aw_waker *later) {
    if (w->future.type == &aw_oneshot_recv_type) return receive(w->channel, later);
    return w->channel->state & (NO_RECEIVER | TAKEN) ? 0 : -EAGAIN;
}

/* Whether it has come. Under the lock. */
static bool there(const aw_oneshot_future *w) {
    bool recv = w->future.type == &aw_oneshot_recv_type;
    return w->channel->state & (recv ? SENT | NO_SENDER | NO_RECEIVER : NO_RECEIVER | TAKEN);
}

static aw_oneshot_future **place_of(const aw_oneshot_future *w) {
    aw_oneshot *c = w->channel;
    return w->future.type == &aw_oneshot_recv_type ? &c->receiver : &c->closed;
}

static aw_poll poll_or_cancel(aw_oneshot_future *w, aw_cx *cx, bool cancel) {
    aw_oneshot *c = w->channel;
    aw_waker later = {NULL, NULL};
    aw__lock(&c->lock);
    if (!cancel && there(w) && aw_cx_exhausted(cx)) {
        /* The waker of the poll before may be gone when the other side does something again. */
        bool changed = w->linked && !aw_waker_will_wake(&w->waker, cx->waker);
        if (changed) w->waker = *cx->waker;
        aw__unlock(&c->lock);
        if (changed) aw_cx_arm(cx);
        aw_cx_spend(cx); /* wakes us again */
        return AW_PENDING;
    }
    int r = look(w, &later);
    bool wait = r == -EAGAIN && !cancel;
    bool arm = wait && (!w->linked || !aw_waker_will_wake(&w->waker, cx->waker));
    if (wait) {
        w->waker = *cx->waker;
        *place_of(w) = w;
    } else if (w->linked && *place_of(w) == w) {
        *place_of(w) = NULL;
    }
    unlock_and_wake(c, later);
    if (arm) aw_cx_arm(cx);
    if (!wait && !cancel) aw_cx_spend(cx);
    /* A wait that another task armed, before this was moved here, stays with that task. */
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

/* Nobody took the value: it can be received again. */
static void recv_discard(aw_future *self) {
    aw_oneshot_future *w = (aw_oneshot_future *)self;
    if (w->out != 0) return;
    aw__lock(&w->channel->lock);
    w->channel->state &= ~(uint32_t)TAKEN;
    aw__unlock(&w->channel->lock);
}

const aw_future_type aw_oneshot_recv_type = {
    AW_TYPE_OF(aw_oneshot_future, "oneshot_recv"),
    .flags = AW_OUT_ERRNO,
    .poll = oneshot_poll,
    .cancel = oneshot_cancel,
    .discard = recv_discard,
};

const aw_future_type aw_oneshot_closed_type = {
    AW_TYPE_OF(aw_oneshot_future, "oneshot_closed"),
    .flags = AW_OUT_ERRNO,
    .poll = oneshot_poll,
    .cancel = oneshot_cancel,
};
