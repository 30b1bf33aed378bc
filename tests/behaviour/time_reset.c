/* SPDX-License-Identifier: MIT
 *
 * Moving the deadline of a sleep: earlier, later, into the past, at every moment of its life. */
#include "test.h"

#include <pthread.h>

#include "task/runtime_state.h"
#include "support/by_hand.h"
#include "support/clock.h"

/* A sleep that the test polls directly, while no thread runs the runtime. run_until moves the
 * clock. */
static aw_runtime *rt;
static aw_runtime *before;
static aw_flag flag;
static uint64_t start;

static void begin(void) {
    rt = paused_runtime();
    before = aw_enter(rt);
    start = aw_now(rt);
}

static void end(void) {
    CHECK_EQ(rt->wheel.count, 0);
    aw_leave(before);
    aw_runtime_free(rt);
}

/* Pending until then, and ready at that very nanosecond. */
static void check_ends_at(aw_sleep *s, uint64_t when) {
    aw_flag_take(&flag);
    run_until(rt, when - 1);
    CHECK(!aw_flag_take(&flag));
    CHECK_EQ(POLL(s, &flag), AW_PENDING);
    run_until(rt, when);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(s, &flag), AW_READY);
    CHECK_EQ(s->out, 0);
}

TEST(a_sleep_moved_earlier_ends_earlier) {
    begin();
    aw_sleep s = aw_sleep_for(AW_SEC(10));
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    aw_sleep_reset(&s, start + AW_SEC(1));
    check_ends_at(&s, start + AW_SEC(1));
    end();
}

TEST(a_sleep_moved_later_does_not_end_at_its_old_deadline) {
    begin();
    aw_sleep s = aw_sleep_for(AW_SEC(1));
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    aw_sleep_reset(&s, start + AW_SEC(10));
    check_ends_at(&s, start + AW_SEC(10));
    end();
}

TEST(a_sleep_moved_within_its_tick_ends_at_its_new_nanosecond) {
    begin();
    aw_sleep s = aw_sleep_for(1000);
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    aw_sleep_reset(&s, start + 1100);
    aw_sleep_reset(&s, start + 900);
    check_ends_at(&s, start + 900);
    end();
}

TEST(a_sleep_moved_into_the_past_ends_now) {
    begin();
    aw_sleep s = aw_sleep_for(AW_SEC(10));
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    aw_sleep_reset(&s, start - AW_SEC(1));
    run_until(rt, 0);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    CHECK_EQ(aw_now(rt), start);
    end();
}

TEST(a_sleep_that_has_fired_but_was_not_polled_waits_again) {
    begin();
    aw_sleep s = aw_sleep_for(AW_SEC(1));
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    run_until(rt, start + AW_SEC(2));
    CHECK(aw_flag_take(&flag));
    aw_sleep_reset(&s, start + AW_SEC(5));
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    check_ends_at(&s, start + AW_SEC(5));
    end();
}

TEST(a_sleep_that_has_ended_can_be_used_again) {
    begin();
    aw_sleep s = aw_sleep_for(AW_SEC(1));
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(POLL(&s, &flag), AW_PENDING);
        check_ends_at(&s, start + AW_SEC(i));
        aw_sleep_reset(&s, start + AW_SEC(i + 1));
    }
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&s, &flag), AW_CANCELLED);
    aw_sleep_reset(&s, start + AW_SEC(9)); /* also after a cancel */
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    check_ends_at(&s, start + AW_SEC(9));
    end();
}

TEST(a_reset_before_the_first_poll_replaces_the_duration) {
    begin();
    aw_sleep s = aw_sleep_for(AW_SEC(10));
    aw_sleep_reset(&s, start + AW_SEC(3));
    CHECK_EQ(rt->wheel.count, 0);
    run_until(rt, start + AW_SEC(2));
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    check_ends_at(&s, start + AW_SEC(3));

    aw_sleep past = aw_sleep_for(AW_SEC(10));
    aw_sleep_reset(&past, 0);
    CHECK_EQ(POLL(&past, &flag), AW_READY);
    end();
}

TEST(a_reset_keeps_the_waker_and_a_cancel_after_it_leaves_nothing) {
    begin();
    aw_flag other = {0};
    aw_sleep s = aw_sleep_for(AW_SEC(1));
    CHECK_EQ(POLL(&s, &other), AW_PENDING);
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    aw_sleep_reset(&s, start + AW_SEC(2));
    run_until(rt, start + AW_SEC(2));
    CHECK(aw_flag_take(&flag) && !aw_flag_take(&other));
    aw_sleep_reset(&s, start + AW_SEC(3));
    CHECK_EQ(CANCEL(&s, &other), AW_CANCELLED); /* it had not ended when it was cancelled */
    run_until(rt, start + AW_SEC(4));
    CHECK(!aw_flag_take(&flag) && !aw_flag_take(&other));
    end();
}

/* The task that owns the sleep moves it while it waits for something else as well. */
AW_ASYNC(int, idle_timeout, aw_notify *traffic; aw_sleep idle; aw_notified packet; aw_group first;
         int packets;) {
    AW_BEGIN;
    self->idle = aw_sleep_for(AW_SEC(10));
    for (;;) {
        self->packet = aw_notify_wait(self->traffic);
        AW_AWAIT(self->first, aw_select_refs(&self->idle, &self->packet));
        if (self->first.out & 1) break;
        self->packets++;
        aw_sleep_reset(&self->idle, aw_now(NULL) + AW_SEC(10));
    }
    AW_RETURN(self->packets);
    AW_END;
}

AW_ASYNC(int, send_packets, aw_notify *traffic; int n; aw_sleep gap;) {
    AW_BEGIN;
    for (self->n = 0; self->n < 20; self->n++) {
        AW_AWAIT(self->gap, aw_sleep_for(AW_SEC(9)));
        aw_notify_one(self->traffic);
    }
    AW_RETURN(0);
    AW_END;
}

TEST(an_idle_timeout_is_pushed_back_by_each_packet) {
    aw_notify traffic = AW_NOTIFY_INIT;
    rt = paused_runtime();
    start = aw_now(rt);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(send_packets, .traffic = &traffic)));
    CHECK_EQ(aw_block_on(rt, AW_CALL(idle_timeout, .traffic = &traffic)), 20);
    CHECK_EQ(aw_now(rt) - start, AW_SEC(20 * 9 + 10));
    aw_runtime_free(rt);
}

/* ---- While another thread owns the wheel ----------------------------------------------------- */

static aw_notify stop = AW_NOTIFY_INIT;

static void *run_in_thread(void *runtime) {
    CHECK_EQ(aw_block_on(runtime, aw_notify_wait(&stop)), 0);
    return NULL;
}

static pthread_t start_owner(void) {
    pthread_t thread;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, run_in_thread, rt), 0);
    before = aw_enter(rt);
    return thread;
}

static void stop_owner(pthread_t thread) {
    aw_leave(before);
    aw_notify_one(&stop);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(rt->wheel.count, 0);
    aw_runtime_free(rt);
}

TEST(a_reset_to_an_earlier_time_wakes_the_sleeping_owner_of_the_wheel) {
    pthread_t owner = start_owner();
    aw_parker *parker = aw_parker_new();
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_sleep s = aw_sleep_for(AW_SEC(3600));
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(aw_future_poll(&s.future, &cx), AW_PENDING);
        uint64_t due = test_now_ns() + AW_USEC(100 * i);
        aw_sleep_reset(&s, due);
        while (aw_future_poll(&s.future, &cx) == AW_PENDING)
            aw_parker_park(parker);
        CHECK_GE(test_now_ns(), due);
        aw_sleep_reset(&s, test_now_ns() + AW_SEC(3600));
    }
    aw_parker_free(parker);
    stop_owner(owner);
}

TEST(resets_race_with_the_firing_and_nothing_is_early_or_lost) {
    pthread_t owner = start_owner();
    aw_parker *parker = aw_parker_new();
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    uint64_t seed = test_seed();
    for (int i = 0; i < test_scale(2000); i++) {
        uint64_t due = test_now_ns() + AW_USEC(20);
        aw_sleep s = aw_sleep_until(due);
        bool ended = aw_future_poll(&s.future, &cx) == AW_READY;
        /* Around the moment at which it fires. */
        for (int moves = (int)(test_random(&seed) % 40); moves && !ended; moves--) {
            aw_sleep_reset(&s, due = test_now_ns() + test_random(&seed) % AW_USEC(30));
            ended = aw_future_poll(&s.future, &cx) == AW_READY;
        }
        if (!ended && test_random(&seed) % 4 == 0) {
            ended = aw_future_cancel(&s.future, &cx) == AW_CANCELLED;
            if (ended) continue;
        }
        while (!ended && !aw_future_ended(&s.future)) {
            aw_parker_park(parker);
            ended = aw_future_poll(&s.future, &cx) == AW_READY;
        }
        CHECK_GE(test_now_ns(), due);
    }
    aw_parker_free(parker);
    stop_owner(owner);
}
