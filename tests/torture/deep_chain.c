/* SPDX-License-Identifier: MIT
 *
 * Deep chains of mixed async functions, joins, selects, timeouts, boxes, arrays, sets and tasks,
 * grown from a seed, cancelled at every step and again some steps later, with leaves that win and
 * leaves that lose the race. All that was acquired is released, children before parents. */
#include <errno.h>

#include "support/cancel_at.h"
#include "support/memory.h"
#include "support/script.h"

/* ---- The world of one run -------------------------------------------------------------------- */

enum { SCRIPTS = 4096, NODES = 60, WIDE = 34 };

static struct {
    struct script scripts[SCRIPTS];
    int used, nodes, problems;
    uint64_t seed;
    struct memory memory;
} world;

/* A seed grows the same tree wherever it is cut: a node depends only on its position. */
static uint64_t mix(uint64_t seed, uint64_t n) {
    uint64_t state = seed + n * 0x9e3779b97f4a7c15u;
    return test_random(&state);
}

static struct leaf grow_leaf(uint64_t seed, int parent) {
    int n = ADD(world.used, 1);
    CHECK_LT(n, SCRIPTS);
    struct script *s = &world.scripts[n];
    *s = (struct script){.pends = (int)(seed % 3), .busy = true, .busy_cancel = true, .owns = true};
    s->wins = seed >> 8 & 1;
    s->cancel_pends = (int)(seed >> 9 & 1);
    s->borrows = seed >> 10 & 1;
    s->error = (seed >> 11) % 16 == 0 ? -EIO : 0;
    s->parent = parent;
    return leaf(s);
}

static void release_token(int out) {
    if (out > 0) ownership_release(out);
}

/* ---- A node ---------------------------------------------------------------------------------- */

enum {
    A_LEAF,
    A_SLEEP,
    IN_SEQUENCE,
    A_JOIN,
    A_TRY_JOIN,
    A_SELECT,
    A_TIMEOUT,
    A_JOIN_ALL,
    A_TRY_JOIN_ALL,
    A_SELECT_ALL,
    A_SET,
    A_TASK,
    KINDS
};

struct node {
    AW_FRAME(int);
    uint64_t seed;
    int depth, argument, holder, kind, count;
    bool in_set;
    struct node *task;
    aw_box *array;
    aw_set set;
    struct leaf cleanup;
    aw_task_join_future task_end;
    AW_SHARE(struct leaf leaf; aw_sleep sleep; aw_box box;
             AW_JOIN(aw_box, struct leaf, aw_box) join;
             AW_TRY_JOIN(aw_box, struct leaf, aw_box) try;
             AW_SELECT(struct leaf, aw_box, aw_box) select; AW_TIMEOUT(aw_box) timeout; aw_all all;
             aw_set_next_future next; aw_set_clear_future clear; aw_task_join_future task_join;);
};

static struct node grow(uint64_t seed, int depth);

static aw_box grow_box(const struct node *parent, uint64_t n) {
    struct node child = grow(mix(parent->seed, n), parent->depth - 1);
    return aw_box_new(child);
}
/* Takes the output of a finished box. */
static int take_box(aw_box *b) {
    CHECK_EQ(b->out, 0);
    return aw_box_take(struct node, b);
}

static void node_discard(aw_future *self) {
    release_token(((struct node *)self)->out);
}

static void grow_array(struct node *n, bool wide) {
    n->count = wide ? WIDE : 1 + (int)(n->seed >> 20 & 3);
    n->array = malloc(sizeof(aw_box) * (size_t)n->count);
    for (int i = 0; i < n->count; i++)
        n->array[i] = grow_box(n, (uint64_t)i);
}
static void take_array(struct node *n) {
    for (int i = 0; i < n->count; i++)
        release_token(take_box(&n->array[i]));
}
static void take_select_all(struct node *n) {
    if (n->seed >> 30 & 1) {
        release_token(take_box(&n->array[aw_select_all_winner(&n->all)]));
        return;
    }
    ptrdiff_t i;
    while ((i = aw_select_all_next(&n->all)) >= 0)
        release_token(take_box(&n->array[i]));
}
static void take_select(struct node *n) {
    AW_SELECT_EACH(i, &n->select) {
        if (i == 0)
            release_token(n->select.f0.out);
        else
            release_token(take_box(i == 1 ? &n->select.f1 : &n->select.f2));
    }
}

AW_ASYNC_STATIC(node, .discard = node_discard) {
    AW_BEGIN;
    self->holder = ownership_enter(0);
    if (self->kind == A_LEAF) {
        AW_AWAIT(self->leaf, grow_leaf(mix(self->seed, 1), self->holder));
        AW_RETURN(self->leaf.out);
    } else if (self->kind == A_SLEEP) {
        AW_AWAIT(self->sleep, aw_sleep_for(AW_USEC(self->seed % 5 * 100)));
        CHECK_EQ(self->sleep.out, 0);
    } else if (self->kind == IN_SEQUENCE) {
        for (self->count = 0; self->count < 3; self->count++) {
            AW_AWAIT(self->box, grow_box(self, (uint64_t)self->count));
            release_token(take_box(&self->box));
        }
    } else if (self->kind == A_JOIN) {
        AW_AWAIT_JOIN(self->join, grow_box(self, 1), grow_leaf(mix(self->seed, 2), self->holder),
                      grow_box(self, 3));
        release_token(take_box(&self->join.f0));
        release_token(self->join.f1.out);
        release_token(take_box(&self->join.f2));
    } else if (self->kind == A_TRY_JOIN) {
        AW_AWAIT_TRY_JOIN(self->try, grow_box(self, 1), grow_leaf(mix(self->seed, 2), self->holder),
                          grow_box(self, 3));
        if (self->try.out < 0) AW_RETURN(self->try.out);
        release_token(take_box(&self->try.f0));
        release_token(self->try.f1.out);
        release_token(take_box(&self->try.f2));
    } else if (self->kind == A_SELECT) {
        AW_AWAIT_SELECT(self->select, grow_leaf(mix(self->seed, 1), self->holder),
                        grow_box(self, 2), grow_box(self, 3));
        take_select(self);
    } else if (self->kind == A_TIMEOUT) {
        AW_AWAIT_FOR(self->timeout, AW_USEC(self->seed % 4 * 150), grow_box(self, 1));
        if (self->timeout.out == 0) release_token(take_box(&self->timeout.inner));
    } else if (self->kind == A_JOIN_ALL) {
        grow_array(self, self->seed >> 16 & 1);
        AW_AWAIT(self->all, aw_join_all(self->array, (size_t)self->count));
        take_array(self);
    } else if (self->kind == A_TRY_JOIN_ALL) {
        grow_array(self, self->seed >> 16 & 1);
        AW_AWAIT(self->all, aw_try_join_all(self->array, (size_t)self->count));
        if (self->all.out < 0) AW_RETURN(self->all.out);
        take_array(self);
    } else if (self->kind == A_SELECT_ALL) {
        grow_array(self, self->seed >> 16 & 1);
        AW_AWAIT(self->all, aw_select_all(self->array, (size_t)self->count));
        take_select_all(self);
    } else if (self->kind == A_SET) {
        aw_set_init(&self->set, sizeof(aw_box));
        self->in_set = true;
        for (self->count = 0; self->count < 6; self->count++) {
            CHECK_EQ(aw_set_push(&self->set, grow_box(self, (uint64_t)self->count)), 0);
            if (self->count < 3) continue;
            AW_AWAIT(self->next, aw_set_next(&self->set)); /* the others are cleared below */
            release_token(take_box(AW_SET_AS(aw_box, &self->next)));
        }
    } else {
        self->task = aw_spawn(grow(mix(self->seed, 1), self->depth - 1));
        AW_AWAIT(self->task_join, aw_task_join(self->task));
        CHECK_EQ(self->task_join.out, 0);
        release_token(aw_task_take(self->task));
        self->task = NULL;
    }
    AW_RETURN(ownership_token());
    AW_FINALLY;
    if (AW_STARTED && self->seed >> 40 & 1) {
        AW_AWAIT(self->cleanup, grow_leaf(mix(self->seed, 9), self->holder));
        release_token(self->cleanup.out);
    }
    if (self->in_set) {
        AW_AWAIT(self->clear, aw_set_clear(&self->set));
        aw_set_free(&self->set);
    }
    if (self->task) {
        aw_task_abort(self->task);
        AW_AWAIT(self->task_end, aw_task_join(self->task));
        if (self->task_end.out == 0) release_token(self->task->out);
        aw_task_drop(self->task);
    }
    free(self->array);
    if (AW_STARTED) ownership_leave(self->holder);
    ownership_release(self->argument);
    AW_END;
}

static struct node grow(uint64_t seed, int depth) {
    int kind = (int)(seed % KINDS);
    if (depth == 0 || ADD(world.nodes, 1) > NODES) kind = seed >> 33 & 1 ? A_LEAF : A_SLEEP;
    return AW_CALL(node, .seed = seed, .depth = depth, .kind = kind, .argument = ownership_token());
}

/* ---- One run --------------------------------------------------------------------------------- */

static void problem(void *data, aw_log_level level, const char *message) {
    (void)data;
    if (level == AW_LOG_INFO) return;
    fprintf(stderr, "%s\n", message);
    ADD(world.problems, 1);
}

/* The clock gets this far only if everything else is idle. */
AW_ASYNC(int, watchdog, struct cancel_plan plan; aw_sleep s;) {
    AW_BEGIN;
    AW_AWAIT(self->s, aw_sleep_for(AW_SEC(1000)));
    FAIL("stuck: tree %llu, cut at %d %s, again %d", (unsigned long long)world.seed, self->plan.at,
         self->plan.woken ? "woken" : "pending", self->plan.again);
    AW_END;
}

static bool cut_once(uint64_t seed, struct cancel_plan plan) {
    ownership_reset();
    world.used = world.nodes = 0;
    world.seed = seed;
    memory_init(&world.memory);
    aw_runtime *rt;
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.paused = true;
    options.seed = seed + 1;
    options.log = problem;
    options.allocator = &world.memory.allocator;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(watchdog, .plan = plan)));
    struct node root = grow(mix(seed, 0), 5);
    struct cancel_at k = cancel_at(&root.future, plan);
    CHECK_EQ(aw_block_on_future(rt, &k.future), 0);
    if (k.out == AW_READY && seed & 1)
        aw_future_discard(&root.future);
    else if (k.out == AW_READY)
        release_token(root.out);
    CHECK(k.out == AW_READY || k.cancelling);
    aw_runtime_free(rt);
    for (int i = 0; i < world.used; i++)
        CHECK(script_ended(&world.scripts[i]));
    ownership_check_balanced();
    memory_check_empty(&world.memory);
    if (world.problems) FAIL("tree %llu", (unsigned long long)seed);
    return k.cancelling;
}

static void cut_trees(uint64_t first) {
    int max_step = 0, trees = test_scale(40);
    if (test_on_workers() && trees > 10) trees = 10; /* each cut starts and ends threads */
    for (uint64_t seed = first; seed < first + (uint64_t)trees; seed++)
        for (int woken = 0; woken < 2; woken++)
            for (int again = 0; again < 3; again++)
                for (struct cancel_plan plan = {woken, woken, again}; cut_once(seed, plan);
                     plan.at++)
                    if (plan.at > max_step) max_step = plan.at;
    CHECK_GT(max_step, 8); /* some trees are deep */
}

TEST(deep_chains_cut_everywhere_release_everything_1) {
    cut_trees(0);
}
TEST(deep_chains_cut_everywhere_release_everything_2) {
    cut_trees(1000);
}
TEST(deep_chains_cut_everywhere_release_everything_3) {
    cut_trees(2000);
}
TEST(deep_chains_of_a_random_seed_cut_everywhere_release_everything) {
    cut_trees(test_seed() * 1000000);
}
