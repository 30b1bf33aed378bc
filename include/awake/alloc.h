/* SPDX-License-Identifier: MIT
 *
 * awake/alloc.h: where memory comes from. A runtime has an allocator of its own; the process has a
 * default for what happens outside one. No memory is -ENOMEM, never an abort. */
#ifndef AWAKE_ALLOC_H
#define AWAKE_ALLOC_H

#include <awake/config.h>

AW_C_BEGIN

/* `alloc` returns 16-byte aligned memory or NULL; `release` gets the size that was asked for. Both
 * are called from any thread. */
typedef struct aw_allocator {
    void *(*alloc)(void *data, size_t size);
    void (*release)(void *data, void *memory, size_t size);
    void *data;
} aw_allocator;

/* The default for runtimes made from now on and for what belongs to none; NULL gives back malloc.
 * Set it before the first use; the allocator must outlive everything that was taken from it. */
AW_API void aw_set_allocator(const aw_allocator *allocator);
AW_API const aw_allocator *aw_get_allocator(void);

AW_C_END

#endif
