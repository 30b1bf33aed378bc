/* SPDX-License-Identifier: MIT
 *
 * Fibers that wait, 10,000 and 100,000 of them: the memory of each, the number of mappings (limited
 * by vm.max_map_count), and the time to create and to cancel them.
 *
 * Only touched pages of a stack take memory: here one each. Page tables are counted separately,
 * because the kernel does not count them as resident. Before Linux 6.13 guard pages are mappings
 * and not all of them fit; fibers that get no stack are not counted. */
#include "bench.h"
#include "memory.h"

#include <string.h>

enum { FEW = 10000, MANY = 100000 };

static aw_notify never;
static int arrived;

AW_FIBER(int, visitor) {
    bench_add(arrived, 1);
    return aw_await(aw_notify_wait(&never));
}

/* A value in kB from /proc/self/status, in bytes. */
static size_t status_bytes(const char *name) {
    FILE *f = fopen("/proc/self/status", "r");
    bench_check(f != NULL, "/proc/self/status");
    char line[256];
    size_t kb = 0;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name))) kb = strtoul(line + strlen(name), NULL, 10);
    fclose(f);
    return kb * 1024;
}

static size_t mappings(void) {
    FILE *f = fopen("/proc/self/maps", "r");
    bench_check(f != NULL, "/proc/self/maps");
    size_t lines = 0;
    for (int c; (c = getc(f)) != EOF;)
        lines += c == '\n';
    fclose(f);
    return lines;
}

static void report(const char *what, int count, double value, const char *unit) {
    char name[64];
    snprintf(name, sizeof name, "%s-%d", what, count);
    bench_report(name, value, unit);
}

static int finished(struct visitor **tasks, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += aw_task_is_finished(tasks[i]);
    return sum;
}

/* Returns the number of waiting fibers that could not be cancelled. */
AW_FIBER(int, crowd, struct visitor **tasks; int count;) {
    int n = self->count, waiting;
    arrived = 0;
    size_t resident = memory_resident(), tables = status_bytes("VmPTE:"), maps = mappings();

    uint64_t start = bench_now();
    for (int i = 0; i < n; i++)
        self->tasks[i] = aw_spawn(AW_CALL(visitor));
    do
        aw_fiber_yield();
    while ((waiting = n - finished(self->tasks, n)) > bench_load(arrived));
    double making = (double)(bench_now() - start);
    bench_check(waiting > 0, "some wait");

    report("waiting", n, waiting, "fibers");
    report("make", n, making / waiting, "ns");
    report("bytes-resident", n, (double)(memory_resident() - resident) / waiting, "bytes");
    report("bytes-of-tables", n, (double)(status_bytes("VmPTE:") - tables) / waiting, "bytes");
    report("mappings", n, (double)(mappings() - maps), "mappings");

    start = bench_now();
    for (int i = 0; i < n; i++)
        aw_task_abort(self->tasks[i]);
    int cancelled = 0;
    for (int i = 0; i < n; i++) {
        cancelled += aw_await(aw_task_join(self->tasks[i])) < 0;
        aw_task_drop(self->tasks[i]);
    }
    report("cancel", n, (double)(bench_now() - start) / waiting, "ns");
    return waiting - cancelled;
}

static void measure(int count) {
    struct visitor **tasks = calloc((size_t)count, sizeof *tasks);
    bench_check(tasks != NULL, "memory for the handles");
    memset(tasks, 1, (size_t)count * sizeof *tasks); /* touched before memory is measured */
    bench_check(bench_run(AW_CALL(crowd, .tasks = tasks, .count = count)) == 0,
                "all are cancelled");
    free(tasks);
    if (bench_workers) return; /* the stacks were freed with the worker threads */
    uint64_t start = bench_now();
    aw_stacks_trim();
    report("trim", count, (double)(bench_now() - start) / count, "ns");
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    measure(FEW);
    measure(MANY);
}
