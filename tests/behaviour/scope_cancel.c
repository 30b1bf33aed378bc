/* SPDX-License-Identifier: MIT
 *
 * A scope that is cancelled cancels its body and its children, and waits for them: the rules of
 * cancelling, for a scope. Most tests poll the scope directly and let a runtime run the children
 * in between. */
#include "support/scopes.h"

struct fixture {
    aw_runtime *rt;
    memory memory;
    aw_flag flag;
    struct kid kids[3], own;
    parent_scope s;
};

/* A scope with a body and three children, all waiting. */
static void begin(struct fixture *t, uint32_t workers) {
    t->rt = new_runtime(workers, &t->memory, NULL);
    t->flag = (aw_flag){0};
    for (int i = 0; i < 3; i++)
        t->kids[i] = (struct kid)KID;
    t->own = (struct kid)KID;
    t->s = PARENT(.kids = t->kids, .n = 3, .own = &t->own);
}
static void start(struct fixture *t) {
    CHECK_EQ(poll_in(t->rt, &t->s.future, &t->flag), AW_PENDING);
    run_a_while(t->rt);
}
static void end(struct fixture *t) {
    check_kids(t->kids, 3);
    CHECK_LE(t->own.discards, 1);
    workers_end(t->rt, &t->memory);
}

/* Runs the children, and cancels again whenever that woke the scope. */
static aw_poll cancel_to_end(struct fixture *t) {
    aw_poll r;
    while ((r = CANCEL(&t->s, &t->flag)) == AW_PENDING) {
        run_a_while(t->rt);
        CHECK(aw_flag_take(&t->flag));
    }
    return r;
}

/* ---- Unstarted ------------------------------------------------------------------------------- */

/* cancel-at-every-await: AW_SCOPE */
TEST(unstarted_it_is_cancelled_at_once_and_so_is_its_body) {
    struct kid own = KID;
    aw_flag flag = {0};
    typedef AW_SCOPE(struct parent) scope;
    scope s = AW_SCOPE_OF(scope, AW_CALL(parent, .own = &own));
    CHECK_EQ(CANCEL(&s, &flag), AW_CANCELLED);
    CHECK_EQ(own.begun, 0);
}

struct owner {
    AW_FRAME(int);
    aw_scope *scope;
    int *released;
    bool *started;
};
AW_ASYNC_STATIC(owner) {
    AW_BEGIN;
    AW_RETURN(0);
    AW_FINALLY;
    *self->started = AW_STARTED;
    ++*self->released;
    AW_END;
}
TEST(unstarted_its_body_releases_its_arguments) {
    typedef AW_SCOPE(struct owner) scope;
    int released = 0;
    bool started = true;
    aw_flag flag = {0};
    scope s = AW_SCOPE_OF(scope, AW_CALL(owner, .released = &released, .started = &started));
    CHECK_EQ(CANCEL(&s, &flag), AW_CANCELLED);
    CHECK_EQ(released, 1);
    CHECK(!started);
}

/* ---- Cancelling and waiting ------------------------------------------------------------------ */

ON_BOTH(cancelled_it_waits_until_body_and_children_are_gone) {
    struct fixture t;
    begin(&t, workers);
    t.kids[1].gate.stays = 3;
    start(&t);
    aw_poll r = CANCEL(&t.s, &t.flag); /* workers may have finished the children by then */
    if (!workers) CHECK_EQ(r, AW_PENDING);
    CHECK_EQ(t.own.gate.cancelled, 1);
    run_a_while(t.rt);
    if (r == AW_PENDING) {
        CHECK(aw_flag_take(&t.flag));
        r = CANCEL(&t.s, &t.flag);
    }
    CHECK_EQ(r, AW_CANCELLED);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(t.kids[i].gate.cancelled, 1);
    end(&t);
}

ON_BOTH(a_second_cancel_changes_nothing_and_its_waker_is_the_one_that_is_woken) {
    struct fixture t;
    aw_flag other = {0};
    begin(&t, workers);
    start(&t);
    aw_poll r = CANCEL(&t.s, &t.flag);
    if (r == AW_PENDING) r = CANCEL(&t.s, &other);
    if (!workers) CHECK_EQ(r, AW_PENDING);
    run_a_while(t.rt);
    if (r == AW_PENDING) {
        aw_flag_take(&t.flag);
        CHECK(aw_flag_take(&other));
        r = CANCEL(&t.s, &t.flag);
    }
    CHECK_EQ(r, AW_CANCELLED);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(t.kids[i].gate.cancels, 1);
    end(&t);
}

ON_BOTH(cancelled_after_its_body_has_ended_it_waits_for_the_children) {
    struct fixture t;
    begin(&t, workers);
    gate_open(&t.own.gate);
    start(&t);
    CHECK(aw_future_finished(&t.s.body.future));
    CHECK_EQ(cancel_to_end(&t), AW_CANCELLED);
    CHECK_EQ(t.own.discards, 1); /* of the body: the scope was cut */
    end(&t);
}

ON_BOTH(cancelled_before_its_children_have_begun_it_waits_for_them_too) {
    struct fixture t;
    begin(&t, workers);
    CHECK_EQ(poll_in(t.rt, &t.s.future, &t.flag), AW_PENDING);
    aw_poll r = CANCEL(&t.s, &t.flag);
    if (r == AW_PENDING) r = cancel_to_end(&t);
    CHECK_EQ(r, AW_CANCELLED);
    end(&t);
}

ON_BOTH(cancelled_when_all_has_ended_but_was_not_polled_it_is_ready) {
    struct fixture t;
    begin(&t, workers);
    gate_open(&t.own.gate);
    start(&t);
    for (int i = 0; i < 3; i++)
        gate_open(&t.kids[i].gate);
    run_a_while(t.rt);
    CHECK(aw_flag_take(&t.flag));
    CHECK_EQ(CANCEL(&t.s, &t.flag), AW_READY);
    CHECK_EQ(t.s.out, 0);
    CHECK_EQ(t.own.discards, 0);
    aw_future_discard(&t.s.future);
    CHECK_EQ(t.own.discards, 1);
    end(&t);
}

/* ---- Resume and cut -------------------------------------------------------------------------- */

/* All of them turn out to have finished. */
ON_BOTH(it_stands_when_body_and_children_finish_while_it_is_cancelled) {
    struct fixture t;
    begin(&t, workers);
    t.own.gate.wins = true;
    t.own.result = 4;
    for (int i = 0; i < 3; i++)
        t.kids[i].gate.wins = true;
    start(&t);
    CHECK_EQ(cancel_to_end(&t), AW_READY);
    CHECK_EQ(t.s.out, 0);
    CHECK_EQ(t.s.body.out, 4);
    CHECK_EQ(t.own.discards, 0);
    end(&t);
}

ON_BOTH(it_is_cut_when_one_child_is_and_the_value_of_its_body_is_discarded) {
    struct fixture t;
    begin(&t, workers);
    t.own.gate.wins = t.kids[0].gate.wins = t.kids[2].gate.wins = true;
    start(&t);
    CHECK_EQ(cancel_to_end(&t), AW_CANCELLED);
    CHECK_EQ(t.own.gate.finished, 1);
    CHECK_EQ(t.own.discards, 1);
    CHECK_EQ(t.kids[0].discards, 1);
    CHECK_EQ(t.kids[1].discards, 0);
    end(&t);
}

ON_BOTH(it_is_cut_when_its_body_is) {
    struct fixture t;
    begin(&t, workers);
    for (int i = 0; i < 3; i++)
        t.kids[i].gate.wins = true;
    start(&t);
    CHECK_EQ(cancel_to_end(&t), AW_CANCELLED);
    end(&t);
}

ON_BOTH(an_error_that_comes_while_it_is_cancelled_does_not_heal_a_cut) {
    struct fixture t;
    begin(&t, workers);
    t.kids[0].gate.wins = true;
    t.kids[0].result = -EIO;
    start(&t);
    CHECK_EQ(cancel_to_end(&t), AW_CANCELLED);
    end(&t);
}

ON_BOTH(when_all_finish_while_it_is_cancelled_an_error_among_them_counts) {
    struct fixture t;
    begin(&t, workers);
    t.own.gate.wins = true;
    for (int i = 0; i < 3; i++)
        t.kids[i].gate.wins = true;
    t.kids[1].result = -EIO;
    start(&t);
    CHECK_EQ(cancel_to_end(&t), AW_READY);
    CHECK_EQ(t.s.out, -EIO);
    CHECK_EQ(t.own.discards, 1);
    end(&t);
}

/* A body that goes on, because what it awaited had finished, and then spawns one more child. */
AW_ASYNC(int, runs_on, aw_scope *scope; struct kid * kids; int *error; struct child wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, AW_CALL(child, .kid = &self->kids[0]));
    *self->error = aw_scope_spawn(self->scope, AW_CALL(child, .kid = &self->kids[1]));
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_child_that_is_refused_while_it_is_cancelled_is_a_part_that_was_cut) {
    typedef AW_SCOPE(struct runs_on) scope;
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 2);
    int error = 0;
    aw_flag flag = {0};
    kids[0].gate.wins = true;
    scope s = AW_SCOPE_OF(scope, AW_CALL(runs_on, .kids = kids, .error = &error));
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&s, &flag), AW_CANCELLED);
    CHECK_EQ(error, -ECANCELED);
    CHECK_EQ(kids[1].unstarted, 1);
    aw_runtime_free(rt);
}

/* ---- Decided --------------------------------------------------------------------------------- */

ON_BOTH(a_scope_with_an_error_only_winds_up_when_it_is_cancelled) {
    struct fixture t;
    begin(&t, workers);
    t.kids[0].result = -EIO;
    t.kids[1].gate.stays = 2;
    start(&t);
    gate_open(&t.kids[0].gate);
    run_a_while(t.rt);
    CHECK(aw_flag_take(&t.flag));
    CHECK_EQ(poll_in(t.rt, &t.s.future, &t.flag), AW_PENDING);
    CHECK_EQ(cancel_to_end(&t), AW_READY);
    CHECK_EQ(t.s.out, -EIO);
    CHECK_EQ(t.own.gate.cancelled, 1);
    end(&t);
}

ON_BOTH(an_error_before_the_cancel_decides_although_it_was_not_polled) {
    struct fixture t;
    begin(&t, workers);
    t.kids[0].result = -EIO;
    start(&t);
    gate_open(&t.kids[0].gate);
    run_a_while(t.rt);
    CHECK_EQ(cancel_to_end(&t), AW_READY);
    CHECK_EQ(t.s.out, -EIO);
    end(&t);
}

/* ---- Cleanup --------------------------------------------------------------------------------- */

/* Its cleanup awaits a scope, which is polled and not cancelled. */
AW_ASYNC(int, cleans_up, struct kid *kids; int *result; aw_never never;
         AW_SCOPE(struct parent) s;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT_SCOPE(self->s, AW_CALL(parent, .kids = self->kids, .n = 2));
        *self->result = self->s.out;
    }
    AW_END;
}
ON_BOTH(in_cleanup_it_is_polled_also_by_a_second_cancel) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 2);
    int out = 1;
    aw_flag flag = {0};
    struct cleans_up f = AW_CALL(cleans_up, .kids = kids, .result = &out);
    aw_runtime *before = aw_enter(rt);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&f, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&f, &flag), AW_PENDING);
    aw_leave(before);
    run_a_while(rt);
    CHECK_EQ(kids[0].gate.cancels + kids[1].gate.cancels, 0);
    gate_open(&kids[0].gate);
    gate_open(&kids[1].gate);
    run_a_while(rt);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    CHECK_EQ(out, 0);
    check_kids(kids, 2);
    aw_runtime_free(rt);
}

/* ---- The parent is cancelled ----------------------------------------------------------------- */

/* Children that use what they borrow until their end. */
AW_ASYNC(int, user, uint32_t *alive; aw_never never;) {
    AW_BEGIN;
    CHECK_EQ(LOAD(*self->alive), 1);
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) AW_YIELD;
    CHECK_EQ(LOAD(*self->alive), 1);
    AW_END;
}
AW_ASYNC(int, users, aw_scope *scope; uint32_t * alive; aw_never never;) {
    AW_BEGIN;
    for (int i = 0; i < 50; i++)
        CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(user, .alive = self->alive)), 0);
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_END;
}
AW_ASYNC(int, lender, uint32_t alive; AW_SCOPE(struct users) s;) {
    AW_BEGIN;
    self->alive = 1;
    AW_AWAIT_SCOPE(self->s, AW_CALL(users, .alive = &self->alive));
    AW_RETURN(0);
    AW_FINALLY;
    STORE(self->alive, 0);
    AW_END;
}
AW_FIBER(int, lender_on_a_stack) {
    uint32_t alive = 1;
    int err = aw_await_scope(AW_CALL(users, .alive = &alive));
    STORE(alive, 0);
    return err;
}
ON_BOTH(children_end_before_the_frame_that_they_borrow_from) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    for (int i = 0; i < test_scale(100); i++) {
        struct lender *frame = aw_spawn_on(rt, AW_CALL(lender));
        struct lender_on_a_stack *fiber = aw_spawn_on(rt, AW_CALL(lender_on_a_stack));
        if (i % 2) run_a_while(rt);
        aw_task_abort(frame);
        aw_task_abort(fiber);
        CHECK_EQ(JOIN_STATUS(rt, frame), -ECANCELED);
        CHECK_EQ(JOIN_STATUS(rt, fiber), -ECANCELED);
        aw_task_drop(frame);
        aw_task_drop(fiber);
    }
    workers_end(rt, &m);
}

/* A body that fails its task fails the task that awaits the scope. */
AW_ASYNC(int, fails, aw_scope *scope; struct kid * kids;) {
    AW_BEGIN;
    spawn_kids(self->scope, self->kids, 2, false);
    AW_YIELD;
    AW_FAIL(-EPROTO);
    AW_END;
}
AW_ASYNC(int, failed, struct kid *kids; AW_SCOPE(struct fails) s;) {
    AW_BEGIN;
    AW_AWAIT_SCOPE(self->s, AW_CALL(fails, .kids = self->kids));
    FAIL("it goes on");
    AW_END;
}
ON_BOTH(a_body_that_fails_its_task_takes_the_children_with_it) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 2);
    struct failed *task = aw_spawn_on(rt, AW_CALL(failed, .kids = kids));
    CHECK_EQ(JOIN_STATUS(rt, task), -EPROTO);
    aw_task_drop(task);
    check_kids(kids, 2);
    aw_runtime_free(rt);
}

/* ---- In a timeout and a select --------------------------------------------------------------- */

AW_ASYNC(int, patient, struct kid *kids; AW_TIMEOUT(parent_scope) t;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->t, AW_MSEC(1), PARENT(.kids = self->kids, .n = 2));
    AW_RETURN(self->t.out ? self->t.out : self->t.inner.out);
    AW_END;
}
ON_BOTH(a_timeout_around_it_ends_the_children_first) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 4);
    CHECK_EQ(RUN(rt, AW_CALL(patient, .kids = kids)), -ETIMEDOUT);
    check_kids(kids, 2);
    for (int i = 2; i < 4; i++)
        kids[i].gate.wins = true;
    /* They finished while they were cancelled. */
    CHECK_EQ(RUN(rt, AW_CALL(patient, .kids = kids + 2)), 0);
    check_kids(kids + 2, 2);
    aw_runtime_free(rt);
}

AW_ASYNC(int, either, struct kid *kids; AW_SELECT(parent_scope, parent_scope) s;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->s, PARENT(.kids = self->kids, .n = 2),
                    PARENT(.kids = self->kids + 2, .n = 2));
    AW_RETURN(aw_select_winner(&self->s));
    AW_END;
}
ON_BOTH(the_loser_of_a_select_is_gone_with_its_children_when_that_reports) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 4);
    struct either *task = aw_spawn_on(rt, AW_CALL(either, .kids = kids));
    run_a_while(rt);
    gate_open(&kids[2].gate);
    gate_open(&kids[3].gate);
    must_finish(rt, &task->future);
    CHECK_EQ(aw_task_take(task), 1);
    check_kids(kids, 4);
    CHECK_EQ(kids[0].gate.cancelled + kids[1].gate.cancelled, 2);
    aw_runtime_free(rt);
}
