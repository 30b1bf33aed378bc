/* SPDX-License-Identifier: MIT
 *
 * Oneshot: the value is delivered once, or returned. */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "support/by_hand.h"
#include "support/clock.h"

typedef AW_ONESHOT(int) int_channel;

/* ---- Sending and receiving ------------------------------------------------------------------- */

TEST(a_value_sent_first_is_received_at_the_first_poll) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    CHECK_EQ(aw_oneshot_send(&c, 42), 0);
    aw_oneshot_future r = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 0);
    CHECK_EQ(c.value, 42);
}

TEST(a_waiting_receiver_is_woken_by_the_value) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    aw_oneshot_future r = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&r, &flag), AW_PENDING);
    CHECK(!aw_flag_take(&flag));
    CHECK_EQ(aw_oneshot_send(&c, 7), 0);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 0);
    CHECK_EQ(c.value, 7);
}

TEST(a_value_of_any_type_goes_through_whole) {
    struct message {
        char text[40];
        double number;
        const void *pointer;
    };
    AW_ONESHOT(struct message) c;
    memset(&c, 0, sizeof c);
    aw_flag flag = {0};
    CHECK_EQ(aw_oneshot_send(&c, (struct message){"a message", 2.5, &flag}), 0);
    aw_oneshot_future r = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_STR(c.value.text, "a message");
    CHECK(c.value.number == 2.5 && c.value.pointer == &flag);
}

TEST(only_the_waker_of_the_latest_poll_is_woken) {
    int_channel c = AW_ONESHOT_INIT, d = AW_ONESHOT_INIT;
    aw_flag old = {0}, new = {0};
    aw_oneshot_future r = aw_oneshot_recv(&c), closed = aw_oneshot_closed(&d);
    CHECK_EQ(POLL(&r, &old), AW_PENDING);
    CHECK_EQ(POLL(&r, &new), AW_PENDING);
    CHECK_EQ(aw_oneshot_send(&c, 7), 0);
    CHECK(aw_flag_take(&new) && !aw_flag_take(&old));
    CHECK_EQ(POLL(&r, &old), AW_READY);

    CHECK_EQ(POLL(&closed, &old), AW_PENDING);
    CHECK_EQ(POLL(&closed, &new), AW_PENDING);
    aw_oneshot_close_receiver(&d);
    CHECK(aw_flag_take(&new) && !aw_flag_take(&old));
    CHECK_EQ(POLL(&closed, &old), AW_READY);
}

/* ---- Once ------------------------------------------------------------------------------------ */

TEST(a_second_send_is_refused_and_the_first_value_stays) {
    int_channel c = AW_ONESHOT_INIT;
    CHECK_EQ(aw_oneshot_send(&c, 1), 0);
    CHECK_EQ(aw_oneshot_send(&c, 2), -EALREADY);
    CHECK_EQ(aw_oneshot_try_recv(&c), 0);
    CHECK_EQ(c.value, 1);
    CHECK_EQ(aw_oneshot_send(&c, 3), -EALREADY);
    CHECK_EQ(c.value, 1);
}

TEST(after_the_value_nothing_comes) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    CHECK_EQ(aw_oneshot_send(&c, 1), 0);
    CHECK_EQ(aw_oneshot_try_recv(&c), 0);
    CHECK_EQ(aw_oneshot_try_recv(&c), -EPIPE);
    aw_oneshot_future r = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, -EPIPE);
}

TEST(trying_to_receive_does_not_wait) {
    int_channel c = AW_ONESHOT_INIT;
    CHECK_EQ(aw_oneshot_try_recv(&c), -EAGAIN);
    CHECK_EQ(aw_oneshot_try_recv(&c), -EAGAIN);
    CHECK_EQ(aw_oneshot_send(&c, 5), 0);
    CHECK_EQ(aw_oneshot_try_recv(&c), 0);
    CHECK_EQ(c.value, 5);
}

TEST(a_value_without_a_receiver_stays_with_the_caller) {
    AW_ONESHOT(int *) c = {{0, 0, NULL, NULL}, NULL};
    int owned = 9, *value = &owned;
    aw_oneshot_close_receiver(&c);
    CHECK_EQ(aw_oneshot_send(&c, value), -EPIPE);
    CHECK(c.value == NULL); /* it was not stored: the caller still owns it */
    CHECK_EQ(*value, 9);
    CHECK_EQ(aw_oneshot_try_recv(&c), -EPIPE);
}

/* ---- Cancelling and discarding --------------------------------------------------------------- */

/* cancel-at-every-await: aw_oneshot_recv */

TEST(a_receive_can_be_cancelled_at_any_moment_and_leaves_nothing) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0}, other = {0};

    aw_oneshot_future never_polled = aw_oneshot_recv(&c);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);

    aw_oneshot_future pending = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    CHECK(c.channel.receiver == NULL);

    aw_oneshot_future woken = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&woken, &flag), AW_PENDING);
    CHECK_EQ(aw_oneshot_send(&c, 4), 0);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&woken, &other), AW_READY); /* the value had arrived */
    CHECK_EQ(woken.out, 0);
    CHECK_EQ(c.value, 4);
    CHECK(c.channel.receiver == NULL);
    aw_future_discard(&woken.future);

    aw_oneshot_future unpolled_with_value = aw_oneshot_recv(&c);
    CHECK_EQ(CANCEL(&unpolled_with_value, &flag), AW_CANCELLED); /* never polled: takes nothing */

    aw_oneshot_future finished = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&finished, &flag), AW_READY);
    DIES(CANCEL(&finished, &flag), "cancelled after it had finished");
    CHECK(!aw_flag_take(&flag) && !aw_flag_take(&other));
}

TEST(a_cancelled_receive_does_not_close_the_channel) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    aw_oneshot_future r = aw_oneshot_recv(&c), again = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&r, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&r, &flag), AW_CANCELLED);
    CHECK_EQ(aw_oneshot_send(&c, 8), 0);
    CHECK(!aw_flag_take(&flag));
    CHECK_EQ(POLL(&again, &flag), AW_READY);
    CHECK_EQ(c.value, 8);
}

TEST(a_discarded_value_can_be_received_again) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    CHECK_EQ(aw_oneshot_send(&c, 3), 0);
    for (int i = 0; i < 3; i++) {
        aw_oneshot_future r = aw_oneshot_recv(&c);
        CHECK_EQ(POLL(&r, &flag), AW_READY);
        CHECK_EQ(r.out, 0);
        aw_future_discard(&r.future);
    }
    CHECK_EQ(aw_oneshot_try_recv(&c), 0);
    CHECK_EQ(c.value, 3);

    int_channel closed = AW_ONESHOT_INIT; /* an error is not a value: nothing is put back */
    aw_oneshot_close_sender(&closed);
    aw_oneshot_future r = aw_oneshot_recv(&closed);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, -EPIPE);
    aw_future_discard(&r.future);
    CHECK_EQ(aw_oneshot_try_recv(&closed), -EPIPE);
}

/* The value and a preferred event arrive at the same time. */
AW_ASYNC(int, prefer_the_other, int_channel *c; aw_notify * n;
         AW_SELECT(aw_notified, aw_oneshot_future) first;) {
    AW_BEGIN;
    AW_AWAIT_SELECT_BIASED(self->first, aw_notify_wait(self->n), aw_oneshot_recv(self->c));
    CHECK_EQ(self->first.out, 3);
    AW_RETURN(aw_select_winner(&self->first));
    AW_END;
}

AW_ASYNC(int, send_both, int_channel c; aw_notify n; struct prefer_the_other * task;
         aw_task_join_future join; aw_oneshot_future recv;) {
    AW_BEGIN;
    self->task = aw_spawn(AW_CALL(prefer_the_other, .c = &self->c, .n = &self->n));
    AW_YIELD;
    aw_notify_one(&self->n);
    CHECK_EQ(aw_oneshot_send(&self->c, 77), 0);
    AW_AWAIT(self->join, aw_task_join(self->task));
    CHECK_EQ(aw_task_take(self->task), 0);
    AW_AWAIT(self->recv, aw_oneshot_recv(&self->c)); /* it is still there */
    CHECK_EQ(self->recv.out, 0);
    AW_RETURN(self->c.value);
    AW_END;
}

TEST(a_value_that_loses_a_select_stays_in_the_channel) {
    ON_THIS_THREAD("the task does not run between two calls of the main future");
    CHECK_EQ(aw_run(AW_CALL(send_both)), 77);
}

/* ---- With a timeout -------------------------------------------------------------------------- */

AW_ASYNC(int, reply_later, int_channel *c; uint64_t after; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(self->after));
    AW_RETURN(aw_oneshot_send(self->c, 6));
    AW_END;
}

AW_ASYNC(int, ask, int_channel c; uint64_t reply_after; int sent; struct reply_later * server;
         AW_TIMEOUT(aw_oneshot_future) t; aw_task_join_future join;) {
    AW_BEGIN;
    self->server = aw_spawn(AW_CALL(reply_later, .c = &self->c, .after = self->reply_after));
    AW_AWAIT_FOR(self->t, AW_SEC(1), aw_oneshot_recv(&self->c));
    if (self->t.out == -ETIMEDOUT) aw_oneshot_close_receiver(&self->c);
    AW_AWAIT(self->join, aw_task_join(self->server));
    self->sent = aw_task_take(self->server);
    CHECK_EQ(self->sent, self->t.out == 0 ? 0 : -EPIPE); /* both sides agree */
    AW_RETURN(self->t.out ? self->t.out : self->c.value);
    AW_END;
}

TEST(a_reply_in_time_arrives_and_a_late_one_goes_back_to_its_sender) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_CALL(ask, .reply_after = AW_SEC(1) - 1)), 6);
    CHECK_EQ(aw_block_on(rt, AW_CALL(ask, .reply_after = AW_SEC(1) + 1)), -ETIMEDOUT);
    aw_runtime_free(rt);
}
