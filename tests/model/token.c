/* SPDX-License-Identifier: MIT
 *
 * sync/token.c under every schedule: waiters are woken, and a token is freed once and after its
 * last use, in whatever order the references are dropped. */
#include "support/model.h"

#include "support/model_waiting.h"

#include "base/allocate.h"
#define aw__alloc(a, size)   ((void)(a), model_alloc(size))
#define aw__free(a, p, size) ((void)(a), model_free(p))
#include "sync/token.c"

static aw_token *root, *child;
static aw_token_future futures[MODEL_THREADS];
static int note;

static void setup(void) {
    setup_waiting();
    root = aw_token_new();
    child = aw_token_child(root);
    memset(futures, 0, sizeof futures);
    note = 0;
}

/* Each thread has a reference to the token it uses, and drops it. */
static void cancel_root(void) {
    model_write(&note, 1);
    aw_token_cancel(root);
    aw_token_drop(root);
}
static void wait_for_child(void) {
    aw_token_future *f = &futures[model_self()];
    *f = aw_token_cancelled(child);
    wait_for(&f->future);
    model_check(f->out == 0 && model_read(&note) == 1);
    aw_token_drop(child);
}
static void look_at_child(void) {
    if (aw_token_is_cancelled(child)) model_check(model_read(&note) == 1);
    aw_token_drop(child);
}
static void drop_child(void) {
    aw_token_drop(child);
}
static void make_grandchild(void) {
    aw_token *t = aw_token_child(child);
    aw_token_drop(child);
    aw_token_drop(t);
}
static void setup_two(void) {
    setup();
    aw_token_keep(child);
}
static void nothing_is_left(void) {
    model_check(model_allocated() == 0);
}

MODEL(a_waiter_on_a_child_is_woken, .setup = setup, .threads = {wait_for_child, cancel_root},
      .check = nothing_is_left)
MODEL(two_waiters_are_woken, .setup = setup_two,
      .threads = {wait_for_child, wait_for_child, cancel_root}, .check = nothing_is_left,
      .stale = 1)
MODEL(what_was_before_the_cancel_is_seen_after_it, .setup = setup,
      .threads = {look_at_child, cancel_root}, .check = nothing_is_left)
MODEL(a_child_may_go_while_its_parent_is_cancelled, .setup = setup_two,
      .threads = {drop_child, cancel_root, make_grandchild}, .check = nothing_is_left, .stale = 1)

static const struct model_harmless harmless[] = {
    {"token_ref_if_alive", "aw__cas(", "acquire",
     "its references keep it, and it is read under the lock"},
    {"token_ref_if_alive", "aw__cas(", "release", "likewise"},
    {"token_ref_if_alive", "aw__cas(", "failure", "likewise"},
    {0}};

MODEL_ORDERS(the_orders_of_tokens, "sync/token.c", harmless, &model_a_waiter_on_a_child_is_woken,
             &model_two_waiters_are_woken, &model_what_was_before_the_cancel_is_seen_after_it,
             &model_a_child_may_go_while_its_parent_is_cancelled)
