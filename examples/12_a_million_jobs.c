/* SPDX-License-Identifier: MIT
 *
 * A thousand jobs, then a million, each asleep for one second, all on one thread.
 *
 * A job is a struct, not a stack: it costs the size of its frame. The sleep is part of the frame
 * and needs no other memory. Only jobs that were woken are polled.
 *
 * Notice the bytes per job. A million threads would need a million stacks. */
#include <awake.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static long ended;

AW_ASYNC(void, job, aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
    ended++;
    AW_END;
}

static int run_jobs(size_t count) {
    struct job *jobs = malloc(count * sizeof *jobs);
    if (!jobs) return -1;
    for (size_t i = 0; i < count; i++)
        jobs[i] = AW_CALL(job);

    ended = 0;
    uint64_t begin = aw_now(NULL);
    int error = aw_run(aw_join_all(jobs, count));
    printf("%ld jobs have ended after %.1f s\n", ended, (double)(aw_now(NULL) - begin) / 1e9);
    free(jobs);
    return error;
}

int main(void) {
    if (run_jobs(1000) || run_jobs(1000000)) return EXIT_FAILURE;

    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%zu bytes per frame; the whole program used %ld bytes per job\n", sizeof(struct job),
           usage.ru_maxrss * 1024 / ended);
    return EXIT_SUCCESS;
}
