/* SPDX-License-Identifier: MIT
 *
 * awake/wait.h: waiting on a plain thread; and what everything that waits in a queue has in common.
 *
 *     int n = aw_wait(aw_semaphore_acquire(&s, 1));          blocks this thread; no runtime is needed
 *     n = aw_wait_for(AW_SEC(1), aw_channel_recv(&c, &v));   -ETIMEDOUT: it was given up
 *
 * Not inside a task: there the future is awaited. What needs a clock of a runtime (a sleep) uses the
 * entered one. */
#ifndef AWAKE_WAIT_H
#define AWAKE_WAIT_H

#include <awake/async.h>
#include <awake/future.h>

AW_C_BEGIN

/* ---- Plain threads ----------------------------------------------------------------------------
 *
 *     T   aw_wait(future)                      T is a signed integer: its output, or a negative errno
 *     T   aw_wait_for(duration, future)
 *     int aw_wait_into(&out, future)           any output: 0, or a negative errno and `out` is untouched
 *     int aw_wait_into_for(duration, &out, future)
 *
 * Errors: -ETIMEDOUT, when the future was cancelled after so long (if it finishes all the same, its value
 * counts); -ENOMEM; -EPERM inside a task. The time is that of CLOCK_MONOTONIC. */
#define aw_wait(...) aw_wait_for(AW_FOREVER, __VA_ARGS__)
#define aw_wait_for(duration, ...)                                                                 \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__waited = (__VA_ARGS__);                                        \
        AW__ASSERT_ERRNO(aw__waited.out);                                                          \
        int aw__err = aw_wait_future(&aw__waited.future, (duration));                              \
        (__typeof__(aw__waited.out))(aw__err ? aw__err : aw__waited.out);                          \
    })
#define aw_wait_into(result, ...) aw_wait_into_for(AW_FOREVER, result, __VA_ARGS__)
#define aw_wait_into_for(duration, result, ...)                                                    \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__waited = (__VA_ARGS__);                                        \
        int aw__err = aw_wait_future(&aw__waited.future, (duration));                              \
        if (!aw__err) *(result) = aw__waited.out;                                                  \
        aw__err;                                                                                   \
    })
/* The erased form: 0 when the future finished, its output is then in place. */
AW_API int aw_wait_future(aw_future *f, uint64_t duration);

/* ---- Waiting in a queue: private ---------------------------------------------------------------
 * The head of each future that waits in a queue of others: it is its own place there, so a wait
 * allocates nothing. Whom it belongs to follows behind it. */
#define AW__WAITER                                                                                 \
    aw_future future;                                                                              \
    int out;                                                                                       \
    uint32_t wants; /* how much, or what, by its kind */                                           \
    struct aw__waiter *prev, *next;                                                                \
    aw_waker waker /* borrowed, while it waits */

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
