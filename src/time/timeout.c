/* SPDX-License-Identifier: MIT
 *
 * Timeout: polls the inner future, then the timer.
 *
 *   1. The inner future is cancelled only after a last look: a poll with budget, after the deadline
 *      is known to have passed. In that poll, operations on descriptors make their system call even
 *      without an event (aw__context.last_look), because the driver may not have been polled since.
 *   2. If the deadline is known to have passed before the inner future is polled (the timer has
 *      fired, or has no time left), that poll is the last look. If only the poll of the timer finds
 *      that out, or there is no budget, the timeout yields (TIMEOUT_LAST_LOOK), and takes the last
 *      look in its next poll.
 *   3. Then the timeout is decided (TIMEOUT_EXPIRED): the inner future is cancelled. It may still
 *      finish instead. */
#include <awake/timeout.h>

#include <errno.h>

#include "base/atomic.h"
#include "context/context.h"
#include "time/wheel.h"

enum { TIMEOUT_FRESH, TIMEOUT_RUNNING, TIMEOUT_LAST_LOOK, TIMEOUT_EXPIRED }; /* state */

static aw_future *timeout_inner(const struct aw__timeout *t) {
    return (aw_future *)(void *)((char *)(uintptr_t)t + t->inner_at);
}

/* The inner future has ended or is being cancelled: cancel the timer, too. A sleep ends at its
 * first cancel. */
static void drop_timer(struct aw__timeout *t, aw_cx *cx) {
    if (!aw_future_ended(&t->timer.future)) aw_future_cancel(&t->timer.future, cx);
}

static aw_poll expire(struct aw__timeout *t, aw_cx *cx) {
    t->future.state = TIMEOUT_EXPIRED;
    aw_poll r = aw_future_cancel(timeout_inner(t), cx);
    if (r == AW_PENDING) return AW_PENDING;
    t->out = r == AW_READY ? 0 : t->timer.out ? t->timer.out : -ETIMEDOUT;
    return AW_READY;
}

/* Takes the time from the wheel of this thread, if it has one, instead of reading the clock: that
 * costs more than most polls of a ready future. */
static bool is_known_expired(const aw_sleep *s, const aw_cx *cx) {
    uint32_t state = aw__load_acquire(&s->future.state);
    if (state == AW__SLEEP_FIRED) return true;
    if (state == AW__SLEEP_FRESH) return s->when == 0;
    const aw__wheel *w = aw__context.wheel;
    if (state == AW__SLEEP_LINKED) return s->wheel == w && s->when <= w->now;
    const aw_runtime *rt = aw_cx_runtime(cx);
    return rt && s->when <= (w && w->rt == rt ? w->now : aw__rt_now(rt));
}

static aw_poll poll_inner(struct aw__timeout *t, aw_cx *cx, bool last_look) {
    return AW__UNLIKELY(last_look) ? aw__poll_last(timeout_inner(t), cx)
                                   : aw_future_poll(timeout_inner(t), cx);
}

/* Lends one unit of budget if none is left. Other futures of the task may use it up in every poll,
 * and the timeout has already yielded to other tasks. */
static aw_poll poll_last_look(struct aw__timeout *t, aw_cx *cx) {
    aw__meter *meter = cx->meter;
    bool lent = aw_cx_exhausted(cx);
    if (lent) meter->budget = 1;
    aw_poll r = poll_inner(t, cx, true);
    if (lent) meter->budget = 0;
    return r;
}

static aw_poll timeout_poll(aw_future *self, aw_cx *cx) {
    struct aw__timeout *t = (struct aw__timeout *)self;
    if (self->state == TIMEOUT_EXPIRED) return expire(t, cx);
    if (self->state == TIMEOUT_LAST_LOOK)
        return poll_last_look(t, cx) == AW_READY ? AW_READY : expire(t, cx);
    self->state = TIMEOUT_RUNNING;
    bool last_look = is_known_expired(&t->timer, cx) && !aw_cx_exhausted(cx);
    if (poll_inner(t, cx, last_look) == AW_READY) {
        drop_timer(t, cx);
        return AW_READY;
    }
    /* The poll of the timer spends no budget: an inner future that uses up the budget must not hide
     * its own deadline. */
    aw__meter *meter = cx->meter;
    uint32_t budget = meter ? meter->budget : 0;
    if (meter && !budget) meter->budget = 1;
    aw_poll r = aw_future_poll(&t->timer.future, cx);
    if (meter) meter->budget = budget;
    if (r == AW_PENDING) return AW_PENDING;
    if (last_look || t->timer.out) return expire(t, cx);
    self->state = TIMEOUT_LAST_LOOK;
    aw_cx_yield(cx);
    return AW_PENDING;
}

static aw_poll timeout_cancel(aw_future *self, aw_cx *cx) {
    struct aw__timeout *t = (struct aw__timeout *)self;
    if (self->state == TIMEOUT_EXPIRED) return expire(t, cx);
    drop_timer(t, cx);
    return aw_future_cancel(timeout_inner(t), cx);
}

static void timeout_discard(aw_future *self) {
    struct aw__timeout *t = (struct aw__timeout *)self;
    if (t->out == 0) aw_future_discard(timeout_inner(t));
}

static const aw_future *timeout_child(const aw_future *self, size_t i) {
    return i == 0 ? timeout_inner((const struct aw__timeout *)self) : NULL;
}

static void timeout_describe(const aw_future *self, char *buf, size_t size) {
    const struct aw__timeout *t = (const struct aw__timeout *)self;
    if (self->state == TIMEOUT_RUNNING) t->timer.future.type->describe(&t->timer.future, buf, size);
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
