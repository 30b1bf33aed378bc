/* SPDX-License-Identifier: MIT
 *
 * A byte buffer that grows. */
#include <awake/bytes.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/allocate.h"
#include "context/context.h"

enum { MIN_CAPACITY = 256 };

int aw_bytes_reserve(aw_bytes *b, size_t more) {
    if (more <= b->capacity - b->size) return 0;
    if (more > SSIZE_MAX - b->size) return -ENOMEM;
    size_t wanted = b->size + more,
           capacity = b->capacity < SSIZE_MAX / 2 ? b->capacity * 2 : SSIZE_MAX;
    if (capacity < wanted) capacity = wanted;
    if (capacity < MIN_CAPACITY) capacity = MIN_CAPACITY;
    const aw_allocator *a = b->allocator ? b->allocator : aw__allocator_for(NULL);
    char *data = aw__alloc(a, capacity);
    if (!data) return -ENOMEM;
    if (b->size) memcpy(data, b->data, b->size);
    if (b->data) aw__free(a, b->data, b->capacity);
    b->data = data;
    b->capacity = capacity;
    b->allocator = a;
    return 0;
}

int aw_bytes_append(aw_bytes *b, const void *data, size_t size) {
    /* `data` may point into the buffer, which may move. */
    size_t offset = (uintptr_t)data - (uintptr_t)b->data;
    bool aliases = offset < b->size;
    int error = aw_bytes_reserve(b, size);
    if (error) return error;
    if (aliases) data = b->data + offset;
    if (size) memcpy(b->data + b->size, data, size);
    b->size += size;
    return 0;
}

void aw_bytes_free(aw_bytes *b) {
    if (b->data) aw__free(b->allocator, b->data, b->capacity);
    *b = (aw_bytes)AW_BYTES_INIT;
}
