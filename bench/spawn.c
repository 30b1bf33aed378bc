/* SPDX-License-Identifier: MIT
 *
 * Spawn and join a million tasks that return at once: one by one, and all together. */
#include "bench.h"

enum { TASKS = 1000000 };

AW_ASYNC(int, nothing, int n;) {
    AW_BEGIN;
    AW_RETURN(self->n);
    AW_END;
}

AW_ASYNC(long, one_by_one, int i; long sum; struct nothing * task; aw_task_join_future join;) {
    AW_BEGIN;
    for (self->i = 0; self->i < TASKS; self->i++) {
        self->task = aw_spawn(AW_CALL(nothing, .n = self->i));
        AW_AWAIT(self->join, aw_task_join(self->task));
        self->sum += aw_task_take(self->task);
    }
    AW_RETURN(self->sum);
    AW_END;
}

AW_ASYNC(long, at_once, struct nothing **tasks; int i; long sum; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < TASKS; i++)
        self->tasks[i] = aw_spawn(AW_CALL(nothing, .n = i));
    for (self->i = 0; self->i < TASKS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        self->sum += aw_task_take(self->tasks[self->i]);
    }
    AW_RETURN(self->sum);
    AW_END;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    const long expected = (long)TASKS * (TASKS - 1) / 2;

    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(one_by_one)) == expected, "one by one");
    bench_report_each("one-by-one", start, TASKS);

    struct nothing **tasks = calloc(TASKS, sizeof *tasks);
    bench_check(tasks != NULL, "memory for the handles");
    start = bench_now();
    bench_check(bench_run(AW_CALL(at_once, .tasks = tasks)) == expected, "at once");
    bench_report_each("at-once", start, TASKS);
    free(tasks);
}
