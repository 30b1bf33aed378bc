/* SPDX-License-Identifier: MIT
 *
 * awake/barrier.h: a number of waiters continue only when all have arrived.
 *
 *     static aw_barrier start = AW_BARRIER_INIT(4);
 *     AW_AWAIT(self->wait, aw_barrier_wait(&start));     `out` is 1 for one of them, 0 for the rest
 *
 * The last to arrive is the leader, and does not wait. Then the barrier can be used again. A wait
 * that is cancelled does not count as an arrival. Tasks of any runtime, fibers and plain threads
 * (aw_wait) may use the same barrier. */
#ifndef AWAKE_BARRIER_H
#define AWAKE_BARRIER_H

#include <awake/detail/waiter.h>
#include <awake/wait.h>

AW_C_BEGIN

/* Must outlive its waiters; nothing to free. With a count of 0 or 1 no wait blocks. Its members are
 * private. */
typedef struct aw_barrier {
    uint32_t lock;
    uint32_t count, arrived; /* arrivals needed, and arrivals so far */
    uint32_t generation;     /* how often all have arrived; wraps around */
    aw__waiters waiters;
} aw_barrier;

/* clang-format off */
#define AW_BARRIER_INIT(count) {0, (count), 0, 0, {NULL, NULL}}
/* clang-format on */
static inline aw_barrier aw_barrier_of(uint32_t count) {
    aw_barrier b = AW_BARRIER_INIT(count);
    return b;
}

/* aw-future: aw_barrier_wait */
typedef struct aw_barrier_wait_future {
    AW__WAITER;
    aw_barrier *barrier;
} aw_barrier_wait_future;

AW_API extern const aw_future_type aw_barrier_wait_type;

/* `out` is 1 for the leader, 0 for the rest. */
static inline aw_barrier_wait_future aw_barrier_wait(aw_barrier *b) {
    aw_barrier_wait_future f = {AW__WAITER_INIT(&aw_barrier_wait_type, 0), b};
    return f;
}

/* Without waiting: 1: you are the last to arrive, and lead; -EAGAIN: more are missing, and this
 * does not count as an arrival. */
AW_API int aw_barrier_try_wait(aw_barrier *b);

AW_C_END

#endif
