/* SPDX-License-Identifier: MIT
 *
 * How the owner of a current-thread runtime sleeps: in its thread I/O, or by the seam. */
#ifndef AW_TASK_OWNER_PARK_H
#define AW_TASK_OWNER_PARK_H

#include "task/runtime_state.h"

/* Called by the owner. `deadline` is in the seam's clock. */
static inline void aw__rt_park(aw_runtime *rt, uint64_t deadline) {
    aw__events events;
    if (rt->base.seam.park) {
        rt->base.seam.park(rt->base.seam.data, deadline);
        return;
    }
    aw__thread_io_park(&rt->thread_io, deadline, &events);
    aw__thread_io_deliver(&rt->thread_io, &events);
}

/* Any thread. In the child of a fork the owner does not exist. */
static inline void aw__rt_unpark(aw_runtime *rt) {
    if (aw__rt_forked(rt)) return;
    if (rt->base.seam.unpark)
        rt->base.seam.unpark(rt->base.seam.data);
    else
        aw__thread_io_unpark(&rt->thread_io);
}

#endif
