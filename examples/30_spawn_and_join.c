/* SPDX-License-Identifier: MIT
 *
 * Tasks: spawn ten jobs, join them, take what they return.
 *
 * A future that is awaited belongs to who awaits it; a task belongs to the runtime, and runs whether
 * anybody waits or not. The handle of a task is a pointer to its frame. Once a join has said 0, the
 * output is in there, with its own type: no casts. aw_task_take reads it and gives the handle back.
 *
 * Notice that the ten run side by side, though they are joined one after the other. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(double, job, int n; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100)));
    AW_RETURN(self->n / 2.0);
    AW_END;
}

AW_ASYNC(int, start, struct job *jobs[10]; int i; double sum; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < 10; i++)
        self->jobs[i] = aw_spawn(AW_CALL(job, .n = i + 1));
    printf("ten tasks, and none has run yet: this one is still running\n");

    for (self->i = 0; self->i < 10; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->jobs[self->i]));
        if (self->join.out == 0)
            self->sum += aw_task_take(self->jobs[self->i]);
        else
            aw_task_drop(self->jobs[self->i]); /* there was no memory for it */
    }
    printf("the sum is %g\n", self->sum);
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
