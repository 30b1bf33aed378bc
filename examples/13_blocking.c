/* SPDX-License-Identifier: MIT
 *
 * The mistake that everyone makes once: blocking inside an async function.
 *
 * usleep() puts the thread to sleep, and with it every job there is. Only an await lets the others
 * run. What blocks (a plain read, a lock held long, much computing) has no place between two
 * awaits.
 *
 * Notice that each polite job begins before the first ends, that the rude ones take turns, and the
 * two times: one nap, and the sum of all naps. */
#include <awake.h>
#include <stdio.h>
#include <unistd.h>

AW_ASYNC(void, polite, int n; aw_sleep nap;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100)));
    printf("end %d\n", self->n);
    AW_END;
}

AW_ASYNC(void, rude, int n;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    usleep(100 * 1000);
    printf("end %d\n", self->n);
    AW_END;
}

int main(void) {
    struct polite polite[10];
    struct rude rude[10];
    for (int i = 0; i < 10; i++) {
        polite[i] = AW_CALL(polite, .n = i + 1);
        rude[i] = AW_CALL(rude, .n = i + 1);
    }

    uint64_t begin = aw_now(NULL);
    int error = aw_run(aw_join_all(polite, 10));
    printf("awaiting: %.1f s\n", (double)(aw_now(NULL) - begin) / 1e9);

    begin = aw_now(NULL);
    if (!error) error = aw_run(aw_join_all(rude, 10));
    printf("blocking: %.1f s\n", (double)(aw_now(NULL) - begin) / 1e9);
    return error;
}
