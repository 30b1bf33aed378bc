/* SPDX-License-Identifier: MIT
 *
 * A common mistake: blocking inside an async function.
 *
 * usleep() puts the thread to sleep, and every job with it. Only an await lets other jobs run. Code
 * that blocks (a plain read, a lock held for long, a long computation) must not run between two
 * awaits: see 61.
 *
 * Notice that all awaiting jobs start before the first one ends, that the blocking jobs run one
 * after the other, and the two times: one nap, and the sum of all naps. */
#include <awake.h>
#include <stdio.h>
#include <unistd.h>

AW_ASYNC(void, awaiting, int n; aw_sleep nap;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100)));
    printf("end %d\n", self->n);
    AW_END;
}

AW_ASYNC(void, blocking, int n;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    usleep(100 * 1000);
    printf("end %d\n", self->n);
    AW_END;
}

int main(void) {
    struct awaiting awaiting[10];
    struct blocking blocking[10];
    for (int i = 0; i < 10; i++) {
        awaiting[i] = AW_CALL(awaiting, .n = i + 1);
        blocking[i] = AW_CALL(blocking, .n = i + 1);
    }

    uint64_t begin = aw_now(NULL);
    int error = aw_run(aw_join_all(awaiting, 10));
    printf("awaiting: %.1f s\n", (double)(aw_now(NULL) - begin) / 1e9);

    begin = aw_now(NULL);
    if (!error) error = aw_run(aw_join_all(blocking, 10));
    printf("blocking: %.1f s\n", (double)(aw_now(NULL) - begin) / 1e9);
    return error;
}
