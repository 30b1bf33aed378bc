/* SPDX-License-Identifier: MIT
 *
 * Task-local values. Few tasks have any: the first one makes a list, which takes the place of the
 * task's `place`, marked by an odd address, and keeps that. It stays as long as the task does: who has
 * the handle may ask for the place, on any thread. */
#include <awake/local.h>

#include <errno.h>

#include "core/alloc.h"
#include "runtime/runtime.h"

struct aw__local {
    const aw_local *key;
    void *value;
    void (*release)(void *value);
    struct aw__local *next;
};

struct locals {
    const aw_place *place;
    struct aw__local *first;
};

/* NULL: it has none. By the owner; aw__place_of by any thread. */
static struct locals *locals_of(const aw__task *t) {
    return t->place & 1 ? (struct locals *)(t->place - 1) : NULL;
}

const aw_place *aw__place_of(const aw__task *t) {
    uintptr_t place = aw__load_acquire(&t->place);
    return place & 1 ? ((struct locals *)(place - 1))->place : (const aw_place *)place;
}

static struct locals *make_locals(aw__task *t) {
    struct locals *all = aw__alloc(aw__task_rt(t)->allocator, sizeof *all);
    if (!all) return NULL;
    *all = (struct locals){(const aw_place *)t->place, NULL};
    aw__store_release(&t->place, (uintptr_t)all + 1);
    return all;
}

void aw__locals_free(aw__task *t) {
    struct locals *all = locals_of(t);
    aw__release(aw__task_rt(t)->allocator, all, sizeof *all);
}

static struct aw__local **find(struct locals *all, const aw_local *key) {
    struct aw__local **at = &all->first;
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

static void release(aw__task *t, struct aw__local **at) {
    struct aw__local *l = *at;
    *at = l->next;
    if (l->release) l->release(l->value);
    aw__release(aw__task_rt(t)->allocator, l, sizeof *l);
}

void aw__locals_release(aw__task *t) {
    struct locals *all = locals_of(t);
    while (all->first)
        release(t, &all->first);
}

int aw_local_set(aw_local *key, void *value, void (*release_value)(void *value)) {
    aw__task *t = aw__current_task();
    if (!t) return -ENXIO;
    struct locals *all = locals_of(t);
    if (!all && !value) return 0;
    if (!all && !(all = make_locals(t))) return -ENOMEM;
    struct aw__local *l = NULL;
    if (value) {
        l = aw__alloc(aw__task_rt(t)->allocator, sizeof *l);
        if (!l) return -ENOMEM;
        *l = (struct aw__local){key, value, release_value, NULL};
    }
    struct aw__local **at = find(all, key);
    if (*at) release(t, at);
    if (l) {
        l->next = all->first;
        all->first = l;
    }
    return 0;
}

void *aw_local_get(const aw_local *key) {
    aw__task *t = aw__current_task();
    struct locals *all = t ? locals_of(t) : NULL;
    struct aw__local *l = all ? *find(all, key) : NULL;
    return l ? l->value : NULL;
}
