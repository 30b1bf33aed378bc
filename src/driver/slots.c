/* SPDX-License-Identifier: MIT */
#include "driver/slots.h"

#include <string.h>

#include "core/alloc.h"

static bool add_room(aw__slots *s, const aw_allocator *a) {
    uint32_t room = s->room ? 2 * s->room : 4;
    char **rows = aw__alloc(a, room * sizeof *rows);
    if (!rows) return false;
    if (s->rows) {
        memcpy(rows, s->rows, s->room * sizeof *rows);
        aw__release(a, s->rows, s->room * sizeof *rows);
    }
    s->rows = rows;
    s->room = room;
    return true;
}

bool aw__slots_grow(aw__slots *s, const aw_allocator *a) {
    uint32_t row = s->count / AW__SLOTS_ROW, size = AW__SLOTS_ROW * s->size;
    if (row == s->room && !add_room(s, a)) return false;
    s->rows[row] = aw__alloc(a, size);
    if (!s->rows[row]) return false;
    memset(s->rows[row], 0, size);
    for (uint32_t i = AW__SLOTS_ROW; i-- > 0;)
        aw__slots_take(s, s->count + i); /* the first of them is used first */
    s->count += AW__SLOTS_ROW;
    return true;
}

void aw__slots_free(aw__slots *s, const aw_allocator *a) {
    for (uint32_t row = 0; row < s->count / AW__SLOTS_ROW; row++)
        aw__release(a, s->rows[row], AW__SLOTS_ROW * s->size);
    if (s->rows) aw__release(a, s->rows, s->room * sizeof *s->rows);
    *s = (aw__slots){.size = s->size};
}
