/* SPDX-License-Identifier: MIT
 *
 * Cancel tokens: a tree; descendants are cancelled too, ancestors are not; dropped in any order. */
#include "support/by_hand.h"
#include "support/workers.h"

static memory tokens_of;

/* Counts the memory of tokens, to check that all of it is freed. */
static void count_memory(void) {
    memory_init(&tokens_of);
    aw_set_allocator(&tokens_of.allocator);
}
static void nothing_is_left(void) {
    CHECK_EQ(memory_in_use(&tokens_of), 0);
    aw_set_allocator(NULL);
}

TEST(a_cancelled_token_ends_all_waits) {
    enum { COUNT = 30 }; /* more than one batch of wakes */
    static aw_token_future w[COUNT];
    static aw_flag flags[COUNT];
    aw_flag flag = {0};
    count_memory();
    aw_token *t = aw_token_new();
    for (int i = 0; i < COUNT; i++) {
        w[i] = aw_token_cancelled(t);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    CHECK(!aw_token_is_cancelled(t));
    aw_token_cancel(t);
    CHECK(aw_token_is_cancelled(t));
    for (int i = 0; i < COUNT; i++) {
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
        CHECK_EQ(w[i].out, 0);
    }
    aw_token_future late = aw_token_cancelled(t);
    CHECK_EQ(POLL(&late, &flag), AW_READY);
    aw_token_cancel(t);
    aw_token_drop(t);
    aw_token_drop(NULL);
    nothing_is_left();
}

/*        root
 *       /    \
 *    left    right
 *    /  \
 *   a    b             */
TEST(what_is_below_is_cancelled_and_what_is_above_is_not) {
    count_memory();
    aw_token *root = aw_token_new(), *left = aw_token_child(root), *right = aw_token_child(root),
             *a = aw_token_child(left), *b = aw_token_child(left);
    aw_token *all[] = {root, left, right, a, b};
    aw_token_future w[5];
    aw_flag flags[5] = {{0}};
    for (int i = 0; i < 5; i++) {
        w[i] = aw_token_cancelled(all[i]);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    aw_token_cancel(a);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(aw_flag_take(&flags[i]), i == 3);
        CHECK_EQ(aw_token_is_cancelled(all[i]), i == 3);
    }
    aw_token_cancel(left);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(aw_flag_take(&flags[i]), i == 1 || i == 4); /* none of them twice */
        CHECK_EQ(aw_token_is_cancelled(all[i]), i != 0 && i != 2);
    }
    aw_token_cancel(root);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(aw_flag_take(&flags[i]), i == 0 || i == 2);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
        aw_token_drop(all[i]);
    }
    nothing_is_left();
}

TEST(a_child_of_a_cancelled_token_is_cancelled_from_the_start) {
    count_memory();
    aw_flag flag = {0};
    aw_token *t = aw_token_new();
    aw_token_cancel(t);
    aw_token *child = aw_token_child(t), *grandchild = aw_token_child(child);
    CHECK(aw_token_is_cancelled(child) && aw_token_is_cancelled(grandchild));
    aw_token_future w = aw_token_cancelled(grandchild);
    CHECK_EQ(POLL(&w, &flag), AW_READY);
    aw_token_drop(t);
    aw_token_drop(child);
    aw_token_drop(grandchild);
    nothing_is_left();
}

TEST(parents_may_be_released_first) {
    count_memory();
    aw_token *root = aw_token_new(), *middle = aw_token_child(root), *leaf = aw_token_child(middle);
    aw_token_drop(middle);
    aw_token_keep(root);
    aw_token_drop(root);
    CHECK(!aw_token_is_cancelled(leaf));
    aw_token_cancel(root); /* it is still an ancestor */
    CHECK(aw_token_is_cancelled(leaf));
    aw_token_drop(root);
    CHECK_NE(memory_in_use(&tokens_of), 0);
    aw_token_drop(leaf);
    nothing_is_left();
}

TEST(a_long_chain_is_cancelled_and_released) {
    enum { DEEP = 100000 };
    count_memory();
    aw_token *root = aw_token_new(), *t = aw_token_keep(root);
    for (int i = 0; i < DEEP; i++) {
        aw_token *child = aw_token_child(t);
        aw_token_drop(t);
        t = child;
    }
    aw_token_cancel(root);
    CHECK(aw_token_is_cancelled(t));
    aw_token_drop(root);
    aw_token_drop(t);
    nothing_is_left();
}

TEST(without_memory_there_is_no_token) {
    count_memory();
    aw_token *t = aw_token_new();
    tokens_of.refuse = 1;
    CHECK(aw_token_new() == NULL);
    CHECK(aw_token_child(t) == NULL);
    tokens_of.refuse = 0;
    aw_token_drop(t);
    nothing_is_left();
}

/* cancel-at-every-await: aw_token_cancelled */

TEST(a_wait_can_be_cancelled_at_any_moment) {
    count_memory();
    aw_flag flag = {0}, other = {0};
    aw_token *t = aw_token_new();
    aw_token_future never_polled = aw_token_cancelled(t), pending = aw_token_cancelled(t),
                    over = aw_token_cancelled(t);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(POLL(&over, &flag), AW_PENDING);
    CHECK_EQ(POLL(&over, &other), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    DIES(CANCEL(&pending, &other), "cancelled after it had been cancelled");
    aw_token_cancel(t);
    CHECK(!aw_flag_take(&flag) && aw_flag_take(&other));
    CHECK_EQ(CANCEL(&over, &flag), AW_READY);
    aw_token_drop(t);
    nothing_is_left();
}

/* ---- Many at once ---------------------------------------------------------------------------- */

/* Creates child tokens, waits, and drops everything in some order. */
AW_ASYNC(int, stops, aw_token *t; int depth; struct stops * child; aw_token * below;
         AW_SELECT(aw_token_future, aw_never) s; aw_task_join_future join;) {
    AW_BEGIN;
    if (self->depth) {
        self->below = aw_token_child(self->t);
        self->child = aw_spawn(
            AW_CALL(stops, .t = aw_token_keep(self->below), .depth = self->depth - 1));
        if (self->depth % 2) {
            aw_token_drop(self->below);
            self->below = NULL;
        }
    }
    AW_AWAIT_SELECT(self->s, aw_token_cancelled(self->t), aw_never_ready());
    CHECK_EQ(self->s.out, 1);
    CHECK(aw_token_is_cancelled(self->t));
    aw_token_drop(self->t);
    if (self->child) {
        AW_AWAIT(self->join, aw_task_join(self->child));
        CHECK_EQ(aw_task_take(self->child), self->depth - 1);
    }
    aw_token_drop(self->below);
    AW_RETURN(self->depth);
    AW_END;
}

static void cancel_it(void *arg, int index, uint64_t *random) {
    (void)index;
    jitter(random);
    aw_token_cancel(arg);
    aw_token_drop(arg);
}

ON_BOTH(tasks_that_make_children_all_stop) {
    uint64_t random = test_seed();
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int i = 0; i < test_scale(100); i++) {
        count_memory();
        aw_token *t = aw_token_new();
        thread_group threads;
        thread_group_create(&threads, 2, &random, cancel_it, t);
        for (int k = 0; k < 2; k++)
            aw_token_keep(t);
        struct stops *s = aw_spawn_on(rt, AW_CALL(stops, .t = aw_token_keep(t), .depth = 6));
        aw_token_drop(t);
        thread_group_go(&threads);
        must_finish(rt, &s->future);
        CHECK_EQ(aw_task_take(s), 6);
        thread_group_join(&threads);
        nothing_is_left();
    }
    workers_end(rt, NULL);
}

/* Children are created and dropped while the token is cancelled. A thread that waits for its own
 * child is woken. */
static void come_and_go(void *arg, int index, uint64_t *random) {
    aw_token *t = arg;
    if (index == 0) {
        jitter(random);
        aw_token_cancel(t);
        return;
    }
    for (int i = 0; i < 20; i++) {
        aw_token *child = aw_token_child(t), *leaf = aw_token_child(child);
        if (chance(random, 2)) aw_token_drop(child), child = NULL;
        if (i == 19) CHECK_EQ(aw_wait(aw_token_cancelled(leaf)), 0);
        aw_token_drop(leaf);
        aw_token_drop(child);
    }
}

TEST(children_come_and_go_while_their_parent_is_cancelled) {
    uint64_t random = test_seed();
    for (int i = 0; i < test_scale(200); i++) {
        aw_token *t = aw_token_new();
        thread_group threads;
        thread_group_create(&threads, 4, &random, come_and_go, t);
        thread_group_go(&threads);
        thread_group_join(&threads);
        CHECK(aw_token_is_cancelled(t));
        aw_token_drop(t);
    }
}
