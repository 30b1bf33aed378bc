/* SPDX-License-Identifier: MIT
 *
 * Ten jobs that each take one second end together after one second, on one thread.
 *
 * At its await a job hands the thread back, and other jobs run while it sleeps. aw_join_all makes
 * one future out of an array of futures. It ends when all of them have ended.
 *
 * Notice that all jobs start before any of them ends, and how long the program takes. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(void, job, int n; aw_sleep nap;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
    printf("end %d\n", self->n);
    AW_END;
}

int main(void) {
    struct job jobs[10];
    for (int i = 0; i < 10; i++)
        jobs[i] = AW_CALL(job, .n = i + 1);
    return aw_run(aw_join_all(jobs, 10));
}
