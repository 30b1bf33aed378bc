/* SPDX-License-Identifier: MIT
 *
 * A runtime in somebody else's loop. While no thread owns it, it is asleep in the sense of inbox and place (inbox.h,
 * driver/place.h): who wakes a task finds PARKED, and interrupts the driver. An epoll descriptor watches the driver's and a
 * timer for the next deadline; that is what the other loop waits for. */
#include <awake/embed.h>

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "io/here.h"
#include "os/park.h"
#include "runtime/inbox.h"

/* ---- Asleep and awake ------------------------------------------------------------------------- */

static void set_timer(const aw_runtime *rt, uint64_t when) {
    struct itimerspec at = {{0, 0}, {0, 0}};
    if (when == 0) when = 1; /* zero would stop it */
    if (when != AW_FOREVER) {
        at.it_value.tv_sec = (time_t)(when / 1000000000u);
        at.it_value.tv_nsec = (long)(when % 1000000000u);
    }
    timerfd_settime(rt->embedded.timer, TFD_TIMER_ABSTIME, &at, NULL);
}

void aw__embedded_awake(aw_runtime *rt) {
    if (!rt->embedded.asleep) return;
    rt->embedded.asleep = false;
    aw__os_unparked(&rt->place.word);
    aw__inbox_unpark(rt);
    aw__rt_drain(rt);
}

/* When something is ready, or comes meanwhile, it is time at once. What is queued for the system is handed over
 * first, and with it the question for interrupts: nobody would be told of them otherwise. */
void aw__embedded_asleep(aw_runtime *rt) {
    const aw__driver *d = rt->place.driver;
    if (d->type->flush) aw__place_turn(&rt->place);
    uint64_t next = rt->ready.head || rt->yielded.head ? 0 : aw__rt_next(rt);
    if (!aw__inbox_park(rt)) {
        set_timer(rt, 0);
        return;
    }
    rt->embedded.asleep = true;
    if (!aw__os_park_elsewhere(&rt->place.word)) {
        aw__embedded_awake(rt);
        next = 0;
    }
    set_timer(rt, next);
}

/* ---- The calls -------------------------------------------------------------------------------- */

static int watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_embedded(aw_runtime *rt) {
    const aw__driver *d = rt->place.driver;
    int inner = d->type->pollable ? d->type->pollable(rt->place.driver) : -ENOTSUP;
    if (inner < 0) return inner;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = epoll < 0 ? -1 : timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int error = timer < 0 ? -errno : watch(epoll, inner);
    if (!error) error = watch(epoll, timer);
    if (error) {
        if (timer >= 0) close(timer);
        if (epoll >= 0) close(epoll);
        return error;
    }
    rt->embedded.epoll = epoll;
    rt->embedded.timer = timer;
    rt->embedded.used = true;
    return 0;
}

int aw_runtime_fd(aw_runtime *rt) {
    if (aw__rt_forked(rt)) return -EOWNERDEAD;
    if (rt->pool || rt->seam.park || !aw__rt_has_system_clock(rt)) return -ENOTSUP;
    if (aw__inside()) return -EPERM;
    if (rt->embedded.used) return rt->embedded.epoll;
    if (!aw__rt_acquire(rt)) return -EBUSY;
    aw__driver *d;
    aw_cx cx = {NULL, rt, NULL};
    if (aw__load_acquire(&rt->driver_type) == &aw__poll_driver)
        aw__store_release(&rt->driver_type, &aw__epoll_driver); /* unless one is there already */
    int error = aw__driver_here(&cx, &d);
    if (!error && d->type->share) error = d->type->share(d); /* other threads may turn it, too */
    if (!error) error = open_embedded(rt);
    aw__rt_release(rt);
    return error ? error : rt->embedded.epoll;
}

int aw_runtime_turn(aw_runtime *rt) {
    if (aw__inside()) return -EPERM;
    if (aw__rt_forked(rt)) return -EOWNERDEAD;
    if (aw__load_acquire(&rt->closing) == AW__FOR_EVER) return -ESHUTDOWN;
    if (!rt->embedded.used) return -EINVAL;
    if (!aw__rt_acquire(rt)) return -EBUSY;
    aw__rt_turn(rt);
    aw__rt_disown(rt);
    return 0;
}

void aw__embedded_end(aw_runtime *rt) {
    if (!rt->embedded.used) return;
    close(rt->embedded.timer);
    close(rt->embedded.epoll);
    rt->embedded.used = false;
}
