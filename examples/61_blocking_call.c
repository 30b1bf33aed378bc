/* SPDX-License-Identifier: MIT
 *
 * A call that blocks, without keeping the others waiting: it is made on a thread of its own, and its result is
 * awaited like anything else. (13 shows what happens when it is simply made.)
 *
 * Such a call cannot be stopped once it runs. Cancelled, aw_blocking waits for it, so that the call may use
 * memory of the caller's; aw_blocking_owned lets it go, and it releases what it owns by itself.
 *
 * Notice that the timeout does not lose the result: the call had finished by the time it was given up. */
#include <awake.h>
#include <stdio.h>
#include <time.h>

static long slow_square(void *arg) {
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    return *(long *)arg * *(long *)arg;
}

AW_ASYNC(int, ticks, int i; aw_sleep nap;) {
    AW_BEGIN;
    for (self->i = 1; self->i <= 3; self->i++) {
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(50)));
        printf("tick %d\n", self->i);
    }
    AW_END;
}

AW_ASYNC(int, demo, long n; struct ticks * ticks; aw_blocking_future call;
         AW_TIMEOUT(aw_blocking_future) impatient;) {
    AW_BEGIN;
    self->n = 7;
    self->ticks = aw_spawn(AW_CALL(ticks));
    AW_AWAIT(self->call, aw_blocking(slow_square, &self->n));
    printf("7 * 7 = %ld\n", self->call.out);

    self->n = 9;
    AW_AWAIT_FOR(self->impatient, AW_MSEC(100), aw_blocking(slow_square, &self->n));
    printf("9 * 9 = %ld, status %d\n", self->impatient.inner.out, self->impatient.out);
    AW_FINALLY;
    if (self->ticks) aw_task_drop(self->ticks);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(demo));
}
