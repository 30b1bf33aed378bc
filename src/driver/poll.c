/* SPDX-License-Identifier: MIT
 *
 * poll(2): for where there is nothing better. It tells again and again what is ready, so a direction is asked for only
 * while somebody waits (`want`), and told once. Each sleep looks at all descriptors. A pipe ends a sleep: with it the
 * set is made anew. Who sleeps must not do without a set: its room grows with the table. Who only looks takes room for
 * one, or sees nothing. */
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

/* What poll is asked, and behind it where that is in the table. */
struct set {
    struct pollfd *polled;
    aw__event *places;
    uint32_t capacity;
};

typedef struct poll_driver {
    aw__driver driver;
    int wake[2];
    /* Under the driver's lock. */
    struct watched *watched;
    uint32_t capacity;
    struct set spare; /* for who sleeps, who has it meanwhile */
    uint32_t asleep;  /* threads that are to be interrupted when their set is out of date */
} poll_driver;

static size_t set_size(uint32_t capacity) {
    return capacity * (sizeof(struct pollfd) + sizeof(aw__event));
}

/* Of as many descriptors, and the pipe. Without memory it has no room. */
static struct set set_new(const aw__driver *d, uint32_t descriptors) {
    struct set s = {.capacity = descriptors + 1};
    s.polled = aw__alloc(d->allocator, set_size(s.capacity));
    s.places = s.polled ? (aw__event *)(void *)(s.polled + s.capacity) : NULL;
    return s;
}

static void set_free(const aw__driver *d, struct set *s) {
    if (s->polled) aw__release(d->allocator, s->polled, set_size(s->capacity));
    s->polled = NULL;
}

static int poll_open(aw__driver *d) {
    poll_driver *p = (poll_driver *)d;
    p->spare = set_new(d, 0);
    if (!p->spare.polled) return -ENOMEM;
    if (pipe2(p->wake, O_CLOEXEC | O_NONBLOCK) == 0) return 0;
    int error = -errno;
    set_free(d, &p->spare);
    return error;
}

static void poll_close(aw__driver *d) {
    poll_driver *p = (poll_driver *)d;
    close(p->wake[0]);
    close(p->wake[1]);
    if (p->watched) aw__release(d->allocator, p->watched, p->capacity * sizeof *p->watched);
    set_free(d, &p->spare);
    p->watched = NULL;
    p->capacity = 0;
}

static void poll_interrupt(aw__driver *d) {
    int saved = errno;
    while (write(((poll_driver *)d)->wake[1], "", 1) < 0 && errno == EINTR)
        ;
    errno = saved; /* full is as good */
}

static int poll_add(aw__driver *d, int fd, uint32_t index, uint32_t age) {
    poll_driver *p = (poll_driver *)d;
    if (index >= p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : d->table.count; /* indices are dense */
        struct watched *more = aw__alloc(d->allocator, capacity * sizeof *more);
        if (!more) return -ENOMEM;
        struct set set = set_new(d, capacity);
        if (!set.polled) {
            aw__release(d->allocator, more, capacity * sizeof *more);
            return -ENOMEM;
        }
        set_free(d, &p->spare);
        p->spare = set;
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
    poll_driver *p = (poll_driver *)d;
    (void)fd;
    p->watched[index].fd = -1;
    if (p->asleep) poll_interrupt(d);
}

static void poll_want(aw__driver *d, uint32_t index, uint32_t directions) {
    poll_driver *p = (poll_driver *)d;
    aw__lock(&d->lock);
    bool fresh = !d->closed && (p->watched[index].wanted & directions) != directions;
    if (fresh) {
        p->watched[index].wanted |= directions;
        aw__count_one(&d->counters.waits);
    }
    bool asleep = p->asleep;
    aw__unlock(&d->lock);
    if (fresh && asleep) poll_interrupt(d);
}

/* ---- Collecting ------------------------------------------------------------------------------- */

static short asked(uint32_t wanted) {
    return (short)((wanted & AW__READABLE ? POLLIN | POLLRDHUP | POLLPRI : 0) |
                   (wanted & AW__WRITABLE ? POLLOUT : 0));
}

/* Those that somebody waits for. Under the lock. */
static nfds_t set_fill(const poll_driver *p, const struct set *set) {
    nfds_t n = 1;
    set->polled[0] = (struct pollfd){p->wake[0], POLLIN, 0};
    for (uint32_t i = 0; i < p->capacity; i++) {
        const struct watched *w = &p->watched[i];
        if (w->fd < 0 || !w->wanted) continue;
        if (n == set->capacity) break; /* it has grown: who looks again sees the rest */
        set->polled[n] = (struct pollfd){w->fd, asked(w->wanted), 0};
        set->places[n++] = (aw__event){.index = i, .age = w->age, .ready = w->wanted | AW__MORE};
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

/* The room of who sleeps has grown with the table, or it is with another who does: then this one only looks. */
static struct set take_set(poll_driver *p, bool sleeps) {
    aw__lock(&p->driver.lock);
    uint32_t capacity = p->capacity;
    struct set set = p->spare;
    if (sleeps) p->spare.polled = NULL;
    aw__unlock(&p->driver.lock);
    return sleeps && set.polled ? set : set_new(&p->driver, capacity);
}

/* Under the lock. */
static void give_set(poll_driver *p, struct set *set) {
    if (!p->spare.polled && set->capacity > p->capacity)
        p->spare = *set;
    else
        set_free(&p->driver, set);
}

static int poll_collect(aw__driver *d, aw__event *events, uint64_t deadline) {
    poll_driver *p = (poll_driver *)d;
    int saved = errno, count = 0;
    struct set set = take_set(p, deadline);
    if (!set.polled) return 0;
    aw__lock(&d->lock);
    nfds_t n = set_fill(p, &set);
    if (p->capacity >= set.capacity)
        deadline = 0; /* the table has grown: do not sleep without the rest */
    p->asleep += deadline != 0;
    aw__unlock(&d->lock);
    aw__count_call(d);
    int found = wait_for(set.polled, n, deadline);
    /* Not by one who only looks: the owner may be about to sleep. */
    if (found > 0 && set.polled[0].revents && (deadline || aw__driver_is_own(d))) empty_pipe(p);
    aw__lock(&d->lock);
    p->asleep -= deadline != 0;
    for (nfds_t i = 1; i < n && found > 0 && count < AW__EVENTS; i++)
        if (set.polled[i].revents && tell_once(p, &set.places[i], set.polled[i].revents))
            events[count++] = set.places[i];
    give_set(p, &set);
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
    .interrupt = poll_interrupt,
};
