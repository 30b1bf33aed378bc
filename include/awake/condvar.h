/* SPDX-License-Identifier: MIT
 *
 * awake/condvar.h: wait until something has changed that a mutex guards.
 *
 *     AW_AWAIT(self->lock, aw_mutex_lock(&m));
 *     while (queue_is_empty())
 *         AW_AWAIT(self->wait, aw_condvar_wait(&changed, &m));      `out` is 0
 *     ...
 *     aw_mutex_unlock(&m);
 *
 * The wait gives the mutex back when it stands in the queue, so no signal is missed in between, and takes it again
 * before it ends. However it ends, the mutex is held as before: finished, cancelled while it waited, or never polled.
 * So it may take a while until a cancelled one is gone: it is polled like a lock. Between the signal and the end
 * others may have had the mutex: look again, as above.
 *
 * First polled, first signalled. Tasks of any runtime, fibers and plain threads (aw_wait) may wait; any thread may
 * signal, with the mutex or without. */
#ifndef AWAKE_CONDVAR_H
#define AWAKE_CONDVAR_H

#include <awake/mutex.h>

AW_C_BEGIN

/* All zero is ready for use (AW_CONDVAR_INIT). Must outlive its waiters and each call; nothing to free. */
typedef struct aw_condvar {
    uint32_t lock;
    uint32_t generation; /* how many broadcasts there were; it wraps around */
    aw__waiters waiters;
} aw_condvar;

/* clang-format off */
#define AW_CONDVAR_INIT {0, 0, {NULL, NULL}}
/* clang-format on */

/* Wake the one that has waited longest; with none it is forgotten. */
AW_API void aw_condvar_signal(aw_condvar *c);
/* Wake all that wait at this moment. */
AW_API void aw_condvar_broadcast(aw_condvar *c);

/* aw-future: aw_condvar_wait */
typedef struct aw_condvar_wait_future {
    AW__WAITER;
    aw_condvar *condvar;
    uint32_t stage; /* condvar.c */
    aw_mutex_lock_future relock;
} aw_condvar_wait_future;

AW_API extern const aw_future_type aw_condvar_wait_type;

/* `out` is 0. A signal that was given to one whose end is discarded goes to the next. */
#define aw_condvar_wait(c, m) aw__condvar_wait((c), (m), AW__HERE)
static inline aw_condvar_wait_future aw__condvar_wait(aw_condvar *c, aw_mutex *m,
                                                      const aw_place *place) {
    aw_condvar_wait_future f = {AW__WAITER_INIT(&aw_condvar_wait_type, 0), c, 0,
                                aw__mutex_lock(m, place)};
    return f;
}

AW_C_END

#endif
