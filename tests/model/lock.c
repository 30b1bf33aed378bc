/* SPDX-License-Identifier: MIT
 *
 * os/lock.h under every schedule. */
#include "support/model.h"

#include <sched.h>
#define sched_yield() model_yield()

#define aw__lock_slow aw__lock_slow_modelled /* next to the library's */
#include "os/lock.h"
#include "os/lock.c"

static uint32_t lock;
static int count;

static void setup(void) {
    lock = 0;
    count = 0;
}
static void add(void) {
    aw__lock(&lock);
    model_write(&count, model_read(&count) + 1);
    aw__unlock(&lock);
}
static void add_twice(void) {
    add();
    add();
}
static void all_added(void) {
    model_check(count == 3 && lock == 0);
}

MODEL(the_lock_lets_one_thread_in_at_a_time, .setup = setup, .threads = {add, add, add},
      .check = all_added)
MODEL(the_lock_can_be_taken_again, .setup = setup, .threads = {add, add_twice}, .check = all_added,
      .preemptions = MODEL_UNBOUNDED, .stale = 4)

static const struct model_harmless harmless[] = {
    {"aw__lock", "aw__exchange(lock, 1u)", "release",
     "taking the lock passes on nothing; what the previous holder passes on continues through the "
     "exchange, whatever its order"},
    {"aw__lock_slow_modelled", "aw__exchange(lock, 1u)", "release", "likewise"},
    {0}};

MODEL_ORDERS(the_orders_of_the_lock, "/lock.", harmless,
             &model_the_lock_lets_one_thread_in_at_a_time, &model_the_lock_can_be_taken_again)
