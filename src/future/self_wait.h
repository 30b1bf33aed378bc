/* SPDX-License-Identifier: MIT
 *
 * Self waits: a task waits for something that it holds itself, such as its own mutex. A task that
 * waits for nothing else can never run again.
 *
 *   1. When such a wait begins, it is counted in the meter of the poll (aw__cx_self_wait). The
 *      count is only a hint: in the same poll the wait may end, or the task may release what it
 *      held.
 *   2. A future with AW__SELF_WAIT in its type can tell whether it is a self wait now: `extra` of
 *      its type is an aw__self_wait. Before the runtime reports a task, it walks the await chain
 *      after the poll and calls is_self_wait of each such future.
 *   3. A wait that is summed for a parent (child_waits.h) is not counted here, and is_self_wait
 *      returns false for it. Its parent counts one wait for many children, so the two numbers could
 *      not be compared. */
#ifndef AW_FUTURE_SELF_WAIT_H
#define AW_FUTURE_SELF_WAIT_H

#include <awake/future.h>

typedef struct aw__self_wait {
    /* Whether `wait` is pending, was counted by aw__cx_self_wait, and waits for something that
     * `task` of `rt` holds. */
    bool (*is_self_wait)(const aw_future *wait, const aw_runtime *rt, uint64_t task);
} aw__self_wait;

/* Counts a wait that was just armed, for something that the current task holds. False: it is not
 * counted (rule 3). */
static inline bool aw__cx_self_wait(aw_cx *cx) {
    if (!cx->meter || cx->meter->summed) return false;
    cx->meter->self_waits++;
    return true;
}

#endif
