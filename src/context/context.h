/* SPDX-License-Identifier: MIT
 *
 * What the calling thread is doing: the thread-local state that this layer and those above read; no
 * layer looks into another's thread-locals. (Fibers have thread-locals of their own.) Schedulers
 * write it when a thread begins to run a runtime, becomes a worker, or enters block_on, and when it
 * ends that. */
#ifndef AW_CONTEXT_CONTEXT_H
#define AW_CONTEXT_CONTEXT_H

#include <awake/future.h>

#include "context/runtime_base.h"

struct aw__fiber;
struct aw__in_place;
struct aw__task;
struct aw__thread_io;
struct aw__wheel;
struct aw__worker;

struct aw__context {
    /* The runtime that this thread owns, works for, or is in block_on of; or NULL. */
    aw_runtime *runtime;
    aw_runtime *owned;       /* the current-thread runtime that this thread runs, or NULL */
    aw_runtime *entered;     /* aw_enter */
    struct aw__task **task;  /* points to the variable with the task being polled, or NULL */
    struct aw__task *main;   /* in block_on with workers: the task header of that block_on */
    struct aw__wheel *wheel; /* that this thread advances, or NULL */
    struct aw__thread_io *thread_io; /* that this thread polls and parks in, or NULL */
    struct aw__worker *worker;       /* the worker that this thread is, or NULL */
    const aw_future *waits;          /* the future that it polls in aw_wait */
    aw_runtime *held;                /* the runtime that this thread holds, or NULL: task/hold.h */
    uint32_t *hold;                  /* of `held`: AW__HOLDS, AW__HOLD_PAUSED or AW__HOLD_OVER */
    struct aw__in_place *in_place;   /* the innermost aw_block_in_place */
    bool last_look;                  /* see aw__poll_last */
};
extern _Thread_local struct aw__context aw__context __attribute__((tls_model("initial-exec")));

/* A call of aw_block_in_place. While `fn` runs, the thread is a plain thread that has entered the
 * runtime, not a worker or the owner. So it may wait, run another runtime, and use a ring and a
 * wheel that other threads serve. */
typedef struct aw__in_place {
    struct aw__context before; /* the state to restore */
    struct aw__task *task;     /* being polled, or NULL */
    struct aw__fiber *fiber;   /* the fiber that made the call, or NULL */
    uint32_t hold;             /* the state of the hold that this call begins: task/hold.h */
} aw__in_place;

static inline bool aw__is_owner(const aw_runtime *rt) {
    return aw__context.owned == rt;
}

/* The thread polls a future in block_on of a runtime that other threads run. */
static inline void aw__context_follow(aw_runtime *rt, struct aw__task **task) {
    aw__context.runtime = rt;
    aw__context.task = task;
}

/* The thread ceases to be an owner, a worker, or in block_on. In aw_block_in_place, the task that
 * made the call is the current one again. */
static inline void aw__context_leave(void) {
    aw__in_place *in = aw__context.in_place;
    aw__context.runtime = aw__context.owned = NULL;
    aw__context.task = in ? &in->task : NULL;
    aw__context.main = NULL;
    aw__context.wheel = NULL;
    aw__context.thread_io = NULL;
    aw__context.worker = NULL;
}

/* The task that the calling thread polls, or NULL. */
static inline struct aw__task *aw__current_task(void) {
    return aw__context.task ? *aw__context.task : NULL;
}

/* The last poll of a future before it is cancelled. Operations on descriptors make their system
 * call even if no event was delivered: the driver may not have been polled since the descriptor
 * became ready. */
static inline aw_poll aw__poll_last(aw_future *f, aw_cx *cx) {
    bool before = aw__context.last_look;
    aw__context.last_look = true;
    aw_poll r = aw_future_poll(f, cx);
    aw__context.last_look = before;
    return r;
}

#endif
