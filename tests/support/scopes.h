/* SPDX-License-Identifier: MIT
 *
 * Helpers for tests of scopes and join sets: children that wait at a gate and record how they
 * ended, and a body that spawns them. */
#ifndef AWAKE_TEST_SCOPES_H
#define AWAKE_TEST_SCOPES_H

#include "support/by_hand.h"
#include "support/workers.h"

/* A child waits at its gate, and then ends with its result. */
struct kid {
    gate gate;
    int result;
    bool fails;                                 /* with AW_FAIL and the result */
    uint32_t begun, ended, unstarted, discards; /* atomic */
};

#define KID                                                                                        \
    { .gate = GATE }
#define KIDS(name, n)                                                                              \
    struct kid name[n];                                                                            \
    for (int kid_ = 0; kid_ < (n); kid_++)                                                         \
    name[kid_] = (struct kid)KID

struct child {
    AW_FRAME(int);
    struct kid *kid;
    struct through at;
};

HELPER void child_discard(aw_future *self) {
    ADD(((struct child *)self)->kid->discards, 1);
}

AW_ASYNC_STATIC(child, .discard = child_discard) {
    AW_BEGIN;
    ADD(self->kid->begun, 1);
    AW_AWAIT(self->at, through(&self->kid->gate));
    if (self->kid->fails) AW_FAIL(self->kid->result);
    AW_RETURN(self->kid->result);
    AW_FINALLY;
    if (!AW_STARTED) ADD(self->kid->unstarted, 1);
    ADD(self->kid->ended, 1);
    AW_END;
}

/* The same as a fiber. */
struct fiber_child {
    AW_FIBER_FRAME(int);
    struct kid *kid;
};

HELPER void fiber_child_discard(aw_future *self) {
    ADD(((struct fiber_child *)self)->kid->discards, 1);
}

AW_FIBER_STATIC(fiber_child, .discard = fiber_child_discard) {
    int err = 0;
    ADD(self->kid->begun, 1);
    err = aw_await_status(through(&self->kid->gate));
    if (!err && self->kid->fails) err = aw_fiber_fail(self->kid->result);
    ADD(self->kid->ended, 1);
    return err ? err : self->kid->result;
}
AW_FIBER_DROP(fiber_child) {
    ADD(self->kid->unstarted, 1);
    ADD(self->kid->ended, 1);
}

/* Spawns n children, waits at its own gate if it has one, and ends with that result. */
struct parent {
    AW_FRAME(int);
    aw_scope *scope;
    struct kid *kids;
    int n;
    struct kid *own;
    bool fibers;
    uint32_t limit;
    struct child wait;
};

HELPER void parent_discard(aw_future *self) {
    struct parent *p = (struct parent *)self;
    if (p->own) ADD(p->own->discards, 1);
}

HELPER void spawn_kids(aw_scope *scope, struct kid *kids, int n, bool fibers) {
    for (int i = 0; i < n; i++)
        CHECK_EQ(fibers ? aw_scope_spawn(scope, AW_CALL(fiber_child, .kid = &kids[i]))
                        : aw_scope_spawn(scope, AW_CALL(child, .kid = &kids[i])),
                 0);
}

AW_ASYNC_STATIC(parent, .discard = parent_discard) {
    AW_BEGIN;
    aw_scope_limit(self->scope, self->limit);
    spawn_kids(self->scope, self->kids, self->n, self->fibers);
    if (!self->own) AW_RETURN(0);
    AW_AWAIT(self->wait, AW_CALL(child, .kid = self->own));
    AW_RETURN(self->wait.out);
    AW_END;
}

typedef AW_SCOPE(struct parent) parent_scope;

#define PARENT(...) AW_SCOPE_OF(parent_scope, AW_CALL(parent, __VA_ARGS__))

/* Polls on this thread; the children run on `rt`. */
HELPER aw_poll poll_in(aw_runtime *rt, aw_future *f, aw_flag *flag) {
    aw_runtime *before = aw_enter(rt);
    aw_poll r = poll_by_hand(f, flag);
    aw_leave(before);
    return r;
}

/* Each child has ended once, and its output was discarded at most once. */
HELPER void check_kids(const struct kid *kids, int n) {
    for (int i = 0; i < n; i++) {
        CHECK_EQ(LOAD(kids[i].ended), 1);
        CHECK_EQ(LOAD(kids[i].begun) + LOAD(kids[i].unstarted), 1);
        CHECK_LE(LOAD(kids[i].discards), 1);
    }
}

#endif
