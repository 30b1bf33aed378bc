/* SPDX-License-Identifier: MIT
 *
 * A call that blocks, without blocking other tasks: it runs on a separate thread, and its result is
 * awaited. (13 shows what happens without that.)
 *
 * A call cannot be stopped once it runs. When aw_blocking is cancelled it waits for the call, so
 * the call may use memory of the caller. aw_blocking_owned does not wait: the call frees what it
 * owns.
 *
 * Notice that the timeout does not lose the result: it waited for the call, and the call
 * finished. */
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

struct demo {
    AW_FRAME(int);
    long n;
    struct ticks *ticks;
    aw_blocking_future call;
    AW_TIMEOUT(aw_blocking_future) limited;
};
AW_ASYNC_STATIC(demo) {
    AW_BEGIN;
    self->n = 7;
    self->ticks = aw_spawn(AW_CALL(ticks));
    AW_AWAIT(self->call, aw_blocking(slow_square, &self->n));
    printf("7 * 7 = %ld\n", self->call.out);

    self->n = 9;
    AW_AWAIT_FOR(self->limited, AW_MSEC(100), aw_blocking(slow_square, &self->n));
    printf("9 * 9 = %ld, status %d\n", self->limited.inner.out, self->limited.out);
    AW_FINALLY;
    if (self->ticks) aw_task_drop(self->ticks);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(demo));
}
