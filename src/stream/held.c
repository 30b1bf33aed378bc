/* SPDX-License-Identifier: MIT
 *
 * A future in a stream, which goes on from one `next` to another: a generator, or the one that makes the next item.
 *
 * When a `next` is cancelled the future must not keep its waker, which is only borrowed, and must not be cancelled, for the
 * item would be lost. So it is polled once more, with a waker that does nothing: a future keeps the latest and no other. In
 * that poll it may finish, and then the `next` has finished too. Who asks next polls it with a waker of his own.
 * Its waits are counted apart, because the next one who asks may be another task. */
#include <awake/stream.h>

#include "core/carry.h"

void aw__held_idle(aw__held *h, aw_cx *cx) {
    aw__carry_disarm(&h->carry, &h->parent, cx);
    h->parent = (aw_waker){NULL, NULL};
}

static aw_poll call(aw__held *h, aw_future *f, aw_cx *cx, bool cancel) {
    aw__meter meter = aw__carry_meter(cx);
    aw_cx inside = {cx->waker, cx->runtime, &meter};
    aw__held_idle(h, cx);
    aw_poll r = cancel ? aw_future_cancel(f, &inside) : aw_future_poll(f, &inside);
    aw__carry_add(&h->carry, &meter, cx);
    if (cx->meter) cx->meter->budget = meter.budget;
    if (r != AW_PENDING) {
        h->carry = (aw__carry){0, 0, 0};
    } else if (h->carry.armed > 0) {
        aw__carry_arm(&h->carry, cx, h->carry.outside > 0);
        h->parent = *cx->waker;
    }
    return r;
}

aw_poll aw__held_poll(aw__held *h, aw_future *f, aw_cx *cx) {
    return call(h, f, cx, false);
}

aw_poll aw__held_cancel(aw__held *h, aw_future *f, aw_cx *cx) {
    return call(h, f, cx, true);
}

/* A cancel has no budget to give: the future has the usual one, so that a loop in it comes to an end. */
bool aw__held_rest(aw__held *h, aw_future *f, aw_cx *cx) {
    aw_waker nobody = aw_noop_waker();
    aw__meter meter = aw__carry_meter(cx);
    aw_cx quiet = {&nobody, cx->runtime, &meter};
    meter.budget = 128;
    aw__held_idle(h, cx);
    aw_poll r = aw_future_poll(f, &quiet);
    aw__carry_add(&h->carry, &meter, cx);
    if (r == AW_READY) h->carry = (aw__carry){0, 0, 0};
    return r == AW_READY;
}
