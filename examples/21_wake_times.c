/* SPDX-License-Identifier: MIT
 *
 * The loop sleeps too, until the first of its jobs has to be woken.
 *
 * Whoever knows when something happens must be told who waits for it. Here it is the loop that knows
 * the time, so a nap puts its waker into the loop's list of wake times, and the loop, which has nothing
 * left to poll, sleeps until the first of these. naps.h has both: a nap and the list.
 *
 * Notice the numbers: a hundred jobs, as in the busy loop, but now each nap is polled twice, to begin
 * and when its time has come; and between these the program does nothing at all. */
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

    /* The loop itself need not be woken: it wakes others. */
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    while (aw_future_poll(&all.future, &cx) == AW_PENDING)
        sleep_until_first_nap_ends();
    printf("%d polls of 100 naps\n", nap_polls);
    return 0;
}
