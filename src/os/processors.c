/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/processors.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(aw__processor_set) == sizeof(cpu_set_t), "the same size as cpu_set_t");

static uint32_t processors_by_affinity(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint32_t)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than cpu_set_t holds */
    return n > 0 ? (uint32_t)n : 1;
}

/* Reads "<quota> <period>" or "max <period>", in microseconds. Returns processors; 0: no limit. */
static uint32_t read_quota(const char *file) {
    unsigned long long quota, period;
    FILE *f = fopen(file, "re");
    int n = f ? fscanf(f, "%llu %llu", &quota, &period) : 0;
    if (f) fclose(f);
    return n == 2 && period ? (uint32_t)((quota + period - 1) / period) : 0;
}

/* The lowest limit among the process's control group and its ancestors; 0: no limit. cgroup v2
 * only. */
static uint32_t processors_by_quota(void) {
    char line[512], path[640];
    uint32_t lowest = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "0::/", 4) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        for (char *group = line + 3, *slash; (slash = strrchr(group, '/')); *slash = 0) {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
            uint32_t n = read_quota(path);
            if (n && (!lowest || n < lowest)) lowest = n;
        }
        break;
    }
    if (f) fclose(f);
    return lowest;
}

uint32_t aw__processors(void) {
    uint32_t affinity = processors_by_affinity(), quota = processors_by_quota();
    uint32_t n = quota && quota < affinity ? quota : affinity;
    return n ? n : 1;
}

int aw__processors_get(aw__processor_set *set) {
    return sched_getaffinity(0, sizeof *set, (cpu_set_t *)set) < 0 ? -errno : 0;
}

int aw__processors_set(const aw__processor_set *set) {
    return sched_setaffinity(0, sizeof *set, (const cpu_set_t *)set) < 0 ? -errno : 0;
}

int aw__processors_bind(const aw__processor_set *set, uint32_t i) {
    cpu_set_t all, one;
    memcpy(&all, set, sizeof all);
    int count = CPU_COUNT(&all);
    if (count == 0) return -EINVAL;
    i %= (uint32_t)count;
    size_t n = 0;
    while (!CPU_ISSET(n, &all) || i--)
        n++;
    CPU_ZERO(&one);
    CPU_SET(n, &one);
    return sched_setaffinity(0, sizeof one, &one) < 0 ? -errno : 0;
}
