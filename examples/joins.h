/* SPDX-License-Identifier: MIT
 *
 * Tasks that can be joined, without a runtime. Used by 24 and 25.
 *
 * A task and its joiner share a `struct join`. The joiner stores its waker there, the task its
 * output, and either may come first. That makes four states:
 *
 *     UNAWAITED   the task runs, and no waker is stored
 *     AWAITED     `waker` is the waker of the latest poll
 *     READY       the task has ended, its output is in `out`
 *     DONE        the output was taken */
#ifndef JOINS_H
#define JOINS_H

#include "naps.h"

#include <stdio.h>

enum { UNAWAITED, AWAITED, READY, DONE };

struct join {
    aw_future future; /* its `state` is one of the four */
    int out;
    aw_waker waker;
};

static aw_poll join_poll(aw_future *self, aw_cx *cx) {
    if (self->state == READY) {
        self->state = DONE;
        return AW_READY;
    }
    aw_waker_set(&((struct join *)self)->waker, aw_cx_waker(cx));
    self->state = AWAITED;
    return AW_PENDING;
}

static aw_poll join_cancel(aw_future *self, aw_cx *cx) {
    (void)cx;
    if (self->state == AWAITED) aw_waker_drop(((struct join *)self)->waker);
    self->state = DONE;
    return AW_CANCELLED;
}

static const aw_future_type join_type = {
    AW_TYPE_OF(struct join, "join"),
    .poll = join_poll,
    .cancel = join_cancel,
};

static void join_finish(struct join *join, int out) {
    bool awaited = join->future.state == AWAITED;
    join->future.state = READY;
    join->out = out;
    if (awaited) aw_waker_wake(aw_waker_take(&join->waker));
}

AW_ASYNC(int, job, int n; struct nap nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, nap_for(AW_MSEC(100)));
    printf("end %d\n", self->n);
    AW_RETURN(self->n * self->n);
    AW_END;
}

/* A task of the loop: runs a job, which knows nothing about handles, and completes its join. */
AW_ASYNC(void, task, struct join *join; struct job job;) {
    AW_BEGIN;
    AW_AWAIT_FUTURE(self->job);
    join_finish(self->join, self->job.out);
    AW_END;
}

static struct task tasks[10];
static int task_count;

/* Called only by the main future, never while poll_tasks iterates: one list is enough. */
static inline void spawn(struct job job, struct join *join) {
    *join = (struct join){.future = AW_FUTURE_INIT(&join_type)};
    tasks[task_count++] = AW_CALL(task, .job = job, .join = join);
}

/* The main future: spawns ten jobs, joins each, and returns the sum of their outputs. A frame with
 * more than two members is written as a struct. */
struct start {
    AW_FRAME(int);
    int i, sum;
    struct join joins[10];
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    for (int i = 0; i < 10; i++)
        spawn(AW_CALL(job, .n = i + 1), &self->joins[i]);
    for (self->i = 0; self->i < 10; self->i++) {
        AW_AWAIT_FUTURE(self->joins[self->i]);
        self->sum += self->joins[self->i].out;
    }
    AW_RETURN(self->sum);
    AW_END;
}

static inline void poll_tasks(aw_cx *cx) {
    for (int i = 0; i < task_count; i++)
        if (!aw_future_ended(&tasks[i].future)) aw_future_poll(&tasks[i].future, cx);
}

#endif
