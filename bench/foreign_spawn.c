/* SPDX-License-Identifier: MIT
 *
 * A million tasks spawned by foreign threads: the time to spawn them, and until all have run. */
#include "foreign.h"

enum { TASKS = 1000000 };

/* Tasks that ran, counted per spawning thread, so that the workers do not contend for one
 * counter. */
static struct { long ran __attribute__((aligned(64))); } counters[FOREIGN_MOST];
static int busy; /* threads with tasks that have not run */
static aw_notify idle = AW_NOTIFY_INIT;

AW_ASYNC(int, nothing, int owner; long of;) {
    AW_BEGIN;
    if (bench_add(counters[self->owner].ran, 1) == self->of && bench_add(busy, -1) == 0)
        aw_notify_one(&idle);
    AW_RETURN(0);
    AW_END;
}

static void spawn(foreign *self) {
    for (long i = 0; i < self->share; i++)
        aw_task_detach(
            aw_spawn_on(self->rt, AW_CALL(nothing, .owner = self->index, .of = self->share)));
}

static void measure(int threads) {
    aw_runtime *rt = bench_runtime();
    for (int i = 0; i < threads; i++)
        counters[i].ran = 0;
    busy = threads;
    uint64_t start = bench_wall();
    double spawning = foreign_run(rt, threads, TASKS, spawn);
    bench_check(aw_block_on(rt, aw_notify_wait(&idle)) == 0, "all have run");
    foreign_report("spawn", threads, spawning / TASKS, "ns");
    foreign_report("run", threads, (double)(bench_wall() - start) / TASKS, "ns");
    aw_runtime_free(rt);
}

int main(int argc, char **argv) {
    foreign_each(argc, argv, measure);
}
