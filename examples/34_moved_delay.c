/* SPDX-License-Identifier: MIT
 *
 * A future that is polled by one task, and then moved into another.
 *
 * The main future polls the delay once, by hand, with its own context: the thread starts, and has the
 * waker of the main future. Then the delay moves into a task. From the first poll there on it is the
 * waker of that task that counts; had the delay kept the other one, the task would sleep for ever.
 *
 * Notice the three polls: here, there, and when it was woken. Most futures must stay where they were
 * first polled, and the library reports one that moved. To move those, put them into a box. */
#include <awake.h>
#include <stdio.h>

#include "delay.h"

AW_ASYNC(int, start, struct delay *task; struct delay delay; aw_task_join_future join;) {
    AW_BEGIN;
    self->delay = delay_for(AW_MSEC(500));
    if (aw_future_poll(&self->delay.future, cx) == AW_READY) AW_RETURN(self->delay.out);
    printf("polled by the main future: pending\n");

    self->task = aw_spawn(self->delay);
    printf("moved into a task\n");
    AW_AWAIT(self->join, aw_task_join(self->task));
    printf("the task has ended: %d\n", self->join.out);
    aw_task_drop(self->task);
    AW_RETURN(self->join.out);
    AW_END;
}

int main(void) {
    int error = aw_run(AW_CALL(start));
    printf("polls: %d, threads: %d\n", delay_polls, delay_threads);
    return error;
}
