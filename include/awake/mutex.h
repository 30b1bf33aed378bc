/* SPDX-License-Identifier: MIT
 *
 * awake/mutex.h: a mutex that you may hold across awaits.
 *
 *     AW_AWAIT(self->lock, aw_mutex_lock(&m));     `out` is 0
 *     ...                                          may await
 *     aw_mutex_unlock(&m);                         by the holder, on any thread
 *
 * First polled, first served: an unlock hands the mutex to the oldest waiter. Tasks of any runtime,
 * fibers and plain threads (aw_wait) may use the same mutex. If you discard a finished lock, it is
 * unlocked. A holder that is cancelled must unlock in its cleanup: in AW_FINALLY, or after
 * -ECANCELED in a fiber.
 *
 * The mutex records its holder and the location of the lock: see aw_mutex_holder. A task that waits
 * only for a mutex that it holds itself is reported as lost. (Two branches of a join may share a
 * mutex.)
 *
 * A library built with AWAKE_LOCK_ORDER (as Debug builds are) reports mutexes that are locked in
 * different orders, even if no deadlock happens: once for each pair, with both locations. A
 * try_lock may come in any order. A mutex that is initialised again counts as a new one. False
 * reports are possible. All branches of a join are one task, so what one branch holds while another
 * locks counts as an order. And orders are reported even if they never occur at the same time. */
#ifndef AWAKE_MUTEX_H
#define AWAKE_MUTEX_H

#include <awake/detail/waiter.h>
#include <awake/task.h>
#include <awake/wait.h>

AW_C_BEGIN

/* All zero is ready for use (AW_MUTEX_INIT). Must outlive its waiters and each call; nothing to
 * free. Its members are private. */
typedef struct aw_mutex {
    uint32_t word; /* atomic: mutex.c */
    uint32_t lock;
    aw__waiters waiters;
    const aw_location *location; /* of the current lock */
    uint64_t holder;             /* task id; 0: a main future or a plain thread */
    const aw_runtime *runtime;
    uint32_t number; /* for the lock order check */
} aw_mutex;

/* clang-format off */
#define AW_MUTEX_INIT {0, 0, {NULL, NULL}, NULL, 0, NULL, 0}
/* clang-format on */

/* aw-future: aw_mutex_lock */
typedef struct aw_mutex_lock_future {
    AW__WAITER;
    aw_mutex *mutex;
    const aw_location *location;
} aw_mutex_lock_future;

AW_API extern const aw_future_type aw_mutex_lock_type;

/* Lock. `out` is 0. */
#define aw_mutex_lock(m) aw__mutex_lock((m), AW__LOCATION)
static inline aw_mutex_lock_future aw__mutex_lock(aw_mutex *m, const aw_location *location) {
    aw_mutex_lock_future f = {AW__WAITER_INIT(&aw_mutex_lock_type, 0), m, location};
    return f;
}

/* Lock without waiting: 0 or -EAGAIN. */
#define aw_mutex_try_lock(m) aw__mutex_try_lock((m), AW__LOCATION)
AW_API int aw__mutex_try_lock(aw_mutex *m, const aw_location *location);

/* Unlocking a mutex that is not locked aborts with a message. */
AW_API void aw_mutex_unlock(aw_mutex *m);

/* Whether it is locked at this moment; where it was locked (NULL: it is not), and by which task.
 * For messages: the answer may be out of date. */
AW_API bool aw_mutex_is_locked(const aw_mutex *m);
AW_API const aw_location *aw_mutex_holder(const aw_mutex *m, uint64_t *task);

AW_C_END

#endif
