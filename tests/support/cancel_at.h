/* SPDX-License-Identifier: MIT
 *
 * A future that runs another future and cancels it at a chosen step, with a new waker for each
 * call. These wakers are checked (checked_waker.h), and pass each wake on to the task that
 * polls. */
#ifndef AWAKE_TEST_CANCEL_AT_H
#define AWAKE_TEST_CANCEL_AT_H

#include <awake.h>

#include "support/checked_waker.h"

/* When to cancel. */
struct cancel_plan {
    int at; /* after this many pending polls */
    /* If set, waits until the future has been woken again. */
    bool woken;
    /* In this step after the first cancel, cancels twice. */
    int again;
};

/* A checked waker in front of the task's waker. */
struct relayed {
    struct checked_waker checked_waker;
    aw_waker to; /* a clone, until this waker is retired */
};

static aw_waker relayed_clone(void *data);

static inline void relayed_wake_by_ref(void *data) {
    struct relayed *r = data;
    checked_waker_wake_by_ref(&r->checked_waker);
    aw_waker_wake_by_ref(&r->to);
}
static inline void relayed_drop(void *data) {
    checked_waker_drop(&((struct relayed *)data)->checked_waker);
}
static inline void relayed_wake(void *data) {
    relayed_wake_by_ref(data);
    relayed_drop(data);
}
static const aw_waker_type relayed_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "relayed",
    .clone = relayed_clone,
    .wake = relayed_wake,
    .wake_by_ref = relayed_wake_by_ref,
    .drop = relayed_drop,
};
static aw_waker relayed_clone(void *data) {
    checked_waker_clone(&((struct relayed *)data)->checked_waker);
    return (aw_waker){&relayed_type, data};
}

enum { CANCEL_AT_WAKERS = 16 };

struct cancel_at {
    aw_future future;
    aw_poll out; /* how the inner future ended */
    aw_future *inner;
    struct cancel_plan plan;
    int polls, cancels;
    bool cancelling;
    unsigned calls;
    struct relayed wakers[CANCEL_AT_WAKERS];
};

static inline void cancel_at_retire(struct relayed *r) {
    if (!r->to.type) return;
    checked_waker_retire(&r->checked_waker);
    aw_waker_drop(aw_waker_take(&r->to));
}

/* Each third call passes the task's own waker, the others a new one. */
static inline aw_poll cancel_at_call(struct cancel_at *k, aw_cx *cx, bool cancel) {
    struct relayed *now = &k->wakers[++k->calls % CANCEL_AT_WAKERS],
                   *before = &k->wakers[(k->calls - 1) % CANCEL_AT_WAKERS];
    aw_waker waker = *cx->waker;
    *now = (struct relayed){{0, 0, false}, {NULL, NULL}};
    if (k->calls % 3) {
        now->to = aw_waker_clone(cx->waker);
        waker = (aw_waker){&relayed_type, now};
    }
    aw_cx inner = *cx;
    inner.waker = &waker;
    aw_poll r = cancel ? aw_future_cancel(k->inner, &inner) : aw_future_poll(k->inner, &inner);
    cancel_at_retire(before);
    if (r != AW_PENDING) cancel_at_retire(now);
    return r;
}

static inline aw_poll cancel_at_end(struct cancel_at *k, aw_poll how) {
    k->out = how;
    return AW_READY;
}

static inline aw_poll cancel_at_poll(aw_future *self, aw_cx *cx) {
    struct cancel_at *k = (struct cancel_at *)self;
    aw_poll r;
    if (!k->cancelling && (k->polls < k->plan.at || (k->plan.woken && k->polls == 0))) {
        if ((r = cancel_at_call(k, cx, false)) != AW_PENDING) return cancel_at_end(k, r);
        k->polls++;
        if (k->polls < k->plan.at || k->plan.woken) return AW_PENDING;
    }
    k->cancelling = true;
    if ((r = cancel_at_call(k, cx, true)) != AW_PENDING) return cancel_at_end(k, r);
    if (k->cancels++ == k->plan.again && (r = cancel_at_call(k, cx, true)) != AW_PENDING)
        return cancel_at_end(k, r);
    CHECK_LT(k->cancels, 10000);
    return AW_PENDING;
}

static const aw_future_type cancel_at_type = {AW_TYPE_OF(struct cancel_at, "cancel_at"),
                                              .poll = cancel_at_poll};

static inline struct cancel_at cancel_at(aw_future *inner, struct cancel_plan plan) {
    return (struct cancel_at){AW_FUTURE_INIT(&cancel_at_type),
                              AW_PENDING,
                              inner,
                              plan,
                              0,
                              0,
                              false,
                              0,
                              {{{0, 0, 0}, {0, 0}}}};
}

#endif
