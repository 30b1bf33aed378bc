/* SPDX-License-Identifier: MIT
 *
 * Trees of fibers and async functions in one another, through boxes, joins, selects, timeouts,
 * arrays, sets and tasks, grown from a seed, cancelled at every step and again some steps later,
 * with leaves that win and leaves that lose the race. All that was acquired is released, children
 * before parents. deep_chain.c does the same without fibers. */
#include <errno.h>

#include "support/cancel_at.h"
#include "support/memory.h"
#include "support/script.h"

/* ---- The world of one run -------------------------------------------------------------------- */

enum { SCRIPTS = 4096, NODES = 50, WIDE = 34, STACK = 64 * 1024, DEEP = 6 };

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
    s->parent = parent;
    return leaf(s);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Every node returns a token or an error, so that all boxes are taken in the same way. */
static aw_box grow(uint64_t seed, int depth);

static void release_token(int out) {
    if (out > 0) ownership_release(out);
}
static void take_box(aw_box *b) {
    CHECK_EQ(b->out, 0);
    release_token(*(int *)aw_future_out(b->inner));
    aw_box_free(b);
}

enum { A_LEAF, A_SLEEP, IN_SEQUENCE, A_JOIN, A_SELECT, A_TIMEOUT, AN_ARRAY, A_SET, A_TASK, KINDS };

typedef AW_JOIN(aw_box, struct leaf, aw_box) three;
typedef AW_TIMEOUT(aw_box) timed;

/* An async function that awaits nodes in one of three ways. */
struct function {
    AW_FRAME(int);
    uint64_t seed;
    int depth, argument, holder, i;
    struct leaf cleanup;
    AW_SHARE(aw_box box; three join; timed timeout;);
};
static void function_discard(aw_future *self) {
    release_token(((struct function *)self)->out);
}
AW_ASYNC_STATIC(function, .discard = function_discard) {
    AW_BEGIN;
    self->holder = ownership_enter(0);
    if (self->seed % 3 == 0) {
        for (self->i = 0; self->i < 2; self->i++) {
            AW_AWAIT(self->box, grow(mix(self->seed, (uint64_t)self->i), self->depth - 1));
            take_box(&self->box);
        }
    } else if (self->seed % 3 == 1) {
        AW_AWAIT_JOIN(self->join, grow(mix(self->seed, 1), self->depth - 1),
                      grow_leaf(mix(self->seed, 2), self->holder),
                      grow(mix(self->seed, 3), self->depth - 1));
        take_box(&self->join.f0);
        release_token(self->join.f1.out);
        take_box(&self->join.f2);
    } else {
        AW_AWAIT_FOR(self->timeout, AW_USEC(self->seed % 4 * 150),
                     grow(mix(self->seed, 1), self->depth - 1));
        if (self->timeout.out == 0) take_box(&self->timeout.inner);
    }
    AW_RETURN(ownership_token());
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->cleanup, grow_leaf(mix(self->seed, 9), self->holder));
        release_token(self->cleanup.out);
        ownership_leave(self->holder);
    }
    ownership_release(self->argument);
    AW_END;
}

/* ---- Fibers ---------------------------------------------------------------------------------- */

struct node {
    AW_FIBER_FRAME(int);
    uint64_t seed;
    int depth, argument, kind;
};

static aw_box below(const struct node *n, uint64_t i) {
    return grow(mix(n->seed, i), n->depth - 1);
}

static int in_sequence(struct node *n) {
    int r = 0;
    for (uint64_t i = 0; i < 3 && r == 0; i++) {
        aw_box b = below(n, i);
        if ((r = aw_await_future(&b.future)) == 0) take_box(&b);
    }
    return r;
}
static int in_a_join(struct node *n, int holder) {
    three j = AW_JOIN_OF(three, below(n, 1), grow_leaf(mix(n->seed, 2), holder), below(n, 3));
    int r = aw_await_future(&j.future);
    if (r) return r;
    take_box(&j.f0);
    release_token(j.f1.out);
    take_box(&j.f2);
    return 0;
}
static int in_a_select(struct node *n, int holder) {
    three s = AW_SELECT_OF(three, below(n, 1), grow_leaf(mix(n->seed, 2), holder), below(n, 3));
    int r = aw_await_future(&s.future);
    if (r) return r;
    AW_SELECT_EACH(i, &s) {
        if (i == 1)
            release_token(s.f1.out);
        else
            take_box(i ? &s.f2 : &s.f0);
    }
    return 0;
}
static int in_an_array(struct node *n) {
    size_t count = n->seed >> 16 & 1 ? WIDE : 1 + (n->seed >> 20 & 3);
    aw_box *array = malloc(sizeof *array * count); /* the stack of the fiber is small */
    for (size_t i = 0; i < count; i++)
        array[i] = below(n, i);
    aw_all a = n->seed >> 21 & 1 ? aw_join_all(array, count) : aw_select_all(array, count);
    int r = aw_await_future(&a.future);
    if (r == 0 && n->seed >> 21 & 1) {
        for (size_t i = 0; i < count; i++)
            take_box(&array[i]);
    } else if (r == 0) {
        take_box(&array[aw_select_all_winner(&a)]);
    }
    free(array);
    return r;
}
static int in_a_set(struct node *n) {
    aw_set set;
    int r = 0;
    aw_set_init(&set, sizeof(aw_box));
    for (uint64_t i = 0; i < 6 && r == 0; i++) {
        CHECK_EQ(aw_set_push(&set, below(n, i)), 0);
        if (i < 3) continue;
        aw_set_next_future next = aw_set_next(&set);
        if ((r = aw_await_future(&next.future)) == 0) take_box(AW_SET_AS(aw_box, &next));
    }
    AW_SHIELD {
        CHECK_EQ(aw_await_status(aw_set_clear(&set)), 0);
    }
    aw_set_free(&set);
    return r;
}
static int as_a_task(struct node *n) {
    aw_box *task = aw_spawn(below(n, 1));
    int r = aw_await(aw_task_join(task)), status = r;
    if (r < 0) {
        aw_task_abort(task);
        AW_SHIELD {
            status = aw_await(aw_task_join(task));
        }
    }
    if (status == 0) take_box(task);
    aw_task_drop(task);
    return r;
}

static void node_discard(aw_future *self) {
    release_token(((struct node *)self)->out);
}
AW_FIBER_STATIC(node, .discard = node_discard) {
    int holder = ownership_enter(0), r = 0;
    switch (self->kind) {
    case A_LEAF: r = aw_await(grow_leaf(mix(self->seed, 1), holder)); break;
    case A_SLEEP: r = aw_await(aw_sleep_for(AW_USEC(self->seed % 5 * 100))); break;
    case IN_SEQUENCE: r = in_sequence(self); break;
    case A_JOIN: r = in_a_join(self, holder); break;
    case A_SELECT: r = in_a_select(self, holder); break;
    case A_TIMEOUT: {
        timed t = AW_TIMEOUT_OF(timed, AW_USEC(self->seed % 4 * 150), below(self, 1));
        if ((r = aw_await_future(&t.future)) == 0 && t.out == 0) take_box(&t.inner);
        break;
    }
    case AN_ARRAY: r = in_an_array(self); break;
    case A_SET: r = in_a_set(self); break;
    default: r = as_a_task(self);
    }
    if (self->seed >> 40 & 1) {
        AW_SHIELD {
            int out = aw_await(grow_leaf(mix(self->seed, 9), holder));
            CHECK_GE(out, 0);
            release_token(out);
        }
    }
    if (r == 0 && self->seed >> 41 & 1) r = aw_fiber_yield();
    ownership_leave(holder);
    ownership_release(self->argument);
    return r == 0 ? ownership_token() : r;
}
AW_FIBER_DROP(node) {
    ownership_release(self->argument);
}

static aw_box grow(uint64_t seed, int depth) {
    int kind = (int)(seed >> 4) % KINDS;
    if (depth > DEEP - 3 && kind <= A_SLEEP) kind = IN_SEQUENCE + (int)(seed >> 34 & 3);
    if (depth == 0 || ADD(world.nodes, 1) > NODES) kind = seed >> 33 & 1 ? A_LEAF : A_SLEEP;
    if (kind > A_SLEEP && seed % 3 == 0)
        return aw_box_new(
            AW_CALL(function, .seed = seed >> 2, .depth = depth, .argument = ownership_token()));
    return aw_box_new(AW_CALL(node, .seed = seed, .depth = depth, .kind = kind,
                              .argument = ownership_token(), .stack_size = STACK));
}

/* ---- One run --------------------------------------------------------------------------------- */

static void problem(void *data, aw_log_level level, const char *message) {
    (void)data;
    if (level == AW_LOG_INFO) return;
    fprintf(stderr, "%s\n", message);
    ADD(world.problems, 1);
}

/* The clock gets this far only if everything else is idle. */
AW_FIBER(int, watchdog, struct cancel_plan plan;) {
    if (aw_await(aw_sleep_for(AW_SEC(1000))) == 0)
        FAIL("stuck: tree %llu, cut at %d %s, again %d", (unsigned long long)world.seed,
             self->plan.at, self->plan.woken ? "woken" : "pending", self->plan.again);
    return 0;
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
    aw_enter(rt);
    aw_box root = grow(mix(seed, 0), DEEP);
    aw_leave(NULL);
    struct cancel_at k = cancel_at(&root.future, plan);
    CHECK_EQ(aw_block_on_future(rt, &k.future), 0);
    if (k.out == AW_READY && seed & 1)
        aw_future_discard(&root.future);
    else if (k.out == AW_READY)
        take_box(&root);
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
    int max_step = 0, trees = test_scale(100);
    if (test_on_workers() && trees > 20) trees = 20; /* each cut starts and ends threads */
    for (uint64_t seed = first; seed < first + (uint64_t)trees; seed++)
        for (int woken = 0; woken < 2; woken++)
            for (int again = 0; again < 3; again++)
                for (struct cancel_plan plan = {woken, woken, again}; cut_once(seed, plan);
                     plan.at++)
                    if (plan.at > max_step) max_step = plan.at;
    CHECK_GT(max_step, 8); /* some trees are deep */
}

TEST(trees_of_fibers_cut_everywhere_release_everything_1) {
    cut_trees(0);
}
TEST(trees_of_fibers_cut_everywhere_release_everything_2) {
    cut_trees(1000);
}
TEST(trees_of_fibers_of_a_random_seed_cut_everywhere_release_everything) {
    cut_trees(test_seed() * 1000000);
}
