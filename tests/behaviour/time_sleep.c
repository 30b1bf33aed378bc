/* SPDX-License-Identifier: MIT
 *
 * Sleeping: when a sleep ends, what may end it, and what remains of it. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "task/runtime_state.h"
#include "support/by_hand.h"
#include "support/clock.h"

/* ---- At the first poll ----------------------------------------------------------------------- */

TEST(a_zero_or_past_sleep_is_ready_at_the_first_poll) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    aw_flag flag = {0};
    aw_sleep zero = aw_sleep_for(0), first = aw_sleep_until(0),
             past = aw_sleep_until(aw_now(rt) - 1), now = aw_sleep_until(aw_now(rt));
    CHECK_EQ(POLL(&zero, &flag), AW_READY);
    CHECK_EQ(POLL(&first, &flag), AW_READY);
    CHECK_EQ(POLL(&past, &flag), AW_READY);
    CHECK_EQ(POLL(&now, &flag), AW_READY);
    CHECK_EQ(zero.out | first.out | past.out | now.out, 0);
    CHECK(!aw_flag_take(&flag));
    CHECK_EQ(rt->base.wheels->count, 0);
    aw_leave(before);
    aw_runtime_free(rt);
}

TEST(a_duration_counts_from_the_first_poll) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    aw_flag flag = {0};
    aw_sleep s = aw_sleep_for(AW_SEC(2));
    uint64_t start = aw_now(rt);
    CHECK_EQ(aw_clock_advance(rt, AW_SEC(5)), 0);
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    run_until(rt, start + AW_SEC(7) - 1);
    CHECK(!aw_flag_take(&flag));
    run_until(rt, start + AW_SEC(7));
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    aw_leave(before);
    aw_runtime_free(rt);
}

static char logged[512];
static void keep_log(void *data, aw_log_level level, const char *message) {
    (void)data;
    CHECK_EQ(level, AW_LOG_PROBLEM);
    snprintf(logged, sizeof logged, "%s", message);
}

TEST(a_sleep_without_a_runtime_ends_at_once_and_says_so) {
    aw_flag flag = {0};
    aw_sleep s = aw_sleep_for(AW_SEC(1));
    aw_interval every;
    aw_set_log(keep_log, NULL);
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    CHECK_EQ(s.out, -ENXIO);
    CHECK_CONTAINS(logged, "sleep");
    CHECK_CONTAINS(logged, "aw_enter");

    logged[0] = 0;
    CHECK_EQ(aw_interval_every(&every, AW_SEC(1), AW_BURST), 0);
    aw_tick tick = aw_interval_tick(&every);
    CHECK_EQ(POLL(&tick, &flag), AW_READY);
    CHECK_EQ(tick.out, -ENXIO);
    CHECK_CONTAINS(logged, "aw_enter");
    CHECK(!aw_flag_take(&flag));
}

/* ---- Never early ----------------------------------------------------------------------------- */

static size_t woken;

AW_ASYNC(int, sleeper, uint64_t duration; uint64_t due; aw_sleep nap;) {
    AW_BEGIN;
    self->due = aw_now(NULL) + self->duration;
    AW_AWAIT(self->nap, aw_sleep_for(self->duration));
    CHECK_EQ(self->nap.out, 0);
    CHECK_EQ(aw_now(NULL), self->due); /* a virtual clock is never late either */
    __atomic_fetch_add(&woken, 1, __ATOMIC_RELAXED);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, spawn_sleepers, int count; uint64_t seed; aw_sleep end;) {
    AW_BEGIN;
    for (int i = 0; i < self->count; i++) {
        /* From under a microsecond to days. */
        uint64_t r = test_random(&self->seed), duration = test_random(&self->seed) >> (16 + r % 40);
        aw_task_drop(aw_spawn(AW_CALL(sleeper, .duration = duration)));
    }
    AW_AWAIT(self->end, aw_sleep_for(AW_SEC(7 * 24 * 3600)));
    AW_RETURN(0);
    AW_END;
}

TEST(a_hundred_thousand_random_sleeps_each_end_at_their_nanosecond) {
    aw_runtime *rt = paused_runtime();
    int count = test_scale(100000);
    CHECK_EQ(aw_block_on(rt, AW_CALL(spawn_sleepers, .count = count, .seed = test_seed())), 0);
    CHECK_EQ(woken, count);
    CHECK_EQ(rt->base.wheels->count, 0);
    aw_runtime_free(rt);
}

enum { REAL_SLEEPS = 400 };

AW_ASYNC(int, real_sleeper, uint64_t duration; uint64_t due; aw_sleep nap;) {
    AW_BEGIN;
    self->due = test_now_ns() + self->duration;
    AW_AWAIT(self->nap, aw_sleep_for(self->duration));
    CHECK_GE(test_now_ns(), self->due);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, real_sleepers, struct real_sleeper jobs[REAL_SLEEPS]; aw_all all;) {
    AW_BEGIN;
    AW_AWAIT(self->all, aw_join_all(self->jobs, REAL_SLEEPS));
    AW_RETURN(0);
    AW_END;
}

TEST(no_real_sleep_is_early) {
    static struct real_sleepers main_future;
    main_future = AW_CALL(real_sleepers);
    uint64_t seed = test_seed();
    for (int i = 0; i < REAL_SLEEPS; i++) {
        uint64_t duration = AW_USEC(1) + test_random(&seed) % AW_USEC(1) +
                            (test_random(&seed) % AW_MSEC(50) >> i % 16);
        main_future.jobs[i] = AW_CALL(real_sleeper, .duration = duration);
    }
    CHECK_EQ(aw_run_future(&main_future.future), 0);
}

AW_ASYNC(int, naps_in_a_row, int n; struct real_sleeper nap;) {
    AW_BEGIN;
    for (self->n = 0; self->n < 200; self->n++) {
        AW_AWAIT(self->nap, AW_CALL(real_sleeper, .duration = AW_USEC(1 + 3 * self->n)));
    }
    AW_RETURN(0);
    AW_END;
}

TEST(no_real_sleep_is_early_when_nothing_else_happens) {
    CHECK_EQ(aw_run(AW_CALL(naps_in_a_row)), 0);
}

/* ---- No floor -------------------------------------------------------------------------------- */

enum { SAMPLES = 101 };

AW_ASYNC(int, short_naps, uint64_t took[SAMPLES]; uint64_t from; int n; aw_sleep nap;) {
    AW_BEGIN;
    for (self->n = 0; self->n < SAMPLES; self->n++) {
        self->from = test_now_ns();
        AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(50)));
        self->took[self->n] = test_now_ns() - self->from;
    }
    AW_RETURN(0);
    AW_END;
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST(a_sleep_of_50_us_is_not_rounded_to_a_millisecond_timing) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    struct short_naps naps = AW_CALL(short_naps);
    CHECK_EQ(aw_block_on_future(rt, &naps.future), 0);
    qsort(naps.took, SAMPLES, sizeof *naps.took, ascending);
    CHECK_GE(naps.took[0], AW_USEC(50));
    CHECK_LT(naps.took[SAMPLES / 2],
             AW_USEC(900)); /* 110 on an idle machine: 50 are the kernel's */
    aw_runtime_free(rt);
}

/* ---- Huge ------------------------------------------------------------------------------------ */

AW_ASYNC(int, huge_and_tiny, uint64_t huge; AW_SELECT(aw_sleep, aw_sleep, aw_sleep) first;
         uint64_t start;) {
    AW_BEGIN;
    self->start = aw_now(NULL);
    AW_AWAIT_SELECT(self->first, aw_sleep_for(self->huge), aw_sleep_until(self->huge),
                    aw_sleep_for(AW_USEC(7)));
    CHECK_EQ(self->first.out, 1 << 2);
    CHECK_GE(aw_now(NULL), self->start + AW_USEC(7));
    AW_RETURN(0);
    AW_END;
}

TEST(a_huge_and_a_tiny_sleep_together_end_by_the_tiny_one) {
    const uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX / 2, AW_SEC(1000000000)};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        aw_runtime *rt = paused_runtime();
        uint64_t start = aw_now(rt);
        CHECK_EQ(aw_block_on(rt, AW_CALL(huge_and_tiny, .huge = huge[i])), 0);
        CHECK_EQ(aw_now(rt) - start, AW_USEC(7));
        CHECK_EQ(rt->base.wheels->count, 0);
        aw_runtime_free(rt);
        CHECK_EQ(aw_run(AW_CALL(huge_and_tiny, .huge = huge[i])), 0); /* also in real time */
    }
}

TEST(a_sleep_of_all_time_does_not_overflow) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    aw_flag flag = {0};
    aw_sleep s = aw_sleep_for(UINT64_MAX), t = aw_sleep_for(UINT64_MAX - aw_now(rt) + 1);
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    CHECK_EQ(POLL(&t, &flag), AW_PENDING);
    CHECK(s.when == UINT64_MAX && t.when == UINT64_MAX);
    run_until(rt, UINT64_MAX - 1);
    CHECK(!aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&s, &flag), AW_CANCELLED);
    CHECK_EQ(CANCEL(&t, &flag), AW_CANCELLED);
    aw_leave(before);
    aw_runtime_free(rt);
}

/* ---- Wakers ---------------------------------------------------------------------------------- */

TEST(only_the_waker_of_the_latest_poll_is_woken) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    aw_flag first = {0}, second = {0}, third = {0};
    uint64_t due = aw_now(rt) + AW_SEC(1);
    aw_sleep s = aw_sleep_until(due);
    CHECK_EQ(POLL(&s, &first), AW_PENDING);
    CHECK_EQ(POLL(&s, &second), AW_PENDING);
    CHECK_EQ(POLL(&s, &third), AW_PENDING);
    CHECK_EQ(POLL(&s, &second), AW_PENDING);
    run_until(rt, due);
    CHECK(aw_flag_take(&second));
    CHECK(!aw_flag_take(&first) && !aw_flag_take(&third));
    CHECK_EQ(POLL(&s, &first), AW_READY); /* any poll then finds it ready, woken or not */
    aw_leave(before);
    aw_runtime_free(rt);
}

/* Wakes itself each time it is polled: the runtime is never idle. */
static aw_poll restless(void *arg, aw_cx *cx, int *out) {
    aw_sleep *s = arg;
    *out = 0;
    if (aw_future_poll(&s->future, cx) == AW_READY) return AW_READY;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

TEST(a_task_that_wakes_itself_cannot_starve_its_own_timer) {
    aw_sleep s = aw_sleep_for(AW_MSEC(2));
    uint64_t start = test_now_ns();
    CHECK_EQ(aw_run(aw_poll_fn_of(restless, &s)), 0);
    CHECK_GE(test_now_ns() - start, AW_MSEC(2));
}

AW_ASYNC(int, nap_among_the_restless, aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(2)));
    AW_RETURN(0);
    AW_END;
}

static aw_poll restless_for_ever(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    (void)out;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

TEST(a_task_that_wakes_itself_cannot_starve_the_timers_of_others) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    aw_task_drop(aw_spawn_on(rt, aw_poll_fn_of(restless_for_ever, NULL)));
    CHECK_EQ(aw_block_on(rt, AW_CALL(nap_among_the_restless)), 0);
    aw_runtime_free(rt);
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

/* cancel-at-every-await: aw_sleep */

TEST(a_sleep_can_be_cancelled_at_any_moment_and_leaves_nothing) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    aw_flag flag = {0}, other = {0};
    uint64_t due = aw_now(rt) + AW_SEC(1);

    aw_sleep never_polled = aw_sleep_until(due);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);
    aw_sleep never_polled_past = aw_sleep_until(0);
    CHECK_EQ(CANCEL(&never_polled_past, &flag), AW_CANCELLED);

    aw_sleep pending = aw_sleep_until(due);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(rt->base.wheels->count, 1);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    CHECK_EQ(rt->base.wheels->count, 0);

    aw_sleep fired = aw_sleep_until(due);
    CHECK_EQ(POLL(&fired, &flag), AW_PENDING);
    run_until(rt, due);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(rt->base.wheels->count, 0);
    CHECK_EQ(CANCEL(&fired, &other), AW_READY); /* it had finished: that stands */
    CHECK_EQ(fired.out, 0);

    aw_sleep finished = aw_sleep_until(due);
    CHECK_EQ(POLL(&finished, &flag), AW_READY);
    DIES(CANCEL(&finished, &flag), "cancelled after it had finished");

    run_until(rt, due + AW_SEC(10));
    CHECK(!aw_flag_take(&flag) && !aw_flag_take(&other));
    aw_leave(before);
    aw_runtime_free(rt);
}

AW_ASYNC(int, abort_a_sleeper, struct sleeper *task; aw_task_join_future join;) {
    AW_BEGIN;
    self->task = aw_spawn(AW_CALL(sleeper, .duration = AW_SEC(100)));
    AW_YIELD;
    aw_task_abort(self->task);
    AW_AWAIT(self->join, aw_task_join(self->task));
    CHECK_EQ(self->join.out, -ECANCELED);
    aw_task_drop(self->task);
    AW_RETURN(0);
    AW_END;
}

TEST(an_aborted_sleeper_leaves_the_wheel_and_the_clock_alone) {
    aw_runtime *rt = paused_runtime();
    uint64_t start = aw_now(rt);
    CHECK_EQ(aw_block_on(rt, AW_CALL(abort_a_sleeper)), 0);
    CHECK_EQ(rt->base.wheels->count, 0);
    CHECK_EQ(aw_now(rt), start);
    CHECK_EQ(woken, 0);
    aw_runtime_free(rt);
}
