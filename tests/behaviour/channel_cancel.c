/* SPDX-License-Identifier: MIT
 *
 * Channels: cancelled and discarded operations. No message is lost or delivered twice, and each
 * goes back to its position in the queue. */
#include "test.h"

#include <errno.h>

#include "support/by_hand.h"
#include "support/memory.h"

typedef AW_CHANNEL(int) ints;

static aw_flag flag, other;

#ifndef PREPARE
#define PREPARE(c) (void)(c)
#endif

static void init(ints *c, size_t capacity) {
    CHECK_EQ(aw_channel_init(c, capacity), 0);
    PREPARE(c);
}

static void fill(ints *c, int from, int count) {
    for (int i = from; i < from + count; i++)
        CHECK_EQ(aw_channel_try_send(c, &i), 0);
}

static int take(ints *c) {
    int n = -1;
    CHECK_EQ(aw_channel_try_recv(c, &n), 0);
    return n;
}

/* Checks that no waiter, no woken receiver, no permit and no message remains. */
static void end(ints *c) {
    CHECK(!c->channel.receivers.first && !c->channel.senders.first && !c->channel.closers.first);
    CHECK_EQ(c->channel.woken, 0);
    CHECK_EQ(c->channel.reserved, 0);
    CHECK_EQ(c->channel.len, 0);
    aw_channel_free(c);
}

/* ---- Receive ---------------------------------------------------------------------------------- */

static aw_channel_future recv_of(ints *c, int *n, bool many) {
    return many ? aw_channel_recv_many(c, n, 2) : aw_channel_recv(c, n);
}

static void cancel_receives(bool many) {
    ints c;
    int n[2] = {0};
    init(&c, 2);
    aw_channel_future unstarted = recv_of(&c, n, many);
    CHECK_EQ(CANCEL(&unstarted, &flag), AW_CANCELLED);

    aw_channel_future waiting = recv_of(&c, n, many);
    CHECK_EQ(POLL(&waiting, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&waiting, &other), AW_CANCELLED);
    fill(&c, 1, 1);
    CHECK(!aw_flag_take(&flag) && !aw_flag_take(&other));
    CHECK_EQ(take(&c), 1);

    /* Woken and not polled again: the message has not moved, and the next receiver is woken. */
    aw_channel_future granted = recv_of(&c, n, many), next = recv_of(&c, n, many);
    CHECK_EQ(POLL(&granted, &flag), AW_PENDING);
    CHECK_EQ(POLL(&next, &other), AW_PENDING);
    fill(&c, 2, 1);
    CHECK(aw_flag_take(&flag) && !aw_flag_take(&other));
    CHECK_EQ(CANCEL(&granted, &flag), AW_CANCELLED);
    CHECK(aw_flag_take(&other));
    CHECK_EQ(POLL(&next, &other), AW_READY);
    CHECK_EQ(n[0], 2);

    /* Without another receiver it stays at the front. */
    granted = recv_of(&c, n, many);
    CHECK_EQ(POLL(&granted, &flag), AW_PENDING);
    fill(&c, 3, 2);
    CHECK_EQ(CANCEL(&granted, &flag), AW_CANCELLED);
    CHECK_EQ(take(&c), 3);
    CHECK_EQ(take(&c), 4);

    /* Ended by the close: the result stands. */
    granted = recv_of(&c, n, many);
    CHECK_EQ(POLL(&granted, &flag), AW_PENDING);
    aw_channel_close(&c);
    CHECK_EQ(CANCEL(&granted, &flag), AW_READY);
    CHECK_EQ(granted.out, -EPIPE);
    aw_future_discard(&granted.future);
    end(&c);
}

/* cancel-at-every-await: aw_channel_recv */

TEST(a_receive_can_be_cancelled_at_any_moment) {
    cancel_receives(false);
}

/* cancel-at-every-await: aw_channel_recv_many */

TEST(a_receive_of_many_can_be_cancelled_at_any_moment) {
    cancel_receives(true);
}

TEST(a_message_of_a_cancelled_receiver_goes_to_the_next_waiter_also_when_closed) {
    ints c;
    int n[2];
    init(&c, 2);
    aw_channel_future r[2] = {aw_channel_recv(&c, &n[0]), aw_channel_recv(&c, &n[1])};
    CHECK_EQ(POLL(&r[0], &flag), AW_PENDING);
    CHECK_EQ(POLL(&r[1], &other), AW_PENDING);
    fill(&c, 7, 1);
    aw_channel_close(&c);
    CHECK_EQ(CANCEL(&r[0], &flag), AW_CANCELLED);
    CHECK(aw_flag_take(&other));
    CHECK_EQ(POLL(&r[1], &other), AW_READY);
    CHECK_EQ(r[1].out, 0);
    CHECK_EQ(n[1], 7);
    end(&c);
}

/* A receiver that was woken for nothing counts its wait only once in its task, so that deadlock
 * detection stays exact. */
TEST(a_receiver_that_was_woken_for_nothing_counts_as_one_wait) {
    ints c;
    int n;
    aw__meter meter = {.budget = 128};
    aw_waker waker = aw_flag_waker(&flag);
    aw_cx cx = {&waker, NULL, &meter};
    init(&c, 2);
    for (int finishes = 0; finishes < 2; finishes++) {
        aw_channel_future r = aw_channel_recv(&c, &n);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(aw_future_poll(&r.future, &cx), AW_PENDING);
            CHECK_EQ(meter.armed, 1);
            fill(&c, i, 1);
            CHECK_EQ(take(&c), i);
        }
        if (finishes) {
            fill(&c, 7, 1);
            CHECK_EQ(aw_future_poll(&r.future, &cx), AW_READY);
        } else {
            CHECK_EQ(aw_future_cancel(&r.future, &cx), AW_CANCELLED);
        }
        CHECK_EQ(meter.armed, 0);
    }
    end(&c);
}

/* ---- Received and then discarded --------------------------------------------------------------- */

static aw_channel_future received(ints *c, int *n) {
    aw_channel_future r = aw_channel_recv(c, n);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 0);
    return r;
}

TEST(a_discarded_message_is_in_front_again) {
    for (int unbounded = 0; unbounded < 2; unbounded++) {
        ints c;
        int n;
        init(&c, unbounded ? AW_UNBOUNDED : 4);
        fill(&c, 0, 3);
        aw_channel_future r = received(&c, &n);
        aw_future_discard(&r.future);
        CHECK_EQ(aw_channel_len(&c), 3);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(take(&c), i);
        fill(&c, 3, 1);
        r = received(&c, &n); /* the only message */
        aw_future_discard(&r.future);
        CHECK_EQ(take(&c), 3);
        end(&c);
    }
}

TEST(a_discarded_message_wakes_a_waiting_receiver) {
    ints c;
    int n, m;
    init(&c, 4);
    fill(&c, 1, 1);
    aw_channel_future r = received(&c, &n), waiting = aw_channel_recv(&c, &m);
    CHECK_EQ(POLL(&waiting, &other), AW_PENDING);
    aw_future_discard(&r.future);
    CHECK(aw_flag_take(&other));
    CHECK_EQ(POLL(&waiting, &other), AW_READY);
    CHECK_EQ(m, 1);
    end(&c);
}

/* Four receivers put their messages back in `order`, while the channel is empty, partly or fully
 * refilled. */
static void put_back_in_order(const int *order, size_t capacity, int refill) {
    ints c;
    int n[4];
    aw_channel_future r[4];
    init(&c, capacity);
    fill(&c, 0, 4);
    for (int i = 0; i < 4; i++)
        r[i] = received(&c, &n[i]);
    fill(&c, 4, refill);
    for (int i = 0; i < 4; i++)
        aw_future_discard(&r[order[i]].future);
    CHECK_EQ(aw_channel_len(&c), (size_t)(4 + refill));
    for (int i = 0; i < 4 + refill; i++) {
        int m = 0;
        if (capacity == 4 && i <= refill) CHECK_EQ(aw_channel_try_send(&c, &m), -EAGAIN);
        CHECK_EQ(take(&c), i);
    }
    end(&c);
}

TEST(discarded_messages_go_back_in_order_whichever_is_discarded_first) {
    int order[4];
    for (int i = 0; i < 256; i++) {
        for (int k = 0; k < 4; k++)
            order[k] = i >> 2 * k & 3;
        int seen = 1 << order[0] | 1 << order[1] | 1 << order[2] | 1 << order[3];
        if (seen != 15) continue;
        for (int refill = 0; refill <= 4; refill++) {
            put_back_in_order(order, 4, refill);
            put_back_in_order(order, AW_UNBOUNDED, refill);
            put_back_in_order(order, AW_UNBOUNDED, 1000 * refill);
        }
    }
}

TEST(what_a_receive_of_many_took_comes_back_whole) {
    for (int unbounded = 0; unbounded < 2; unbounded++)
        for (int refill = 0; refill <= 5; refill++) {
            ints c;
            int n[3];
            init(&c, unbounded ? AW_UNBOUNDED : 5);
            fill(&c, 0, 3);
            aw_channel_future r = aw_channel_recv_many(&c, n, 3);
            CHECK_EQ(POLL(&r, &flag), AW_READY);
            CHECK_EQ(r.out, 3);
            fill(&c, 3, refill);
            aw_future_discard(&r.future);
            CHECK_EQ(aw_channel_len(&c), (size_t)(3 + refill));
            for (int i = 0; i < 3 + refill; i++)
                CHECK_EQ(take(&c), i);
            end(&c);
        }
}

TEST(what_comes_back_in_two_parts_can_be_received_and_discarded_again) {
    ints c;
    int n[3], many[8];
    init(&c, 3);
    fill(&c, 0, 3);
    aw_channel_future r[3];
    for (int i = 0; i < 3; i++)
        r[i] = received(&c, &n[i]);
    fill(&c, 3, 3);
    aw_future_discard(&r[2].future);
    aw_future_discard(&r[0].future);
    /* 0, then 2 and the rest: 1 is missing between them. */
    for (int round = 0; round < 3; round++) {
        aw_channel_future m = aw_channel_recv_many(&c, many, 8);
        CHECK_EQ(POLL(&m, &flag), AW_READY);
        CHECK_EQ(m.out, 1);
        CHECK_EQ(many[0], 0);
        aw_future_discard(&m.future);
    }
    aw_future_discard(&r[1].future);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(take(&c), i);
    end(&c);
}

TEST(permits_keep_their_slots_when_messages_come_back) {
    ints c;
    int n[2], m = 9;
    init(&c, 2);
    fill(&c, 0, 2);
    aw_channel_future r[2] = {received(&c, &n[0]), received(&c, &n[1])};
    CHECK_EQ(aw_channel_try_reserve(&c), 0);
    CHECK_EQ(aw_channel_try_reserve(&c), 0);
    aw_future_discard(&r[1].future);
    aw_future_discard(&r[0].future);
    CHECK_EQ(aw_channel_send_reserved(&c, &m), 0);
    m = 10;
    CHECK_EQ(aw_channel_send_reserved(&c, &m), 0);
    CHECK_EQ(take(&c), 0);
    CHECK_EQ(take(&c), 1);
    CHECK_EQ(take(&c), 9);
    CHECK_EQ(take(&c), 10);
    end(&c);
}

static int released;
static void count_release(void *item) {
    released += *(int *)item;
}

static char log_text[200];
static void keep(void *data, aw_log_level level, const char *message) {
    (void)data;
    CHECK_EQ(level, AW_LOG_PROBLEM);
    snprintf(log_text, sizeof log_text, "%s", message);
}

TEST(an_empty_block_takes_a_message_back_and_the_next_one_after_it) {
    struct memory memory;
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
    ints c;
    int n;
    init(&c, AW_UNBOUNDED);
    fill(&c, 0, 1);
    memory_refuse(&memory);
    for (int i = 0; i < 3; i++) {
        aw_channel_future r = received(&c, &n);
        aw_future_discard(&r.future);
        fill(&c, 1, 2);
        for (int k = 0; k < 3; k++)
            CHECK_EQ(take(&c), k);
        fill(&c, 0, 1);
    }
    CHECK_EQ(take(&c), 0);
    end(&c);
    memory_check_empty(&memory);
}

TEST(one_receiver_puts_its_message_back_without_memory) {
    struct memory memory;
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
    ints c;
    int n;
    init(&c, 2);
    memory_refuse(&memory);
    fill(&c, 0, 2);
    aw_channel_future r = received(&c, &n);
    fill(&c, 2, 1);
    aw_future_discard(&r.future);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(take(&c), i);
    end(&c);
    memory_check_empty(&memory);
}

TEST(a_message_that_cannot_be_put_back_without_memory_is_released_and_reported) {
    struct memory memory;
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
    aw_set_log(keep, NULL);
    ints c;
    int n[2];
    init(&c, 2);
    aw_channel_set_release(&c, count_release);
    fill(&c, 1, 2);
    aw_channel_future r[2] = {received(&c, &n[0]), received(&c, &n[1])};
    memory_refuse(&memory);
    aw_future_discard(&r[0].future);
    CHECK_EQ(released, 1);
    CHECK_CONTAINS(log_text, "no memory to put 1 message(s) back");
    aw_future_discard(&r[1].future);
    CHECK_EQ(take(&c), 2);
    end(&c);
    memory_check_empty(&memory);
}

/* ---- Send ------------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_channel_send */

TEST(a_send_can_be_cancelled_at_any_moment) {
    ints c;
    int n = 5, m = 6;
    init(&c, 1);
    aw_channel_future unstarted = aw_channel_send(&c, &n);
    CHECK_EQ(CANCEL(&unstarted, &flag), AW_CANCELLED);
    CHECK_EQ(aw_channel_len(&c), 0);

    fill(&c, 1, 1);
    aw_channel_future waiting = aw_channel_send(&c, &n), next = aw_channel_send(&c, &m);
    CHECK_EQ(POLL(&waiting, &flag), AW_PENDING);
    CHECK_EQ(POLL(&next, &other), AW_PENDING);
    CHECK_EQ(CANCEL(&waiting, &flag), AW_CANCELLED);
    CHECK_EQ(take(&c), 1);
    CHECK(aw_flag_take(&other) && !aw_flag_take(&flag));
    /* Sent already, although not polled again: the result stands. */
    CHECK_EQ(CANCEL(&next, &other), AW_READY);
    CHECK_EQ(next.out, 0);
    aw_future_discard(&next.future);
    CHECK_EQ(take(&c), 6);

    fill(&c, 1, 1);
    next = aw_channel_send(&c, &m);
    CHECK_EQ(POLL(&next, &other), AW_PENDING);
    aw_channel_close(&c);
    CHECK_EQ(CANCEL(&next, &other), AW_READY);
    CHECK_EQ(next.out, -EPIPE);
    CHECK_EQ(take(&c), 1);
    end(&c);
}

/* cancel-at-every-await: aw_channel_reserve */

TEST(a_reserve_can_be_cancelled_at_any_moment_and_passes_its_slot_on) {
    ints c;
    int m = 6;
    init(&c, 1);
    aw_channel_future unstarted = aw_channel_reserve(&c);
    CHECK_EQ(CANCEL(&unstarted, &flag), AW_CANCELLED);
    fill(&c, 1, 1);
    aw_channel_future waiting = aw_channel_reserve(&c);
    CHECK_EQ(POLL(&waiting, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&waiting, &flag), AW_CANCELLED);

    aw_channel_future granted = aw_channel_reserve(&c), next = aw_channel_send(&c, &m);
    CHECK_EQ(POLL(&granted, &flag), AW_PENDING);
    CHECK_EQ(POLL(&next, &other), AW_PENDING);
    CHECK_EQ(take(&c), 1);
    CHECK(aw_flag_take(&flag) && !aw_flag_take(&other));
    CHECK_EQ(CANCEL(&granted, &flag), AW_READY);
    CHECK_EQ(granted.out, 0);
    aw_future_discard(&granted.future);
    CHECK(aw_flag_take(&other));
    CHECK_EQ(take(&c), 6);
    CHECK_EQ(POLL(&next, &other), AW_READY);

    granted = aw_channel_reserve(&c);
    CHECK_EQ(POLL(&granted, &flag), AW_READY);
    aw_future_discard(&granted.future);
    end(&c);
}

/* cancel-at-every-await: aw_channel_closed */

TEST(waiting_for_the_close_can_be_cancelled_at_any_moment) {
    ints c;
    init(&c, 1);
    aw_channel_future unstarted = aw_channel_closed(&c);
    CHECK_EQ(CANCEL(&unstarted, &flag), AW_CANCELLED);
    aw_channel_future waiting = aw_channel_closed(&c), woken = aw_channel_closed(&c);
    CHECK_EQ(POLL(&waiting, &flag), AW_PENDING);
    CHECK_EQ(POLL(&woken, &other), AW_PENDING);
    CHECK_EQ(CANCEL(&waiting, &flag), AW_CANCELLED);
    aw_channel_close(&c);
    CHECK(!aw_flag_take(&flag) && aw_flag_take(&other));
    CHECK_EQ(CANCEL(&woken, &other), AW_READY);
    CHECK_EQ(woken.out, 0);
    end(&c);
}
