/* SPDX-License-Identifier: MIT */
#include "driver/driver.h"

#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "io/fd.h"
#include "os/fork.h"
#include "os/park.h"

const aw__driver_type *aw__driver_named(const char *name) {
    static const aw__driver_type *const types[] = {&aw__uring_driver, &aw__epoll_driver,
                                                   &aw__poll_driver};
    if (!name || !*name) return types[0];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i]->name) == 0) return types[i];
    return NULL;
}

void aw__driver_keep(aw__driver *d) {
    aw__fetch_add_relaxed(&d->refs, 1u);
}

void aw__driver_let_go(aw__driver *d) {
    if (aw__fetch_sub(&d->refs, 1u) != 1) return;
    d->type->close(d);
    if (d->entries) aw__release(d->allocator, d->entries, d->capacity * sizeof *d->entries);
    aw__release(d->allocator, d, d->type->size);
}

int aw__driver_open(aw__driver **out, const aw__driver_type *type, const aw_allocator *allocator,
                    const uint64_t *owner) {
    aw__driver *d = aw__alloc(allocator, type->size);
    if (!d) return -ENOMEM;
    memset(d, 0, type->size);
    d->type = type;
    d->allocator = allocator;
    d->owner = owner;
    d->refs = 1;
    d->generation = aw__fork_generation;
    int error = type->open(d);
    if (error)
        aw__release(allocator, d, type->size);
    else
        *out = d;
    return error;
}

/* ---- The table -------------------------------------------------------------------------------- */

static int grow(aw__driver *d) {
    uint32_t capacity = d->capacity ? 2 * d->capacity : 16;
    aw__driver_entry *entries = aw__alloc(d->allocator, capacity * sizeof *entries);
    if (!entries) return -ENOMEM;
    if (d->entries) {
        memcpy(entries, d->entries, d->capacity * sizeof *entries);
        aw__release(d->allocator, d->entries, d->capacity * sizeof *entries);
    }
    for (uint32_t i = d->capacity; i < capacity; i++)
        entries[i] = (aw__driver_entry){NULL, 0, i + 1 < capacity ? i + 2 : 0};
    d->free = d->capacity + 1;
    d->entries = entries;
    d->capacity = capacity;
    return 0;
}

int aw__driver_add(aw__driver *d, struct aw__fd *f, int fd, uint32_t *index) {
    aw__lock(&d->lock);
    int error = d->closed ? -ESHUTDOWN : d->free ? 0 : grow(d);
    if (!error) error = d->type->add(d, fd, d->free - 1, d->entries[d->free - 1].age);
    if (!error) {
        aw__driver_entry *e = &d->entries[ *index = d->free - 1];
        d->free = e->next;
        e->fd = f;
        aw__driver_keep(d);
    }
    aw__unlock(&d->lock);
    return error;
}

void aw__driver_remove(aw__driver *d, int fd, uint32_t index) {
    if (AW__UNLIKELY(d->generation != aw__fork_generation)) return;
    aw__lock(&d->lock);
    aw__driver_entry *e = &d->entries[index];
    d->type->remove(d, fd, index);
    e->fd = NULL;
    e->age++;
    e->next = d->free;
    d->free = index + 1;
    aw__unlock(&d->lock);
    aw__driver_let_go(d);
}

/* ---- Events ----------------------------------------------------------------------------------- */

/* Under the lock. */
static aw__fd *find(aw__driver *d, const aw__event *e) {
    aw__fd *f = NULL;
    if (e->index < d->capacity && d->entries[e->index].age == e->age) f = d->entries[e->index].fd;
    return f && aw__fd_try_keep(f) ? f : NULL;
}

/* All are found before the first is told: the lock is taken once. */
static void tell_ready(aw__driver *d, const aw__event *events, int count) {
    aw__fd *found[AW__EVENTS];
    aw__lock(&d->lock);
    for (int i = 0; i < count; i++)
        found[i] = find(d, &events[i]);
    aw__unlock(&d->lock);
    for (int i = 0; i < count; i++)
        if (found[i]) {
            aw__fd_ready(found[i], events[i].ready);
            aw__fd_let_go(found[i]);
        }
}

void aw__driver_tell(aw__driver *d, const aw__event *events, int count) {
    if (count) aw__fetch_add_relaxed(&d->counters.events, (uint64_t)count);
    if (!d->type->submit) {
        if (count) tell_ready(d, events, count);
        return;
    }
    for (int i = 0; i < count; i++)
        aw__fd_came_back(events[i].op, events[i].result);
}

void aw__driver_turn(aw__driver *d) {
    aw__event events[AW__EVENTS];
    aw__driver_tell(d, events, d->type->collect(d, events, 0));
}

void aw__driver_close(aw__driver *d) {
    aw__lock(&d->lock);
    aw__store_relaxed(&d->closed, true);
    for (uint32_t i = 0; i < d->capacity; i++) {
        aw__fd *f = d->entries[i].fd;
        if (!f || !aw__fd_try_keep(f)) continue;
        aw__unlock(&d->lock);
        aw__fd_orphan(f);
        aw__fd_let_go(f);
        aw__lock(&d->lock);
    }
    aw__unlock(&d->lock);
    if (!d->type->drain || d->generation != aw__fork_generation) return;
    d->type->drain(d);
    /* Who was asking for an operation when it came back is about to let go, and looks first whose the driver is. */
    while (aw__load_acquire(&d->refs) > 1)
        aw__os_yield();
}

void aw__driver_free(aw__driver *d) {
    aw__driver_let_go(d);
}
