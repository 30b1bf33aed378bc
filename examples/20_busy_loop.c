/* SPDX-License-Identifier: MIT
 *
 * An event loop written by hand: no runtime, only polls. It never sleeps, so does it need wakers?
 *
 * The loop passes a waker that does nothing, and the nap ignores it, because it is polled all the
 * time anyway. With ten jobs that works. But a future may be polled by another future. With more
 * than 30 children aw_join_all gives each child its own waker, and polls only the children that
 * were woken.
 *
 * Notice the report, and that each of the hundred naps was polled once and never again. The rule: a
 * future that returns AW_PENDING must arrange for its waker to be woken, however often the loop
 * polls. */
#include <awake.h>
#include <stdio.h>

struct nap {
    aw_future future;
    int out;
    uint64_t end;
};

static int polls;

static aw_poll nap_poll(aw_future *self, aw_cx *cx) {
    (void)cx; /* the bug */
    polls++;
    return aw_now(NULL) < ((struct nap *)self)->end ? AW_PENDING : AW_READY;
}

static const aw_future_type nap_type = {AW_TYPE_OF(struct nap, "nap"), .poll = nap_poll};

static struct nap nap_for(uint64_t duration) {
    return (struct nap){.future = AW_FUTURE_INIT(&nap_type), .end = aw_now(NULL) + duration};
}

static int ended;

AW_ASYNC(void, job, struct nap nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, nap_for(AW_MSEC(10)));
    ended++;
    AW_END;
}

static void run_jobs(size_t count) {
    static struct job jobs[100];
    for (size_t i = 0; i < count; i++)
        jobs[i] = AW_CALL(job);
    aw_all all = aw_join_all(jobs, count);
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);

    ended = polls = 0;
    uint64_t give_up = aw_now(NULL) + AW_MSEC(100);
    bool late = false;
    while (aw_future_poll(&all.future, &cx) == AW_PENDING && !late)
        late = aw_now(NULL) > give_up;
    printf("%zu jobs: %d have ended; their naps were polled %d times\n", count, ended, polls);

    /* A future that was polled must end: cancel it. These naps hold nothing, so it ends at once. */
    if (!aw_future_ended(&all.future) && aw_future_cancel(&all.future, &cx) == AW_CANCELLED)
        printf("the join was cancelled\n");
}

int main(void) {
    run_jobs(10);
    run_jobs(100);
    return 0;
}
