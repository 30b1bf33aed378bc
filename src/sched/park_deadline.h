/* SPDX-License-Identifier: MIT
 *
 * Until when a thread that runs tasks may sleep. */
#ifndef AW_SCHED_PARK_DEADLINE_H
#define AW_SCHED_PARK_DEADLINE_H

#include "fiber/stack.h"
#include "task/runtime_state.h"

/* `next` is the runtime's time at which there is something to do; the result is in the seam's
 * clock. A paused clock does not advance while threads sleep. Idle stacks of this thread are freed
 * in time. */
static inline uint64_t aw__park_deadline(const aw_runtime *rt, uint64_t next) {
    const aw__runtime_base *b = &rt->base;
    if (aw__load_acquire(&b->paused)) next = AW_FOREVER;
    if (next != AW_FOREVER) next -= aw__load_relaxed(&b->clock_lead);
    if (aw__stacks_of_thread) {
        uint64_t stacks = aw__stacks_idle(b->seam.now(b->seam.data));
        if (stacks < next) next = stacks;
    }
    return next;
}

#endif
