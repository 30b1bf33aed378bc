/* SPDX-License-Identifier: MIT
 *
 * An operation that the system completes again and again, until it is asked back. Nobody awaits it; whoever
 * collects its completions hands them on.
 *
 *   1. Threads may collect several of its completions at the same time and hand them on in any order, the last one (the
 *      system has it no more) before others too. `parts` counts those that are collected and not handed on, and one for
 *      the system: who takes it to 0 ends the operation.
 *   2. A completion that is not the last is counted where it is collected, under the driver's lock, before a later one
 *      can be; the last takes the system's place. So the count cannot come to 0 while one is missing.
 *   3. While it runs it holds a reference on its descriptor, and is linked there: a close asks it back. */
#ifndef AW_IO_MANY_H
#define AW_IO_MANY_H

#include "io/fd.h"

typedef struct aw__many {
    aw_io op;
    uint32_t parts; /* atomic */
    int result;     /* of the last one, if it is an error */
    /* By any thread, without locks: what came, 0 or more; several at once. And: that was all, and why; from then on it may
     * begin again, or be gone. */
    void (*came)(struct aw__many *m, int result);
    void (*over)(struct aw__many *m, int error);
} aw__many;

/* Give it to the system, where the driver completes operations (aw__completes_here). AW__IO_WAITS; AW__IO_LATER: not now,
 * and the task has been woken; or why not. Not while it runs. */
int aw__many_begin(aw__many *m, aw_cx *cx);
/* It is to end soon, if it runs. By one of `came`, or who keeps it from being freed. */
void aw__many_ask_back(aw__many *m);
/* In the child of a fork, where nothing will come back of one that was begun before: whether that was so. It has ended,
 * and nobody is told. */
bool aw__many_forget(aw__many *m);

/* By the driver: one has been collected that is not the last; hand one on. */
static inline void aw__many_count(aw_io *op) {
    aw__fetch_add_relaxed(&((aw__many *)(void *)op)->parts, 1u);
}
void aw__many_tell(aw_io *op, int result, bool more);

#endif
