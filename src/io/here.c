/* SPDX-License-Identifier: MIT */
#include "io/here.h"

#include <errno.h>

#include "core/lock.h"
#include "driver/uring.h"
#include "workers/pool.h"

static aw__place *place_of(aw_runtime *rt) {
    if (!rt->pool) return &rt->place;
    aw__worker *w = aw__thread.worker;
    if (w && w->pool == rt->pool) return &w->place;
    return &rt->pool->workers[aw__fetch_add_relaxed(&rt->pool->next, 1u) % rt->pool->count].place;
}

/* Decided when it is first asked for: to know costs a few system calls. */
static const aw__driver_type *type_of(aw_runtime *rt) {
    const aw__driver_type *type = aw__load_acquire(&rt->driver_type);
    if (type != &aw__uring_driver || aw__load_relaxed(&rt->driver_known)) return type;
    int error = aw__uring_works();
    aw__lock(&rt->lock);
    if (!rt->driver_known) {
        aw__store_relaxed(&rt->driver_fallback, error);
        if (error) aw__store_release(&rt->driver_type, &aw__epoll_driver);
        aw__store_relaxed(&rt->driver_known, true);
    }
    aw__unlock(&rt->lock);
    return aw__load_acquire(&rt->driver_type);
}

/* Who sleeps there wakes up, and from now on sleeps in the driver. */
static int make(aw_runtime *rt, aw__place *place) {
    aw__driver *d;
    bool alone = !rt->pool || rt->pool->apart;
    int error = aw__driver_open(&d, type_of(rt), rt->allocator, alone ? &place->owner : NULL);
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

bool aw__completes_here(const aw_cx *cx) {
    aw_runtime *rt = aw_cx_runtime(cx);
    return rt && !rt->seam.park && !aw__rt_forked(rt) && type_of(rt)->submit;
}

bool aw__driver_is_own(const aw__driver *d) {
    const struct aw__thread *t = &aw__thread;
    if (t->worker) return t->worker->place.driver == d;
    return t->running && t->running->place.driver == d;
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
