/* SPDX-License-Identifier: MIT
 *
 * Timeouts and the clock: what counts when value and deadline come together. */
#include "test.h"

#include <errno.h>

#include "task/runtime_state.h"
#include "support/by_hand.h"
#include "support/clock.h"

typedef AW_TIMEOUT(aw_ready) ready_timeout;
typedef AW_TIMEOUT(aw_sleep) sleep_timeout;
typedef AW_TIMEOUT(aw_never) never_timeout;

TEST(a_value_that_is_there_beats_a_deadline_that_has_passed) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    aw_flag flag = {0};
    ready_timeout now = AW_TIMEOUT_OF(ready_timeout, 0, aw_ready_now(5));
    CHECK_EQ(POLL(&now, &flag), AW_READY);
    CHECK_EQ(now.out, 0);
    CHECK_EQ(now.inner.out, 5);
    ready_timeout past = AW_TIMEOUT_AT_OF(ready_timeout, 1, aw_ready_now(6));
    CHECK_EQ(POLL(&past, &flag), AW_READY);
    CHECK_EQ(past.out, 0);
    CHECK_EQ(past.inner.out, 6);
    CHECK_EQ(rt->wheel.count, 0);
    aw_leave(before);
    aw_runtime_free(rt);
}

TEST(a_deadline_that_has_passed_ends_what_is_pending) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_TIMEOUT_OF(never_timeout, 0, aw_never_ready())), -ETIMEDOUT);
    CHECK_EQ(aw_block_on(rt, AW_TIMEOUT_AT_OF(never_timeout, 1, aw_never_ready())), -ETIMEDOUT);
    aw_runtime_free(rt);
}

TEST(a_timeout_ends_at_its_deadline_and_not_before) {
    aw_runtime *rt = paused_runtime();
    uint64_t start = aw_now(rt);
    CHECK_EQ(aw_block_on(rt, AW_TIMEOUT_OF(sleep_timeout, AW_SEC(3), aw_sleep_for(AW_SEC(4)))),
             -ETIMEDOUT);
    CHECK_EQ(aw_now(rt) - start, AW_SEC(3));
    CHECK_EQ(aw_block_on(rt, AW_TIMEOUT_OF(sleep_timeout, AW_SEC(4), aw_sleep_for(AW_SEC(3)))), 0);
    CHECK_EQ(aw_now(rt) - start, AW_SEC(6));
    CHECK_EQ(rt->wheel.count, 0);
    aw_runtime_free(rt);
}

TEST(a_value_at_the_very_nanosecond_of_the_deadline_counts) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_TIMEOUT_OF(sleep_timeout, AW_SEC(3), aw_sleep_for(AW_SEC(3)))), 0);
    aw_runtime_free(rt);
}

TEST(a_timeout_of_all_time_is_none) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_TIMEOUT_OF(sleep_timeout, AW_FOREVER, aw_sleep_for(AW_SEC(3)))), 0);
    CHECK_EQ(rt->wheel.count, 0);
    aw_runtime_free(rt);
}

/* An inner future that always finds something ready: only the budget stops it, and then the
 * clock is checked. The clock is real, because the loop has to see it move. */
AW_ASYNC(int, always_ready, aw_notify *n; aw_notified got; uint64_t rounds;) {
    AW_BEGIN;
    for (;;) {
        aw_notify_one(self->n);
        AW_AWAIT(self->got, aw_notify_wait(self->n));
        self->rounds++;
    }
    AW_END;
}

typedef AW_TIMEOUT(struct always_ready) greedy_timeout;

TEST(an_inner_loop_that_is_always_ready_cannot_outrun_its_timeout) {
    aw_notify n = AW_NOTIFY_INIT;
    uint64_t start = test_now_ns();
    greedy_timeout t = AW_TIMEOUT_OF(greedy_timeout, AW_MSEC(2), AW_CALL(always_ready, .n = &n));
    CHECK_EQ(aw_run_future(&t.future), 0);
    CHECK_EQ(t.out, -ETIMEDOUT);
    CHECK_GE(test_now_ns() - start, AW_MSEC(2));
    CHECK_GT(t.inner.rounds, 128);
}

TEST(a_timeout_without_a_runtime_says_why_it_gave_up) {
    aw_flag flag = {0};
    never_timeout t = AW_TIMEOUT_OF(never_timeout, AW_SEC(1), aw_never_ready());
    CHECK_EQ(POLL(&t, &flag), AW_READY);
    CHECK_EQ(t.out, -ENXIO);
}
