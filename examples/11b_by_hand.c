/* SPDX-License-Identifier: MIT
 *
 * The same ten jobs without AW_ASYNC: a future is a struct and a poll function.
 *
 * Poll does the work that can be done now, and never waits. It returns AW_READY if the future has
 * finished, otherwise AW_PENDING: then it will be called again. So the future must record its
 * progress, here in `started`. This job passes its context on to the sleep, which uses it to
 * request the next poll.
 *
 * Notice that `main` is the same as in 11a except for the call. Code that awaits a future does not
 * depend on how the future is written. */
#include <awake.h>
#include <stdio.h>

struct job {
    aw_future future; /* first member; names the type */
    int out;          /* the output; unused here */
    int n;
    bool started;
    aw_sleep nap;
};

static aw_poll job_poll(aw_future *self, aw_cx *cx) {
    struct job *job = (struct job *)self;
    if (!job->started) {
        printf("start %d\n", job->n);
        job->started = true;
    }
    if (aw_future_poll(&job->nap.future, cx) == AW_PENDING) return AW_PENDING;
    printf("end %d\n", job->n);
    return AW_READY;
}

/* Cancelling a job cancels its nap. If the nap has already ended, the job has finished too. */
static aw_poll job_cancel(aw_future *self, aw_cx *cx) {
    struct job *job = (struct job *)self;
    aw_poll result = aw_future_cancel(&job->nap.future, cx);
    if (result == AW_READY) printf("end %d\n", job->n);
    return result;
}

static const aw_future_type job_type = {
    AW_TYPE_OF(struct job, "job"),
    .poll = job_poll,
    .cancel = job_cancel,
};

static struct job new_job(int n) {
    return (struct job){
        .future = AW_FUTURE_INIT(&job_type), .n = n, .nap = aw_sleep_for(AW_SEC(1))};
}

int main(void) {
    struct job jobs[10];
    for (int i = 0; i < 10; i++)
        jobs[i] = new_job(i + 1);
    return aw_run(aw_join_all(jobs, 10));
}
