/* SPDX-License-Identifier: MIT
 *
 * awake/rwlock.h: many readers or one writer, also across awaits.
 *
 *     AW_AWAIT(self->lock, aw_rwlock_read(&l));      `out` is 0
 *     ...                                            may await
 *     aw_rwlock_read_unlock(&l);                     whoever holds it, on any thread
 *
 * First polled, first served: a writer that waits keeps later readers out, so it does not starve; do not ask for a
 * second read lock while holding one. Tasks of any runtime, fibers and plain threads (aw_wait) may use the same one.
 * Discarding a lock that had finished unlocks. */
#ifndef AWAKE_RWLOCK_H
#define AWAKE_RWLOCK_H

#include <awake/semaphore.h>

AW_C_BEGIN

/* A reader has one permit, a writer all of them. */
#define AW_RWLOCK_READERS AW_SEMAPHORE_MAX

/* Starts with AW_RWLOCK_INIT. Must outlive its waiters and each call; nothing to free. */
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

/* Take it: `out` is 0. */
static inline aw_rwlock_future aw_rwlock_read(aw_rwlock *l) {
    aw_rwlock_future f = {AW__WAITER_INIT(&aw_rwlock_read_type, 1), &l->permits};
    return f;
}
static inline aw_rwlock_future aw_rwlock_write(aw_rwlock *l) {
    aw_rwlock_future f = {AW__WAITER_INIT(&aw_rwlock_write_type, AW_RWLOCK_READERS), &l->permits};
    return f;
}

/* Without waiting: 0, or -EAGAIN, also when others wait. */
AW_API int aw_rwlock_try_read(aw_rwlock *l);
AW_API int aw_rwlock_try_write(aw_rwlock *l);

/* Give it back. Unlocking one that is not locked ends the program with a message. */
AW_API void aw_rwlock_read_unlock(aw_rwlock *l);
AW_API void aw_rwlock_write_unlock(aw_rwlock *l);
/* A writer becomes a reader; no other writer comes in between. */
AW_API void aw_rwlock_downgrade(aw_rwlock *l);

/* How many hold it at this moment: -1: a writer. */
AW_API int32_t aw_rwlock_readers(const aw_rwlock *l);

AW_C_END

#endif
