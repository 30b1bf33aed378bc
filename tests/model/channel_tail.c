/* SPDX-License-Identifier: MIT
 *
 * The models of channel.c, with the tail open whenever it may be: sync/channel_tail.h. */
#define AW__TAIL_MIN_CAPACITY 1
#define AW__TAIL_MIN_FREE     1
#include "channel.c"

/* ---- Two sides ------------------------------------------------------------------------------- */

/* One message is inside, and the tail is open for another. */
static void setup_open(void) {
    setup_two();
    values[0] = 1;
    model_check(aw__channel_try_send(&chan->channel, &values[0]) == 0);
    model_check(aw__tail_is_open(&chan->channel));
    sent = 1;
}

static void send_at_the_tail(void) {
    model_check(send_value(10) == 0);
}
static void both_are_received(void) {
    model_check(sum == 11);
    nothing_is_lost();
}
MODEL(a_message_at_the_tail_follows_those_inside, .setup = setup_open,
      .threads = {receive_two, send_at_the_tail}, .check = both_are_received, .stale = 1)

/* The second sender finds no capacity, and waits for it. */
MODEL(two_senders_at_the_tail_do_not_exceed_the_capacity, .setup = setup_open,
      .threads = {receive_two, send_at_the_tail, send_one}, .check = nothing_is_lost,
      .preemptions = 2, .stale = 1)

static void try_both(void) {
    int ten = 10, hundred = 100;
    if (aw_channel_try_send(chan, &ten) == 0) aw__fetch_add(&sent, ten);
    if (aw_channel_try_send(chan, &hundred) == 0) aw__fetch_add(&sent, hundred);
}
static void look_at_it(void) {
    size_t len = aw_channel_len(chan);
    model_check(len <= 2);
}
MODEL(messages_at_the_tail_count, .setup = setup_open, .threads = {try_both, look_at_it, steal},
      .check = nothing_is_lost, .preemptions = 2, .stale = 1)

static void close_and_drain(void) {
    int out;
    aw_channel_close(chan);
    while ((out = receive_value()) == 0)
        ;
    model_check(out == -EPIPE);
}
static void all_that_was_sent_is_received(void) {
    model_check(sum == sent);
}
MODEL(messages_sent_at_the_tail_before_a_close_are_drained, .setup = setup_open,
      .threads = {close_and_drain, send_or_find_closed, send_or_find_closed},
      .check = all_that_was_sent_is_received, .preemptions = 2, .stale = 1)

static void receive_two_and_free(void) {
    model_check(receive_value() == 0);
    model_check(receive_value() == 0);
    model_free(chan);
}
MODEL(the_receiver_of_a_message_from_the_tail_may_free_the_channel, .setup = setup_open,
      .threads = {receive_two_and_free, send_at_the_tail}, .stale = 1)

MODEL(a_discarded_message_comes_before_those_at_the_tail, .setup = setup_open,
      .threads = {receive_and_discard, send_at_the_tail, steal}, .check = nothing_is_lost,
      .preemptions = 2, .stale = 1)

/* One sender opens the tail, and the other finds it open. */
MODEL(a_sender_that_finds_the_tail_open_finds_its_slot, .setup = setup_two,
      .threads = {send_one, send_ten}, .check = nothing_is_lost, .stale = 1)

MODEL_ORDERS(the_orders_of_the_tail, "sync/channel_tail.h", model_all_matter,
             &model_a_sender_that_finds_the_tail_open_finds_its_slot,
             &model_a_message_at_the_tail_follows_those_inside)
