/* SPDX-License-Identifier: MIT
 *
 * How much memory each of many tasks takes: what malloc has given out, and by how much the process grew. */
#ifndef AWAKE_BENCH_MEMORY_H
#define AWAKE_BENCH_MEMORY_H

#include <malloc.h>
#include <unistd.h>

#include "bench.h"

static struct { size_t heap, resident, tasks; } memory;

static inline size_t memory_in_heap(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static inline size_t memory_resident(void) {
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    bench_check(f && fscanf(f, "%ld %ld", &size, &resident) == 2, "/proc/self/statm");
    fclose(f);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Before the tasks, and before the runtime is made. */
static inline void memory_begin(size_t tasks) {
    memory.tasks = tasks;
    memory.heap = memory_in_heap();
    memory.resident = memory_resident();
}

/* When all of them are there and wait. The runtime itself is lost in the rounding. */
static inline void memory_report(void) {
    double n = (double)memory.tasks;
    bench_report("bytes-in-heap", (double)(memory_in_heap() - memory.heap) / n, "bytes");
    bench_report("bytes-resident", (double)(memory_resident() - memory.resident) / n, "bytes");
}

#endif
