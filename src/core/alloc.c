/* SPDX-License-Identifier: MIT
 *
 * The process's default allocator: malloc, unless the program brings its own. */
#include <awake/alloc.h>

#include <stdlib.h>

#include "core/alloc.h"

static void *heap_alloc(void *data, size_t size) {
    (void)data;
    return malloc(size);
}

static void heap_release(void *data, void *memory, size_t size) {
    (void)data;
    (void)size;
    free(memory);
}

const aw_allocator aw__heap = {heap_alloc, heap_release, NULL};
static const aw_allocator *current = &aw__heap;

void aw_set_allocator(const aw_allocator *allocator) {
    current = allocator ? allocator : &aw__heap;
}

const aw_allocator *aw_get_allocator(void) {
    return current;
}
