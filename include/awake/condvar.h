/* SPDX-License-Identifier: MIT
 *
 * awake/condvar.h: wait until something that a mutex guards has changed.
 *
 *     AW_AWAIT(self->lock, aw_mutex_lock(&m));
 *     while (queue_is_empty())
 *         AW_AWAIT(self->wait, aw_condvar_wait(&changed, &m));      `out` is 0
 *     ...
 *     aw_mutex_unlock(&m);
 *
 * The wait unlocks the mutex after it has been queued, so it misses no signal, and locks it again
 * before it ends. You hold the mutex however the wait ends: finished, cancelled, or never polled.
 * So a cancel may take a while: it waits for the lock. Between the signal and the end of the wait
 * other holders may have changed the state: test again, as above.
 *
 * First polled, first signalled. Tasks of any runtime, fibers and plain threads (aw_wait) may wait.
 * Any thread may signal, with or without the mutex. */
#ifndef AWAKE_CONDVAR_H
#define AWAKE_CONDVAR_H

#include <awake/mutex.h>

AW_C_BEGIN

/* All zero is ready for use (AW_CONDVAR_INIT). Must outlive its waiters and each call; nothing to
 * free. Its members are private. */
typedef struct aw_condvar {
    uint32_t lock;
    uint32_t generation; /* number of broadcasts; wraps around */
    aw__waiters waiters;
} aw_condvar;

/* clang-format off */
#define AW_CONDVAR_INIT {0, 0, {NULL, NULL}}
/* clang-format on */

/* Wake the oldest waiter. Without waiters it does nothing. */
AW_API void aw_condvar_signal(aw_condvar *c);
/* Wake all waiters of this moment. */
AW_API void aw_condvar_broadcast(aw_condvar *c);

/* aw-future: aw_condvar_wait */
typedef struct aw_condvar_wait_future {
    AW__WAITER;
    aw_condvar *condvar;
    uint32_t stage; /* condvar.c */
    aw_mutex_lock_future relock;
} aw_condvar_wait_future;

AW_API extern const aw_future_type aw_condvar_wait_type;

/* `out` is 0. If a finished wait is discarded, its signal goes to the next waiter. */
#define aw_condvar_wait(c, m) aw__condvar_wait((c), (m), AW__LOCATION)
static inline aw_condvar_wait_future aw__condvar_wait(aw_condvar *c, aw_mutex *m,
                                                      const aw_location *location) {
    aw_condvar_wait_future f = {AW__WAITER_INIT(&aw_condvar_wait_type, 0), c, 0,
                                aw__mutex_lock(m, location)};
    return f;
}

AW_C_END

#endif
