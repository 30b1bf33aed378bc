/* SPDX-License-Identifier: MIT
 *
 * Semaphore, polled directly by the test: order, closing, overflow, and a permit that a waiter
 * cannot use goes to the next one. */
#include "test.h"

#include <errno.h>

#include "support/by_hand.h"

enum { WAITERS = 300 };

static bool is_empty(const aw_semaphore *s) {
    return s->waiters.first == NULL && s->waiters.last == NULL && s->lock == 0;
}

/* ---- Permits --------------------------------------------------------------------------------- */

TEST(available_permits_are_acquired_at_once) {
    aw_semaphore s = AW_SEMAPHORE_INIT(3);
    aw_flag flag = {0};
    aw_acquire a = aw_semaphore_acquire(&s, 2), b = aw_semaphore_acquire(&s, 1);
    CHECK_EQ(POLL(&a, &flag), AW_READY);
    CHECK_EQ(a.out, 0);
    CHECK_EQ(aw_semaphore_available(&s), 1);
    CHECK_EQ(POLL(&b, &flag), AW_READY);
    CHECK_EQ(aw_semaphore_try_acquire(&s, 1), -EAGAIN);
    CHECK_EQ(aw_semaphore_release(&s, 3), 0);
    CHECK_EQ(aw_semaphore_available(&s), 3);
    CHECK_EQ(aw_semaphore_try_acquire(&s, 3), 0);
    CHECK(!aw_flag_take(&flag));
}

TEST(zero_permits_can_always_be_acquired) {
    aw_semaphore s = aw_semaphore_of(0);
    aw_flag flag = {0};
    aw_acquire none = aw_semaphore_acquire(&s, 0);
    CHECK_EQ(aw_semaphore_try_acquire(&s, 0), 0);
    CHECK_EQ(POLL(&none, &flag), AW_READY);
    CHECK_EQ(aw_semaphore_release(&s, 0), 0);
    CHECK_EQ(aw_semaphore_available(&s), 0);
}

TEST(more_permits_than_there_can_be_are_refused) {
    aw_semaphore s = AW_SEMAPHORE_INIT(1);
    aw_flag flag = {0};
    aw_acquire a = aw_semaphore_acquire(&s, AW_SEMAPHORE_MAX + 1);
    CHECK_EQ(POLL(&a, &flag), AW_READY);
    CHECK_EQ(a.out, -EINVAL);
    CHECK_EQ(aw_semaphore_try_acquire(&s, UINT32_MAX), -EINVAL);
    CHECK_EQ(aw_semaphore_release(&s, AW_SEMAPHORE_MAX), -EOVERFLOW);
    CHECK_EQ(aw_semaphore_release(&s, UINT32_MAX), -EOVERFLOW);
    CHECK_EQ(aw_semaphore_available(&s), 1);
    CHECK_EQ(aw_semaphore_release(&s, AW_SEMAPHORE_MAX - 1), 0);
    CHECK_EQ(aw_semaphore_release(&s, 1), -EOVERFLOW);
    CHECK_EQ(aw_semaphore_try_acquire(&s, AW_SEMAPHORE_MAX), 0);
    CHECK_EQ(aw_semaphore_available(&s), 0);
}

TEST(a_semaphore_of_more_permits_than_there_can_be_dies_with_a_message) {
    uint32_t permits = AW_SEMAPHORE_MAX;
    aw_semaphore s = aw_semaphore_of(permits), same = AW_SEMAPHORE_INIT(AW_SEMAPHORE_MAX);
    CHECK_EQ(aw_semaphore_available(&s), AW_SEMAPHORE_MAX);
    CHECK_EQ(aw_semaphore_available(&same), AW_SEMAPHORE_MAX);
    DIES(aw_semaphore_of(permits + 1), "tests/behaviour/semaphore_queue.c:");
    DIES(aw_semaphore_of(permits + 1), "a semaphore of 1073741824 permits: at most 1073741823");
    DIES(aw_semaphore_of(UINT64_C(1) << 32), "a semaphore of 4294967296 permits");
}

TEST(an_overflow_is_refused_while_a_waiter_is_queued_too) {
    aw_semaphore s = AW_SEMAPHORE_INIT(2);
    aw_flag flag = {0};
    aw_acquire big = aw_semaphore_acquire(&s, AW_SEMAPHORE_MAX);
    CHECK_EQ(POLL(&big, &flag), AW_PENDING);
    CHECK_EQ(aw_semaphore_release(&s, AW_SEMAPHORE_MAX - 1), -EOVERFLOW);
    CHECK_EQ(aw_semaphore_available(&s), 2);
    CHECK_EQ(aw_semaphore_release(&s, AW_SEMAPHORE_MAX - 2), 0);
    CHECK_EQ(POLL(&big, &flag), AW_READY);
    CHECK_EQ(aw_semaphore_available(&s), 0);
    CHECK(is_empty(&s));
}

/* ---- Order ----------------------------------------------------------------------------------- */

TEST(each_permit_goes_to_the_longest_waiter) {
    static aw_acquire w[WAITERS];
    static aw_flag flags[WAITERS];
    aw_semaphore s = AW_SEMAPHORE_INIT(0);
    for (int i = 0; i < WAITERS; i++) {
        w[i] = aw_semaphore_acquire(&s, 1);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(aw_semaphore_release(&s, 1), 0);
        for (int k = 0; k < WAITERS; k++)
            CHECK_EQ(aw_flag_take(&flags[k]), k == i);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
    }
    CHECK(is_empty(&s));
    CHECK_EQ(aw_semaphore_available(&s), 0);
}

TEST(a_wait_begins_at_its_first_poll) {
    aw_semaphore s = AW_SEMAPHORE_INIT(0);
    aw_flag flag = {0};
    aw_acquire early = aw_semaphore_acquire(&s, 1), late = aw_semaphore_acquire(&s, 1);
    CHECK_EQ(POLL(&late, &flag), AW_PENDING); /* created second, polled first */
    CHECK_EQ(POLL(&early, &flag), AW_PENDING);
    CHECK_EQ(aw_semaphore_release(&s, 1), 0);
    CHECK_EQ(POLL(&early, &flag), AW_PENDING);
    CHECK_EQ(POLL(&late, &flag), AW_READY);
    CHECK_EQ(CANCEL(&early, &flag), AW_CANCELLED);
}

TEST(a_waiter_for_many_permits_is_not_overtaken_by_one_for_few) {
    aw_semaphore s = AW_SEMAPHORE_INIT(3);
    aw_flag big_flag = {0}, small_flag = {0};
    aw_acquire big = aw_semaphore_acquire(&s, 5), small = aw_semaphore_acquire(&s, 1),
               none = aw_semaphore_acquire(&s, 0);
    CHECK_EQ(POLL(&big, &big_flag), AW_PENDING);
    CHECK_EQ(POLL(&small, &small_flag), AW_PENDING);
    CHECK_EQ(POLL(&none, &small_flag), AW_PENDING);
    CHECK_EQ(aw_semaphore_available(&s), 3);
    CHECK_EQ(aw_semaphore_try_acquire(&s, 1), -EAGAIN);
    CHECK_EQ(aw_semaphore_release(&s, 1), 0);
    CHECK(!aw_flag_take(&big_flag) && !aw_flag_take(&small_flag));
    CHECK_EQ(aw_semaphore_release(&s, 1), 0);
    CHECK(aw_flag_take(&big_flag));
    CHECK_EQ(POLL(&big, &big_flag), AW_READY);
    CHECK_EQ(POLL(&small, &small_flag), AW_PENDING);
    CHECK_EQ(aw_semaphore_release(&s, 1), 0);
    CHECK(aw_flag_take(&small_flag));
    CHECK_EQ(POLL(&small, &small_flag), AW_READY);
    CHECK_EQ(POLL(&none, &small_flag), AW_READY);
    CHECK(is_empty(&s));
}

TEST(one_release_serves_as_many_as_it_can_and_the_rest_stays) {
    enum { COUNT = 40 }; /* more than one batch of wakes */
    static aw_acquire w[COUNT];
    static aw_flag flags[COUNT];
    aw_semaphore s = AW_SEMAPHORE_INIT(0);
    for (int i = 0; i < COUNT; i++) {
        w[i] = aw_semaphore_acquire(&s, 2);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    CHECK_EQ(aw_semaphore_release(&s, 2 * 30 + 1), 0);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(aw_flag_take(&flags[i]), i < 30);
    CHECK_EQ(aw_semaphore_available(&s), 1);
    CHECK_EQ(aw_semaphore_release(&s, 2 * 10), 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(aw_flag_take(&flags[i]), i >= 30);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
    }
    CHECK_EQ(aw_semaphore_available(&s), 1);
    CHECK_EQ(aw_semaphore_try_acquire(&s, 1), 0); /* no waiter is queued any more */
    CHECK(is_empty(&s));
}

/* ---- Wakers ---------------------------------------------------------------------------------- */

TEST(polling_again_keeps_the_queue_position_and_only_the_latest_waker_is_woken) {
    aw_semaphore s = AW_SEMAPHORE_INIT(0);
    aw_flag flags[4] = {{0}}, other = {0};
    aw_acquire first = aw_semaphore_acquire(&s, 1), second = aw_semaphore_acquire(&s, 1);
    CHECK_EQ(POLL(&first, &flags[0]), AW_PENDING);
    CHECK_EQ(POLL(&second, &other), AW_PENDING);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(POLL(&first, &flags[i]), AW_PENDING);
    CHECK_EQ(aw_semaphore_release(&s, 1), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(aw_flag_take(&flags[i]), i == 3);
    CHECK(!aw_flag_take(&other));
    CHECK_EQ(POLL(&first, &flags[0]), AW_READY);
    CHECK_EQ(aw_semaphore_release(&s, 1), 0);
    CHECK(!aw_flag_take(&flags[3]) && aw_flag_take(&other)); /* it holds no waker any more */
    CHECK_EQ(CANCEL(&second, &flags[0]), AW_READY);
}

/* A waker that uses the semaphore itself: the lock is free then, and no newcomer gets ahead of
 * the waiters that are still to be served. */
static struct {
    aw_semaphore s;
    aw_acquire w[WAITERS];
    aw_acquire late[WAITERS];
    aw_flag flag;
    int woken, late_count;
} busy;

static aw_waker busy_waker(void *data);
static void busy_nothing(void *data) {
    (void)data;
}
static void busy_wake(void *data) {
    (void)data;
    int n = busy.woken++;
    CHECK_EQ(busy.s.lock, 0);
    CHECK_EQ(aw_semaphore_try_acquire(&busy.s, 1), -EAGAIN);
    busy.late[n] = aw_semaphore_acquire(&busy.s, 1);
    CHECK_EQ(POLL(&busy.late[n], &busy.flag), AW_PENDING);
    if (n % 3 == 0) CHECK_EQ(CANCEL(&busy.late[n], &busy.flag), AW_CANCELLED);
    if (n == 2) CHECK_EQ(CANCEL(&busy.w[17], &busy.flag), AW_CANCELLED);
    if (n == 3) CHECK_EQ(aw_semaphore_release(&busy.s, 1), 0);
}
static const aw_waker_type busy_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "busy",
    .clone = busy_waker,
    .wake = busy_wake,
    .wake_by_ref = busy_wake,
    .drop = busy_nothing,
};
static aw_waker busy_waker(void *data) {
    return (aw_waker){&busy_type, data};
}

TEST(wakers_may_use_the_semaphore_while_others_are_still_to_be_served) {
    enum { COUNT = 20 };
    aw_waker waker = busy_waker(NULL);
    aw_cx cx = aw_cx_from_waker(&waker);
    busy.s = aw_semaphore_of(0);
    for (int i = 0; i < COUNT; i++) {
        busy.w[i] = aw_semaphore_acquire(&busy.s, 1);
        CHECK_EQ(aw_future_poll(&busy.w[i].future, &cx), AW_PENDING);
    }
    CHECK_EQ(aw_semaphore_release(&busy.s, 16), 0);
    CHECK_EQ(busy.woken, 17); /* one more by the release in a waker, and no newcomer */
    for (int i = 0; i < COUNT; i++) {
        if (i == 17) continue;
        CHECK_EQ(aw_future_poll(&busy.w[i].future, &cx), i < 17 ? AW_READY : AW_PENDING);
    }
    for (int i = 18; i < COUNT; i++)
        CHECK_EQ(CANCEL(&busy.w[i], &busy.flag), AW_CANCELLED);
    for (int i = 0; i < busy.woken; i++)
        if (i % 3) CHECK_EQ(CANCEL(&busy.late[i], &busy.flag), AW_CANCELLED);
    CHECK(is_empty(&busy.s));
    CHECK_EQ(aw_semaphore_available(&busy.s), 0);
}

/* ---- Closing --------------------------------------------------------------------------------- */

TEST(closing_ends_all_waits_with_an_error) {
    static aw_acquire w[WAITERS];
    static aw_flag flags[WAITERS];
    aw_semaphore s = AW_SEMAPHORE_INIT(1);
    aw_flag flag = {0};
    aw_acquire had = aw_semaphore_acquire(&s, 1), later = aw_semaphore_acquire(&s, 1);
    CHECK_EQ(POLL(&had, &flag), AW_READY);
    for (int i = 0; i < WAITERS; i++) {
        w[i] = aw_semaphore_acquire(&s, 1 + (uint32_t)i % 3);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    CHECK(!aw_semaphore_is_closed(&s));
    aw_semaphore_close(&s);
    CHECK(aw_semaphore_is_closed(&s) && is_empty(&s));
    for (int i = 0; i < WAITERS; i++) {
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(i % 2 ? POLL(&w[i], &flags[i]) : CANCEL(&w[i], &flags[i]), AW_READY);
        CHECK_EQ(w[i].out, -EPIPE);
        aw_future_discard(&w[i].future); /* there is no permit to return */
    }
    CHECK_EQ(POLL(&later, &flag), AW_READY);
    CHECK_EQ(later.out, -EPIPE);
    CHECK_EQ(aw_semaphore_try_acquire(&s, 0), -EPIPE);
    CHECK_EQ(aw_semaphore_available(&s), 0);
    CHECK_EQ(aw_semaphore_release(&s, 1), 0); /* permits in use are returned as ever */
    CHECK_EQ(aw_semaphore_available(&s), 1);
    CHECK_EQ(aw_semaphore_try_acquire(&s, 1), -EPIPE);
    aw_semaphore_close(&s);
}

TEST(a_waiter_served_before_the_close_has_its_permit) {
    aw_semaphore s = AW_SEMAPHORE_INIT(0);
    aw_flag flag = {0};
    aw_acquire first = aw_semaphore_acquire(&s, 1), second = aw_semaphore_acquire(&s, 1);
    CHECK_EQ(POLL(&first, &flag), AW_PENDING);
    CHECK_EQ(POLL(&second, &flag), AW_PENDING);
    CHECK_EQ(aw_semaphore_release(&s, 1), 0);
    aw_semaphore_close(&s);
    CHECK_EQ(POLL(&first, &flag), AW_READY);
    CHECK_EQ(first.out, 0);
    CHECK_EQ(POLL(&second, &flag), AW_READY);
    CHECK_EQ(second.out, -EPIPE);
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

/* cancel-at-every-await: aw_acquire */

TEST(an_acquire_can_be_cancelled_at_any_moment_and_loses_nothing) {
    aw_semaphore s = AW_SEMAPHORE_INIT(1);
    aw_flag flag = {0}, other = {0};

    aw_acquire never_polled = aw_semaphore_acquire(&s, 1);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);
    CHECK_EQ(aw_semaphore_available(&s), 1);

    aw_acquire pending = aw_semaphore_acquire(&s, 2);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    DIES(CANCEL(&pending, &other), "cancelled after it had been cancelled");
    CHECK(is_empty(&s));
    CHECK_EQ(aw_semaphore_available(&s), 1);
    CHECK_EQ(aw_semaphore_try_acquire(&s, 1), 0); /* no waiter is queued */

    aw_acquire granted = aw_semaphore_acquire(&s, 2);
    CHECK_EQ(POLL(&granted, &flag), AW_PENDING);
    CHECK_EQ(aw_semaphore_release(&s, 3), 0);
    CHECK(aw_flag_take(&flag) && is_empty(&s));
    CHECK_EQ(CANCEL(&granted, &other), AW_READY);
    CHECK_EQ(granted.out, 0);
    CHECK_EQ(aw_semaphore_available(&s), 1);
    aw_future_discard(&granted.future);
    CHECK_EQ(aw_semaphore_available(&s), 3);

    aw_acquire finished = aw_semaphore_acquire(&s, 3);
    CHECK_EQ(POLL(&finished, &flag), AW_READY);
    DIES(CANCEL(&finished, &flag), "cancelled after it had finished");
    aw_future_discard(&finished.future);
    CHECK_EQ(aw_semaphore_available(&s), 3);
    CHECK(!aw_flag_take(&flag) && !aw_flag_take(&other));
}

TEST(a_large_waiter_that_is_cancelled_lets_the_ones_behind_it_go_on) {
    enum { COUNT = 20 };
    static aw_acquire w[COUNT];
    static aw_flag flags[COUNT];
    aw_semaphore s = AW_SEMAPHORE_INIT(COUNT - 1);
    aw_flag flag = {0};
    aw_acquire big = aw_semaphore_acquire(&s, COUNT);
    CHECK_EQ(POLL(&big, &flag), AW_PENDING);
    for (int i = 0; i < COUNT; i++) {
        w[i] = aw_semaphore_acquire(&s, 1);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    CHECK_EQ(CANCEL(&big, &flag), AW_CANCELLED);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(aw_flag_take(&flags[i]), i < COUNT - 1);
        CHECK_EQ(POLL(&w[i], &flags[i]), i < COUNT - 1 ? AW_READY : AW_PENDING);
    }
    CHECK_EQ(aw_semaphore_available(&s), 0);
    CHECK_EQ(CANCEL(&w[COUNT - 1], &flag), AW_CANCELLED);
    CHECK(is_empty(&s));
}

TEST(a_discarded_permit_goes_to_the_next_waiter) {
    aw_semaphore s = AW_SEMAPHORE_INIT(0);
    aw_flag a = {0}, b = {0};
    aw_acquire first = aw_semaphore_acquire(&s, 1), second = aw_semaphore_acquire(&s, 1);
    CHECK_EQ(POLL(&first, &a), AW_PENDING);
    CHECK_EQ(POLL(&second, &b), AW_PENDING);
    CHECK_EQ(aw_semaphore_release(&s, 1), 0);
    CHECK_EQ(CANCEL(&first, &a), AW_READY);
    CHECK(!aw_flag_take(&b));
    aw_future_discard(&first.future);
    CHECK(aw_flag_take(&b));
    CHECK_EQ(POLL(&second, &b), AW_READY);
    CHECK_EQ(aw_semaphore_available(&s), 0);
}

TEST(waiters_cancelled_from_the_middle_leave_the_queue_whole) {
    static aw_acquire w[WAITERS];
    static aw_flag flags[WAITERS];
    aw_semaphore s = AW_SEMAPHORE_INIT(0);
    uint64_t seed = test_seed();
    for (int i = 0; i < WAITERS; i++) {
        w[i] = aw_semaphore_acquire(&s, 1);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    for (int i = 0; i < WAITERS; i++) /* always includes both ends */
        if (i == 0 || i == WAITERS - 1 || test_random(&seed) % 2)
            CHECK_EQ(CANCEL(&w[i], &flags[i]), AW_CANCELLED);
    for (int i = 0; i < WAITERS; i++) {
        if (aw_future_ended(&w[i].future)) continue;
        CHECK_EQ(aw_semaphore_release(&s, 1), 0);
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
    }
    CHECK(is_empty(&s));
    CHECK_EQ(aw_semaphore_available(&s), 0);
}
