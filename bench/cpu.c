/* SPDX-License-Identifier: MIT
 *
 * Tasks that compute and yield now and then: N workers should be N times as fast. For comparison,
 * the same work on as many plain threads. */
#include "bench.h"

#include <pthread.h>

enum { TASKS = 64, SLICES = 20, TURNS = 100000 };

AW_ASYNC(long, computer, uint64_t x; int i;) {
    AW_BEGIN;
    for (self->i = 0; self->i < SLICES; self->i++) {
        self->x = bench_work(self->x, TURNS);
        AW_YIELD;
    }
    AW_RETURN((long)(self->x & 1));
    AW_END;
}

AW_ASYNC(long, compute, struct computer *tasks[TASKS]; int i; long sum; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < TASKS; i++)
        self->tasks[i] = aw_spawn(AW_CALL(computer, .x = (uint64_t)i + 1));
    for (self->i = 0; self->i < TASKS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        self->sum += aw_task_take(self->tasks[self->i]);
    }
    AW_RETURN(self->sum);
    AW_END;
}

static void *plain(void *share) {
    uint64_t x = 1;
    for (long i = 0; i < *(long *)share; i++)
        x = bench_work(x, TURNS);
    return x ? NULL : share;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(compute)) >= 0, "all are joined");
    bench_report("tasks", (double)(bench_now() - start) / 1e6, "ms");

    uint32_t count = bench_workers ? bench_workers : 1;
    pthread_t *threads = calloc(count, sizeof *threads);
    long share = TASKS * SLICES / (long)count;
    bench_check(threads != NULL, "memory for threads");
    start = bench_now();
    for (uint32_t i = 0; i < count; i++)
        bench_check(pthread_create(&threads[i], NULL, plain, &share) == 0, "a thread");
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    bench_report("threads", (double)(bench_now() - start) / 1e6, "ms");
    free(threads);
}
