/* SPDX-License-Identifier: MIT
 *
 * Timers that are set on one thread and served by another, which runs the runtime. */
#include "test.h"

#include <pthread.h>

#include "task/runtime_state.h"
#include "support/by_hand.h"
#include "support/clock.h"

/* ---- A thread that runs the runtime ---------------------------------------------------------- */

static aw_runtime *rt;
static aw_notify stop = AW_NOTIFY_INIT;

static void *own(void *unused) {
    (void)unused;
    CHECK_EQ(aw_block_on(rt, aw_notify_wait(&stop)), 0);
    return NULL;
}

static pthread_t start_owner(void) {
    pthread_t thread;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, own, NULL), 0);
    return thread;
}

static void stop_owner(pthread_t thread) {
    aw_notify_one(&stop);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(rt->wheel.count, 0);
    aw_runtime_free(rt);
}

/* An executor in ten lines: poll, park until the waker unparks, poll again. */
static void poll_and_park(aw_parker *parker, aw_future *f) {
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    while (aw_future_poll(f, &cx) == AW_PENDING)
        aw_parker_park(parker);
}

TEST(a_hand_made_executor_sleeps_on_a_runtime_that_another_thread_runs) {
    pthread_t owner = start_owner();
    aw_runtime *before = aw_enter(rt);
    aw_parker *parker = aw_parker_new();
    for (unsigned i = 0; i < 50; i++) {
        uint64_t due = test_now_ns() + AW_USEC(1 + 20 * i);
        aw_sleep s = aw_sleep_for(AW_USEC(1 + 20 * i));
        poll_and_park(parker, &s.future);
        CHECK_EQ(s.out, 0);
        CHECK_GE(test_now_ns(), due);
    }
    aw_parker_free(parker);
    aw_leave(before);
    stop_owner(owner);
}

TEST(an_async_function_sleeps_under_a_hand_made_executor) {
    pthread_t owner = start_owner();
    aw_runtime *before = aw_enter(rt);
    aw_parker *parker = aw_parker_new();
    struct aw_test_until f = AW_CALL(aw_test_until, .when = test_now_ns() + AW_MSEC(1));
    poll_and_park(parker, &f.future);
    CHECK_EQ(f.out, 0);
    CHECK_GE(test_now_ns(), f.when);
    aw_parker_free(parker);
    aw_leave(before);
    stop_owner(owner);
}

TEST(an_earlier_timer_from_outside_wakes_an_owner_that_sleeps_for_a_later_one) {
    pthread_t owner = start_owner();
    aw_runtime *before = aw_enter(rt);
    aw_parker *parker = aw_parker_new();
    aw_flag ignored = {0};
    aw_sleep hour = aw_sleep_for(AW_SEC(3600));
    CHECK_EQ(POLL(&hour, &ignored), AW_PENDING);
    for (int i = 0; i < 30; i++) {
        aw_sleep s = aw_sleep_for(AW_USEC(200)); /* the owner is asleep again by then */
        poll_and_park(parker, &s.future);
    }
    CHECK_EQ(CANCEL(&hour, &ignored), AW_CANCELLED);
    aw_parker_free(parker);
    aw_leave(before);
    stop_owner(owner);
}

TEST(a_timer_set_before_the_runtime_is_run_is_served_when_it_is) {
    rt = paused_runtime();
    aw_runtime *before = aw_enter(rt);
    aw_flag flag = {0};
    aw_sleep s = aw_sleep_for(AW_SEC(1));
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    CHECK(!aw_flag_take(&flag));
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(2))), 0);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    aw_leave(before);
    aw_runtime_free(rt);
}

/* ---- Many threads ---------------------------------------------------------------------------- */

enum { THREADS = 4, SLEEPS = 16 };

/* Each keeps some sleeps pending and ends them by waiting or by cancelling, often just when they
 * fire. */
static void *sleep_and_cancel(void *number) {
    uint64_t seed = test_seed() + (uintptr_t)number;
    aw_runtime *before = aw_enter(rt);
    aw_parker *parker = aw_parker_new();
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    for (int round = 0; round < test_scale(300); round++) {
        aw_sleep s[SLEEPS];
        uint64_t due[SLEEPS];
        for (int i = 0; i < SLEEPS; i++) {
            due[i] = test_now_ns() + test_random(&seed) % AW_USEC(100);
            s[i] = aw_sleep_until(due[i]);
            if (aw_future_poll(&s[i].future, &cx) == AW_READY) CHECK_GE(test_now_ns(), due[i]);
        }
        for (int i = 0; i < SLEEPS; i++) {
            if (aw_future_ended(&s[i].future)) continue;
            if (test_random(&seed) % 2) {
                if (aw_future_cancel(&s[i].future, &cx) == AW_READY)
                    CHECK_GE(test_now_ns(), due[i]);
            } else {
                poll_and_park(parker, &s[i].future);
                CHECK_GE(test_now_ns(), due[i]);
            }
        }
    }
    aw_parker_free(parker);
    aw_leave(before);
    return NULL;
}

TEST(threads_set_and_cancel_timers_while_the_owner_fires_them) {
    pthread_t owner = start_owner(), threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, sleep_and_cancel, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    stop_owner(owner);
}

/* ---- Several threads in block_on ------------------------------------------------------------- */

AW_ASYNC(int, naps, uint64_t nap_for; int count; aw_sleep nap; uint64_t due;) {
    AW_BEGIN;
    while (self->count--) {
        self->due = test_now_ns() + self->nap_for;
        AW_AWAIT(self->nap, aw_sleep_for(self->nap_for));
        CHECK_GE(test_now_ns(), self->due);
    }
    AW_RETURN(7);
    AW_END;
}

static void *nap_in_block_on(void *number) {
    uintptr_t n = (uintptr_t)number;
    CHECK_EQ(aw_block_on(rt, AW_CALL(naps, .nap_for = AW_USEC(50 * (n + 1)), .count = 20)), 7);
    return NULL;
}

static void nothing_to_report(void *data, aw_log_level level, const char *message) {
    (void)data;
    FAIL("level %d: %s", (int)level, message);
}

/* Whether the owner returns first, last or in between: the timers of the other threads go on. */
TEST(threads_in_block_on_share_one_wheel_and_hand_it_over) {
    pthread_t threads[THREADS];
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.log = nothing_to_report;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    for (int round = 0; round < test_scale(20); round++) {
        for (uintptr_t i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, nap_in_block_on, (void *)i), 0);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK_EQ(rt->wheel.count, 0);
    }
    aw_runtime_free(rt);
}
