/* SPDX-License-Identifier: MIT
 *
 * awake/semaphore.h: so many permits, and who wants some waits in line.
 *
 *     static aw_semaphore slots = AW_SEMAPHORE_INIT(10);
 *     AW_AWAIT(self->slot, aw_semaphore_acquire(&slots, 1));    `out` is 0, or -EPIPE: it was closed
 *     ...
 *     aw_semaphore_release(&slots, 1);                          any thread
 *
 * First polled, first served, also when the first one wants many: nobody overtakes it. Tasks of any runtime,
 * fibers and plain threads (aw_wait) may use the same one. Discarding an acquire that had finished gives the
 * permits back. */
#ifndef AWAKE_SEMAPHORE_H
#define AWAKE_SEMAPHORE_H

#include <awake/wait.h>

AW_C_BEGIN

#define AW_SEMAPHORE_MAX 0x3fffffffu /* permits at a time */

/* Must outlive its waiters and each call; nothing to free. */
typedef struct aw_semaphore {
    uint32_t state; /* atomic: the permits, and two bits: semaphore.c */
    uint32_t lock;
    aw__waiters waiters;
} aw_semaphore;

#define AW_SEMAPHORE_INIT(permits)                                                                 \
    {                                                                                              \
        (uint32_t)(permits) << 2, 0, {                                                             \
            NULL, NULL                                                                             \
        }                                                                                          \
    }
static inline aw_semaphore aw_semaphore_of(uint32_t permits) {
    aw_semaphore s = AW_SEMAPHORE_INIT(permits);
    return s;
}

/* Without waiting: 0; -EAGAIN: not so many are there, or others wait; -EPIPE: closed. */
AW_API int aw_semaphore_try_acquire(aw_semaphore *s, uint32_t permits);
/* Give back, or add: 0, or -EOVERFLOW beyond AW_SEMAPHORE_MAX, and nothing is changed. */
AW_API int aw_semaphore_release(aw_semaphore *s, uint32_t permits);
/* From now on every acquire, also one that waits, ends with -EPIPE. Permits that are out are given back as ever. */
AW_API void aw_semaphore_close(aw_semaphore *s);
AW_API bool aw_semaphore_is_closed(const aw_semaphore *s);
/* How many are there at this moment. */
AW_API uint32_t aw_semaphore_available(const aw_semaphore *s);

/* aw-future: aw_acquire */
typedef struct aw_acquire {
    AW__WAITER;
    aw_semaphore *semaphore;
} aw_acquire;

AW_API extern const aw_future_type aw_acquire_type;

/* `out` is 0: they are the caller's; -EPIPE: it was closed; -EINVAL: more than there can be. */
static inline aw_acquire aw_semaphore_acquire(aw_semaphore *s, uint32_t permits) {
    aw_acquire f = {AW__WAITER_INIT(&aw_acquire_type, permits), s};
    return f;
}

AW_C_END

#endif
