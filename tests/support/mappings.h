/* SPDX-License-Identifier: MIT
 *
 * Counts mmap, munmap, madvise and mprotect, by which the library allocates and frees pages, and
 * makes them fail. A test that includes this links with
 *     -Wl,--wrap=mmap -Wl,--wrap=munmap -Wl,--wrap=madvise -Wl,--wrap=mprotect
 * All threads. */
#ifndef AWAKE_TEST_MAPPINGS_H
#define AWAKE_TEST_MAPPINGS_H

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

enum { MARK_ADVICE = 102 }; /* MADV_GUARD_INSTALL */

/* How the kernel reacts to MADV_GUARD_INSTALL. */
enum marks {
    MARKS_AS_HERE,
    MARKS_UNKNOWN, /* an older kernel */
    MARKS_IGNORED  /* an emulator: returns success and does nothing */
};

static struct {
    long bytes;    /* mapped and not unmapped */
    long calls;    /* that may fail */
    long fail_at;  /* the call with this number fails; 0: none */
    bool fail_on;  /* and all later calls */
    long failures; /* how many failed */
    enum marks marks;
    long mark_calls, protect_calls;
    bool refuse_protect;
} mappings;

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t size);
int __real_madvise(void *at, size_t size, int advice);
int __real_mprotect(void *at, size_t size, int protection);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t size);
int __wrap_madvise(void *at, size_t size, int advice);
int __wrap_mprotect(void *at, size_t size, int protection);

static inline bool mappings_fails(void) {
    long call = __atomic_add_fetch(&mappings.calls, 1, __ATOMIC_RELAXED);
    if (!mappings.fail_at || call < mappings.fail_at) return false;
    if (call > mappings.fail_at && !mappings.fail_on) return false;
    __atomic_add_fetch(&mappings.failures, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return true;
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (mappings_fails()) return MAP_FAILED;
    void *memory = __real_mmap(at, size, protection, flags, fd, offset);
    if (memory != MAP_FAILED) __atomic_add_fetch(&mappings.bytes, (long)size, __ATOMIC_RELAXED);
    return memory;
}

int __wrap_munmap(void *at, size_t size) {
    __atomic_sub_fetch(&mappings.bytes, (long)size, __ATOMIC_RELAXED);
    return __real_munmap(at, size);
}

int __wrap_madvise(void *at, size_t size, int advice) {
    if (advice == MARK_ADVICE) {
        __atomic_add_fetch(&mappings.mark_calls, 1, __ATOMIC_RELAXED);
        if (mappings.marks == MARKS_IGNORED) return 0;
        if (mappings.marks == MARKS_UNKNOWN) {
            errno = EINVAL;
            return -1;
        }
    }
    return mappings_fails() ? -1 : __real_madvise(at, size, advice);
}

int __wrap_mprotect(void *at, size_t size, int protection) {
    __atomic_add_fetch(&mappings.protect_calls, 1, __ATOMIC_RELAXED);
    if (mappings.refuse_protect) {
        errno = ENOMEM;
        return -1;
    }
    return mappings_fails() ? -1 : __real_mprotect(at, size, protection);
}

/* ---- What the kernel reports ----------------------------------------------------------------- */

/* Whether the address cannot be read: a guard, or not mapped. */
static inline bool is_out_of_bounds(const void *at) {
    enum { POPULATE_READ = 22 };
    int saved = errno;
    if (test_under_valgrind()) { /* valgrind would read the path of access() itself, and crash */
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        return __real_madvise((void *)((uintptr_t)at & ~(page - 1)), page, POPULATE_READ) < 0;
    }
    bool out = access(at, F_OK) < 0 && errno == EFAULT;
    errno = saved;
    return out;
}

/* Whether guard marks work on this kernel. */
static inline bool marks_work(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = __real_mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    bool work = __real_madvise(p, page, MARK_ADVICE) == 0 && is_out_of_bounds(p);
    __real_munmap(p, page);
    return work;
}

/* The number of pages of a range in memory; -1 if part of it is not mapped. */
static inline long pages_in_memory(const char *low, const char *high) {
    enum { MAX_PAGES = 1024 };
    static unsigned char present[MAX_PAGES];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (size_t)(high - low) / page;
    long count = 0;
    CHECK_LE(n, MAX_PAGES);
    if (mincore((void *)(uintptr_t)low, n * page, present) < 0) return -1;
    for (size_t i = 0; i < n; i++)
        count += present[i] & 1;
    return count;
}

/* The number of mappings of the process. */
static inline long mapping_count(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    long lines = 0;
    CHECK(maps != NULL);
    for (int c; (c = fgetc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

#endif
