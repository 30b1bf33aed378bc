/* SPDX-License-Identifier: MIT
 *
 * Random trees of leaves, async functions, fibers, joins and selects, polled without a runtime,
 * with another waker at each call, and cancelled at a random call. A model predicts the result of
 * each call, and how often each leaf has been polled and cancelled by then. It knows nothing of
 * stacks: a fiber is a function that yields when an await is refused, and then goes on. */
#include <errno.h>

#include "fiber/stack.h"
#include "support/checked_waker.h"
#include "support/memory.h"
#include "support/script.h"

enum { NODES = 64, CHILDREN = 3 };

enum kind { A_LEAF, A_YIELD, A_FUNCTION, A_FIBER, A_JOIN, A_SELECT, KINDS };

/* How a fiber waits for a child. */
enum mode { AWAITED, SHIELDED, POLLED_DIRECTLY, MODES };

struct node {
    /* The node. */
    enum kind kind;
    int count; /* of children */
    struct node *child[CHILDREN];
    enum mode mode[CHILDREN];
    struct node *cleanup; /* of a function, in AW_FINALLY; of a fiber, in a shield */
    bool stubborn;        /* a fiber that goes on after a refused await */
    struct script script;
    /* The state of the model. */
    int polls, cancels, step;
    bool started, cancelling, cut, decided;
    enum { BEGINS, WAITS, WAS_REFUSED, WINDS_UP } phase; /* of this step */
    aw_poll answer;
};

static struct {
    uint64_t seed, random;
    struct node nodes[NODES];
    int used;
    struct memory memory;
} tree;

static uint64_t any(uint64_t below) {
    return test_random(&tree.random) % below;
}

/* ---- The model ------------------------------------------------------------------------------- */

static aw_poll model(struct node *n, bool cancel);

static aw_poll model_leaf(struct node *n, bool cancel) {
    const struct script *s = &n->script;
    if (!cancel) return s->pends != NEVER && ++n->polls > s->pends ? AW_READY : AW_PENDING;
    if (!n->started) return AW_CANCELLED;
    if (++n->cancels <= s->cancel_pends) return AW_PENDING;
    return s->wins ? AW_READY : AW_CANCELLED;
}

static aw_poll model_join(struct node *n, bool cancel) {
    int pending = 0, gone = 0;
    for (int i = 0; i < n->count; i++) {
        if (!n->child[i]->answer) model(n->child[i], cancel);
        pending += n->child[i]->answer == AW_PENDING;
        gone += n->child[i]->answer == AW_CANCELLED;
    }
    return pending ? AW_PENDING : gone ? AW_CANCELLED : AW_READY;
}

/* The first child that is ready decides. The others are cancelled in the same call, also those
 * before it. */
static aw_poll model_select(struct node *n, bool cancel) {
    int pending = 0, finished = 0;
    for (int i = 0; i < n->count; i++) {
        if (n->child[i]->answer) continue;
        bool decides = model(n->child[i], cancel || n->decided) == AW_READY && !n->decided;
        n->decided |= decides;
        if (decides && !cancel) i = -1;
    }
    for (int i = 0; i < n->count; i++) {
        pending += n->child[i]->answer == AW_PENDING;
        finished += n->child[i]->answer == AW_READY;
    }
    return pending ? AW_PENDING : finished ? AW_READY : AW_CANCELLED;
}

/* One await of a fiber or function. READY: the child has finished. CANCELLED: it was refused. */
static aw_poll model_await(struct node *n, bool cancel, enum mode mode) {
    struct node *child = n->child[n->step];
    bool fiber = n->kind == A_FIBER, begins = n->phase == BEGINS;
    if (n->phase == WAS_REFUSED) return AW_CANCELLED;
    n->phase = WAITS;
    aw_poll r = model(child, cancel && mode != SHIELDED);
    if (r != AW_CANCELLED) return r;
    n->cut = true;
    if (!fiber || !begins) return r;
    n->phase = WAS_REFUSED; /* the fiber yields first */
    return AW_PENDING;
}

/* Polls until a yield is refused, and then cancels, with yields in a shield. */
static aw_poll model_direct_polls(struct node *n, bool cancel) {
    struct node *child = n->child[n->step];
    if (n->phase == WAITS && cancel) {
        n->cut = true;
        n->phase = WINDS_UP;
    }
    if (n->phase == BEGINS || n->phase == WAITS) {
        if (model(child, false) == AW_READY) return AW_READY;
        n->phase = cancel ? WAS_REFUSED : WAITS;
        n->cut |= cancel;
        return AW_PENDING;
    }
    n->phase = WINDS_UP;
    return model(child, true) == AW_PENDING ? AW_PENDING : AW_CANCELLED;
}

static aw_poll model_body(struct node *n, bool cancel) {
    if (!n->started) return AW_CANCELLED;
    while (n->step < n->count) {
        enum mode mode = n->kind == A_FIBER ? n->mode[n->step] : AWAITED;
        aw_poll r = mode == POLLED_DIRECTLY ? model_direct_polls(n, cancel)
                                            : model_await(n, cancel, mode);
        if (r == AW_PENDING) return r;
        n->phase = BEGINS;
        n->step = r == AW_READY || (n->kind == A_FIBER && n->stubborn) ? n->step + 1 : n->count;
    }
    if (n->cleanup && model(n->cleanup, false) == AW_PENDING) return AW_PENDING;
    return n->cut ? AW_CANCELLED : AW_READY;
}

static aw_poll model(struct node *n, bool cancel) {
    CHECK(!n->answer);
    CHECK(cancel || !n->cancelling);
    n->cancelling = cancel;
    if (!cancel) n->started = true;
    aw_poll r = n->kind == A_LEAF || n->kind == A_YIELD ? model_leaf(n, cancel)
                : n->kind == A_JOIN                     ? model_join(n, cancel)
                : n->kind == A_SELECT                   ? model_select(n, cancel)
                                                        : model_body(n, cancel);
    if (!n->started && r == AW_READY) r = AW_CANCELLED;
    return n->answer = r;
}

/* ---- The futures ----------------------------------------------------------------------------- */

typedef AW_JOIN(aw_box, aw_box, aw_box) three_joined;
typedef AW_SELECT(aw_box, aw_box, aw_box) three_selected;

struct function {
    AW_FRAME(int);
    struct node *node;
    int argument, parent, holder, i;
    aw_box child;
};

struct fiber {
    AW_FIBER_FRAME(int);
    struct node *node;
    int argument, parent;
};

static aw_box make(struct node *n, int parent);

static void function_discard(aw_future *self) {
    ownership_release(((struct function *)self)->out);
}
static void fiber_discard(aw_future *self) {
    ownership_release(((struct fiber *)self)->out);
}

AW_ASYNC_STATIC(function, .discard = function_discard) {
    AW_BEGIN;
    self->holder = ownership_enter(self->parent);
    for (self->i = 0; self->i < self->node->count; self->i++) {
        if (self->node->child[self->i]->kind == A_YIELD) {
            AW_YIELD;
        } else {
            AW_AWAIT(self->child, make(self->node->child[self->i], self->holder));
            aw_future_discard(&self->child.future);
        }
    }
    AW_RETURN(ownership_token());
    AW_FINALLY;
    if (AW_STARTED && self->node->cleanup) {
        AW_AWAIT(self->child, make(self->node->cleanup, self->holder));
        aw_future_discard(&self->child.future);
    }
    if (AW_STARTED) ownership_leave(self->holder);
    ownership_release(self->argument);
    AW_END;
}

static int poll_directly(aw_box *b) {
    while (aw_future_poll(&b->future, aw_fiber_cx()) == AW_PENDING) {
        if (!aw_fiber_yield()) continue;
        aw_poll r;
        while ((r = aw_future_cancel(&b->future, aw_fiber_cx())) == AW_PENDING)
            AW_SHIELD CHECK_EQ(aw_fiber_yield(), 0);
        if (r == AW_READY) aw_future_discard(&b->future);
        return -ECANCELED;
    }
    return 0;
}

static int wait_for(struct node *child, enum mode mode, int holder) {
    int error = 0;
    if (child->kind == A_YIELD && mode == AWAITED) return aw_fiber_yield();
    aw_box b = make(child, holder);
    if (mode == POLLED_DIRECTLY) {
        error = poll_directly(&b);
    } else if (mode == SHIELDED) {
        AW_SHIELD error = aw_await_future(&b.future);
        CHECK_EQ(error, 0);
    } else {
        error = aw_await_future(&b.future);
    }
    CHECK(!error || aw_cancelled());
    if (!error) aw_future_discard(&b.future);
    return error;
}

AW_FIBER_STATIC(fiber, .discard = fiber_discard) {
    const struct node *n = self->node;
    int holder = ownership_enter(self->parent);
    for (int i = 0; i < n->count; i++)
        if (wait_for(n->child[i], n->mode[i], holder) && !n->stubborn) break;
    if (n->cleanup) CHECK_EQ(wait_for(n->cleanup, SHIELDED, holder), 0);
    ownership_leave(holder);
    ownership_release(self->argument);
    return ownership_token();
}
AW_FIBER_DROP(fiber) {
    ownership_release(self->argument);
}

static aw_box make(struct node *n, int parent) {
    struct node **c = n->child;
    n->script.parent = parent;
    switch (n->kind) {
    case A_FUNCTION:
        return aw_box_new(
            AW_CALL(function, .node = n, .argument = ownership_token(), .parent = parent));
    case A_FIBER:
        return aw_box_new(AW_CALL(fiber, .node = n, .argument = ownership_token(), .parent = parent,
                                  .stack_size = 32768));
    case A_JOIN:
        return aw_box_new(AW_JOIN_BIASED_OF(three_joined, make(c[0], parent), make(c[1], parent),
                                            make(c[2], parent)));
    case A_SELECT:
        return aw_box_new(AW_SELECT_BIASED_OF(three_selected, make(c[0], parent),
                                              make(c[1], parent), make(c[2], parent)));
    default: return aw_box_new(leaf(&n->script));
    }
}

/* ---- Trees ----------------------------------------------------------------------------------- */

static struct node *grow(int depth, bool cleanup) {
    struct node *n = &tree.nodes[tree.used++];
    *n = (struct node){.kind = (enum kind)any(KINDS)};
    if (depth == 0 || tree.used > NODES / 2) n->kind = (enum kind)any(2);
    uint64_t bits = any(1 << 16);
    n->script = (struct script){.pends = (int)(bits & 3),
                                .cancel_pends = (int)(bits >> 3 & 1),
                                .wins = bits >> 4 & 1,
                                .owns = true,
                                .busy = bits >> 5 & 1,
                                .busy_cancel = bits >> 6 & 1};
    /* What a cleanup awaits must end by itself. */
    if (!cleanup && (bits >> 7 & 7) == 0) n->script.pends = NEVER;
    if (n->kind == A_YIELD) n->script = (struct script){.pends = 1, .busy = true};
    if (n->kind == A_LEAF || n->kind == A_YIELD) return n;
    bool sequence = n->kind == A_FUNCTION || n->kind == A_FIBER;
    n->count = sequence ? (int)any(CHILDREN + 1) : CHILDREN;
    n->stubborn = any(4) == 0;
    for (int i = 0; i < n->count; i++) {
        n->mode[i] = n->kind == A_FIBER && any(2) ? (enum mode)any(MODES) : AWAITED;
        n->child[i] = grow(depth - 1, cleanup || n->mode[i] == SHIELDED);
    }
    if (sequence && any(2)) n->cleanup = grow(any(2) ? depth - 1 : 0, true);
    return n;
}

/* Wakes what waits. The wake must reach the waker of the last call. */
static void wake_waiting(void) {
    if (drive_wakes()) return;
    for (int i = 0; i < tree.used; i++)
        if (tree.nodes[i].script.waker.type) script_wake(&tree.nodes[i].script);
    if (!drive_wakes())
        FAIL("tree %llu: it is pending, and nothing wakes it", (unsigned long long)tree.seed);
}

/* Returns the number of calls. */
static int run_tree(uint64_t seed, int cut) {
    tree.seed = tree.random = seed;
    tree.used = 0;
    ownership_reset();
    memset(&drive, 0, sizeof drive);
    struct node *root = grow(4, false);
    aw_box b = make(root, 0);
    aw_poll r = AW_PENDING;
    int call = 0;
    for (; r == AW_PENDING; call++) {
        bool cancel = call >= cut;
        aw_poll expected = model(root, cancel);
        r = drive_call(&b.future, cancel);
        if (r != expected)
            FAIL("tree %llu, cancelled at call %d: call %d answers %d and not %d",
                 (unsigned long long)seed, cut, call, r, expected);
        for (int i = 0; i < tree.used; i++) {
            const struct node *n = &tree.nodes[i];
            if (n->kind != A_LEAF) continue;
            if (n->started && n->script.pends != NEVER) CHECK_EQ(n->script.polls, n->polls);
            if (n->started) CHECK_EQ(n->script.cancels, n->cancels);
        }
        if (r == AW_PENDING) wake_waiting();
        CHECK_LT(call, 1000);
    }
    if (r == AW_READY) aw_future_discard(&b.future);
    if (ownership.inside || ownership.owned)
        FAIL("tree %llu, cancelled at call %d, leaves %d frames and %d tokens",
             (unsigned long long)seed, cut, ownership.inside, ownership.owned);
    if (aw__stacks_of_thread) CHECK_EQ(aw__stacks_of_thread->used, 0);
    return call;
}

static void run_trees(uint64_t first) {
    int trees = test_scale(50000), calls = 0;
    memory_init(&tree.memory);
    aw_set_allocator(&tree.memory.allocator);
    for (uint64_t seed = first; seed < first + (uint64_t)trees; seed++) {
        uint64_t random = seed;
        calls += run_tree(seed, (int)(test_random(&random) % 12));
    }
    CHECK_GT(calls, trees * 2);
    aw_stacks_trim();
    memory_check_empty(&tree.memory);
}

TEST(each_call_of_a_random_tree_answers_as_it_must_1) {
    run_trees(0);
}
TEST(each_call_of_a_random_tree_answers_as_it_must_2) {
    run_trees(1000000);
}
TEST(each_call_of_a_tree_of_a_random_seed_answers_as_it_must) {
    run_trees(test_seed() * 1000000);
}
