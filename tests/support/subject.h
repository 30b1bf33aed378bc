/* SPDX-License-Identifier: MIT
 *
 * Every composite over scripted leaves, behind one face, so that a rule of the contract can be shown for
 * each of them by the same few lines. The composite lives in static storage: one at a time. */
#ifndef AWAKE_TEST_SUBJECT_H
#define AWAKE_TEST_SUBJECT_H

#include "support/beacon.h"
#include "support/script.h"

enum kind {
    a_function, /* awaits one leaf and returns its output */
    a_timeout,  /* that is far from over */
    a_box,
    a_join,
    a_join_by_reference,
    a_try_join,
    a_select,
    a_join_all_of_few, /* polls all of them */
    a_join_all_of_many,
    a_try_join_all_of_few,
    a_try_join_all_of_many,
    a_select_all_of_few,
    a_select_all_of_many, /* polls only the woken ones */
};

/* X(kind) for each; those with one child, and those with several by what they make of it. */
#define EVERY_SINGLE(X)    X(a_function) X(a_timeout) X(a_box)
#define EVERY_JOIN(X)      X(a_join) X(a_join_by_reference) X(a_join_all_of_few) X(a_join_all_of_many)
#define EVERY_TRY_JOIN(X)  X(a_try_join) X(a_try_join_all_of_few) X(a_try_join_all_of_many)
#define EVERY_SELECT(X)    X(a_select) X(a_select_all_of_few) X(a_select_all_of_many)
#define EVERY_GROUP(X)     EVERY_JOIN(X) EVERY_TRY_JOIN(X) EVERY_SELECT(X)
#define EVERY_COMPOSITE(X) EVERY_SINGLE(X) EVERY_GROUP(X)

enum { FEW = 3, MANY = 40 };

/* An output is owned: the leaf's, handed on. */
struct relay {
    AW_FRAME(int);
    struct script *script;
    struct leaf leaf;
};
static void relay_discard(aw_future *self) {
    struct relay *r = (struct relay *)self;
    r->script->discards++;
    if (r->out > 0) ledger_give_back(r->out);
}
AW_ASYNC_STATIC(relay, .discard = relay_discard) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->script));
    AW_RETURN(self->leaf.out);
    AW_END;
}

typedef AW_TIMEOUT(struct leaf) leaf_timeout;
typedef AW_JOIN(struct leaf, struct leaf, struct leaf) leaf_join;
typedef AW_TRY_JOIN(struct leaf, struct leaf, struct leaf) leaf_try_join;
typedef AW_SELECT(struct leaf, struct leaf, struct leaf) leaf_select;

static struct subject {
    enum kind kind;
    aw_future *future;
    int children;
    struct script scripts[MANY];
    struct leaf leaves[MANY];
    union {
        struct relay function;
        leaf_timeout timeout;
        aw_box box;
        leaf_join join;
        leaf_try_join try_join;
        leaf_select select;
        aw_group group;
        aw_all all;
    } as;
    aw_runtime *rt; /* for a clock */
} subject;

static inline int children_of(enum kind kind) {
    switch (kind) {
    case a_function:
    case a_timeout:
    case a_box: return 1;
    case a_join_all_of_many:
    case a_try_join_all_of_many:
    case a_select_all_of_many: return MANY;
    default: return FEW;
    }
}

/* The i-th of its leaves, counted from the end when negative. */
static inline struct script *child(int i) {
    return &subject.scripts[i < 0 ? subject.children + i : i];
}

/* Clean everything, and have all leaves do the same until told otherwise. */
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

/* Make the composite of the leaves as they are told by now. */
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
    default: break;
    }
    return subject.future = (aw_future *)(void *)&subject.as;
}

static inline aw_future *subject_make(enum kind kind, struct script s) {
    subject_prepare(kind, s);
    return subject_begin();
}

/* A future somewhere else, as a member of a frame. Its output and its discard stay its own. */
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

/* All is given back: nothing runs, nothing is owned, and each leaf ended once. */
static inline void subject_check_gone(void) {
    for (int i = 0; i < subject.children; i++) {
        bool never_made = subject.kind == a_function && child(i)->polls + child(i)->cancels == 0;
        CHECK(script_ended(child(i)) || never_made);
        CHECK(child(i)->waker.type == NULL);
    }
    ledger_check_balanced();
    aw_leave(NULL);
    aw_runtime_free(subject.rt);
    subject.rt = NULL;
}

/* Nothing is left either, once what finished has been dropped. */
static inline void subject_discard(void) {
    aw_future_discard(subject.future);
    subject_check_gone();
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
