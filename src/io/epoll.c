/* SPDX-License-Identifier: MIT
 *
 * The epoll backend: edge-triggered, both directions at once, so that a descriptor is registered
 * and removed once in its life. A write to an eventfd ends a sleep. It is never read: each write
 * is one edge. An epoll set holds a descriptor number once. When a second aw__fd waits for the same
 * number, a duplicate (F_DUPFD) is registered. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/allocate.h"
#include "io/driver.h"
#include "io/driver_for_thread.h"
#include "os/park.h"

struct duplicate {
    int fd;
    uint32_t index; /* of the aw__fd that it stands for */
    struct duplicate *next;
};

typedef struct epoll_driver {
    aw__driver driver;
    int epoll, wake_fd;
    struct duplicate *duplicates; /* under the driver's lock */
} epoll_driver;

static const uint64_t WAKE_DATA = UINT64_MAX;

static int epoll_open(aw__driver *d) {
    epoll_driver *e = (epoll_driver *)d;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.u64 = WAKE_DATA}};
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (e->epoll < 0) return -errno;
    e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->wake_fd >= 0 && epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->wake_fd, &event) == 0) return 0;
    int error = -errno;
    if (e->wake_fd >= 0) close(e->wake_fd);
    close(e->epoll);
    return error;
}

static void epoll_close(aw__driver *d) {
    epoll_driver *e = (epoll_driver *)d;
    close(e->wake_fd);
    close(e->epoll);
}

static int add_duplicate(epoll_driver *e, int fd, uint32_t index, struct epoll_event *event) {
    struct duplicate *copy = aw__alloc(e->driver.allocator, sizeof *copy);
    if (!copy) return -ENOMEM;
    *copy = (struct duplicate){fcntl(fd, F_DUPFD_CLOEXEC, 0), index, e->duplicates};
    if (copy->fd >= 0 && epoll_ctl(e->epoll, EPOLL_CTL_ADD, copy->fd, event) == 0) {
        e->duplicates = copy;
        return 0;
    }
    int error = -errno;
    if (copy->fd >= 0) close(copy->fd);
    aw__free(e->driver.allocator, copy, sizeof *copy);
    return error;
}

static int epoll_add(aw__driver *d, int fd, uint32_t index, uint32_t age) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET,
                                .data = {.u64 = (uint64_t)age << 32 | index}};
    epoll_driver *e = (epoll_driver *)d;
    if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &event) == 0) return 0;
    return errno == EEXIST ? add_duplicate(e, fd, index, &event) : -errno;
}

static void epoll_remove(aw__driver *d, int fd, uint32_t index) {
    epoll_driver *e = (epoll_driver *)d;
    struct epoll_event unused = {0};
    struct duplicate **at = &e->duplicates, *copy;
    while ((copy = *at) && copy->index != index)
        at = &copy->next;
    epoll_ctl(e->epoll, EPOLL_CTL_DEL, copy ? copy->fd : fd, &unused);
    if (!copy) return;
    *at = copy->next;
    close(copy->fd);
    aw__free(d->allocator, copy, sizeof *copy);
}

/* An error lets all waiters retry; the call that follows returns it. */
static uint32_t ready_bits(uint32_t events) {
    uint32_t ready = 0;
    if (events & EPOLLIN) ready |= AW__READABLE;
    if (events & (EPOLLRDHUP | EPOLLPRI | EPOLLHUP | EPOLLERR)) ready |= AW__READABLE | AW__MORE;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) ready |= AW__WRITABLE;
    return ready;
}

static int epoll_wait_until(int epoll, struct epoll_event *events, uint64_t deadline) {
    if (deadline == 0) return epoll_wait(epoll, events, AW__EVENTS, 0);
    if (deadline == UINT64_MAX) return epoll_wait(epoll, events, AW__EVENTS, -1);
    uint64_t now = aw__os_now(), left = deadline > now ? deadline - now : 0;
    struct timespec ts = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    int n = epoll_pwait2(epoll, events, AW__EVENTS, &ts, NULL);
    if (n >= 0 || errno == EINTR) return n;  /* otherwise unknown to the kernel, or forbidden */
    uint64_t ms = (left + 999999) / 1000000; /* round up: never early */
    return epoll_wait(epoll, events, AW__EVENTS, ms < INT_MAX ? (int)ms : INT_MAX);
}

static void epoll_interrupt(aw__driver *d) {
    int saved = errno;
    eventfd_write(((epoll_driver *)d)->wake_fd, 1);
    errno = saved;
}

static int epoll_collect(aw__driver *d, aw__event *events, uint64_t deadline) {
    struct epoll_event found[AW__EVENTS];
    bool woken = false;
    aw__count_call(d);
    int saved = errno, count = 0, n = epoll_wait_until(((epoll_driver *)d)->epoll, found, deadline);
    errno = saved; /* EINTR counts as no event: the caller polls again */
    for (int i = 0; i < n; i++)
        if (found[i].data.u64 == WAKE_DATA)
            woken = true;
        else
            events[count++] = (aw__event){.index = (uint32_t)found[i].data.u64,
                                          .age = (uint32_t)(found[i].data.u64 >> 32),
                                          .ready = ready_bits(found[i].events)};
    /* A thread that did not sleep took the interrupt: the owner may be about to sleep. */
    if (woken && !deadline && !aw__driver_is_mine(d)) epoll_interrupt(d);
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
    .is_idle = aw__driver_is_unused,
    .interrupt = epoll_interrupt,
    .pollable = epoll_pollable,
};
