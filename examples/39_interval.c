/* SPDX-License-Identifier: MIT
 *
 * An interval, and a clock that is paused.
 *
 * An interval ticks at fixed times, however long the work between two ticks takes. `at` is the time
 * at which a tick was due. After a late tick AW_SKIP continues with the next tick in the future,
 * AW_BURST catches up on all missed ticks, and AW_DELAY restarts the period at the late tick.
 *
 * The clock of this runtime is paused: it stands still while a task runs, and jumps to the next
 * timer when all tasks are idle. A test of one hour takes no time, and every run prints the same.
 *
 * Notice the work of the third tick, which takes too long, and how soon the program ends. */
#include <awake.h>
#include <stdio.h>

struct start {
    AW_FRAME(int);
    int i;
    uint64_t begin;
    aw_interval every;
    aw_tick tick;
    aw_sleep work;
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    self->begin = aw_now(NULL);
    aw_interval_every(&self->every, AW_MSEC(100), AW_SKIP);
    for (self->i = 1; self->i <= 6; self->i++) {
        AW_AWAIT(self->tick, aw_interval_tick(&self->every));
        printf("tick %d: due at %3d ms, now %3d ms\n", self->i,
               (int)((self->tick.at - self->begin) / AW_MSEC(1)),
               (int)((aw_now(NULL) - self->begin) / AW_MSEC(1)));
        if (self->i == 3) AW_AWAIT(self->work, aw_sleep_for(AW_MSEC(250)));
    }
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.paused = true;
    aw_runtime *rt;
    int error = aw_runtime_new(&rt, &options);
    if (error) return error;
    error = aw_block_on(rt, AW_CALL(start));
    aw_runtime_free(rt);
    return error;
}
