/* SPDX-License-Identifier: MIT
 *
 * Arithmetic with times and durations in nanoseconds. */
#ifndef AW_TIME_TIMER_MATH_H
#define AW_TIME_TIMER_MATH_H

#include <stdint.h>

/* Saturates at UINT64_MAX, which is AW_FOREVER. */
static inline uint64_t aw__time_add(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
