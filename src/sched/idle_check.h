/* SPDX-License-Identifier: MIT
 *
 * What to do when nothing is ready and no thread of the runtime runs a task, the same for both
 * schedulers. The caller has checked that no thread holds the runtime (aw_runtime_hold). */
#ifndef AW_SCHED_IDLE_CHECK_H
#define AW_SCHED_IDLE_CHECK_H

#include "task/runtime_state.h"

typedef enum aw__idle_action {
    AW__IDLE_SLEEP,   /* a timer or another thread may make something ready */
    AW__IDLE_JUMP,    /* a paused clock jumps to the next timer */
    AW__IDLE_DEADLOCK /* nothing can ever become ready */
} aw__idle_action;

/* `timer` is the time of the next timer, or AW_FOREVER. It is a deadlock if there is none, if
 * nothing outside the runtime can end a wait (`outside` counts such waits), and if no task may
 * still be woken: all waits are for tasks of this runtime, or there are none. */
static inline aw__idle_action aw__idle_check(aw_runtime *rt, bool paused, uint64_t timer,
                                             int64_t outside,
                                             bool (*any_may_be_woken)(aw_runtime *rt)) {
    if (timer != AW_FOREVER) return paused ? AW__IDLE_JUMP : AW__IDLE_SLEEP;
    if (outside > 0 || any_may_be_woken(rt)) return AW__IDLE_SLEEP;
    return AW__IDLE_DEADLOCK;
}

/* Advances the paused clock to `timer`, but not past `watch`, which is `watch_at`: there the watch
 * for long cancels comes first. */
static inline void aw__clock_jump(aw_runtime *rt, uint64_t timer, uint64_t watch) {
    uint64_t now = aw__load_relaxed(&rt->base.paused_now);
    uint64_t to = watch < timer ? watch : timer;
    while (to > now && !aw__cas(&rt->base.paused_now, &now, to)) {
    }
}

#endif
