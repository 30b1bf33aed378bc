/* SPDX-License-Identifier: MIT
 *
 * Shields: what is awaited in a shield is polled and never cancelled, not even by a second
 * cancel. This holds in every composite that contains the fiber, and ends however the shield is
 * left. */
#include <errno.h>

#include "support/checked_waker.h"
#include "support/clock.h"
#include "support/script.h"
#include "support/settle.h"

/* ---- In the fiber ----------------------------------------------------------------------------- */

/* The results of awaits in a shield, and then outside. */
static int answers[8];

static int await_leaf(struct script *s) {
    int r = aw_await(leaf(s));
    if (r > 0) ownership_release(r);
    return r > 0 ? 1 : r;
}

AW_FIBER(int, shielded, struct script *s;) {
    AW_SHIELD {
        answers[0] = await_leaf(&self->s[0]);
    }
    answers[1] = await_leaf(&self->s[1]);
    return 1;
}

TEST(an_await_in_a_shield_is_polled_and_the_next_one_behind_it_is_refused) {
    struct script s[2] = {{.pends = NEVER}, {.pends = 0, .wins = true}};
    struct shielded f = AW_CALL(shielded, .s = s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    for (int again = 0; again < 5; again++)
        CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(s[0].polls, 6);
    CHECK_EQ(s[0].cancels, 0);
    CHECK_EQ(s[1].cancels, 0);
    script_finish(&s[0]);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(answers[0], 1);
    CHECK_EQ(answers[1], -ECANCELED);
    CHECK_EQ(s[0].cancels, 0);
    CHECK_EQ(s[1].polls, 0);
    ownership_check_balanced();
}

AW_FIBER(int, all_shielded, struct script *s;) {
    int r = 0;
    AW_SHIELD {
        r = await_leaf(self->s);
        CHECK(aw_cancelled()); /* the cancellation is visible all the same */
    }
    return r;
}

TEST(a_fiber_that_is_cancelled_in_a_shield_and_awaits_nothing_more_has_finished) {
    struct script s = {.pends = NEVER};
    struct all_shielded f = AW_CALL(all_shielded, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    script_finish(&s);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(f.out, 1);
    ownership_check_balanced();
}

AW_FIBER(int, cleans_up, struct script *s; int *steps;) {
    int r = await_leaf(&self->s[0]);
    ++*self->steps;
    AW_SHIELD {
        for (int i = 1; i < 4; i++) {
            CHECK_EQ(await_leaf(&self->s[i]), 1);
            ++*self->steps;
            CHECK_EQ(aw_fiber_yield(), 0);
        }
    }
    return r;
}

TEST(a_shield_that_is_entered_while_the_fiber_is_being_cancelled_lets_it_clean_up) {
    struct script s[4] = {{.pends = NEVER}, {.pends = 0}, {.pends = 1}, {.pends = 2}};
    int steps = 0;
    for (int i = 0; i < 4; i++)
        s[i].busy = true;
    struct cleans_up f = AW_CALL(cleans_up, .s = s, .steps = &steps);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(steps, 4);
    CHECK_EQ(s[1].cancels + s[2].cancels + s[3].cancels, 0);
    ownership_check_balanced();
}

/* ---- Every way out of a shield ---------------------------------------------------------------- */

enum way { BY_ITS_END, BY_RETURN, BY_BREAK, BY_CONTINUE, BY_GOTO, BY_A_LOOP, WAYS };

static int leave_by_return(struct script *s) {
    AW_SHIELD {
        return await_leaf(s);
    }
    return 0;
}

static int leave(enum way way, struct script *s) {
    int r = 0;
    switch (way) {
    case BY_ITS_END: AW_SHIELD { r = await_leaf(s);
        }
        break;
    case BY_RETURN: return leave_by_return(s);
    case BY_BREAK:
        AW_SHIELD {
            r = await_leaf(s);
            if (r) break;
            FAIL("a break leaves the shield");
        }
        break;
    case BY_CONTINUE:
        AW_SHIELD {
            r = await_leaf(s);
            if (r) continue;
            FAIL("so does a continue, and once");
        }
        break;
    case BY_GOTO:
        AW_SHIELD {
            r = await_leaf(s);
            goto out;
        }
        break;
    default:
        for (int i = 0; i < 3; i++) {
            AW_SHIELD {
                if (i == 0) r = await_leaf(s);
                break; /* the shield, not the loop */
            }
            answers[i] = i;
        }
        CHECK_EQ(answers[2], 2);
    }
out:
    return r;
}

AW_FIBER(int, leaves, enum way way; struct script * s;) {
    CHECK_EQ(leave(self->way, &self->s[0]), 1);
    return await_leaf(&self->s[1]);
}

static void leave_each_way(bool cancelled) {
    for (int way = 0; way < WAYS; way++) {
        struct script s[2] = {{.pends = NEVER}, {.pends = 0}};
        struct leaves f = AW_CALL(leaves, .way = (enum way)way, .s = s);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        if (cancelled) CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
        script_finish(&s[0]);
        CHECK_EQ(cancelled ? drive_cancel_to_end(&f.future) : drive_poll(&f.future),
                 cancelled ? AW_CANCELLED : AW_READY);
        CHECK_EQ(f.out, cancelled ? -ECANCELED : 1);
        ownership_check_balanced();
    }
}

TEST(a_shield_ends_however_it_is_left) {
    leave_each_way(true);
    leave_each_way(false);
}

/* ---- Nested ----------------------------------------------------------------------------------- */

static int in_a_shield_of_its_own(struct script *s) {
    int r = 0;
    AW_SHIELD {
        r = await_leaf(s);
    }
    return r;
}

AW_FIBER(int, nested, struct script *s;) {
    AW_SHIELD {
        AW_SHIELD {
            answers[0] = await_leaf(&self->s[0]);
            answers[1] = in_a_shield_of_its_own(&self->s[1]);
        }
        answers[2] = await_leaf(&self->s[2]); /* still in the outer shield */
        for (int i = 0; i < 2; i++)
            AW_SHIELD {
                break;
            }
        answers[3] = await_leaf(&self->s[3]);
    }
    answers[4] = await_leaf(&self->s[4]);
    answers[5] = in_a_shield_of_its_own(&self->s[5]);
    return answers[6] = await_leaf(&self->s[6]);
}

TEST(a_shield_in_a_shield_leaves_the_outer_one_standing) {
    for (int at = 0; at < 4; at++) {
        struct script s[7];
        for (int i = 0; i < 7; i++)
            s[i] = (struct script){.pends = i == at ? 2 : 1, .busy = true};
        struct nested f = AW_CALL(nested, .s = s);
        while (s[at].polls == 0)
            CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
        for (int i = 0; i < 7; i++) {
            CHECK_EQ(answers[i], i == 4 || i == 6 ? -ECANCELED : 1);
            CHECK_EQ(s[i].cancels, i == 4 || i == 6);
        }
        ownership_check_balanced();
    }
}

/* A fiber that is awaited in the shield of another is not cancelled, and aw_cancelled() is false
 * in it. */
AW_FIBER(int, asks_inside, struct script *s;) {
    int r = await_leaf(self->s);
    CHECK(!aw_cancelled());
    CHECK_EQ(aw_fiber_yield(), 0);
    return r;
}
AW_FIBER(int, shields_a_fiber, struct script *s;) {
    int r = 0;
    AW_SHIELD {
        r = aw_await(AW_CALL(asks_inside, .s = self->s));
        CHECK(aw_cancelled());
    }
    CHECK_EQ(aw_fiber_yield(), -ECANCELED);
    return r;
}

TEST(a_shield_holds_for_the_fibers_that_are_awaited_in_it) {
    struct script s = {.pends = NEVER};
    struct shields_a_fiber f = AW_CALL(shields_a_fiber, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    script_finish(&s);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(f.out, 1);
    ownership_check_balanced();
}

/* The shield of an inner fiber holds when the outer fiber is cancelled. */
AW_FIBER(int, outside_of_it, struct script *s;) {
    int r = aw_await(AW_CALL(shielded, .s = self->s));
    CHECK_EQ(r, -ECANCELED);
    return r;
}

TEST(a_fiber_in_a_shield_is_waited_for_by_the_fiber_that_awaits_it) {
    struct script s[2] = {{.pends = NEVER}, {.pends = 0}};
    struct outside_of_it f = AW_CALL(outside_of_it, .s = s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    for (int again = 0; again < 3; again++)
        CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    script_finish(&s[0]);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(answers[0], 1);
    CHECK_EQ(answers[1], -ECANCELED);
    ownership_check_balanced();
}

/* A timeout in a shield is the fiber's own, so it does cancel. */
AW_FIBER(int, patient, struct script *s;) {
    int r = await_leaf(&self->s[0]);
    CHECK_EQ(r, -ECANCELED);
    AW_SHIELD {
        CHECK_EQ(aw_await_for(AW_MSEC(300), leaf(&self->s[1])), -ETIMEDOUT);
    }
    return r;
}

TEST(a_timeout_in_a_shield_still_gives_up) {
    aw_runtime *rt = paused_runtime();
    struct script s[2] = {{.pends = NEVER}, {.pends = NEVER}};
    struct patient *task = aw_spawn_on(rt, AW_CALL(patient, .s = s));
    run_a_while(rt);
    uint64_t begin = aw_now(rt);
    aw_task_abort(task);
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), -ECANCELED);
    CHECK_GE(aw_now(rt) - begin, AW_MSEC(300));
    CHECK_EQ(s[1].cancels, 1);
    aw_task_drop(task);
    aw_runtime_free(rt);
    ownership_check_balanced();
}

/* ---- In every composite ----------------------------------------------------------------------- */

enum { MANY = 40 };

struct care {
    struct script body, cleanup;
    int holder, cleaned;
};

AW_FIBER(int, careful, struct care *c;) {
    struct care *c = self->c;
    c->holder = ownership_enter(0);
    c->body.parent = c->cleanup.parent = c->holder;
    int r = await_leaf(&c->body);
    AW_SHIELD {
        CHECK_EQ(c->cleaned++, 0);
        await_leaf(&c->cleanup);
    }
    ownership_leave(c->holder);
    return r;
}

static struct care cares[MANY];
static struct careful calls[MANY];

static struct careful call(int i) {
    cares[i] = (struct care){.body = {.pends = NEVER}, .cleanup = {.pends = NEVER}};
    return AW_CALL(careful, .c = &cares[i]);
}

/* Cancelled while its body waits, then again and again in its cleanup, which runs to its end. */
static void check_cleanup(aw_future *f, int n) {
    CHECK_EQ(drive_poll(f), AW_PENDING);
    for (int again = 0; again < 3; again++)
        CHECK_EQ(drive_cancel(f), AW_PENDING);
    for (int i = 0; i < n; i++) {
        CHECK_EQ(cares[i].body.cancelled, 1);
        CHECK_EQ(cares[i].cleaned, 1);
        script_finish(&cares[i].cleanup);
        CHECK_GT(drive_wakes(), 0);
        CHECK_EQ(drive_cancel(f), i + 1 < n ? AW_PENDING : AW_CANCELLED);
    }
    for (int i = 0; i < n; i++)
        CHECK_EQ(cares[i].cleanup.cancels, 0);
    ownership_check_balanced();
}

typedef AW_TIMEOUT(struct careful) careful_timeout;
typedef AW_JOIN(struct careful, struct careful) careful_group;

TEST(a_shield_alone_is_not_cut_short) {
    calls[0] = call(0);
    check_cleanup(&calls[0].future, 1);
}

TEST(a_shield_in_a_box_is_not_cut_short) {
    aw_box b = aw_box_new(call(0));
    check_cleanup(&b.future, 1);
}

AW_ASYNC(int, function_around, struct careful f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, call(0));
    AW_RETURN(self->f.out);
    AW_FINALLY;
    CHECK_EQ(ownership.inside, 0); /* the inner fiber has ended */
    AW_END;
}

TEST(a_shield_in_a_function_is_not_cut_short) {
    struct function_around f = AW_CALL(function_around);
    check_cleanup(&f.future, 1);
}

AW_FIBER(int, fiber_around) {
    int r = aw_await(call(0));
    CHECK_EQ(ownership.inside, 0);
    return r;
}

TEST(a_shield_in_a_fiber_in_a_fiber_is_not_cut_short) {
    struct fiber_around f = AW_CALL(fiber_around);
    check_cleanup(&f.future, 1);
}

TEST(a_shield_in_a_timeout_is_not_cut_short) {
    aw_runtime *rt = paused_runtime();
    aw_enter(rt);
    careful_timeout t = AW_TIMEOUT_OF(careful_timeout, AW_SEC(1000), call(0));
    check_cleanup(&t.future, 1);
    aw_leave(NULL);
    aw_runtime_free(rt);
}

TEST(a_shield_in_a_timeout_that_expired_is_not_cut_short) {
    aw_runtime *rt = paused_runtime();
    aw_enter(rt);
    careful_timeout t = AW_TIMEOUT_AT_OF(careful_timeout, 0, call(0));
    for (int again = 0; again < 3; again++)
        CHECK_EQ(drive_poll(&t.future), AW_PENDING);
    CHECK_EQ(cares[0].body.cancels, 1);
    script_finish(&cares[0].cleanup);
    CHECK_EQ(drive_poll(&t.future), AW_READY);
    CHECK_EQ(t.out, -ETIMEDOUT);
    CHECK_EQ(cares[0].cleanup.cancels, 0);
    aw_leave(NULL);
    aw_runtime_free(rt);
    ownership_check_balanced();
}

TEST(shields_in_groups_are_not_cut_short) {
    careful_group g = AW_JOIN_OF(careful_group, call(0), call(1));
    check_cleanup(&g.future, 2);
    g = AW_TRY_JOIN_OF(careful_group, call(0), call(1));
    check_cleanup(&g.future, 2);
    g = AW_SELECT_OF(careful_group, call(0), call(1));
    check_cleanup(&g.future, 2);
}

TEST(shields_in_arrays_are_not_cut_short) {
    static const aw_future_type *const kinds[] = {&aw_join_all_type, &aw_try_join_all_type,
                                                  &aw_select_all_type};
    for (int kind = 0; kind < 3; kind++)
        for (int n = 4; n <= MANY; n += MANY - 4) {
            for (int i = 0; i < n; i++)
                calls[i] = call(i);
            aw_all a = aw_all_of(kinds[kind], &calls[0].future, sizeof calls[0], (size_t)n);
            check_cleanup(&a.future, n);
        }
}

TEST(the_shield_of_a_loser_is_through_before_its_select_reports) {
    careful_group s = AW_SELECT_OF(careful_group, call(0), call(1));
    CHECK_EQ(drive_poll(&s.future), AW_PENDING);
    script_finish(&cares[1].body);
    CHECK_EQ(drive_poll(&s.future), AW_PENDING);
    script_finish(&cares[1].cleanup);
    CHECK_EQ(drive_poll(&s.future), AW_PENDING);
    CHECK_EQ(cares[0].body.cancels, 1);
    CHECK_EQ(drive_poll(&s.future), AW_PENDING);
    script_finish(&cares[0].cleanup);
    CHECK_EQ(drive_poll(&s.future), AW_READY);
    CHECK_EQ(s.out, 1 << 1);
    CHECK_EQ(cares[0].cleanup.cancels + cares[1].cleanup.cancels, 0);
    ownership_check_balanced();
}

TEST(shields_in_a_set_that_is_cleared_are_not_cut_short) {
    enum { N = 20 };
    aw_set set;
    aw_set_init(&set, sizeof(struct careful));
    for (int i = 0; i < N; i++)
        CHECK_EQ(aw_set_push(&set, call(i)), 0);
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);
    aw_set_clear_future clear = aw_set_clear(&set);
    CHECK_EQ(drive_poll(&clear.future), AW_PENDING);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(cares[i].body.cancelled, 1);
        script_finish(&cares[i].cleanup);
        CHECK_EQ(drive_cancel(&clear.future), i + 1 < N ? AW_PENDING : AW_READY);
        CHECK_EQ(cares[i].cleanup.cancels, 0);
    }
    aw_set_free(&set);
    ownership_check_balanced();
}

/* ---- Tasks ------------------------------------------------------------------------------------ */

AW_FIBER(int, abort_often, struct careful *task;) {
    CHECK_EQ(aw_await(rounds(1)), 0);
    for (int i = 0; i < 3; i++) {
        aw_task_abort(self->task);
        CHECK_EQ(aw_await(rounds(1)), 0);
    }
    CHECK_EQ(cares[0].body.cancelled, 1);
    CHECK(!aw_task_is_finished(self->task));
    script_finish(&cares[0].cleanup);
    int r = aw_await(aw_task_join(self->task));
    aw_task_drop(self->task);
    return r;
}

TEST(the_shield_of_a_task_is_not_cut_short_by_a_second_abort) {
    aw_runtime *rt = paused_runtime();
    struct careful *task = aw_spawn_on(rt, call(0));
    CHECK_EQ(aw_block_on(rt, AW_CALL(abort_often, .task = task)), -ECANCELED);
    CHECK_EQ(cares[0].cleanup.cancels, 0);
    aw_runtime_free(rt);
    ownership_check_balanced();
}

TEST(ending_a_runtime_waits_for_the_shields_of_its_fibers) {
    aw_runtime *rt = paused_runtime();
    struct careful patient = call(0);
    cares[0].cleanup = (struct script){.pends = 5, .busy = true};
    struct careful *task = aw_spawn_on(rt, patient);
    run_a_while(rt);
    aw_task_drop(task);
    aw_runtime_free(rt);
    CHECK_EQ(cares[0].cleaned, 1);
    CHECK_EQ(cares[0].cleanup.finished, 1);
    ownership_check_balanced();
}

/* ---- Mistakes --------------------------------------------------------------------------------- */

static void shield_outside_a_fiber(void) {
    AW_SHIELD {}
}

TEST(a_shield_outside_a_fiber_is_caught) {
    DIES(shield_outside_a_fiber(), "AW_SHIELD outside a fiber");
}

AW_FIBER(int, fails_in_a_shield) {
    AW_SHIELD {
        aw_fiber_fail(-EIO);
    }
    return 0;
}

TEST(failing_the_task_in_a_shield_is_caught) {
    DIES((void)aw_run(AW_CALL(fails_in_a_shield)), "fiber_shield.c:");
    DIES((void)aw_run(AW_CALL(fails_in_a_shield)), "aw_fiber_fail inside AW_SHIELD");
}

AW_FIBER(int, fails) {
    return aw_fiber_fail(-EIO);
}
AW_FIBER(int, awaits_failure_in_a_shield) {
    int r = 0;
    AW_SHIELD {
        r = aw_await(AW_CALL(fails));
    }
    return r;
}

TEST(failing_the_task_in_what_a_shield_awaits_is_caught) {
    DIES((void)aw_run(AW_CALL(awaits_failure_in_a_shield)), "which is awaited by cleanup");
}
