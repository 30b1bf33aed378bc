/* SPDX-License-Identifier: MIT */
#include "io/here.h"

#include <errno.h>

#include "core/lock.h"
#include "workers/pool.h"

static aw__place *place_of(aw_runtime *rt) {
    if (!rt->pool) return &rt->place;
    aw__worker *w = aw__thread.worker;
    if (w && w->pool == rt->pool) return &w->place;
    return &rt->pool->workers[aw__fetch_add_relaxed(&rt->pool->next, 1u) % rt->pool->count].place;
}

/* Who sleeps there wakes up, and from now on sleeps in the driver. */
static int make(aw_runtime *rt, aw__place *place) {
    aw__driver *d;
    int error = aw__driver_open(&d, rt->driver_type, rt->allocator);
    if (error) return error;
    aw__lock(&rt->lock);
    bool first = !place->driver;
    if (first) aw__store_release(&place->driver, d);
    aw__unlock(&rt->lock);
    if (first)
        aw__place_unpark(place);
    else
        aw__driver_free(d);
    return 0;
}

int aw__driver_here(const aw_cx *cx, aw__driver **d) {
    aw_runtime *rt = aw_cx_runtime(cx);
    if (!rt) {
        aw__rt_log(NULL, AW_LOG_PROBLEM,
                   "a descriptor cannot wait without a runtime: see aw_enter");
        return -ENXIO;
    }
    if (aw__rt_forked(rt)) return -EOWNERDEAD;
    if (rt->seam.park) return -ENOTSUP;
    aw__place *place = place_of(rt);
    int error = aw__load_acquire(&place->driver) ? 0 : make(rt, place);
    *d = aw__load_acquire(&place->driver);
    return error;
}
