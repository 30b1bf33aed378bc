/* SPDX-License-Identifier: MIT
 *
 * A limited number of permits, which any thread takes and returns. Without a limit nothing is
 * counted. Writes before a permit is returned are visible to the thread that takes it next. */
#ifndef AW_BASE_LIMIT_H
#define AW_BASE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

typedef struct aw__limit {
    uint32_t max;   /* 0: no limit */
    uint32_t taken; /* atomic */
} aw__limit;

/* False: no permit is free. A compare-and-swap, because an increment that is undone on failure
 * could exceed `max`, and could make another thread fail while a permit is free. */
static inline bool aw__limit_take_one(aw__limit *l) {
    uint32_t n = aw__load_relaxed(&l->taken);
    do
        if (n >= l->max) return false;
    while (!aw__cas(&l->taken, &n, n + 1));
    return true;
}

static inline bool aw__limit_take(aw__limit *l) {
    return __builtin_expect(l->max == 0, 1) || aw__limit_take_one(l);
}

static inline void aw__limit_give(aw__limit *l) {
    if (__builtin_expect(l->max != 0, 0)) aw__fetch_sub(&l->taken, 1u);
}

#endif
