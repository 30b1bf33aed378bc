/* SPDX-License-Identifier: MIT
 *
 * The same work in several ways, measured in turns in one process, so that temporary load on the
 * machine affects all of them. Reports the median of the turns. */
#ifndef AWAKE_BENCH_VERSUS_H
#define AWAKE_BENCH_VERSUS_H

#include "bench.h"

enum { VERSUS_TURNS = 7 };

typedef struct versus {
    const char *name;
    void (*run)(void);
    double count; /* operations per run */
    double ns[VERSUS_TURNS];
} versus;

static inline void versus_report(versus *ways, size_t count) {
    for (int turn = 0; turn < VERSUS_TURNS; turn++) {
        for (versus *way = ways; way < ways + count; way++) {
            uint64_t start = bench_now();
            way->run();
            way->ns[turn] = (double)(bench_now() - start) / way->count;
        }
    }
    for (versus *way = ways; way < ways + count; way++) {
        bench_report(way->name, bench_quantile(way->ns, VERSUS_TURNS, 0.5), "ns");
    }
}

#endif
