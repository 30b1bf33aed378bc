/* SPDX-License-Identifier: MIT
 *
 * A future that runs another one and cancels it at a chosen step, with another waker at each call. The
 * wakers check what support/beacon.h checks, and pass the wake on to the task that runs the knife. */
#ifndef AWAKE_TEST_KNIFE_H
#define AWAKE_TEST_KNIFE_H

#include <awake.h>

#include "support/beacon.h"

/* Where to cut. */
struct plan {
    int at;     /* after this many polls that found it pending */
    bool woken; /* not at once, but when it has been woken again */
    int again;  /* how many steps after the first cancel it is cancelled twice in one step */
};

/* A beacon in front of the waker of the task. */
struct relayed {
    struct beacon beacon;
    aw_waker to; /* a clone, until it is retired */
};

static aw_waker relayed_clone(void *data);

static inline void relayed_wake_by_ref(void *data) {
    struct relayed *r = data;
    beacon_wake_by_ref(&r->beacon);
    aw_waker_wake_by_ref(&r->to);
}
static inline void relayed_drop(void *data) {
    beacon_drop(&((struct relayed *)data)->beacon);
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
    beacon_clone(&((struct relayed *)data)->beacon);
    return (aw_waker){&relayed_type, data};
}

enum { KNIFE_WAKERS = 16 };

struct knife {
    aw_future future;
    aw_poll out; /* how it ended */
    aw_future *inner;
    struct plan plan;
    int polls, cancels;
    bool cut;
    unsigned calls;
    struct relayed wakers[KNIFE_WAKERS];
};

static inline void knife_retire(struct relayed *r) {
    if (!r->to.type) return;
    beacon_retire(&r->beacon);
    aw_waker_drop(aw_waker_take(&r->to));
}

/* Each third call brings the task's own waker, the others a fresh one. */
static inline aw_poll knife_call(struct knife *k, aw_cx *cx, bool cancel) {
    struct relayed *now = &k->wakers[++k->calls % KNIFE_WAKERS],
                   *before = &k->wakers[(k->calls - 1) % KNIFE_WAKERS];
    aw_waker waker = *cx->waker;
    *now = (struct relayed){{0, 0, false}, {NULL, NULL}};
    if (k->calls % 3) {
        now->to = aw_waker_clone(cx->waker);
        waker = (aw_waker){&relayed_type, now};
    }
    aw_cx inner = *cx;
    inner.waker = &waker;
    aw_poll r = cancel ? aw_future_cancel(k->inner, &inner) : aw_future_poll(k->inner, &inner);
    knife_retire(before);
    if (r != AW_PENDING) knife_retire(now);
    return r;
}

static inline aw_poll knife_end(struct knife *k, aw_poll how) {
    k->out = how;
    return AW_READY;
}

static inline aw_poll knife_poll(aw_future *self, aw_cx *cx) {
    struct knife *k = (struct knife *)self;
    aw_poll r;
    if (!k->cut && (k->polls < k->plan.at || (k->plan.woken && k->polls == 0))) {
        if ((r = knife_call(k, cx, false)) != AW_PENDING) return knife_end(k, r);
        k->polls++;
        if (k->polls < k->plan.at || k->plan.woken) return AW_PENDING;
    }
    k->cut = true;
    if ((r = knife_call(k, cx, true)) != AW_PENDING) return knife_end(k, r);
    if (k->cancels++ == k->plan.again && (r = knife_call(k, cx, true)) != AW_PENDING)
        return knife_end(k, r);
    CHECK_LT(k->cancels, 10000);
    return AW_PENDING;
}

static const aw_future_type knife_type = {AW_TYPE_OF(struct knife, "knife"), .poll = knife_poll};

static inline struct knife knife(aw_future *inner, struct plan plan) {
    return (struct knife){AW_FUTURE_INIT(&knife_type), AW_PENDING, inner, plan, 0, 0, false, 0,
                          {{{0, 0, 0}, {0, 0}}}};
}

#endif
