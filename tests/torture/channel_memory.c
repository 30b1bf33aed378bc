/* SPDX-License-Identifier: MIT
 *
 * Every allocation of a program that uses channels fails in turn: once, and then with all after it.
 * Each message is received, released or still owned by its sender, exactly once. No memory
 * remains. */
#include <errno.h>

#include "support/by_hand.h"
#include "support/memory.h"
#include "test.h"

typedef AW_CHANNEL(int) ints;
enum { MESSAGES = 1000, TAKEN = 6 };

static struct memory memory;
static int where[MESSAGES]; /* how often each was received or released */
static bool unavailable;    /* an allocation has failed */

static void received(int n) {
    CHECK(n >= 0 && n < MESSAGES);
    where[n]++;
}
static void note_release(void *item) {
    received(*(int *)item);
}
static void expect_no_memory(void *data, aw_log_level level, const char *message) {
    (void)data, (void)level;
    CHECK_CONTAINS(message, "no memory to put");
    unavailable = true;
}

/* Sends until the channel is full or out of memory. Returns how many. */
static int send_some(ints *c, int from, int count) {
    for (int i = from; i < from + count; i++) {
        int r = aw_channel_try_send(c, &i);
        if (r == 0) continue;
        CHECK(r == -ENOMEM || r == -EAGAIN);
        unavailable |= r == -ENOMEM;
        return i - from;
    }
    return count;
}

/* Receivers take messages, more are sent, and those taken are discarded, in the worst order. */
static int take_and_discard(ints *c, int sent) {
    static aw_flag flag;
    int values[TAKEN][2];
    aw_channel_future r[TAKEN];
    for (int i = 0; i < TAKEN; i++) {
        r[i] = aw_channel_recv_many(c, values[i], 2);
        if (POLL(&r[i], &flag) == AW_PENDING) CHECK_EQ(CANCEL(&r[i], &flag), AW_CANCELLED);
    }
    sent += send_some(c, sent, 8);
    for (int i = 0; i < TAKEN; i++)
        if (aw_future_finished(&r[i].future)) aw_future_discard(&r[i].future);
    return sent;
}

static void use(ints *c, int sent) {
    int n;
    sent = take_and_discard(c, sent);
    for (int i = 0; i < 5 && aw_channel_try_recv(c, &n) == 0; i++)
        received(n);
    sent = take_and_discard(c, sent);
    for (int i = 0; i < MESSAGES; i++)
        CHECK_LE(where[i], i < sent);
    aw_channel_receiver_drop(c); /* releases the messages inside */
    for (int i = 0; i < MESSAGES; i++)
        CHECK_EQ(where[i], i < sent);
    CHECK_EQ(aw_channel_try_send(c, &n), -EPIPE);
}

static void program(size_t capacity, bool counted) {
    ints local, *c = &local;
    memset(where, 0, sizeof where);
    if (counted)
        c = aw_channel_new(ints, capacity);
    else if (aw_channel_init(c, capacity) < 0)
        c = NULL;
    if (!c) {
        unavailable = true;
        return;
    }
    aw_channel_set_release(c, note_release);
    use(c, send_some(c, 0, 600));
    if (counted)
        aw_channel_sender_drop(c);
    else
        aw_channel_free(c);
}

static void fail_in_turn(size_t capacity, bool counted) {
    aw_set_log(expect_no_memory, NULL);
    for (int on = 0; on < 2; on++)
        for (long at = 1;; at++) {
            memory_init(&memory);
            aw_set_allocator(&memory.allocator);
            memory.fail_at = at;
            memory.fail_on = on;
            unavailable = false;
            program(capacity, counted);
            memory_check_empty(&memory);
            CHECK_EQ(unavailable, memory.failures > 0);
            if (memory.failures == 0) break;
        }
}

TEST(a_bounded_channel_without_memory) {
    for (size_t capacity = 1; capacity < 40; capacity += 5) {
        fail_in_turn(capacity, false);
        fail_in_turn(capacity, true);
    }
}

TEST(an_unbounded_channel_without_memory) {
    fail_in_turn(AW_UNBOUNDED, false);
    fail_in_turn(AW_UNBOUNDED, true);
}
