/* SPDX-License-Identifier: MIT
 *
 * A thousand tasks that each yield a thousand times. */
#include "bench.h"

enum { TASKS = 1000, YIELDS = 1000 };

AW_ASYNC(int, yielder, int n;) {
    AW_BEGIN;
    for (self->n = 0; self->n < YIELDS; self->n++)
        AW_YIELD;
    AW_RETURN(self->n);
    AW_END;
}

AW_ASYNC(int, yield_all, struct yielder *tasks[TASKS]; int i; int sum; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < TASKS; i++)
        self->tasks[i] = aw_spawn(AW_CALL(yielder));
    for (self->i = 0; self->i < TASKS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        self->sum += aw_task_take(self->tasks[self->i]);
    }
    AW_RETURN(self->sum);
    AW_END;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(yield_all)) == TASKS * YIELDS, "every task yields");
    bench_report_each("yield", start, TASKS * YIELDS);
}
