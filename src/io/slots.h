/* SPDX-License-Identifier: MIT
 *
 * A table of pointers with stable indices: insert and remove in constant time, walked by index. It
 * grows by rows: doubling would copy it and leave half of it empty. The caller's lock guards it.
 *
 * A slot begins with the stored pointer or, if free, with an odd word that links to the next free
 * slot. The rest of a slot belongs to the user: zero at first, and kept when the slot is reused. */
#ifndef AW_IO_SLOTS_H
#define AW_IO_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include <awake/alloc.h>

enum { AW__SLOTS_ROW = 64 };

typedef struct aw__slots {
    char **rows;
    uint32_t capacity; /* of the array of rows */
    uint32_t size;     /* of a slot in bytes */
    uint32_t count;
    uint32_t free; /* the first free slot, counted from 1; 0: none */
} aw__slots;

static inline void *aw__slot(const aw__slots *s, uint32_t index) {
    return s->rows[index / AW__SLOTS_ROW] + (index % AW__SLOTS_ROW) * (size_t)s->size;
}

bool aw__slots_grow(aw__slots *s, const aw_allocator *a);
void aw__slots_free(aw__slots *s, const aw_allocator *a);

/* False: out of memory. */
static inline bool aw__slots_put(aw__slots *s, const aw_allocator *a, void *p, uint32_t *index) {
    if (!s->free && !aw__slots_grow(s, a)) return false;
    *index = s->free - 1;
    uintptr_t *slot = aw__slot(s, *index);
    s->free = (uint32_t)(*slot >> 1);
    *slot = (uintptr_t)p;
    return true;
}

static inline void aw__slots_take(aw__slots *s, uint32_t index) {
    uintptr_t *slot = aw__slot(s, index);
    *slot = (uintptr_t)s->free << 1 | 1;
    s->free = index + 1;
}

/* The stored pointer, or NULL if the slot is free. */
static inline void *aw__slots_at(const aw__slots *s, uint32_t index) {
    const uintptr_t *slot = aw__slot(s, index);
    return *slot & 1 ? NULL : (void *)*slot;
}

#endif
