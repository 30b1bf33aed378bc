/* SPDX-License-Identifier: MIT
 *
 * Pauses between attempts that grow up to a limit. */
#ifndef AW_BASE_BACKOFF_H
#define AW_BASE_BACKOFF_H

#include <stdint.h>

/* The pause before the next attempt, where the kernel does not report when to retry. `pause` is the
 * last one, or 0. */
static inline uint64_t aw__backoff_next(uint64_t pause, uint64_t min, uint64_t max) {
    uint64_t next = pause ? pause * 2 : min;
    return next < max ? next : max;
}

#endif
