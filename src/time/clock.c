/* SPDX-License-Identifier: MIT
 *
 * The clock of a runtime: the seam's, or a paused clock that moves only when it is advanced. */
#include <awake/time.h>

#include <errno.h>

#include "context/context.h"
#include "os/park.h"
#include "time/timer_math.h"

uint64_t aw_now(const aw_runtime *rt) {
    if (!rt) rt = aw_runtime_current();
    return rt ? aw__rt_now(rt) : aw__os_now();
}

/* Sleeping workers have computed their deadline from the old clock. */
static int clock_changed(aw_runtime *rt) {
    aw__base(rt)->sched->clock_changed(rt);
    return 0;
}

int aw_clock_pause(aw_runtime *rt) {
    if (aw__load_relaxed(&aw__base(rt)->paused)) return -EINVAL;
    aw__store_release(&aw__base(rt)->paused_now, aw__rt_now(rt));
    aw__store_release(&aw__base(rt)->paused, 1u);
    return clock_changed(rt);
}

/* The clock continues from where it stood: it never goes back, and does not jump. */
int aw_clock_resume(aw_runtime *rt) {
    if (!aw__load_relaxed(&aw__base(rt)->paused)) return -EINVAL;
    uint64_t lead = aw__load_relaxed(&aw__base(rt)->paused_now) -
                    aw__base(rt)->seam.now(aw__base(rt)->seam.data);
    aw__store_release(&aw__base(rt)->clock_lead, lead);
    aw__store_release(&aw__base(rt)->paused, 0u);
    return clock_changed(rt);
}

int aw_clock_advance(aw_runtime *rt, uint64_t duration) {
    if (!aw__load_relaxed(&aw__base(rt)->paused)) return -EINVAL;
    uint64_t now = aw__load_relaxed(&aw__base(rt)->paused_now), then;
    do
        then = aw__time_add(now, duration);
    while (!aw__cas(&aw__base(rt)->paused_now, &now, then));
    return clock_changed(rt);
}
