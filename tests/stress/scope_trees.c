/* SPDX-License-Identifier: MIT
 *
 * Random trees of scopes on many workers: async functions and fibers, in timeouts and selects, with
 * errors, failures and aborts from outside. Each node lends a part of its frame to its children.
 * They access it when they begin and when they end, so that a child that outlives it is
 * detected. */
#include "support/workers.h"

/* Lent by a node to its children. */
struct lent {
    uint32_t alive, inside; /* atomic */
};

static uint32_t entered, exited, unstarted; /* atomic */

static void enter(struct lent *above) {
    CHECK_EQ(LOAD(above->alive), 1);
    ADD(above->inside, 1);
    ADD(entered, 1);
}
static void leave(struct lent *above) {
    CHECK_EQ(LOAD(above->alive), 1);
    ADD(above->inside, -1);
    ADD(exited, 1);
}
static void lend(struct lent *own) {
    STORE(own->alive, 1);
}
/* No child uses it any more. */
static void take_back(struct lent *own) {
    CHECK_EQ(LOAD(own->inside), 0);
    STORE(own->alive, 0);
}

struct grow {
    AW_FRAME(int);
    aw_scope *scope;
    struct lent *lent;
    uint64_t random;
    int depth, remaining;
    aw_scope_slot_future slot;
};
AW_ASYNC_DECL(grow);
typedef AW_SCOPE(struct grow) grow_scope;

enum how { PLAIN, IN_TIMEOUT, IN_SELECT, HOWS, ALONE };

struct node {
    AW_FRAME(int);
    struct lent *above;
    aw_scope *scope; /* the scope that it runs in; NULL: none */
    uint64_t random;
    int depth, yields;
    enum how how;
    struct lent own;
    AW_SHARE(grow_scope bare; AW_TIMEOUT(grow_scope) timed; AW_SELECT(grow_scope, aw_sleep) race;);
};
AW_ASYNC_DECL(node);

/* The same as a fiber. */
struct stack_node {
    AW_FIBER_FRAME(int);
    struct lent *above;
    uint64_t random;
    int depth;
};
AW_FIBER_DECL(stack_node);

static void sprout(aw_scope *scope, struct lent *above, uint64_t random, int depth) {
    bool fiber = chance(&random, 4);
    struct node n = AW_CALL(node, .above = above, .random = random, .depth = depth, .scope = scope);
    struct stack_node f = AW_CALL(stack_node, .above = above, .random = random, .depth = depth);
    int error = fiber ? aw_scope_spawn(scope, f) : aw_scope_spawn(scope, n);
    CHECK(error == 0 || error == -ECANCELED);
}

AW_ASYNC_DEF(grow) {
    AW_BEGIN;
    self->remaining = (int)(test_random(&self->random) % 5);
    if (chance(&self->random, 2))
        aw_scope_limit(self->scope, (uint32_t)(test_random(&self->random) % 4));
    while (self->remaining-- > 0) {
        sprout(self->scope, self->lent, test_random(&self->random), self->depth - 1);
        if (chance(&self->random, 4)) AW_YIELD;
        if (chance(&self->random, 8)) AW_AWAIT(self->slot, aw_scope_slot(self->scope));
    }
    AW_RETURN(chance(&self->random, 32) ? -EPROTO : 0);
    AW_END;
}

static grow_scope grown(struct lent *lent, uint64_t *random, int depth) {
    return AW_SCOPE_OF(grow_scope,
                       AW_CALL(grow, .lent = lent, .random = test_random(random), .depth = depth));
}

AW_ASYNC_DEF(node) {
    AW_BEGIN;
    enter(self->above);
    lend(&self->own);
    for (self->yields = (int)(test_random(&self->random) % 3); self->yields > 0; self->yields--)
        AW_YIELD;
    if (self->scope && chance(&self->random, 8)) /* a sibling */
        sprout(self->scope, self->above, test_random(&self->random), self->depth - 1);
    self->how = self->depth > 0 ? (enum how)(test_random(&self->random) % HOWS) : ALONE;
    if (self->how == PLAIN) {
        AW_AWAIT(self->bare, grown(&self->own, &self->random, self->depth));
    } else if (self->how == IN_TIMEOUT) {
        AW_AWAIT_FOR(self->timed, test_random(&self->random) % AW_USEC(200),
                     grown(&self->own, &self->random, self->depth));
    } else if (self->how == IN_SELECT) {
        AW_AWAIT_SELECT(self->race, grown(&self->own, &self->random, self->depth),
                        aw_sleep_for(test_random(&self->random) % AW_USEC(200)));
        aw_select_winner(&self->race);
    }
    take_back(&self->own);
    if (chance(&self->random, 64)) AW_FAIL(-EBADF);
    AW_RETURN(chance(&self->random, 32) ? -EIO : 0);
    AW_FINALLY;
    if (AW_STARTED) {
        CHECK_EQ(LOAD(self->own.inside), 0);
        leave(self->above);
    } else {
        CHECK_EQ(LOAD(self->above->alive), 1);
        ADD(unstarted, 1);
    }
    AW_END;
}

AW_FIBER_DEF(stack_node) {
    struct lent own = {0, 0};
    uint64_t random = self->random;
    int err = 0;
    enter(self->above);
    lend(&own);
    if (self->depth > 0) {
        struct grow body = AW_CALL(grow, .lent = &own, .random = test_random(&random),
                                   .depth = self->depth);
        err = aw_await_scope(body);
    }
    take_back(&own);
    if (!err) err = aw_fiber_yield();
    leave(self->above);
    return err == -ECANCELED || chance(&random, 32) ? err : 0;
}
AW_FIBER_DROP(stack_node) {
    CHECK_EQ(LOAD(self->above->alive), 1);
    ADD(unstarted, 1);
}

enum { ROOTS = 16 };

static void trees(uint32_t workers) {
    uint64_t random = test_seed() + workers;
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    int rounds = stress_rounds(200);
    for (int round = 0; round < rounds; round++) {
        struct lent ground = {1, 0};
        struct node *roots[ROOTS];
        for (int i = 0; i < ROOTS; i++)
            roots[i] = aw_spawn_on(rt,
                                   AW_CALL(node, .above = &ground, .random = test_random(&random),
                                           .depth = (int)(test_random(&random) % 4)));
        for (int i = 0; i < ROOTS; i++) {
            if (!workers && chance(&random, 4)) run_a_while(rt);
            jitter(&random);
            if (chance(&random, 3)) aw_task_abort(roots[i]);
        }
        for (int i = 0; i < ROOTS; i++) {
            int status = JOIN_STATUS(rt, roots[i]);
            CHECK(status == 0 || status == -ECANCELED || status == -EBADF);
            aw_task_drop(roots[i]);
        }
        CHECK_EQ(LOAD(ground.inside), 0);
        CHECK_EQ(LOAD(entered), LOAD(exited));
    }
    workers_end(rt, &m);
    CHECK_GT(LOAD(entered), (uint32_t)(rounds * ROOTS / 2));
    CHECK_EQ(LOAD(entered), LOAD(exited));
}
TEST_LIMIT(random_trees_of_scopes_on_the_current_thread, 60) {
    trees(0);
}
ON_WORKERS_LIMIT(random_trees_of_scopes, 60) {
    trees(workers);
}

/* The runtime ends while the trees grow. */
ON_WORKERS_LIMIT(random_trees_in_a_runtime_that_ends, 60) {
    uint64_t random = test_seed() + workers;
    int rounds = stress_rounds(200);
    for (int round = 0; round < rounds; round++) {
        struct lent ground = {1, 0};
        memory m;
        aw_runtime *rt = workers_new(workers, &m, NULL);
        for (int i = 0; i < ROOTS; i++)
            aw_task_drop(aw_spawn_on(
                rt, AW_CALL(node, .above = &ground, .random = test_random(&random), .depth = 3)));
        jitter(&random);
        workers_end(rt, &m);
        CHECK_EQ(LOAD(ground.inside), 0);
    }
    CHECK_EQ(LOAD(entered), LOAD(exited));
}

/* ---- Spawning into a scope while it begins to end -------------------------------------------- */

AW_ASYNC(int, waits, struct lent *above; aw_never never;) {
    AW_BEGIN;
    enter(self->above);
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) leave(self->above);
    AW_END;
}
/* Spawns until it is refused. */
AW_ASYNC(int, spawns, aw_scope *scope; struct lent * above;) {
    AW_BEGIN;
    enter(self->above);
    while (aw_scope_spawn(self->scope, AW_CALL(waits, .above = self->above)) == 0)
        AW_YIELD;
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) leave(self->above);
    AW_END;
}
AW_ASYNC(int, breaks, int yields;) {
    AW_BEGIN;
    while (self->yields-- > 0)
        AW_YIELD;
    AW_RETURN(-EIO);
    AW_END;
}
AW_ASYNC(int, spawners, aw_scope *scope; struct lent * above; int yields;) {
    AW_BEGIN;
    for (int i = 0; i < 6; i++)
        CHECK_EQ(aw_scope_spawn(self->scope,
                                AW_CALL(spawns, .scope = self->scope, .above = self->above)),
                 0);
    CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(breaks, .yields = self->yields)), 0);
    AW_RETURN(0);
    AW_END;
}
typedef AW_SCOPE(struct spawners) spawners_scope;
ON_WORKERS_LIMIT(children_spawn_while_the_scope_begins_to_end, 60) {
    uint64_t random = test_seed() + workers;
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int round = stress_rounds(40); round > 0; round--) {
        struct lent ground = {1, 0};
        struct spawners body = AW_CALL(spawners, .above = &ground,
                                       .yields = (int)(test_random(&random) % 8));
        CHECK_EQ(aw_block_on(rt, AW_SCOPE_OF(spawners_scope, body)), -EIO);
        CHECK_EQ(LOAD(ground.inside), 0);
    }
    workers_end(rt, &m);
}
