/* SPDX-License-Identifier: MIT
 *
 * A worker's slot for the task that was woken last. That task runs next, while the data it was
 * woken for is still in the processor's cache.
 *
 *   1. Only the worker's own thread puts a task here. The previous task moves to the ring, where
 *      other workers may steal it. Workers do not steal from the slot: moving the task would cost
 *      more than waiting for its turn.
 *   2. The worker takes the task; the monitor does when the worker is stuck in a poll. Both use an
 *      exchange, so that only one of them gets it. (Avoiding the exchange gained next to nothing.)
 *   3. After three tasks in a row from this slot the ring comes first: two tasks that wake each
 *      other must not starve the ring. */
#ifndef AW_SCHED_MULTI_LIFO_H
#define AW_SCHED_MULTI_LIFO_H

#include "base/atomic.h"
#include "task/task_header.h"

enum { AW__LIFO_MAX_STREAK = 3 };

typedef struct aw__lifo {
    aw__task *task; /* atomic */
    uint32_t streak;
} aw__lifo;

/* Worker only. Returns the task that was displaced, or NULL. */
static inline aw__task *aw__lifo_put(aw__lifo *l, aw__task *t) {
    return aw__exchange(&l->task, t);
}

/* Any thread; only the worker itself can rely on false. */
static inline bool aw__lifo_is_full(const aw__lifo *l) {
    return aw__load_relaxed(&l->task) != NULL;
}

/* Rule 2: the worker or the monitor. */
static inline aw__task *aw__lifo_take(aw__lifo *l) {
    return aw__exchange(&l->task, (aw__task *)NULL);
}

/* Worker only, after it took a task from here (`found`) or found none. Rule 3: whether to run that
 * task now. */
static inline bool aw__lifo_may_run(aw__lifo *l, bool found) {
    bool may = found && l->streak < AW__LIFO_MAX_STREAK;
    l->streak = may ? l->streak + 1 : 0;
    return may;
}

#endif
