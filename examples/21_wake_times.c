/* SPDX-License-Identifier: MIT
 *
 * The loop sleeps until the first of its jobs is due.
 *
 * The code that detects an event needs the wakers of the futures that wait for it. Here the loop
 * knows the time, so a nap puts its waker into the loop's list of deadlines. With nothing left to
 * poll, the loop sleeps until the first deadline. naps.h has both, the nap and the list.
 *
 * Notice the numbers: a hundred jobs, as in 20, but each nap is polled twice, to start it and when
 * it is due. In between the program does nothing. */
#include <awake.h>
#include <stdio.h>

#include "naps.h"

AW_ASYNC(void, job, int n; struct nap nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, nap_for(AW_MSEC(200 - self->n)));
    if (self->n % 25 == 0) printf("end %d\n", self->n);
    AW_END;
}

int main(void) {
    static struct job jobs[100];
    for (int i = 0; i < 100; i++)
        jobs[i] = AW_CALL(job, .n = i + 1);
    aw_all all = aw_join_all(jobs, 100);

    /* The loop needs no waker of its own: it wakes the naps. */
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    while (aw_future_poll(&all.future, &cx) == AW_PENDING)
        sleep_until_first_nap_ends();
    printf("%d polls of 100 naps\n", nap_polls);
    return 0;
}
