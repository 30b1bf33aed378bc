/* SPDX-License-Identifier: MIT
 *
 * A future in a stream that lives on from one `next` to another: a generator, or the future that
 * makes the next item.
 *
 * When a `next` is cancelled, the future must not keep its waker, which is borrowed, and must not
 * be cancelled, or the item would be lost. So it is polled once more, with a no-op waker: a future
 * keeps only the latest waker. It may finish in that poll; then the `next` has finished too. The
 * following `next` polls it with a new waker.
 *
 * The waits of the future are counted separately, because the following `next` may belong to
 * another task. */
#include <awake/stream.h>

#include "future/child_waits.h"

void aw__pending_item_idle(aw__pending_item *h, aw_cx *cx) {
    aw__child_waits_disarm(&h->child_waits, &h->parent, cx);
    h->parent = (aw_waker){NULL, NULL};
}

static aw_poll pending_item_call(aw__pending_item *h, aw_future *f, aw_cx *cx, bool cancel) {
    aw__meter meter = aw__child_waits_meter(cx);
    aw_cx inner = {cx->waker, cx->runtime, &meter};
    aw__pending_item_idle(h, cx);
    aw_poll r = cancel ? aw_future_cancel(f, &inner) : aw_future_poll(f, &inner);
    aw__child_waits_add(&h->child_waits, &meter, cx);
    if (cx->meter) cx->meter->budget = meter.budget;
    if (r != AW_PENDING) {
        h->child_waits = (aw__child_waits){0, 0, 0};
    } else if (h->child_waits.armed > 0) {
        aw__child_waits_arm(&h->child_waits, cx, h->child_waits.outside > 0);
        h->parent = *cx->waker;
    }
    return r;
}

aw_poll aw__pending_item_poll(aw__pending_item *h, aw_future *f, aw_cx *cx) {
    return pending_item_call(h, f, cx, false);
}

aw_poll aw__pending_item_cancel(aw__pending_item *h, aw_future *f, aw_cx *cx) {
    return pending_item_call(h, f, cx, true);
}

/* A cancel has no budget to pass on. The future gets the usual one, so that a loop in it ends. */
bool aw__pending_item_disarm(aw__pending_item *h, aw_future *f, aw_cx *cx) {
    aw_waker noop = aw_noop_waker();
    aw__meter meter = aw__child_waits_meter(cx);
    aw_cx inner = {&noop, cx->runtime, &meter};
    meter.budget = 128;
    aw__pending_item_idle(h, cx);
    aw_poll r = aw_future_poll(f, &inner);
    aw__child_waits_add(&h->child_waits, &meter, cx);
    if (r == AW_READY) h->child_waits = (aw__child_waits){0, 0, 0};
    return r == AW_READY;
}
