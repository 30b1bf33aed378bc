/* SPDX-License-Identifier: MIT
 *
 * What channel.c has, with the back of the channel open wherever it may be: sync/back.h. */
#define AW__BACK_CAPACITY 1
#define AW__BACK_ROOM     1
#include "channel.c"

/* ---- Two sides -------------------------------------------------------------------------------- */

/* One message is inside, and the back is open for another one. */
static void setup_open(void) {
    setup_two();
    values[0] = 1;
    model_check(aw__channel_try_send(&chan->channel, &values[0]) == 0);
    model_check(aw__back_is_open(&chan->channel));
    sent = 1;
}

static void send_at_the_back(void) {
    model_check(send_value(10) == 0);
}
static void both_are_received(void) {
    model_check(sum == 11);
    nothing_is_lost();
}
MODEL(a_message_at_the_back_follows_those_inside, .setup = setup_open,
      .threads = {receive_two, send_at_the_back}, .check = both_are_received, .stale = 1)

/* The second of them finds no room and waits until there is. */
MODEL(two_senders_at_the_back_do_not_take_more_than_there_is, .setup = setup_open,
      .threads = {receive_two, send_at_the_back, send_one}, .check = nothing_is_lost,
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
MODEL(what_is_at_the_back_counts, .setup = setup_open, .threads = {try_both, look_at_it, rob},
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
MODEL(what_was_sent_at_the_back_before_a_close_is_drained, .setup = setup_open,
      .threads = {close_and_drain, send_or_find_closed, send_or_find_closed},
      .check = all_that_was_sent_is_received, .preemptions = 2, .stale = 1)

static void receive_two_and_free(void) {
    model_check(receive_value() == 0);
    model_check(receive_value() == 0);
    model_free(chan);
}
MODEL(who_got_the_message_from_the_back_may_free_the_channel, .setup = setup_open,
      .threads = {receive_two_and_free, send_at_the_back}, .stale = 1)

MODEL(what_is_given_back_comes_before_what_is_at_the_back, .setup = setup_open,
      .threads = {give_back, send_at_the_back, rob}, .check = nothing_is_lost, .preemptions = 2,
      .stale = 1)

/* One opens it, and the other one finds it open. */
MODEL(who_finds_it_open_finds_its_slot, .setup = setup_two, .threads = {send_one, send_ten},
      .check = nothing_is_lost, .stale = 1)

MODEL_ORDERS(the_orders_of_the_back, "sync/back.h", model_all_matter,
             &model_who_finds_it_open_finds_its_slot,
             &model_a_message_at_the_back_follows_those_inside)
