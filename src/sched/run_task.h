/* SPDX-License-Identifier: MIT
 *
 * One poll of a task or of a main future, the same for both schedulers: reset the meter, poll or
 * cancel the future, and add what the poll counted to the task. The calling thread owns the fields
 * of the task that a poll changes. */
#ifndef AW_SCHED_RUN_TASK_H
#define AW_SCHED_RUN_TASK_H

#include "task/runtime_state.h"

/* Rare cases before and after a poll, kept out of the hot path. */
aw_poll aw__run_special(aw__task *t, aw_future *f, aw_cx *cx, bool cancel);
void aw__run_count(aw_runtime *rt, aw__task *t, aw__meter *meter, aw_poll r);

/* `meter` is that of `cx`. The caller adds `meter->outside` to a sum of its own. */
static inline __attribute__((always_inline)) aw_poll aw__run_task(aw_runtime *rt, aw__task *t,
                                                                  aw_future *f, aw_cx *cx,
                                                                  aw__meter *meter, bool cancel) {
    uint16_t flags = t->flags;
    meter->budget = rt->base.budget;
    meter->armed = meter->outside = meter->cancelling = meter->fail = 0;
    meter->self_waits = 0;
    bool special = cancel || flags & (AW__UNBUDGETED | AW__BORROWS);
    aw_poll r = AW__UNLIKELY(special) ? aw__run_special(t, f, cx, cancel) : aw_future_poll(f, cx);
    t->armed += meter->armed;
    if (AW__UNLIKELY(meter->fail | meter->cancelling | (int32_t)meter->borrows ||
                     flags & (AW__COUNTED | AW__BORROWS)))
        aw__run_count(rt, t, meter, r);
    return r;
}

#endif
