/* SPDX-License-Identifier: MIT
 *
 * A table of things that know their place in it: put in and taken out in no time, and found by walking. It grows by rows:
 * doubled, half of it would be empty, and be copied. Under whoever's lock.
 *
 * A slot begins with the address of what is there, or, odd, with the next free one; the rest of it is the user's, is zero at
 * first, and stays as it is when the slot is used again. */
#ifndef AW_DRIVER_SLOTS_H
#define AW_DRIVER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include <awake/alloc.h>

enum { AW__SLOTS_ROW = 64 };

typedef struct aw__slots {
    char **rows;
    uint32_t room; /* for so many rows */
    uint32_t size; /* of a slot */
    uint32_t count;
    uint32_t free; /* counted from 1 */
} aw__slots;

static inline void *aw__slot(const aw__slots *s, uint32_t index) {
    return s->rows[index / AW__SLOTS_ROW] + (index % AW__SLOTS_ROW) * (size_t)s->size;
}

bool aw__slots_grow(aw__slots *s, const aw_allocator *a);
void aw__slots_free(aw__slots *s, const aw_allocator *a);

/* False: there is no memory. */
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

/* What is there, or NULL. */
static inline void *aw__slots_at(const aw__slots *s, uint32_t index) {
    const uintptr_t *slot = aw__slot(s, index);
    return *slot & 1 ? NULL : (void *)*slot;
}

#endif
