/* SPDX-License-Identifier: MIT
 *
 * A runtime in a foreign event loop. While no thread owns the runtime, it is asleep in the sense of
 * inbox.h and io/thread_io.h: a thread that wakes a task finds PARKED, and interrupts the
 * driver. An epoll descriptor watches the driver's descriptor and a timerfd for the next deadline.
 * The foreign loop waits for that epoll descriptor. */
#include <awake/embed.h>

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "io/driver_for_thread.h"
#include "os/park.h"
#include "sched/block_on.h"
#include "sched/current/current.h"
#include "sched/embedded.h"
#include "task/inbox.h"

/* ---- Asleep and awake ------------------------------------------------------------------------ */

static void set_timer(const aw_runtime *rt, uint64_t when) {
    struct itimerspec at = {{0, 0}, {0, 0}};
    if (when == 0) when = 1; /* zero would disarm it */
    if (when != AW_FOREVER) {
        at.it_value.tv_sec = (time_t)(when / 1000000000u);
        at.it_value.tv_nsec = (long)(when % 1000000000u);
    }
    timerfd_settime(rt->embedded.timer, TFD_TIMER_ABSTIME, &at, NULL);
}

void aw__embedded_awake(aw_runtime *rt) {
    if (!rt->embedded.asleep) return;
    rt->embedded.asleep = false;
    aw__os_unparked(&rt->thread_io.word);
    aw__inbox_unpark(rt);
    aw__rt_drain_inbox(rt);
}

/* If something is ready, or becomes ready meanwhile, the timer fires at once. Queued submissions go
 * to the kernel first. Among them is the poll for interrupts: without it an interrupt would not
 * make the descriptor readable. */
void aw__embedded_asleep(aw_runtime *rt) {
    const aw__driver *d = rt->thread_io.driver;
    if (d->type->flush) aw__thread_io_poll(&rt->thread_io);
    uint64_t next = rt->ready.head || rt->yielded.head ? 0 : aw__rt_next_deadline(rt);
    if (!aw__inbox_park(rt)) {
        set_timer(rt, 0);
        return;
    }
    rt->embedded.asleep = true;
    if (!aw__os_park_elsewhere(&rt->thread_io.word)) {
        aw__embedded_awake(rt);
        next = 0;
    }
    set_timer(rt, next);
}

/* ---- The calls ------------------------------------------------------------------------------- */

static int embed_watch_fd(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_embedded(aw_runtime *rt) {
    const aw__driver *d = rt->thread_io.driver;
    int inner = d->type->pollable ? d->type->pollable(rt->thread_io.driver) : -ENOTSUP;
    if (inner < 0) return inner;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = epoll < 0 ? -1 : timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int error = timer < 0 ? -errno : embed_watch_fd(epoll, inner);
    if (!error) error = embed_watch_fd(epoll, timer);
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
    if (rt->base.has_workers || rt->base.seam.park || !aw__rt_has_system_clock(rt)) return -ENOTSUP;
    if (aw__in_poll()) return -EPERM;
    if (rt->embedded.used) return rt->embedded.epoll;
    if (!aw__rt_own(rt)) return -EBUSY;
    aw__driver *d;
    aw_cx cx = {NULL, rt, NULL};
    if (aw__load_acquire(&rt->base.driver_type) == &aw__poll_driver)
        aw__store_release(&rt->base.driver_type,
                          &aw__epoll_driver); /* no effect on an open driver */
    int error = aw__driver_for_thread(&cx, &d);
    if (!error && d->type->share) error = d->type->share(d); /* other threads may poll it too */
    if (!error) error = open_embedded(rt);
    aw__rt_disown_keep_tasks(rt);
    return error ? error : rt->embedded.epoll;
}

int aw_runtime_run_once(aw_runtime *rt) {
    if (aw__in_poll()) return -EPERM;
    if (aw__rt_forked(rt)) return -EOWNERDEAD;
    if (aw__load_acquire(&rt->closing) == AW__CLOSING_FINALLY) return -ESHUTDOWN;
    if (!rt->embedded.used) return -EINVAL;
    if (!aw__rt_own(rt)) return -EBUSY;
    aw__rt_run_once(rt);
    aw__rt_disown(rt);
    return 0;
}

void aw__embedded_end(aw_runtime *rt) {
    if (!rt->embedded.used) return;
    close(rt->embedded.timer);
    close(rt->embedded.epoll);
    rt->embedded.used = false;
}
