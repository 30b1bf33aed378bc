/* SPDX-License-Identifier: MIT
 *
 * Spawn and join tasks that return at once, one by one: fibers from a fiber, and async functions
 * from an async function. On two workers every second fiber starts on the other worker, which has
 * to be woken: fewer fibers. */
#include "versus.h"

enum { TASKS = 300000, FIBERS_APART = 10000 };

static int fiber_count = TASKS;

AW_FIBER(int, nothing_fiber, int n;) {
    return self->n;
}

AW_FIBER(long, fibers) {
    long sum = 0;
    for (int i = 0; i < fiber_count; i++) {
        struct nothing_fiber *task = aw_spawn(AW_CALL(nothing_fiber, .n = i));
        aw_await(aw_task_join(task));
        sum += aw_task_take(task);
    }
    return sum;
}

AW_ASYNC(int, nothing_async, int n;) {
    AW_BEGIN;
    AW_RETURN(self->n);
    AW_END;
}

AW_ASYNC(long, functions, int i; long sum; struct nothing_async * task; aw_task_join_future join;) {
    AW_BEGIN;
    for (self->i = 0; self->i < TASKS; self->i++) {
        self->task = aw_spawn(AW_CALL(nothing_async, .n = self->i));
        AW_AWAIT(self->join, aw_task_join(self->task));
        self->sum += aw_task_take(self->task);
    }
    AW_RETURN(self->sum);
    AW_END;
}

static void run_fibers(void) {
    bench_check(bench_run(AW_CALL(fibers)) == (long)fiber_count * (fiber_count - 1) / 2, "fibers");
}
static void run_functions(void) {
    bench_check(bench_run(AW_CALL(functions)) == (long)TASKS * (TASKS - 1) / 2, "functions");
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    if (bench_workers > 1) fiber_count = FIBERS_APART;
    versus ways[] = {{"one-by-one", run_fibers, fiber_count, {0}},
                     {"one-by-one-async", run_functions, TASKS, {0}}};
    versus_report(ways, sizeof ways / sizeof ways[0]);
}
