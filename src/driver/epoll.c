/* SPDX-License-Identifier: MIT
 *
 * epoll: edge-triggered, both directions at once, so that a descriptor is registered and removed once in its life. An
 * eventfd, which is never read, ends a sleep: each write to it is one edge. It knows each number once: for who wants
 * to wait for one that another waits for already, it gets a second number (twin). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "driver/driver.h"
#include "io/here.h"
#include "os/park.h"

struct twin {
    int fd;
    uint32_t index; /* whose it is */
    struct twin *next;
};

typedef struct epoll_driver {
    aw__driver driver;
    int epoll, wake;
    struct twin *twins; /* under the table's lock */
} epoll_driver;

static const uint64_t WAKE = UINT64_MAX;

static int epoll_open(aw__driver *d) {
    epoll_driver *e = (epoll_driver *)d;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.u64 = WAKE}};
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (e->epoll < 0) return -errno;
    e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->wake >= 0 && epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->wake, &event) == 0) return 0;
    int error = -errno;
    if (e->wake >= 0) close(e->wake);
    close(e->epoll);
    return error;
}

static void epoll_close(aw__driver *d) {
    epoll_driver *e = (epoll_driver *)d;
    close(e->wake);
    close(e->epoll);
}

static int add_twin(epoll_driver *e, int fd, uint32_t index, struct epoll_event *event) {
    struct twin *t = aw__alloc(e->driver.allocator, sizeof *t);
    if (!t) return -ENOMEM;
    *t = (struct twin){fcntl(fd, F_DUPFD_CLOEXEC, 0), index, e->twins};
    if (t->fd >= 0 && epoll_ctl(e->epoll, EPOLL_CTL_ADD, t->fd, event) == 0) {
        e->twins = t;
        return 0;
    }
    int error = -errno;
    if (t->fd >= 0) close(t->fd);
    aw__release(e->driver.allocator, t, sizeof *t);
    return error;
}

static int epoll_add(aw__driver *d, int fd, uint32_t index, uint32_t age) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET,
                                .data = {.u64 = (uint64_t)age << 32 | index}};
    epoll_driver *e = (epoll_driver *)d;
    if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &event) == 0) return 0;
    return errno == EEXIST ? add_twin(e, fd, index, &event) : -errno;
}

static void epoll_remove(aw__driver *d, int fd, uint32_t index) {
    epoll_driver *e = (epoll_driver *)d;
    struct epoll_event unused = {0};
    struct twin **at = &e->twins, *t;
    while ((t = *at) && t->index != index)
        at = &t->next;
    epoll_ctl(e->epoll, EPOLL_CTL_DEL, t ? t->fd : fd, &unused);
    if (!t) return;
    *at = t->next;
    close(t->fd);
    aw__release(d->allocator, t, sizeof *t);
}

/* An error makes everything go on that waits: the call that follows says what it is. */
static uint32_t ready_of(uint32_t events) {
    uint32_t ready = 0;
    if (events & EPOLLIN) ready |= AW__READABLE;
    if (events & (EPOLLRDHUP | EPOLLPRI | EPOLLHUP | EPOLLERR)) ready |= AW__READABLE | AW__MORE;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) ready |= AW__WRITABLE;
    return ready;
}

static int wait_for(int epoll, struct epoll_event *events, uint64_t deadline) {
    if (deadline == 0) return epoll_wait(epoll, events, AW__EVENTS, 0);
    if (deadline == UINT64_MAX) return epoll_wait(epoll, events, AW__EVENTS, -1);
    uint64_t now = aw__os_now(), left = deadline > now ? deadline - now : 0;
    struct timespec ts = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    int n = epoll_pwait2(epoll, events, AW__EVENTS, &ts, NULL);
    if (n >= 0 || errno == EINTR) return n;  /* otherwise it is unknown, or forbidden */
    uint64_t ms = (left + 999999) / 1000000; /* never early */
    return epoll_wait(epoll, events, AW__EVENTS, ms < INT_MAX ? (int)ms : INT_MAX);
}

static void epoll_interrupt(aw__driver *d) {
    int saved = errno;
    eventfd_write(((epoll_driver *)d)->wake, 1);
    errno = saved;
}

static int epoll_collect(aw__driver *d, aw__event *events, uint64_t deadline) {
    struct epoll_event found[AW__EVENTS];
    bool woken = false;
    aw__count_call(d);
    int saved = errno, count = 0, n = wait_for(((epoll_driver *)d)->epoll, found, deadline);
    errno = saved; /* interrupted by a signal is as good as nothing found: the caller looks again */
    for (int i = 0; i < n; i++)
        if (found[i].data.u64 == WAKE)
            woken = true;
        else
            events[count++] = (aw__event){.index = (uint32_t)found[i].data.u64,
                                          .age = (uint32_t)(found[i].data.u64 >> 32),
                                          .ready = ready_of(found[i].events)};
    /* By one who only looks: the owner may be about to sleep. */
    if (woken && !deadline && !aw__driver_is_own(d)) epoll_interrupt(d);
    return count;
}

static int epoll_pollable(aw__driver *d) {
    return ((epoll_driver *)d)->epoll;
}

const aw__driver_type aw__epoll_driver = {
    .name = "epoll",
    .size = sizeof(epoll_driver),
    .open = epoll_open,
    .close = epoll_close,
    .add = epoll_add,
    .remove = epoll_remove,
    .collect = epoll_collect,
    .interrupt = epoll_interrupt,
    .pollable = epoll_pollable,
};
