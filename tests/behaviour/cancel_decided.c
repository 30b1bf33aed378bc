/* SPDX-License-Identifier: MIT
 *
 * Decided: a future that already has its result only waits for its children to end when it is
 * cancelled, and ends READY. */
#include <errno.h>

#include "support/settle.h"
#include "support/composites.h"

/* A loser that takes two calls to cancel. */
static const struct script slow = {.pends = NEVER, .cancel_pends = 1};
/* Stays pending until script_finish_cancel. */
static const struct script stubborn = {.pends = NEVER, .cancel_pends = 1000};

#define SELECT_ENDS_READY(kind)                                                                    \
    TEST(kind##_that_has_a_winner_ends_ready_when_cancelled) {                                     \
        subject_prepare(kind, stubborn);                                                           \
        *child(1) = (struct script){.pends = 1};                                                   \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        script_finish(child(1));                                                                   \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(child(1)->finished, 1);                                                           \
        CHECK_EQ(child(0)->cancels, 1);                                                            \
        child(-1)->wins = true;                                                                    \
        for (int i = 0; i < subject.children; i++) {                                               \
            if (i == 1) continue;                                                                  \
            script_finish_cancel(child(i));                                                        \
            CHECK_EQ(drive_cancel(f), i + 1 < subject.children ? AW_PENDING : AW_READY);           \
        }                                                                                          \
        CHECK_EQ(count_discards(), 0);                                                             \
        if (is_select_of_three(kind)) {                                                            \
            CHECK_EQ(*(int *)aw_future_out(f), 1 << 1 | 1 << 2);                                   \
            CHECK_EQ(aw__select_winner(f), 1);                                                     \
        } else {                                                                                   \
            CHECK_EQ(subject.as.all.out, 1);                                                       \
            CHECK_EQ(aw_select_all_winner(&subject.as.all), 1);                                    \
        }                                                                                          \
        CHECK_EQ(child(-1)->discards, 1);                                                          \
        script_take(child(1));                                                                     \
        subject_check_released();                                                                  \
    }
EVERY_SELECT(SELECT_ENDS_READY)

#define TRY_JOIN_ENDS_READY(kind)                                                                  \
    TEST(kind##_that_has_an_error_ends_with_it_when_cancelled) {                                   \
        subject_prepare(kind, stubborn);                                                           \
        *child(0) = (struct script){.pends = 0};                                                   \
        *child(1) = (struct script){.pends = 1, .error = -EIO};                                    \
        child(-1)->wins = true;                                                                    \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(child(-1)->cancels, 0);                                                           \
        script_finish(child(1));                                                                   \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(child(-1)->cancels, 1);                                                           \
        for (int i = 2; i < subject.children; i++) {                                               \
            script_finish_cancel(child(i));                                                        \
            CHECK_EQ(drive_cancel(f), i + 1 < subject.children ? AW_PENDING : AW_READY);           \
        }                                                                                          \
        CHECK_EQ(*(int *)aw_future_out(f), -EIO);                                                  \
        CHECK_EQ(child(0)->discards, 1);                                                           \
        CHECK_EQ(child(-1)->discards, 1);                                                          \
        subject_discard();                                                                         \
    }
EVERY_TRY_JOIN(TRY_JOIN_ENDS_READY)

/* The other children are cancelled because of the error; that is no cut. */
#define TRY_JOIN_IS_NOT_CUT(kind)                                                                  \
    TEST(kind##_that_has_an_error_is_not_cut_by_parts_that_are_gone) {                             \
        subject_prepare(kind, stubborn);                                                           \
        *child(1) = (struct script){.pends = NEVER, .error = -EIO};                                \
        child(0)->pends = 0;                                                                       \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        script_finish(child(1));                                                                   \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        for (int i = 2; i < subject.children; i++)                                                 \
            script_finish_cancel(child(i));                                                        \
        CHECK_EQ(drive_cancel(f), AW_READY);                                                       \
        CHECK_EQ(*(int *)aw_future_out(f), -EIO);                                                  \
        CHECK_EQ(child(2)->cancelled, 1);                                                          \
        CHECK_EQ(child(0)->discards, 1);                                                           \
        subject_discard();                                                                         \
    }
EVERY_TRY_JOIN(TRY_JOIN_IS_NOT_CUT)

/* An error of a child that is being cancelled comes second. */
#define FIRST_ERROR_STANDS(kind)                                                                   \
    TEST(kind##_keeps_its_first_error_while_it_winds_up) {                                         \
        subject_prepare(kind, slow);                                                               \
        *child(1) = (struct script){.pends = 0, .error = -EIO};                                    \
        child(-1)->wins = true;                                                                    \
        child(-1)->error = -EBADF;                                                                 \
        for (int i = 0; i < subject.children; i++)                                                 \
            child(i)->busy = true;                                                                 \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll_to_end(f), AW_READY);                                                  \
        CHECK_EQ(*(int *)aw_future_out(f), -EIO);                                                  \
        subject_discard();                                                                         \
    }
EVERY_TRY_JOIN(FIRST_ERROR_STANDS)

/* ---- Timeout ---------------------------------------------------------------------------------- */

static leaf_timeout *expired(struct script s) {
    subject_prepare(a_timeout, s);
    subject.as.timeout = AW_TIMEOUT_AT_OF(leaf_timeout, 0, leaf(child(0)));
    subject.future = &subject.as.timeout.future;
    CHECK_EQ(drive_poll(subject.future), AW_PENDING);
    CHECK_EQ(child(0)->cancels, 1);
    return &subject.as.timeout;
}

TEST(a_timeout_that_has_expired_ends_ready_when_cancelled) {
    leaf_timeout *t = expired(slow);
    CHECK_EQ(drive_cancel(&t->future), AW_READY);
    CHECK_EQ(t->out, -ETIMEDOUT);
    CHECK_EQ(child(0)->cancelled, 1);
    subject_discard();
    CHECK_EQ(child(0)->discards, 0);
}

TEST(a_timeout_that_has_expired_and_is_cancelled_still_gives_a_value_that_came) {
    leaf_timeout *t = expired((struct script){.pends = NEVER, .cancel_pends = 2, .wins = true});
    CHECK_EQ(drive_cancel(&t->future), AW_PENDING);
    CHECK_EQ(drive_cancel(&t->future), AW_READY);
    CHECK_EQ(t->out, 0);
    CHECK_EQ(t->inner.out, child(0)->out);
    subject_discard();
    CHECK_EQ(child(0)->discards, 1);
}

/* ---- Functions and boxes ---------------------------------------------------------------------- */

AW_ASYNC(int, past_return, struct script *s; struct leaf l;) {
    AW_BEGIN;
    AW_RETURN(42);
    AW_FINALLY;
    AW_AWAIT(self->l, leaf(self->s));
    ownership_release(self->l.out);
    AW_END;
}

TEST(a_function_past_its_return_ends_ready_when_cancelled) {
    struct script s = {.pends = NEVER};
    struct past_return f = AW_CALL(past_return, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    script_finish(&s);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(f.out, 42);
    CHECK_EQ(s.cancels, 0);
    ownership_check_balanced();
}

typedef AW_TIMEOUT(struct past_return) past_timeout;
typedef AW_JOIN(struct past_return, struct leaf) past_join;

TEST(a_box_around_something_decided_ends_ready_when_cancelled) {
    struct script s = {.pends = NEVER};
    aw_box b = aw_box_new(AW_CALL(past_return, .s = &s));
    CHECK_EQ(drive_poll(&b.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&b.future), AW_PENDING);
    script_finish(&s);
    CHECK_EQ(drive_cancel(&b.future), AW_READY);
    CHECK_EQ(aw_box_take(struct past_return, &b), 42);
    ownership_check_balanced();
}

TEST(a_timeout_around_something_decided_gives_its_value) {
    subject_prepare(a_timeout, (struct script){.pends = 3, .busy = true});
    past_timeout t = AW_TIMEOUT_AT_OF(past_timeout, 0, AW_CALL(past_return, .s = child(0)));
    CHECK_EQ(drive_poll_to_end(&t.future), AW_READY);
    CHECK_EQ(t.out, 0);
    CHECK_EQ(t.inner.out, 42);
    CHECK_EQ(child(0)->cancels, 0);
    subject_check_released();
}

TEST(a_join_of_something_decided_and_something_that_is_gone_is_cut) {
    struct script s = {.pends = 2, .busy = true}, other = {.pends = NEVER};
    past_join j = AW_JOIN_OF(past_join, AW_CALL(past_return, .s = &s), leaf(&other));
    CHECK_EQ(drive_poll(&j.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&j.future), AW_CANCELLED);
    CHECK(aw_future_finished(&j.f0.future));
    ownership_check_balanced();
}

/* ---- Tasks ------------------------------------------------------------------------------------ */

AW_ASYNC(int, abort_and_join, struct past_return *task; struct rounds y; aw_task_join_future j;) {
    AW_BEGIN;
    AW_AWAIT(self->y, rounds(1));
    aw_task_abort(self->task);
    AW_AWAIT(self->y, rounds(1));
    script_finish(self->task->s);
    AW_AWAIT(self->j, aw_task_join(self->task));
    AW_RETURN(self->j.out);
    AW_END;
}

TEST(an_aborted_task_past_its_return_joins_as_finished) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    struct script s = {.pends = NEVER};
    struct past_return *task = aw_spawn_on(rt, AW_CALL(past_return, .s = &s));
    CHECK_EQ(aw_block_on(rt, AW_CALL(abort_and_join, .task = task)), 0);
    CHECK_EQ(aw_task_take(task), 42);
    CHECK_EQ(s.cancels, 0);
    aw_runtime_free(rt);
    ownership_check_balanced();
}
