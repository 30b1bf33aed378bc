/* SPDX-License-Identifier: MIT
 *
 * sync/notify.c under every schedule: a future waits from its creation, so a condition that is
 * tested between its creation and its first poll is not missed; and one notification wakes one
 * waiter. */
#include "support/model.h"

#include "support/model_waiting.h"
#include "sync/notify.c"

static aw_notify notify;
static aw_notified futures[MODEL_THREADS];
static uint32_t done; /* the condition; relaxed, so that it orders nothing by itself */

static void setup(void) {
    setup_waiting();
    memset(&notify, 0, sizeof notify);
    memset(futures, 0, sizeof futures);
    done = 0;
}

/* ---- To all ---------------------------------------------------------------------------------- */

static void make_then_test(void) {
    aw_notified *f = &futures[model_self()];
    *f = aw_notify_wait(&notify);
    if (!aw__load_relaxed(&done)) wait_for(&f->future);
}
static void test_then_make(void) {
    aw_notified *f = &futures[model_self()];
    if (aw__load_relaxed(&done)) return;
    *f = aw_notify_wait(&notify);
    wait_for(&f->future);
}
static void make_then_give_up(void) {
    aw_notified *f = &futures[model_self()];
    *f = aw_notify_wait(&notify);
    if (aw__load_relaxed(&done)) return;
    if (poll_once(&f->future) == AW_PENDING) cancel_once(&f->future);
}
static void set_and_notify_all(void) {
    aw__store_relaxed(&done, 1u);
    aw_notify_waiters(&notify);
}
static void no_waiter_and_no_permit_is_left(void) {
    model_check(!notify.first && !notify.last && !notify.lock && !notify.permit);
}

MODEL(a_condition_that_is_tested_after_making_the_future_is_not_missed, .setup = setup,
      .threads = {make_then_test, make_then_test, set_and_notify_all},
      .check = no_waiter_and_no_permit_is_left)
MODEL(one_that_gives_up_leaves_nothing, .setup = setup,
      .threads = {make_then_give_up, make_then_test, set_and_notify_all},
      .check = no_waiter_and_no_permit_is_left)
MODEL_BROKEN(a_condition_that_is_tested_before_making_the_future_is_missed, "wait", .setup = setup,
             .threads = {test_then_make, set_and_notify_all})

/* ---- To one ---------------------------------------------------------------------------------- */

static void wait_for_one(void) {
    aw_notified *f = &futures[model_self()];
    *f = aw_notify_wait(&notify);
    wait_for(&f->future);
}
static void notify_one(void) {
    aw_notify_one(&notify);
}

MODEL(a_notification_to_one_is_kept_or_wakes, .setup = setup, .threads = {wait_for_one, notify_one},
      .check = no_waiter_and_no_permit_is_left)

static const struct model_harmless harmless[] = {
    {"deliver", "w->future.state", "release",
     "the poll that sees it takes the lock before it ends"},
    {"notified_state", "w->future.state", "acquire",
     "the poll that sees it takes the lock before it ends"},
    {NULL, NULL, NULL, NULL},
};

MODEL_ORDERS(the_orders_of_notify, "sync/notify.c", harmless,
             &model_a_condition_that_is_tested_after_making_the_future_is_not_missed,
             &model_a_notification_to_one_is_kept_or_wakes)
MODEL_ORDERS(the_order_in_which_a_future_is_made, "awake/notify.h", model_all_matter,
             &model_a_condition_that_is_tested_after_making_the_future_is_not_missed)
