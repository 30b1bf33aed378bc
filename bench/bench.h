/* SPDX-License-Identifier: MIT
 *
 * Shared by all benchmarks. A benchmark prints each result as a line
 *
 *     NAME VALUE UNIT
 *
 * that bench/run.py collects. The argument selects the flavour of the runtime:
 *
 *     spawn        on the calling thread: AW_CURRENT_THREAD
 *     spawn 2      on two workers: AW_MULTI_THREAD */
#ifndef AWAKE_BENCH_H
#define AWAKE_BENCH_H

#include <awake.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Number of workers; 0: the current thread. */
static uint32_t bench_workers;

static inline uint64_t bench_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return AW_SEC(t.tv_sec) + (uint64_t)t.tv_nsec;
}

static inline uint64_t bench_wall(void) {
    return bench_clock(CLOCK_MONOTONIC);
}

static inline uint64_t bench_cpu(void) {
    return bench_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* CPU time on one thread, so that other load of the machine does not count. Wall time with workers,
 * because they are meant to shorten it. */
static inline uint64_t bench_now(void) {
    return bench_workers ? bench_wall() : bench_cpu();
}

static inline void bench_report(const char *name, double value, const char *unit) {
    printf("%s %.6g %s\n", name, value, unit);
}

/* Nanoseconds per item since `start`, for `count` items. */
static inline void bench_report_each(const char *name, uint64_t start, double count) {
    bench_report(name, (double)(bench_now() - start) / count, "ns");
}

/* Exits: a benchmark that did not do its work has no result. */
static inline void bench_check(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

/* ---- Runtime --------------------------------------------------------------------------------- */

/* Call it first. */
static inline void bench_begin(int argc, char **argv) {
    if (argc > 1) bench_workers = (uint32_t)strtoul(argv[1], NULL, 10);
}

static inline aw_runtime *bench_runtime(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt = NULL;
    options.flavour = bench_workers ? AW_MULTI_THREAD : AW_CURRENT_THREAD;
    options.workers = bench_workers;
    bench_check(aw_runtime_new(&rt, &options) == 0, "a runtime");
    return rt;
}

/* Runs a future where the tasks run, so that it does not act as a foreign thread. Returns its
 * output. */
#define bench_run_on(rt, ...)                                                                      \
    __extension__({                                                                                \
        __typeof__((__VA_ARGS__).out) bench_out;                                                   \
        if (bench_workers) {                                                                       \
            __typeof__(__VA_ARGS__) *bench_task = aw_spawn_on((rt), __VA_ARGS__);                  \
            bench_check(aw_block_on((rt), aw_task_join(bench_task)) == 0, "the main task");        \
            bench_out = aw_task_take(bench_task);                                                  \
        } else {                                                                                   \
            bench_out = aw_block_on((rt), __VA_ARGS__);                                            \
        }                                                                                          \
        bench_out;                                                                                 \
    })

/* The same on a new runtime. */
#define bench_run(...)                                                                             \
    __extension__({                                                                                \
        aw_runtime *bench_rt = bench_runtime();                                                    \
        __typeof__((__VA_ARGS__).out) bench_result = bench_run_on(bench_rt, __VA_ARGS__);          \
        aw_runtime_free(bench_rt);                                                                 \
        bench_result;                                                                              \
    })

/* ---- For tasks on several workers ------------------------------------------------------------ */

#define bench_add(counter, n) __atomic_add_fetch(&(counter), (n), __ATOMIC_ACQ_REL)
#define bench_load(counter)   __atomic_load_n(&(counter), __ATOMIC_ACQUIRE)

/* Keeps a CPU busy: about two nanoseconds per turn. The compiler cannot shorten it. */
static inline uint64_t bench_work(uint64_t x, long turns) {
    for (long i = 0; i < turns; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Quantile of some values, which are sorted. */
static inline int bench_ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}
static inline double bench_quantile(double *values, size_t count, double part) {
    qsort(values, count, sizeof *values, bench_ascending);
    return values[(size_t)((double)(count - 1) * part)];
}

#endif
