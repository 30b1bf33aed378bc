/* SPDX-License-Identifier: MIT
 *
 * Cut: a composite returns CANCELLED if one of its children did, after discarding the children
 * that had finished, and READY if none did. A select returns READY if any branch finished. */
#include <errno.h>

#include "support/settle.h"
#include "support/composites.h"

static const struct script waits = {.pends = NEVER};

/* ---- One child is cancelled ------------------------------------------------------------------- */

#define GONE_WITH_ITS_ONLY_PART(kind)                                                              \
    TEST(kind##_is_gone_when_its_part_is) {                                                        \
        aw_future *f = subject_make(kind, waits);                                                  \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_cancel(f), AW_CANCELLED);                                                   \
        CHECK_EQ(child(0)->discards, 0);                                                           \
        subject_check_released();                                                                  \
    }
EVERY_SINGLE(GONE_WITH_ITS_ONLY_PART)

#define STANDS_WITH_ITS_ONLY_PART(kind)                                                            \
    TEST(kind##_stands_when_its_part_finished_while_cancelled) {                                   \
        subject_prepare(kind, waits);                                                              \
        child(0)->wins = true;                                                                     \
        child(0)->cancel_pends = 1;                                                                \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_cancel(f), AW_PENDING);                                                     \
        CHECK_EQ(drive_cancel(f), AW_READY);                                                       \
        CHECK_EQ(child(0)->discards, 0);                                                           \
        subject_discard();                                                                         \
        CHECK_EQ(child(0)->discards, 1);                                                           \
    }
EVERY_SINGLE(STANDS_WITH_ITS_ONLY_PART)

#define DISCARDS_WHAT_HAD_FINISHED(kind)                                                           \
    TEST(kind##_that_is_cut_discards_what_had_finished_before) {                                   \
        subject_prepare(kind, waits);                                                              \
        child(1)->pends = 0;                                                                       \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(child(1)->finished, 1);                                                           \
        CHECK_EQ(child(1)->discards, 0);                                                           \
        CHECK_EQ(drive_cancel(f), AW_CANCELLED);                                                   \
        CHECK_EQ(child(1)->discards, 1);                                                           \
        CHECK_EQ(child(1)->cancels, 0);                                                            \
        CHECK_EQ(count_finished(), 1);                                                             \
        subject_check_released();                                                                  \
    }
EVERY_JOIN(DISCARDS_WHAT_HAD_FINISHED)
EVERY_TRY_JOIN(DISCARDS_WHAT_HAD_FINISHED)

#define DISCARDS_WHAT_FINISHES(kind)                                                               \
    TEST(kind##_that_is_cut_discards_what_finishes_while_it_is_cancelled) {                        \
        subject_prepare(kind, waits);                                                              \
        child(0)->wins = child(-1)->wins = true;                                                   \
        child(-1)->cancel_pends = 2;                                                               \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_cancel(f), AW_PENDING);                                                     \
        CHECK_EQ(child(0)->finished, 1);                                                           \
        CHECK_EQ(count_discards(), 0);                                                             \
        script_wake(child(-1));                                                                    \
        CHECK_EQ(drive_cancel(f), AW_PENDING);                                                     \
        script_wake(child(-1));                                                                    \
        CHECK_EQ(drive_cancel(f), AW_CANCELLED);                                                   \
        CHECK_EQ(child(0)->discards, 1);                                                           \
        CHECK_EQ(child(-1)->discards, 1);                                                          \
        CHECK_EQ(count_discards(), 2);                                                             \
        subject_check_released();                                                                  \
    }
EVERY_JOIN(DISCARDS_WHAT_FINISHES)
EVERY_TRY_JOIN(DISCARDS_WHAT_FINISHES)

/* A child that ends last must count like the first. */
#define CUT_BY_THE_LAST(kind)                                                                      \
    TEST(kind##_is_cut_by_a_single_part_that_goes_last) {                                          \
        subject_prepare(kind, (struct script){.pends = 0});                                        \
        *child(-1) = (struct script){.pends = NEVER, .cancel_pends = 3, .busy = true};             \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_cancel_to_end(f), AW_CANCELLED);                                            \
        CHECK_EQ(count_discards(), subject.children - 1);                                          \
        CHECK_EQ(child(-1)->discards, 0);                                                          \
        subject_check_released();                                                                  \
    }
EVERY_JOIN(CUT_BY_THE_LAST)
EVERY_TRY_JOIN(CUT_BY_THE_LAST)

/* ---- No child is cancelled -------------------------------------------------------------------- */

#define STANDS_WHEN_ALL_FINISH(kind)                                                               \
    TEST(kind##_stands_when_all_finished_before_and_while_it_was_cancelled) {                      \
        subject_prepare(kind, (struct script){.pends = NEVER, .wins = true});                      \
        child(0)->pends = 0;                                                                       \
        child(1)->cancel_pends = 1;                                                                \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_cancel(f), AW_PENDING);                                                     \
        script_finish_cancel(child(1));                                                            \
        CHECK_EQ(drive_cancel(f), AW_READY);                                                       \
        CHECK_EQ(*(int *)aw_future_out(f), 0);                                                     \
        CHECK_EQ(count_discards(), 0);                                                             \
        for (int i = 0; i < subject.children; i++)                                                 \
            script_take(child(i));                                                                 \
        subject_check_released();                                                                  \
    }
EVERY_JOIN(STANDS_WHEN_ALL_FINISH)
EVERY_TRY_JOIN(STANDS_WHEN_ALL_FINISH)

/* ---- Errors while cancelled ------------------------------------------------------------------- */

#define AN_ERROR_DOES_NOT_HEAL_A_CUT(kind)                                                         \
    TEST(kind##_is_cut_also_when_another_part_ended_with_an_error_while_cancelled) {               \
        subject_prepare(kind, waits);                                                              \
        child(0)->wins = true;                                                                     \
        child(0)->error = -EIO;                                                                    \
        child(1)->cancel_pends = 1;                                                                \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_cancel(f), AW_PENDING);                                                     \
        script_finish_cancel(child(1));                                                            \
        CHECK_EQ(drive_cancel(f), AW_CANCELLED);                                                   \
        subject_check_released();                                                                  \
    }
EVERY_TRY_JOIN(AN_ERROR_DOES_NOT_HEAL_A_CUT)

#define AN_ERROR_COUNTS_WHEN_ALL_FINISH(kind)                                                      \
    TEST(kind##_whose_parts_all_finished_while_cancelled_gives_their_first_error) {                \
        subject_prepare(kind, (struct script){.pends = NEVER, .wins = true});                      \
        child(1)->error = -EIO;                                                                    \
        child(2)->error = -EBADF;                                                                  \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_cancel(f), AW_READY);                                                       \
        CHECK_EQ(*(int *)aw_future_out(f), -EIO);                                                  \
        CHECK_EQ(child(0)->discards, 1);                                                           \
        CHECK_EQ(child(-1)->finished, 1);                                                          \
        subject_discard();                                                                         \
    }
EVERY_TRY_JOIN(AN_ERROR_COUNTS_WHEN_ALL_FINISH)

/* ---- Select ----------------------------------------------------------------------------------- */

#define STANDS_WHEN_ONE_FINISHES(kind)                                                             \
    TEST(kind##_stands_when_one_branch_finished_while_cancelled) {                                 \
        subject_prepare(kind, waits);                                                              \
        child(1)->wins = true;                                                                     \
        child(0)->cancel_pends = 2;                                                                \
        child(0)->busy = true;                                                                     \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_cancel_to_end(f), AW_READY);                                                \
        CHECK_EQ(*(int *)aw_future_out(f), is_select_of_three(kind) ? 1 << 1 : 1);                 \
        CHECK_EQ(child(0)->cancelled, 1);                                                          \
        CHECK_EQ(count_discards(), 0);                                                             \
        subject_discard();                                                                         \
        CHECK_EQ(child(1)->discards, 1);                                                           \
    }
EVERY_SELECT(STANDS_WHEN_ONE_FINISHES)

#define GONE_WHEN_ALL_ARE(kind)                                                                    \
    TEST(kind##_is_gone_when_every_branch_is) {                                                    \
        aw_future *f = subject_make(kind, waits);                                                  \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_cancel(f), AW_CANCELLED);                                                   \
        subject_check_released();                                                                  \
    }
EVERY_SELECT(GONE_WHEN_ALL_ARE)

/* ---- Tasks ------------------------------------------------------------------------------------ */

AW_ASYNC(int, sleeper, struct script *s; struct leaf l; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->l, leaf(self->s));
    ownership_release(self->l.out);
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, aborter, struct sleeper *task; struct rounds y; aw_task_join_future j;) {
    AW_BEGIN;
    AW_AWAIT(self->y, rounds(1));
    aw_task_abort(self->task);
    AW_AWAIT(self->j, aw_task_join(self->task));
    aw_task_drop(self->task);
    AW_RETURN(self->j.out);
    AW_END;
}

/* The leaf finishes while it is cancelled, the body continues into a sleep, and the sleep is
 * cancelled. */
TEST(a_task_that_is_cut_joins_as_cancelled_even_if_its_first_wait_won_the_race) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    struct script s = {.pends = NEVER, .wins = true};
    struct sleeper *task = aw_spawn_on(rt, AW_CALL(sleeper, .s = &s));
    CHECK_EQ(aw_block_on(rt, AW_CALL(aborter, .task = task)), -ECANCELED);
    CHECK_EQ(s.finished, 1);
    aw_runtime_free(rt);
    ownership_check_balanced();
}
