/* SPDX-License-Identifier: MIT
 *
 * awake/detail/timeout.h: private. The layout of timeouts, and the macro that makes them. */
#ifndef AWAKE_DETAIL_TIMEOUT_H
#define AWAKE_DETAIL_TIMEOUT_H

#include <awake/time.h>

AW_C_BEGIN

/* The head of all timeouts. */
struct __attribute__((may_alias)) aw__timeout {
    aw_future future;
    int out;
    uint32_t inner_at;
    aw_sleep timer;
};

#define AW__TIMEOUT_OF(T, sleep, ...)                                                              \
    ((T){.future = AW_FUTURE_INIT(&aw_timeout_type),                                               \
         .out = 0, /* all members: gcc clears a partial struct with a slow instruction */          \
         .inner_at = offsetof(T, inner),                                                           \
         .timer = sleep,                                                                           \
         .inner = __VA_ARGS__})

AW_C_END

#endif
