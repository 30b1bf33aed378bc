/* SPDX-License-Identifier: MIT
 *
 * Wakers for the children of a combinator: see wakeset.h. */
#include "combinators/wakeset.h"

#include "base/allocate.h"
#include "base/text.h"
#include "context/context.h"
#include "future/chain.h"
#include "future/child_waits.h"
#include "future/wake.h"
#include "os/lock.h"
#include "task/runtime_state.h"

static const aw_waker_type child_waker_type;

/* ---- Allocation ------------------------------------------------------------------------------ */

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

static void wakeset_unref(aw__wakeset *ws) {
    if (aw__fetch_sub(&ws->refs, 1u) == 1) aw__free(ws->allocator, ws, ws->size);
}

void aw__wakeset_orphan(aw__wakeset *ws) {
    aw__lock(&ws->lock);
    ws->parent = (aw_waker){NULL, NULL};
    aw__unlock(&ws->lock);
}

void aw__wakeset_drop(aw__wakeset *ws) {
    aw__wakeset_orphan(ws);
    wakeset_unref(ws);
}

/* ---- Waking ---------------------------------------------------------------------------------- */

/* Under the lock. */
static void wakeset_append(aw__wakeset *ws, aw__wakenode *n) {
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
    if (!ws->nodes[index].woken) wakeset_append(ws, &ws->nodes[index]);
    aw__unlock(&ws->lock);
}

bool aw__wakeset_wake_parent(aw__wakeset *ws) {
    aw_waker later = {NULL, NULL};
    aw__lock(&ws->lock);
    bool waits = ws->parent.type != NULL;
    if (waits) aw__wake_or_clone(&ws->parent, &later);
    aw__unlock(&ws->lock);
    if (later.type) aw_waker_wake(later);
    return waits;
}

static void child_wake_by_ref(void *data) {
    aw__wakenode *n = data;
    aw__wakeset *ws = n->set;
    aw_waker later = {NULL, NULL};
    aw__lock(&ws->lock);
    if (!n->woken) {
        wakeset_append(ws, n);
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
    wakeset_unref(((aw__wakenode *)data)->set);
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

/* ---- Polling --------------------------------------------------------------------------------- */

void aw__wakeset_begin(aw__wakeset *ws, aw__wakeset_poll *p, aw_cx *cx) {
    aw__wakeset_disarm(ws, cx);
    *p = (aw__wakeset_poll){
        .cx = {&p->waker, cx->runtime, &p->meter},
        .ws = ws,
        .parent = cx,
        .meter = aw__child_waits_meter(cx),
    };
    aw__lock(&ws->lock);
    ws->parent = *cx->waker;
    ws->polling = true;
    p->list = ws->first;
    p->last = ws->last;
    ws->first = ws->last = NULL;
    aw__unlock(&ws->lock);
}

int64_t aw__wakeset_next(aw__wakeset_poll *p) {
    aw__wakenode *n = p->list;
    if (!n) return -1;
    aw__lock(&p->ws->lock);
    p->list = n->next;
    n->woken = false; /* a wake from now on counts for the next poll */
    aw__unlock(&p->ws->lock);
    p->waker = (aw_waker){&child_waker_type, n};
    return n->index;
}

void aw__wakeset_disarm(aw__wakeset *ws, aw_cx *cx) {
    aw__child_waits_disarm(&ws->child_waits, &ws->parent, cx);
}

void aw__wakeset_end(aw__wakeset_poll *p, size_t pending, const aw_future *self) {
    aw__wakeset *ws = p->ws;
    aw__child_waits_add(&ws->child_waits, &p->meter, p->parent);
    if (p->parent->meter) p->parent->meter->budget = p->meter.budget;
    /* Read the count before the list: a clone that was consumed before has put its node on the list
     * first. */
    bool cloned = aw__load_acquire(&ws->refs) > 1;
    aw__lock(&ws->lock);
    ws->polling = false;
    if (p->list) { /* not polled in this poll: put them back in front */
        p->last->next = ws->first;
        if (!ws->first) ws->last = p->last;
        ws->first = p->list;
    }
    bool woken = ws->first != NULL;
    aw__unlock(&ws->lock);
    if (!pending) return;

    if (cloned || ws->child_waits.armed > 0)
        aw__child_waits_arm(&ws->child_waits, p->parent, cloned || ws->child_waits.outside > 0);
    if (woken) { /* poll again, but let other tasks run first */
        aw_cx_yield(p->parent);
    } else if (!ws->child_waits.counted_as && !ws->reported &&
               !p->meter.fail) { /* after AW_FAIL the task waits for its cancel */
        char chain[1024];
        aw__text text = {chain, sizeof chain, 0};
        ws->reported = true;
        aw__text_chain(&text, self->type->child(self, 0), 1);
        aw__text_trim(&text);
        aw__rt_log(
            p->parent->runtime, AW_LOG_PROBLEM,
            "lost wake-up: %s has %zu pending children and polls only those that were woken, "
            "but none of them keeps its waker: they can never run again; the first is\n%s",
            self->type->name, pending, chain);
    }
}
