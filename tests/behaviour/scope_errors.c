/* SPDX-License-Identifier: MIT
 *
 * The first error cancels the rest, and is what the scope returns. A failed spawn returns its
 * error to the spawner. */
#include "support/scopes.h"

/* ---- The first error ------------------------------------------------------------------------- */

static void one_of_three(uint32_t workers, bool fails, bool fibers) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    KIDS(kids, 3);
    struct kid own = KID;
    kids[1].result = -EIO;
    kids[1].fails = fails;
    struct parent body = AW_CALL(parent, .kids = kids, .n = 3, .own = &own, .fibers = fibers);
    parent_scope *task = aw_spawn_on(rt, AW_SCOPE_OF(parent_scope, body));
    run_a_while(rt);
    gate_open(&kids[1].gate);
    must_finish(rt, &task->future);
    CHECK_EQ(aw_task_take(task), -EIO);
    check_kids(kids, 3);
    CHECK_EQ(kids[0].gate.cancelled + kids[2].gate.cancelled + own.gate.cancelled, 3);
    CHECK_EQ(own.ended, 1);
    CHECK_EQ(kids[1].discards, fibers || !fails); /* a fiber that is cut returns all the same */
    workers_end(rt, &m);
}
ON_BOTH(the_error_of_a_child_cancels_the_others_and_the_body) {
    one_of_three(workers, false, false);
}
ON_BOTH(the_error_of_a_fiber_cancels_the_others_and_the_body) {
    one_of_three(workers, false, true);
}
ON_BOTH(a_child_that_fails_its_task_cancels_the_others_and_the_body) {
    one_of_three(workers, true, false);
}
ON_BOTH(a_fiber_that_fails_its_task_cancels_the_others_and_the_body) {
    one_of_three(workers, true, true);
}

ON_BOTH(the_error_of_the_body_cancels_the_children) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 3);
    struct kid own = KID;
    own.result = -EPROTO;
    gate_open(&own.gate);
    CHECK_EQ(aw_block_on(rt, PARENT(.kids = kids, .n = 3, .own = &own)), -EPROTO);
    check_kids(kids, 3);
    CHECK_EQ(own.discards, 0); /* it is the output of the scope */
    aw_runtime_free(rt);
}

ON_BOTH(the_value_of_a_body_that_had_finished_is_discarded_when_a_child_fails) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 2);
    struct kid own = KID;
    aw_flag flag = {0};
    kids[0].result = -EIO;
    gate_open(&own.gate);
    parent_scope s = PARENT(.kids = kids, .n = 2, .own = &own);
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_PENDING);
    run_a_while(rt);
    CHECK_EQ(own.discards, 0);
    gate_open(&kids[0].gate);
    run_a_while(rt);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_PENDING);
    run_a_while(rt);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_READY);
    CHECK_EQ(s.out, -EIO);
    CHECK_EQ(own.discards, 1);
    check_kids(kids, 2);
    aw_runtime_free(rt);
}

ON_BOTH(of_two_errors_the_first_counts) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 3);
    kids[0].result = -EIO;
    kids[2].result = -EPROTO;
    kids[0].gate.wins = true;
    struct parent body = AW_CALL(parent, .kids = kids, .n = 3);
    parent_scope *task = aw_spawn_on(rt, AW_SCOPE_OF(parent_scope, body));
    run_a_while(rt);
    gate_open(&kids[2].gate);
    must_finish(rt, &task->future);
    CHECK_EQ(aw_task_take(task), -EPROTO);
    CHECK_EQ(kids[0].gate.finished, 1); /* while it was cancelled */
    check_kids(kids, 3);
    aw_runtime_free(rt);
}

/* Negative, but not an errno. */
AW_ASYNC(double, below_zero) {
    AW_BEGIN;
    AW_RETURN(-1.5);
    AW_END;
}
AW_ASYNC(int, of_doubles, aw_scope *scope;) {
    AW_BEGIN;
    CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(below_zero)), 0);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct of_doubles) doubles_scope;
ON_BOTH(an_output_that_carries_no_error_is_none) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(doubles_scope, AW_CALL(of_doubles))), 0);
    aw_runtime_free(rt);
}

/* The discard of a child may overwrite its output. */
struct wiped {
    AW_FRAME(int);
};
static void wipe(aw_future *self) {
    ((struct wiped *)self)->out = -1;
}
AW_ASYNC_STATIC(wiped, .discard = wipe) {
    AW_BEGIN;
    AW_RETURN(1);
    AW_END;
}
AW_ASYNC(int, wiping, aw_scope *scope;) {
    AW_BEGIN;
    CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(wiped)), 0);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct wiping) wiping_scope;
ON_BOTH(an_output_is_looked_at_before_it_is_discarded) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(wiping_scope, AW_CALL(wiping))), 0);
    aw_runtime_free(rt);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* Spawns when it is cancelled. */
AW_ASYNC(int, late, aw_scope *scope; struct kid * kid; int *error; aw_never never;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) *self->error = aw_scope_spawn(self->scope, AW_CALL(child, .kid = self->kid));
    AW_END;
}
AW_ASYNC(int, too_late, aw_scope *scope; struct kid * kids; int *errors; struct late late;) {
    AW_BEGIN;
    CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(late, .scope = self->scope, .kid = &self->kids[0],
                                                 .error = &self->errors[0])),
             0);
    CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(child, .kid = &self->kids[1])), 0);
    AW_AWAIT(self->late,
             AW_CALL(late, .scope = self->scope, .kid = &self->kids[2], .error = &self->errors[2]));
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct too_late) late_scope;
ON_BOTH(nothing_is_spawned_into_a_scope_that_is_ending) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    KIDS(kids, 3);
    int errors[3] = {0};
    kids[1].result = -EIO;
    struct too_late body = AW_CALL(too_late, .kids = kids, .errors = errors);
    late_scope *task = aw_spawn_on(rt, AW_SCOPE_OF(late_scope, body));
    run_a_while(rt);
    gate_open(&kids[1].gate);
    must_finish(rt, &task->future);
    CHECK_EQ(aw_task_take(task), -EIO);
    CHECK_EQ(errors[0], -ECANCELED);
    CHECK_EQ(errors[2], -ECANCELED);
    CHECK_EQ(kids[0].unstarted + kids[2].unstarted, 2);
    check_kids(kids, 3);
    workers_end(rt, &m);
}

/* ---- Spawns that fail ------------------------------------------------------------------------ */

AW_ASYNC(int, greedy, aw_scope *scope; struct kid * kids; int *errors; int n; memory * m;) {
    AW_BEGIN;
    for (int i = 0; i < self->n; i++) {
        if (self->m) STORE(self->m->refuse, i % 2);
        self->errors[i] = aw_scope_spawn(self->scope, AW_CALL(child, .kid = &self->kids[i]));
    }
    if (self->m) STORE(self->m->refuse, 0);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct greedy) greedy_scope;

ON_BOTH(a_child_for_which_there_is_no_memory_is_cancelled_and_the_scope_goes_on) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    KIDS(kids, 6);
    int errors[6];
    for (int i = 0; i < 6; i++)
        gate_open(&kids[i].gate);
    struct greedy body = AW_CALL(greedy, .kids = kids, .errors = errors, .n = 6, .m = &m);
    CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(greedy_scope, body)), 0);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(errors[i], i % 2 ? -ENOMEM : 0);
        CHECK_EQ(kids[i].unstarted, i % 2);
    }
    check_kids(kids, 6);
    workers_end(rt, &m);
}

ON_BOTH(a_child_too_many_for_the_runtime_is_cancelled_and_the_scope_goes_on) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = workers ? AW_MULTI_THREAD : AW_CURRENT_THREAD;
    o.workers = workers;
    o.max_tasks = 2;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    KIDS(kids, 3);
    int errors[3];
    aw_flag flag = {0};
    greedy_scope s = AW_SCOPE_OF(greedy_scope,
                                 AW_CALL(greedy, .kids = kids, .errors = errors, .n = 3));
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_PENDING);
    CHECK_EQ(errors[0], 0);
    CHECK_EQ(errors[1], 0);
    CHECK_EQ(errors[2], -EAGAIN);
    CHECK_EQ(kids[2].unstarted, 1);
    gate_open(&kids[0].gate);
    gate_open(&kids[1].gate);
    run_a_while(rt);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_READY);
    CHECK_EQ(s.out, 0);
    check_kids(kids, 3);
    aw_runtime_free(rt);
}

TEST(without_a_runtime_children_are_refused) {
    KIDS(kids, 1);
    int error;
    aw_flag flag = {0};
    greedy_scope s = AW_SCOPE_OF(greedy_scope,
                                 AW_CALL(greedy, .kids = kids, .errors = &error, .n = 1));
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    CHECK_EQ(error, -ENXIO);
    CHECK_EQ(kids[0].unstarted, 1);
}

/* ---- The runtime of the children ends -------------------------------------------------------- */

ON_BOTH(children_that_their_runtime_cancels_are_an_error_of_the_scope) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 3);
    struct kid own = KID;
    aw_flag flag = {0};
    parent_scope s = PARENT(.kids = kids, .n = 3, .own = &own);
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_PENDING);
    run_a_while(rt);
    aw_runtime_free(rt);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    CHECK_EQ(s.out, -ECANCELED);
    CHECK_EQ(own.gate.cancelled, 1);
    check_kids(kids, 3);
}

ON_BOTH(a_runtime_that_ends_ends_scopes_and_their_children) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    KIDS(kids, 8);
    for (int i = 0; i < 4; i++) {
        struct parent body = AW_CALL(parent, .kids = &kids[2 * i], .n = 2);
        aw_task_drop(aw_spawn_on(rt, AW_SCOPE_OF(parent_scope, body)));
    }
    run_a_while(rt);
    workers_end(rt, &m);
    check_kids(kids, 8);
}
