/* SPDX-License-Identifier: MIT
 *
 * A scope ends when its body and all children have ended. Children borrow, on any worker. */
#include "support/scopes.h"

/* ---- Borrowing ------------------------------------------------------------------------------- */

enum { MANY = 100 };

AW_ASYNC(int, put, int *into; int value;) {
    AW_BEGIN;
    AW_YIELD;
    *self->into = self->value;
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, put_all, aw_scope *scope; int *into;) {
    AW_BEGIN;
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(put, .into = &self->into[i], .value = i)), 0);
    AW_RETURN(MANY);
    AW_END;
}

static int sum_of(const int *values) {
    int sum = 0;
    for (int i = 0; i < MANY; i++)
        sum += values[i];
    return sum;
}

AW_ASYNC(int, borrower, int values[MANY]; AW_SCOPE(struct put_all) s;) {
    AW_BEGIN;
    AW_AWAIT_SCOPE(self->s, AW_CALL(put_all, .into = self->values));
    CHECK_EQ(self->s.out, 0);
    CHECK_EQ(self->s.body.out, MANY);
    AW_RETURN(sum_of(self->values));
    AW_END;
}
ON_BOTH(children_write_into_the_frame_that_awaits_the_scope) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    for (int i = 0; i < test_scale(100); i++)
        CHECK_EQ(RUN(rt, AW_CALL(borrower)), MANY * (MANY - 1) / 2);
    CHECK_EQ(aw_block_on(rt, AW_CALL(borrower)), MANY * (MANY - 1) / 2);
    workers_end(rt, &m);
}

AW_FIBER(int, put_on_a_stack, int *into; int value;) {
    int err = aw_fiber_yield();
    *self->into = self->value;
    return err;
}
AW_FIBER(int, put_all_on_stacks, aw_scope *scope; int *into;) {
    for (int i = 0; i < MANY; i++) {
        struct put_on_a_stack put = AW_CALL(put_on_a_stack, .into = &self->into[i], .value = i);
        CHECK_EQ(aw_scope_spawn(self->scope, put), 0);
        if (i % 10 == 0) CHECK_EQ(aw_fiber_yield(), 0);
    }
    return MANY;
}
AW_FIBER(int, borrower_on_a_stack) {
    int values[MANY] = {0};
    CHECK_EQ(aw_await_scope(AW_CALL(put_all_on_stacks, .into = values)), MANY);
    return sum_of(values);
}
ON_BOTH(children_write_into_the_locals_of_a_fiber_that_awaits_the_scope) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    for (int i = 0; i < test_scale(20); i++)
        CHECK_EQ(RUN(rt, AW_CALL(borrower_on_a_stack)), MANY * (MANY - 1) / 2);
    workers_end(rt, &m);
}

/* Blocks its worker until the other one arrives: that takes two workers. */
AW_ASYNC(int, meet, pthread_barrier_t *barrier;) {
    AW_BEGIN;
    pthread_barrier_wait(self->barrier);
    AW_RETURN(0);
    AW_END;
}
AW_ASYNC(int, meeting, aw_scope *scope; pthread_barrier_t * barrier;) {
    AW_BEGIN;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(meet, .barrier = self->barrier)), 0);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct meeting) meeting_scope;
TEST(children_run_on_several_workers_at_once) {
    aw_runtime *rt = workers_new(2, NULL, NULL);
    pthread_barrier_t barrier;
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
    struct meeting body = AW_CALL(meeting, .barrier = &barrier);
    CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(meeting_scope, body)), 0);
    aw_runtime_free(rt);
    pthread_barrier_destroy(&barrier);
}

/* ---- When it ends ---------------------------------------------------------------------------- */

ON_BOTH(it_waits_for_the_children_when_its_body_has_ended) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 3);
    aw_flag flag = {0};
    parent_scope s = PARENT(.kids = kids, .n = 3);
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_PENDING);
    CHECK(aw_future_finished(&s.body.future));
    run_a_while(rt);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_scope_count(s.body.scope), 3 - i);
        CHECK(!aw_flag_take(&flag)); /* only the last child wakes the scope */
        gate_open(&kids[i].gate);
        run_a_while(rt);
    }
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_READY);
    CHECK_EQ(s.out, 0);
    check_kids(kids, 3);
    aw_runtime_free(rt);
}

ON_BOTH(it_waits_for_its_body_when_the_children_have_ended) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 2);
    struct kid own = KID;
    own.result = 5;
    aw_flag flag = {0};
    parent_scope s = PARENT(.kids = kids, .n = 2, .own = &own);
    gate_open(&kids[0].gate);
    gate_open(&kids[1].gate);
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_PENDING);
    run_a_while(rt);
    CHECK(!aw_flag_take(&flag));
    gate_open(&own.gate);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_READY);
    CHECK_EQ(s.out, 0);
    CHECK_EQ(s.body.out, 5);
    CHECK_EQ(own.discards, 0);
    aw_runtime_free(rt);
}

AW_ASYNC(int, empty, aw_scope *scope;) {
    AW_BEGIN;
    AW_RETURN(7);
    AW_END;
}
typedef AW_SCOPE(struct empty) empty_scope;
TEST(without_children_it_is_its_body) {
    aw_flag flag = {0};
    empty_scope s = AW_SCOPE_OF(empty_scope, AW_CALL(empty));
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    CHECK_EQ(s.out, 0);
    CHECK_EQ(s.body.out, 7);
}

/* Each spawns two more, down to the given depth. */
AW_ASYNC(int, branch, aw_scope *scope; uint32_t * count; int depth;) {
    AW_BEGIN;
    ADD(*self->count, 1);
    AW_YIELD;
    for (int i = 0; i < 2 && self->depth > 0; i++)
        CHECK_EQ(
            aw_scope_spawn(self->scope, AW_CALL(branch, .scope = self->scope, .count = self->count,
                                                .depth = self->depth - 1)),
            0);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct branch) branch_scope;
ON_BOTH(children_spawn_into_the_scope_after_its_body_has_ended) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    uint32_t count = 0;
    struct branch root = AW_CALL(branch, .count = &count, .depth = 7);
    CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(branch_scope, root)), 0);
    CHECK_EQ(count, 255);
    workers_end(rt, &m);
}

/* ---- What is released when it ends ----------------------------------------------------------- */

static aw_local mark;
static void release_mark(void *at) {
    ADD(*(uint32_t *)at, 1);
}
AW_ASYNC(int, marked, uint32_t *released;) {
    AW_BEGIN;
    CHECK_EQ(aw_local_set(&mark, self->released, release_mark), 0);
    AW_YIELD;
    AW_RETURN(0);
    AW_END;
}
AW_ASYNC(int, mark_all, aw_scope *scope; uint32_t * released;) {
    AW_BEGIN;
    for (int i = 0; i < 8; i++)
        CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(marked, .released = self->released)), 0);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct mark_all) mark_scope;
ON_BOTH(what_belongs_to_its_children_is_released_before_it_ends) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int i = 0; i < test_scale(500); i++) {
        uint32_t released = 0;
        struct mark_all body = AW_CALL(mark_all, .released = &released);
        CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(mark_scope, body)), 0);
        CHECK_EQ(released, 8);
    }
    aw_runtime_free(rt);
}

/* As many as the limit allows: when a scope has ended there are permits for the next. */
AW_ASYNC(int, one_after_the_other, int left; uint32_t released; AW_SCOPE(struct mark_all) s;) {
    AW_BEGIN;
    while (self->left-- > 0) {
        AW_AWAIT_SCOPE(self->s, AW_CALL(mark_all, .released = &self->released));
        if (self->s.out) AW_RETURN(self->s.out);
    }
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(permits_of_max_tasks_are_free_when_it_has_ended) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = workers ? AW_MULTI_THREAD : AW_CURRENT_THREAD;
    o.workers = workers;
    o.max_tasks = 8;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(one_after_the_other, .left = test_scale(500))), 0);
    aw_runtime_free(rt);
}

ON_BOTH(outputs_of_children_are_discarded_once) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 6);
    for (int i = 0; i < 6; i++)
        gate_open(&kids[i].gate);
    CHECK_EQ(aw_block_on(rt, PARENT(.kids = kids, .n = 3)), 0);
    CHECK_EQ(aw_block_on(rt, PARENT(.kids = kids + 3, .n = 3, .fibers = true)), 0);
    check_kids(kids, 6);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(kids[i].discards, 1);
    aw_runtime_free(rt);
}

/* ---- Nested, and on other threads ------------------------------------------------------------ */

/* A task with a scope in which each child has a scope of its own. */
struct tree {
    AW_FRAME(int);
    int depth;
    uint32_t leaves; /* atomic */
    uint32_t *above;
    aw_box below;
};
AW_ASYNC_DECL(tree);

AW_ASYNC(int, forest, aw_scope *scope; int depth; uint32_t * leaves;) {
    AW_BEGIN;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(
            aw_scope_spawn(self->scope, AW_CALL(tree, .depth = self->depth, .above = self->leaves)),
            0);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct forest) forest_scope;

AW_ASYNC_DEF(tree) {
    AW_BEGIN;
    if (self->depth == 0) {
        self->leaves = 1;
    } else {
        AW_AWAIT(self->below,
                 aw_box_new(AW_SCOPE_OF(forest_scope, AW_CALL(forest, .depth = self->depth - 1,
                                                              .leaves = &self->leaves))));
        CHECK_EQ(AW_BOX_AS(forest_scope, &self->below)->out, 0);
        aw_box_free(&self->below);
    }
    ADD(*self->above, LOAD(self->leaves));
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(scopes_nest_each_borrowing_from_the_one_around_it) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    for (int i = 0; i < test_scale(20); i++) {
        uint32_t leaves = 0;
        CHECK_EQ(RUN(rt, AW_CALL(tree, .depth = 4, .above = &leaves)), 0);
        CHECK_EQ(leaves, 81);
    }
    workers_end(rt, &m);
}

static void *wait_on_a_thread(void *arg) {
    int values[MANY] = {0};
    typedef AW_SCOPE(struct put_all) put_scope;
    aw_runtime *before = aw_enter(arg);
    CHECK_EQ(aw_wait(AW_SCOPE_OF(put_scope, AW_CALL(put_all, .into = values))), 0);
    aw_leave(before);
    CHECK_EQ(sum_of(values), MANY * (MANY - 1) / 2);
    return NULL;
}
ON_WORKERS(a_plain_thread_awaits_a_scope_on_workers) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(50); i++)
        on_a_thread(wait_on_a_thread, rt);
    aw_runtime_free(rt);
}
TEST(a_plain_thread_awaits_a_scope_that_another_thread_runs) {
    ON_THIS_THREAD("it is about the thread in block_on");
    host h;
    host_start(&h, NULL);
    for (int i = 0; i < test_scale(50); i++)
        on_a_thread(wait_on_a_thread, h.rt);
    host_stop(&h);
    aw_runtime_free(h.rt);
}

/* ---- Describing it --------------------------------------------------------------------------- */

ON_BOTH(its_children_are_listed_by_name) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    KIDS(kids, 2);
    char text[4096];
    struct parent body = AW_CALL(parent, .kids = kids, .n = 2);
    parent_scope *task = aw_spawn_on(rt, AW_SCOPE_OF(parent_scope, body));
    run_a_while(rt);
    aw_runtime_describe(rt, text, sizeof text);
    CHECK_CONTAINS(text, "scope: 2 children: task ");
    CHECK_CONTAINS(text, "'child', task ");
    CHECK_CONTAINS(text, "'child' (spawned at ");
    CHECK_CONTAINS(text, "scopes.h");
    gate_open(&kids[0].gate);
    gate_open(&kids[1].gate);
    must_finish(rt, &task->future);
    CHECK_EQ(aw_task_take(task), 0);
    aw_runtime_free(rt);
}

/* Nothing will ever wake it. */
static aw_poll forget(void *arg, aw_cx *cx, int *out) {
    (void)arg, (void)cx, (void)out;
    return AW_PENDING;
}
AW_ASYNC(int, forgetful, aw_scope *scope;) {
    AW_BEGIN;
    CHECK_EQ(aw_scope_spawn_named(self->scope, "lost child", aw_poll_fn_of(forget, NULL)), 0);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct forgetful) forgetful_scope;
ON_BOTH(a_scope_with_a_child_that_can_never_end_is_a_deadlock) {
    kept_log log = KEPT_LOG;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(forgetful_scope, AW_CALL(forgetful))), -EDEADLK);
    CHECK_CONTAINS(log.text, "deadlock");
    CHECK_CONTAINS(log.text, "scope: 1 child: task ");
    CHECK_CONTAINS(log.text, "'lost child'");
    aw_runtime_free(rt);
}

/* Waits that were counted while the scope was awaited are uncounted again. */
AW_ASYNC(int, forgets, int values[MANY]; AW_SCOPE(struct put_all) s; aw_poll_fn lost;) {
    AW_BEGIN;
    AW_AWAIT_SCOPE(self->s, AW_CALL(put_all, .into = self->values));
    AW_AWAIT(self->lost, aw_poll_fn_of(forget, NULL));
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_task_that_is_lost_after_a_scope_is_reported) {
    kept_log log = KEPT_LOG;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(forgets)));
    for (int i = 0; i < 3; i++)
        run_a_while(rt);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
    aw_runtime_free(rt);
}
