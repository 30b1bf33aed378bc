/* SPDX-License-Identifier: MIT
 *
 * awake/barrier.h: nobody goes on before so many have come.
 *
 *     static aw_barrier start = AW_BARRIER_INIT(4);
 *     AW_AWAIT(self->wait, aw_barrier_wait(&start));     `out` is 1 for one of them, 0 for the others
 *
 * The last one to come is the leader and does not wait. Then the barrier is as new. Who is cancelled while it waits has not
 * come. Tasks of any runtime, fibers and plain threads (aw_wait) may meet. */
#ifndef AWAKE_BARRIER_H
#define AWAKE_BARRIER_H

#include <awake/wait.h>

AW_C_BEGIN

/* Must outlive its waiters; nothing to free. With a count of 0 or 1 nobody waits. */
typedef struct aw_barrier {
    uint32_t lock;
    uint32_t count, here; /* how many are wanted, and have come */
    uint32_t generation;  /* how often they were complete; it wraps around */
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

/* `out` is 1 for the leader, 0 for the others. */
static inline aw_barrier_wait_future aw_barrier_wait(aw_barrier *b) {
    aw_barrier_wait_future f = {AW__WAITER_INIT(&aw_barrier_wait_type, 0), b};
    return f;
}

/* Without waiting: 1, for who completes them and leads; -EAGAIN: others are missing, and it has not come. */
AW_API int aw_barrier_try_wait(aw_barrier *b);

AW_C_END

#endif
