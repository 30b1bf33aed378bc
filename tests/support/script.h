/* SPDX-License-Identifier: MIT
 *
 * A leaf future that does as it is told, and writes down what was done to it.
 *
 *     struct script s = {.pends = 1, .cancel_pends = 2, .wins = true};
 *     struct leaf l = leaf(&s);
 *
 * is pending once, and then ready; cancelled, it is pending twice more and then finishes. What it is
 * told and what happened stay in the script, which outlives the frame that the leaf is in. While it
 * runs it is a holder in the ledger, its output is a token: positive, and owned by who takes it. */
#ifndef AWAKE_TEST_SCRIPT_H
#define AWAKE_TEST_SCRIPT_H

#include <awake.h>

#include <pthread.h>

#include "support/ledger.h"
#include "test.h"

enum { NEVER = -1 };

struct script {
    /* What to do. */
    int pends;        /* polls that find nothing yet; NEVER: all of them */
    int cancel_pends; /* cancels that are not enough yet */
    bool wins;        /* when the cancel is through it turns out to have finished */
    bool owns;        /* an argument: to be released also when it never starts */
    bool busy;        /* wakes itself whenever it is pending, so that it goes on */
    bool hurries;     /* the same, but only while it is being cancelled */
    bool borrows;     /* keeps the waker as a copy of the pair, and says that it is armed */
    int error;        /* finish with this and own nothing */
    int parent;       /* in the ledger */
    /* What happened. */
    int polls, cancels, finished, gone, discards;
    int argument, holder; /* in the ledger */
    int out;
    int called_at; /* numbers that grow with each call of a leaf, and each end of one */
    int ended_at;
    aw_waker waker;
    pthread_mutex_t
        *lock; /* when somebody reaches into it while its task may run; NULL: nobody does */
};

struct leaf {
    aw_future future;
    int out;
    struct script *script;
};

static int leaf_calls, leaf_ends;

static inline aw_poll leaf_pending(struct script *s, aw_cx *cx, bool wake) {
    if (s->borrows) {
        if (!s->waker.type) aw_cx_arm(cx);
        s->waker = *cx->waker;
    } else {
        aw_waker_set(&s->waker, cx->waker);
    }
    if (wake) aw_waker_wake_by_ref(&s->waker);
    return AW_PENDING;
}

static inline aw_poll leaf_end(struct leaf *l, aw_cx *cx, aw_poll how) {
    struct script *s = l->script;
    aw_waker waker = aw_waker_take(&s->waker);
    if (waker.type && s->borrows) aw_cx_disarm(cx);
    if (waker.type && !s->borrows) aw_waker_drop(waker);
    s->ended_at = ADD(leaf_ends, 1) + 1;
    if (s->holder) ledger_leave(s->holder);
    if (s->argument) ledger_give_back(s->argument);
    s->holder = s->argument = 0;
    if (how == AW_READY) {
        s->finished++;
        l->out = s->out = s->error ? s->error : ledger_token();
    } else {
        s->gone++;
    }
    CHECK_EQ(s->finished + s->gone, 1);
    return how;
}

static inline aw_poll leaf_poll_locked(aw_future *self, aw_cx *cx) {
    struct leaf *l = (struct leaf *)self;
    struct script *s = l->script;
    s->called_at = ADD(leaf_calls, 1) + 1;
    if (s->polls++ == 0) s->holder = ledger_enter(s->parent);
    if (s->pends != NEVER && s->polls > s->pends) return leaf_end(l, cx, AW_READY);
    return leaf_pending(s, cx, s->busy);
}

static inline aw_poll leaf_cancel_locked(aw_future *self, aw_cx *cx) {
    struct leaf *l = (struct leaf *)self;
    struct script *s = l->script;
    s->called_at = ADD(leaf_calls, 1) + 1;
    s->cancels++;
    if (!aw_future_started(self)) return leaf_end(l, cx, AW_CANCELLED);
    if (s->cancels > s->cancel_pends) return leaf_end(l, cx, s->wins ? AW_READY : AW_CANCELLED);
    return leaf_pending(s, cx, s->busy || s->hurries);
}

static inline aw_poll leaf_call(aw_future *self, aw_cx *cx, aw_poll (*call)(aw_future *, aw_cx *)) {
    pthread_mutex_t *lock = ((struct leaf *)self)->script->lock;
    if (lock) pthread_mutex_lock(lock);
    aw_poll r = call(self, cx);
    if (lock) pthread_mutex_unlock(lock);
    return r;
}
static inline aw_poll leaf_poll(aw_future *self, aw_cx *cx) {
    return leaf_call(self, cx, leaf_poll_locked);
}
static inline aw_poll leaf_cancel(aw_future *self, aw_cx *cx) {
    return leaf_call(self, cx, leaf_cancel_locked);
}

static inline void leaf_discard(aw_future *self) {
    struct leaf *l = (struct leaf *)self;
    if (l->script->discards++) FAIL("an output was discarded twice");
    if (l->out > 0) ledger_give_back(l->out);
}

static const aw_future_type leaf_type = {
    AW_TYPE_OF(struct leaf, "leaf"), .flags = AW_OUT_ERRNO,   .poll = leaf_poll,
    .cancel = leaf_cancel,           .discard = leaf_discard,
};

static inline struct leaf leaf(struct script *s) {
    if (s->owns) s->argument = ledger_token();
    return (struct leaf){AW_FUTURE_INIT(&leaf_type), 0, s};
}

/* The event that a pending leaf waits for has come. */
static inline void script_finish(struct script *s) {
    s->pends = 0;
    CHECK(s->waker.type != NULL);
    aw_waker_wake_by_ref(&s->waker);
}
/* What a leaf that is being cancelled waits for has come. */
static inline void script_let_go(struct script *s) {
    s->cancel_pends = 0;
    CHECK(s->waker.type != NULL);
    aw_waker_wake_by_ref(&s->waker);
}
static inline void script_wake(struct script *s) {
    CHECK(s->waker.type != NULL);
    aw_waker_wake_by_ref(&s->waker);
}

/* The output was taken, by the test. */
static inline void script_take(struct script *s) {
    CHECK_EQ(s->discards, 0);
    ledger_give_back(s->out);
}

static inline bool script_ended(const struct script *s) {
    return s->finished + s->gone == 1;
}

#endif
