/* SPDX-License-Identifier: MIT
 *
 * Ten jobs that each take a second take a second together, on one thread.
 *
 * At its await a job hands the thread back; while it sleeps the others run. aw_join_all makes one
 * future out of an array of them, and ends when all have.
 *
 * Notice that all begin before any ends, and look at the time. */
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
