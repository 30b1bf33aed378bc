/* SPDX-License-Identifier: MIT
 *
 * Timeout: the inner future, then the clock. Once the time is up it is decided: the inner future is
 * cancelled, and what remains is to see whether it finished all the same. */
#include <awake/timeout.h>

#include <errno.h>

enum { FRESH, RUNNING, EXPIRED }; /* state */

static aw_future *inner(const struct aw__timeout *t) {
    return (aw_future *)(void *)((char *)(uintptr_t)t + t->inner_at);
}

/* The inner future has ended, or is gone: the timer must go too. That is quick: a sleep ends at its
 * first cancel. */
static void drop_timer(struct aw__timeout *t, aw_cx *cx) {
    if (!aw_future_ended(&t->timer.future)) aw_future_cancel(&t->timer.future, cx);
}

static aw_poll expire(struct aw__timeout *t, aw_cx *cx) {
    t->future.state = EXPIRED;
    aw_poll r = aw_future_cancel(inner(t), cx);
    if (r == AW_PENDING) return AW_PENDING;
    t->out = r == AW_READY ? 0 : t->timer.out ? t->timer.out : -ETIMEDOUT;
    return AW_READY;
}

static aw_poll timeout_poll(aw_future *self, aw_cx *cx) {
    struct aw__timeout *t = (struct aw__timeout *)self;
    if (self->state == EXPIRED) return expire(t, cx);
    self->state = RUNNING;
    if (aw_future_poll(inner(t), cx) == AW_READY) {
        drop_timer(t, cx);
        return AW_READY;
    }
    /* The clock comes last and for free: an inner future that has used up the budget must not keep
     * its own deadline from being seen. */
    aw__meter *meter = cx->meter;
    uint32_t budget = meter ? meter->budget : 0;
    if (meter && !budget) meter->budget = 1;
    aw_poll r = aw_future_poll(&t->timer.future, cx);
    if (meter) meter->budget = budget;
    return r == AW_READY ? expire(t, cx) : AW_PENDING;
}

static aw_poll timeout_cancel(aw_future *self, aw_cx *cx) {
    struct aw__timeout *t = (struct aw__timeout *)self;
    if (self->state == EXPIRED) return expire(t, cx);
    drop_timer(t, cx);
    return aw_future_cancel(inner(t), cx);
}

static void timeout_discard(aw_future *self) {
    struct aw__timeout *t = (struct aw__timeout *)self;
    if (t->out == 0) aw_future_discard(inner(t));
}

static const aw_future *timeout_child(const aw_future *self, size_t i) {
    return i == 0 ? inner((const struct aw__timeout *)self) : NULL;
}

static void timeout_describe(const aw_future *self, char *buf, size_t size) {
    const struct aw__timeout *t = (const struct aw__timeout *)self;
    if (self->state == RUNNING) t->timer.future.type->describe(&t->timer.future, buf, size);
}

const aw_future_type aw_timeout_type = {
    .self_size = sizeof(aw_future_type),
    .name = "timeout",
    .out_offset = offsetof(struct aw__timeout, out),
    .out_size = sizeof(int),
    .flags = AW_OUT_ERRNO,
    .poll = timeout_poll,
    .cancel = timeout_cancel,
    .discard = timeout_discard,
    .child = timeout_child,
    .describe = timeout_describe,
};
