/* SPDX-License-Identifier: MIT
 *
 * Waits that are counted apart: children that begin to wait under one parent and may end under another. They have a
 * meter of their own; what is armed among them is summed up in an aw__carry, and the parent counts one wait for all
 * of them while it is pending. */
#ifndef AW_CORE_CARRY_H
#define AW_CORE_CARRY_H

#include <awake/future.h>

enum { AW__CARRY_NOTHING, AW__CARRY_INSIDE, AW__CARRY_OUTSIDE }; /* carried */

/* For the children. What is left of the budget is the parent's. */
static inline aw__meter aw__carry_meter(aw_cx *cx) {
    aw__meter m = {.budget = UINT32_MAX, .random = aw_cx_random(cx)};
    if (cx->meter) {
        m.budget = cx->meter->budget;
        m.stack_size = cx->meter->stack_size;
        m.opened = cx->meter->opened;
        m.fail = cx->meter->fail; /* of one that was polled before, in this same poll of the task */
    }
    return m;
}

/* What the children did. The budget is up to the caller. */
static inline void aw__carry_add(aw__carry *c, const aw__meter *m, aw_cx *cx) {
    c->armed += m->armed;
    c->outside += m->outside;
    if (!cx->meter) return;
    cx->meter->cancelling += m->cancelling;
    cx->meter->opened = m->opened;
    cx->meter->pinned |= m->pinned;
    if (!cx->meter->fail) cx->meter->fail = m->fail;
}

/* The parent waits because of the children: once, whatever their number. */
static inline void aw__carry_arm(aw__carry *c, aw_cx *cx, bool outside) {
    c->carried = outside ? AW__CARRY_OUTSIDE : AW__CARRY_INSIDE;
    if (outside)
        aw_cx_arm(cx);
    else
        aw_cx_arm_inside(cx);
}

/* It does not any more. `parent` is who armed it: when that is another, the count stays there: see sleep.c. */
static inline void aw__carry_disarm(aw__carry *c, const aw_waker *parent, aw_cx *cx) {
    if (c->carried && parent->type && aw_waker_will_wake(parent, cx->waker)) {
        if (c->carried == AW__CARRY_OUTSIDE)
            aw_cx_disarm(cx);
        else
            aw_cx_disarm_inside(cx);
    }
    c->carried = AW__CARRY_NOTHING;
}

#endif
