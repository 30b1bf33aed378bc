/* SPDX-License-Identifier: MIT
 *
 * Using a fiber's stack to a given depth. By calls, and seen by the address of their frames: the
 * locals of watched code may live elsewhere. */
#ifndef AWAKE_TEST_DIG_H
#define AWAKE_TEST_DIG_H

#include "fiber/fiber.h"

static void __attribute__((noinline, unused)) dig_to(const char *until) {
    volatile char frame[64];
    frame[0] = 1;
    if ((const char *)__builtin_frame_address(0) > until) dig_to(until);
    (void)frame[0]; /* not a tail call */
}

/* At least so many bytes of the stack of the fiber that calls. */
static inline void dig(size_t bytes) {
    dig_to(aw__fiber_here->stack->high - bytes);
}

#endif
