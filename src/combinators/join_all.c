/* SPDX-License-Identifier: MIT
 *
 * join_all, try_join_all and select_all: the walk of future/group.c, over an array. Above POLL_ALL
 * children, each child has its own waker (wakeset.h), so that a wake costs one poll instead of n.
 * Without memory for the wakers, each poll polls all children.
 *
 * With a wakeset, the walk visits only woken children. When cancelling begins, because the future
 * is cancelled or its result is decided, all children are marked woken once. */
#include <awake/join_all.h>

#include <errno.h>

#include "base/allocate.h"
#include "combinators/wakeset.h"
#include "context/context.h"

enum { POLL_ALL = 30 };
enum { ALL_BEGUN = 1, ALL_DECIDED = 2, ALL_CANCELLING = 4 }; /* flags */

static aw_future *all_child_at(const aw_all *a, size_t i) {
    return (aw_future *)(void *)(a->base + i * a->stride);
}

aw_all aw_all_of(const aw_future_type *kind, aw_future *first, size_t stride, size_t count) {
    return (aw_all){
        .future = AW_FUTURE_INIT(kind), .base = (char *)first, .stride = stride, .count = count};
}

/* Handles the end of child i. */
static void all_child_ended(aw_all *a, size_t i, aw_poll result) {
    a->ended++;
    if (result != AW_READY || a->flags & ALL_DECIDED) return;
    const aw_future_type *kind = a->future.type;
    int error = kind == &aw_try_join_all_type ? aw_future_error(all_child_at(a, i)) : 0;
    if (kind == &aw_select_all_type || error) {
        /* During a cancel, errors count only if all children finish: see all_cancel. */
        if (error && aw_future_cancelling(&a->future)) return;
        a->flags |= ALL_DECIDED;
        a->winner = i;
        a->out = error;
    }
}

/* Polls or cancels child i, unless it has ended. */
static void all_visit(aw_all *a, size_t i, aw_cx *cx) {
    aw_future *child = all_child_at(a, i);
    if (aw_future_ended(child)) return;
    aw_poll r = a->flags & ALL_CANCELLING ? aw_future_cancel(child, cx) : aw_future_poll(child, cx);
    if (r != AW_PENDING) all_child_ended(a, i, r);
}

static void all_begin(aw_all *a, aw_cx *cx, bool cancel) {
    if (a->flags & ALL_BEGUN) return;
    a->flags |= ALL_BEGUN;
    /* A child may have ended before: it was awaited on its own. */
    for (size_t i = 0; i < a->count; i++)
        if (aw_future_ended(all_child_at(a, i)))
            all_child_ended(a, i, aw_future_finished(all_child_at(a, i)) ? AW_READY : AW_CANCELLED);
    /* The cancel of an unstarted child is never pending: no wakers are needed. */
    if (cancel || a->count <= POLL_ALL || a->count > UINT32_MAX) return;
    a->wakes = aw__wakeset_new(aw__allocator_for(cx->runtime), (uint32_t)a->count, 0);
    for (size_t i = 0; a->wakes && i < a->count; i++)
        aw__wakeset_add(a->wakes, (uint32_t)i);
}

/* One walk. Without a wakeset it begins with another child each time, so that a busy child cannot
 * starve the rest. */
static void all_walk(aw_all *a, aw_cx *cx) {
    all_begin(a, cx, false);
    if (a->wakes) {
        aw__wakeset_poll p;
        int64_t i;
        aw__wakeset_begin(a->wakes, &p, cx);
        /* Without budget the remaining children would only wake themselves again: keep them in the
         * list. */
        while ((a->flags & ALL_CANCELLING || p.cx.meter->budget) &&
               (i = aw__wakeset_next(&p)) >= 0) {
            all_visit(a, (size_t)i, &p.cx);
            if (a->flags & ALL_DECIDED && !(a->flags & ALL_CANCELLING)) break;
        }
        aw__wakeset_end(
            &p, a->flags & ALL_DECIDED && !(a->flags & ALL_CANCELLING) ? 0 : a->count - a->ended,
            &a->future);
    } else {
        size_t first = a->count ? a->walk++ % a->count : 0;
        for (size_t k = 0; k < a->count; k++) {
            all_visit(a, (first + k) % a->count, cx);
            if (a->flags & ALL_DECIDED && !(a->flags & ALL_CANCELLING)) break;
        }
    }
}

/* From now on walks cancel the children: mark all of them woken once. */
static void all_begin_cancel(aw_all *a) {
    if (a->flags & ALL_CANCELLING) return;
    a->flags |= ALL_CANCELLING;
    for (size_t i = 0; a->wakes && i < a->count; i++)
        if (!aw_future_ended(all_child_at(a, i))) aw__wakeset_add(a->wakes, (uint32_t)i);
}

static void all_drop_wakes(aw_all *a, aw_cx *cx) {
    if (!a->wakes) return;
    aw__wakeset_disarm(a->wakes, cx);
    aw__wakeset_drop(a->wakes);
    a->wakes = NULL;
}

static void all_discard_finished(aw_all *a, size_t except) {
    for (size_t i = 0; i < a->count; i++)
        if (i != except && aw_future_finished(all_child_at(a, i)))
            aw_future_discard(all_child_at(a, i));
}

/* All children have ended, and the future finishes. */
static aw_poll all_finish(aw_all *a, aw_cx *cx) {
    all_drop_wakes(a, cx);
    if (a->future.type == &aw_select_all_type) {
        a->out = a->count ? (int)a->winner : -EINVAL;
        a->walk = 0;
    } else if (a->flags & ALL_DECIDED) {
        all_discard_finished(a, a->winner);
    }
    return AW_READY;
}

/* A select without budget cannot give each child a chance to win: it begins in the next poll. A
 * select that has begun is polled, because its children must get the waker of this poll. */
static bool all_must_not_begin(const aw_all *a, const aw_cx *cx) {
    return aw_cx_exhausted(cx) && !(a->flags & ALL_BEGUN) && a->future.type == &aw_select_all_type;
}

static aw_poll all_poll(aw_future *self, aw_cx *cx) {
    aw_all *a = (aw_all *)self;
    if (AW__UNLIKELY(all_must_not_begin(a, cx))) {
        aw_cx_spend(cx); /* wakes the task */
        return AW_PENDING;
    }
    all_walk(a, cx);
    if (a->flags & ALL_DECIDED && !(a->flags & ALL_CANCELLING)) {
        all_begin_cancel(a);
        all_walk(a, cx);
    }
    return a->ended == a->count ? all_finish(a, cx) : AW_PENDING;
}

static bool all_any_cancelled(const aw_all *a) {
    for (size_t i = 0; i < a->count; i++)
        if (aw__life(all_child_at(a, i)) == AW__GONE) return true;
    return false;
}

/* Finds the first error, when all children finished while they were being cancelled. */
static void all_find_error(aw_all *a) {
    for (size_t i = 0; i < a->count && !(a->flags & ALL_DECIDED); i++) {
        a->out = aw_future_error(all_child_at(a, i));
        if (!a->out) continue;
        a->flags |= ALL_DECIDED;
        a->winner = i;
    }
}

static aw_poll all_cancel(aw_future *self, aw_cx *cx) {
    aw_all *a = (aw_all *)self;
    bool started = aw_future_started(self), select = self->type == &aw_select_all_type;
    all_begin(a, cx, true);
    bool decided = a->flags & ALL_DECIDED && !select;
    all_begin_cancel(a);
    all_walk(a, cx);
    if (a->ended < a->count) return AW_PENDING;
    if (started && select && a->flags & ALL_DECIDED) return all_finish(a, cx);
    if (started && !select && (decided || !all_any_cancelled(a))) {
        if (self->type == &aw_try_join_all_type) all_find_error(a);
        return all_finish(a, cx);
    }
    all_drop_wakes(a, cx);
    all_discard_finished(a, SIZE_MAX);
    return AW_CANCELLED;
}

static void all_discard(aw_future *self) {
    aw_all *a = (aw_all *)self;
    ptrdiff_t i;
    if (self->type == &aw_select_all_type)
        while ((i = aw_select_all_next(a)) >= 0)
            aw_future_discard(all_child_at(a, (size_t)i));
    else if (!(a->flags & ALL_DECIDED))
        all_discard_finished(a, SIZE_MAX);
}

static const aw_future *all_child(const aw_future *self, size_t n) {
    const aw_all *a = (const aw_all *)self;
    for (size_t i = 0; i < a->count; i++)
        if (!aw_future_ended(all_child_at(a, i)) && n-- == 0) return all_child_at(a, i);
    return NULL;
}

#define ALL_TYPE(title, extra)                                                                     \
    {                                                                                              \
        .self_size = sizeof(aw_future_type), .name = title, .size = sizeof(aw_all),                \
        .out_offset = offsetof(aw_all, out), .out_size = sizeof(int), .flags = extra,              \
        .poll = all_poll, .cancel = all_cancel, .discard = all_discard, .child = all_child         \
    }

const aw_future_type aw_join_all_type = ALL_TYPE("join_all", AW_OUT_ERRNO);
const aw_future_type aw_try_join_all_type = ALL_TYPE("try_join_all", AW_OUT_ERRNO);
const aw_future_type aw_select_all_type = ALL_TYPE("select_all", AW_OUT_ERRNO);

ptrdiff_t aw_select_all_next(aw_all *a) {
    for (; a->walk < a->count; a->walk++)
        if (aw_future_finished(all_child_at(a, a->walk))) return (ptrdiff_t)a->walk++;
    return -1;
}

ptrdiff_t aw_select_all_winner(aw_all *a) {
    if (a->out < 0) return -1;
    ptrdiff_t i;
    while ((i = aw_select_all_next(a)) >= 0)
        if (i != a->out) aw_future_discard(all_child_at(a, (size_t)i));
    return a->out;
}
