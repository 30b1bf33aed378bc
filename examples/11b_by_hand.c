/* SPDX-License-Identifier: MIT
 *
 * The same ten jobs without AW_ASYNC: a future is a struct and a function that polls it.
 *
 * Poll does what can be done now and never waits: either it is finished (AW_READY), or it returns
 * AW_PENDING and expects to be called again. So it has to remember how far it came: here in
 * `started`. This job passes its context on to the sleep, which uses it to ask for the next poll.
 *
 * Notice that main is the one of 11a, but for the call: who awaits a future cannot see how it was
 * written. */
#include <awake.h>
#include <stdio.h>

struct job {
    aw_future future; /* first: names the type */
    int out;          /* what it ends with; here nothing of interest */
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

/* To cancel a job is to cancel what it waits for. If the nap was over in that very moment, so is
 * the job. */
static aw_poll job_cancel(aw_future *self, aw_cx *cx) {
    struct job *job = (struct job *)self;
    aw_poll answer = aw_future_cancel(&job->nap.future, cx);
    if (answer == AW_READY) printf("end %d\n", job->n);
    return answer;
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
