/* SPDX-License-Identifier: MIT
 *
 * Mutex, polled directly by the test: queue order, hand-over, cancelling, the recorded holder,
 * and misuse. */
#include "test.h"

#include <errno.h>

#include "support/by_hand.h"

enum { WAITERS = 100 };

static bool is_free(const aw_mutex *m) {
    return !aw_mutex_is_locked(m) && m->word == 0 && m->lock == 0 && !m->waiters.first &&
           !m->waiters.last;
}

TEST(a_zeroed_mutex_is_free) {
    static aw_mutex m;
    aw_mutex other = AW_MUTEX_INIT;
    aw_flag flag = {0};
    aw_mutex_lock_future lock = aw_mutex_lock(&m);
    CHECK(is_free(&m) && is_free(&other));
    CHECK_EQ(POLL(&lock, &flag), AW_READY);
    CHECK_EQ(lock.out, 0);
    CHECK(aw_mutex_is_locked(&m));
    CHECK_EQ(aw_mutex_try_lock(&m), -EAGAIN);
    aw_mutex_unlock(&m);
    CHECK(is_free(&m));
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    aw_mutex_unlock(&m);
}

TEST(the_mutex_is_handed_over_in_the_order_of_first_polls) {
    static aw_mutex_lock_future w[WAITERS];
    static aw_flag flags[WAITERS];
    aw_mutex m = AW_MUTEX_INIT;
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    for (int i = 0; i < WAITERS; i++)
        w[i] = aw_mutex_lock(&m);
    for (int i = WAITERS - 1; i >= 0; i--) /* created first, polled last */
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    for (int i = WAITERS - 1; i >= 0; i--) {
        aw_mutex_unlock(&m);
        CHECK_EQ(aw_mutex_try_lock(&m), -EAGAIN); /* no barging */
        for (int k = 0; k < WAITERS; k++)
            CHECK_EQ(aw_flag_take(&flags[k]), k == i);
        if (i % 2) CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
    }
    for (int i = 0; i < WAITERS; i += 2)
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
    aw_mutex_unlock(&m);
    CHECK(is_free(&m));
}

TEST(polling_again_keeps_the_queue_position_and_only_the_latest_waker_is_woken) {
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag flags[4] = {{0}}, other = {0};
    aw_mutex_lock_future first = aw_mutex_lock(&m), second = aw_mutex_lock(&m);
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    CHECK_EQ(POLL(&first, &flags[0]), AW_PENDING);
    CHECK_EQ(POLL(&second, &other), AW_PENDING);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(POLL(&first, &flags[i]), AW_PENDING);
    aw_mutex_unlock(&m);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(aw_flag_take(&flags[i]), i == 3);
    CHECK_EQ(POLL(&first, &flags[0]), AW_READY);
    aw_mutex_unlock(&m);
    CHECK(!aw_flag_take(&flags[3]) && aw_flag_take(&other));
    CHECK_EQ(POLL(&second, &flags[0]), AW_READY);
    aw_mutex_unlock(&m);
    CHECK(is_free(&m));
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

/* cancel-at-every-await: aw_mutex_lock */

TEST(a_lock_can_be_cancelled_at_any_moment_and_leaves_nothing) {
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag flag = {0}, other = {0};

    aw_mutex_lock_future never_polled = aw_mutex_lock(&m);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);
    CHECK(is_free(&m));

    aw_mutex_lock_future pending = aw_mutex_lock(&m);
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    DIES(CANCEL(&pending, &other), "cancelled after it had been cancelled");
    aw_mutex_unlock(&m);
    CHECK(is_free(&m) && !aw_flag_take(&flag));

    aw_mutex_lock_future granted = aw_mutex_lock(&m);
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    CHECK_EQ(POLL(&granted, &flag), AW_PENDING);
    aw_mutex_unlock(&m);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&granted, &other), AW_READY);
    CHECK(aw_mutex_is_locked(&m));
    aw_future_discard(&granted.future);
    CHECK(is_free(&m));

    aw_mutex_lock_future finished = aw_mutex_lock(&m);
    CHECK_EQ(POLL(&finished, &flag), AW_READY);
    DIES(CANCEL(&finished, &flag), "cancelled after it had finished");
    aw_future_discard(&finished.future);
    CHECK(is_free(&m));
    CHECK(!aw_flag_take(&flag) && !aw_flag_take(&other));
}

TEST(cancelled_waiters_do_not_wedge_the_queue) {
    static aw_mutex_lock_future w[WAITERS];
    static aw_flag flags[WAITERS];
    aw_mutex m = AW_MUTEX_INIT;
    uint64_t seed = test_seed();
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    for (int i = 0; i < WAITERS; i++) {
        w[i] = aw_mutex_lock(&m);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    for (int i = 0; i < WAITERS; i++) /* always includes both ends */
        if (i == 0 || i == WAITERS - 1 || test_random(&seed) % 2)
            CHECK_EQ(CANCEL(&w[i], &flags[i]), AW_CANCELLED);
    for (int i = 0; i < WAITERS; i++) {
        if (aw_future_ended(&w[i].future)) continue;
        aw_mutex_unlock(&m);
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
    }
    aw_mutex_unlock(&m);
    CHECK(is_free(&m));
}

TEST(a_discarded_lock_goes_to_the_next_waiter) {
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag a = {0}, b = {0};
    aw_mutex_lock_future first = aw_mutex_lock(&m), second = aw_mutex_lock(&m);
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    CHECK_EQ(POLL(&first, &a), AW_PENDING);
    CHECK_EQ(POLL(&second, &b), AW_PENDING);
    aw_mutex_unlock(&m);
    CHECK_EQ(CANCEL(&first, &a), AW_READY);
    CHECK(!aw_flag_take(&b));
    aw_future_discard(&first.future);
    CHECK(aw_flag_take(&b));
    CHECK_EQ(POLL(&second, &b), AW_READY);
    aw_mutex_unlock(&m);
    CHECK(is_free(&m));
}

/* ---- The recorded holder --------------------------------------------------------------------- */

TEST(it_remembers_where_it_was_taken) {
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag flag = {0};
    uint64_t task = 99;
    CHECK(aw_mutex_holder(&m, NULL) == NULL);
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    const aw_location *first = aw_mutex_holder(&m, &task);
    CHECK_STR(first->file, __FILE__);
    CHECK_EQ(first->line, __LINE__ - 3);
    CHECK_EQ(task, 0);

    aw_mutex_lock_future lock = aw_mutex_lock(&m);
    int line = __LINE__ - 1;
    CHECK_EQ(POLL(&lock, &flag), AW_PENDING);
    char text[256];
    aw_future_describe(&lock.future, text, sizeof text);
    CHECK_CONTAINS(text, "mutex_lock");
    CHECK_CONTAINS(text, "taken at tests/behaviour/mutex_queue.c:");
    aw_mutex_unlock(&m);
    CHECK_EQ(aw_mutex_holder(&m, NULL)->line, line); /* the new holder has not been polled yet */
    CHECK_EQ(POLL(&lock, &flag), AW_READY);
    aw_mutex_unlock(&m);
    CHECK(aw_mutex_holder(&m, NULL) == NULL);
}

TEST(unlocking_a_mutex_that_is_not_locked_ends_the_program) {
    aw_mutex m = AW_MUTEX_INIT;
    DIES(aw_mutex_unlock(&m), "a mutex was unlocked that is not locked");
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    aw_mutex_unlock(&m);
    DIES(aw_mutex_unlock(&m), "a mutex was unlocked that is not locked");
}
