/* SPDX-License-Identifier: MIT
 *
 * A worker's place for the task that was woken last: it runs next, while what it was woken for is still in the
 * processor's cache.
 *
 *   1. Only the worker's own thread puts a task here. The one that was here before goes to the ring, where
 *      others may steal it. Nobody steals from here: to be passed on would cost more than to wait its turn.
 *   2. The worker takes it; so does the monitor when the worker is stuck in a poll. Each by an exchange: one of them
 *      gets it. (To spare them gained next to nothing where it was tried.)
 *   3. After three in a row the ring comes first: two that wake each other shall not stay alone. */
#ifndef AW_WORKERS_LIFO_H
#define AW_WORKERS_LIFO_H

#include "core/atomic.h"
#include "runtime/task.h"

enum { AW__STREAK = 3 };

typedef struct aw__lifo {
    aw__task *task; /* atomic */
    uint32_t streak;
} aw__lifo;

/* By the worker: returns the one that has to go. */
static inline aw__task *aw__lifo_put(aw__lifo *l, aw__task *t) {
    return aw__exchange(&l->task, t);
}

/* By anybody; only the worker's own thread can rely on a no. */
static inline bool aw__lifo_is_full(const aw__lifo *l) {
    return aw__load_relaxed(&l->task) != NULL;
}

/* By the worker, or the monitor. */
static inline aw__task *aw__lifo_take(aw__lifo *l) {
    return aw__exchange(&l->task, (aw__task *)NULL);
}

/* By the worker, who has taken a task from here (or found none): whether it may run it now. */
static inline bool aw__lifo_may_run(aw__lifo *l, bool found) {
    bool may = found && l->streak < AW__STREAK;
    l->streak = may ? l->streak + 1 : 0;
    return may;
}

#endif
