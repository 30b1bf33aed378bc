/* SPDX-License-Identifier: MIT
 *
 * A list of futures of different types, polled until all have ended.
 *
 * Every future begins with an aw_future, through which the whole future is polled. So an array of
 * aw_future pointers can hold async functions, hand-written futures, and groups. That is what a
 * task is: a future that is owned by the loop and not by another future.
 *
 * Notice that the loop does not know the types that it polls, and that it ends with its last
 * task. */
#include <awake.h>
#include <stdio.h>

#include "naps.h"

AW_ASYNC(void, job, int n; struct nap nap;) {
    AW_BEGIN;
    printf("job %d: start\n", self->n);
    AW_AWAIT(self->nap, nap_for(AW_MSEC(20)));
    printf("job %d: end\n", self->n);
    AW_END;
}

AW_ASYNC(void, countdown, int n; struct nap nap;) {
    AW_BEGIN;
    for (self->n = 3; self->n > 0; self->n--) {
        printf("%d\n", self->n);
        AW_AWAIT(self->nap, nap_for(AW_MSEC(30)));
    }
    printf("lift-off\n");
    AW_END;
}

typedef AW_JOIN(struct job, struct job) two_jobs;

int main(void) {
    struct nap nap = nap_for(AW_MSEC(10));
    two_jobs jobs = AW_JOIN_OF(two_jobs, AW_CALL(job, .n = 1), AW_CALL(job, .n = 2));
    struct countdown countdown = AW_CALL(countdown);
    aw_future *tasks[] = {&nap.future, &jobs.future, &countdown.future};
    int count = 3;

    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    do {
        int pending = 0;
        for (int i = 0; i < count; i++) {
            if (aw_future_poll(tasks[i], &cx) == AW_PENDING)
                tasks[pending++] = tasks[i];
            else
                printf("a '%s' has ended\n", tasks[i]->type->name);
        }
        count = pending;
    } while (count > 0 && sleep_until_first_nap_ends());
    printf("no task is left\n");
    return 0;
}
