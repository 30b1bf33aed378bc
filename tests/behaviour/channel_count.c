/* SPDX-License-Identifier: MIT
 *
 * Channels with counted senders and receivers: dropping the last one closes the channel,
 * releases the messages and frees it. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "support/by_hand.h"
#include "support/memory.h"

typedef AW_CHANNEL(int) ints;

static struct memory memory;
static int released[100], releases;

static void note_release(void *item) {
    released[releases++] = *(int *)item;
}

#ifndef PREPARE
#define PREPARE(c) (void)(c)
#endif

static ints *new_channel(size_t capacity) {
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
    releases = 0;
    ints *c = aw_channel_new(ints, capacity);
    PREPARE(c);
    CHECK(c != NULL);
    aw_channel_set_release(c, note_release);
    return c;
}

static void fill(ints *c, int from, int count) {
    for (int i = from; i < from + count; i++)
        CHECK_EQ(aw_channel_try_send(c, &i), 0);
}

TEST(a_bounded_channel_is_one_allocation) {
    ints *c = new_channel(4);
    CHECK_EQ(memory.blocks, 1);
    fill(c, 0, 4);
    CHECK_EQ(memory.calls, 1);
    aw_channel_sender_drop(c);
    aw_channel_receiver_drop(c);
    memory_check_empty(&memory);
}

TEST(the_last_sender_closes) {
    ints *c = new_channel(4);
    aw_flag flag = {0};
    int n;
    aw_channel_sender_keep(c);
    fill(c, 1, 1);
    aw_channel_sender_drop(c);
    CHECK(!aw_channel_is_closed(c));
    aw_channel_future r = aw_channel_recv(c, &n), end = aw_channel_recv(c, &n);
    CHECK_EQ(POLL(&r, &flag), AW_READY);
    CHECK_EQ(POLL(&end, &flag), AW_PENDING);
    aw_channel_sender_drop(c);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&end, &flag), AW_READY);
    CHECK_EQ(end.out, -EPIPE);
    aw_channel_receiver_drop(c);
    memory_check_empty(&memory);
    CHECK_EQ(releases, 0);
}

static void last_receiver_closes(size_t capacity, int count) {
    ints *c = new_channel(capacity);
    aw_flag flag = {0}, other = {0};
    int n = 7;
    fill(c, 0, count);
    aw_channel_receiver_keep(c);
    aw_channel_receiver_drop(c);
    CHECK(!aw_channel_is_closed(c));
    aw_channel_future s = aw_channel_send(c, &n), closed = aw_channel_closed(c);
    bool waits = capacity != AW_UNBOUNDED;
    if (waits) CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    CHECK_EQ(POLL(&closed, &other), AW_PENDING);
    aw_channel_receiver_drop(c);
    CHECK(aw_flag_take(&other));
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    CHECK_EQ(s.out, -EPIPE); /* the value is still the caller's, and was not released */
    CHECK_EQ(POLL(&closed, &other), AW_READY);
    CHECK_EQ(releases, count);
    for (int i = 0; i < count; i++)
        CHECK_EQ(released[i], i);
    CHECK_EQ(aw_channel_len(c), 0);
    CHECK_EQ(memory.blocks, 1); /* the channel itself, held by its sender */
    aw_channel_sender_drop(c);
    memory_check_empty(&memory);
    CHECK_EQ(releases, count);
}

TEST(the_last_receiver_closes_and_releases_what_is_inside) {
    last_receiver_closes(4, 4);
    last_receiver_closes(AW_UNBOUNDED, 100);
}

TEST(a_permit_used_after_the_last_receiver_is_dropped_keeps_the_value_with_the_caller) {
    ints *c = new_channel(2);
    int n = 5;
    CHECK_EQ(aw_channel_try_reserve(c), 0);
    CHECK_EQ(aw_channel_try_reserve(c), 0);
    aw_channel_receiver_drop(c);
    CHECK_EQ(aw_channel_send_reserved(c, &n), -EPIPE);
    aw_channel_unreserve(c);
    aw_channel_sender_drop(c);
    CHECK_EQ(releases, 0);
    memory_check_empty(&memory);
}

TEST(weak_senders_do_not_keep_it_open) {
    ints *c = new_channel(4);
    aw_channel_downgrade(c);
    CHECK_EQ(aw_channel_upgrade(c), 0);
    aw_channel_sender_drop(c);
    CHECK(!aw_channel_is_closed(c)); /* held open by the upgraded sender */
    aw_channel_sender_drop(c);
    CHECK(aw_channel_is_closed(c));
    CHECK_EQ(aw_channel_upgrade(c), -EPIPE);
    aw_channel_receiver_drop(c);
    CHECK_EQ(memory.blocks, 1); /* the weak sender keeps its memory */
    CHECK_EQ(aw_channel_upgrade(c), -EPIPE);
    aw_channel_weak_drop(c);
    memory_check_empty(&memory);
}

TEST(a_weak_sender_of_a_closed_channel_stays_weak) {
    ints *c = new_channel(4);
    aw_channel_downgrade(c);
    aw_channel_close(c);
    CHECK_EQ(aw_channel_upgrade(c), -EPIPE);
    aw_channel_weak_drop(c);
    aw_channel_sender_drop(c);
    aw_channel_receiver_drop(c);
    memory_check_empty(&memory);
}

TEST(dropping_more_often_than_kept_ends_the_program) {
    ints *c = new_channel(4);
    aw_channel_sender_drop(c);
    DIES(aw_channel_sender_drop(c), "dropped more often than kept");
    aw_channel_receiver_drop(c);
}

TEST(freeing_releases_the_messages_inside) {
    ints c;
    int n = 1;
    CHECK_EQ(aw_channel_init(&c, 3), 0);
    aw_channel_set_release(&c, note_release);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(aw_channel_try_recv(&c, &n), -EAGAIN);
    fill(&c, 0, 3);
    CHECK_EQ(aw_channel_try_recv(&c, &n), 0);
    fill(&c, 3, 1); /* wraps around the ring */
    aw_channel_free(&c);
    CHECK_EQ(releases, 3);
    CHECK_EQ(released[0] * 100 + released[1] * 10 + released[2], 123);
}

/* ---- A sender that is still allocating --------------------------------------------------------- */

static _Thread_local bool slow;  /* its allocations wait for `go` */
static int allocating, go, sent; /* atomic */
static bool refused;
/* When this block is freed, set `go` and wait for `sent`. */
static void *watched_block;

static void wait_for(int *event) {
    while (!__atomic_load_n(event, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void set(int *event) {
    __atomic_store_n(event, 1, __ATOMIC_RELEASE);
}

static void *slow_alloc(void *data, size_t size) {
    if (!slow) return memory_alloc(data, size);
    set(&allocating);
    wait_for(&go);
    return refused ? NULL : memory_alloc(data, size);
}

static void watching_release(void *data, void *p, size_t size) {
    memory_release(data, p, size);
    if (p != watched_block) return;
    set(&go);
    wait_for(&sent);
}

static void *send_slowly(void *c) {
    slow = true;
    CHECK_EQ(aw_channel_try_send((ints *)c, &(int){1}), -EPIPE);
    set(&sent);
    return NULL;
}

/* The sender's allocation returns, with a block or without, while the last receiver frees the
 * other blocks. An address sanitizer would report a use after free. */
static void last_receiver_goes_meanwhile(bool without) {
    ints *c = new_channel(AW_UNBOUNDED);
    pthread_t sender;
    allocating = go = sent = 0;
    refused = without;
    memory.allocator = (aw_allocator){slow_alloc, watching_release, &memory};
    aw_channel_set_release(c, NULL);
    fill(c, 0, 1);
    watched_block = c->channel.last;
    fill(c, 1, (int)c->channel.last->slots - 1);
    CHECK_EQ(pthread_create(&sender, NULL, send_slowly, c), 0);
    wait_for(&allocating);
    aw_channel_receiver_drop(c);
    CHECK_EQ(pthread_join(sender, NULL), 0);
    aw_channel_sender_drop(c);
    memory_check_empty(&memory);
}

TEST(the_last_receiver_may_go_while_a_sender_gets_memory) {
    last_receiver_goes_meanwhile(false);
}

TEST(the_last_receiver_may_go_while_a_sender_gets_no_memory) {
    last_receiver_goes_meanwhile(true);
}

/* ---- A release that uses the channel ----------------------------------------------------------- */

static ints *sent_to;
static void send_on(void *item) {
    int n = *(int *)item + 100;
    note_release(item);
    CHECK_EQ(aw_channel_try_send(sent_to, &n), n >= 200 ? -EPIPE : 0);
}

/* The last receiver is dropped; the releases send to another channel, then to the same one. */
TEST(a_release_may_send) {
    ints *c = new_channel(4), d;
    CHECK_EQ(aw_channel_init(&d, 4), 0);
    aw_channel_set_release(c, send_on);
    sent_to = &d;
    fill(c, 1, 2);
    aw_channel_receiver_drop(c);
    CHECK_EQ(aw_channel_len(&d), 2);
    aw_channel_free(&d);
    aw_channel_sender_drop(c);

    c = new_channel(4);
    aw_channel_set_release(c, send_on);
    sent_to = c;
    fill(c, 100, 2);
    aw_channel_receiver_drop(c);
    CHECK_EQ(releases, 2);
    aw_channel_sender_drop(c);
    memory_check_empty(&memory);
}

static ints *freed;
static void use_freed(void *item) {
    note_release(item);
    CHECK_EQ(aw_channel_try_send(freed, &(int){1}), -EPIPE);
    CHECK_EQ(aw_channel_try_recv(freed, &(int){1}), -EPIPE);
    CHECK_EQ(aw_channel_len(freed), 0);
}

TEST(a_release_may_use_a_channel_that_is_being_freed) {
    for (int unbounded = 0; unbounded < 2; unbounded++) {
        ints c;
        memory_init(&memory);
        aw_set_allocator(&memory.allocator);
        releases = 0;
        CHECK_EQ(aw_channel_init(&c, unbounded ? AW_UNBOUNDED : 4), 0);
        aw_channel_set_release(&c, use_freed);
        freed = &c;
        fill(&c, 0, 3);
        aw_channel_free(&c);
        CHECK_EQ(releases, 3);
        memory_check_empty(&memory);
    }
}
