/* SPDX-License-Identifier: MIT */
#include "os/map.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"

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
    /* NORESERVE: most of the range is never touched, so it must not count as committed memory. */
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return NULL;
#ifdef MADV_NOHUGEPAGE
    /* With huge pages, the first access to a stack would allocate 2 MiB. */
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

/* Emulators accept any advice and ignore it. A real guard makes MADV_POPULATE_READ fail. */
static bool is_guarded(void *memory) {
    return madvise(memory, aw__page_size(), MADV_POPULATE_READ) < 0 && errno == EFAULT;
}

bool aw__map_guard(void *memory, size_t size) {
    static int has_guard_markers = -1; /* atomic; -1: not known yet */
    int known = aw__load_relaxed(&has_guard_markers);
    if (known && madvise(memory, size, MADV_GUARD_INSTALL) == 0) {
        if (known < 0) {
            known = is_guarded(memory);
            aw__store_relaxed(&has_guard_markers, known);
        }
        if (known) return true;
    }
    return mprotect(memory, size, PROT_NONE) == 0;
}
