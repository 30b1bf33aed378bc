/* SPDX-License-Identifier: MIT
 *
 * What the benchmarks share. A benchmark measures a few things and prints each as a line
 *
 *     NAME VALUE UNIT
 *
 * that bench/run.py collects. It takes no arguments, so that everybody runs the same. */
#ifndef AWAKE_BENCH_H
#define AWAKE_BENCH_H

#include <awake.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Processor time: what else the machine does should not count. */
static inline uint64_t bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return AW_SEC(t.tv_sec) + (uint64_t)t.tv_nsec;
}

static inline void bench_report(const char *name, double value, const char *unit) {
    printf("%s %.6g %s\n", name, value, unit);
}

/* Nanoseconds for each of `count` things since `start`. */
static inline void bench_report_each(const char *name, uint64_t start, double count) {
    bench_report(name, (double)(bench_now() - start) / count, "ns");
}

/* A benchmark that did not do its work has no result. */
static inline void bench_check(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

#endif
