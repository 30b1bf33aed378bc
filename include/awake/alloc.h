/* SPDX-License-Identifier: MIT
 *
 * awake/alloc.h: your own allocator. Each runtime has one; the process has a default for everything
 * outside a runtime. If memory runs out you get -ENOMEM, never an abort.
 *
 *     static const aw_allocator mine = {my_alloc, my_free, &pool};
 *     aw_set_allocator(&mine);                     for the process
 *     options.allocator = &mine;                   for a runtime */
#ifndef AWAKE_ALLOC_H
#define AWAKE_ALLOC_H

#include <awake/config.h>

AW_C_BEGIN

/* `alloc` returns 16-byte aligned memory or NULL. `free` gets the size that was requested. Any
 * thread may call both. */
typedef struct aw_allocator {
    void *(*alloc)(void *data, size_t size);
    void (*free)(void *data, void *memory, size_t size);
    void *data;
} aw_allocator;

/* Set the default for new runtimes and for what belongs to none; NULL restores malloc. Set it
 * before the first use. The allocator must outlive all memory allocated from it. */
AW_API void aw_set_allocator(const aw_allocator *allocator);
AW_API const aw_allocator *aw_get_allocator(void);

AW_C_END

#endif
