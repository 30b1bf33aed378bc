/* SPDX-License-Identifier: MIT
 *
 * Internal side of awake/alloc.h. */
#ifndef AW_CORE_ALLOC_H
#define AW_CORE_ALLOC_H

#include <awake/alloc.h>
#include <awake/future.h>

/* malloc and free. */
extern const aw_allocator aw__heap;

static inline void *aw__alloc(const aw_allocator *a, size_t size) {
    return a->alloc(a->data, size);
}
static inline void aw__release(const aw_allocator *a, void *memory, size_t size) {
    a->release(a->data, memory, size);
}

/* The allocator of the runtime, or of the current or entered one, or the process's. */
const aw_allocator *aw__allocator_for(const aw_runtime *rt);

#endif
