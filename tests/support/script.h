/* SPDX-License-Identifier: MIT
 *
 * A leaf future that follows a script, and records the calls.
 *
 *     struct script s = {.pends = 1, .cancel_pends = 2, .wins = true};
 *     struct leaf l = leaf(&s);
 *
 * is pending once, and then ready. When cancelled, it is pending twice more and then finishes.
 * Script and record are in the script, which outlives the frame of the leaf. While the leaf runs
 * it is a holder (ownership.h). Its output is a token: positive, and owned by the code that
 * takes it. */
#ifndef AWAKE_TEST_SCRIPT_H
#define AWAKE_TEST_SCRIPT_H

#include <awake.h>

#include <pthread.h>

#include "support/ownership.h"
#include "test.h"

enum { NEVER = -1 };

struct script {
    /* The script. */
    int pends;        /* this many polls are pending; NEVER: all */
    int cancel_pends; /* this many cancels are pending */
    /* The cancel finds that it has finished. */
    bool wins;
    /* An argument, which must be released even if the leaf never starts. */
    bool owns;
    bool busy;        /* wakes itself whenever it is pending */
    bool busy_cancel; /* the same, but only while it is being cancelled */
    /* Stores the waker without a clone, and arms (aw_cx_arm). */
    bool borrows;
    int error;  /* finishes with this error and no token */
    int parent; /* its holder */
    /* The record. */
    int polls, cancels, finished, cancelled, discards;
    int argument, holder; /* ownership numbers */
    int out;
    /* Sequence numbers: over the calls, and over the ends, of all leaves. */
    int called_at;
    int ended_at;
    aw_waker waker;
    pthread_mutex_t
        /* For tests that access the script while its task may run; else NULL. */
        *lock;
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
    if (s->holder) ownership_leave(s->holder);
    if (s->argument) ownership_release(s->argument);
    s->holder = s->argument = 0;
    if (how == AW_READY) {
        s->finished++;
        l->out = s->out = s->error ? s->error : ownership_token();
    } else {
        s->cancelled++;
    }
    CHECK_EQ(s->finished + s->cancelled, 1);
    return how;
}

static inline aw_poll leaf_poll_locked(aw_future *self, aw_cx *cx) {
    struct leaf *l = (struct leaf *)self;
    struct script *s = l->script;
    s->called_at = ADD(leaf_calls, 1) + 1;
    if (s->polls++ == 0) s->holder = ownership_enter(s->parent);
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
    return leaf_pending(s, cx, s->busy || s->busy_cancel);
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
    if (l->out > 0) ownership_release(l->out);
}

static const aw_future_type leaf_type = {
    AW_TYPE_OF(struct leaf, "leaf"), .flags = AW_OUT_ERRNO,   .poll = leaf_poll,
    .cancel = leaf_cancel,           .discard = leaf_discard,
};

static inline struct leaf leaf(struct script *s) {
    if (s->owns) s->argument = ownership_token();
    return (struct leaf){AW_FUTURE_INIT(&leaf_type), 0, s};
}

/* The event of a pending leaf occurs. */
static inline void script_finish(struct script *s) {
    s->pends = 0;
    CHECK(s->waker.type != NULL);
    aw_waker_wake_by_ref(&s->waker);
}
/* The event of a leaf that is being cancelled occurs. */
static inline void script_finish_cancel(struct script *s) {
    s->cancel_pends = 0;
    CHECK(s->waker.type != NULL);
    aw_waker_wake_by_ref(&s->waker);
}
static inline void script_wake(struct script *s) {
    CHECK(s->waker.type != NULL);
    aw_waker_wake_by_ref(&s->waker);
}

/* The test took the output. */
static inline void script_take(struct script *s) {
    CHECK_EQ(s->discards, 0);
    ownership_release(s->out);
}

static inline bool script_ended(const struct script *s) {
    return s->finished + s->cancelled == 1;
}

#endif
