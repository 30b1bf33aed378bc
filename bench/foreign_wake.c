/* SPDX-License-Identifier: MIT
 *
 * A million wakes by foreign threads. About a thousand tasks are divided among the threads. Each
 * thread notifies its tasks once, and waits until all have seen it before the next round, so that
 * no wake merges with an earlier one. The wait costs two futex calls per round. */
#include "foreign.h"

enum { WAKES = 1000000, TASKS = 960 };

/* The tasks of one thread. */
typedef struct flock {
    aw_notify *sheep;
    int count;
    aw_notify done;
    int seen __attribute__((aligned(64)));
} flock;

static flock flocks[FOREIGN_MOST];

AW_ASYNC(int, sheep, flock *flock; int i; long times; aw_notified wait;) {
    AW_BEGIN;
    for (; self->times; self->times--) {
        AW_AWAIT(self->wait, aw_notify_wait(&self->flock->sheep[self->i]));
        if (bench_add(self->flock->seen, 1) == self->flock->count) {
            self->flock->seen = 0;
            aw_notify_one(&self->flock->done);
        }
    }
    AW_RETURN(0);
    AW_END;
}

static void wake(foreign *self) {
    flock *f = &flocks[self->index];
    for (long left = self->share / f->count; left; left--) {
        for (int i = 0; i < f->count; i++)
            aw_notify_one(&f->sheep[i]);
        bench_check(aw_block_on(self->rt, aw_notify_wait(&f->done)) == 0, "all have seen it");
    }
}

static void measure(int threads) {
    aw_runtime *rt = bench_runtime();
    int each = TASKS / threads;
    long times = WAKES / threads / each;
    for (int n = 0; n < threads; n++) {
        flocks[n] = (flock){.sheep = calloc((size_t)each, sizeof(aw_notify)), .count = each};
        bench_check(flocks[n].sheep != NULL, "memory for the tasks");
        for (int i = 0; i < each; i++)
            aw_task_detach(
                aw_spawn_on(rt, AW_CALL(sheep, .flock = &flocks[n], .i = i, .times = times)));
    }
    double spent = foreign_run(rt, threads, WAKES, wake);
    foreign_report("wake", threads, spent / (double)(times * each * threads), "ns");
    aw_runtime_free(rt);
    for (int n = 0; n < threads; n++)
        free(flocks[n].sheep);
}

int main(int argc, char **argv) {
    foreign_each(argc, argv, measure);
}
