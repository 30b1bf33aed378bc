/* SPDX-License-Identifier: MIT
 *
 * awake/detail/waiter.h: private. The head of each future that waits in a queue. It is its own
 * queue node, so that a wait allocates nothing. */
#ifndef AWAKE_DETAIL_WAITER_H
#define AWAKE_DETAIL_WAITER_H

#include <awake/future.h>

AW_C_BEGIN

/* The object that the future waits for follows this head. */
#define AW__WAITER                                                                                 \
    aw_future future;                                                                              \
    int out;                                                                                       \
    uint32_t wants; /* how much or what; depends on the type */                                    \
    struct aw__waiter *prev, *next;                                                                \
    aw_waker waker /* borrowed while it waits */

#define AW__WAITER_INIT(type, wants)                                                               \
    AW_FUTURE_INIT(type), 0, (wants), NULL, NULL, {                                                \
        NULL, NULL                                                                                 \
    }

typedef struct __attribute__((may_alias)) aw__waiter {
    AW__WAITER;
} aw__waiter;

typedef struct aw__waiters {
    aw__waiter *first, *last;
} aw__waiters;

AW_C_END

#endif
