/* SPDX-License-Identifier: MIT
 *
 * The smallest futures: ready, never, poll_fn, yield. */
#include <awake/async.h>
#include <awake/leaf.h>

static aw_poll ready_poll(aw_future *self, aw_cx *cx) {
    (void)self;
    (void)cx;
    return AW_READY;
}

const aw_future_type aw_ready_type = {
    AW_TYPE_OF(aw_ready, "ready"),
    .flags = AW_UNPIN | AW_OUT_ERRNO,
    .poll = ready_poll,
};

const aw_future_type aw_ready_any_type = {
    .self_size = sizeof(aw_future_type),
    .name = "ready",
    .out_offset = sizeof(aw_future),
    .flags = AW_UNPIN,
    .poll = ready_poll,
};

/* `state`: 1 while the wait is armed. */
static aw_poll never_poll(aw_future *self, aw_cx *cx) {
    if (!self->state) aw_cx_arm(cx);
    self->state = 1;
    return AW_PENDING;
}

static aw_poll never_cancel(aw_future *self, aw_cx *cx) {
    if (self->state) aw_cx_disarm(cx);
    return AW_CANCELLED;
}

const aw_future_type aw_never_type = {
    AW_TYPE_OF(aw_never, "never"),
    .flags = AW_UNPIN | AW_OUT_ERRNO,
    .poll = never_poll,
    .cancel = never_cancel,
};

static aw_poll poll_fn_poll(aw_future *self, aw_cx *cx) {
    aw_poll_fn *f = (aw_poll_fn *)self;
    return f->poll(f->arg, cx, &f->out);
}

static aw_poll poll_fn_cancel(aw_future *self, aw_cx *cx) {
    aw_poll_fn *f = (aw_poll_fn *)self;
    if (!f->cancel || !aw_future_started(self)) return AW_CANCELLED;
    return f->cancel(f->arg, cx, &f->out);
}

const aw_future_type aw_poll_fn_type = {
    AW_TYPE_OF(aw_poll_fn, "poll_fn"),
    .flags = AW_UNPIN | AW_OUT_ERRNO,
    .poll = poll_fn_poll,
    .cancel = poll_fn_cancel,
};

/* `state`: 1 after the first poll. */
static aw_poll yield_poll(aw_future *self, aw_cx *cx) {
    if (self->state) return AW_READY;
    self->state = 1;
    aw_cx_yield(cx);
    return AW_PENDING;
}

const aw_future_type aw_yield_type = {
    AW_TYPE_OF(aw_yield, "yield"),
    .flags = AW_UNPIN | AW_OUT_ERRNO,
    .poll = yield_poll,
};
