/* SPDX-License-Identifier: MIT
 *
 * Unstarted: a future that was never polled ends CANCELLED, never READY, and releases what its
 * arguments own. */
#include <errno.h>

#include "support/settle.h"
#include "support/composites.h"

/* Leaves that, once started, finish at any poll or cancel. */
static const struct script eager = {.wins = true};

#define ANSWERS_CANCELLED(kind)                                                                    \
    TEST(kind##_that_never_started_answers_cancelled) {                                            \
        aw_future *f = subject_make(kind, eager);                                                  \
        CHECK_EQ(drive_cancel_to_end(f), AW_CANCELLED);                                            \
        for (int i = 0; i < subject.children; i++) {                                               \
            CHECK_EQ(child(i)->polls, 0);                                                          \
            CHECK_EQ(child(i)->discards, 0);                                                       \
        }                                                                                          \
        subject_check_released();                                                                  \
    }
EVERY_COMPOSITE(ANSWERS_CANCELLED)

#define RELEASES_ARGUMENTS(kind)                                                                   \
    TEST(kind##_that_never_started_releases_what_its_children_own) {                               \
        aw_future *f = subject_make(kind, (struct script){.owns = true});                          \
        CHECK_EQ(ownership.owned, subject.children);                                               \
        CHECK_EQ(drive_cancel_to_end(f), AW_CANCELLED);                                            \
        for (int i = 0; i < subject.children; i++)                                                 \
            CHECK_EQ(child(i)->cancels, 1);                                                        \
        subject_check_released();                                                                  \
    }
RELEASES_ARGUMENTS(a_timeout)
RELEASES_ARGUMENTS(a_box)
EVERY_FIBER(RELEASES_ARGUMENTS)
EVERY_GROUP(RELEASES_ARGUMENTS)

/* ---- Children that had started before --------------------------------------------------------- */

/* The children were polled from outside the group; they finish while they are cancelled, and are
 * discarded. */
static void cancel_over_started(aw_future *f, struct leaf *leaves, struct script *s, int n) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    for (int i = 0; i < n; i++)
        CHECK_EQ(aw_future_poll(&leaves[i].future, &cx), AW_PENDING);
    CHECK_EQ(drive_cancel(f), AW_CANCELLED);
    for (int i = 0; i < n; i++) {
        CHECK_EQ(s[i].finished, 1);
        CHECK_EQ(s[i].discards, 1);
    }
    ownership_check_balanced();
}

static void unstarted_over_started(const aw_future_type *group, const aw_future_type *all) {
    enum { N = 40 };
    static struct script s[N];
    static struct leaf leaves[N];
    for (int i = 0; i < N; i++) {
        s[i] = (struct script){.pends = NEVER, .wins = true, .error = i % 2 ? -EIO : 0};
        leaves[i] = leaf(&s[i]);
    }
    aw_group g = aw_group_of(group, false, (aw_future *[]){&leaves[0].future, &leaves[1].future},
                             2);
    cancel_over_started(&g.future, leaves, s, 2);
    aw_all a = aw_all_of(all, &leaves[2].future, sizeof leaves[0], N - 2);
    cancel_over_started(&a.future, leaves + 2, s + 2, N - 2);

    g = aw_group_of(group, false, NULL, 0); /* and without children */
    CHECK_EQ(drive_cancel(&g.future), AW_CANCELLED);
    a = aw_all_of(all, &leaves[0].future, sizeof leaves[0], 0);
    CHECK_EQ(drive_cancel(&a.future), AW_CANCELLED);
}

TEST(an_unstarted_join_answers_cancelled_also_when_all_its_children_finish) {
    unstarted_over_started(&aw_join_type, &aw_join_all_type);
}
TEST(an_unstarted_try_join_answers_cancelled_also_when_all_its_children_finish) {
    unstarted_over_started(&aw_try_join_type, &aw_try_join_all_type);
}
TEST(an_unstarted_select_answers_cancelled_also_when_all_its_children_finish) {
    unstarted_over_started(&aw_select_type, &aw_select_all_type);
}

/* ---- Functions -------------------------------------------------------------------------------- */

AW_ASYNC(int, owner, int token; int *ran; bool *cleaned; aw_ready r;) {
    AW_BEGIN;
    ++*self->ran;
    for (;;)
        AW_AWAIT(self->r, aw_ready_now(1));
    AW_FINALLY;
    CHECK(!AW_STARTED);
    CHECK(AW_CANCELLING);
    CHECK_EQ(self->out, 0);
    CHECK(self->r.future.type == NULL);
    CHECK(!*self->cleaned);
    *self->cleaned = true;
    ownership_release(self->token);
    AW_END;
}

TEST(an_unstarted_function_runs_only_its_cleanup_once_with_a_zeroed_frame) {
    int ran = 0;
    bool cleaned = false;
    struct owner f = AW_CALL(owner, .token = ownership_token(), .ran = &ran, .cleaned = &cleaned);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(ran, 0);
    CHECK(cleaned);
    ownership_check_balanced();
}

AW_ASYNC(int, polite, bool *waited; struct script * s; struct leaf l;) {
    AW_BEGIN;
    AW_AWAIT(self->l, leaf(self->s));
    AW_RETURN(self->l.out);
    AW_FINALLY;
    if (AW_STARTED) {
        *self->waited = true;
        AW_YIELD;
    }
    AW_END;
}

TEST(an_unstarted_function_asks_whether_it_may_wait_in_its_cleanup) {
    bool waited = false;
    struct script s = {.pends = NEVER};
    struct polite f = AW_CALL(polite, .waited = &waited, .s = &s);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK(!waited);

    f = AW_CALL(polite, .waited = &waited, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK(waited);
    ownership_check_balanced();
}

/* Without the rule for unstarted futures this would not end. */
AW_ASYNC(int, endless, struct script *first, *ready; int *rounds; struct leaf l; struct relay r;) {
    AW_BEGIN;
    AW_AWAIT(self->l, leaf(self->first));
    ownership_release(self->l.out);
    for (;;) {
        ++*self->rounds;
        *self->ready = (struct script){.wins = true};
        AW_AWAIT(self->r, AW_CALL(relay, .script = self->ready));
        ownership_release(self->r.out);
    }
    AW_END;
}

TEST(a_cancelled_loop_over_ready_futures_ends) {
    struct script first = {.pends = NEVER, .wins = true}, ready;
    int rounds = 0;
    struct endless f = AW_CALL(endless, .first = &first, .ready = &ready, .rounds = &rounds);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(rounds, 1);
    ownership_check_balanced();
}

/* ---- What borrows its children ---------------------------------------------------------------- */

TEST(a_next_of_a_set_that_never_started_does_not_touch_the_children) {
    struct script s[2] = {{.owns = true}, {.owns = true}};
    aw_set set;
    aw_set_init(&set, sizeof(struct leaf));
    for (int i = 0; i < 2; i++)
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);
    CHECK_EQ(set.count, 2);
    CHECK_EQ(s[0].cancels + s[1].cancels, 0);

    aw_set_clear_future clear = aw_set_clear(&set);
    CHECK_EQ(drive_cancel(&clear.future), AW_CANCELLED);
    CHECK_EQ(set.count, 2);
    CHECK_EQ(s[0].cancels + s[1].cancels, 0);

    clear = aw_set_clear(&set);
    CHECK_EQ(drive_poll(&clear.future), AW_READY);
    CHECK_EQ(s[0].polls + s[1].polls, 0);
    CHECK_EQ(s[0].cancelled + s[1].cancelled, 2);
    aw_set_free(&set);
    ownership_check_balanced();
}

TEST(a_join_of_a_finished_task_that_never_started_does_not_take_the_output) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    struct script s = {.pends = 0};
    struct leaf *task = aw_spawn_on(rt, leaf(&s));
    run_a_while(rt);
    CHECK(aw_task_is_finished(task));

    aw_task_join_future f = aw_task_join(task);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(s.discards, 0);
    aw_task_drop(task);
    aw_runtime_free(rt); /* runs what plain threads requested: the discard */
    CHECK_EQ(s.discards, 1);
    ownership_check_balanced();
}

TEST(a_task_aborted_before_its_first_poll_releases_its_arguments_and_joins_as_cancelled) {
    ON_THIS_THREAD("nothing runs before block_on");
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    struct script s = {.owns = true, .wins = true};
    struct leaf *task = aw_spawn_on(rt, leaf(&s));
    aw_task_abort(task);
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), -ECANCELED);
    CHECK_EQ(s.polls, 0);
    CHECK_EQ(s.cancels, 1);
    aw_task_drop(task);
    aw_runtime_free(rt);
    ownership_check_balanced();
}
