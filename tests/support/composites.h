/* SPDX-License-Identifier: MIT
 *
 * All composites over scripted leaves behind one interface, so that a few lines can test a rule
 * of the contract for each of them. The composite under test is `subject`, in static storage: one
 * at a time. */
#ifndef AWAKE_TEST_COMPOSITES_H
#define AWAKE_TEST_COMPOSITES_H

#include <errno.h>

#include "future/unstarted.h"
#include "support/checked_waker.h"
#include "support/script.h"

enum kind {
    a_function, /* awaits one leaf and returns its output */
    a_timeout,  /* with a deadline far away */
    a_box,
    a_join,
    a_join_by_reference,
    a_try_join,
    a_select,
    a_join_all_of_few, /* polls all children */
    a_join_all_of_many,
    a_try_join_all_of_few,
    a_try_join_all_of_many,
    a_select_all_of_few,
    a_select_all_of_many, /* polls only woken children */
    /* The same with a fiber around each leaf. */
    a_fiber,
    a_fiber_of_a_function,
    a_fiber_of_a_timeout,
    a_function_of_a_fiber,
    a_timeout_of_a_fiber,
    a_boxed_fiber,
    a_join_of_fibers,
    a_try_join_of_fibers,
    a_select_of_fibers,
    a_join_all_of_fibers,
    a_try_join_all_of_fibers,
    a_select_all_of_fibers,
};

/* X(kind) for each: kinds with one child, and kinds with several, by how these are combined. */
#define EVERY_FIBER(X)                                                                             \
    X(a_fiber)                                                                                     \
    X(a_fiber_of_a_function)                                                                       \
    X(a_fiber_of_a_timeout) X(a_function_of_a_fiber) X(a_timeout_of_a_fiber) X(a_boxed_fiber)
#define EVERY_SINGLE(X) X(a_function) X(a_timeout) X(a_box) EVERY_FIBER(X)
#define EVERY_JOIN(X)                                                                              \
    X(a_join)                                                                                      \
    X(a_join_by_reference)                                                                         \
    X(a_join_all_of_few) X(a_join_all_of_many) X(a_join_of_fibers) X(a_join_all_of_fibers)
#define EVERY_TRY_JOIN(X)                                                                          \
    X(a_try_join)                                                                                  \
    X(a_try_join_all_of_few)                                                                       \
    X(a_try_join_all_of_many) X(a_try_join_of_fibers) X(a_try_join_all_of_fibers)
#define EVERY_SELECT(X)                                                                            \
    X(a_select)                                                                                    \
    X(a_select_all_of_few)                                                                         \
    X(a_select_all_of_many) X(a_select_of_fibers) X(a_select_all_of_fibers)
#define EVERY_GROUP(X)     EVERY_JOIN(X) EVERY_TRY_JOIN(X) EVERY_SELECT(X)
#define EVERY_COMPOSITE(X) EVERY_SINGLE(X) EVERY_GROUP(X)

enum { FEW = 3, MANY = 40 };

/* Passes on the output of the leaf, which is owned. */
struct relay {
    AW_FRAME(int);
    struct script *script;
    struct leaf leaf;
};
static void relay_discard(aw_future *self) {
    struct relay *r = (struct relay *)self;
    r->script->discards++;
    if (r->out > 0) ownership_release(r->out);
}
AW_ASYNC_STATIC(relay, .discard = relay_discard) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->script));
    AW_RETURN(self->leaf.out);
    AW_END;
}

/* ---- Fibers ----------------------------------------------------------------------------------
 *
 * Around a leaf that exists already, so that there is something to release if the fiber never
 * starts. */

struct leaf_relay {
    AW_FRAME(int);
    struct leaf leaf;
};
AW_ASYNC_STATIC(leaf_relay) {
    AW_BEGIN;
    AW_AWAIT_FUTURE(self->leaf);
    AW_RETURN(self->leaf.out);
    AW_FINALLY;
    if (!AW_STARTED) aw__cancel_unstarted(&self->leaf.future);
    AW_END;
}

static void fiber_discards(struct script *s, int out) {
    if (out == -ECANCELED) return; /* the result of a cancelled fiber */
    if (s->discards++) FAIL("an output was discarded twice");
    if (out > 0) ownership_release(out);
}

struct fiber_relay {
    AW_FIBER_FRAME(int);
    enum kind how;
    struct leaf leaf;
};
static void fiber_relay_discard(aw_future *self) {
    struct fiber_relay *r = (struct fiber_relay *)self;
    fiber_discards(r->leaf.script, r->out);
}
AW_FIBER_STATIC(fiber_relay, .discard = fiber_relay_discard) {
    if (self->how == a_fiber_of_a_function)
        return aw_await(AW_CALL(leaf_relay, .leaf = self->leaf));
    if (self->how == a_fiber_of_a_timeout) return aw_await_for(AW_SEC(9), self->leaf);
    return aw_await(self->leaf);
}
AW_FIBER_DROP(fiber_relay) {
    aw__cancel_unstarted(&self->leaf.future);
}

static inline struct fiber_relay fiber_relay(struct script *s) {
    return AW_CALL(fiber_relay, .leaf = leaf(s));
}

struct function_of_fiber {
    AW_FRAME(int);
    struct fiber_relay fiber;
};
static void function_of_fiber_discard(aw_future *self) {
    struct function_of_fiber *r = (struct function_of_fiber *)self;
    fiber_discards(r->fiber.leaf.script, r->out);
}
AW_ASYNC_STATIC(function_of_fiber, .discard = function_of_fiber_discard) {
    AW_BEGIN;
    AW_AWAIT_FUTURE(self->fiber);
    AW_RETURN(self->fiber.out);
    AW_FINALLY;
    if (!AW_STARTED) aw__cancel_unstarted(&self->fiber.future);
    AW_END;
}

/* ---- The composite --------------------------------------------------------------------------- */

typedef AW_TIMEOUT(struct leaf) leaf_timeout;
typedef AW_JOIN(struct leaf, struct leaf, struct leaf) leaf_join;
typedef AW_TRY_JOIN(struct leaf, struct leaf, struct leaf) leaf_try_join;
typedef AW_SELECT(struct leaf, struct leaf, struct leaf) leaf_select;
typedef AW_TIMEOUT(struct fiber_relay) fiber_timeout;
typedef AW_JOIN(struct fiber_relay, struct fiber_relay, struct fiber_relay) fiber_group;

static struct subject {
    enum kind kind;
    aw_future *future;
    int children;
    struct script scripts[MANY];
    struct leaf leaves[MANY];
    struct fiber_relay fibers[MANY];
    union {
        struct relay function;
        leaf_timeout timeout;
        aw_box box;
        leaf_join join;
        leaf_try_join try_join;
        leaf_select select;
        aw_group group;
        aw_all all;
        struct fiber_relay fiber;
        struct function_of_fiber function_of_a_fiber;
        fiber_timeout timeout_of_a_fiber;
        fiber_group fiber_group;
    } as;
    aw_runtime *rt; /* for its clock */
} subject;

static inline int children_of(enum kind kind) {
    switch (kind) {
    case a_function:
    case a_timeout:
    case a_box:
    case a_fiber:
    case a_fiber_of_a_function:
    case a_fiber_of_a_timeout:
    case a_function_of_a_fiber:
    case a_timeout_of_a_fiber:
    case a_boxed_fiber: return 1;
    case a_join_all_of_many:
    case a_try_join_all_of_many:
    case a_select_all_of_many:
    case a_join_all_of_fibers:
    case a_try_join_all_of_fibers:
    case a_select_all_of_fibers: return MANY;
    default: return FEW;
    }
}

static inline bool is_boxed(enum kind kind) {
    return kind == a_box || kind == a_boxed_fiber;
}
/* The output of these selects is a set of branches, not an index. */
static inline bool is_select_of_three(enum kind kind) {
    return kind == a_select || kind == a_select_of_fibers;
}

/* The script of the i-th leaf; negative: counted from the end. */
static inline struct script *child(int i) {
    return &subject.scripts[i < 0 ? subject.children + i : i];
}

/* Sets up a composite; all its leaves get the script `s`. The test may then change single
 * scripts. */
static inline void subject_prepare(enum kind kind, struct script s) {
    if (!subject.rt) {
        aw_runtime_options options = AW_RUNTIME_OPTIONS;
        options.paused = true;
        CHECK_EQ(aw_runtime_new(&subject.rt, &options), 0);
    }
    aw_enter(subject.rt);
    subject.kind = kind;
    subject.children = children_of(kind);
    for (int i = 0; i < subject.children; i++)
        subject.scripts[i] = s;
}

#define LEAVES3 leaf(child(0)), leaf(child(1)), leaf(child(2))
#define FIBERS3 fiber_relay(child(0)), fiber_relay(child(1)), fiber_relay(child(2))

/* Makes the composite from the scripts. */
static inline aw_future *subject_begin(void) {
    struct leaf *leaves = subject.leaves;
    switch (subject.kind) {
    case a_function:
        if (child(0)->owns) FAIL("a function has no leaf before it starts");
        subject.as.function = AW_CALL(relay, .script = child(0));
        break;
    case a_timeout:
        subject.as.timeout = AW_TIMEOUT_OF(leaf_timeout, AW_SEC(9), leaf(child(0)));
        break;
    case a_box: subject.as.box = aw_box_new(leaf(child(0))); break;
    case a_join: subject.as.join = AW_JOIN_OF(leaf_join, LEAVES3); break;
    case a_try_join: subject.as.try_join = AW_TRY_JOIN_OF(leaf_try_join, LEAVES3); break;
    case a_select: subject.as.select = AW_SELECT_BIASED_OF(leaf_select, LEAVES3); break;
    case a_fiber:
    case a_fiber_of_a_function:
    case a_fiber_of_a_timeout:
        subject.as.fiber = fiber_relay(child(0));
        subject.as.fiber.how = subject.kind;
        break;
    case a_function_of_a_fiber:
        subject.as.function_of_a_fiber = AW_CALL(function_of_fiber, .fiber = fiber_relay(child(0)));
        break;
    case a_timeout_of_a_fiber:
        subject.as.timeout_of_a_fiber = AW_TIMEOUT_OF(fiber_timeout, AW_SEC(9),
                                                      fiber_relay(child(0)));
        break;
    case a_boxed_fiber: subject.as.box = aw_box_new(fiber_relay(child(0))); break;
    case a_join_of_fibers: subject.as.fiber_group = AW_JOIN_OF(fiber_group, FIBERS3); break;
    case a_try_join_of_fibers: subject.as.fiber_group = AW_TRY_JOIN_OF(fiber_group, FIBERS3); break;
    case a_select_of_fibers:
        subject.as.fiber_group = AW_SELECT_BIASED_OF(fiber_group, FIBERS3);
        break;
    case a_join_all_of_fibers:
    case a_try_join_all_of_fibers:
    case a_select_all_of_fibers:
        for (int i = 0; i < subject.children; i++)
            subject.fibers[i] = fiber_relay(child(i));
        break;
    default:
        for (int i = 0; i < subject.children; i++)
            leaves[i] = leaf(child(i));
    }
    switch (subject.kind) {
    case a_join_by_reference:
        subject.as.group = aw_join_refs(&leaves[0], &leaves[1], &leaves[2]);
        break;
    case a_join_all_of_few:
    case a_join_all_of_many: subject.as.all = aw_join_all(leaves, (size_t)subject.children); break;
    case a_try_join_all_of_few:
    case a_try_join_all_of_many:
        subject.as.all = aw_try_join_all(leaves, (size_t)subject.children);
        break;
    case a_select_all_of_few:
    case a_select_all_of_many:
        subject.as.all = aw_select_all(leaves, (size_t)subject.children);
        break;
    case a_join_all_of_fibers: subject.as.all = aw_join_all(subject.fibers, MANY); break;
    case a_try_join_all_of_fibers: subject.as.all = aw_try_join_all(subject.fibers, MANY); break;
    case a_select_all_of_fibers: subject.as.all = aw_select_all(subject.fibers, MANY); break;
    default: break;
    }
    return subject.future = (aw_future *)(void *)&subject.as;
}

static inline aw_future *subject_make(enum kind kind, struct script s) {
    subject_prepare(kind, s);
    return subject_begin();
}

/* Embeds a future by pointer as a member of a frame. That future keeps its output and its
 * discard. */
struct via {
    aw_future future;
    aw_unit out;
    aw_future *to;
};
static inline aw_poll via_poll(aw_future *self, aw_cx *cx) {
    return aw_future_poll(((struct via *)self)->to, cx);
}
static inline aw_poll via_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_cancel(((struct via *)self)->to, cx);
}
static inline void via_discard(aw_future *self) {
    aw_future_discard(((struct via *)self)->to);
}
static const aw_future_type via_type = {AW_TYPE_OF(struct via, "via"), .poll = via_poll,
                                        .cancel = via_cancel, .discard = via_discard};
static inline struct via via(aw_future *to) {
    return (struct via){AW_FUTURE_INIT(&via_type), {0}, to};
}

/* Everything was released: nothing runs, nothing is owned, and each leaf has ended once. */
static inline void subject_check_released(void) {
    for (int i = 0; i < subject.children; i++) {
        bool never_made = subject.kind == a_function && child(i)->polls + child(i)->cancels == 0;
        CHECK(script_ended(child(i)) || never_made);
        CHECK(child(i)->waker.type == NULL);
    }
    ownership_check_balanced();
    aw_leave(NULL);
    aw_runtime_free(subject.rt);
    subject.rt = NULL;
}

/* The same after the output was discarded. */
static inline void subject_discard(void) {
    aw_future_discard(subject.future);
    subject_check_released();
}

static inline int count_finished(void) {
    int n = 0;
    for (int i = 0; i < subject.children; i++)
        n += child(i)->finished;
    return n;
}
static inline int count_discards(void) {
    int n = 0;
    for (int i = 0; i < subject.children; i++)
        n += child(i)->discards;
    return n;
}

#endif
