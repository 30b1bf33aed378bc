/* SPDX-License-Identifier: MIT
 *
 * sync/channel.c and future/waiters.h under every schedule: each message has one receiver, no
 * waiter is stuck that could continue, and the receiver of the last message may free the
 * channel. A batch of wakes holds one waker, so that two wakes need more than one batch. */
#include "support/model.h"

#define AW__WAKES 1
#include "support/model_waiting.h"
#include "sync/channel.c"
#include "sync/channel_life.c"

typedef AW_CHANNEL(int) ints;

static ints *chan;
static int storage[3];
static int sum;  /* of received messages */
static int sent; /* of sent messages */
static aw_channel_future futures[MODEL_THREADS];
static int values[MODEL_THREADS];

static void setup_slots(size_t capacity) {
    setup_waiting();
    chan = model_alloc(sizeof *chan);
    model_check(aw__channel_init(&chan->channel, sizeof(int), capacity, storage) == 0);
    memset(futures, 0, sizeof futures);
    sum = sent = 0;
}
static void setup_one(void) {
    setup_slots(1);
}
static void setup_two(void) {
    setup_slots(2);
}

static int send_value(int n) {
    int i = model_self();
    values[i] = n;
    futures[i] = aw_channel_send(chan, &values[i]);
    wait_for(&futures[i].future);
    if (futures[i].out == 0) aw__fetch_add(&sent, n);
    return futures[i].out;
}

static int receive_value(void) {
    int i = model_self();
    futures[i] = aw_channel_recv(chan, &values[i]);
    wait_for(&futures[i].future);
    if (futures[i].out == 0) aw__fetch_add(&sum, values[i]);
    return futures[i].out;
}

/* There are no waiters, and messages that were not received are inside. */
static void nothing_is_lost(void) {
    int n;
    model_check(!channel_has_waiters(&chan->channel) && !chan->channel.woken &&
                !chan->channel.lock && !chan->channel.tail.lock);
    while (aw_channel_try_recv(chan, &n) == 0)
        sum += n;
    model_check(sum == sent);
}

/* ---- One slot -------------------------------------------------------------------------------- */

static void send_one(void) {
    model_check(send_value(1) == 0);
}
static void send_ten(void) {
    model_check(send_value(10) == 0);
}
static void receive_two(void) {
    model_check(receive_value() == 0);
    model_check(receive_value() == 0);
}
static void all_is_received(void) {
    model_check(sum == 11);
    nothing_is_lost();
}

MODEL(two_senders_share_one_slot, .setup = setup_one, .threads = {receive_two, send_one, send_ten},
      .check = all_is_received, .preemptions = 2, .stale = 1)

/* ---- Receivers that are cancelled, or lose their message ------------------------------------- */

static void receive_one(void) {
    model_check(receive_value() == 0);
}
static void send_two(void) {
    model_check(send_value(1) == 0);
    model_check(send_value(10) == 0);
}
/* Cancels if it would have to wait, woken or not. */
static void receive_or_cancel(void) {
    int i = model_self();
    futures[i] = aw_channel_recv(chan, &values[i]);
    aw_poll r = poll_once(&futures[i].future);
    if (r == AW_PENDING) r = cancel_once(&futures[i].future);
    if (r == AW_READY) aw__fetch_add(&sum, values[i]);
}
static void receive_and_discard(void) {
    int i = model_self();
    futures[i] = aw_channel_recv(chan, &values[i]);
    aw_poll r = poll_once(&futures[i].future);
    if (r == AW_PENDING) r = cancel_once(&futures[i].future);
    if (r == AW_READY) aw_future_discard(&futures[i].future);
}
static void steal(void) {
    int n;
    if (aw_channel_try_recv(chan, &n) == 0) aw__fetch_add(&sum, n);
}

MODEL(a_cancelled_receive_leaves_its_message_to_the_next, .setup = setup_two,
      .threads = {receive_one, receive_or_cancel, send_two}, .check = nothing_is_lost,
      .preemptions = 2, .stale = 1)
MODEL(a_discarded_receive_leaves_its_message_to_the_next, .setup = setup_two,
      .threads = {receive_one, receive_and_discard, send_two}, .check = nothing_is_lost,
      .preemptions = 2, .stale = 1)
MODEL(a_receiver_that_lost_its_message_waits_again, .setup = setup_two,
      .threads = {receive_one, steal, send_two}, .check = nothing_is_lost, .preemptions = 2,
      .stale = 1)

/* ---- Closing --------------------------------------------------------------------------------- */

static void receive_or_find_closed(void) {
    int out = receive_value();
    model_check(out == 0 || out == -EPIPE);
}
static void send_or_find_closed(void) {
    int out = send_value(1);
    model_check(out == 0 || out == -EPIPE);
}
static void close_it(void) {
    aw_channel_close(chan);
}

MODEL(closing_ends_all_waits, .setup = setup_one,
      .threads = {receive_or_find_closed, receive_or_find_closed, send_or_find_closed, close_it},
      .check = nothing_is_lost, .preemptions = 1, .stale = 1)

/* ---- Freeing --------------------------------------------------------------------------------- */

static void receive_and_free(void) {
    model_check(receive_value() == 0);
    model_free(chan);
}
static void find_closed_and_free(void) {
    model_check(receive_value() == -EPIPE);
    model_free(chan);
}

MODEL(the_receiver_of_the_message_may_free_the_channel, .setup = setup_one,
      .threads = {receive_and_free, send_one}, .stale = 1)
MODEL(a_receiver_that_found_it_closed_may_free_the_channel, .setup = setup_one,
      .threads = {find_closed_and_free, close_it}, .stale = 1)
