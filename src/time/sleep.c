/* SPDX-License-Identifier: MIT
 *
 * Sleeps. A sleep is a future, and an entry of a timer wheel (wheel.h). Any thread may poll it, one
 * at a time: the wheel's lock orders that with the owner of the wheel, which fires it. */
#include <awake/time.h>

#include <errno.h>
#include <stdio.h>

#include "base/misuse.h"
#include "context/context.h"
#include "future/wake.h"
#include "os/lock.h"
#include "os/park.h"
#include "time/timer_math.h"
#include "time/wheel.h"

/* The owner checks the wheel before it sleeps. If it sleeps beyond the new deadline, unpark it. */
static void insert_and_unlock(aw__wheel *w, aw_sleep *s) {
    aw__wheel_insert(w, s);
    bool unpark = s->when < w->asleep && aw__context.wheel != w;
    if (unpark) aw__fetch_add_relaxed(&w->unparking, 1u);
    aw__unlock(&w->lock);
    if (!unpark) return;
    w->unpark(w);
    aw__fetch_sub(&w->unparking, 1u);
}

/* Acquire: the owner of the wheel may be firing the sleep. */
static uint32_t sleep_state(const aw_sleep *s) {
    return aw__load_acquire(&s->future.state);
}

/* Leave the wheel, which may be freed afterwards: rules 1 and 2 of wheel.h. */
static void sleep_leave_and_unlock(aw__wheel *w, aw_sleep *s) {
    aw_runtime *rt = w->rt;
    if (s->future.state == AW__SLEEP_LINKED) aw__wheel_remove(w, s);
    bool last = --w->users == 0 && w->closed;
    aw__unlock(&w->lock);
    if (last) aw__rt_unref(rt);
}

/* Taking the lock also waits for a firing that still uses the waker. */
static void sleep_leave(aw_sleep *s) {
    aw__wheel *w = s->wheel;
    if (sleep_state(s) == AW__SLEEP_FIRED && aw__context.wheel == w && !w->shared) {
        w->left_by_owner++;
        return;
    }
    if (aw__rt_forked(w->rt)) return; /* no thread fires it, and the lock may never be released */
    aw__lock(&w->lock);
    sleep_leave_and_unlock(w, s);
}

/* A wait that was armed in a poll by another task stays counted in that task. */
static void sleep_disarm(aw_sleep *s, aw_cx *cx) {
    if (aw_waker_will_wake(&s->waker, cx->waker)) aw_cx_disarm(cx);
}

/* End a sleep that was linked. */
static aw_poll sleep_end(aw_sleep *s, aw_cx *cx, int out) {
    sleep_leave(s);
    sleep_disarm(s, cx);
    s->future.state = AW__SLEEP_FIRED;
    s->out = out;
    return AW_READY;
}

/* The output for FIRED and ENDED. */
static int sleep_out(uint32_t state) {
    return state == AW__SLEEP_ENDED ? -ESHUTDOWN : 0;
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
    if (aw__context.wheel == w) {
        w->now = now;
        w->looked = true;
    }
    if (s->future.state == AW__SLEEP_FRESH) {
        s->when = aw__time_add(now, s->when);
        s->future.state = AW__SLEEP_ABSOLUTE;
    }
    if (s->when <= now) return aw_cx_spend(cx) ? AW_READY : AW_PENDING;
    aw__lock(&w->lock);
    if (AW__UNLIKELY(w->closed)) {
        aw__unlock(&w->lock);
        if (!aw_cx_spend(cx)) return AW_PENDING;
        s->out = -ESHUTDOWN;
        return AW_READY;
    }
    s->wheel = w;
    s->waker = *cx->waker;
    s->future.state = AW__SLEEP_LINKED;
    w->users++;
    insert_and_unlock(w, s);
    aw_cx_arm(cx);
    return AW_PENDING;
}

/* ---- Moving to another runtime --------------------------------------------------------------- */

/* A linked sleep is set on a runtime other than `rt`. Possibly no thread runs that runtime. */
static inline bool sleep_is_foreign(const aw_sleep *s, const aw_runtime *rt) {
    return rt && rt != s->wheel->rt;
}

/* The time of the wheel's runtime. After the end of a runtime with a seam's clock, which may be
 * gone too, the time of the end. Under the lock. */
static uint64_t wheel_now(const aw__wheel *w) {
    return w->closed && !aw__rt_has_system_clock(w->rt) ? w->closed_at : aw__rt_now(w->rt);
}

/* The clocks of two runtimes may be unrelated: the remaining time is kept, not the deadline. */
static aw_poll sleep_move(aw_sleep *s, aw_cx *cx) {
    aw__wheel *w = s->wheel;
    aw__lock(&w->lock);
    uint64_t now = wheel_now(w);
    sleep_leave_and_unlock(w, s);
    sleep_disarm(s, cx);
    bool due = s->future.state == AW__SLEEP_FIRED || s->when <= now;
    bool forever = s->when == AW_FOREVER && !due;
    s->when = due ? 0 : forever ? AW_FOREVER : s->when - now;
    s->future.state = forever ? AW__SLEEP_ABSOLUTE : AW__SLEEP_FRESH;
    return sleep_begin(s, cx);
}

/* ---- The future ------------------------------------------------------------------------------ */

static aw_poll sleep_poll(aw_future *self, aw_cx *cx) {
    aw_sleep *s = (aw_sleep *)self;
    uint32_t state = sleep_state(s);
    if (state < AW__SLEEP_LINKED) return sleep_begin(s, cx);
    const aw__wheel *w = s->wheel;
    bool due = state == AW__SLEEP_FIRED || (aw__context.wheel == w && s->when <= w->now);
    if (due && aw_cx_spend(cx)) return sleep_end(s, cx, 0);
    if (aw__rt_forked(w->rt)) return sleep_end(s, cx, -EOWNERDEAD);
    if (AW__UNLIKELY(!due && sleep_is_foreign(s, aw_cx_runtime(cx)))) return sleep_move(s, cx);
    if (state == AW__SLEEP_ENDED && aw_cx_spend(cx)) return sleep_end(s, cx, -ESHUTDOWN);
    bool exhausted = due || state == AW__SLEEP_ENDED;
    /* Only polls write the waker of a linked sleep: reading it needs no lock, writing does. */
    if (aw_waker_will_wake(&s->waker, cx->waker)) return AW_PENDING;
    aw__lock(&s->wheel->lock);
    s->waker = *cx->waker;
    state = self->state;
    aw__unlock(&s->wheel->lock);
    aw_cx_arm(cx); /* another task may wait now; the old one keeps its count */
    bool fired = state >= AW__SLEEP_FIRED;
    return fired && !exhausted ? sleep_end(s, cx, sleep_out(state)) : AW_PENDING;
}

static aw_poll sleep_cancel(aw_future *self, aw_cx *cx) {
    aw_sleep *s = (aw_sleep *)self;
    if (sleep_state(s) < AW__SLEEP_LINKED) return AW_CANCELLED;
    bool foreign = sleep_is_foreign(s, aw_cx_runtime(cx));
    sleep_leave(s);
    sleep_disarm(s, cx);
    if (self->state == AW__SLEEP_LINKED) return AW_CANCELLED;
    if (self->state == AW__SLEEP_ENDED && foreign) return AW_CANCELLED;
    s->out = sleep_out(self->state);
    return AW_READY;
}

/* The time of the sleep's runtime; false: the runtime has ended, or this is the child of a fork, in
 * which the lock may never be released. */
static bool sleep_clock(const aw_sleep *s, uint64_t *now) {
    aw__wheel *w = s->wheel;
    if (aw__rt_forked(w->rt)) return false;
    aw__lock(&w->lock);
    bool runs = !w->closed;
    if (runs) *now = aw__rt_now(w->rt);
    aw__unlock(&w->lock);
    return runs;
}

static void sleep_describe(const aw_future *self, char *buf, size_t size) {
    const aw_sleep *s = (const aw_sleep *)self;
    if (aw_future_ended(self)) return; /* its wheel may be freed */
    if (sleep_state(s) < AW__SLEEP_LINKED || s->when == AW_FOREVER) {
        snprintf(buf, size, s->when == AW_FOREVER ? "for ever" : "not begun");
        return;
    }
    uint64_t now;
    if (sleep_clock(s, &now))
        snprintf(buf, size, "%.3f s left", s->when > now ? (double)(s->when - now) / 1e9 : 0.0);
    else
        snprintf(buf, size, "its runtime has ended");
}

const aw_future_type aw_sleep_type = {
    AW_TYPE_OF(aw_sleep, "sleep"), .flags = AW_OUT_ERRNO,      .poll = sleep_poll,
    .cancel = sleep_cancel,        .describe = sleep_describe,
};

/* The runtime has ended: rule 3 of wheel.h. After the unlock the sleep may be gone. */
static void sleep_shutdown_and_unlock(aw__wheel *w, aw_sleep *s) {
    aw_waker later = {NULL, NULL};
    if (s->future.state != AW__SLEEP_ENDED) {
        aw__store_release(&s->future.state, (uint32_t)AW__SLEEP_ENDED);
        aw__wake_or_clone(&s->waker, &later);
    }
    aw__unlock(&w->lock);
    if (later.type) aw_waker_wake(later);
}

/* The deadline is in another runtime's clock: leave this runtime, and start anew at the next poll.
 * The sleep was pending, so its last poller is woken. */
static void sleep_reset_foreign(aw_sleep *s, uint64_t deadline) {
    aw__wheel *w = s->wheel;
    aw_waker later = {NULL, NULL};
    aw__lock(&w->lock);
    aw__wake_or_clone(&s->waker, &later);
    sleep_leave_and_unlock(w, s);
    s->when = deadline;
    s->future.state = AW__SLEEP_ABSOLUTE;
    if (later.type) aw_waker_wake(later);
}

void aw_sleep_reset(aw_sleep *s, uint64_t deadline) {
    if (aw_future_ended(&s->future) || sleep_state(s) < AW__SLEEP_LINKED ||
        aw__rt_forked(s->wheel->rt)) {
        *s = aw_sleep_until(deadline);
        return;
    }
    if (sleep_is_foreign(s, aw_runtime_current())) {
        sleep_reset_foreign(s, deadline);
        return;
    }
    aw__wheel *w = s->wheel;
    aw__lock(&w->lock);
    if (s->future.state == AW__SLEEP_LINKED) aw__wheel_remove(w, s);
    s->when = deadline;
    if (AW__UNLIKELY(w->closed)) {
        sleep_shutdown_and_unlock(w, s);
        return;
    }
    s->future.state = AW__SLEEP_LINKED;
    insert_and_unlock(w, s);
}

/* ---- The end of a runtime -------------------------------------------------------------------- */

/* Rules 2 to 4 of wheel.h. Called by the thread that ends the runtime: the owner, if there is
 * one. */
static size_t close_wheel(aw__wheel *w) {
    size_t ended = 0;
    aw__lock(&w->lock);
    if (w->closed) {
        aw__unlock(&w->lock);
        return 0;
    }
    w->closed = true;
    w->users -= w->left_by_owner;
    if (w->users) {
        w->closed_at = aw__rt_now(w->rt);
        aw__rt_ref(w->rt);
    }
    for (aw_sleep *s; (s = aw__wheel_take(w)); ended++) {
        sleep_shutdown_and_unlock(w, s); /* other threads get the lock in between */
        aw__lock(&w->lock);
    }
    aw__unlock(&w->lock);
    for (int tries = 0; aw__load_acquire(&w->unparking);)
        aw__os_wait(&tries);
    return ended;
}

size_t aw__rt_end_sleeps(aw_runtime *rt) {
    size_t ended = 0;
    aw__wheel *w;
    for (uint32_t n = 0; (w = aw__base(rt)->sched->nth_wheel(rt, n)); n++)
        ended += close_wheel(w);
    return ended;
}
