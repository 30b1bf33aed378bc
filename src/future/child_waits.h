/* SPDX-License-Identifier: MIT
 *
 * Child waits: wait counts of children that may begin to wait under one parent and end under
 * another. The children have a meter of their own. Their armed waits are summed in an
 * aw__child_waits, and the parent counts one wait for all of them while it is pending. */
#ifndef AW_FUTURE_CHILD_WAITS_H
#define AW_FUTURE_CHILD_WAITS_H

#include <awake/future.h>

/* counted_as */
enum { AW__CHILD_WAITS_NONE, AW__CHILD_WAITS_INSIDE, AW__CHILD_WAITS_OUTSIDE };

/* A meter to poll the children with. It has the remaining budget of the parent. */
static inline aw__meter aw__child_waits_meter(aw_cx *cx) {
    aw__meter m = {.budget = UINT32_MAX, .random = aw_cx_random(cx), .summed = true};
    if (cx->meter) {
        m.budget = cx->meter->budget;
        m.stack_size = cx->meter->stack_size;
        m.borrows = cx->meter->borrows;
        m.fail = cx->meter->fail; /* set earlier in this poll of the task */
    }
    return m;
}

/* Adds what the children counted. The budget is not copied back: the caller does that. */
static inline void aw__child_waits_add(aw__child_waits *c, const aw__meter *m, aw_cx *cx) {
    c->armed += m->armed;
    c->outside += m->outside;
    if (!cx->meter) return;
    cx->meter->cancelling += m->cancelling;
    cx->meter->borrows = m->borrows;
    cx->meter->pinned |= m->pinned;
    if (!cx->meter->fail) cx->meter->fail = m->fail;
}

/* The parent waits for its children: one wait, whatever their number. */
static inline void aw__child_waits_arm(aw__child_waits *c, aw_cx *cx, bool outside) {
    c->counted_as = outside ? AW__CHILD_WAITS_OUTSIDE : AW__CHILD_WAITS_INSIDE;
    if (outside)
        aw_cx_arm(cx);
    else
        aw_cx_arm_inside(cx);
}

/* The parent stops waiting. `parent` is the waker of the task that armed the wait. If that is
 * another task than the one that polls now, the wait stays counted there, as in sleep.c. */
static inline void aw__child_waits_disarm(aw__child_waits *c, const aw_waker *parent, aw_cx *cx) {
    if (c->counted_as && parent->type && aw_waker_will_wake(parent, cx->waker)) {
        if (c->counted_as == AW__CHILD_WAITS_OUTSIDE)
            aw_cx_disarm(cx);
        else
            aw_cx_disarm_inside(cx);
    }
    c->counted_as = AW__CHILD_WAITS_NONE;
}

#endif
