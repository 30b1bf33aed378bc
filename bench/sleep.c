/* SPDX-License-Identifier: MIT
 *
 * A million tasks that each sleep for one to two seconds: CPU time from the first spawn to the last
 * join, how late the tasks wake, and their memory. */
#include "bench.h"
#include "memory.h"

enum { TASKS = 1000000 };

static uint32_t late[TASKS];
static int woken;

AW_ASYNC(int, sleeper, uint64_t due; aw_sleep nap;) {
    AW_BEGIN;
    self->due += aw_now(NULL);
    AW_AWAIT(self->nap, aw_sleep_until(self->due));
    {
        uint64_t now = aw_now(NULL), by = now - self->due;
        bench_check(now >= self->due, "a sleep ended early");
        late[bench_add(woken, 1) - 1] = by < UINT32_MAX ? (uint32_t)by : UINT32_MAX;
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, sleep_all, struct sleeper **tasks; int i; aw_task_join_future join;) {
    AW_BEGIN;
    for (uint64_t i = 0; i < TASKS; i++) { /* evenly distributed, out of order */
        uint64_t duration = AW_SEC(1) + AW_USEC(i * 2654435761u % TASKS);
        self->tasks[i] = aw_spawn(AW_CALL(sleeper, .due = duration));
    }
    AW_YIELD;
    memory_report();
    for (self->i = 0; self->i < TASKS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        aw_task_drop(self->tasks[self->i]);
    }
    AW_RETURN(0);
    AW_END;
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    struct sleeper **tasks = malloc(TASKS * sizeof *tasks);
    bench_check(tasks != NULL, "memory for the handles");
    for (int i = 0; i < TASKS; i++)
        tasks[i] = NULL; /* touched before memory is measured */

    memory_begin(TASKS);
    uint64_t start = bench_cpu();
    bench_check(bench_run(AW_CALL(sleep_all, .tasks = tasks)) == 0, "all sleep");
    uint64_t spent = bench_cpu() - start;
    bench_check(woken == TASKS, "all wake up");
    qsort(late, TASKS, sizeof *late, ascending);
    bench_report("cpu", (double)spent / 1e9, "s");
    bench_report("lateness-median", late[TASKS / 2] / 1e3, "us");
    bench_report("lateness-p99", late[TASKS / 100 * 99] / 1e3, "us");
    free(tasks);
}
