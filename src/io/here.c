/* SPDX-License-Identifier: MIT */
#include "io/here.h"

#include <errno.h>

#include "core/lock.h"
#include "driver/uring.h"
#include "workers/pool.h"

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

static bool is_apart(const aw_runtime *rt) {
    return !rt->pool || rt->pool->apart;
}

/* Who sleeps in the place, and looks into its driver. Others share those of all workers; but where rings have owners,
 * one is beside the first. */
static aw__place *place_of(aw_runtime *rt, bool *own) {
    aw__worker *w = aw__thread.worker;
    *own = rt->pool ? w && w->pool == rt->pool : aw__is_owner(rt);
    if (!rt->pool) return &rt->place;
    if (*own) return &w->place;
    bool first = is_apart(rt) && type_of(rt)->submit;
    uint32_t i = first ? 0 : aw__fetch_add_relaxed(&rt->pool->next, 1u) % rt->pool->count;
    return &rt->pool->workers[i].place;
}

static bool has_driver(const aw_runtime *rt) {
    bool has = rt->place.driver;
    for (uint32_t i = 0; rt->pool && i < rt->pool->count; i++)
        has |= rt->pool->workers[i].place.driver != NULL;
    return has;
}

/* False: another thread was faster, or found that another kind has to be used. */
static bool put(aw_runtime *rt, aw__driver **to, aw__driver *d) {
    d->runtime = rt;
    aw__lock(&rt->lock);
    bool first = !*to && d->type == aw__load_relaxed(&rt->driver_type);
    if (first) aw__store_release(to, d);
    aw__unlock(&rt->lock);
    if (!first) aw__driver_free(d);
    return first;
}

/* Rings were allowed when it was tried, and are not any more. All of a runtime are of one kind: 0 if there was none yet, and
 * another kind is used from now on. */
static int fall_back(aw_runtime *rt, int error) {
    aw__lock(&rt->lock);
    bool rings = aw__load_relaxed(&rt->driver_type) == &aw__uring_driver;
    bool can = !rings || !has_driver(rt);
    if (can && rings) {
        aw__store_relaxed(&rt->driver_fallback, error);
        aw__store_release(&rt->driver_type, &aw__epoll_driver);
    }
    aw__unlock(&rt->lock);
    return can ? 0 : -EACCES;
}

/* Who sleeps there wakes up, and from now on sleeps in the driver. 0: look again. */
static int make(aw_runtime *rt, aw__place *place) {
    aw__driver *d;
    const aw__driver_type *type = type_of(rt);
    int error = aw__driver_open(&d, type, rt->allocator, is_apart(rt) ? &place->owner : NULL);
    if (type == &aw__uring_driver && aw__uring_is_refused(error)) return fall_back(rt, error);
    if (error) return error;
    if (put(rt, &place->driver, d)) aw__place_unpark(place);
    return 0;
}

static int make_beside(aw_runtime *rt, aw__place *place) {
    aw__driver *d;
    int error = aw__driver_open_beside(&d, place->driver);
    if (!error) put(rt, &place->beside, d);
    return aw__uring_is_refused(error) ? -EACCES : error;
}

/* Any that all threads may enter: for a worker that may not have one of its own any more. */
static aw__driver *find_shared(const aw_runtime *rt) {
    for (uint32_t i = 0; rt->pool && !rt->pool->apart && i < rt->pool->count; i++) {
        aw__driver *d = aw__load_acquire(&rt->pool->workers[i].place.driver);
        if (d) return d;
    }
    return NULL;
}

/* Only its owner can enter it. */
static bool is_kept(const aw__driver *d) {
    return d->type->submit && aw__load_acquire(&d->owner);
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

bool aw__driver_is_left(const aw__driver *d) {
    const aw_runtime *rt = d->runtime;
    return d->beside && !rt->pool && !aw__is_owner(rt);
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
    bool own;
    int error = 0;
    aw__place *place = place_of(rt, &own);
    while (!error && !(*d = aw__load_acquire(&place->driver)))
        error = make(rt, place);
    if (error == -EACCES && (*d = find_shared(rt))) return 0;
    if (error || own || !is_kept(*d)) return error;
    error = aw__load_acquire(&place->beside) ? 0 : make_beside(rt, place);
    *d = aw__load_acquire(&place->beside);
    return error;
}
