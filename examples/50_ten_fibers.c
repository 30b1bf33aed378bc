/* SPDX-License-Identifier: MIT
 *
 * The ten jobs once more, as fibers: plain C with a stack of its own.
 *
 * An async function (11a) keeps in its frame what has to live across an await, and awaits only in its own
 * body. A fiber keeps everything: locals, loops, the functions that it is in the middle of. Here `nap`,
 * an ordinary function, waits for whoever called it.
 *
 * Notice that a fiber is a future like any other: the array, aw_join_all and the time are those of 11a. */
#include <awake.h>
#include <stdio.h>

static void nap(const char *who) {
    printf("start %s\n", who);
    aw_await(aw_sleep_for(AW_SEC(1))); /* leaves this stack as it is, and comes back to it */
    printf("end %s\n", who);
}

AW_FIBER(void, job, int n;) {
    char name[16]; /* a local, in use across the wait */
    snprintf(name, sizeof name, "%d", self->n);
    nap(name);
}

int main(void) {
    struct job jobs[10];
    for (int i = 0; i < 10; i++)
        jobs[i] = AW_CALL(job, .n = i + 1);
    return aw_run(aw_join_all(jobs, 10));
}
