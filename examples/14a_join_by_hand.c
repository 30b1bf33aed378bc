/* SPDX-License-Identifier: MIT
 *
 * A join written by hand: a join is a future that polls all of its children. It is ready when no
 * child is pending.
 *
 * Each child gets the waker of the join, so a wake of one child polls all of them. The outputs stay
 * in the children; this join does not read them.
 *
 * Notice the check before each poll: a future that has ended must not be polled again. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(void, job, int n; aw_sleep nap;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100 * self->n)));
    printf("end %d\n", self->n);
    AW_END;
}

struct join {
    aw_future future;
    int out;
    struct job *jobs;
    size_t count;
};

static aw_poll join_poll(aw_future *self, aw_cx *cx) {
    struct join *join = (struct join *)self;
    aw_poll result = AW_READY;
    for (size_t i = 0; i < join->count; i++) {
        aw_future *child = &join->jobs[i].future;
        if (aw_future_ended(child)) continue;
        if (aw_future_poll(child, cx) == AW_PENDING) result = AW_PENDING;
    }
    return result;
}

/* Cancels all children. The join ends when the last child has ended. If all of them had finished
 * before the cancel, the join has finished too. */
static aw_poll join_cancel(aw_future *self, aw_cx *cx) {
    struct join *join = (struct join *)self;
    bool pending = false, all_finished = aw_future_started(self);
    for (size_t i = 0; i < join->count; i++) {
        aw_future *child = &join->jobs[i].future;
        if (!aw_future_ended(child) && aw_future_cancel(child, cx) == AW_PENDING) pending = true;
        if (!aw_future_finished(child)) all_finished = false;
    }
    if (pending) return AW_PENDING;
    return all_finished ? AW_READY : AW_CANCELLED;
}

static const aw_future_type join_type = {
    AW_TYPE_OF(struct join, "join"),
    .poll = join_poll,
    .cancel = join_cancel,
};

int main(void) {
    struct job jobs[5];
    for (int i = 0; i < 5; i++)
        jobs[i] = AW_CALL(job, .n = i + 1);
    return aw_run((struct join){.future = AW_FUTURE_INIT(&join_type), .jobs = jobs, .count = 5});
}
