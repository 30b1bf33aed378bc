/* SPDX-License-Identifier: MIT
 *
 * Memory per task: bytes allocated by malloc, and growth of the resident set. */
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

/* Before the runtime and the tasks are created. */
static inline void memory_begin(size_t tasks) {
    memory.tasks = tasks;
    memory.heap = memory_in_heap();
    memory.resident = memory_resident();
}

/* When all tasks wait. The memory of the runtime itself is negligible. */
static inline void memory_report(void) {
    double n = (double)memory.tasks;
    bench_report("bytes-in-heap", (double)(memory_in_heap() - memory.heap) / n, "bytes");
    bench_report("bytes-resident", (double)(memory_resident() - memory.resident) / n, "bytes");
}

#endif
