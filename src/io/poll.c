/* SPDX-License-Identifier: MIT
 *
 * The poll(2) backend, where there is nothing better. poll is level-triggered, so a direction is
 * polled only while a waiter wants it (`want`), and reported once. Each sleep scans all
 * descriptors. A pipe ends a sleep, after which the set is rebuilt. A sleeping thread must not fail
 * for lack of memory: its set grows with the table. A thread that only polls allocates a set, and
 * without memory reports nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/allocate.h"
#include "io/driver.h"
#include "io/driver_for_thread.h"
#include "os/lock.h"
#include "os/park.h"

struct watched {
    int fd; /* -1: free */
    uint32_t age, wanted;
};

/* The argument of poll, and in parallel the events to report. */
struct poll_set {
    struct pollfd *polled;
    aw__event *entries;
    uint32_t capacity;
};

typedef struct poll_driver {
    aw__driver driver;
    int wake[2];
    /* Under the driver's lock. */
    struct watched *watched;
    uint32_t capacity;
    struct poll_set spare; /* for the sleeping thread, which has it meanwhile */
    uint32_t sleepers;     /* threads to interrupt when their set is out of date */
} poll_driver;

static size_t poll_set_size(uint32_t capacity) {
    return capacity * (sizeof(struct pollfd) + sizeof(aw__event));
}

/* For `descriptors` and the pipe. Out of memory: `polled` is NULL. */
static struct poll_set poll_set_new(const aw__driver *d, uint32_t descriptors) {
    struct poll_set s = {.capacity = descriptors + 1};
    s.polled = aw__alloc(d->allocator, poll_set_size(s.capacity));
    s.entries = s.polled ? (aw__event *)(void *)(s.polled + s.capacity) : NULL;
    return s;
}

static void poll_set_free(const aw__driver *d, struct poll_set *s) {
    if (s->polled) aw__free(d->allocator, s->polled, poll_set_size(s->capacity));
    s->polled = NULL;
}

static int poll_open(aw__driver *d) {
    poll_driver *p = (poll_driver *)d;
    p->spare = poll_set_new(d, 0);
    if (!p->spare.polled) return -ENOMEM;
    if (pipe2(p->wake, O_CLOEXEC | O_NONBLOCK) == 0) return 0;
    int error = -errno;
    poll_set_free(d, &p->spare);
    return error;
}

static void poll_close(aw__driver *d) {
    poll_driver *p = (poll_driver *)d;
    close(p->wake[0]);
    close(p->wake[1]);
    if (p->watched) aw__free(d->allocator, p->watched, p->capacity * sizeof *p->watched);
    poll_set_free(d, &p->spare);
    p->watched = NULL;
    p->capacity = 0;
}

static void poll_interrupt(aw__driver *d) {
    int saved = errno;
    while (write(((poll_driver *)d)->wake[1], "", 1) < 0 && errno == EINTR)
        ;
    errno = saved; /* a full pipe interrupts as well */
}

static int poll_add(aw__driver *d, int fd, uint32_t index, uint32_t age) {
    poll_driver *p = (poll_driver *)d;
    if (index >= p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : d->table.count; /* indices are dense */
        struct watched *more = aw__alloc(d->allocator, capacity * sizeof *more);
        if (!more) return -ENOMEM;
        struct poll_set set = poll_set_new(d, capacity);
        if (!set.polled) {
            aw__free(d->allocator, more, capacity * sizeof *more);
            return -ENOMEM;
        }
        poll_set_free(d, &p->spare);
        p->spare = set;
        for (uint32_t i = 0; i < capacity; i++)
            more[i] = i < p->capacity ? p->watched[i] : (struct watched){-1, 0, 0};
        if (p->watched) aw__free(d->allocator, p->watched, p->capacity * sizeof *more);
        p->watched = more;
        p->capacity = capacity;
    }
    p->watched[index] = (struct watched){fd, age, 0};
    return 0;
}

static void poll_remove(aw__driver *d, int fd, uint32_t index) {
    poll_driver *p = (poll_driver *)d;
    (void)fd;
    p->watched[index].fd = -1;
    if (p->sleepers) poll_interrupt(d);
}

static void poll_want(aw__driver *d, uint32_t index, uint32_t directions) {
    poll_driver *p = (poll_driver *)d;
    aw__lock(&d->lock);
    bool added = !d->closed && (p->watched[index].wanted & directions) != directions;
    if (added) {
        p->watched[index].wanted |= directions;
        aw__count_one(&d->counters.waits);
    }
    bool sleepers = p->sleepers;
    aw__unlock(&d->lock);
    if (added && sleepers) poll_interrupt(d);
}

/* ---- Collecting ------------------------------------------------------------------------------ */

static short poll_events_of(uint32_t wanted) {
    return (short)((wanted & AW__READABLE ? POLLIN | POLLRDHUP | POLLPRI : 0) |
                   (wanted & AW__WRITABLE ? POLLOUT : 0));
}

/* Under the lock: all descriptors with a waiter. */
static nfds_t poll_set_fill(const poll_driver *p, const struct poll_set *set) {
    nfds_t n = 1;
    set->polled[0] = (struct pollfd){p->wake[0], POLLIN, 0};
    for (uint32_t i = 0; i < p->capacity; i++) {
        const struct watched *w = &p->watched[i];
        if (w->fd < 0 || !w->wanted) continue;
        if (n == set->capacity) break; /* it has grown: the next collect has the rest */
        set->polled[n] = (struct pollfd){w->fd, poll_events_of(w->wanted), 0};
        set->entries[n++] = (aw__event){.index = i, .age = w->age, .ready = w->wanted | AW__MORE};
    }
    return n;
}

static int poll_wait_until(struct pollfd *set, nfds_t n, uint64_t deadline) {
    if (deadline == UINT64_MAX) return ppoll(set, n, NULL, NULL);
    uint64_t now = deadline ? aw__os_now() : 0, left = deadline > now ? deadline - now : 0;
    struct timespec ts = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    return ppoll(set, n, &ts, NULL);
}

static void drain_pipe(const poll_driver *p) {
    char bytes[64];
    while (read(p->wake[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes)
        ;
}

/* Under the lock: a reported direction is no longer wanted. False: nothing to report. */
static bool consume_event(poll_driver *p, aw__event *e, short events) {
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

/* A sleeping thread takes the spare set, which has grown with the table. It allocates one only if
 * another sleeping thread has the spare. */
static struct poll_set poll_set_take(poll_driver *p, bool sleeping) {
    aw__lock(&p->driver.lock);
    uint32_t capacity = p->capacity;
    struct poll_set set = p->spare;
    if (sleeping) p->spare.polled = NULL;
    aw__unlock(&p->driver.lock);
    return sleeping && set.polled ? set : poll_set_new(&p->driver, capacity);
}

/* Under the lock: becomes the spare set again, or is freed. */
static void poll_set_return(poll_driver *p, struct poll_set *set) {
    if (!p->spare.polled && set->capacity > p->capacity)
        p->spare = *set;
    else
        poll_set_free(&p->driver, set);
}

static int poll_collect(aw__driver *d, aw__event *events, uint64_t deadline) {
    poll_driver *p = (poll_driver *)d;
    int saved = errno, count = 0;
    struct poll_set set = poll_set_take(p, deadline);
    if (!set.polled) return 0;
    aw__lock(&d->lock);
    nfds_t n = poll_set_fill(p, &set);
    if (p->capacity >= set.capacity)
        deadline = 0; /* the table has grown: do not sleep without the rest */
    p->sleepers += deadline != 0;
    aw__unlock(&d->lock);
    aw__count_call(d);
    int found = poll_wait_until(set.polled, n, deadline);
    /* A thread that neither slept nor owns the driver leaves the pipe: the owner may be about to
     * sleep. */
    if (found > 0 && set.polled[0].revents && (deadline || aw__driver_is_mine(d))) drain_pipe(p);
    aw__lock(&d->lock);
    p->sleepers -= deadline != 0;
    for (nfds_t i = 1; i < n && found > 0 && count < AW__EVENTS; i++)
        if (set.polled[i].revents && consume_event(p, &set.entries[i], set.polled[i].revents))
            events[count++] = set.entries[i];
    poll_set_return(p, &set);
    aw__unlock(&d->lock);
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
    .is_idle = aw__driver_is_unused,
    .interrupt = poll_interrupt,
};
