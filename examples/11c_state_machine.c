/* SPDX-License-Identifier: MIT
 *
 * The job as an explicit state machine. AW_BEGIN and AW_AWAIT generate the same: a switch that
 * jumps to the point where the body stopped. Their states are line numbers.
 *
 * Every future has a `state` for its type to use. It starts as 0.
 *
 * Notice the end: a finished future must not be polled again. The library reports the line of the
 * poll and aborts the program, before the state TERMINATED is reached. */
#include <awake.h>
#include <stdio.h>

enum { START, WAITING, TERMINATED };

struct job {
    aw_future future;
    int out;
    int n;
    aw_sleep nap;
};

static aw_poll job_poll(aw_future *self, aw_cx *cx) {
    struct job *job = (struct job *)self;
    switch (self->state) {
    case START:
        printf("start %d\n", job->n);
        job->nap = aw_sleep_for(AW_SEC(1));
        self->state = WAITING;
        /* fall through - the nap starts with its first poll */
    case WAITING:
        if (aw_future_poll(&job->nap.future, cx) == AW_PENDING) return AW_PENDING;
        printf("end %d\n", job->n);
        self->state = TERMINATED;
        break;
    case TERMINATED: break;
    }
    return AW_READY;
}

static aw_poll job_cancel(aw_future *self, aw_cx *cx) {
    struct job *job = (struct job *)self;
    if (self->state == START) return AW_CANCELLED;
    aw_poll result = aw_future_cancel(&job->nap.future, cx);
    if (result == AW_READY) printf("end %d\n", job->n); /* the nap had already ended */
    return result;
}

static const aw_future_type job_type = {
    AW_TYPE_OF(struct job, "job"),
    .poll = job_poll,
    .cancel = job_cancel,
};

int main(void) {
    struct job jobs[10];
    for (int i = 0; i < 10; i++)
        jobs[i] = (struct job){.future = AW_FUTURE_INIT(&job_type), .n = i + 1};
    int error = aw_run(aw_join_all(jobs, 10));
    printf("all have ended; now job 1 is polled once more\n");

    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_future_poll(&jobs[0].future, &cx);
    printf("never printed\n");
    return error;
}
