/* SPDX-License-Identifier: MIT
 *
 * Select: reports every branch that finished, as a set to iterate over; branches not taken are
 * discarded. All losers have ended when it reports. */
#include <errno.h>

#include "support/composites.h"

/* The next finished branch, for either kind of select. */
static int next_finished(void) {
    return is_select_of_three(subject.kind) ? aw__select_next(subject.future)
                                            : (int)aw_select_all_next(&subject.as.all);
}
static int winner(void) {
    return is_select_of_three(subject.kind) ? aw__select_winner(subject.future)
                                            : (int)aw_select_all_winner(&subject.as.all);
}

/* All branches wait; branch 1 finishes; branch 0 and the last finish while they are cancelled.
 * Branch 1 is always the first to finish, because all other branches are pending. */
static aw_future *three_finish(enum kind kind) {
    subject_prepare(kind, (struct script){.pends = NEVER});
    child(0)->wins = child(-1)->wins = true;
    child(-1)->cancel_pends = 1;
    child(-1)->busy = true;
    aw_future *f = subject_begin();
    CHECK_EQ(drive_poll(f), AW_PENDING);
    script_finish(child(1));
    CHECK_EQ(drive_poll(f), AW_PENDING); /* the last one has not ended yet */
    CHECK_EQ(child(0)->finished, 1);
    CHECK_EQ(drive_poll_to_end(f), AW_READY);
    for (int i = 0; i < subject.children; i++)
        CHECK(script_ended(child(i)));
    CHECK_EQ(count_finished(), 3);
    CHECK_EQ(count_discards(), 0);
    return f;
}

#define REPORTS_ALL(kind)                                                                          \
    TEST(kind##_reports_every_branch_that_finished_in_order) {                                     \
        three_finish(kind);                                                                        \
        CHECK_EQ(next_finished(), 0);                                                              \
        CHECK_EQ(next_finished(), 1);                                                              \
        CHECK_EQ(next_finished(), subject.children - 1);                                           \
        CHECK_EQ(next_finished(), -1);                                                             \
        CHECK_EQ(next_finished(), -1);                                                             \
        CHECK_EQ(count_discards(), 0);                                                             \
        script_take(child(0));                                                                     \
        script_take(child(1));                                                                     \
        script_take(child(-1));                                                                    \
        subject_check_released();                                                                  \
    }
EVERY_SELECT(REPORTS_ALL)

#define WINNER_DISCARDS_THE_REST(kind)                                                             \
    TEST(kind##_gives_the_winner_and_discards_the_rest) {                                          \
        aw_future *f = three_finish(kind);                                                         \
        CHECK_EQ(winner(), 1);                                                                     \
        CHECK_EQ(child(0)->discards, 1);                                                           \
        CHECK_EQ(child(1)->discards, 0);                                                           \
        CHECK_EQ(child(-1)->discards, 1);                                                          \
        CHECK_EQ(next_finished(), -1);                                                             \
        CHECK_EQ(winner(), 1);                                                                     \
        aw_future_discard(f); /* everything has been taken or discarded */                         \
        CHECK_EQ(count_discards(), 2);                                                             \
        script_take(child(1));                                                                     \
        subject_check_released();                                                                  \
    }
EVERY_SELECT(WINNER_DISCARDS_THE_REST)

#define REMAINDER_IS_DISCARDED(kind)                                                               \
    TEST(kind##_whose_iteration_is_broken_off_discards_the_remaining_outputs) {                    \
        aw_future *f = three_finish(kind);                                                         \
        CHECK_EQ(next_finished(), 0);                                                              \
        aw_future_discard(f);                                                                      \
        CHECK_EQ(child(0)->discards, 0);                                                           \
        CHECK_EQ(child(1)->discards, 1);                                                           \
        CHECK_EQ(child(-1)->discards, 1);                                                          \
        script_take(child(0));                                                                     \
        subject_check_released();                                                                  \
    }
EVERY_SELECT(REMAINDER_IS_DISCARDED)

#define LOSERS_ARE_GONE(kind)                                                                      \
    TEST(kind##_does_not_report_before_its_losers_are_gone) {                                      \
        subject_prepare(kind, (struct script){.pends = NEVER, .cancel_pends = 1000});              \
        *child(1) = (struct script){.pends = 1};                                                   \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        script_finish(child(1));                                                                   \
        for (int i = 0; i < subject.children; i++) {                                               \
            CHECK_EQ(drive_poll(f), AW_PENDING);                                                   \
            if (i != 1) script_finish_cancel(child(i));                                            \
        }                                                                                          \
        CHECK_GT(drive_wakes(), 0);                                                                \
        CHECK_EQ(drive_poll(f), AW_READY);                                                         \
        CHECK_EQ(child(1)->polls, 2);                                                              \
        CHECK_EQ(count_finished(), 1);                                                             \
        CHECK_EQ(winner(), 1);                                                                     \
        script_take(child(1));                                                                     \
        subject_check_released();                                                                  \
    }
EVERY_SELECT(LOSERS_ARE_GONE)

#define UNSTARTED_LOSERS(kind)                                                                     \
    TEST(kind##_cancels_branches_that_it_never_polled) {                                           \
        subject_prepare(kind, (struct script){.owns = true, .wins = true});                        \
        aw_future *f = subject_begin();                                                            \
        CHECK_EQ(drive_poll(f), AW_READY);                                                         \
        CHECK_EQ(count_finished(), 1);                                                             \
        int w = winner();                                                                          \
        CHECK_EQ(w, 0);                                                                            \
        for (int i = 1; i < subject.children; i++) {                                               \
            CHECK_EQ(child(i)->polls, 0);                                                          \
            CHECK_EQ(child(i)->cancels, 1);                                                        \
        }                                                                                          \
        script_take(child(0));                                                                     \
        subject_check_released();                                                                  \
    }
EVERY_SELECT(UNSTARTED_LOSERS)

TEST(a_select_of_everything_that_can_lose_reports_only_what_finished) {
    subject_prepare(a_select, (struct script){.pends = 1});
    child(1)->pends = NEVER;
    aw_future *f = subject_begin();
    CHECK_EQ(drive_poll(f), AW_PENDING);
    CHECK_EQ(drive_poll(f), AW_READY);
    /* Biased: the first branch wins; the last would have been ready, but was cancelled before
     * its poll. */
    CHECK_EQ(subject.as.select.out, 1 << 0);
    int seen = 0;
    AW_SELECT_EACH(i, &subject.as.select) {
        CHECK_EQ(i, 0);
        seen++;
    }
    CHECK_EQ(seen, 1);
    script_take(child(0));
    subject_check_released();
}

TEST(an_empty_select_all_says_that_it_is_empty) {
    struct leaf none[1];
    aw_all a = aw_select_all(none, 0);
    CHECK_EQ(drive_poll(&a.future), AW_READY);
    CHECK_EQ(a.out, -EINVAL);
    CHECK_EQ(aw_select_all_next(&a), -1);
    CHECK_EQ(aw_select_all_winner(&a), -1);
    aw_future_discard(&a.future);
}
