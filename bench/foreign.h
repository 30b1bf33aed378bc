/* SPDX-License-Identifier: MIT
 *
 * The same work by 1, 2, 4, 8 and 16 threads that do not belong to the runtime. A second argument
 * selects one of these counts: foreign_spawn 2 16. */
#ifndef AWAKE_BENCH_FOREIGN_H
#define AWAKE_BENCH_FOREIGN_H

#include "bench.h"

#include <pthread.h>

enum { FOREIGN_MOST = 16 };

typedef struct foreign {
    aw_runtime *rt;
    int index;
    long share; /* of the work */
    void (*work)(struct foreign *self);
    pthread_barrier_t *all;
    pthread_t thread;
} foreign;

static inline void *foreign_main(void *self) {
    foreign *f = self;
    pthread_barrier_wait(f->all);
    f->work(f);
    return NULL;
}

/* Nanoseconds from the common start until all threads are done. */
static inline double foreign_run(aw_runtime *rt, int threads, long total,
                                 void (*work)(foreign *self)) {
    foreign all[FOREIGN_MOST];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        all[i] = (foreign){rt, i, total / threads, work, &barrier, 0};
        bench_check(pthread_create(&all[i].thread, NULL, foreign_main, &all[i]) == 0, "a thread");
    }
    pthread_barrier_wait(&barrier);
    uint64_t start = bench_wall();
    for (int i = 0; i < threads; i++)
        pthread_join(all[i].thread, NULL);
    double spent = (double)(bench_wall() - start);
    pthread_barrier_destroy(&barrier);
    return spent;
}

static inline void foreign_report(const char *what, int threads, double value, const char *unit) {
    char name[64];
    snprintf(name, sizeof name, "%s-%d", what, threads);
    bench_report(name, value, unit);
}

static inline void foreign_each(int argc, char **argv, void (*measure)(int threads)) {
    bench_begin(argc, argv);
    bench_check(bench_workers > 0, "the number of workers is given");
    int only = argc > 2 ? atoi(argv[2]) : 0;
    for (int threads = 1; threads <= FOREIGN_MOST; threads *= 2)
        if (!only || only == threads) measure(threads);
}

#endif
