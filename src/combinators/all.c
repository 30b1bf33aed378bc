/* SPDX-License-Identifier: MIT
 *
 * join_all, try_join_all and select_all: the same walk as in core/group.c, over an array. Above
 * POLL_ALL children each has a waker of its own (wakeset.h), so that a wake costs one poll and not n;
 * without memory for those, all are polled each time.
 *
 * For the wakeset the walk runs over the woken ones only. When the array begins to be cancelled, from
 * outside or because it is decided, all of them are woken once. */
#include <awake/all.h>

#include <errno.h>

#include "combinators/wakeset.h"
#include "core/alloc.h"

enum { POLL_ALL = 30 };
enum { BEGUN = 1, DECIDED = 2, DOWN = 4 }; /* flags; DOWN: the children are being cancelled */

static aw_future *child_at(const aw_all *a, size_t i) {
    return (aw_future *)(void *)(a->base + i * a->stride);
}

aw_all aw_all_of(const aw_future_type *kind, aw_future *first, size_t stride, size_t count) {
    return (aw_all){
        .future = AW_FUTURE_INIT(kind), .base = (char *)first, .stride = stride, .count = count};
}

/* The end of child i. */
static void child_ended(aw_all *a, size_t i, aw_poll answer) {
    a->ended++;
    if (answer != AW_READY || a->flags & DECIDED) return;
    const aw_future_type *kind = a->future.type;
    int error = kind == &aw_try_join_all_type ? aw_future_error(child_at(a, i)) : 0;
    if (kind == &aw_select_all_type || error) {
        /* An error from a cancelled child only counts when all finished: see all_cancel. */
        if (error && aw_future_cancelling(&a->future)) return;
        a->flags |= DECIDED;
        a->winner = i;
        a->out = error;
    }
}

/* Poll or cancel child i, as things stand. */
static void visit(aw_all *a, size_t i, aw_cx *cx) {
    aw_future *child = child_at(a, i);
    if (aw_future_ended(child)) return;
    aw_poll r = a->flags & DOWN ? aw_future_cancel(child, cx) : aw_future_poll(child, cx);
    if (r != AW_PENDING) child_ended(a, i, r);
}

static void begin(aw_all *a, aw_cx *cx, bool cancel) {
    if (a->flags & BEGUN) return;
    a->flags |= BEGUN;
    /* One that was awaited before, by itself, is done. */
    for (size_t i = 0; i < a->count; i++)
        if (aw_future_ended(child_at(a, i)))
            child_ended(a, i, aw_future_finished(child_at(a, i)) ? AW_READY : AW_CANCELLED);
    /* Unstarted children are cancelled at once: no wakers are needed for them. */
    if (cancel || a->count <= POLL_ALL || a->count > UINT32_MAX) return;
    a->wakes = aw__wakeset_new(aw__allocator_for(cx->runtime), (uint32_t)a->count, 0);
    for (size_t i = 0; a->wakes && i < a->count; i++)
        aw__wakeset_add(a->wakes, (uint32_t)i);
}

/* One walk. Begins with another child each time, so that a greedy one starves nobody. */
static void walk(aw_all *a, aw_cx *cx) {
    begin(a, cx, false);
    if (a->wakes) {
        aw__wakeset_poll p;
        int64_t i;
        aw__wakeset_begin(a->wakes, &p, cx);
        /* Without budget the others would only ask to be polled again: leave them in the list. */
        while ((a->flags & DOWN || p.cx.meter->budget) && (i = aw__wakeset_next(&p)) >= 0) {
            visit(a, (size_t)i, &p.cx);
            if (a->flags & DECIDED && !(a->flags & DOWN)) break;
        }
        aw__wakeset_end(&p, a->flags & DECIDED && !(a->flags & DOWN) ? 0 : a->count - a->ended,
                        &a->future);
    } else {
        size_t first = a->count ? a->walk++ % a->count : 0;
        for (size_t k = 0; k < a->count; k++) {
            visit(a, (first + k) % a->count, cx);
            if (a->flags & DECIDED && !(a->flags & DOWN)) break;
        }
    }
}

/* From now on the children are cancelled: all of them have to be visited once more. */
static void go_down(aw_all *a) {
    if (a->flags & DOWN) return;
    a->flags |= DOWN;
    for (size_t i = 0; a->wakes && i < a->count; i++)
        if (!aw_future_ended(child_at(a, i))) aw__wakeset_add(a->wakes, (uint32_t)i);
}

static void drop_wakes(aw_all *a, aw_cx *cx) {
    if (!a->wakes) return;
    aw__wakeset_disarm(a->wakes, cx);
    aw__wakeset_drop(a->wakes);
    a->wakes = NULL;
}

static void discard_finished(aw_all *a, size_t except) {
    for (size_t i = 0; i < a->count; i++)
        if (i != except && aw_future_finished(child_at(a, i))) aw_future_discard(child_at(a, i));
}

/* All have ended, and the result stands. */
static aw_poll finish(aw_all *a, aw_cx *cx) {
    drop_wakes(a, cx);
    if (a->future.type == &aw_select_all_type) {
        a->out = a->count ? (int)a->winner : -EINVAL;
        a->walk = 0;
    } else if (a->flags & DECIDED) {
        discard_finished(a, a->winner);
    }
    return AW_READY;
}

static aw_poll all_poll(aw_future *self, aw_cx *cx) {
    aw_all *a = (aw_all *)self;
    walk(a, cx);
    if (a->flags & DECIDED && !(a->flags & DOWN)) {
        go_down(a);
        walk(a, cx);
    }
    return a->ended == a->count ? finish(a, cx) : AW_PENDING;
}

static bool any_gone(const aw_all *a) {
    for (size_t i = 0; i < a->count; i++)
        if (aw__life(child_at(a, i)) == AW__GONE) return true;
    return false;
}

/* The first error among children that all finished while they were being cancelled. */
static void find_error(aw_all *a) {
    for (size_t i = 0; i < a->count && !(a->flags & DECIDED); i++) {
        a->out = aw_future_error(child_at(a, i));
        if (!a->out) continue;
        a->flags |= DECIDED;
        a->winner = i;
    }
}

static aw_poll all_cancel(aw_future *self, aw_cx *cx) {
    aw_all *a = (aw_all *)self;
    bool started = aw_future_started(self), select = self->type == &aw_select_all_type;
    begin(a, cx, true);
    bool decided = a->flags & DECIDED && !select;
    go_down(a);
    walk(a, cx);
    if (a->ended < a->count) return AW_PENDING;
    if (started && select && a->flags & DECIDED) return finish(a, cx);
    if (started && !select && (decided || !any_gone(a))) {
        if (self->type == &aw_try_join_all_type) find_error(a);
        return finish(a, cx);
    }
    drop_wakes(a, cx);
    discard_finished(a, SIZE_MAX);
    return AW_CANCELLED;
}

static void all_discard(aw_future *self) {
    aw_all *a = (aw_all *)self;
    ptrdiff_t i;
    if (self->type == &aw_select_all_type)
        while ((i = aw_select_all_next(a)) >= 0)
            aw_future_discard(child_at(a, (size_t)i));
    else if (!(a->flags & DECIDED))
        discard_finished(a, SIZE_MAX);
}

static const aw_future *all_child(const aw_future *self, size_t n) {
    const aw_all *a = (const aw_all *)self;
    for (size_t i = 0; i < a->count; i++)
        if (!aw_future_ended(child_at(a, i)) && n-- == 0) return child_at(a, i);
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
        if (aw_future_finished(child_at(a, a->walk))) return (ptrdiff_t)a->walk++;
    return -1;
}

ptrdiff_t aw_select_all_winner(aw_all *a) {
    if (a->out < 0) return -1;
    ptrdiff_t i;
    while ((i = aw_select_all_next(a)) >= 0)
        if (i != a->out) aw_future_discard(child_at(a, (size_t)i));
    return a->out;
}
