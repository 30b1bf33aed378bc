/* SPDX-License-Identifier: MIT
 *
 * awake/semaphore.h: a number of permits, acquired in order.
 *
 *     static aw_semaphore slots = AW_SEMAPHORE_INIT(10);
 *     AW_AWAIT(self->slot, aw_semaphore_acquire(&slots, 1));    `out` is 0, or -EPIPE: closed
 *     ...
 *     aw_semaphore_release(&slots, 1);                          any thread
 *
 * First polled, first served: no acquire overtakes a waiting one, even one that wants many permits.
 * Tasks of any runtime, fibers and plain threads (aw_wait) may use the same semaphore. If you
 * discard a finished acquire, its permits are released. */
#ifndef AWAKE_SEMAPHORE_H
#define AWAKE_SEMAPHORE_H

#include <awake/detail/semaphore.h>
#include <awake/detail/waiter.h>
#include <awake/wait.h>

AW_C_BEGIN

#define AW_SEMAPHORE_MAX 0x3fffffffu /* limit of permits */

/* Must outlive its waiters and each call; nothing to free. Its members are private. */
typedef struct aw_semaphore {
    uint32_t state; /* atomic: permits and two bits, see semaphore.c */
    uint32_t lock;
    aw__waiters waiters;
} aw_semaphore;

/* For a constant number of permits. More than AW_SEMAPHORE_MAX does not compile. */
#define AW_SEMAPHORE_INIT(permits)                                                                 \
    {                                                                                              \
        AW__SEMAPHORE_STATE(permits), 0, {                                                         \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

/* For any number of permits. A negative number, or more than AW_SEMAPHORE_MAX, aborts with a
 * message. */
#define aw_semaphore_of(permits) aw__semaphore_of((uint64_t)(permits), __FILE__, __LINE__)
AW_API aw_semaphore aw__semaphore_of(uint64_t permits, const char *file, int line);

/* Acquire without waiting: 0; -EAGAIN: not enough permits, or there are waiters; -EPIPE: closed;
 * -EINVAL: more than AW_SEMAPHORE_MAX. */
AW_API int aw_semaphore_try_acquire(aw_semaphore *s, uint32_t permits);
/* Return or add permits: 0; -EOVERFLOW: more than AW_SEMAPHORE_MAX, and nothing is changed. */
AW_API int aw_semaphore_release(aw_semaphore *s, uint32_t permits);
/* From now on every acquire ends with -EPIPE, also those that wait. Permits can still be
 * released. */
AW_API void aw_semaphore_close(aw_semaphore *s);
AW_API bool aw_semaphore_is_closed(const aw_semaphore *s);
/* Permits available at this moment. */
AW_API uint32_t aw_semaphore_available(const aw_semaphore *s);

/* aw-future: aw_acquire */
typedef struct aw_acquire {
    AW__WAITER;
    aw_semaphore *semaphore;
} aw_acquire;

AW_API extern const aw_future_type aw_acquire_type;

/* `out` is 0: you hold the permits; -EPIPE: closed; -EINVAL: more than AW_SEMAPHORE_MAX. */
static inline aw_acquire aw_semaphore_acquire(aw_semaphore *s, uint32_t permits) {
    aw_acquire f = {AW__WAITER_INIT(&aw_acquire_type, permits), s};
    return f;
}

AW_C_END

#endif
