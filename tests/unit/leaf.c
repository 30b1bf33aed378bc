/* SPDX-License-Identifier: MIT
 *
 * The smallest futures, driven without a runtime, and what a context does for a leaf. */
#include <awake.h>

#include <string.h>

#include "support/checked_waker.h"
#include "test.h"

/* cancel-at-every-await: aw_ready */
/* cancel-at-every-await: aw_never */
/* cancel-at-every-await: aw_poll_fn */
/* cancel-at-every-await: aw_yield */

/* ---- Ready ----------------------------------------------------------------------------------- */

TEST(ready_is_ready_at_its_first_poll) {
    aw_ready f = aw_ready_now(-3);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.out, -3);
    CHECK_EQ(aw_future_error(&f.future), -3);
    CHECK_EQ(drive_wakes(), 0);
}

struct pair {
    char a;
    double b;
};

TEST(ready_holds_a_value_of_any_type) {
    typedef AW_READY_OF(struct pair) ready_pair;
    int x = 1;
    aw_ready_ptr p = aw_ready_pointer(&x);
    aw_ready_long l = AW_READY_VALUE(aw_ready_long, 1L << 40);
    ready_pair s = AW_READY_VALUE(ready_pair, {'x', 0.5});
    CHECK_EQ(drive_poll(&p.future), AW_READY);
    CHECK_EQ(drive_poll(&l.future), AW_READY);
    CHECK_EQ(drive_poll(&s.future), AW_READY);
    CHECK_EQ(p.out, &x);
    CHECK_EQ(*(void **)aw_future_out(&p.future), &x);
    CHECK_EQ(*(long *)aw_future_out(&l.future), 1L << 40);
    CHECK(((struct pair *)aw_future_out(&s.future))->b == 0.5);
    CHECK_EQ(aw_future_error(&p.future), 0);
}

TEST(ready_that_was_never_polled_is_cancelled_all_the_same) {
    aw_ready f = aw_ready_now(1);
    aw_ready_ptr p = aw_ready_pointer(NULL);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(drive_cancel(&p.future), AW_CANCELLED);
}

/* ---- Never ----------------------------------------------------------------------------------- */

TEST(never_is_pending_wakes_nothing_and_holds_no_waker) {
    aw_never f = aw_never_ready();
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_wakes(), 0);
        CHECK_EQ(drive_waker(drive.calls)->refs, 0);
    }
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
}

TEST(never_that_was_never_polled_is_cancelled_at_once) {
    aw_never f = aw_never_ready();
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
}

/* ---- A function and a pointer ---------------------------------------------------------------- */

struct scripted {
    int pends, cancel_pends;
    bool wins;
    int polls, cancels;
    aw_waker slot;
};

static aw_poll scripted_poll(void *arg, aw_cx *cx, int *out) {
    struct scripted *t = arg;
    if (t->polls++ < t->pends) {
        aw_waker_set(&t->slot, aw_cx_waker(cx));
        return AW_PENDING;
    }
    aw_waker w = aw_waker_take(&t->slot);
    if (w.type) aw_waker_drop(w);
    *out = t->polls;
    return AW_READY;
}

static aw_poll scripted_cancel(void *arg, aw_cx *cx, int *out) {
    struct scripted *t = arg;
    if (t->cancels++ < t->cancel_pends) {
        aw_waker_set(&t->slot, aw_cx_waker(cx));
        return AW_PENDING;
    }
    aw_waker w = aw_waker_take(&t->slot);
    if (w.type) aw_waker_drop(w);
    if (!t->wins) return AW_CANCELLED;
    *out = -t->cancels;
    return AW_READY;
}

TEST(a_poll_fn_is_what_its_function_says) {
    struct scripted t = {.pends = 2};
    aw_poll_fn f = aw_poll_fn_of(scripted_poll, &t);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    aw_waker_wake_by_ref(&t.slot);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.out, 3);
    CHECK_EQ(*(int *)aw_future_out(&f.future), 3);
}

static aw_poll wakes_itself(void *arg, aw_cx *cx, int *out) {
    int *remaining = arg;
    *out = -11;
    if ((*remaining)-- == 0) return AW_READY;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

TEST(a_poll_fn_without_a_cancel_is_gone_at_once) {
    int remaining = 5;
    aw_poll_fn f = aw_poll_fn_of(wakes_itself, &remaining);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING); /* woken, but not polled again */
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(remaining, 4);
}

TEST(the_output_of_a_poll_fn_carries_its_error) {
    int remaining = 1;
    aw_poll_fn f = aw_poll_fn_of(wakes_itself, &remaining);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_EQ(aw_future_error(&f.future), -11);
}

TEST(a_poll_fn_with_a_cancel_is_cancelled_by_it_as_often_as_it_takes) {
    struct scripted t = {.pends = 100, .cancel_pends = 2};
    aw_poll_fn f = aw_poll_fn_with(scripted_poll, scripted_cancel, &t);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    for (int i = 1; i <= 2; i++) {
        CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
        aw_waker_wake_by_ref(&t.slot); /* the waker of this cancel */
        CHECK_EQ(drive_wakes(), 1);
    }
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(t.cancels, 3);
    CHECK_EQ(t.polls, 1);
}

TEST(a_poll_fn_may_finish_while_it_is_cancelled) {
    struct scripted t = {.pends = 100, .wins = true};
    aw_poll_fn f = aw_poll_fn_with(scripted_poll, scripted_cancel, &t);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(f.out, -1);
}

TEST(a_poll_fn_that_was_never_polled_has_nothing_to_cancel) {
    struct scripted t = {.pends = 0, .wins = true};
    aw_poll_fn f = aw_poll_fn_with(scripted_poll, scripted_cancel, &t),
               g = aw_poll_fn_of(scripted_poll, &t);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(drive_cancel(&g.future), AW_CANCELLED);
    CHECK_EQ(t.polls + t.cancels, 0);
}

/* ---- Yield ----------------------------------------------------------------------------------- */

TEST(a_yield_is_pending_once_and_wakes) {
    aw_yield f = aw_yield_now();
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_waker(drive.calls)->refs, 0);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(drive_wakes(), 0);
    CHECK_EQ(f.out, 0);
}

TEST(a_yield_is_cancelled_pending_or_never_polled) {
    aw_yield f = aw_yield_now(), g = aw_yield_now();
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(drive_cancel(&g.future), AW_CANCELLED);
}

/* ---- What an executor counts ----------------------------------------------------------------- */

/* A waker that reads the meter of the poll in which it is woken. */
static const aw__meter *watched;
static bool woken, while_yielding;

static aw_waker watcher_clone(void *data);
static void watcher_wake(void *data) {
    (void)data;
    woken = true;
    while_yielding = watched->yielding;
}
static void watcher_drop(void *data) {
    (void)data;
}
static const aw_waker_type watcher_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "watcher",
    .clone = watcher_clone,
    .wake = watcher_wake,
    .wake_by_ref = watcher_wake,
    .drop = watcher_drop,
};
static aw_waker watcher_clone(void *data) {
    return (aw_waker){&watcher_type, data};
}

/* A context with a meter, like that of an executor. */
static aw__meter meter;
static aw_cx *metered(void) {
    static aw_waker waker = {&watcher_type, NULL};
    static aw_cx cx;
    watched = &meter;
    cx = aw_cx_from_waker(&waker);
    cx.meter = &meter;
    return &cx;
}

TEST(never_counts_as_one_wait_on_the_outside_until_it_is_cancelled) {
    aw_never f = aw_never_ready(), unpolled = aw_never_ready();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_future_poll(&f.future, metered()), AW_PENDING);
        CHECK_EQ(meter.armed, 1);
        CHECK_EQ(meter.outside, 1);
    }
    CHECK_EQ(aw_future_cancel(&f.future, metered()), AW_CANCELLED);
    CHECK_EQ(meter.armed, 0);
    CHECK_EQ(meter.outside, 0);
    CHECK_EQ(aw_future_cancel(&unpolled.future, metered()), AW_CANCELLED);
    CHECK_EQ(meter.armed, 0);
}

TEST(a_yield_wakes_behind_other_tasks) {
    aw_yield f = aw_yield_now();
    CHECK_EQ(aw_future_poll(&f.future, metered()), AW_PENDING);
    CHECK(woken && while_yielding);
    CHECK(!meter.yielding);
}

TEST(a_poll_may_spend_its_budget_and_is_woken_when_it_is_gone) {
    meter.budget = 2;
    CHECK(aw_cx_spend(metered()));
    CHECK(!aw_cx_exhausted(metered()));
    CHECK(aw_cx_spend(metered()));
    CHECK(aw_cx_exhausted(metered()));
    CHECK(!woken);
    CHECK(!aw_cx_spend(metered()));
    CHECK(woken && !while_yielding);
    CHECK_EQ(meter.budget, 0);
}

TEST(without_an_executor_there_is_no_budget_and_no_runtime) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    for (int i = 0; i < 1000; i++)
        CHECK(aw_cx_spend(&cx));
    CHECK(!aw_cx_exhausted(&cx));
    CHECK(aw_cx_runtime(&cx) == NULL);
    CHECK_EQ(aw_cx_waker(&cx), &noop);
}

TEST(a_context_of_ones_own_has_the_runtime_that_the_thread_has_entered) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    aw_runtime *before = aw_enter(rt);
    CHECK_EQ(aw_cx_runtime(&cx), rt);
    aw_leave(before);
    CHECK(aw_cx_runtime(&cx) == NULL);
    aw_runtime_free(rt);
}

TEST(choices_differ_and_are_repeatable_from_their_seed) {
    uint64_t first[8];
    int differ = 0;
    meter.random = 77;
    for (int i = 0; i < 8; i++)
        first[i] = aw_cx_random(metered());
    meter.random = 77;
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(aw_cx_random(metered()), first[i]);
        differ += first[i] != first[0];
    }
    CHECK_EQ(differ, 7);
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    CHECK_NE(aw_cx_random(&cx), aw_cx_random(&cx));
}
