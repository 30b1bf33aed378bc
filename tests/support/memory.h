/* SPDX-License-Identifier: MIT
 *
 * An allocator that counts, and that fails on request. All threads. */
#ifndef AWAKE_TEST_MEMORY_H
#define AWAKE_TEST_MEMORY_H

#include <awake/alloc.h>

#include <stdlib.h>
#include <string.h>

#include "test.h"

struct memory {
    aw_allocator allocator;
    long calls;  /* attempted allocations */
    long blocks; /* allocated and not freed */
    long bytes;
    long fail_at;  /* the call with this number fails; 0: none */
    bool fail_on;  /* and all later calls */
    long failures; /* how many failed */
};

enum { MEMORY_HEAD = 16 };

static inline void *memory_alloc(void *data, size_t size) {
    struct memory *m = data;
    long call = __atomic_add_fetch(&m->calls, 1, __ATOMIC_RELAXED);
    long fail_at = __atomic_load_n(&m->fail_at, __ATOMIC_RELAXED);
    if (fail_at && (call == fail_at || (m->fail_on && call > fail_at))) {
        __atomic_add_fetch(&m->failures, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    char *p = malloc(MEMORY_HEAD + size);
    CHECK(p != NULL);
    memcpy(p, &size, sizeof size);
    memset(p + MEMORY_HEAD, 0xa5, size); /* new memory is not zeroed */
    __atomic_add_fetch(&m->blocks, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&m->bytes, (long)size, __ATOMIC_RELAXED);
    return p + MEMORY_HEAD;
}

static inline void memory_release(void *data, void *p, size_t size) {
    struct memory *m = data;
    char *block = (char *)p - MEMORY_HEAD;
    size_t asked;
    memcpy(&asked, block, sizeof asked);
    CHECK_EQ(asked, size);
    memset(p, 0x5a, size);
    __atomic_sub_fetch(&m->blocks, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&m->bytes, (long)size, __ATOMIC_RELAXED);
    free(block);
}

static inline void memory_init(struct memory *m) {
    *m = (struct memory){.allocator = {memory_alloc, memory_release, m}};
}

/* From now on allocations fail. */
static inline void memory_refuse(struct memory *m) {
    m->fail_at = m->calls + 1;
    m->fail_on = true;
}

static inline void memory_check_empty(const struct memory *m) {
    CHECK_EQ(m->blocks, 0);
    CHECK_EQ(m->bytes, 0);
}

#endif
