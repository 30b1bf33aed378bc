/* SPDX-License-Identifier: MIT
 *
 * Intervals and their ticks. A tick is a future that waits in a sleep. */
#include <awake/time.h>

#include <errno.h>

#include "time/timer_math.h"

int aw_interval_from(aw_interval *i, uint64_t start, uint64_t period, aw_missed missed) {
    if (period == 0 || missed > AW_SKIP) return -EINVAL;
    *i = (aw_interval){period, start, missed, NULL};
    return 0;
}

int aw_interval_every(aw_interval *i, uint64_t period, aw_missed missed) {
    return aw_interval_from(i, AW_FOREVER, period, missed);
}

void aw_interval_reset_at(aw_interval *i, uint64_t deadline) {
    i->next = deadline < AW_FOREVER ? deadline : AW_FOREVER - 1; /* AW_FOREVER means: at once */
    if (i->waiting) aw_sleep_reset(&i->waiting->sleep, i->next);
}

void aw_interval_reset_after(aw_interval *i, uint64_t duration) {
    aw_interval_reset_at(i, aw__time_add(aw_now(NULL), duration));
}

void aw_interval_reset(aw_interval *i) {
    aw_interval_reset_after(i, i->period);
}

void aw_interval_reset_immediately(aw_interval *i) {
    aw_interval_reset_after(i, 0);
}

aw_tick aw_interval_tick(aw_interval *i) {
    return (aw_tick){.future = AW_FUTURE_INIT(&aw_tick_type), .interval = i};
}

/* The deadline of the next tick, when the tick that was due at `at` is delivered at `now`. */
static uint64_t next_tick(const aw_interval *i, uint64_t at, uint64_t now) {
    uint64_t next = aw__time_add(at, i->period);
    if (i->missed == AW_BURST || next > now) return next;
    if (i->missed == AW_DELAY) return aw__time_add(now, i->period);
    return aw__time_add(now, i->period - (now - at) % i->period);
}

/* The interval points to its pending tick, so that a reset can move it. A second one replaces
 * it. */
static void tick_set_waiting(aw_tick *t, bool waits) {
    if (waits)
        t->interval->waiting = t;
    else if (t->interval->waiting == t)
        t->interval->waiting = NULL;
}

static aw_poll tick_end(aw_tick *t, aw_cx *cx) {
    tick_set_waiting(t, false);
    t->out = t->sleep.out;
    if (t->out) return AW_READY;
    t->at = t->sleep.when; /* changed if the sleep moved to another runtime */
    uint64_t next = next_tick(t->interval, t->at, aw_now(aw_cx_runtime(cx)));
    t->interval->next = t->next = next < AW_FOREVER ? next : AW_FOREVER - 1;
    return AW_READY;
}

static aw_poll tick_poll(aw_future *self, aw_cx *cx) {
    aw_tick *t = (aw_tick *)self;
    if (!self->state) {
        self->state = 1;
        t->at = t->interval->next != AW_FOREVER ? t->interval->next : aw_now(aw_cx_runtime(cx));
        t->sleep = aw_sleep_until(t->at);
        tick_set_waiting(t, true);
    }
    return aw_future_poll(&t->sleep.future, cx) == AW_READY ? tick_end(t, cx) : AW_PENDING;
}

static aw_poll tick_cancel(aw_future *self, aw_cx *cx) {
    aw_tick *t = (aw_tick *)self;
    if (!self->state) return AW_CANCELLED;
    aw_poll r = aw_future_cancel(&t->sleep.future, cx);
    if (r == AW_READY) return tick_end(t, cx);
    tick_set_waiting(t, false); /* a sleep ends at its first cancel */
    return r;
}

/* The tick was not used: it is due again, unless the interval was reset since. */
static void tick_discard(aw_future *self) {
    aw_tick *t = (aw_tick *)self;
    if (t->out == 0 && t->interval->next == t->next) t->interval->next = t->at;
}

static const aw_future *tick_child(const aw_future *self, size_t i) {
    return i == 0 ? &((const aw_tick *)self)->sleep.future : NULL;
}

const aw_future_type aw_tick_type = {
    AW_TYPE_OF(aw_tick, "tick"), .flags = AW_OUT_ERRNO,   .poll = tick_poll,
    .cancel = tick_cancel,       .discard = tick_discard, .child = tick_child,
};
