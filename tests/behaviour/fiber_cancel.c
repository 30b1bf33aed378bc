/* SPDX-License-Identifier: MIT
 *
 * Fibers are cancelled by the rules of all composites (cancel_*.c tests those for fibers too).
 * Here is what is special to fibers: the drop part, a discarded value, awaits that are refused
 * one after the other, and a body that ignores its cancellation. */
#include "support/checked_waker.h"
#include "support/clock.h"
#include "support/script.h"
#include "support/settle.h"

#include <errno.h>
#include <string.h>

/* ---- Never entered ---------------------------------------------------------------------------- */

static struct { int entered, dropped; } seen;

AW_FIBER(int, owner, int token;) {
    seen.entered++;
    ownership_release(self->token);
    return 0;
}
AW_FIBER_DROP(owner) {
    CHECK(aw_fiber_cx() == NULL);
    CHECK(!aw_cancelled());
    seen.dropped++;
    ownership_release(self->token);
}

static struct owner call_owner(void) {
    seen.entered = seen.dropped = 0;
    return AW_CALL(owner, .token = ownership_token());
}

static void check_dropped(void) {
    CHECK_EQ(seen.entered, 0);
    CHECK_EQ(seen.dropped, 1);
    ownership_check_balanced();
}

TEST(an_unstarted_fiber_is_dropped_once_and_never_entered) {
    struct owner f = call_owner();
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    check_dropped();
}

TEST(a_fiber_that_was_entered_is_not_dropped) {
    struct owner f = call_owner();
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(seen.entered, 1);
    CHECK_EQ(seen.dropped, 0);
    ownership_check_balanced();
}

TEST(a_box_that_is_freed_drops_the_fiber_in_it) {
    aw_box b = aw_box_new(call_owner());
    aw_box_free(&b);
    check_dropped();
}

TEST(a_task_that_is_aborted_before_its_first_poll_is_dropped) {
    ON_THIS_THREAD("nothing runs before block_on");
    aw_runtime *rt = paused_runtime();
    struct owner *task = aw_spawn_on(rt, call_owner());
    aw_task_abort(task);
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), -ECANCELED);
    aw_task_drop(task);
    aw_runtime_free(rt);
    check_dropped();
}

static void ignore_log(void *data, aw_log_level level, const char *message) {
    (void)data, (void)level, (void)message;
}

TEST(a_spawn_that_fails_drops_the_fiber) {
    aw_set_log(ignore_log, NULL);
    struct owner *task = aw_spawn(call_owner()); /* there is no runtime */
    CHECK_EQ(aw_task_error(task), -ENXIO);
    check_dropped();
    aw_task_drop(task);
}

static int plain_main(void *arg) {
    ++*(int *)arg;
    return 5;
}
static void plain_drop(void *arg) {
    *(int *)arg += 100;
}

TEST(a_plain_fiber_that_never_started_calls_its_drop_function) {
    int count = 0;
    aw_fiber f = aw_fiber_with(plain_main, plain_drop, &count, 0);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(count, 100);

    f = aw_fiber_with(plain_main, plain_drop, &count, 0);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.out, 5);
    CHECK_EQ(count, 101);

    f = aw_fiber_of(plain_main, &count); /* nothing to drop */
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(count, 101);
}

/* ---- Resume and cut --------------------------------------------------------------------------- */

/* What each await of a body returned. */
enum { AWAITS = 4 };
static struct {
    int answers[AWAITS], count;
    bool cancelled[AWAITS]; /* aw_cancelled() after it */
    int discards;
} log_of;

struct three {
    AW_FIBER_FRAME(int);
    struct script *s;
};
static void three_discard(aw_future *self) {
    log_of.discards++;
    int out = ((struct three *)self)->out;
    if (out > 0) ownership_release(out);
}
/* Returns a new token, whatever the awaits returned. */
AW_FIBER_STATIC(three, .discard = three_discard) {
    CHECK(!aw_cancelled());
    for (int i = 0; i < 3; i++) {
        int r = aw_await(leaf(&self->s[i]));
        log_of.cancelled[i] = aw_cancelled();
        log_of.answers[i] = r < 0 ? r : 1;
        log_of.count++;
        if (r > 0) ownership_release(r);
    }
    return ownership_token();
}

static void check_answers(int a, int b, int c) {
    CHECK_EQ(log_of.count, 3);
    CHECK_EQ(log_of.answers[0], a);
    CHECK_EQ(log_of.answers[1], b);
    CHECK_EQ(log_of.answers[2], c);
    for (int i = 0; i < 3; i++)
        if (log_of.answers[i] == -ECANCELED) CHECK(log_of.cancelled[i]);
}

TEST(the_await_that_waits_and_every_later_one_are_refused_and_the_value_is_discarded) {
    struct script s[3] = {{.pends = 0}, {.pends = NEVER}, {.pends = 0, .wins = true, .owns = true}};
    struct three f = AW_CALL(three, .s = s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    check_answers(1, -ECANCELED, -ECANCELED);
    CHECK(!log_of.cancelled[0]);
    CHECK_EQ(s[2].polls, 0); /* cancelled without being started */
    CHECK_EQ(s[2].cancelled, 1);
    CHECK_EQ(log_of.discards, 1);
    ownership_check_balanced();
}

TEST(an_await_that_finished_first_hands_its_value_over_and_the_next_one_is_refused) {
    struct script s[3] = {
        {.pends = NEVER, .cancel_pends = 1, .wins = true}, {.wins = true}, {.wins = true}};
    struct three f = AW_CALL(three, .s = s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(log_of.count, 0);
    script_finish_cancel(&s[0]);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    check_answers(1, -ECANCELED, -ECANCELED);
    CHECK(log_of.cancelled[0]); /* the cancellation is visible */
    CHECK_EQ(log_of.discards, 1);
    ownership_check_balanced();
}

TEST(a_fiber_whose_last_await_finished_first_stands) {
    struct script s[3] = {{.pends = 0}, {.pends = 0}, {.pends = NEVER, .wins = true}};
    struct three f = AW_CALL(three, .s = s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    check_answers(1, 1, 1);
    CHECK_EQ(log_of.discards, 0);
    ownership_release(f.out);
    ownership_check_balanced();
}

/* One refused await cuts the fiber, even if a later await succeeds. */
AW_FIBER(int, mends, struct script *s;) {
    int r = aw_await(leaf(&self->s[0]));
    CHECK_EQ(r, -ECANCELED);
    AW_SHIELD {
        r = aw_await(leaf(&self->s[1]));
    }
    ownership_release(r);
    return 7;
}

TEST(a_fiber_that_was_refused_once_is_cut_whatever_it_does_then) {
    struct script s[2] = {{.pends = NEVER}, {.pends = 1, .busy = true}};
    struct mends f = AW_CALL(mends, .s = s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(s[1].cancels, 0);
    ownership_check_balanced();
}

AW_FIBER(int, busy_body, int *rounds;) {
    int r = 0;
    while (r == 0) {
        ++*self->rounds;
        r = aw_fiber_yield();
    }
    return r;
}

TEST(a_fiber_that_yields_is_cancelled_at_its_yield) {
    int rounds = 0;
    struct busy_body f = AW_CALL(busy_body, .rounds = &rounds);
    for (int i = 1; i < 4; i++) {
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_wakes(), 1);
        CHECK_EQ(rounds, i);
    }
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(rounds, 3);
}

/* ---- Something else was cancelled ------------------------------------------------------------- */

AW_FIBER(int, asks, struct script *s; int *answer; bool *said;) {
    int r = aw_await(leaf(self->s));
    *self->answer = r;
    *self->said = aw_cancelled();
    if (r > 0) ownership_release(r);
    return 1;
}

TEST(aw_cancelled_tells_a_cancelled_self_from_a_cancelled_other) {
    int answer = 0;
    bool said = true;
    struct script other = {.pends = 1, .error = -ECANCELED}, mine = {.pends = NEVER};
    struct asks f = AW_CALL(asks, .s = &other, .answer = &answer, .said = &said);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_poll(&f.future), AW_READY); /* not cut: it was not cancelled */
    CHECK_EQ(answer, -ECANCELED);
    CHECK(!said);

    f = AW_CALL(asks, .s = &mine, .answer = &answer, .said = &said);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(answer, -ECANCELED);
    CHECK(said);
    CHECK(!aw_cancelled()); /* false outside of a fiber */
    ownership_check_balanced();
}

AW_FIBER(int, joins_an_aborted_task) {
    struct script s = {.pends = NEVER};
    struct leaf *task = aw_spawn(leaf(&s));
    CHECK_EQ(aw_fiber_yield(), 0);
    aw_task_abort(task);
    CHECK_EQ(aw_await(aw_task_join(task)), -ECANCELED);
    CHECK(!aw_cancelled());
    aw_task_drop(task);
    return 3;
}

TEST(the_join_of_a_cancelled_task_does_not_cut_the_fiber_that_joins) {
    CHECK_EQ(aw_run(AW_CALL(joins_an_aborted_task)), 3);
    ownership_check_balanced();
}

/* The poll of a child does not count as code of the fiber. */
static aw_poll checks_in_a_poll(void *arg, aw_cx *cx, int *out) {
    (void)cx, (void)out;
    ++*(int *)arg;
    CHECK(!aw_cancelled());
    CHECK(aw_fiber_cx() == NULL);
    return AW_PENDING;
}
static aw_poll checks_in_a_cancel(void *arg, aw_cx *cx, int *out) {
    checks_in_a_poll(arg, cx, out);
    return AW_CANCELLED;
}
AW_FIBER(int, awaits_a_check, int *calls;) {
    CHECK(aw_fiber_cx() != NULL);
    int r = aw_await(aw_poll_fn_with(checks_in_a_poll, checks_in_a_cancel, self->calls));
    CHECK_EQ(r, -ECANCELED);
    CHECK(aw_cancelled());
    return aw_await(aw_poll_fn_with(checks_in_a_poll, checks_in_a_cancel, self->calls));
}

TEST(the_poll_of_what_a_fiber_awaits_is_not_the_fiber) {
    int calls = 0;
    struct awaits_a_check f = AW_CALL(awaits_a_check, .calls = &calls);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(calls, 3); /* the second never started: it is not called */
}

/* ---- Refused awaits --------------------------------------------------------------------------- */

/* Without the rule for unstarted futures this loop would not end. */
AW_FIBER(int, over_ready, struct script *first; int *rounds;) {
    int r = aw_await(leaf(self->first));
    while (r >= 0) {
        if (r > 0) ownership_release(r);
        ++*self->rounds;
        struct script ready = {.wins = true};
        r = aw_await(leaf(&ready));
    }
    return r;
}

TEST(a_cancelled_loop_over_ready_futures_ends) {
    struct script first = {.pends = NEVER, .wins = true};
    int rounds = 0;
    struct over_ready f = AW_CALL(over_ready, .first = &first, .rounds = &rounds);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(rounds, 1);
    ownership_check_balanced();
}

static struct {
    bool stop;
    int refusals, reports;
    char report[512];
} stubborn;

AW_FIBER(int, ignores_it, int limit;) {
    CHECK_EQ(aw_await(aw_never_ready()), -ECANCELED);
    for (stubborn.refusals = 1; stubborn.refusals < self->limit && !stubborn.stop;
         stubborn.refusals++) {
        int r = stubborn.refusals % 3 == 0   ? aw_fiber_yield()
                : stubborn.refusals % 3 == 1 ? aw_await(aw_ready_now(1))
                                             : aw_await(aw_sleep_for(AW_SEC(1)));
        CHECK_EQ(r, -ECANCELED);
    }
    return 0;
}

static void keep_report(void *data, aw_log_level level, const char *message) {
    (void)data;
    CHECK_EQ(level, AW_LOG_PROBLEM);
    snprintf(stubborn.report, sizeof stubborn.report, "%s", message);
    stubborn.reports++;
}

static aw_runtime *reporting_runtime(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.paused = true;
    options.log = keep_report;
    memset(&stubborn, 0, sizeof stubborn);
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    return rt;
}

/* Counts its rounds while the other fiber is refused again and again. */
AW_FIBER(int, runs_meanwhile, struct ignores_it *task; int until;) {
    CHECK_EQ(aw_fiber_yield(), 0);
    aw_task_abort(self->task);
    int rounds = 0;
    for (int before = 0; stubborn.refusals < self->until; rounds++) {
        CHECK_EQ(aw_fiber_yield(), 0);
        CHECK_LE(stubborn.refusals - before, 1); /* each refusal lets other tasks run */
        before = stubborn.refusals;
    }
    CHECK_GE(rounds, self->until - 1);
    stubborn.stop = true;
    CHECK_EQ(aw_await(aw_task_join(self->task)), -ECANCELED);
    return 0;
}

TEST(refused_awaits_let_the_others_run_and_a_thousand_of_them_are_reported_by_name_once) {
    ON_THIS_THREAD("the two alternate");
    aw_runtime *rt = reporting_runtime();
    struct ignores_it *task = aw_spawn_on(rt, AW_CALL(ignores_it, .limit = 1 << 30));
    CHECK_EQ(aw_block_on(rt, AW_CALL(runs_meanwhile, .task = task, .until = 3500)), 0);
    CHECK_EQ(stubborn.reports, 1);
    CHECK_CONTAINS(stubborn.report, "'ignores_it'");
    CHECK_CONTAINS(stubborn.report, "1000");
    CHECK_CONTAINS(stubborn.report, "fiber_cancel.c:");
    aw_task_drop(task);
    aw_runtime_free(rt);
    CHECK_EQ(stubborn.reports, 1);
}

TEST(a_fiber_that_ignores_less_than_a_thousand_is_not_reported) {
    ON_THIS_THREAD("the two alternate");
    aw_runtime *rt = reporting_runtime();
    struct ignores_it *task = aw_spawn_on(rt, AW_CALL(ignores_it, .limit = 999));
    CHECK_EQ(aw_block_on(rt, AW_CALL(runs_meanwhile, .task = task, .until = 999)), 0);
    CHECK_EQ(stubborn.reports, 0);
    aw_task_drop(task);
    aw_runtime_free(rt);
}

TEST(a_timer_and_the_end_of_the_runtime_come_through_a_fiber_that_ignores_its_cancel) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.log = keep_report;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0); /* real time */
    struct ignores_it *task = aw_spawn_on(rt, AW_CALL(ignores_it, .limit = 5000));
    run_a_while(rt);
    aw_task_abort(task);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
    aw_task_drop(task);
    aw_runtime_free(rt); /* waits for it */
    CHECK_EQ(stubborn.refusals, 5000);
    CHECK_EQ(stubborn.reports, 1);
}

/* ---- Wakers ----------------------------------------------------------------------------------- */

TEST(a_cancel_may_bring_another_waker_at_each_step) {
    struct script s[3] = {
        {.pends = NEVER, .cancel_pends = 1000, .borrows = true}, {.owns = true}, {.owns = true}};
    struct three f = AW_CALL(three, .s = s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
        CHECK_EQ(drive_wakes(), 0);
        script_wake(&s[0]);
        CHECK_EQ(drive_wakes(), 1);
    }
    script_finish_cancel(&s[0]);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING); /* the next one is refused, and yields */
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    check_answers(-ECANCELED, -ECANCELED, -ECANCELED);
    ownership_check_balanced();
}

/* A child that takes several calls to cancel is not started again; the refused await itself
 * waits for it. */
TEST(a_refused_await_waits_until_what_it_gave_up_is_gone) {
    struct script s[3] = {{.pends = NEVER}, {.pends = NEVER}, {.pends = NEVER}};
    struct three f = AW_CALL(three, .s = s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    s[0].cancel_pends = 2;
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(log_of.count, 0);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(s[0].cancels, 3);
    ownership_check_balanced();
}

/* A future that was started before: it is cancelled when the cancelled fiber awaits it. */
AW_FIBER(int, takes_over, struct script *s, *running;) {
    struct leaf l = leaf(self->running);
    CHECK_EQ(aw_future_poll(&l.future, aw_fiber_cx()), AW_PENDING);
    int first = aw_await(leaf(self->s));
    CHECK_EQ(first, -ECANCELED);
    int r = aw_await_future(&l.future);
    if (r == 0) ownership_release(l.out);
    return r;
}

TEST(a_running_future_that_a_cancelled_fiber_awaits_is_cancelled_to_its_end) {
    for (int i = 0; i < 6; i++) {
        struct script s = {.pends = NEVER},
                      running = {.pends = NEVER, .cancel_pends = i / 2, .busy = true};
        running.wins = i % 2;
        struct takes_over f = AW_CALL(takes_over, .s = &s, .running = &running);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
        CHECK_EQ(running.cancels, i / 2 + 1);
        CHECK_EQ(running.finished, i % 2);
        CHECK_EQ(f.out, i % 2 ? 0 : -ECANCELED); /* a value that came first is delivered */
        ownership_check_balanced();
    }
}

/* The cancel of a child, called on the fiber's own stack. */
static aw_poll just_waits(void *arg, aw_cx *cx, int *out) {
    (void)arg, (void)cx, (void)out;
    return AW_PENDING;
}
AW_FIBER(int, abandons_a_check, int *calls;) {
    aw_poll_fn fn = aw_poll_fn_with(just_waits, checks_in_a_cancel, self->calls);
    CHECK_EQ(aw_future_poll(&fn.future, aw_fiber_cx()), AW_PENDING);
    CHECK_EQ(aw_await(aw_never_ready()), -ECANCELED);
    return aw_await_future(&fn.future);
}

TEST(the_cancel_of_what_a_fiber_gives_up_is_not_the_fiber) {
    int calls = 0;
    struct abandons_a_check f = AW_CALL(abandons_a_check, .calls = &calls);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(calls, 1);
}

/* ---- Timeouts --------------------------------------------------------------------------------- */

AW_FIBER(int, hands_on, struct script *s;) {
    return aw_await(leaf(self->s));
}
AW_ASYNC(int, around_a_fiber, struct script *s; struct hands_on f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, AW_CALL(hands_on, .s = self->s));
    AW_RETURN(self->f.out);
    AW_END;
}
AW_FIBER(int, around_it_all, struct script *s;) {
    return aw_await(AW_CALL(around_a_fiber, .s = self->s));
}

/* Times out at once, but what it awaits may finish while it is being cancelled. */
AW_FIBER(int, gives_up, struct script *s; int depth;) {
    int r = self->depth == 0   ? aw_await_for(0, AW_CALL(hands_on, .s = self->s))
            : self->depth == 1 ? aw_await_for(0, AW_CALL(around_a_fiber, .s = self->s))
                               : aw_await_for(0, AW_CALL(around_it_all, .s = self->s));
    CHECK(!aw_cancelled());
    return r;
}

TEST(a_timeout_keeps_the_value_of_a_fiber_that_finished_while_it_was_being_cancelled) {
    for (int depth = 0; depth < 3; depth++) {
        aw_runtime *rt = paused_runtime();
        struct script s = {.pends = NEVER, .cancel_pends = 2, .wins = true, .busy_cancel = true};
        int r = aw_block_on(rt, AW_CALL(gives_up, .s = &s, .depth = depth));
        CHECK_GT(r, 0);
        CHECK_EQ(r, s.out);
        script_take(&s);

        s = (struct script){.pends = NEVER, .cancel_pends = 2, .busy_cancel = true};
        CHECK_EQ(aw_block_on(rt, AW_CALL(gives_up, .s = &s, .depth = depth)), -ETIMEDOUT);
        aw_runtime_free(rt);
        ownership_check_balanced();
    }
}

/* ---- Cancels that take long ------------------------------------------------------------------- */

AW_FIBER(int, slow_to_end) {
    int r = aw_await(aw_never_ready());
    AW_SHIELD {
        CHECK_EQ(aw_await(aw_sleep_for(AW_SEC(4))), 0);
    }
    return r;
}

TEST(a_cancel_that_takes_long_is_reported_with_the_location_where_the_fiber_waits) {
    aw_runtime *rt = reporting_runtime();
    struct slow_to_end *task = aw_spawn_on(rt, AW_CALL(slow_to_end));
    run_a_while(rt);
    aw_task_abort(task);
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), -ECANCELED);
    CHECK_EQ(stubborn.reports, 1);
    CHECK_CONTAINS(stubborn.report, "a cancel has not ended after 1.000 s");
    CHECK_CONTAINS(stubborn.report, "slow_to_end: waits at ");
    CHECK_CONTAINS(stubborn.report, "fiber_cancel.c:");
    CHECK_CONTAINS(stubborn.report, "(being cancelled)");
    CHECK_CONTAINS(stubborn.report, "sleep");
    aw_task_drop(task);
    aw_runtime_free(rt);
}
