/* SPDX-License-Identifier: MIT
 *
 * Channels: wakes of more waiters than one batch holds, with the lock released between batches.
 * Whatever runs in between, no operation overtakes, and the channel may be freed by the last
 * waiter that is woken. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>

#include "support/callback_waker.h"
#include "support/by_hand.h"

typedef AW_CHANNEL(int) ints;

enum { CROWD = 20, BATCH = 8 };

static ints c;
static aw_channel_future waits[CROWD], late;
static callback_waker wakers[CROWD];
static int values[CROWD], late_value;
static aw_flag flag;

#ifndef PREPARE
#define PREPARE(c) (void)(c)
#endif

static void init(size_t capacity) {
    CHECK_EQ(aw_channel_init(&c, capacity), 0);
    PREPARE(&c);
}

static int take(void) {
    int n = -1;
    CHECK_EQ(aw_channel_try_recv(&c, &n), 0);
    return n;
}

/* ---- Senders ---------------------------------------------------------------------------------- */

static void send_later(callback_waker *self) {
    (void)self;
    late_value = 100;
    CHECK_EQ(aw_channel_try_send(&c, &late_value), -EAGAIN);
    CHECK_EQ(aw_channel_try_reserve(&c), -EAGAIN);
    late = aw_channel_send(&c, &late_value);
    CHECK_EQ(POLL(&late, &flag), AW_PENDING);
}

TEST(a_send_during_the_wakes_of_earlier_senders_is_behind_them) {
    int got[CROWD];
    init(CROWD);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(aw_channel_try_send(&c, &i), 0);
    for (int i = 0; i < CROWD; i++) {
        values[i] = CROWD + i;
        callback_waker_init(&wakers[i], i == 0 ? send_later : NULL);
        waits[i] = aw_channel_send(&c, &values[i]);
        CHECK_EQ(POLL_WITH(&waits[i], &wakers[i]), AW_PENDING);
    }
    aw_channel_future many = aw_channel_recv_many(&c, got, CROWD);
    CHECK_EQ(POLL(&many, &flag), AW_READY); /* all waiting messages are stored */
    CHECK_EQ(many.out, CROWD);
    for (int i = 0; i < CROWD; i++) {
        CHECK_EQ(take(), CROWD + i);
        CHECK_EQ(POLL_WITH(&waits[i], &wakers[i]), AW_READY);
    }
    CHECK_EQ(take(), 100);
    CHECK_EQ(POLL(&late, &flag), AW_READY);
    aw_channel_free(&c);
}

/* ---- Receivers -------------------------------------------------------------------------------- */

static void receive_later(callback_waker *self) {
    (void)self;
    late = aw_channel_recv(&c, &late_value);
    CHECK_EQ(POLL(&late, &flag), AW_PENDING);
}

TEST(a_receive_during_the_wakes_of_earlier_receivers_is_behind_them) {
    int got[CROWD];
    init(CROWD);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(aw_channel_try_send(&c, &i), 0);
    aw_channel_future many = aw_channel_recv_many(&c, got, CROWD);
    CHECK_EQ(POLL(&many, &flag), AW_READY);
    for (int i = 0; i < CROWD; i++) {
        callback_waker_init(&wakers[i], i == 0 ? receive_later : NULL);
        waits[i] = aw_channel_recv(&c, &values[i]);
        CHECK_EQ(POLL_WITH(&waits[i], &wakers[i]), AW_PENDING);
    }
    aw_future_discard(&many.future); /* a message for each */
    for (int i = 0; i < CROWD; i++) {
        CHECK_EQ(wakers[i].wakes, 1);
        CHECK_EQ(POLL_WITH(&waits[i], &wakers[i]), AW_READY);
        CHECK_EQ(values[i], i);
    }
    aw_channel_close(&c);
    CHECK_EQ(POLL(&late, &flag), AW_READY);
    CHECK_EQ(late.out, -EPIPE);
    aw_channel_free(&c);
}

/* ---- The end ---------------------------------------------------------------------------------- */

static ints *gone;

static void end_all_and_free(callback_waker *self) {
    (void)self;
    for (int i = 0; i < BATCH; i++)
        CHECK_EQ(POLL_WITH(&waits[i], &wakers[i]), AW_READY);
    aw_channel_free(gone);
    free(gone);
}

/* An address sanitizer would report a use after free. */
TEST(a_channel_may_be_freed_by_the_last_waiter_that_is_woken) {
    gone = malloc(sizeof *gone);
    CHECK(gone != NULL);
    CHECK_EQ(aw_channel_init(gone, 1), 0);
    for (int i = 0; i < BATCH; i++) {
        callback_waker_init(&wakers[i], i == BATCH - 1 ? end_all_and_free : NULL);
        waits[i] = aw_channel_recv(gone, &values[i]);
        CHECK_EQ(POLL_WITH(&waits[i], &wakers[i]), AW_PENDING);
    }
    aw_channel_close(gone);
    CHECK_EQ(wakers[BATCH - 1].wakes, 1);
}
