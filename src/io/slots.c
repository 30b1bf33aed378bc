/* SPDX-License-Identifier: MIT */
#include "io/slots.h"

#include <string.h>

#include "base/allocate.h"

static bool add_rows(aw__slots *s, const aw_allocator *a) {
    uint32_t capacity = s->capacity ? 2 * s->capacity : 4;
    char **rows = aw__alloc(a, capacity * sizeof *rows);
    if (!rows) return false;
    if (s->rows) {
        memcpy(rows, s->rows, s->capacity * sizeof *rows);
        aw__free(a, s->rows, s->capacity * sizeof *rows);
    }
    s->rows = rows;
    s->capacity = capacity;
    return true;
}

bool aw__slots_grow(aw__slots *s, const aw_allocator *a) {
    uint32_t row = s->count / AW__SLOTS_ROW, size = AW__SLOTS_ROW * s->size;
    if (row == s->capacity && !add_rows(s, a)) return false;
    s->rows[row] = aw__alloc(a, size);
    if (!s->rows[row]) return false;
    memset(s->rows[row], 0, size);
    for (uint32_t i = AW__SLOTS_ROW; i-- > 0;)
        aw__slots_take(s, s->count + i); /* the lowest index is used first */
    s->count += AW__SLOTS_ROW;
    return true;
}

void aw__slots_free(aw__slots *s, const aw_allocator *a) {
    for (uint32_t row = 0; row < s->count / AW__SLOTS_ROW; row++)
        aw__free(a, s->rows[row], AW__SLOTS_ROW * s->size);
    if (s->rows) aw__free(a, s->rows, s->capacity * sizeof *s->rows);
    *s = (aw__slots){.size = s->size};
}
