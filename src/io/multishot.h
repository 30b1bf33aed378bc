/* SPDX-License-Identifier: MIT
 *
 * A multishot operation: the kernel completes it again and again, until it is cancelled. No future
 * awaits it; the thread that reaps a completion delivers it.
 *
 *   1. Several threads may reap completions at the same time and deliver them in any order. Even
 *      the last one (the operation is no longer in flight) may be delivered before others.
 *      `undelivered` counts the completions that are reaped and not delivered, plus one for the
 *      kernel. The thread that takes it to 0 ends the operation.
 *   2. A completion that is not the last is counted when it is reaped, under the driver's lock,
 *      before a later one can be reaped. The last one takes over the kernel's count. So the count
 *      does not reach 0 while a completion is outstanding.
 *   3. While it runs, it holds a reference to its descriptor, and is linked there: a close cancels
 *      it. */
#ifndef AW_IO_MULTISHOT_H
#define AW_IO_MULTISHOT_H

#include "io/fd.h"

typedef struct aw__multishot {
    aw_io op;
    uint32_t undelivered; /* atomic */
    int result;           /* of the last completion, if an error */
    /* Called by any thread, without locks. `on_result`: a result of 0 or more; several calls may
     * run at once. `on_end`: it has ended, and why; from then on it may be submitted again, or
     * freed. */
    void (*on_result)(struct aw__multishot *m, int result);
    void (*on_end)(struct aw__multishot *m, int error);
} aw__multishot;

/* Submit it, where the driver completes operations (aw__thread_completes). Not while it runs.
 * AW__IO_PENDING; AW__IO_YIELDED: not possible now, and the task has been woken; or why not. */
int aw__multishot_submit(aw__multishot *m, aw_cx *cx);
/* Request its end, if it runs. From `on_result`, or by a caller that keeps it from being freed. */
void aw__multishot_cancel(aw__multishot *m);
/* In a forked child, where nothing completes that was submitted before the fork: end it without
 * calling `on_end`. Returns whether it was running. */
bool aw__multishot_forget(aw__multishot *m);

/* By the driver. `count`: a completion was reaped that is not the last. `complete`: deliver one. */
static inline void aw__multishot_count(aw_io *op) {
    aw__fetch_add_relaxed(&((aw__multishot *)(void *)op)->undelivered, 1u);
}
void aw__multishot_complete(aw_io *op, int result, bool more);

#endif
