/* SPDX-License-Identifier: MIT
 *
 * Leaving a scope without waiting for it is caught, and so is spawning into one that is over. */
#include "support/scopes.h"

ALL_ON_THIS_THREAD("a death test forks, and its child has only the thread that forked");

static struct kid kid = KID;

static parent_scope waiting(void) {
    return PARENT(.kids = &kid, .n = 1);
}

/* Polls a scope once, and then awaits another one in its place. */
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
    DIES((void)aw_run(AW_CALL(overwrites)), "an await puts a future where 'scope' still runs");
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

/* The frame is used for something else. */
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
TEST(a_child_whose_scope_is_gone_says_where_it_was_spawned) {
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
