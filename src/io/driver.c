/* SPDX-License-Identifier: MIT */
#include "io/driver.h"

#include <errno.h>
#include <string.h>

#include "base/allocate.h"
#include "io/fd.h"
#include "os/fork.h"
#include "os/lock.h"
#include "os/park.h"

const aw__driver_type *aw__driver_by_name(const char *name) {
    static const aw__driver_type *const types[] = {&aw__uring_driver, &aw__epoll_driver,
                                                   &aw__poll_driver};
    if (!name || !*name) return types[0];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i]->name) == 0) return types[i];
    return NULL;
}

void aw__driver_ref(aw__driver *d) {
    aw__fetch_add_relaxed(&d->refs, 1u);
}

void aw__driver_unref(aw__driver *d) {
    if (aw__fetch_sub(&d->refs, 1u) != 1) return;
    d->type->close(d);
    aw__slots_free(&d->table, d->allocator);
    aw__free(d->allocator, d, d->type->size);
}

static int open_driver(aw__driver **out, const aw__driver_type *type, const aw_allocator *allocator,
                       const uint64_t *owner, const aw__driver *primary) {
    aw__driver *d = aw__alloc(allocator, type->size);
    if (!d) return -ENOMEM;
    memset(d, 0, type->size);
    d->type = type;
    d->allocator = allocator;
    d->owner = owner;
    d->primary = primary;
    d->refs = 1;
    d->generation = aw__fork_generation;
    d->table.size = sizeof(aw__driver_entry);
    int error = type->open(d);
    if (error)
        aw__free(allocator, d, type->size);
    else
        *out = d;
    return error;
}

int aw__driver_open(aw__driver **out, const aw__driver_type *type, const aw_allocator *allocator,
                    const uint64_t *owner) {
    return open_driver(out, type, allocator, owner, NULL);
}

int aw__driver_open_shared(aw__driver **out, const aw__driver *primary) {
    return open_driver(out, primary->type, primary->allocator, NULL, primary);
}

/* ---- The table ------------------------------------------------------------------------------- */

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
            aw__driver_ref(d);
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
    aw__driver_unref(d);
}

bool aw__driver_is_unused(const aw__driver *d) {
    return aw__load_relaxed(&d->refs) == 1;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Under the lock. Takes a reference. */
static aw__fd *find_fd(aw__driver *d, const aw__event *e) {
    if (e->index >= d->table.count) return NULL;
    const aw__driver_entry *entry = aw__slot(&d->table, e->index);
    aw__fd *f = entry->age == e->age ? aw__slots_at(&d->table, e->index) : NULL;
    return f && aw__fd_try_ref(f) ? f : NULL;
}

/* Look up all descriptors before delivering, so that the lock is taken once. */
static void deliver_readiness(aw__driver *d, const aw__event *events, int count) {
    aw__fd *found[AW__EVENTS];
    aw__lock(&d->lock);
    for (int i = 0; i < count; i++)
        found[i] = find_fd(d, &events[i]);
    aw__unlock(&d->lock);
    for (int i = 0; i < count; i++)
        if (found[i]) {
            aw__fd_ready(found[i], events[i].ready);
            aw__fd_unref(found[i]);
        }
}

void aw__driver_deliver(aw__driver *d, const aw__event *events, int count) {
    if (count) aw__fetch_add_relaxed(&d->counters.events, (uint64_t)count);
    if (!d->type->submit) {
        if (count) deliver_readiness(d, events, count);
        return;
    }
    for (int i = 0; i < count; i++)
        aw__fd_complete(events[i].op, events[i].result, events[i].more);
}

int aw__driver_poll_until(aw__driver *d, uint64_t deadline) {
    aw__event events[AW__EVENTS];
    int count = d->type->collect(d, events, deadline);
    aw__driver_deliver(d, events, count);
    return count;
}

int aw__driver_poll(aw__driver *d) {
    return aw__driver_poll_until(d, 0);
}

/* No other thread is sure to poll a shared driver soon: also deliver what completed at once. If the
 * first poll found older completions, it did not reap those of its own submission; poll again. */
void aw__driver_flush(aw__driver *d) {
    if (!d->primary)
        d->type->flush(d);
    else if (aw__driver_poll(d))
        aw__driver_poll(d);
}

void aw__driver_close(aw__driver *d) {
    aw__lock(&d->lock);
    aw__store_relaxed(&d->closed, true);
    for (uint32_t i = 0; d->type->add && i < d->table.count; i++) {
        aw__fd *f = aw__slots_at(&d->table, i);
        if (!f || !aw__fd_try_ref(f)) continue;
        aw__unlock(&d->lock);
        aw__fd_driver_gone(f, d);
        aw__fd_unref(f);
        aw__lock(&d->lock);
    }
    aw__unlock(&d->lock);
    if (!d->type->drain || d->generation != aw__fork_generation) return;
    d->type->drain(d);
    /* A thread that requested a cancel may still hold a reference. It reads the driver's runtime
     * before it drops that (aw__driver_is_unattended). */
    while (aw__load_acquire(&d->refs) > 1)
        aw__os_yield();
}

void aw__driver_free(aw__driver *d) {
    aw__driver_unref(d);
}
