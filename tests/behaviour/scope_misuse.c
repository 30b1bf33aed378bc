/* SPDX-License-Identifier: MIT
 *
 * Leaving a scope without awaiting it is caught, whatever leaves it, and so is spawning into a
 * scope that has ended. Legal uses that look similar are not reported. Death tests fork, so they
 * create their runtimes afterwards. */
#include "support/scopes.h"

ALL_ON_THIS_THREAD("a death test forks, and its child has only the thread that forked");

static struct kid kid = KID;

static parent_scope waiting(void) {
    return PARENT(.kids = &kid, .n = 1);
}

/* Polls a scope once, and then overwrites it with another one. */
AW_ASYNC(int, overwrites, parent_scope s;) {
    AW_BEGIN;
    self->s = waiting();
    CHECK_EQ(aw_future_poll(&self->s.future, cx), AW_PENDING);
    AW_AWAIT_SCOPE(self->s, AW_CALL(parent, .kids = &kid, .n = 1));
    AW_RETURN(0);
    AW_END;
}
TEST(a_scope_that_is_overwritten_while_it_runs_is_caught) {
    DIES((void)aw_run(AW_CALL(overwrites)), "scope_misuse.c:");
    DIES((void)aw_run(AW_CALL(overwrites)), "this await overwrites future 'scope'");
}

static void free_box_of_a_scope(void) {
    aw_runtime *rt = new_runtime(0, NULL, NULL);
    aw_flag flag = {0};
    aw_box b = aw_box_new(waiting());
    CHECK_EQ(poll_in(rt, &b.future, &flag), AW_PENDING);
    aw_box_free(&b);
}
TEST(a_box_with_a_scope_that_runs_is_not_freed) {
    DIES(free_box_of_a_scope(), "a box with a running 'scope' was freed");
}

/* The frame is reused for something else. */
static void leave(void) {
    aw_runtime *rt = new_runtime(0, NULL, NULL);
    aw_flag flag = {0};
    parent_scope s = waiting();
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_PENDING);
    run_a_while(rt);
    memset(&s, 0, sizeof s);
    gate_open(&kid.gate);
    run_a_while(rt);
}
TEST(a_child_without_its_scope_reports_where_it_was_spawned) {
    DIES(leave(), "scopes.h:");
    DIES(leave(), "the scope was left while 'child', spawned here, still ran");
}

static void spawn_after_the_end(void) {
    typedef AW_SCOPE(struct parent) scope;
    aw_flag flag = {0};
    scope s = AW_SCOPE_OF(scope, AW_CALL(parent, .n = 0));
    CHECK_EQ(POLL(&s, &flag), AW_READY);
    aw_scope_spawn(s.body.scope, aw_ready_now(0));
}
TEST(a_spawn_into_a_scope_that_has_ended_is_caught) {
    DIES(spawn_after_the_end(), "scope_misuse.c:");
    DIES(spawn_after_the_end(), "'ready' was spawned into a scope that has ended");
}

AW_ASYNC(int, hasty, aw_scope *scope;) {
    AW_BEGIN;
    AW_RETURN(0);
    AW_FINALLY;
    aw_scope_spawn(self->scope, aw_ready_now(0));
    AW_END;
}
static void spawn_unstarted(void) {
    typedef AW_SCOPE(struct hasty) scope;
    aw_flag flag = {0};
    scope s = AW_SCOPE_OF(scope, AW_CALL(hasty));
    CANCEL(&s, &flag);
}
TEST(a_spawn_by_the_cleanup_of_a_body_that_never_ran_is_caught) {
    DIES(spawn_unstarted(), "'ready' was spawned into a scope that has not begun");
}

static void move_it(void) {
    aw_runtime *rt = new_runtime(0, NULL, NULL);
    aw_flag flag = {0};
    parent_scope s = waiting();
    CHECK_EQ(poll_in(rt, &s.future, &flag), AW_PENDING);
    parent_scope moved = s;
    CANCEL(&moved, &flag);
}
TEST(a_scope_that_is_moved_is_caught) {
    DIES(move_it(), "future 'scope' was moved after its first poll");
}

/* ---- What ends while a scope in its memory is open ------------------------------------------- */

#define STILL_OPEN "while something in its frame was open"

/* In a task of a new runtime. */
#define RUN_ON_NEW(workers, ...)                                                                   \
    do {                                                                                           \
        aw_runtime *rt_ = new_runtime(workers, NULL, NULL);                                        \
        (void)RUN(rt_, __VA_ARGS__);                                                               \
    } while (0)

/* As a task, awaited by a task, and in block_on. */
#define LEAVES(workers, text, ...)                                                                 \
    do {                                                                                           \
        DIES(RUN_ON_NEW(workers, __VA_ARGS__), text);                                              \
        DIES((void)aw_block_on(new_runtime(workers, NULL, NULL), __VA_ARGS__), text);              \
    } while (0)

AW_ASYNC(int, leaves, parent_scope s;) {
    AW_BEGIN;
    self->s = waiting();
    CHECK_EQ(aw_future_poll(&self->s.future, cx), AW_PENDING);
    AW_YIELD;
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_function_that_returns_while_its_scope_runs_is_caught) {
    LEAVES(workers, "scope_misuse.c:", AW_CALL(leaves));
    LEAVES(workers, "async function 'leaves' has ended " STILL_OPEN, AW_CALL(leaves));
    LEAVES(workers, "scope: 1 child: task", AW_CALL(leaves));
}

AW_ASYNC(int, calls, struct leaves callee; aw_never never;) {
    AW_BEGIN;
    AW_AWAIT(self->callee, AW_CALL(leaves));
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_function_that_leaves_a_scope_is_caught_also_where_the_task_goes_on) {
    LEAVES(workers, "async function 'leaves' has ended " STILL_OPEN, AW_CALL(calls));
}

/* When it is cancelled, its cleanup forgets the scope. */
AW_ASYNC(int, forgets, parent_scope s; aw_never never;) {
    AW_BEGIN;
    self->s = waiting();
    CHECK_EQ(aw_future_poll(&self->s.future, cx), AW_PENDING);
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_END;
}
typedef AW_TIMEOUT(struct forgets) forgets_for;
ON_BOTH(a_function_that_is_cancelled_while_its_scope_runs_is_caught) {
    LEAVES(workers, "async function 'forgets' has ended " STILL_OPEN,
           AW_TIMEOUT_OF(forgets_for, AW_MSEC(1), AW_CALL(forgets)));
}

/* The same in a future without a frame: ready at its second poll. */
struct plain {
    aw_future future;
    int out;
    parent_scope s;
};
static aw_poll plain_poll(aw_future *self, aw_cx *cx) {
    struct plain *h = (struct plain *)self;
    if (self->state++) return AW_READY;
    CHECK_EQ(aw_future_poll(&h->s.future, cx), AW_PENDING);
    aw_cx_yield(cx);
    return AW_PENDING;
}
static const aw_future_type plain_type = {AW_TYPE_OF(struct plain, "plain"), .poll = plain_poll};
static struct plain plain(void) {
    return (struct plain){.future = AW_FUTURE_INIT(&plain_type), .s = waiting()};
}
ON_BOTH(a_plain_future_that_ends_while_its_scope_runs_is_caught) {
    DIES(RUN_ON_NEW(workers, plain()), "'plain' (spawned at ");
    DIES(RUN_ON_NEW(workers, plain()), "scope_misuse.c:");
    DIES((void)aw_block_on(new_runtime(workers, NULL, NULL), plain()),
         "the main future 'plain' has ended");
    LEAVES(workers, STILL_OPEN, plain());
    LEAVES(workers, "scope: 1 child: task", plain());
}

/* A scope inside a composite is found at the end of the task, where the size is known. */
typedef AW_TIMEOUT(struct plain) plain_for;
ON_BOTH(a_plain_future_in_a_composite_that_leaves_a_scope_is_caught_when_the_task_ends) {
    DIES(RUN_ON_NEW(workers, AW_TIMEOUT_OF(plain_for, AW_SEC(9), plain())), STILL_OPEN);
}

AW_FIBER(int, fiber_leaves) {
    (void)self;
    parent_scope s = waiting();
    CHECK_EQ(aw_future_poll(&s.future, aw_fiber_cx()), AW_PENDING);
    return aw_fiber_yield();
}
ON_BOTH(a_fiber_that_returns_while_a_scope_of_its_locals_runs_is_caught) {
    LEAVES(workers, "scope_misuse.c:", AW_CALL(fiber_leaves));
    LEAVES(workers, "fiber 'fiber_leaves' has returned, after this await, while a scope",
           AW_CALL(fiber_leaves));
}

/* ---- What may end all the same --------------------------------------------------------------- */

/* One task polls a scope, and ends when another one has polled it too and goes on with it. */
struct relay {
    aw_future *at;
    aw_notify begun, taken;
};

AW_ASYNC(int, begins, struct relay *relay; aw_notified taken;) {
    AW_BEGIN;
    CHECK_EQ(aw_future_poll(self->relay->at, cx), AW_PENDING);
    aw_notify_one(&self->relay->begun);
    AW_AWAIT(self->taken, aw_notify_wait(&self->relay->taken));
    CHECK_EQ(cx->meter->borrows, 1); /* so that it checks its frame */
    AW_RETURN(0);
    AW_END;
}

struct rest {
    aw_future future;
    int out;
    struct relay *relay;
};
static aw_poll rest_poll(aw_future *self, aw_cx *cx) {
    struct relay *relay = ((struct rest *)self)->relay;
    aw_poll r = aw_future_poll(relay->at, cx);
    if (!self->state++) {
        CHECK_EQ(r, AW_PENDING);
        aw_notify_one(&relay->taken);
    }
    return r;
}
static const aw_future_type rest_type = {AW_TYPE_OF(struct rest, "rest"), .poll = rest_poll};

AW_ASYNC(int, goes_on, struct relay *relay; aw_notified begun; struct rest rest;) {
    AW_BEGIN;
    AW_AWAIT(self->begun, aw_notify_wait(&self->relay->begun));
    AW_AWAIT(self->rest, (struct rest){AW_FUTURE_INIT(&rest_type), 0, self->relay});
    CHECK_EQ(cx->meter->borrows, 0);
    AW_RETURN(0);
    AW_END;
}

static void pass_on(uint32_t workers, aw_future *at) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    struct relay relay = {at, AW_NOTIFY_INIT, AW_NOTIFY_INIT};
    kid = (struct kid)KID;
    struct goes_on *second = aw_spawn_on(rt, AW_CALL(goes_on, .relay = &relay));
    CHECK_EQ(RUN(rt, AW_CALL(begins, .relay = &relay)), 0);
    gate_open(&kid.gate);
    must_finish(rt, &second->future);
    CHECK_EQ(aw_task_take(second), 0);
    workers_end(rt, NULL);
}
ON_BOTH(a_scope_may_be_begun_by_one_task_and_ended_by_another) {
    parent_scope s = waiting();
    pass_on(workers, &s.future);
}
ON_BOTH(a_scope_in_a_box_may_be_begun_by_one_task_and_ended_by_another) {
    aw_box box = aw_box_new(waiting());
    pass_on(workers, &box.future);
    aw_box_free(&box);
}

/* Functions and scopes end inside the body of a scope, and memory that held a scope is reused. */
AW_ASYNC(int, nothing) {
    AW_BEGIN;
    AW_YIELD;
    AW_RETURN(0);
    AW_END;
}
AW_ASYNC(int, busy, aw_scope *scope; int i; AW_SHARE(struct nothing nothing; parent_scope s;);) {
    AW_BEGIN;
    for (self->i = 0; self->i < 3; self->i++) {
        AW_AWAIT(self->nothing, AW_CALL(nothing));
        AW_AWAIT_SCOPE(self->s, AW_CALL(parent, .n = 0));
        aw_scope_spawn(self->scope, AW_CALL(nothing));
    }
    AW_RETURN(0);
    AW_END;
}
AW_ASYNC(int, orderly, AW_SCOPE(struct busy) a; AW_SCOPE(struct busy) b;) {
    AW_BEGIN;
    AW_AWAIT_SCOPE(self->a, AW_CALL(busy));
    AW_AWAIT_SCOPE(self->b, AW_CALL(busy));
    AW_RETURN(self->a.out | self->b.out);
    AW_END;
}
AW_FIBER(int, orderly_fiber) {
    (void)self;
    int out = aw_await_scope(AW_CALL(busy));
    return out ? out : aw_await_scope(AW_CALL(busy));
}
ON_BOTH(scopes_that_are_waited_for_are_not_reported) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(orderly)), 0);
    CHECK_EQ(RUN(rt, AW_CALL(orderly_fiber)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(orderly)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(orderly_fiber)), 0);
    workers_end(rt, NULL);
}

/* The count is no more than a hint. It returns to zero if each scope is ended by the task that
 * began it. */
AW_ASYNC(int, counts, AW_SCOPE(struct busy) s;) {
    AW_BEGIN;
    AW_AWAIT_SCOPE(self->s, AW_CALL(busy));
    CHECK_EQ(cx->meter->borrows, 0);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_task_that_waits_for_its_scopes_has_none_counted_in_the_end) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(counts)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(counts)), 0);
    workers_end(rt, NULL);
}
