/* SPDX-License-Identifier: MIT
 *
 * The clock of a runtime: the seam's, or one that stands still until it is moved. */
#include <awake/time.h>

#include <errno.h>

#include "os/park.h"
#include "runtime/runtime.h"
#include "workers/pool.h"

uint64_t aw_now(const aw_runtime *rt) {
    if (!rt) rt = aw_runtime_current();
    return rt ? aw__rt_now(rt) : aw__os_now();
}

/* Workers that sleep do so by what the clock was. */
static int moved(aw_runtime *rt) {
    if (rt->pool) aw__pool_unpark_all(rt->pool);
    return 0;
}

int aw_clock_pause(aw_runtime *rt) {
    if (aw__load_relaxed(&rt->paused)) return -EINVAL;
    aw__store_release(&rt->paused_now, aw__rt_now(rt));
    aw__store_release(&rt->paused, 1u);
    return moved(rt);
}

/* It goes on from where it stood: a clock never goes back, and never jumps by surprise. */
int aw_clock_resume(aw_runtime *rt) {
    if (!aw__load_relaxed(&rt->paused)) return -EINVAL;
    uint64_t lead = aw__load_relaxed(&rt->paused_now) - rt->seam.now(rt->seam.data);
    aw__store_release(&rt->clock_lead, lead);
    aw__store_release(&rt->paused, 0u);
    return moved(rt);
}

int aw_clock_advance(aw_runtime *rt, uint64_t duration) {
    if (!aw__load_relaxed(&rt->paused)) return -EINVAL;
    uint64_t now = aw__load_relaxed(&rt->paused_now), then;
    do
        then = now > UINT64_MAX - duration ? UINT64_MAX : now + duration;
    while (!aw__cas(&rt->paused_now, &now, then));
    return moved(rt);
}
