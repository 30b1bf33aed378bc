/* SPDX-License-Identifier: MIT
 *
 * os/park.c under every schedule, on the modelled futex: no token is lost, and what happened
 * before an unpark is visible after the park that took its token. */
#include "support/model.h"
#include "support/model_park.h"

static uint32_t word;
static int data[2], timeouts;

static void setup(void) {
    word = 0;
    data[0] = data[1] = timeouts = 0;
}
static void unpark(void) {
    model_write(&data[model_self() - 1], 1);
    aw__os_unpark(&word);
}
static void unpark_twice(void) {
    unpark();
    aw__os_unpark(&word);
}
static void park(void) {
    model_check(aw__os_park(&word, UINT64_MAX));
}

static void park_once(void) {
    park();
    model_check(model_read(&data[0]) == 1);
}
/* The deadline is now. */
static void park_for_a_while(void) {
    while (!aw__os_park(&word, 0))
        timeouts++;
    model_check(model_read(&data[0]) == 1);
}
static void at_most_one_token_is_left(void) {
    model_check(word <= 1);
}

MODEL(a_token_is_never_lost, .setup = setup, .threads = {park_once, unpark_twice},
      .check = at_most_one_token_is_left, .preemptions = MODEL_UNBOUNDED)
MODEL(a_token_is_taken_even_when_the_deadline_comes, .setup = setup,
      .threads = {park_for_a_while, unpark}, .check = at_most_one_token_is_left)

/* One token may stand for two unparks: what happened before either is visible, or the last park
 * never returns. */
static uint32_t counter;

static void setup_counter(void) {
    setup();
    counter = 0;
}
static void count_and_unpark(void) {
    aw__fetch_add_relaxed(&counter, 1u);
    aw__os_unpark(&word);
}
static void park_until_both_have_counted(void) {
    do
        park();
    while (aw__load_relaxed(&counter) < 2);
}

MODEL(a_token_stands_for_all_unparks_before_it, .setup = setup_counter,
      .threads = {park_until_both_have_counted, count_and_unpark, count_and_unpark},
      .check = at_most_one_token_is_left)

static void park_again(void) {
    park_once();
    park();
}
static void answer(void) {
    unpark();
    model_wait(model__has_token, &counter);
    aw__os_unpark(&word);
}
static void park_and_ask(void) {
    park_once();
    aw__store_relaxed(&counter, 1u);
    park();
}

MODEL(each_of_two_tokens_is_taken, .setup = setup_counter, .threads = {park_and_ask, answer})
MODEL_BROKEN(two_unparks_may_leave_one_token, "deadlock", .setup = setup_counter,
             .threads = {park_again, unpark_twice})

/* ---- Sleeping elsewhere ---------------------------------------------------------------------- */

/* A bell that rings until it is heard, like a readable descriptor. `bell_of` is known when a
 * thread sleeps there. */
static uint32_t bell;
static uint32_t *bell_of;

static void setup_bell(void) {
    setup();
    bell = 0;
    bell_of = NULL;
}
static void ring_or_unpark(void) {
    model_write(&data[0], 1);
    if (aw__os_unpark(&word)) aw__store_release((uint32_t *)model_read(&bell_of), 1u);
}
static void sleep_by_the_bell(void) {
    model_write(&bell_of, &bell);
    if (aw__os_park_elsewhere(&word)) {
        model_wait(model__has_token, &bell);
        model_check(aw__os_unparked(&word));
    }
    model_check(model_read(&data[0]) == 1);
}
static void setup_bell_and_counter(void) {
    setup_bell();
    counter = 0;
}
static void count_and_ring(void) {
    aw__fetch_add_relaxed(&counter, 1u);
    if (aw__os_unpark(&word)) model_unpark(&bell);
}
static void sleep_until_both_have_counted(void) {
    do
        if (aw__os_park_elsewhere(&word)) {
            model_park(&bell);
            model_check(aw__os_unparked(&word));
        }
    while (aw__load_relaxed(&counter) < 2);
}

MODEL(a_token_stands_for_all_unparks_before_it_elsewhere, .setup = setup_bell_and_counter,
      .threads = {sleep_until_both_have_counted, count_and_ring, count_and_ring})
MODEL(a_thread_that_sleeps_elsewhere_is_woken_there, .setup = setup_bell,
      .threads = {sleep_by_the_bell, ring_or_unpark}, .preemptions = MODEL_UNBOUNDED)

/* A token passes from the exchange that leaves it (release) to the one that takes it (acquire). */
static const struct model_harmless harmless[] = {
    {"aw__os_park", "aw__exchange(", "release", "parking passes on nothing"},
    {"aw__os_park", "aw__cas(", "release", "parking passes on nothing"},
    {"aw__os_park", "aw__cas(", "acquire", "the thread itself wrote EMPTY"},
    {"aw__os_park", "aw__cas(", "failure", "the exchange that follows takes the token"},
    {"aw__os_park_elsewhere", "aw__cas(", "acquire", "the thread itself wrote EMPTY"},
    {"aw__os_park_elsewhere", "aw__cas(", "failure", "the exchange that follows takes the token"},
    {"aw__os_park_elsewhere", "aw__exchange(", "release", "as in a park"},
    {"aw__os_unparked", "aw__exchange(", "release", "as in a park"},
    {0}};

MODEL_ORDERS(the_orders_of_parking, "os/park.c", harmless, &model_a_token_is_never_lost,
             &model_a_token_is_taken_even_when_the_deadline_comes,
             &model_a_token_stands_for_all_unparks_before_it, &model_each_of_two_tokens_is_taken,
             &model_a_thread_that_sleeps_elsewhere_is_woken_there,
             &model_a_token_stands_for_all_unparks_before_it_elsewhere)
