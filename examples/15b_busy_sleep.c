/* SPDX-License-Identifier: MIT
 *
 * A sleep written by hand, second attempt: until its deadline, each poll requests another poll at
 * once.
 *
 * This fulfils the contract, and the jobs end together and on time. But the thread never sleeps: it
 * polls in a busy loop.
 *
 * Notice the number of polls. Two per nap would be enough: one to start it, one to end it. */
#include <awake.h>
#include <stdio.h>

static long polls;

struct delay {
    aw_future future;
    int out;
    uint64_t until;
};

static aw_poll delay_poll(aw_future *self, aw_cx *cx) {
    polls++;
    if (aw_now(NULL) >= ((struct delay *)self)->until) return AW_READY;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

static const aw_future_type delay_type = {AW_TYPE_OF(struct delay, "delay"), .poll = delay_poll};

static struct delay delay_for(uint64_t duration) {
    return (struct delay){.future = AW_FUTURE_INIT(&delay_type), .until = aw_now(NULL) + duration};
}

AW_ASYNC(void, job, int n; struct delay nap;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    AW_AWAIT(self->nap, delay_for(AW_MSEC(300)));
    printf("end %d\n", self->n);
    AW_END;
}

int main(void) {
    struct job jobs[3] = {AW_CALL(job, .n = 1), AW_CALL(job, .n = 2), AW_CALL(job, .n = 3)};
    int error = aw_run(aw_join_all(jobs, 3));
    printf("%ld polls for three naps\n", polls);
    return error;
}
