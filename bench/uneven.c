/* SPDX-License-Identifier: MIT
 *
 * Uneven fork and join: one task spawns a thousand with ten microseconds of work each, so that one
 * worker has all the work. Measures the time until another worker runs a task, and until all are
 * done. */
#include "bench.h"

#include <pthread.h>

enum { TASKS = 1000, TURNS = 5000, TIMES = 21 };

static pthread_t owner;
static uint64_t start, moved; /* when a task first ran on another worker; 0: never */

AW_ASYNC(long, part, int n;) {
    AW_BEGIN;
    if (!__atomic_load_n(&moved, __ATOMIC_RELAXED) && !pthread_equal(owner, pthread_self())) {
        uint64_t never = 0;
        __atomic_compare_exchange_n(&moved, &never, bench_wall(), false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    }
    AW_RETURN((long)(bench_work((uint64_t)self->n + 1, TURNS) & 1));
    AW_END;
}

AW_ASYNC(long, fork_join, struct part *parts[TASKS]; int i; long sum; aw_task_join_future join;) {
    AW_BEGIN;
    owner = pthread_self();
    moved = 0;
    start = bench_wall();
    for (int i = 0; i < TASKS; i++)
        self->parts[i] = aw_spawn(AW_CALL(part, .n = i));
    for (self->i = 0; self->i < TASKS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->parts[self->i]));
        self->sum += aw_task_take(self->parts[self->i]);
    }
    AW_RETURN(self->sum);
    AW_END;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    aw_runtime *rt = bench_runtime();
    double spread[TIMES], all[TIMES];
    int spreads = 0;
    for (int i = 0; i < TIMES; i++) {
        uint64_t begin = bench_now();
        bench_check(bench_run_on(rt, AW_CALL(fork_join)) >= 0, "all are joined");
        all[i] = (double)(bench_now() - begin) / 1e6;
        if (moved) spread[spreads++] = (double)(moved - start) / 1e3;
    }
    aw_runtime_free(rt);
    bench_report("all", bench_quantile(all, TIMES, 0.5), "ms");
    if (spreads) bench_report("spread", bench_quantile(spread, (size_t)spreads, 0.5), "us");
}
