/* SPDX-License-Identifier: MIT
 *
 * Task-local values. Few tasks have any. The first value creates a list; its address plus one,
 * which is odd, replaces the task's `location`, and the list stores the location. The list lives as
 * long as the task: any thread that has the handle may read the location. */
#include <awake/task_local.h>

#include <errno.h>

#include "base/allocate.h"
#include "task/locals.h"
#include "task/runtime_state.h"

struct aw__local {
    const aw_local *key;
    void *value;
    void (*release)(void *value);
    struct aw__local *next;
};

struct locals {
    const aw_location *location;
    struct aw__local *first;
};

/* NULL: it has none. Only on the thread that polls the task; aw__location_of on any thread. */
static struct locals *locals_of(const aw__task *t) {
    return t->location & 1 ? (struct locals *)(t->location - 1) : NULL;
}

const aw_location *aw__location_of(const aw__task *t) {
    uintptr_t location = aw__load_acquire(&t->location);
    return location & 1 ? ((struct locals *)(location - 1))->location
                        : (const aw_location *)location;
}

static struct locals *locals_new(aw__task *t) {
    struct locals *all = aw__alloc(aw__task_rt(t)->base.allocator, sizeof *all);
    if (!all) return NULL;
    *all = (struct locals){(const aw_location *)t->location, NULL};
    aw__store_release(&t->location, (uintptr_t)all + 1);
    return all;
}

void aw__locals_free(aw__task *t) {
    struct locals *all = locals_of(t);
    aw__free(aw__task_rt(t)->base.allocator, all, sizeof *all);
}

static struct aw__local **local_find(struct locals *all, const aw_local *key) {
    struct aw__local **at = &all->first;
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

static void local_release(aw__task *t, struct aw__local **at) {
    struct aw__local *l = *at;
    *at = l->next;
    if (l->release) l->release(l->value);
    aw__free(aw__task_rt(t)->base.allocator, l, sizeof *l);
}

void aw__locals_release(aw__task *t) {
    struct locals *all = locals_of(t);
    while (all->first)
        local_release(t, &all->first);
}

int aw_local_set(aw_local *key, void *value, void (*release_value)(void *value)) {
    aw__task *t = aw__current_task();
    if (!t) return -ENXIO;
    struct locals *all = locals_of(t);
    if (!all && !value) return 0;
    if (!all && !(all = locals_new(t))) return -ENOMEM;
    struct aw__local *l = NULL;
    if (value) {
        l = aw__alloc(aw__task_rt(t)->base.allocator, sizeof *l);
        if (!l) return -ENOMEM;
        *l = (struct aw__local){key, value, release_value, NULL};
    }
    struct aw__local **at = local_find(all, key);
    if (*at) local_release(t, at);
    if (l) {
        l->next = all->first;
        all->first = l;
    }
    return 0;
}

void *aw_local_get(const aw_local *key) {
    aw__task *t = aw__current_task();
    struct locals *all = t ? locals_of(t) : NULL;
    struct aw__local *l = all ? *local_find(all, key) : NULL;
    return l ? l->value : NULL;
}
