/* SPDX-License-Identifier: MIT */
#include "os/map.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/atomic.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

size_t aw__page_size(void) {
    static size_t size;
    size_t known = aw__load_relaxed(&size);
    if (!known) {
        known = (size_t)sysconf(_SC_PAGESIZE);
        aw__store_relaxed(&size, known);
    }
    return known;
}

void *aw__map(size_t size) {
    /* NORESERVE: most of it will never be touched, so it shall not count as used. */
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return NULL;
#ifdef MADV_NOHUGEPAGE
    /* The first touch of a stack would otherwise make two megabytes of it real. */
    madvise(memory, size, MADV_NOHUGEPAGE);
#endif
    return memory;
}

void aw__unmap(void *memory, size_t size) {
    munmap(memory, size);
}

void aw__map_clear(void *memory, size_t size) {
    madvise(memory, size, MADV_DONTNEED);
}

/* Emulators accept any advice and do nothing. The kernel, asked to make a page real, refuses. */
static bool is_guarded(void *memory) {
    return madvise(memory, aw__page_size(), MADV_POPULATE_READ) < 0 && errno == EFAULT;
}

bool aw__map_guard(void *memory, size_t size) {
    static int marks = -1; /* atomic: whether marks work here, once that is known */
    int known = aw__load_relaxed(&marks);
    if (known && madvise(memory, size, MADV_GUARD_INSTALL) == 0) {
        if (known < 0) {
            known = is_guarded(memory);
            aw__store_relaxed(&marks, known);
        }
        if (known) return true;
    }
    return mprotect(memory, size, PROT_NONE) == 0;
}
