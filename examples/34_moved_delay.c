/* SPDX-License-Identifier: MIT
 *
 * A future that is polled by one task and then moved into another.
 *
 * The main future polls the delay once, with its own context: the thread starts and has the waker
 * of the main future. Then the delay moves into a task. The first poll there replaces the waker
 * with the task's. If the delay kept the old waker, the task would sleep forever.
 *
 * Notice the three polls: by the main future, by the task, and after the wake. Most futures must
 * stay where they were first polled, and the library reports a future that moved. To move such a
 * future, put it in a box. */
#include <awake.h>
#include <stdio.h>

#include "delay.h"

struct start {
    AW_FRAME(int);
    struct delay delay;
    struct delay *task;
    aw_task_join_future join;
};
AW_ASYNC_STATIC(start) {
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
