/* SPDX-License-Identifier: MIT
 *
 * The library's join_all, with outputs: job n sleeps, job 1 longest, and returns n * n.
 *
 * The array stays in place: the output of jobs[i] is jobs[i].out. With more than 30 children
 * join_all gives each child its own waker, and polls only the children that were woken.
 *
 * Notice that the jobs end in reverse order, and that the outputs are in the order of the array. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(int, job, int n; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(600 - 100 * self->n)));
    printf("end %d\n", self->n);
    AW_RETURN(self->n * self->n);
    AW_END;
}

AW_ASYNC(int, sum_of_squares, struct job jobs[5]; aw_all all;) {
    AW_BEGIN;
    for (int i = 0; i < 5; i++)
        self->jobs[i] = AW_CALL(job, .n = i + 1);
    AW_AWAIT(self->all, aw_join_all(self->jobs, 5));

    int sum = 0;
    for (int i = 0; i < 5; i++) {
        printf("job %d returned %d\n", i + 1, self->jobs[i].out);
        sum += self->jobs[i].out;
    }
    AW_RETURN(sum);
    AW_END;
}

int main(void) {
    printf("sum: %d\n", aw_run(AW_CALL(sum_of_squares)));
    return 0;
}
