/* SPDX-License-Identifier: MIT
 *
 * A delay with a thread of its own, corrected: one thread, and the waker of the latest poll.
 *
 * For every future, only the waker of the latest poll counts. The delay stores it where its thread
 * finds it, and replaces it when a poll has another waker. So one thread is enough. See delay.h.
 *
 * Notice the number of polls: eleven while the delay is pending, as in 32, and one when it is
 * over. */
#include <awake.h>
#include <stdio.h>

#include "delay.h"

AW_ASYNC(void, busy, int i;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 10; self->i++)
        AW_YIELD;
    printf("the sibling has ended\n");
    AW_END;
}

AW_ASYNC(int, start, AW_JOIN(struct delay, struct busy) both;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->both, delay_for(AW_MSEC(500)), AW_CALL(busy));
    printf("the delay is over: %d\n", self->both.f0.out);
    AW_RETURN(self->both.f0.out);
    AW_END;
}

int main(void) {
    int error = aw_run(AW_CALL(start));
    printf("polls: %d, threads: %d\n", delay_polls, delay_threads);
    return error;
}
