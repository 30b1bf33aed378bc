/* SPDX-License-Identifier: MIT
 *
 * A number of places, taken and given back by any thread. Without a limit nothing is counted. What was done
 * before a place was given back is visible to who takes it. */
#ifndef AW_CORE_LIMIT_H
#define AW_CORE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/atomic.h"

typedef struct aw__limit {
    uint32_t max;   /* 0: no limit */
    uint32_t taken; /* atomic */
} aw__limit;

/* False: there is none. Never more than `max` are taken, and none is refused while one is free: so it is not
 * counted up first and down again. */
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
