/* SPDX-License-Identifier: MIT
 *
 * Empty blocking jobs, submitted and awaited by foreign threads: one at a time each, and 32 at a
 * time each. At most 16 threads run them. */
#include "foreign.h"

enum { JOBS = 32000, AT_A_TIME = 32 };

static long nothing(void *arg) {
    (void)arg;
    return 1;
}

AW_ASYNC(long, one_by_one, long left; long sum; aw_blocking_future job;) {
    AW_BEGIN;
    for (; self->left; self->left--) {
        AW_AWAIT(self->job, aw_blocking(nothing, NULL));
        self->sum += self->job.out;
    }
    AW_RETURN(self->sum);
    AW_END;
}

AW_ASYNC(long, many, long left; long sum; aw_set jobs; aw_set_next_future next;) {
    AW_BEGIN;
    aw_set_init(&self->jobs, sizeof(aw_blocking_future));
    while (self->left || self->jobs.count) {
        for (; self->left && self->jobs.count < AT_A_TIME; self->left--)
            aw_set_push(&self->jobs, aw_blocking(nothing, NULL));
        AW_AWAIT(self->next, aw_set_next(&self->jobs));
        self->sum += AW_SET_AS(aw_blocking_future, &self->next)->out;
    }
    aw_set_free(&self->jobs);
    AW_RETURN(self->sum);
    AW_END;
}

static void submit_one_by_one(foreign *self) {
    bench_check(aw_block_on(self->rt, AW_CALL(one_by_one, .left = self->share)) == self->share,
                "every job is done");
}
static void submit_many(foreign *self) {
    bench_check(aw_block_on(self->rt, AW_CALL(many, .left = self->share)) == self->share,
                "every job is done");
}

static void measure(int threads) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt = NULL;
    options.flavour = AW_MULTI_THREAD;
    options.workers = bench_workers;
    options.blocking_threads = FOREIGN_MOST;
    bench_check(aw_runtime_new(&rt, &options) == 0, "a runtime");
    double spent = foreign_run(rt, threads, JOBS, submit_one_by_one);
    foreign_report("one", threads, JOBS / spent * 1e9, "jobs/s");
    spent = foreign_run(rt, threads, JOBS, submit_many);
    foreign_report("many", threads, JOBS / spent * 1e9, "jobs/s");
    aw_runtime_free(rt);
}

int main(int argc, char **argv) {
    foreign_each(argc, argv, measure);
}
