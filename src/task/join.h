/* SPDX-License-Identifier: MIT
 *
 * The part of a join that is the same with and without workers: counting its wait, and taking the
 * output. */
#ifndef AW_TASK_JOIN_H
#define AW_TASK_JOIN_H

#include <errno.h>

#include "task/runtime_state.h"

enum { /* state of a join */
       AW__JOIN_FRESH,
       AW__JOIN_ARMED,
       AW__JOIN_ARMED_OUTSIDE, /* armed by a task of another runtime */
       AW__JOIN_TOOK           /* ended, and has taken the output */
};

static inline void aw__join_arm(aw_task_join_future *j, aw_cx *cx, bool outside) {
    j->future.state = outside ? AW__JOIN_ARMED_OUTSIDE : AW__JOIN_ARMED;
    if (outside)
        aw_cx_arm(cx);
    else
        aw_cx_arm_inside(cx);
}

static inline void aw__join_disarm(aw_task_join_future *j, aw_cx *cx) {
    if (!aw_waker_will_wake(&j->waker, cx->waker)) return; /* armed by another task */
    if (j->future.state == AW__JOIN_ARMED_OUTSIDE) aw_cx_disarm(cx);
    if (j->future.state == AW__JOIN_ARMED) aw_cx_disarm_inside(cx);
}

static inline aw_poll aw__join_take(aw_task_join_future *j, aw__task *t, int status) {
    if (status == AW__FINISHED) {
        aw__store_relaxed(&t->status, AW__TAKEN);
        j->future.state = AW__JOIN_TOOK;
    }
    j->out = status == AW__TAKEN ? 0 : status; /* TAKEN: an earlier join has taken it */
    return AW_READY;
}

/* In the child of a fork the task never ends. */
static inline aw_poll aw__join_forked(aw_task_join_future *j, aw_cx *cx) {
    aw__join_disarm(j, cx);
    j->out = -EOWNERDEAD;
    return AW_READY;
}

void aw__join_twice(const aw__task *t); /* misuse */

/* Owner only: wake the joins that wait on other threads and whose task has ended. */
void aw__rt_wake_joins(aw_runtime *rt);

#endif
