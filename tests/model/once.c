/* SPDX-License-Identifier: MIT
 *
 * sync/once.c under every schedule: there is one maker, a maker that gives up hands over, and a
 * thread that sees DONE sees the value. */
#include "support/model.h"

#define AW__WAKES 1
#include "support/model_waiting.h"
#include "sync/once.c"

static AW_ONCE_CELL(int) cell;
static aw_once_future futures[MODEL_THREADS];
static int makers;

static void setup(void) {
    setup_waiting();
    memset(&cell, 0, sizeof cell);
    memset(futures, 0, sizeof futures);
    makers = 0;
}

static void make(bool gives_up) {
    model_check(aw__fetch_add(&makers, 1) == 0);
    if (!gives_up) model_write(&cell.value, 5);
    aw__fetch_sub(&makers, 1);
    gives_up ? aw_once_undone(&cell.once) : aw_once_done(&cell.once);
}
static void enter(bool gives_up) {
    aw_once_future *f = &futures[model_self()];
    *f = aw_once_enter(&cell);
    wait_for(&f->future);
    if (f->out == 1)
        make(gives_up);
    else
        model_check(model_read(&cell.value) == 5);
}
static void enter_and_make(void) {
    enter(false);
}
static void enter_and_give_up(void) {
    enter(true);
}
static void enter_or_cancel(void) {
    aw_once_future *f = &futures[model_self()];
    *f = aw_once_enter(&cell);
    if (poll_once(&f->future) == AW_PENDING && cancel_once(&f->future) == AW_CANCELLED) return;
    aw_future_discard(&f->future);
}
static void look_at_it(void) {
    if (aw_once_is_done(&cell.once)) model_check(model_read(&cell.value) == 5);
}
static void it_is_made(void) {
    model_check(cell.once.state == ONCE_DONE && cell.value == 5);
    model_check(!cell.once.waiters.first && !cell.once.lock && !makers);
}

MODEL(one_makes_it_and_the_others_see_it, .setup = setup,
      .threads = {enter_and_make, enter_and_make, look_at_it}, .check = it_is_made)
MODEL(a_maker_that_gives_up_hands_over, .setup = setup,
      .threads = {enter_and_make, enter_and_give_up, enter_and_make}, .check = it_is_made,
      .stale = 1)
MODEL(a_cancelled_maker_hands_over, .setup = setup,
      .threads = {enter_and_make, enter_or_cancel, enter_and_make}, .check = it_is_made, .stale = 1)

MODEL_ORDERS(the_orders_of_once, "sync/once.c", model_all_matter,
             &model_one_makes_it_and_the_others_see_it, &model_a_maker_that_gives_up_hands_over)
