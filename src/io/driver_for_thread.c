/* SPDX-License-Identifier: MIT */
#include "io/driver_for_thread.h"

#include <errno.h>

#include "io/uring.h"
#include "os/lock.h"

const aw__driver_type *aw__driver_type_probe(aw_runtime *rt) {
    aw__runtime_base *b = aw__base(rt);
    int error = aw__uring_works();
    aw__lock(&b->lock);
    if (!b->driver_known) {
        aw__store_relaxed(&b->driver_fallback, error);
        if (error) aw__store_release(&b->driver_type, &aw__epoll_driver);
        aw__store_relaxed(&b->driver_known, true);
    }
    aw__unlock(&b->lock);
    return aw__load_acquire(&b->driver_type);
}

/* The thread I/O to use. `mine`: this thread polls it, as a worker or as the thread that runs the
 * runtime. Other threads use one that the scheduler chooses. */
static aw__thread_io *thread_io_for(aw_runtime *rt, bool *mine) {
    *mine = aw__context.thread_io && aw__context.runtime == rt;
    if (*mine) return aw__context.thread_io;
    bool shared_ring = aw__base(rt)->rings_owned && aw__driver_type_of(rt)->submit;
    return aw__base(rt)->sched->thread_io(rt, shared_ring);
}

static bool has_any_driver(const aw_runtime *rt) {
    const aw__thread_io *io;
    for (uint32_t n = 0; (io = aw__base(rt)->sched->nth_thread_io(rt, n)); n++)
        if (io->driver) return true;
    return false;
}

/* False: another thread was faster, has switched the runtime to another backend, or has closed
 * it. */
static bool install_driver(aw_runtime *rt, aw__driver **to, aw__driver *d) {
    d->runtime = rt;
    aw__lock(&aw__base(rt)->lock);
    bool first = !*to && d->type == aw__load_relaxed(&aw__base(rt)->driver_type) &&
                 !aw__base(rt)->io_closed;
    if (first) aw__store_release(to, d);
    aw__unlock(&aw__base(rt)->lock);
    if (!first) aw__driver_free(d);
    return first;
}

/* io_uring passed the probe, but is forbidden now. All drivers of a runtime are of one kind. 0:
 * there was none yet, and the runtime uses epoll from now on. */
static int fall_back_to_epoll(aw_runtime *rt, int error) {
    aw__lock(&aw__base(rt)->lock);
    bool uring = aw__load_relaxed(&aw__base(rt)->driver_type) == &aw__uring_driver;
    bool can = !uring || !has_any_driver(rt);
    if (can && uring) {
        aw__store_relaxed(&aw__base(rt)->driver_fallback, error);
        aw__store_release(&aw__base(rt)->driver_type, &aw__epoll_driver);
    }
    aw__unlock(&aw__base(rt)->lock);
    return can ? 0 : -EACCES;
}

static bool io_is_closed(aw_runtime *rt) {
    aw__lock(&aw__base(rt)->lock);
    bool closed = aw__base(rt)->io_closed;
    aw__unlock(&aw__base(rt)->lock);
    return closed;
}

/* A thread that is parked there wakes up, and sleeps in the driver from then on. 0: look again. */
static int open_thread_driver(aw_runtime *rt, aw__thread_io *thread_io) {
    aw__driver *d;
    if (io_is_closed(rt)) return -ESHUTDOWN;
    const aw__driver_type *type = aw__driver_type_of(rt);
    int error = aw__driver_open(&d, type, aw__base(rt)->allocator,
                                aw__base(rt)->rings_owned ? &thread_io->owner : NULL);
    if (type == &aw__uring_driver && aw__uring_is_refused(error))
        return fall_back_to_epoll(rt, error);
    if (error) return error;
    if (install_driver(rt, &thread_io->driver, d)) aw__thread_io_unpark(thread_io);
    return 0;
}

static int open_shared_driver(aw_runtime *rt, aw__thread_io *thread_io) {
    aw__driver *d;
    int error = io_is_closed(rt) ? -ESHUTDOWN : aw__driver_open_shared(&d, thread_io->driver);
    if (!error) install_driver(rt, &thread_io->shared, d);
    if (!error && !aw__load_acquire(&thread_io->shared)) return -ESHUTDOWN;
    return aw__uring_is_refused(error) ? -EACCES : error;
}

/* A driver that any thread may enter, for a worker that is not allowed to open a ring any more. */
static aw__driver *find_unowned_driver(const aw_runtime *rt) {
    const aw__runtime_base *b = aw__base(rt);
    const aw__thread_io *io;
    for (uint32_t n = 0; !b->rings_owned && (io = b->sched->nth_thread_io(rt, n)); n++) {
        aw__driver *d = aw__load_acquire(&io->driver);
        if (d) return d;
    }
    return NULL;
}

/* Whether only its owner may enter it. */
static bool has_owner(const aw__driver *d) {
    return d->type->submit && aw__load_acquire(&d->owner);
}

bool aw__driver_is_unattended(const aw__driver *d) {
    const aw_runtime *rt = d->runtime;
    return d->primary && !aw__base(rt)->has_workers && !aw__is_owner(rt);
}

int aw__driver_for_thread(const aw_cx *cx, aw__driver **d) {
    aw_runtime *rt = aw_cx_runtime(cx);
    if (!rt) {
        aw__rt_log(NULL, AW_LOG_PROBLEM,
                   "a descriptor cannot wait without a runtime: see aw_enter");
        return -ENXIO;
    }
    if (aw__rt_forked(rt)) return -EOWNERDEAD;
    if (aw__base(rt)->seam.park) return -ENOTSUP;
    bool mine;
    int error = 0;
    aw__thread_io *thread_io = thread_io_for(rt, &mine);
    while (!error && !(*d = aw__load_acquire(&thread_io->driver)))
        error = open_thread_driver(rt, thread_io);
    if (error == -EACCES && (*d = find_unowned_driver(rt))) return 0;
    if (error || mine || !has_owner(*d)) return error;
    error = aw__load_acquire(&thread_io->shared) ? 0 : open_shared_driver(rt, thread_io);
    *d = aw__load_acquire(&thread_io->shared);
    return error;
}
