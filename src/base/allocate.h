/* SPDX-License-Identifier: MIT
 *
 * Internal side of awake/alloc.h. */
#ifndef AW_BASE_ALLOCATE_H
#define AW_BASE_ALLOCATE_H

#include <awake/alloc.h>
#include <awake/future.h>

/* malloc and free. */
extern const aw_allocator aw__heap;

static inline void *aw__alloc(const aw_allocator *a, size_t size) {
    return a->alloc(a->data, size);
}
static inline void aw__free(const aw_allocator *a, void *memory, size_t size) {
    a->free(a->data, memory, size);
}

#endif
