/* SPDX-License-Identifier: MIT
 *
 * Resume: if a child returns READY while its async function is being cancelled, the body
 * continues with the value; its next await cancels what it awaits. */
#include <errno.h>

#include "support/keep_tasks.h"
#include "support/settle.h"
#include "support/composites.h"

/* ---- Through every composite ------------------------------------------------------------------ */

/* Awaits the composite, and then one more leaf if `after` is set. */
AW_ASYNC(int, body, struct script *after; int *resumed, *cleaned; struct via via; struct leaf l;) {
    AW_BEGIN;
    AW_AWAIT(self->via, via(subject.future));
    ++*self->resumed;
    CHECK(AW_CANCELLING);
    aw_future_discard(subject.future);
    if (self->after) AW_AWAIT(self->l, leaf(self->after));
    AW_RETURN(7);
    AW_FINALLY;
    ++*self->cleaned;
    AW_END;
}

#define RUNS_ON(kind)                                                                              \
    TEST(kind##_that_finishes_while_cancelled_lets_the_body_run_on_to_its_end) {                   \
        int resumed = 0, cleaned = 0;                                                              \
        subject_make(kind, (struct script){.pends = NEVER, .wins = true});                         \
        struct body f = AW_CALL(body, .resumed = &resumed, .cleaned = &cleaned);                   \
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);                                               \
        CHECK_EQ(drive_cancel(&f.future), AW_READY);                                               \
        CHECK_EQ(f.out, 7);                                                                        \
        CHECK_EQ(resumed, 1);                                                                      \
        CHECK_EQ(cleaned, 1);                                                                      \
        subject_check_released();                                                                  \
    }
EVERY_COMPOSITE(RUNS_ON)

#define CANCELS_THE_NEXT(kind)                                                                     \
    TEST(after_##kind##_that_finished_while_cancelled_the_next_await_is_cancelled) {               \
        int resumed = 0, cleaned = 0;                                                              \
        struct script after = {.wins = true};                                                      \
        subject_make(                                                                              \
            kind, (struct script){.pends = NEVER, .cancel_pends = 2, .busy = true, .wins = true}); \
        struct body f = AW_CALL(body, .after = &after, .resumed = &resumed, .cleaned = &cleaned);  \
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);                                               \
        CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);                                    \
        CHECK_EQ(child(0)->cancels, 3);                                                            \
        CHECK_EQ(resumed, 1);                                                                      \
        CHECK_EQ(after.polls, 0);                                                                  \
        CHECK_EQ(after.cancels, 1);                                                                \
        CHECK_EQ(cleaned, 1);                                                                      \
        subject_check_released();                                                                  \
    }
EVERY_COMPOSITE(CANCELS_THE_NEXT)

#define GONE_DOES_NOT_RESUME(kind)                                                                 \
    TEST(kind##_that_is_gone_does_not_let_the_body_run_on) {                                       \
        int resumed = 0, cleaned = 0;                                                              \
        subject_make(kind, (struct script){.pends = NEVER, .cancel_pends = 1, .busy = true});      \
        struct body f = AW_CALL(body, .resumed = &resumed, .cleaned = &cleaned);                   \
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);                                               \
        CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);                                    \
        CHECK_EQ(resumed, 0);                                                                      \
        CHECK_EQ(cleaned, 1);                                                                      \
        subject_check_released();                                                                  \
    }
EVERY_COMPOSITE(GONE_DOES_NOT_RESUME)

/* ---- In the body ------------------------------------------------------------------------------ */

AW_ASYNC(int, three, struct script *s; int *at; struct leaf l;) {
    AW_BEGIN;
    for (*self->at = 0; *self->at < 3; ++*self->at) {
        AW_AWAIT(self->l, leaf(&self->s[*self->at]));
        ownership_release(self->l.out);
    }
    AW_RETURN(3);
    AW_END;
}

TEST(only_the_await_that_was_pending_can_win_the_race) {
    struct script s[3] = {
        {.pends = 0, .wins = true}, {.pends = NEVER, .wins = true}, {.pends = 0, .wins = true}};
    int at;
    struct three f = AW_CALL(three, .s = s, .at = &at);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(at, 1);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(at, 2);
    CHECK_EQ(s[1].finished, 1);
    CHECK_EQ(s[2].cancelled, 1);
    ownership_check_balanced();
}

TEST(the_last_await_of_a_body_that_wins_the_race_makes_it_finish) {
    struct script s[3] = {{.pends = 0}, {.pends = 0}, {.pends = NEVER, .wins = true}};
    int at;
    struct three f = AW_CALL(three, .s = s, .at = &at);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(f.out, 3);
    ownership_check_balanced();
}

AW_ASYNC(int, pausing, struct script *s; int *steps; struct leaf l;) {
    AW_BEGIN;
    AW_AWAIT(self->l, leaf(self->s));
    ownership_release(self->l.out);
    ++*self->steps;
    AW_YIELD;
    ++*self->steps;
    AW_RETURN(0);
    AW_END;
}

TEST(a_yield_of_a_body_that_runs_on_is_cancelled_too) {
    struct script s = {.pends = NEVER, .wins = true};
    int steps = 0;
    struct pausing f = AW_CALL(pausing, .s = &s, .steps = &steps);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(steps, 1);
    ownership_check_balanced();
}

TEST(a_function_that_yields_is_cancelled_at_its_yield) {
    struct script s = {.pends = 0};
    int steps = 0;
    struct pausing f = AW_CALL(pausing, .s = &s, .steps = &steps);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(steps, 1);
    ownership_check_balanced();
}

AW_ASYNC(int, sensible, struct script *s; struct leaf l;) {
    AW_BEGIN;
    AW_AWAIT(self->l, leaf(&self->s[0]));
    if (AW_CANCELLING) AW_RETURN(self->l.out);
    ownership_release(self->l.out);
    AW_AWAIT(self->l, leaf(&self->s[1]));
    AW_RETURN(self->l.out);
    AW_END;
}

TEST(a_body_that_runs_on_may_return_early_and_keep_the_value) {
    struct script s[2] = {{.pends = NEVER, .wins = true}, {.pends = 0}};
    struct sensible f = AW_CALL(sensible, .s = s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(f.out, s[0].out);
    script_take(&s[0]);
    ownership_check_balanced();
}

/* ---- What a function around a leaf must not change -------------------------------------------- */

typedef AW_TIMEOUT(struct relay) relay_timeout;

TEST(a_timeout_gives_the_value_that_came_while_it_was_giving_up_through_a_function_too) {
    subject_prepare(a_function, (struct script){.pends = NEVER, .cancel_pends = 1, .wins = true});
    relay_timeout t = AW_TIMEOUT_AT_OF(relay_timeout, 0, AW_CALL(relay, .script = child(0)));
    CHECK_EQ(drive_poll(&t.future), AW_PENDING);
    CHECK_EQ(child(0)->cancels, 1);
    script_finish_cancel(child(0));
    CHECK_EQ(drive_poll(&t.future), AW_READY);
    CHECK_EQ(t.out, 0);
    CHECK_EQ(t.inner.out, child(0)->out);
    script_take(child(0));
    subject_check_released();
}

AW_ASYNC(int, joiner, struct leaf *task; int *status; aw_task_join_future j;) {
    AW_BEGIN;
    AW_AWAIT(self->j, aw_task_join(self->task));
    *self->status = self->j.out;
    AW_RETURN(1);
    AW_END;
}

TEST(a_join_whose_task_has_ended_lets_the_body_run_on) {
    aw_runtime *rt = keep_tasks_runtime();
    struct script s = {.pends = NEVER};
    struct leaf *task = aw_spawn_on(rt, leaf(&s));
    int status = 1;
    struct joiner f = AW_CALL(joiner, .task = task, .status = &status);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_wakes(), 0);
    run_a_while(rt);
    script_finish(&s);
    run_a_while(rt);
    CHECK(aw_task_is_finished(task));
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(status, 0);
    CHECK_EQ(task->out, s.out);
    ownership_release(aw_task_take(task));
    aw_runtime_free(rt);
    CHECK_EQ(s.discards, 0);
    ownership_check_balanced();
}

/* A clear always finishes, even if it is cancelled, so the function continues. */
AW_ASYNC(int, clearer, aw_set *set; int *resumed; aw_set_clear_future clear; struct leaf l;) {
    AW_BEGIN;
    AW_AWAIT(self->clear, aw_set_clear(self->set));
    ++*self->resumed;
    AW_RETURN(0);
    AW_END;
}

TEST(a_clear_of_a_set_is_not_cut_short_by_a_cancel) {
    struct script s[3] = {{.pends = NEVER, .cancel_pends = 1},
                          {.pends = NEVER, .cancel_pends = 1, .wins = true},
                          {.pends = NEVER}};
    aw_set set;
    aw_set_init(&set, sizeof(struct leaf));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);

    int resumed = 0;
    struct clearer f = AW_CALL(clearer, .set = &set, .resumed = &resumed);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(s[0].cancels + s[1].cancels, 2);
    script_finish_cancel(&s[0]);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(s[1].cancels, 1);
    script_finish_cancel(&s[1]);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(resumed, 1);
    CHECK_EQ(s[1].discards, 1);
    CHECK_EQ(set.count, 0);
    aw_set_free(&set);
    ownership_check_balanced();
}
