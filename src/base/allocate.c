/* SPDX-License-Identifier: MIT
 *
 * The default allocator of the process: malloc, unless the program sets its own. */
#include <awake/alloc.h>

#include <stdlib.h>

#include "base/allocate.h"

static void *heap_alloc(void *data, size_t size) {
    (void)data;
    return malloc(size);
}

static void heap_free(void *data, void *memory, size_t size) {
    (void)data;
    (void)size;
    free(memory);
}

const aw_allocator aw__heap = {heap_alloc, heap_free, NULL};
static const aw_allocator *default_allocator = &aw__heap;

void aw_set_allocator(const aw_allocator *allocator) {
    default_allocator = allocator ? allocator : &aw__heap;
}

const aw_allocator *aw_get_allocator(void) {
    return default_allocator;
}
