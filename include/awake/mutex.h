/* SPDX-License-Identifier: MIT
 *
 * awake/mutex.h: one at a time, also across awaits.
 *
 *     AW_AWAIT(self->lock, aw_mutex_lock(&m));     `out` is 0
 *     ...                                          may await
 *     aw_mutex_unlock(&m);                         whoever holds it, on any thread
 *
 * First polled, first served: an unlock hands the mutex to the one that has waited longest. Tasks of any runtime,
 * fibers and plain threads (aw_wait) may use the same one. Discarding a lock that had finished unlocks. A holder that
 * is cancelled unlocks in its cleanup: AW_FINALLY, or after the -ECANCELED in a fiber.
 *
 * It remembers who holds it and where it was taken: see aw_mutex_holder. A task that waits for nothing but a
 * mutex which it holds itself is reported as lost. (Two branches of a join may share a mutex.)
 *
 * A library built with AWAKE_LOCK_ORDER (Debug builds are) reports two mutexes that are taken in one order here and in
 * another there, before they meet: once for each pair, with both places. A try_lock may come in any order. A mutex that
 * is initialised again is another one. What it cannot know: the branches of a join are one task to it, so what one holds
 * while another locks counts as an order; and a lock that only ever happens before or after another, never beside it, is
 * reported all the same. */
#ifndef AWAKE_MUTEX_H
#define AWAKE_MUTEX_H

#include <awake/task.h>
#include <awake/wait.h>

AW_C_BEGIN

/* All zero is ready for use (AW_MUTEX_INIT). Must outlive its waiters and each call; nothing to free. */
typedef struct aw_mutex {
    uint32_t word; /* atomic: mutex.c */
    uint32_t lock;
    aw__waiters waiters;
    const aw_place *place; /* where it was taken */
    uint64_t holder;       /* the task's id; 0: a main future, or a plain thread */
    const aw_runtime *runtime;
    uint32_t number; /* for the order in which mutexes are taken */
} aw_mutex;

/* clang-format off */
#define AW_MUTEX_INIT {0, 0, {NULL, NULL}, NULL, 0, NULL, 0}
/* clang-format on */

/* aw-future: aw_mutex_lock */
typedef struct aw_mutex_lock_future {
    AW__WAITER;
    aw_mutex *mutex;
    const aw_place *place;
} aw_mutex_lock_future;

AW_API extern const aw_future_type aw_mutex_lock_type;

/* Take it: `out` is 0. */
#define aw_mutex_lock(m) aw__mutex_lock((m), AW__HERE)
static inline aw_mutex_lock_future aw__mutex_lock(aw_mutex *m, const aw_place *place) {
    aw_mutex_lock_future f = {AW__WAITER_INIT(&aw_mutex_lock_type, 0), m, place};
    return f;
}

/* Without waiting: 0, or -EAGAIN. */
#define aw_mutex_try_lock(m) aw__mutex_try_lock((m), AW__HERE)
AW_API int aw__mutex_try_lock(aw_mutex *m, const aw_place *place);

/* Give it back. Unlocking one that is not locked ends the program with a message. */
AW_API void aw_mutex_unlock(aw_mutex *m);

/* Whether it is held at this moment; where it was taken, and by which task. For messages: the answer may be old. */
AW_API bool aw_mutex_is_locked(const aw_mutex *m);
AW_API const aw_place *aw_mutex_holder(const aw_mutex *m, uint64_t *task);

AW_C_END

#endif
