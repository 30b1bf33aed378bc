/* SPDX-License-Identifier: MIT
 *
 * Join, try_join and select over a fixed set of children, held by offset (the group is one struct
 * with its children in it) or by pointer. The life of each child is kept in the child, so a group
 * needs no bookkeeping of its own.
 *
 * All three are one walk over the children that have not ended, polling or cancelling each; they
 * differ in what they make of an end. Once a group is *decided* (a select has a winner, a try_join an
 * error) the rest is cancelled, and a cancel from outside changes nothing any more. */
#include <awake/group.h>

#include "core/misuse.h"

_Static_assert(offsetof(aw_group, left) == offsetof(struct aw__group, left), "one head");

static aw_future *child_at(const aw_future *self, unsigned i) {
    const struct aw__group *g = (const struct aw__group *)self;
    if (g->flags & AW__GROUP_REFS) return ((const aw_group *)(const void *)self)->child[i];
    return (aw_future *)(void *)((char *)(uintptr_t)self + g->at[i]);
}

aw_group aw__group_refs(const aw_future_type *type, unsigned flags, unsigned count,
                        aw_future *const *children) {
    aw_group g = {.future = AW_FUTURE_INIT(type), .flags = (uint8_t)flags, .count = (uint8_t)count};
    if (count > AW_GROUP_MAX) aw__misuse("a group of %u futures: at most %d", count, AW_GROUP_MAX);
    for (unsigned i = 0; i < count; i++)
        g.child[i] = children[i];
    return g;
}

/* What the end of child i means: true when it decides the group. */
typedef bool ended_fn(struct aw__group *g, unsigned i, aw_future *child);

/* Poll (or, once decided or cancelled from outside, cancel) every child that has not ended. */
static bool walk(struct aw__group *g, aw_cx *cx, bool cancel, ended_fn *ended) {
    bool pending = false;
    unsigned first = g->flags & AW__GROUP_BIASED || !g->count ? 0 : g->first++ % g->count;
    for (unsigned k = 0; k < g->count; k++) {
        unsigned i = first + k < g->count ? first + k : first + k - g->count;
        aw_future *child = child_at(&g->future, i);
        if (aw_future_ended(child)) continue;
        bool down = cancel || g->flags & AW__GROUP_DECIDED;
        aw_poll r = down ? aw_future_cancel(child, cx) : aw_future_poll(child, cx);
        if (r == AW_PENDING) {
            pending = true;
        } else if (r == AW_READY && ended && ended(g, i, child) &&
                   !(g->flags & AW__GROUP_DECIDED)) {
            g->flags |= AW__GROUP_DECIDED;
            g->winner = (uint8_t)i;
            /* Those that were polled before the winner in this walk have to be cancelled now. */
            if (!cancel) return walk(g, cx, false, ended);
        }
    }
    return !pending;
}

static bool any_gone(const struct aw__group *g) {
    for (unsigned i = 0; i < g->count; i++)
        if (aw__life(child_at(&g->future, i)) == AW__GONE) return true;
    return false;
}

static void discard_finished(struct aw__group *g, int except) {
    for (unsigned i = 0; i < g->count; i++) {
        aw_future *child = child_at(&g->future, i);
        if ((int)i != except && aw_future_finished(child)) aw_future_discard(child);
    }
}

static const aw_future *group_child(const aw_future *self, size_t n) {
    const struct aw__group *g = (const struct aw__group *)self;
    for (unsigned i = 0; i < g->count; i++) {
        const aw_future *child = child_at(self, i);
        if (!aw_future_ended(child) && n-- == 0) return child;
    }
    return NULL;
}

/* ---- join ------------------------------------------------------------------------------------- */

static aw_poll join_poll(aw_future *self, aw_cx *cx) {
    return walk((struct aw__group *)self, cx, false, NULL) ? AW_READY : AW_PENDING;
}

static aw_poll join_cancel(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    if (!walk(g, cx, true, NULL)) return AW_PENDING;
    if (aw_future_started(self) && !any_gone(g)) return AW_READY;
    discard_finished(g, -1);
    return AW_CANCELLED;
}

static void join_discard(aw_future *self) {
    discard_finished((struct aw__group *)self, -1);
}

const aw_future_type aw_join_type = {
    .self_size = sizeof(aw_future_type),
    .name = "join",
    .out_offset = offsetof(aw_group, out),
    .out_size = sizeof(int),
    .flags = AW_OUT_ERRNO,
    .poll = join_poll,
    .cancel = join_cancel,
    .discard = join_discard,
    .child = group_child,
};

/* ---- try_join --------------------------------------------------------------------------------- */

/* The first error is the answer. */
static bool try_join_ended(struct aw__group *g, unsigned i, aw_future *child) {
    (void)i;
    int error = aw_future_error(child);
    if (error && !g->out) g->out = error;
    return error != 0;
}

static aw_poll try_join_end(struct aw__group *g) {
    if (g->flags & AW__GROUP_DECIDED) discard_finished(g, g->winner);
    return AW_READY;
}

static aw_poll try_join_poll(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    return walk(g, cx, false, try_join_ended) ? try_join_end(g) : AW_PENDING;
}

static aw_poll try_join_cancel(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    bool decided = g->flags & AW__GROUP_DECIDED; /* before this cancel began */
    if (!walk(g, cx, true, decided ? try_join_ended : NULL)) return AW_PENDING;
    if (decided) return try_join_end(g);
    if (!aw_future_started(self) || any_gone(g)) {
        discard_finished(g, -1);
        return AW_CANCELLED;
    }
    /* All of them finished, one perhaps with an error. */
    for (unsigned i = 0; i < g->count; i++)
        if (try_join_ended(g, i, child_at(self, i)) && !(g->flags & AW__GROUP_DECIDED)) {
            g->flags |= AW__GROUP_DECIDED;
            g->winner = (uint8_t)i;
        }
    return try_join_end(g);
}

static void try_join_discard(aw_future *self) {
    struct aw__group *g = (struct aw__group *)self;
    if (!(g->flags & AW__GROUP_DECIDED)) discard_finished(g, -1);
}

const aw_future_type aw_try_join_type = {
    .self_size = sizeof(aw_future_type),
    .name = "try_join",
    .out_offset = offsetof(aw_group, out),
    .out_size = sizeof(int),
    .flags = AW_OUT_ERRNO,
    .poll = try_join_poll,
    .cancel = try_join_cancel,
    .discard = try_join_discard,
    .child = group_child,
};

/* ---- select ----------------------------------------------------------------------------------- */

static bool select_ended(struct aw__group *g, unsigned i, aw_future *child) {
    (void)child;
    g->out |= 1 << i;
    g->left |= 1u << i;
    return true;
}

static aw_poll select_poll(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    /* A select is usually made anew in each turn of a loop: begin anywhere. */
    if (!(g->flags & (AW__GROUP_POLLED | AW__GROUP_BIASED)) && g->count)
        g->first = (uint8_t)(aw_cx_random(cx) % g->count);
    g->flags |= AW__GROUP_POLLED;
    return walk(g, cx, false, select_ended) ? AW_READY : AW_PENDING;
}

static aw_poll select_cancel(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    if (!walk(g, cx, true, select_ended)) return AW_PENDING;
    if (aw_future_started(self) && g->out) return AW_READY;
    self->type->discard(self);
    return AW_CANCELLED;
}

static void select_discard(aw_future *self) {
    int i;
    while ((i = aw__select_next(self)) >= 0)
        aw_future_discard(child_at(self, (unsigned)i));
}

const aw_future_type aw_select_type = {
    .self_size = sizeof(aw_future_type),
    .name = "select",
    .out_offset = offsetof(aw_group, out),
    .out_size = sizeof(int),
    .poll = select_poll,
    .cancel = select_cancel,
    .discard = select_discard,
    .child = group_child,
};

int aw__select_next(aw_future *select) {
    struct aw__group *g = (struct aw__group *)select;
    if (!g->left) return -1;
    int i = __builtin_ctz(g->left);
    g->left &= g->left - 1;
    return i;
}

int aw__select_winner(aw_future *select) {
    struct aw__group *g = (struct aw__group *)select;
    if (!g->out) return -1;
    g->left &= ~(1u << g->winner);
    select_discard(select);
    return g->winner;
}
