/* SPDX-License-Identifier: MIT
 *
 * Channels: messages come out once and in order; waiting, permits and closing. */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "support/by_hand.h"
#include "support/clock.h"
#include "support/memory.h"

typedef AW_CHANNEL(int) ints;

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

/* ---- Order ------------------------------------------------------------------------------------ */

TEST(messages_come_out_in_the_order_in_which_they_went_in) {
    ints c;
    init(&c, 5);
    for (int i = 0, out = 0; i < 100; i += 5) {
        fill(&c, i, 5);
        while (aw_channel_len(&c))
            CHECK_EQ(take(&c), out++);
        fill(&c, 1000, 3); /* wraps around the ring */
        for (int j = 0; j < 3; j++)
            CHECK_EQ(take(&c), 1000 + j);
    }
    aw_channel_free(&c);
}

TEST(a_full_channel_refuses_and_the_value_is_still_the_callers) {
    ints c;
    init(&c, 2);
    fill(&c, 0, 2);
    int n = 7;
    CHECK_EQ(aw_channel_try_send(&c, &n), -EAGAIN);
    CHECK_EQ(n, 7);
    CHECK_EQ(aw_channel_len(&c), 2);
    CHECK_EQ(aw_channel_capacity(&c), 2);
    CHECK_EQ(take(&c), 0);
    CHECK_EQ(aw_channel_try_send(&c, &n), 0);
    aw_channel_free(&c);
}

TEST(an_empty_channel_has_nothing) {
    ints c;
    init(&c, 2);
    int n = 7;
    CHECK_EQ(aw_channel_try_recv(&c, &n), -EAGAIN);
    CHECK_EQ(n, 7);
    aw_channel_free(&c);
}

TEST(elements_of_any_size_go_through_whole) {
    struct message {
        char text[100];
        double number;
    };
    AW_CHANNEL(struct message) c;
    AW_CHANNEL(char) letters;
    AW_CHANNEL_STORAGE(struct message, 2) storage;
    struct message m = {"a message", 2.5}, got;
    CHECK_EQ(aw_channel_init_in(&c, &storage), 0);
    CHECK_EQ(aw_channel_capacity(&c), 2);
    CHECK_EQ(aw_channel_try_send(&c, &m), 0);
    CHECK_EQ(aw_channel_try_recv(&c, &got), 0);
    CHECK_STR(got.text, "a message");
    CHECK(got.number == 2.5);
    aw_channel_free(&c);

    CHECK_EQ(aw_channel_init(&letters, 3), 0);
    for (const char *p = "abc"; *p; p++)
        CHECK_EQ(aw_channel_try_send(&letters, p), 0);
    for (char x, *p = (char[]){"abc"}; *p; p++) {
        CHECK_EQ(aw_channel_try_recv(&letters, &x), 0);
        CHECK_EQ(x, *p);
    }
    aw_channel_free(&letters);
}

TEST(a_capacity_that_cannot_be_is_refused) {
    ints c;
    AW_CHANNEL(char[64]) large;
    CHECK_EQ(aw_channel_init(&c, 0), -EINVAL);
    CHECK_EQ(aw_channel_init(&c, (size_t)AW_CHANNEL_MAX + 1), -EINVAL);
    CHECK_EQ(aw_channel_init(&large, AW_UNBOUNDED - 1), -EINVAL);
    CHECK(aw_channel_new(ints, 0) == NULL);
}

/* ---- Unbounded -------------------------------------------------------------------------------- */

TEST(an_unbounded_channel_keeps_its_length_and_order_across_blocks) {
    ints c;
    init(&c, AW_UNBOUNDED);
    int in = 0, out = 0;
    for (int round = 0; round < 1000; round++) {
        fill(&c, in, round % 37 * 5);
        in += round % 37 * 5;
        CHECK_EQ(aw_channel_len(&c), (size_t)(in - out));
        for (int i = round % 31 * 6; i > 0 && out < in; i--)
            CHECK_EQ(take(&c), out++);
        CHECK_EQ(aw_channel_len(&c), (size_t)(in - out));
    }
    while (out < in)
        CHECK_EQ(take(&c), out++);
    CHECK_EQ(aw_channel_len(&c), 0);
    aw_channel_free(&c);
}

TEST(an_unbounded_channel_keeps_one_block_when_it_is_empty) {
    struct memory memory;
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
    ints c;
    init(&c, AW_UNBOUNDED);
    CHECK_EQ(memory.blocks, 0);
    fill(&c, 0, 10000);
    CHECK_GT(memory.blocks, 10);
    for (int i = 0; i < 10000; i++)
        CHECK_EQ(take(&c), i);
    CHECK_LE(memory.blocks, 2); /* the one being filled, and a spare */
    long calls = memory.calls;
    for (int i = 0; i < 1000; i++) {
        fill(&c, i, 1);
        CHECK_EQ(take(&c), i);
    }
    CHECK_EQ(memory.calls, calls);
    aw_channel_free(&c);
    memory_check_empty(&memory);
}

TEST(without_memory_a_send_says_so_and_nothing_is_lost) {
    struct memory memory;
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
    ints c;
    aw_flag flag = {0};
    init(&c, AW_UNBOUNDED);
    fill(&c, 0, 1);
    memory_refuse(&memory);
    int sent = 1, n = 0;
    while ((n = aw_channel_try_send(&c, &sent)) == 0)
        sent++;
    CHECK_EQ(n, -ENOMEM);
    aw_channel_future send = aw_channel_send(&c, &sent);
    CHECK_EQ(POLL(&send, &flag), AW_READY);
    CHECK_EQ(send.out, -ENOMEM);
    for (int i = 0; i < sent; i++)
        CHECK_EQ(take(&c), i);
    CHECK_EQ(aw_channel_try_recv(&c, &n), -EAGAIN);
    fill(&c, 0, 1); /* there is a free block again */
    aw_channel_free(&c);
    CHECK_EQ(aw_channel_init(&c, 10), -ENOMEM);
    CHECK(aw_channel_new(ints, 10) == NULL);
    memory_check_empty(&memory);
}

/* ---- Waiting ---------------------------------------------------------------------------------- */

TEST(a_waiting_receiver_is_woken_by_a_message) {
    ints c;
    aw_flag flag = {0};
    init(&c, 2);
    int n = 0;
    aw_channel_future r = aw_channel_recv(&c, &n);
    CHECK_EQ(POLL(&r, &flag), AW_PENDING);
    CHECK(!aw_flag_take(&flag));
    fill(&c, 5, 1);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 0);
    CHECK_EQ(n, 5);
    aw_channel_free(&c);
}

TEST(a_message_wakes_at_most_one_receiver_and_none_twice) {
    ints c;
    aw_flag flags[3] = {{0}};
    int n[3];
    aw_channel_future r[3];
    init(&c, 5);
    for (int i = 0; i < 3; i++) {
        r[i] = aw_channel_recv(&c, &n[i]);
        CHECK_EQ(POLL(&r[i], &flags[i]), AW_PENDING);
    }
    fill(&c, 0, 2);
    CHECK(aw_flag_take(&flags[0]) && aw_flag_take(&flags[1]) && !aw_flag_take(&flags[2]));
    fill(&c, 2, 3);
    CHECK(!aw_flag_take(&flags[0]) && !aw_flag_take(&flags[1]) && aw_flag_take(&flags[2]));
    /* The first to poll gets the first message. */
    for (int i = 2; i >= 0; i--) {
        CHECK_EQ(POLL(&r[i], &flags[i]), AW_READY);
        CHECK_EQ(n[i], 2 - i);
    }
    CHECK_EQ(aw_channel_len(&c), 2);
    aw_channel_free(&c);
}

TEST(a_receive_that_comes_later_waits_behind_one_that_was_woken) {
    ints c;
    aw_flag flag = {0}, other = {0};
    int n = 0, m = 0;
    init(&c, 5);
    aw_channel_future r = aw_channel_recv(&c, &n), late = aw_channel_recv(&c, &m);
    CHECK_EQ(POLL(&r, &flag), AW_PENDING);
    fill(&c, 1, 1);
    CHECK_EQ(POLL(&late, &other), AW_PENDING);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(n, 1);
    fill(&c, 2, 1);
    CHECK_EQ(POLL(&late, &other), AW_READY);
    CHECK_EQ(m, 2);
    aw_channel_free(&c);
}

TEST(a_try_takes_what_is_there_and_the_receiver_woken_for_it_waits_again_as_the_first) {
    ints c;
    aw_flag flag[3] = {{0}};
    int n[3];
    aw_channel_future r[3];
    init(&c, 5);
    for (int i = 0; i < 3; i++) {
        r[i] = aw_channel_recv(&c, &n[i]);
        CHECK_EQ(POLL(&r[i], &flag[i]), AW_PENDING);
    }
    fill(&c, 0, 2);
    CHECK(aw_flag_take(&flag[0]) && aw_flag_take(&flag[1]));
    CHECK_EQ(take(&c), 0);
    CHECK_EQ(POLL(&r[1], &flag[1]), AW_READY);
    CHECK_EQ(n[1], 1);
    CHECK_EQ(POLL(&r[0], &flag[0]), AW_PENDING);
    fill(&c, 2, 1);
    CHECK(aw_flag_take(&flag[0]) && !aw_flag_take(&flag[2]));
    CHECK_EQ(POLL(&r[0], &flag[0]), AW_READY);
    CHECK_EQ(n[0], 2);
    /* Woken, then the message is taken by a try, then closed. */
    fill(&c, 3, 1);
    CHECK_EQ(take(&c), 3);
    aw_channel_close(&c);
    CHECK_EQ(POLL(&r[2], &flag[2]), AW_READY);
    CHECK_EQ(r[2].out, -EPIPE);
    aw_channel_free(&c);
}

TEST(receivers_that_were_woken_for_nothing_wait_again_in_their_order) {
    for (int backwards = 0; backwards < 2; backwards++) {
        ints c;
        aw_flag flag[4] = {{0}};
        int n[4];
        aw_channel_future r[4];
        init(&c, 5);
        for (int i = 0; i < 4; i++) {
            r[i] = aw_channel_recv(&c, &n[i]);
            CHECK_EQ(POLL(&r[i], &flag[i]), AW_PENDING);
        }
        fill(&c, 0, 3);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(take(&c), i);
        for (int i = 0; i < 3; i++) {
            int index = backwards ? 2 - i : i;
            CHECK(aw_flag_take(&flag[index]));
            CHECK_EQ(POLL(&r[index], &flag[index]), AW_PENDING);
        }
        for (int i = 0; i < 4; i++) {
            fill(&c, 10 + i, 1);
            CHECK(aw_flag_take(&flag[i]));
            CHECK_EQ(POLL(&r[i], &flag[i]), AW_READY);
            CHECK_EQ(n[i], 10 + i);
        }
        aw_channel_free(&c);
    }
}

TEST(a_message_for_a_receiver_that_was_woken_for_nothing_wakes_no_later_one) {
    ints c;
    aw_flag flag[2] = {{0}}, sent = {0};
    int n[2], m = 7;
    init(&c, 2);
    aw_channel_future r[2] = {aw_channel_recv(&c, &n[0]), aw_channel_recv(&c, &n[1])};
    for (int i = 0; i < 2; i++)
        CHECK_EQ(POLL(&r[i], &flag[i]), AW_PENDING);
    fill(&c, 0, 1);
    CHECK_EQ(take(&c), 0);
    aw_channel_future s = aw_channel_send(&c, &m);
    CHECK_EQ(POLL(&s, &sent), AW_READY);
    CHECK(aw_flag_take(&flag[0]) && !aw_flag_take(&flag[1]));
    CHECK_EQ(POLL(&r[1], &flag[1]), AW_PENDING);
    CHECK_EQ(POLL(&r[0], &flag[0]), AW_READY);
    CHECK_EQ(n[0], 7);
    CHECK_EQ(CANCEL(&r[1], &flag[1]), AW_CANCELLED);
    aw_channel_free(&c);
}

TEST(a_slot_that_becomes_free_goes_to_the_first_waiter) {
    ints c;
    aw_flag flag[4] = {{0}};
    int n[4] = {10, 11, 12, 13};
    init(&c, 1);
    fill(&c, 0, 1);
    aw_channel_future s[4] = {aw_channel_send(&c, &n[0]), aw_channel_reserve(&c),
                              aw_channel_send(&c, &n[2]), aw_channel_send(&c, &n[3])};
    for (int i = 0; i < 4; i++)
        CHECK_EQ(POLL(&s[i], &flag[i]), AW_PENDING);
    int got;
    CHECK_EQ(take(&c), 0);
    CHECK_EQ(aw_channel_try_send(&c, &n[0]), -EAGAIN); /* no overtaking */
    CHECK(aw_flag_take(&flag[0]) && !aw_flag_take(&flag[1]));
    CHECK_EQ(take(&c), 10); /* before the sender was polled again */
    CHECK(aw_flag_take(&flag[1]) && !aw_flag_take(&flag[2]));
    CHECK_EQ(aw_channel_try_recv(&c, &got), -EAGAIN); /* the slot is a permit now */
    CHECK_EQ(POLL(&s[1], &flag[1]), AW_READY);
    CHECK_EQ(s[1].out, 0);
    CHECK_EQ(aw_channel_send_reserved(&c, &n[1]), 0);
    CHECK_EQ(take(&c), 11);
    CHECK_EQ(take(&c), 12);
    CHECK_EQ(take(&c), 13);
    for (int i = 0; i < 4; i++)
        if (i != 1) CHECK_EQ(POLL(&s[i], &flag[i]), AW_READY);
    aw_channel_free(&c);
}

TEST(only_the_waker_of_the_latest_poll_is_woken) {
    ints c;
    aw_flag old = {0}, new = {0};
    int n = 1, m = 2;
    init(&c, 1);
    aw_channel_future r = aw_channel_recv(&c, &n);
    CHECK_EQ(POLL(&r, &old), AW_PENDING);
    CHECK_EQ(POLL(&r, &new), AW_PENDING);
    fill(&c, 1, 1);
    CHECK(aw_flag_take(&new) && !aw_flag_take(&old));
    CHECK_EQ(POLL(&r, &old), AW_READY);

    fill(&c, 1, 1);
    aw_channel_future s = aw_channel_send(&c, &m), closed = aw_channel_closed(&c);
    CHECK_EQ(POLL(&s, &old), AW_PENDING);
    CHECK_EQ(POLL(&s, &new), AW_PENDING);
    CHECK_EQ(take(&c), 1);
    CHECK(aw_flag_take(&new) && !aw_flag_take(&old));
    CHECK_EQ(POLL(&s, &old), AW_READY);

    CHECK_EQ(POLL(&closed, &old), AW_PENDING);
    CHECK_EQ(POLL(&closed, &new), AW_PENDING);
    aw_channel_close(&c);
    CHECK(aw_flag_take(&new) && !aw_flag_take(&old));
    CHECK_EQ(POLL(&closed, &old), AW_READY);
    aw_channel_free(&c);
}

/* ---- Many at once ----------------------------------------------------------------------------- */

TEST(receive_many_takes_what_is_there_up_to_what_it_wants) {
    ints c;
    aw_flag flag = {0};
    int n[8];
    init(&c, 10);
    fill(&c, 0, 10);
    aw_channel_future r = aw_channel_recv_many(&c, n, 8);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 8);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(n[i], i);
    r = aw_channel_recv_many(&c, n, 8);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 2);
    CHECK_EQ(n[1], 9);
    r = aw_channel_recv_many(&c, n, 0);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 0);
    aw_channel_free(&c);
}

TEST(trying_to_receive_many_takes_what_is_there_and_does_not_wait) {
    ints c;
    int got[4] = {0};
    init(&c, 3);
    CHECK_EQ(aw_channel_try_recv_many(&c, got, 4), -EAGAIN);
    fill(&c, 1, 3);
    CHECK_EQ(aw_channel_try_recv_many(&c, got, 0), 0);
    CHECK_EQ(aw_channel_try_recv_many(&c, got, 2), 2);
    CHECK_EQ(got[1], 2);
    CHECK_EQ(aw_channel_try_recv_many(&c, got, 4), 1);
    CHECK_EQ(got[0], 3);
    aw_channel_close(&c);
    CHECK_EQ(aw_channel_try_recv_many(&c, got, 4), -EPIPE);
    aw_channel_free(&c);
}

TEST(receive_many_that_waited_takes_what_came_meanwhile_and_lets_senders_go_on) {
    ints c;
    aw_flag flag = {0}, sender[3] = {{0}};
    int n[8], more[3] = {5, 6, 7};
    init(&c, 5);
    aw_channel_future r = aw_channel_recv_many(&c, n, 8), s[3];
    CHECK_EQ(POLL(&r, &flag), AW_PENDING);
    fill(&c, 0, 5);
    for (int i = 0; i < 3; i++) {
        s[i] = aw_channel_send(&c, &more[i]);
        CHECK_EQ(POLL(&s[i], &sender[i]), AW_PENDING);
    }
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 5);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(n[i], i);
    for (int i = 0; i < 3; i++) {
        CHECK(aw_flag_take(&sender[i]));
        CHECK_EQ(POLL(&s[i], &sender[i]), AW_READY);
        CHECK_EQ(take(&c), more[i]);
    }
    aw_channel_free(&c);
}

TEST(receive_many_does_not_take_what_other_receivers_were_woken_for) {
    ints c;
    aw_flag flag[2] = {{0}};
    int n[8], m = -1;
    init(&c, 8);
    aw_channel_future many = aw_channel_recv_many(&c, n, 8), one = aw_channel_recv(&c, &m);
    CHECK_EQ(POLL(&many, &flag[0]), AW_PENDING);
    CHECK_EQ(POLL(&one, &flag[1]), AW_PENDING);
    fill(&c, 0, 4);
    CHECK_EQ(POLL(&many, &flag[0]), AW_READY);
    CHECK_EQ(many.out, 3);
    CHECK_EQ(POLL(&one, &flag[1]), AW_READY);
    CHECK_EQ(m, 3);
    aw_channel_free(&c);
}

TEST(receive_many_goes_across_blocks) {
    ints c;
    aw_flag flag = {0};
    static int n[2000];
    init(&c, AW_UNBOUNDED);
    fill(&c, 0, 1500);
    aw_channel_future r = aw_channel_recv_many(&c, n, 2000);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, 1500);
    for (int i = 0; i < 1500; i++)
        CHECK_EQ(n[i], i);
    aw_channel_free(&c);
}

/* ---- Permits ---------------------------------------------------------------------------------- */

TEST(a_permit_keeps_a_slot_until_it_is_used_or_returned) {
    ints c;
    int n = 4;
    init(&c, 2);
    CHECK_EQ(aw_channel_try_reserve(&c), 0);
    fill(&c, 1, 1);
    CHECK_EQ(aw_channel_try_send(&c, &n), -EAGAIN);
    CHECK_EQ(aw_channel_try_reserve(&c), -EAGAIN);
    CHECK_EQ(aw_channel_len(&c), 1);
    CHECK_EQ(aw_channel_send_reserved(&c, &n), 0);
    CHECK_EQ(take(&c), 1);
    CHECK_EQ(take(&c), 4);
    CHECK_EQ(aw_channel_try_reserve(&c), 0);
    CHECK_EQ(aw_channel_try_reserve(&c), 0);
    aw_channel_unreserve(&c);
    fill(&c, 1, 1);
    aw_channel_unreserve(&c);
    fill(&c, 2, 1);
    DIES(aw_channel_unreserve(&c), "permit was used that was not reserved");
    aw_channel_free(&c);
}

TEST(an_unbounded_channel_has_no_permits) {
    ints c;
    aw_flag flag = {0};
    init(&c, AW_UNBOUNDED);
    CHECK_EQ(aw_channel_try_reserve(&c), -EINVAL);
    aw_channel_future f = aw_channel_reserve(&c);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, -EINVAL);
    aw_channel_free(&c);
}

/* ---- Closing ---------------------------------------------------------------------------------- */

TEST(a_closed_channel_is_drained_and_then_ends) {
    ints c;
    aw_flag flag = {0};
    init(&c, 4);
    fill(&c, 0, 3);
    aw_channel_close(&c);
    CHECK(aw_channel_is_closed(&c));
    CHECK_EQ(aw_channel_len(&c), 3);
    int n = 9;
    CHECK_EQ(aw_channel_try_send(&c, &n), -EPIPE);
    CHECK_EQ(aw_channel_try_reserve(&c), -EPIPE);
    aw_channel_future s = aw_channel_send(&c, &n);
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    CHECK_EQ(s.out, -EPIPE);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_channel_len(&c), (size_t)(3 - i));
        CHECK_EQ(take(&c), i);
    }
    CHECK_EQ(aw_channel_try_recv(&c, &n), -EPIPE);
    aw_channel_future r = aw_channel_recv(&c, &n);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, -EPIPE);
    r = aw_channel_recv_many(&c, &n, 1);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(r.out, -EPIPE);
    aw_channel_close(&c);
    aw_channel_free(&c);
}

TEST(closing_ends_every_wait) {
    ints c, empty;
    aw_flag flag[40] = {{0}};
    int n[40] = {0};
    aw_channel_future f[40];
    init(&c, 1);
    init(&empty, 1);
    fill(&c, 0, 1);
    for (int i = 0; i < 40; i++) {
        f[i] = i % 4 == 0   ? aw_channel_send(&c, &n[i])
               : i % 4 == 1 ? aw_channel_reserve(&c)
               : i % 4 == 2 ? aw_channel_closed(&c)
                            : aw_channel_recv(&empty, &n[i]);
        CHECK_EQ(POLL(&f[i], &flag[i]), AW_PENDING);
    }
    aw_channel_close(&c);
    aw_channel_close(&empty);
    for (int i = 0; i < 40; i++) {
        CHECK(aw_flag_take(&flag[i]));
        CHECK_EQ(POLL(&f[i], &flag[i]), AW_READY);
        CHECK_EQ(f[i].out, i % 4 == 2 ? 0 : -EPIPE);
    }
    CHECK_EQ(take(&c), 0);
    aw_channel_free(&c);
    aw_channel_free(&empty);
}

TEST(a_permit_outlives_the_close_and_receivers_wait_for_it) {
    ints c;
    aw_flag flag = {0}, other = {0};
    int n = 0, m = 3;
    init(&c, 2);
    CHECK_EQ(aw_channel_try_reserve(&c), 0);
    CHECK_EQ(aw_channel_try_reserve(&c), 0);
    aw_channel_close(&c);
    CHECK_EQ(aw_channel_try_recv(&c, &n), -EAGAIN);
    aw_channel_future r = aw_channel_recv(&c, &n), last = aw_channel_recv(&c, &n);
    CHECK_EQ(POLL(&r, &flag), AW_PENDING);
    CHECK_EQ(aw_channel_send_reserved(&c, &m), 0);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(n, 3);
    CHECK_EQ(POLL(&last, &other), AW_PENDING);
    aw_channel_unreserve(&c);
    CHECK(aw_flag_take(&other));
    CHECK_EQ(POLL(&last, &other), AW_READY);
    CHECK_EQ(last.out, -EPIPE);
    aw_channel_free(&c);
}

TEST(a_receiver_behind_the_last_message_of_a_closed_channel_ends_when_it_is_taken) {
    ints c;
    aw_flag flag[2] = {{0}};
    int n[2];
    init(&c, 2);
    aw_channel_future r[2] = {aw_channel_recv(&c, &n[0]), aw_channel_recv(&c, &n[1])};
    CHECK_EQ(POLL(&r[0], &flag[0]), AW_PENDING);
    CHECK_EQ(POLL(&r[1], &flag[1]), AW_PENDING);
    fill(&c, 1, 1);
    aw_channel_close(&c);
    /* The first may still discard its message. */
    CHECK(aw_flag_take(&flag[0]) && !aw_flag_take(&flag[1]));
    CHECK_EQ(POLL(&r[0], &flag[0]), AW_READY);
    CHECK_EQ(n[0], 1);
    CHECK(aw_flag_take(&flag[1]));
    CHECK_EQ(POLL(&r[1], &flag[1]), AW_READY);
    CHECK_EQ(r[1].out, -EPIPE);
    aw_channel_free(&c);
}

TEST(freeing_a_channel_with_waiters_ends_the_program) {
    ints c;
    aw_flag flag = {0};
    int n;
    init(&c, 2);
    aw_channel_future r = aw_channel_recv(&c, &n);
    CHECK_EQ(POLL(&r, &flag), AW_PENDING);
    DIES(aw_channel_free(&c), "freed while futures wait");
    CHECK_EQ(CANCEL(&r, &flag), AW_CANCELLED);
    aw_channel_free(&c);
}
