/* SPDX-License-Identifier: MIT */
#include "combinators/wakeset.h"

#include "core/alloc.h"
#include "core/lock.h"
#include "core/misuse.h"
#include "core/wake.h"

static const aw_waker_type child_waker_type;

/* ---- Memory ----------------------------------------------------------------------------------- */

static size_t extra_offset(uint32_t count) {
    size_t n = sizeof(aw__wakeset) + count * sizeof(aw__wakenode);
    return (n + 15) & ~(size_t)15;
}

aw__wakeset *aw__wakeset_new(const aw_allocator *a, uint32_t count, size_t extra) {
    size_t size = extra_offset(count) + extra;
    aw__wakeset *ws = aw__alloc(a, size);
    if (!ws) return NULL;
    *ws = (aw__wakeset){.refs = 1, .count = count, .allocator = a, .size = size};
    for (uint32_t i = 0; i < count; i++)
        ws->nodes[i] = (aw__wakenode){.set = ws, .index = i};
    return ws;
}

void *aw__wakeset_extra(aw__wakeset *ws) {
    return (char *)ws + extra_offset(ws->count);
}

static void drop_ref(aw__wakeset *ws) {
    if (aw__fetch_sub(&ws->refs, 1u) == 1) aw__release(ws->allocator, ws, ws->size);
}

void aw__wakeset_orphan(aw__wakeset *ws) {
    aw__lock(&ws->lock);
    ws->parent = (aw_waker){NULL, NULL};
    aw__unlock(&ws->lock);
}

void aw__wakeset_drop(aw__wakeset *ws) {
    aw__wakeset_orphan(ws);
    drop_ref(ws);
}

/* ---- Waking ----------------------------------------------------------------------------------- */

/* Under the lock. */
static void append(aw__wakeset *ws, aw__wakenode *n) {
    n->woken = true;
    n->next = NULL;
    if (ws->first)
        ws->last->next = n;
    else
        ws->first = n;
    ws->last = n;
}

void aw__wakeset_add(aw__wakeset *ws, uint32_t index) {
    aw__lock(&ws->lock);
    if (!ws->nodes[index].woken) append(ws, &ws->nodes[index]);
    aw__unlock(&ws->lock);
}

static void child_wake_by_ref(void *data) {
    aw__wakenode *n = data;
    aw__wakeset *ws = n->set;
    aw_waker later = {NULL, NULL};
    aw__lock(&ws->lock);
    if (!n->woken) {
        append(ws, n);
        if (ws->parent.type && !ws->polling) aw__wake_or_clone(&ws->parent, &later);
    }
    aw__unlock(&ws->lock);
    if (later.type) aw_waker_wake(later);
}

static aw_waker child_clone(void *data) {
    aw__wakenode *n = data;
    aw__fetch_add_relaxed(&n->set->refs, 1u);
    return (aw_waker){&child_waker_type, n};
}

static void child_drop(void *data) {
    drop_ref(((aw__wakenode *)data)->set);
}

static void child_wake(void *data) {
    child_wake_by_ref(data);
    child_drop(data);
}

static const aw_waker_type child_waker_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "child",
    .clone = child_clone,
    .wake = child_wake,
    .wake_by_ref = child_wake_by_ref,
    .drop = child_drop,
};

/* ---- Polling ---------------------------------------------------------------------------------- */

void aw__wakeset_begin(aw__wakeset *ws, aw__wakeset_poll *p, aw_cx *cx) {
    *p = (aw__wakeset_poll){
        .cx = {&p->waker, cx->runtime, cx->meter ? cx->meter : &p->meter},
        .ws = ws,
        .parent = cx,
        .meter = {.budget = UINT32_MAX},
    };
    p->armed_before = p->cx.meter->armed;
    aw__lock(&ws->lock);
    ws->parent = *cx->waker;
    ws->polling = true;
    p->list = ws->first;
    ws->first = ws->last = NULL;
    aw__unlock(&ws->lock);
}

int64_t aw__wakeset_next(aw__wakeset_poll *p) {
    aw__wakenode *n = p->list;
    if (!n) return -1;
    aw__lock(&p->ws->lock);
    p->list = n->next;
    n->woken = false; /* a wake from here on counts for the next poll */
    aw__unlock(&p->ws->lock);
    p->waker = (aw_waker){&child_waker_type, n};
    return n->index;
}

void aw__wakeset_disarm(aw__wakeset *ws, aw_cx *cx) {
    if (ws->held) aw_cx_disarm(cx);
    ws->held = false;
}

void aw__wakeset_end(aw__wakeset_poll *p, size_t pending, const char *name) {
    aw__wakeset *ws = p->ws;
    ws->armed += p->cx.meter->armed - p->armed_before;
    aw__lock(&ws->lock);
    ws->polling = false;
    if (p->list) { /* not all were polled: they stay in front */
        aw__wakenode *last = p->list;
        while (last->next)
            last = last->next;
        last->next = ws->first;
        if (!ws->first) ws->last = last;
        ws->first = p->list;
    }
    bool woken = ws->first != NULL;
    aw__unlock(&ws->lock);

    bool held = pending && aw__load_acquire(&ws->refs) > 1;
    if (held && !ws->held) aw_cx_arm(p->parent);
    if (!held) aw__wakeset_disarm(ws, p->parent);
    ws->held = held;
    if (!pending) return;
    if (woken)
        aw_waker_wake_by_ref(p->parent->waker);
    else if (!held && ws->armed <= 0 && !ws->reported) {
        ws->reported = true;
        aw_log(
            AW_LOG_PROBLEM,
            "lost wake-up: %s has %zu pending children and polls only those that were woken, but "
            "none of them keeps its waker: they can never run again",
            name, pending);
    }
}
