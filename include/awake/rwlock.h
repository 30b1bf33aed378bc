/* SPDX-License-Identifier: MIT
 *
 * awake/rwlock.h: many readers or one writer. You may hold it across awaits.
 *
 *     AW_AWAIT(self->lock, aw_rwlock_read(&l));      `out` is 0
 *     ...                                            may await
 *     aw_rwlock_read_unlock(&l);                     by the holder, on any thread
 *
 * First polled, first served. A waiting writer keeps later readers out, so that it does not starve:
 * never take a second read lock while you hold one. Tasks of any runtime, fibers and plain threads
 * (aw_wait) may use the same lock. If you discard a finished lock, it is unlocked. */
#ifndef AWAKE_RWLOCK_H
#define AWAKE_RWLOCK_H

#include <awake/semaphore.h>

AW_C_BEGIN

/* A reader holds one permit, a writer all. */
#define AW_RWLOCK_READERS AW_SEMAPHORE_MAX

/* Initialise with AW_RWLOCK_INIT. Must outlive its waiters and each call; nothing to free. Its
 * members are private. */
typedef struct aw_rwlock {
    aw_semaphore permits;
} aw_rwlock;

/* clang-format off */
#define AW_RWLOCK_INIT {AW_SEMAPHORE_INIT(AW_RWLOCK_READERS)}
/* clang-format on */

/* aw-future: aw_rwlock_read */
/* aw-future: aw_rwlock_write */
typedef aw_acquire aw_rwlock_future;

AW_API extern const aw_future_type aw_rwlock_read_type;
AW_API extern const aw_future_type aw_rwlock_write_type;

/* Lock. `out` is 0. */
static inline aw_rwlock_future aw_rwlock_read(aw_rwlock *l) {
    aw_rwlock_future f = {AW__WAITER_INIT(&aw_rwlock_read_type, 1), &l->permits};
    return f;
}
static inline aw_rwlock_future aw_rwlock_write(aw_rwlock *l) {
    aw_rwlock_future f = {AW__WAITER_INIT(&aw_rwlock_write_type, AW_RWLOCK_READERS), &l->permits};
    return f;
}

/* Lock without waiting: 0, or -EAGAIN, also if there are waiters. */
AW_API int aw_rwlock_try_read(aw_rwlock *l);
AW_API int aw_rwlock_try_write(aw_rwlock *l);

/* Unlocking a lock that is not locked, or not in this mode, aborts with a message. */
AW_API void aw_rwlock_read_unlock(aw_rwlock *l);
AW_API void aw_rwlock_write_unlock(aw_rwlock *l);
/* Turn a write lock into a read lock. No other writer gets the lock in between. */
AW_API void aw_rwlock_downgrade(aw_rwlock *l);

/* Number of readers at this moment; -1: a writer. */
AW_API int32_t aw_rwlock_readers(const aw_rwlock *l);

AW_C_END

#endif
