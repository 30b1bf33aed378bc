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
    aw__slots_free(&d->table, d->allocator);
    aw__release(d->allocator, d, d->type->size);
}

static int open_driver(aw__driver **out, const aw__driver_type *type, const aw_allocator *allocator,
                       const uint64_t *owner, const aw__driver *beside) {
    aw__driver *d = aw__alloc(allocator, type->size);
    if (!d) return -ENOMEM;
    memset(d, 0, type->size);
    d->type = type;
    d->allocator = allocator;
    d->owner = owner;
    d->beside = beside;
    d->refs = 1;
    d->generation = aw__fork_generation;
    d->table.size = sizeof(aw__driver_entry);
    int error = type->open(d);
    if (error)
        aw__release(allocator, d, type->size);
    else
        *out = d;
    return error;
}

int aw__driver_open(aw__driver **out, const aw__driver_type *type, const aw_allocator *allocator,
                    const uint64_t *owner) {
    return open_driver(out, type, allocator, owner, NULL);
}

int aw__driver_open_beside(aw__driver **out, const aw__driver *of) {
    return open_driver(out, of->type, of->allocator, NULL, of);
}

/* ---- The table -------------------------------------------------------------------------------- */

int aw__driver_add(aw__driver *d, struct aw__fd *f, int fd, uint32_t *index) {
    aw__lock(&d->lock);
    int error = d->closed ? -ESHUTDOWN : 0;
    if (!error && !aw__slots_put(&d->table, d->allocator, f, index)) error = -ENOMEM;
    if (!error) {
        const aw__driver_entry *e = aw__slot(&d->table, *index);
        error = d->type->add(d, fd, *index, e->age);
        if (error)
            aw__slots_take(&d->table, *index);
        else
            aw__driver_keep(d);
    }
    aw__unlock(&d->lock);
    return error;
}

void aw__driver_remove(aw__driver *d, int fd, uint32_t index) {
    if (AW__UNLIKELY(d->generation != aw__fork_generation)) return;
    aw__lock(&d->lock);
    aw__driver_entry *e = aw__slot(&d->table, index);
    d->type->remove(d, fd, index);
    e->age++;
    aw__slots_take(&d->table, index);
    aw__unlock(&d->lock);
    aw__driver_let_go(d);
}

/* ---- Events ----------------------------------------------------------------------------------- */

/* Under the lock. */
static aw__fd *find(aw__driver *d, const aw__event *e) {
    if (e->index >= d->table.count) return NULL;
    const aw__driver_entry *at = aw__slot(&d->table, e->index);
    aw__fd *f = at->age == e->age ? aw__slots_at(&d->table, e->index) : NULL;
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
        aw__fd_came_back(events[i].op, events[i].result, events[i].more);
}

int aw__driver_turn_until(aw__driver *d, uint64_t deadline) {
    aw__event events[AW__EVENTS];
    int count = d->type->collect(d, events, deadline);
    aw__driver_tell(d, events, count);
    return count;
}

int aw__driver_turn(aw__driver *d) {
    return aw__driver_turn_until(d, 0);
}

/* What could be done at once is told here, too, where nobody else is sure to look soon. If something was there before, what
 * came by handing over has not been looked at. */
void aw__driver_hand_over(aw__driver *d) {
    if (!d->beside)
        d->type->flush(d);
    else if (aw__driver_turn(d))
        aw__driver_turn(d);
}

void aw__driver_close(aw__driver *d) {
    aw__lock(&d->lock);
    aw__store_relaxed(&d->closed, true);
    for (uint32_t i = 0; d->type->add && i < d->table.count; i++) {
        aw__fd *f = aw__slots_at(&d->table, i);
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
