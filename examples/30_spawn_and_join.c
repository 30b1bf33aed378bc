/* SPDX-License-Identifier: MIT
 *
 * Tasks: spawn ten jobs, join them, take their outputs.
 *
 * An awaited future belongs to the future that awaits it. A task belongs to the runtime, and runs
 * whether it is joined or not. The handle of a task is a pointer to its frame. Once its join has
 * ended with 0, the output is in the frame, with its own type: no casts. aw_task_take reads it and
 * releases the handle.
 *
 * A frame with more than two members is written as a struct: first AW_FRAME with the type of the
 * output, then the arguments and everything that must survive an await.
 *
 * Notice that the ten jobs run concurrently, although they are joined one after the other. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(double, job, int n; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100)));
    AW_RETURN(self->n / 2.0);
    AW_END;
}

struct start {
    AW_FRAME(int);
    struct job *jobs[10];
    int i;
    double sum;
    aw_task_join_future join;
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    for (int i = 0; i < 10; i++)
        self->jobs[i] = aw_spawn(AW_CALL(job, .n = i + 1));
    printf("ten tasks are spawned; none runs before this one waits\n");

    for (self->i = 0; self->i < 10; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->jobs[self->i]));
        if (self->join.out == 0)
            self->sum += aw_task_take(self->jobs[self->i]);
        else
            aw_task_drop(self->jobs[self->i]); /* the spawn failed: no memory */
    }
    printf("the sum is %g\n", self->sum);
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
