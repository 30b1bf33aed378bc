/* SPDX-License-Identifier: MIT
 *
 * Oneshot: either side closes, and the other side learns of it. */
#include "test.h"

#include <errno.h>

#include "support/by_hand.h"

typedef AW_ONESHOT(int) int_channel;

/* ---- The sender closes ----------------------------------------------------------------------- */

TEST(a_sender_that_closes_ends_a_waiting_receive) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    aw_oneshot_future r = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&r, &flag), AW_PENDING);
    aw_oneshot_close_sender(&c);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, -EPIPE);
    CHECK_EQ(aw_oneshot_try_recv(&c), -EPIPE);
}

TEST(a_sender_that_has_closed_cannot_send) {
    int_channel c = AW_ONESHOT_INIT;
    aw_oneshot_close_sender(&c);
    CHECK_EQ(aw_oneshot_send(&c, 1), -EALREADY);
    CHECK_EQ(aw_oneshot_try_recv(&c), -EPIPE);
}

TEST(a_sender_that_closes_after_sending_takes_nothing_back) {
    int_channel c = AW_ONESHOT_INIT;
    CHECK_EQ(aw_oneshot_send(&c, 1), 0);
    aw_oneshot_close_sender(&c);
    aw_oneshot_close_sender(&c);
    CHECK_EQ(aw_oneshot_try_recv(&c), 0);
    CHECK_EQ(c.value, 1);
}

/* ---- The receiver closes --------------------------------------------------------------------- */

TEST(a_receiver_that_closes_makes_later_sends_fail) {
    int_channel c = AW_ONESHOT_INIT;
    aw_oneshot_close_receiver(&c);
    aw_oneshot_close_receiver(&c);
    CHECK_EQ(aw_oneshot_send(&c, 1), -EPIPE);
    CHECK_EQ(aw_oneshot_send(&c, 1), -EPIPE);
    CHECK_EQ(aw_oneshot_try_recv(&c), -EPIPE);
}

TEST(a_value_sent_before_the_receiver_closed_can_still_be_received) {
    int_channel c = AW_ONESHOT_INIT, d = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    CHECK_EQ(aw_oneshot_send(&c, 5), 0);
    aw_oneshot_close_receiver(&c);
    CHECK_EQ(aw_oneshot_try_recv(&c), 0);
    CHECK_EQ(c.value, 5);
    CHECK_EQ(aw_oneshot_try_recv(&c), -EPIPE);

    CHECK_EQ(aw_oneshot_send(&d, 6), 0); /* the same for an awaited receive */
    aw_oneshot_close_receiver(&d);
    aw_oneshot_future r = aw_oneshot_recv(&d);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 0);
    CHECK_EQ(d.value, 6);
}

TEST(closing_the_receiver_ends_a_receive_that_waits_in_another_task) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    aw_oneshot_future r = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&r, &flag), AW_PENDING);
    aw_oneshot_close_receiver(&c);
    CHECK(aw_flag_take(&flag)); /* sends fail from now on, so it would wait for ever */
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, -EPIPE);
}

/* ---- The sender waits for the receiver to close ---------------------------------------------- */

TEST(closed_fires_when_the_receiver_closes) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    aw_oneshot_future closed = aw_oneshot_closed(&c), at_once = aw_oneshot_closed(&c);
    CHECK_EQ(POLL(&closed, &flag), AW_PENDING);
    aw_oneshot_close_receiver(&c);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&closed, &flag), AW_READY);
    CHECK_EQ(closed.out, 0);
    CHECK_EQ(POLL(&at_once, &flag), AW_READY);
}

TEST(closed_fires_when_the_value_was_received) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag sender = {0}, receiver = {0};
    aw_oneshot_future closed = aw_oneshot_closed(&c), r = aw_oneshot_recv(&c);
    CHECK_EQ(POLL(&closed, &sender), AW_PENDING);
    CHECK_EQ(POLL(&r, &receiver), AW_PENDING);
    CHECK_EQ(aw_oneshot_send(&c, 1), 0);
    CHECK(!aw_flag_take(&sender)); /* sent is not received */
    CHECK_EQ(POLL(&closed, &sender), AW_PENDING);
    CHECK_EQ(POLL(&r, &receiver), AW_READY);
    CHECK(aw_flag_take(&sender));
    CHECK_EQ(POLL(&closed, &sender), AW_READY);
}

TEST(a_sender_can_check_whether_the_receiver_is_open) {
    int_channel c = AW_ONESHOT_INIT;
    CHECK(!aw_oneshot_is_closed(&c));
    CHECK_EQ(aw_oneshot_send(&c, 1), 0);
    CHECK(!aw_oneshot_is_closed(&c));
    CHECK_EQ(aw_oneshot_try_recv(&c), 0);
    CHECK(aw_oneshot_is_closed(&c));
    int_channel d = AW_ONESHOT_INIT;
    aw_oneshot_close_receiver(&d);
    CHECK(aw_oneshot_is_closed(&d));
}

TEST(closed_does_not_fire_for_the_senders_own_calls) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0};
    aw_oneshot_future closed = aw_oneshot_closed(&c);
    CHECK_EQ(POLL(&closed, &flag), AW_PENDING);
    aw_oneshot_close_sender(&c);
    CHECK_EQ(aw_oneshot_try_recv(&c), -EPIPE);
    CHECK_EQ(POLL(&closed, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&closed, &flag), AW_CANCELLED);
}

/* A server that works on an answer until its receiver has closed. */
AW_ASYNC(int, work_until_unwanted, int_channel *c; AW_SELECT(aw_oneshot_future, aw_never) s;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->s, aw_oneshot_closed(self->c), aw_never_ready());
    AW_RETURN(aw_oneshot_send(self->c, 1));
    AW_END;
}

AW_ASYNC(int, lose_interest, int_channel c; struct work_until_unwanted * server;
         aw_task_join_future join;) {
    AW_BEGIN;
    self->server = aw_spawn(AW_CALL(work_until_unwanted, .c = &self->c));
    AW_YIELD;
    CHECK(!aw_task_is_finished(self->server));
    aw_oneshot_close_receiver(&self->c);
    AW_AWAIT(self->join, aw_task_join(self->server));
    CHECK_EQ(aw_task_take(self->server), -EPIPE);
    AW_RETURN(0);
    AW_END;
}

TEST(a_server_stops_when_the_receiver_closes) {
    CHECK_EQ(aw_run(AW_CALL(lose_interest)), 0);
}

/* cancel-at-every-await: aw_oneshot_closed */

TEST(a_wait_for_closed_can_be_cancelled_at_any_moment_and_leaves_nothing) {
    int_channel c = AW_ONESHOT_INIT;
    aw_flag flag = {0}, other = {0};
    aw_oneshot_future never_polled = aw_oneshot_closed(&c);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);

    aw_oneshot_future pending = aw_oneshot_closed(&c);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    CHECK(c.channel.closed == NULL);

    aw_oneshot_future woken = aw_oneshot_closed(&c);
    CHECK_EQ(POLL(&woken, &flag), AW_PENDING);
    aw_oneshot_close_receiver(&c);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&woken, &other), AW_READY);
    CHECK(c.channel.closed == NULL);

    aw_oneshot_future finished = aw_oneshot_closed(&c);
    CHECK_EQ(POLL(&finished, &flag), AW_READY);
    DIES(CANCEL(&finished, &flag), "cancelled after it had finished");
    CHECK(!aw_flag_take(&flag) && !aw_flag_take(&other));
}
