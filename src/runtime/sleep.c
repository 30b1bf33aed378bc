/* SPDX-License-Identifier: MIT
 *
 * Sleeping: the futures that are entries of the wheel. */
#include <awake/time.h>

#include <errno.h>
#include <stdio.h>

#include "core/lock.h"
#include "core/misuse.h"
#include "runtime/runtime.h"

static uint64_t add_saturating(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The owner looks at the wheel before it sleeps; if it sleeps past this deadline, wake it. */
static void insert_and_unlock(aw__wheel *w, aw_sleep *s) {
    aw__wheel_insert(w, s);
    bool earlier = s->when < w->asleep;
    aw__unlock(&w->lock);
    if (earlier && aw__thread.wheel != w) w->unpark(w);
}

/* The owner of the wheel may be firing it right now. */
static uint32_t state_of(const aw_sleep *s) {
    return aw__load_acquire(&s->future.state);
}

/* Out of the wheel. The lock also waits for a firing that still uses our waker. */
static void leave(aw_sleep *s) {
    aw__wheel *w = s->wheel;
    if (state_of(s) == AW__SLEEP_FIRED && aw__thread.wheel == w && !w->shared) return;
    if (aw__rt_forked(w->rt)) return; /* nobody fires it any more, or gives the lock back */
    aw__lock(&w->lock);
    if (s->future.state == AW__SLEEP_LINKED) aw__wheel_remove(w, s);
    aw__unlock(&w->lock);
}

/* A wait that another task armed, before this sleep was moved here, stays with that task. */
static void disarm(aw_sleep *s, aw_cx *cx) {
    if (aw_waker_will_wake(&s->waker, cx->waker)) aw_cx_disarm(cx);
}

static aw_poll sleep_end(aw_sleep *s, aw_cx *cx) {
    if (state_of(s) >= AW__SLEEP_LINKED) {
        leave(s);
        disarm(s, cx);
    }
    s->future.state = AW__SLEEP_FIRED;
    return AW_READY;
}

static aw_poll sleep_begin(aw_sleep *s, aw_cx *cx) {
    aw_runtime *rt = aw_cx_runtime(cx);
    if (!rt) {
        aw_log(AW_LOG_PROBLEM, "a sleep was polled outside a runtime: enter one (aw_enter) or use "
                               "block_on");
        s->out = -ENXIO;
        return AW_READY;
    }
    uint64_t now = aw__rt_now(rt);
    aw__wheel *w = aw__rt_wheel(rt);
    if (aw__thread.wheel == w) {
        w->now = now;
        w->looked = true;
    }
    if (s->future.state == AW__SLEEP_FRESH) {
        s->when = add_saturating(now, s->when);
        s->future.state = AW__SLEEP_ABSOLUTE;
    }
    if (s->when <= now) return aw_cx_spend(cx) ? AW_READY : AW_PENDING;
    s->wheel = w;
    s->waker = *cx->waker;
    s->future.state = AW__SLEEP_LINKED;
    aw_cx_arm(cx);
    aw__lock(&w->lock);
    insert_and_unlock(w, s);
    return AW_PENDING;
}

static aw_poll sleep_poll(aw_future *self, aw_cx *cx) {
    aw_sleep *s = (aw_sleep *)self;
    uint32_t state = state_of(s);
    if (state < AW__SLEEP_LINKED) return sleep_begin(s, cx);
    const aw__wheel *w = s->wheel;
    bool due = state == AW__SLEEP_FIRED || (aw__thread.wheel == w && s->when <= w->now);
    if (due && aw_cx_spend(cx)) return sleep_end(s, cx);
    if (aw__rt_forked(w->rt)) {
        s->out = -EOWNERDEAD;
        return sleep_end(s, cx);
    }
    /* Only we write the waker of a linked sleep, so we may look at it; writing takes the lock. */
    if (aw_waker_will_wake(&s->waker, cx->waker)) return AW_PENDING;
    aw__lock(&s->wheel->lock);
    s->waker = *cx->waker;
    bool fired = self->state == AW__SLEEP_FIRED;
    aw__unlock(&s->wheel->lock);
    aw_cx_arm(cx); /* it may be another task that waits now; the old one keeps its count */
    return fired && !due ? sleep_end(s, cx) : AW_PENDING;
}

static aw_poll sleep_cancel(aw_future *self, aw_cx *cx) {
    aw_sleep *s = (aw_sleep *)self;
    if (state_of(s) < AW__SLEEP_LINKED) return AW_CANCELLED;
    leave(s);
    disarm(s, cx);
    return self->state == AW__SLEEP_FIRED ? AW_READY : AW_CANCELLED;
}

static void sleep_describe(const aw_future *self, char *buf, size_t size) {
    const aw_sleep *s = (const aw_sleep *)self;
    if (state_of(s) < AW__SLEEP_LINKED || s->when == AW_FOREVER) {
        snprintf(buf, size, s->when == AW_FOREVER ? "for ever" : "not begun");
        return;
    }
    uint64_t now = aw__rt_now(s->wheel->rt);
    snprintf(buf, size, "%.3f s left", s->when > now ? (double)(s->when - now) / 1e9 : 0.0);
}

const aw_future_type aw_sleep_type = {
    AW_TYPE_OF(aw_sleep, "sleep"), .flags = AW_OUT_ERRNO,      .poll = sleep_poll,
    .cancel = sleep_cancel,        .describe = sleep_describe,
};

void aw_sleep_reset(aw_sleep *s, uint64_t deadline) {
    if (aw_future_ended(&s->future) || state_of(s) < AW__SLEEP_LINKED ||
        aw__rt_forked(s->wheel->rt)) {
        *s = aw_sleep_until(deadline);
        return;
    }
    aw__wheel *w = s->wheel;
    aw__lock(&w->lock);
    if (s->future.state == AW__SLEEP_LINKED) aw__wheel_remove(w, s);
    s->future.state = AW__SLEEP_LINKED;
    s->when = deadline;
    insert_and_unlock(w, s);
}

/* ---- Interval --------------------------------------------------------------------------------- */

int aw_interval_from(aw_interval *i, uint64_t start, uint64_t period, aw_missed missed) {
    if (period == 0 || missed > AW_SKIP) return -EINVAL;
    *i = (aw_interval){period, start, missed};
    return 0;
}

int aw_interval_every(aw_interval *i, uint64_t period, aw_missed missed) {
    return aw_interval_from(i, AW_FOREVER, period, missed);
}

aw_tick aw_interval_tick(aw_interval *i) {
    return (aw_tick){.future = AW_FUTURE_INIT(&aw_tick_type), .interval = i};
}

/* When the tick after the one that was due at `at` is due, now that it is delivered. */
static uint64_t next_tick(const aw_interval *i, uint64_t at, uint64_t now) {
    uint64_t next = add_saturating(at, i->period);
    if (i->missed == AW_BURST || next > now) return next;
    if (i->missed == AW_DELAY) return add_saturating(now, i->period);
    return add_saturating(now, i->period - (now - at) % i->period);
}

static aw_poll tick_end(aw_tick *t, aw_cx *cx) {
    t->out = t->sleep.out;
    if (t->out) return AW_READY;
    uint64_t next = next_tick(t->interval, t->at, aw_now(aw_cx_runtime(cx)));
    t->interval->next = next < AW_FOREVER ? next : AW_FOREVER - 1; /* that would mean: at once */
    return AW_READY;
}

static aw_poll tick_poll(aw_future *self, aw_cx *cx) {
    aw_tick *t = (aw_tick *)self;
    if (!self->state) {
        self->state = 1;
        t->at = t->interval->next != AW_FOREVER ? t->interval->next : aw_now(aw_cx_runtime(cx));
        t->sleep = aw_sleep_until(t->at);
    }
    return aw_future_poll(&t->sleep.future, cx) == AW_READY ? tick_end(t, cx) : AW_PENDING;
}

static aw_poll tick_cancel(aw_future *self, aw_cx *cx) {
    aw_tick *t = (aw_tick *)self;
    if (!self->state) return AW_CANCELLED;
    aw_poll r = aw_future_cancel(&t->sleep.future, cx);
    return r == AW_READY ? tick_end(t, cx) : r;
}

/* Nobody took the tick: it is due again. */
static void tick_discard(aw_future *self) {
    aw_tick *t = (aw_tick *)self;
    if (t->out == 0) t->interval->next = t->at;
}

static const aw_future *tick_child(const aw_future *self, size_t i) {
    return i == 0 ? &((const aw_tick *)self)->sleep.future : NULL;
}

const aw_future_type aw_tick_type = {
    AW_TYPE_OF(aw_tick, "tick"), .flags = AW_OUT_ERRNO,   .poll = tick_poll,
    .cancel = tick_cancel,       .discard = tick_discard, .child = tick_child,
};
