/* SPDX-License-Identifier: MIT
 *
 * Uses a fiber's stack to a given depth. By calls, and measured by frame addresses: the locals
 * of instrumented code may live elsewhere. */
#ifndef AWAKE_TEST_USE_STACK_H
#define AWAKE_TEST_USE_STACK_H

#include "fiber/fiber_state.h"

static void __attribute__((noinline, unused)) use_stack_to(const char *until) {
    volatile char frame[64];
    frame[0] = 1;
    if ((const char *)__builtin_frame_address(0) > until) use_stack_to(until);
    (void)frame[0]; /* prevents a tail call */
}

/* Uses at least `bytes` of the stack of the calling fiber. */
static inline void use_stack(size_t bytes) {
    use_stack_to(aw__fiber_current->stack->high - bytes);
}

#endif
