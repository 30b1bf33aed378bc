/* SPDX-License-Identifier: MIT
 *
 * notify_one: permits, order, wakers; and a notification that a waiter cannot use goes to the
 * next one. */
#include "test.h"

#include <errno.h>

#include "support/by_hand.h"
#include "support/clock.h"

/* ---- Permits --------------------------------------------------------------------------------- */

TEST(a_notification_before_the_wait_is_kept) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag flag = {0};
    aw_notify_one(&n);
    aw_notified w = aw_notify_wait(&n);
    CHECK_EQ(POLL(&w, &flag), AW_READY);
    CHECK_EQ(w.out, 0);
}

TEST(two_notifications_before_a_wait_leave_one_permit) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag flag = {0};
    aw_notify_one(&n);
    aw_notify_one(&n);
    aw_notified first = aw_notify_wait(&n), second = aw_notify_wait(&n);
    CHECK_EQ(POLL(&first, &flag), AW_READY);
    CHECK_EQ(POLL(&second, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&second, &flag), AW_CANCELLED);
}

TEST(a_permit_can_be_taken_without_waiting) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag flag = {0};
    CHECK_EQ(aw_notify_try_wait(&n), -EAGAIN);
    aw_notify_one(&n);
    CHECK_EQ(aw_notify_try_wait(&n), 0);
    CHECK_EQ(aw_notify_try_wait(&n), -EAGAIN);
    aw_notified w = aw_notify_wait(&n);
    CHECK_EQ(POLL(&w, &flag), AW_PENDING);
    aw_notify_one(&n); /* goes to the waiter */
    CHECK_EQ(aw_notify_try_wait(&n), -EAGAIN);
    CHECK_EQ(POLL(&w, &flag), AW_READY);
}

TEST(a_wait_begins_at_its_first_poll) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag flag = {0};
    aw_notified early = aw_notify_wait(&n), late = aw_notify_wait(&n);
    CHECK_EQ(POLL(&late, &flag), AW_PENDING); /* created second, polled first */
    aw_notify_one(&n);
    CHECK_EQ(POLL(&early, &flag), AW_PENDING);
    CHECK_EQ(POLL(&late, &flag), AW_READY);
    CHECK_EQ(CANCEL(&early, &flag), AW_CANCELLED);
}

TEST(a_zeroed_notify_is_ready_for_use) {
    static aw_notify n;
    aw_flag flag = {0};
    aw_notified w = aw_notify_wait(&n);
    CHECK_EQ(POLL(&w, &flag), AW_PENDING);
    aw_notify_one(&n);
    CHECK_EQ(POLL(&w, &flag), AW_READY);
}

/* ---- Order and wakers ------------------------------------------------------------------------ */

enum { WAITERS = 300 };

TEST(each_notification_wakes_one_waiter_first_come_first_served) {
    static aw_notified w[WAITERS];
    static aw_flag flags[WAITERS];
    aw_notify n = AW_NOTIFY_INIT;
    for (int i = 0; i < WAITERS; i++) {
        w[i] = aw_notify_wait(&n);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    for (int i = 0; i < WAITERS; i++) {
        aw_notify_one(&n);
        for (int k = 0; k < WAITERS; k++)
            CHECK_EQ(aw_flag_take(&flags[k]), k == i);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
    }
}

TEST(polling_again_keeps_the_queue_position) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag a = {0}, b = {0}, other = {0};
    aw_notified first = aw_notify_wait(&n), second = aw_notify_wait(&n);
    CHECK_EQ(POLL(&first, &a), AW_PENDING);
    CHECK_EQ(POLL(&second, &b), AW_PENDING);
    CHECK_EQ(POLL(&first, &a), AW_PENDING);     /* the same waker */
    CHECK_EQ(POLL(&first, &other), AW_PENDING); /* another waker */
    aw_notify_one(&n);
    CHECK(aw_flag_take(&other) && !aw_flag_take(&a) && !aw_flag_take(&b));
    aw_notify_one(&n);
    CHECK(aw_flag_take(&b));
    CHECK_EQ(POLL(&first, &a), AW_READY);
    CHECK_EQ(POLL(&second, &b), AW_READY);
}

TEST(only_the_waker_of_the_latest_poll_is_woken) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag flags[5] = {{0}};
    aw_notified w = aw_notify_wait(&n);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(POLL(&w, &flags[i]), AW_PENDING);
    aw_notify_one(&n);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(aw_flag_take(&flags[i]), i == 4);
    CHECK_EQ(POLL(&w, &flags[0]), AW_READY);
    aw_notify_one(&n); /* it holds no waker any more */
    CHECK(!aw_flag_take(&flags[4]));
}

/* A waker that may be woken under the lock, like a task's. Another thread can poll the waiter
 * before the wake returns, so the notification must be visible before the wake. */
static aw_notified watched;
static int seen;

static void look_when_woken(void *data) {
    (void)data;
    seen = (__atomic_load_n(&watched.future.state, __ATOMIC_ACQUIRE) & 3) > 1 ? 1 : -1;
}
static aw_waker looking_waker(void *data);
static const aw_waker_type looking_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "looking",
    .flags = AW_WAKES_UNDER_LOCK,
    .clone = looking_waker,
    .wake = look_when_woken,
    .wake_by_ref = look_when_woken,
    .drop = look_when_woken,
};
static aw_waker looking_waker(void *data) {
    return (aw_waker){&looking_type, data};
}

TEST(the_notification_can_be_seen_before_its_wake) {
    void (*const notify[])(aw_notify *) = {aw_notify_one, aw_notify_waiters};
    for (int i = 0; i < 2; i++) {
        aw_notify n = AW_NOTIFY_INIT;
        aw_waker waker = looking_waker(NULL);
        aw_cx cx = aw_cx_from_waker(&waker);
        watched = aw_notify_wait(&n);
        seen = 0;
        CHECK_EQ(aw_future_poll(&watched.future, &cx), AW_PENDING);
        notify[i](&n);
        CHECK_EQ(seen, 1);
        CHECK_EQ(aw_future_poll(&watched.future, &cx), AW_READY);
    }
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

/* cancel-at-every-await: aw_notified */

TEST(a_wait_can_be_cancelled_at_any_moment_and_leaves_nothing) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag flag = {0}, other = {0};

    aw_notified never_polled = aw_notify_wait(&n);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);

    aw_notified pending = aw_notify_wait(&n);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    CHECK(n.first == NULL && n.last == NULL);

    aw_notified notified = aw_notify_wait(&n);
    CHECK_EQ(POLL(&notified, &flag), AW_PENDING);
    aw_notify_one(&n);
    CHECK(n.first == NULL && n.last == NULL);
    CHECK_EQ(CANCEL(&notified, &other), AW_READY);

    aw_notified finished = aw_notify_wait(&n);
    aw_notify_one(&n);
    CHECK_EQ(POLL(&finished, &flag), AW_READY);
    DIES(CANCEL(&finished, &flag), "cancelled after it had finished");
    CHECK(aw_flag_take(&flag) && !aw_flag_take(&other));
    CHECK_EQ(n.permit, 0);
}

TEST(waiters_cancelled_from_the_middle_leave_the_queue_whole) {
    static aw_notified w[WAITERS];
    static aw_flag flags[WAITERS];
    aw_notify n = AW_NOTIFY_INIT;
    uint64_t seed = test_seed();
    int remaining = WAITERS;
    for (int i = 0; i < WAITERS; i++) {
        w[i] = aw_notify_wait(&n);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    for (int i = 0; i < WAITERS; i++) { /* always includes both ends */
        if (i != 0 && i != WAITERS - 1 && test_random(&seed) % 2) continue;
        CHECK_EQ(CANCEL(&w[i], &flags[i]), AW_CANCELLED);
        remaining--;
    }
    for (int i = 0; i < WAITERS; i++) {
        if (aw_future_ended(&w[i].future)) continue;
        aw_notify_one(&n);
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
        remaining--;
    }
    CHECK_EQ(remaining, 0);
    CHECK(n.first == NULL && n.last == NULL);
}

/* ---- Passing it on --------------------------------------------------------------------------- */

TEST(a_discarded_notification_goes_to_the_next_waiter) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag a = {0}, b = {0};
    aw_notified first = aw_notify_wait(&n), second = aw_notify_wait(&n);
    CHECK_EQ(POLL(&first, &a), AW_PENDING);
    CHECK_EQ(POLL(&second, &b), AW_PENDING);
    aw_notify_one(&n);
    CHECK_EQ(CANCEL(&first, &a), AW_READY);
    CHECK(!aw_flag_take(&b));
    aw_future_discard(&first.future);
    CHECK(aw_flag_take(&b));
    CHECK_EQ(POLL(&second, &b), AW_READY);
    aw_future_discard(&second.future);
    CHECK_EQ(n.permit, 1); /* kept, because no waiter is queued */
}

AW_ASYNC(int, wait_and_count, aw_notify *n; int *count; aw_notified w;) {
    AW_BEGIN;
    AW_AWAIT(self->w, aw_notify_wait(self->n));
    ++*self->count;
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, select_the_other, aw_notify *n; aw_notify * other;
         AW_SELECT(aw_notified, aw_notified) first;) {
    AW_BEGIN;
    AW_AWAIT(self->first, AW_SELECT_BIASED_OF(__typeof__(self->first), aw_notify_wait(self->other),
                                              aw_notify_wait(self->n)));
    CHECK_EQ(self->first.out, 3); /* both were ready */
    AW_RETURN(aw_select_winner(&self->first));
    AW_END;
}

AW_ASYNC(int, lose_in_a_select, aw_notify n; aw_notify other; int count;
         struct select_the_other * chooser; struct wait_and_count * behind;
         aw_task_join_future join;) {
    AW_BEGIN;
    self->chooser = aw_spawn(AW_CALL(select_the_other, .n = &self->n, .other = &self->other));
    self->behind = aw_spawn(AW_CALL(wait_and_count, .n = &self->n, .count = &self->count));
    AW_YIELD;
    aw_notify_one(&self->n);
    aw_notify_one(&self->other);
    AW_AWAIT(self->join, aw_task_join(self->chooser));
    CHECK_EQ(aw_task_take(self->chooser), 0);
    AW_AWAIT(self->join, aw_task_join(self->behind)); /* -EDEADLK if it were lost */
    aw_task_drop(self->behind);
    AW_RETURN(self->count);
    AW_END;
}

TEST(a_notification_that_loses_a_select_goes_to_the_next_waiter) {
    ON_THIS_THREAD("the task does not run between two calls of the main future");
    CHECK_EQ(aw_run(AW_CALL(lose_in_a_select)), 1);
}

/* A task that consists of the wait alone. If it is aborted after it was notified, it has
 * finished, and its unclaimed output is discarded. */
AW_ASYNC(int, abort_the_notified, aw_notify n; int count; aw_notified * task;
         struct wait_and_count * behind; aw_task_join_future join;) {
    AW_BEGIN;
    self->task = aw_spawn(aw_notify_wait(&self->n));
    self->behind = aw_spawn(AW_CALL(wait_and_count, .n = &self->n, .count = &self->count));
    AW_YIELD;
    aw_notify_one(&self->n);
    aw_task_abort(self->task);
    aw_task_drop(self->task);
    AW_AWAIT(self->join, aw_task_join(self->behind));
    aw_task_drop(self->behind);
    AW_RETURN(self->count);
    AW_END;
}

TEST(a_notification_of_an_aborted_task_goes_to_the_next_waiter) {
    CHECK_EQ(aw_run(AW_CALL(abort_the_notified)), 1);
}

/* An async function that was notified uses the notification: its body goes on although it is
 * being cancelled. */
AW_ASYNC(int, abort_the_function, aw_notify n; int first; int second; struct wait_and_count * task;
         struct wait_and_count * behind; aw_task_join_future join;) {
    AW_BEGIN;
    self->task = aw_spawn(AW_CALL(wait_and_count, .n = &self->n, .count = &self->first));
    self->behind = aw_spawn(AW_CALL(wait_and_count, .n = &self->n, .count = &self->second));
    AW_YIELD;
    aw_notify_one(&self->n);
    aw_task_abort(self->task);
    AW_AWAIT(self->join, aw_task_join(self->task));
    CHECK_EQ(self->join.out, 0);
    CHECK_EQ(self->first, 1);
    aw_task_drop(self->task);
    aw_task_abort(self->behind);
    AW_AWAIT(self->join, aw_task_join(self->behind));
    CHECK_EQ(self->join.out, -ECANCELED);
    CHECK_EQ(self->second, 0);
    aw_task_drop(self->behind);
    AW_RETURN(0);
    AW_END;
}

TEST(a_function_that_is_cancelled_with_a_notification_uses_it) {
    ON_THIS_THREAD("the task does not run between two calls of the main future");
    CHECK_EQ(aw_run(AW_CALL(abort_the_function)), 0);
}

/* ---- Nothing is lost ------------------------------------------------------------------------- */

/* Waiters give up after random times, in a timeout or in a select, or are aborted. Every
 * notification must still reach a waiter. */
enum { IMPATIENT = 12 };

static aw_notify bell;
static aw_notify received;
static int consumed;

AW_ASYNC(int, impatient, uint64_t seed;
         AW_SHARE(AW_TIMEOUT(aw_notified) t; AW_SELECT(aw_notified, aw_sleep) s;);) {
    AW_BEGIN;
    for (;;) {
        if (test_random(&self->seed) % 2) {
            AW_AWAIT_FOR(self->t, test_random(&self->seed) % AW_MSEC(3), aw_notify_wait(&bell));
            if (self->t.out == 0) {
                consumed++;
                aw_notify_one(&received);
            }
        } else {
            AW_AWAIT_SELECT(self->s, aw_notify_wait(&bell), aw_sleep_for(AW_MSEC(self->seed % 3)));
            AW_SELECT_EACH(which, &self->s) {
                if (which != 0) continue;
                consumed++;
                aw_notify_one(&received);
            }
        }
    }
    AW_END;
}

AW_ASYNC(int, ring, int times; uint64_t seed; int n; struct impatient * tasks[IMPATIENT];
         aw_sleep nap; aw_notified got; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < IMPATIENT; i++)
        self->tasks[i] = aw_spawn(AW_CALL(impatient, .seed = test_random(&self->seed)));
    for (self->n = 1; self->n <= self->times; self->n++) {
        aw_notify_one(&bell);
        if (self->n % 3 == 0) { /* the aborted task may be the notified one */
            int i = (int)(test_random(&self->seed) % IMPATIENT);
            aw_task_abort(self->tasks[i]);
            aw_task_drop(self->tasks[i]);
            self->tasks[i] = aw_spawn(AW_CALL(impatient, .seed = test_random(&self->seed)));
        }
        AW_AWAIT(self->got, aw_notify_wait(&received));
        CHECK_EQ(consumed, self->n);
        AW_AWAIT(self->nap, aw_sleep_for(test_random(&self->seed) % AW_MSEC(2)));
    }
    for (self->n = 0; self->n < IMPATIENT; self->n++) {
        aw_task_abort(self->tasks[self->n]);
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->n]));
        aw_task_drop(self->tasks[self->n]);
    }
    AW_RETURN(0);
    AW_END;
}

TEST(waiters_that_give_up_lose_no_notification) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_CALL(ring, .times = test_scale(5000), .seed = test_seed())), 0);
    CHECK(bell.first == NULL && received.first == NULL);
    aw_runtime_free(rt);
}
