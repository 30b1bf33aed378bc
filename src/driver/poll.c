/* SPDX-License-Identifier: MIT
 *
 * poll(2): for where there is nothing better. It tells again and again what is ready, so a direction is asked for only
 * while somebody waits (`want`), and told once. Each sleep looks at all descriptors. A pipe ends a sleep: with it the
 * set is made anew. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "driver/driver.h"
#include "io/here.h"
#include "os/park.h"

struct watched {
    int fd; /* -1: free */
    uint32_t age, wanted;
};

typedef struct poll_driver {
    aw__driver driver;
    int wake[2];
    /* Under the driver's lock. */
    struct watched *watched;
    uint32_t capacity;
} poll_driver;

static int poll_open(aw__driver *d) {
    return pipe2(((poll_driver *)d)->wake, O_CLOEXEC | O_NONBLOCK) ? -errno : 0;
}

static void poll_close(aw__driver *d) {
    poll_driver *p = (poll_driver *)d;
    close(p->wake[0]);
    close(p->wake[1]);
    if (p->watched) aw__release(d->allocator, p->watched, p->capacity * sizeof *p->watched);
    p->watched = NULL;
    p->capacity = 0;
}

static void poll_interrupt(aw__driver *d) {
    int saved = errno;
    ssize_t n = write(((poll_driver *)d)->wake[1], "", 1);
    (void)n; /* full is as good */
    errno = saved;
}

static int poll_add(aw__driver *d, int fd, uint32_t index, uint32_t age) {
    poll_driver *p = (poll_driver *)d;
    if (index >= p->capacity) {
        uint32_t capacity = d->capacity;
        struct watched *more = aw__alloc(d->allocator, capacity * sizeof *more);
        if (!more) return -ENOMEM;
        for (uint32_t i = 0; i < capacity; i++)
            more[i] = i < p->capacity ? p->watched[i] : (struct watched){-1, 0, 0};
        if (p->watched) aw__release(d->allocator, p->watched, p->capacity * sizeof *more);
        p->watched = more;
        p->capacity = capacity;
    }
    p->watched[index] = (struct watched){fd, age, 0};
    return 0;
}

static void poll_remove(aw__driver *d, int fd, uint32_t index) {
    (void)fd;
    ((poll_driver *)d)->watched[index].fd = -1;
    poll_interrupt(d);
}

static void poll_want(aw__driver *d, uint32_t index, uint32_t directions) {
    poll_driver *p = (poll_driver *)d;
    aw__lock(&d->lock);
    bool fresh = !d->closed && (p->watched[index].wanted & directions) != directions;
    if (fresh) {
        p->watched[index].wanted |= directions;
        aw__count_one(&d->counters.waits);
    }
    aw__unlock(&d->lock);
    if (fresh) poll_interrupt(d);
}

/* ---- Collecting ------------------------------------------------------------------------------- */

static short asked(uint32_t wanted) {
    return (short)((wanted & AW__READABLE ? POLLIN | POLLRDHUP | POLLPRI : 0) |
                   (wanted & AW__WRITABLE ? POLLOUT : 0));
}

/* Those that somebody waits for; `places` says where they are in the table. Under the lock. */
static nfds_t make_set(const poll_driver *p, struct pollfd *set, aw__event *places) {
    nfds_t n = 1;
    set[0] = (struct pollfd){p->wake[0], POLLIN, 0};
    for (uint32_t i = 0; i < p->capacity; i++) {
        const struct watched *w = &p->watched[i];
        if (w->fd < 0 || !w->wanted) continue;
        set[n] = (struct pollfd){w->fd, asked(w->wanted), 0};
        places[n++] = (aw__event){.index = i, .age = w->age, .ready = w->wanted | AW__MORE};
    }
    return n;
}

static int wait_for(struct pollfd *set, nfds_t n, uint64_t deadline) {
    if (deadline == UINT64_MAX) return ppoll(set, n, NULL, NULL);
    uint64_t now = deadline ? aw__os_now() : 0, left = deadline > now ? deadline - now : 0;
    struct timespec ts = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    return ppoll(set, n, &ts, NULL);
}

static void empty_pipe(const poll_driver *p) {
    char bytes[64];
    while (read(p->wake[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes)
        ;
}

/* What is told is not asked for any more. */
static bool tell_once(poll_driver *p, aw__event *e, short events) {
    uint32_t ready = 0;
    if (events & POLLIN) ready |= AW__READABLE;
    if (events & (POLLRDHUP | POLLPRI | POLLHUP | POLLERR | POLLNVAL))
        ready |= AW__READABLE | AW__MORE;
    if (events & (POLLOUT | POLLHUP | POLLERR | POLLNVAL)) ready |= AW__WRITABLE;
    ready &= e->ready;
    e->ready = ready;
    if (!(ready & AW__BOTH) || e->index >= p->capacity || p->watched[e->index].age != e->age)
        return false;
    p->watched[e->index].wanted &= ~ready;
    return true;
}

static int poll_collect(aw__driver *d, aw__event *events, uint64_t deadline) {
    poll_driver *p = (poll_driver *)d;
    int saved = errno, count = 0;
    aw__lock(&d->lock);
    uint32_t capacity = p->capacity;
    aw__unlock(&d->lock);
    size_t size = (capacity + 1) * (sizeof(struct pollfd) + sizeof(aw__event));
    struct pollfd *set = aw__alloc(d->allocator, size), only = {p->wake[0], POLLIN, 0};
    aw__event *places = set ? (aw__event *)(void *)(set + capacity + 1) : NULL;
    nfds_t n = 1;
    aw__lock(&d->lock);
    if (set && p->capacity == capacity) n = make_set(p, set, places);
    aw__unlock(&d->lock);
    if (n == 1 && set) *set = only;
    aw__count_call(d);
    int found = wait_for(set ? set : &only, n, deadline);
    /* Not by one who only looks: the owner may be about to sleep. */
    if (found > 0 && (set ? set : &only)[0].revents && (deadline || aw__driver_is_own(d)))
        empty_pipe(p);
    aw__lock(&d->lock);
    for (nfds_t i = 1; i < n && found > 0 && count < AW__EVENTS; i++)
        if (set[i].revents && tell_once(p, &places[i], set[i].revents)) events[count++] = places[i];
    aw__unlock(&d->lock);
    if (set) aw__release(d->allocator, set, size);
    errno = saved;
    return count;
}

const aw__driver_type aw__poll_driver = {
    .name = "poll",
    .size = sizeof(poll_driver),
    .open = poll_open,
    .close = poll_close,
    .add = poll_add,
    .remove = poll_remove,
    .want = poll_want,
    .collect = poll_collect,
    .interrupt = poll_interrupt,
};
