/* SPDX-License-Identifier: MIT
 *
 * Join and try_join of a fixed set of different futures: their outputs, which children they
 * poll, and in which order. Cancellation is in cancel_*.c. */
#include <errno.h>

#include "support/composites.h"

typedef AW_JOIN(struct leaf, aw_ready_ptr, aw_yield) unlike;
typedef AW_JOIN(struct leaf) one;
typedef AW_JOIN(struct leaf, struct leaf, struct leaf, struct leaf, struct leaf, struct leaf,
                struct leaf, struct leaf) eight;
typedef AW_TRY_JOIN(struct leaf, aw_ready_ptr, struct leaf) try_unlike;

TEST(a_join_gives_the_outputs_of_unlike_futures_in_its_members) {
    int x;
    struct script s = {.pends = 1, .busy = true};
    unlike j = AW_JOIN_OF(unlike, leaf(&s), aw_ready_pointer(&x), aw_yield_now());
    CHECK_EQ(drive_poll(&j.future), AW_PENDING);
    CHECK_EQ(drive_poll(&j.future), AW_READY);
    CHECK_EQ(j.out, 0);
    CHECK_EQ(j.f0.out, s.out);
    CHECK(j.f1.out == &x);
    script_take(&s);
    ownership_check_balanced();
}

TEST(a_join_does_nothing_before_it_is_polled) {
    struct script s = {.pends = 0};
    one j = AW_JOIN_OF(one, leaf(&s));
    CHECK_EQ(s.polls, 0);
    CHECK_EQ(drive_poll(&j.future), AW_READY);
    CHECK_EQ(s.polls, 1);
    script_take(&s);
    ownership_check_balanced();
}

TEST(a_join_polls_each_child_until_it_ends_and_not_once_more) {
    struct script s[8];
    for (int i = 0; i < 8; i++)
        s[i] = (struct script){.pends = i, .busy = true};
    eight j = AW_JOIN_OF(eight, leaf(&s[0]), leaf(&s[1]), leaf(&s[2]), leaf(&s[3]), leaf(&s[4]),
                         leaf(&s[5]), leaf(&s[6]), leaf(&s[7]));
    int calls = 0;
    while (drive_poll(&j.future) == AW_PENDING)
        calls++;
    CHECK_EQ(calls, 7);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(s[i].polls, i + 1);
        script_take(&s[i]);
    }
    ownership_check_balanced();
}

/* ---- Order ------------------------------------------------------------------------------------ */

/* The child that was called first in the latest poll. */
static int first_called(void) {
    int first = 0;
    for (int i = 1; i < 3; i++)
        if (child(i)->called_at < child(first)->called_at) first = i;
    return first;
}

#define ROTATES(kind)                                                                              \
    TEST(kind##_begins_with_another_child_at_each_poll) {                                          \
        aw_future *f = subject_make(kind, (struct script){.pends = NEVER});                        \
        int seen[3] = {0, 0, 0};                                                                   \
        for (int n = 0; n < 9; n++) {                                                              \
            CHECK_EQ(drive_poll(f), AW_PENDING);                                                   \
            seen[first_called()]++;                                                                \
        }                                                                                          \
        for (int i = 0; i < 3; i++)                                                                \
            CHECK_EQ(seen[i], 3);                                                                  \
        CHECK_EQ(drive_cancel(f), AW_CANCELLED);                                                   \
        subject_check_released();                                                                  \
    }
ROTATES(a_join)
ROTATES(a_join_by_reference)
ROTATES(a_try_join)
ROTATES(a_join_all_of_few)
ROTATES(a_try_join_all_of_few)
ROTATES(a_select_all_of_few)

TEST(a_biased_join_goes_top_to_bottom_each_time) {
    subject_prepare(a_join, (struct script){.pends = NEVER});
    subject.as.join = AW_JOIN_BIASED_OF(leaf_join, LEAVES3);
    aw_future *f = subject.future = &subject.as.join.future;
    for (int n = 0; n < 5; n++) {
        CHECK_EQ(drive_poll(f), AW_PENDING);
        CHECK_LT(child(0)->called_at, child(1)->called_at);
        CHECK_LT(child(1)->called_at, child(2)->called_at);
    }
    CHECK_EQ(drive_cancel(f), AW_CANCELLED);
    subject_check_released();
}

/* A child that always finds work uses up the whole budget of a poll. */
AW_ASYNC(int, greedy, long *done; aw_sleep s;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->s, aw_sleep_for(0));
        ++*self->done;
    }
    AW_END;
}

AW_ASYNC(int, stop_after, int n; aw_yield y;) {
    AW_BEGIN;
    for (; self->n; self->n--)
        AW_AWAIT(self->y, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

typedef AW_JOIN(struct greedy, struct greedy, struct greedy) greedy_join;
typedef AW_SELECT(greedy_join, struct stop_after) for_a_while;

TEST(a_greedy_child_of_a_join_does_not_starve_the_others) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    long done[3] = {0, 0, 0};
    greedy_join j = AW_JOIN_OF(greedy_join, AW_CALL(greedy, .done = &done[0]),
                               AW_CALL(greedy, .done = &done[1]),
                               AW_CALL(greedy, .done = &done[2]));
    for_a_while s = AW_SELECT_OF(for_a_while, j, AW_CALL(stop_after, .n = 300));
    CHECK_EQ(aw_block_on_future(rt, &s.future), 0);
    long min_done = done[0], max_done = done[0];
    for (int i = 1; i < 3; i++) {
        if (done[i] < min_done) min_done = done[i];
        if (done[i] > max_done) max_done = done[i];
    }
    CHECK_GT(min_done, 0);
    CHECK_LE(max_done - min_done, 3 * 128); /* the budget of a few polls */
    aw_runtime_free(rt);
}

/* ---- try_join --------------------------------------------------------------------------------- */

TEST(a_try_join_without_an_error_gives_all_outputs) {
    int x;
    struct script a = {.pends = 1, .busy = true}, b = {.pends = 0};
    try_unlike j = AW_TRY_JOIN_OF(try_unlike, leaf(&a), aw_ready_pointer(&x), leaf(&b));
    CHECK_EQ(drive_poll_to_end(&j.future), AW_READY);
    CHECK_EQ(j.out, 0);
    CHECK(j.f1.out == &x);
    script_take(&a);
    script_take(&b);
    ownership_check_balanced();
}

#define FIRST_ERROR_IN_TIME(kind)                                                                  \
    TEST(kind##_gives_the_error_that_came_first_and_cancels_the_rest) {                            \
        subject_prepare(kind, (struct script){.pends = NEVER});                                    \
        child(0)->error = -EBADF;                                                                  \
        child(2)->error = -EIO;                                                                    \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        script_finish(child(2));                                                                   \
        CHECK_EQ(drive_wakes(), 1);                                                                \
        CHECK_EQ(drive_poll(f), AW_READY);                                                         \
        CHECK_EQ(*(int *)aw_future_out(f), -EIO);                                                  \
        CHECK_EQ(child(0)->cancelled, 1);                                                          \
        CHECK_EQ(child(1)->cancelled, 1);                                                          \
        subject_discard();                                                                         \
    }
EVERY_TRY_JOIN(FIRST_ERROR_IN_TIME)

/* Errors are recognised in outputs of any signed integer type, and in no other. */
AW_ASYNC(long, says_long, long v;) {
    AW_BEGIN;
    AW_RETURN(self->v);
    AW_END;
}
AW_ASYNC(short, says_short, short v;) {
    AW_BEGIN;
    AW_RETURN(self->v);
    AW_END;
}
AW_ASYNC(unsigned, says_unsigned, unsigned v;) {
    AW_BEGIN;
    AW_RETURN(self->v);
    AW_END;
}
typedef AW_TRY_JOIN(struct says_long, struct says_short, struct says_unsigned) widths;

TEST(a_try_join_sees_errors_in_every_signed_integer_and_in_nothing_else) {
    widths j = AW_TRY_JOIN_OF(widths, AW_CALL(says_long, .v = 1L << 40),
                              AW_CALL(says_short, .v = 3), AW_CALL(says_unsigned, .v = -5u));
    CHECK_EQ(drive_poll(&j.future), AW_READY);
    CHECK_EQ(j.out, 0);
    j = AW_TRY_JOIN_OF(widths, AW_CALL(says_long, .v = 1), AW_CALL(says_short, .v = -EIO),
                       AW_CALL(says_unsigned, .v = 1));
    CHECK_EQ(drive_poll(&j.future), AW_READY);
    CHECK_EQ(j.out, -EIO);
    j = AW_TRY_JOIN_OF(widths, AW_CALL(says_long, .v = -EBADF), AW_CALL(says_short, .v = 0),
                       AW_CALL(says_unsigned, .v = 1));
    CHECK_EQ(drive_poll(&j.future), AW_READY);
    CHECK_EQ(j.out, -EBADF);
}

/* ---- Moving ----------------------------------------------------------------------------------- */

TEST(a_group_may_be_moved_and_spawned_before_its_first_poll) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    subject_prepare(a_join, (struct script){.pends = 2, .busy = true});
    leaf_join first = AW_JOIN_OF(leaf_join, LEAVES3), moved = first;
    first = (leaf_join){.out = 0};
    leaf_join *task = aw_spawn_on(rt, moved);
    moved = first;
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), 0);
    CHECK_EQ(task->out, 0);
    CHECK_EQ(task->f2.out, child(2)->out);
    for (int i = 0; i < 3; i++)
        script_take(child(i));
    aw_task_drop(task);
    aw_runtime_free(rt);
    subject_check_released();
}

static void poll_at_another_address(void) {
    subject_make(a_join, (struct script){.pends = NEVER});
    CHECK_EQ(drive_poll(subject.future), AW_PENDING);
    static leaf_join elsewhere;
    elsewhere = subject.as.join;
    drive_poll(&elsewhere.future);
}

TEST(a_group_that_moves_after_its_first_poll_is_caught) {
    DIES(poll_at_another_address(), "was moved after its first poll");
}

/* ---- By reference ----------------------------------------------------------------------------- */

AW_ASYNC(int, members, struct script *s; struct leaf a, b; struct relay c; aw_group j;) {
    AW_BEGIN;
    self->a = leaf(&self->s[0]);
    self->b = leaf(&self->s[1]);
    self->c = AW_CALL(relay, .script = &self->s[2]);
    AW_AWAIT(self->j, aw_join_refs(&self->a, &self->b, &self->c));
    ownership_release(self->a.out);
    ownership_release(self->b.out);
    AW_RETURN(self->c.out);
    AW_END;
}

TEST(a_join_by_reference_runs_members_of_the_frame) {
    struct script s[3] = {{.pends = 1, .busy = true}, {.pends = 2, .busy = true}, {.pends = 0}};
    struct members f = AW_CALL(members, .s = s);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_EQ(f.out, s[2].out);
    script_take(&s[2]);
    ownership_check_balanced();
}

TEST(erased_code_makes_groups_of_pointers) {
    struct script s[2] = {{.pends = 0}, {.pends = 0, .error = -EIO}};
    struct leaf a = leaf(&s[0]), b = leaf(&s[1]);
    aw_group g = aw_group_of(&aw_try_join_type, false, (aw_future *[]){&a.future, &b.future}, 2);
    CHECK_EQ(drive_poll(&g.future), AW_READY);
    CHECK_EQ(g.out, -EIO);
    CHECK_EQ(s[0].discards, 1);
    g = aw_group_of(&aw_join_type, false, NULL, 0);
    CHECK_EQ(drive_poll(&g.future), AW_READY);
    ownership_check_balanced();
}

static void nine(void) {
    aw_future *none[9] = {NULL};
    aw_group_of(&aw_join_type, false, none, 9);
}

TEST(a_group_of_more_than_eight_is_refused) {
    DIES(nine(), "at most 8");
}

/* One of the children was polled before, by itself. */
TEST(a_join_by_reference_takes_a_child_that_has_finished_as_done) {
    struct script s[2] = {{.pends = 0}, {.pends = 1, .busy = true}};
    struct leaf a = leaf(&s[0]), b = leaf(&s[1]);
    CHECK_EQ(drive_poll(&a.future), AW_READY);
    aw_group j = aw_join_refs(&a, &b);
    CHECK_EQ(drive_poll_to_end(&j.future), AW_READY);
    CHECK_EQ(s[0].polls, 1);
    script_take(&s[0]);
    script_take(&s[1]);
    ownership_check_balanced();
}
