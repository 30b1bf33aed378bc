/* SPDX-License-Identifier: MIT
 *
 * Tasks that yield, as fibers and as async functions: a thousand, with stacks that exceed the L1
 * cache, and ten. */
#include "versus.h"

enum { MANY = 1000, FEW = 10, YIELDS = 1000000 };

AW_FIBER(int, fiber, int yields;) {
    int n = 0;
    while (n < self->yields && aw_fiber_yield() == 0)
        n++;
    return n;
}

AW_ASYNC(int, function, int yields; int n;) {
    AW_BEGIN;
    for (self->n = 0; self->n < self->yields; self->n++)
        AW_YIELD;
    AW_RETURN(self->n);
    AW_END;
}

AW_FIBER(int, fibers, int count;) {
    struct fiber *tasks[MANY];
    int sum = 0;
    for (int i = 0; i < self->count; i++)
        tasks[i] = aw_spawn(AW_CALL(fiber, .yields = YIELDS / self->count));
    for (int i = 0; i < self->count; i++) {
        aw_await(aw_task_join(tasks[i]));
        sum += aw_task_take(tasks[i]);
    }
    return sum;
}

AW_FIBER(int, functions, int count;) {
    struct function *tasks[MANY];
    int sum = 0;
    for (int i = 0; i < self->count; i++)
        tasks[i] = aw_spawn(AW_CALL(function, .yields = YIELDS / self->count));
    for (int i = 0; i < self->count; i++) {
        aw_await(aw_task_join(tasks[i]));
        sum += aw_task_take(tasks[i]);
    }
    return sum;
}

static void many_fibers(void) {
    bench_check(bench_run(AW_CALL(fibers, .count = MANY)) == YIELDS, "every fiber yields");
}
static void many_functions(void) {
    bench_check(bench_run(AW_CALL(functions, .count = MANY)) == YIELDS, "every function yields");
}
static void few_fibers(void) {
    bench_check(bench_run(AW_CALL(fibers, .count = FEW)) == YIELDS, "every fiber yields");
}
static void few_functions(void) {
    bench_check(bench_run(AW_CALL(functions, .count = FEW)) == YIELDS, "every function yields");
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    versus ways[] = {
        {"thousand", many_fibers, YIELDS, {0}},
        {"thousand-async", many_functions, YIELDS, {0}},
        {"ten", few_fibers, YIELDS, {0}},
        {"ten-async", few_functions, YIELDS, {0}},
    };
    versus_report(ways, sizeof ways / sizeof ways[0]);
}
