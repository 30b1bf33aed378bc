/* SPDX-License-Identifier: MIT
 *
 * Task-local values: a short list in the task. */
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

static aw__task *current(void) {
    return aw__thread.running ? aw__thread.running->current : NULL;
}

static struct aw__local **find(aw__task *t, const aw_local *key) {
    struct aw__local **at = &t->locals;
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

static void release(aw__task *t, struct aw__local **at) {
    struct aw__local *l = *at;
    *at = l->next;
    if (l->release) l->release(l->value);
    aw__release(t->rt->allocator, l, sizeof *l);
}

void aw__locals_release(aw__task *t) {
    while (t->locals)
        release(t, &t->locals);
}

int aw_local_set(aw_local *key, void *value, void (*release_value)(void *value)) {
    aw__task *t = current();
    if (!t) return -ENXIO;
    struct aw__local *l = NULL;
    if (value) {
        l = aw__alloc(t->rt->allocator, sizeof *l);
        if (!l) return -ENOMEM;
        *l = (struct aw__local){key, value, release_value, NULL};
    }
    struct aw__local **at = find(t, key);
    if (*at) release(t, at);
    if (l) {
        l->next = t->locals;
        t->locals = l;
    }
    return 0;
}

void *aw_local_get(const aw_local *key) {
    aw__task *t = current();
    struct aw__local *l = t ? *find(t, key) : NULL;
    return l ? l->value : NULL;
}
