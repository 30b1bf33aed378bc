/* SPDX-License-Identifier: MIT
 *
 * The ten jobs once more, as fibers: plain C, each with its own stack.
 *
 * An async function (11a) keeps what must survive an await in its frame, and awaits only in its own
 * body. A fiber keeps everything: locals, loops, and the functions that it is calling. Here `nap`,
 * an ordinary function, awaits.
 *
 * Notice that a fiber is a future like any other: the array, aw_join_all and the time are those of
 * 11a. */
#include <awake.h>
#include <stdio.h>

static void nap(const char *name) {
    printf("start %s\n", name);
    aw_await(aw_sleep_for(AW_SEC(1))); /* suspends this stack, and resumes it later */
    printf("end %s\n", name);
}

AW_FIBER(void, job, int n;) {
    char name[16]; /* a local that is used across the wait */
    snprintf(name, sizeof name, "%d", self->n);
    nap(name);
}

int main(void) {
    struct job jobs[10];
    for (int i = 0; i < 10; i++)
        jobs[i] = AW_CALL(job, .n = i + 1);
    return aw_run(aw_join_all(jobs, 10));
}
