/* SPDX-License-Identifier: MIT
 *
 * join, try_join and select over a fixed set of children. The children are members of the group's
 * struct, held by offset, or held by pointer. Each child records its own state, so the group keeps
 * none for it.
 *
 * A poll or cancel of a group is one walk over the children that have not ended, polling or
 * cancelling each. The three kinds differ only in what the end of a child means. A group is
 * *decided* when its result is known: a select has a winner, a try_join an error. From then on the
 * other children are cancelled, and a cancel of the group changes nothing.
 *
 * A select without budget is *starved*: a branch may be pending only because it has no budget, so
 * no branch below it may win. The select wakes itself and decides in the next poll. Until then it
 * starts no branch. It still polls branches that were started, because they must not keep the waker
 * of an earlier poll. A branch that finishes in such a poll is *held* until a walk with budget
 * reaches it. */
#include <awake/group.h>

#include "base/misuse.h"

_Static_assert(offsetof(aw_group, left) == offsetof(struct aw__group, left),
               "both begin with AW__GROUP_HEAD");

static aw_future *group_child_at(const aw_future *self, unsigned i) {
    const struct aw__group *g = (const struct aw__group *)self;
    if (g->flags & AW__GROUP_REFS) return ((const aw_group *)(const void *)self)->child[i];
    return (aw_future *)(void *)((char *)(uintptr_t)self + g->at[i]);
}

aw_group aw__group_refs(const aw_future_type *type, unsigned flags, aw_future *const *children,
                        unsigned count) {
    aw_group g = {.future = AW_FUTURE_INIT(type), .flags = (uint8_t)flags, .count = (uint8_t)count};
    if (count > AW_GROUP_MAX) aw__misuse("a group of %u futures: at most %d", count, AW_GROUP_MAX);
    for (unsigned i = 0; i < count; i++)
        g.child[i] = children[i];
    return g;
}

/* Handles the end of child i. True if that decides the group. */
typedef bool group_ended_fn(struct aw__group *g, unsigned i, aw_future *child);

static group_ended_fn select_ended;

/* The bit of `left` that is set while child i is held. It is above the bits of the finished
 * branches. */
static uint32_t held_bit(unsigned i) {
    return 1u << (AW_GROUP_MAX + i);
}

/* The k-th child of a walk that begins at `first`. */
static unsigned group_nth(const struct aw__group *g, unsigned first, unsigned k) {
    return first + k < g->count ? first + k : first + k - g->count;
}

/* Walks a starved select, from the k-th child on. True: all children had already ended. */
static AW__COLD bool group_walk_starved(struct aw__group *g, aw_cx *cx, unsigned first,
                                        unsigned k) {
    bool pending = k > 0;
    for (; k < g->count; k++) {
        unsigned i = group_nth(g, first, k);
        aw_future *child = group_child_at(&g->future, i);
        if (aw_future_ended(child) && !(g->left & held_bit(i))) continue;
        pending = true;
        if (aw_future_ended(child) || !aw_future_started(child)) continue;
        if (aw_future_poll(child, cx) == AW_READY) g->left |= held_bit(i);
    }
    if (pending) aw_cx_spend(cx); /* wakes the task */
    return !pending;
}

/* Polls every child that has not ended, or cancels it if the group is decided or being cancelled.
 * True: all have ended. */
static bool group_walk(struct aw__group *g, aw_cx *cx, bool cancel, group_ended_fn *ended) {
    bool pending = false;
    unsigned first = g->flags & AW__GROUP_BIASED || !g->count ? 0 : g->first++ % g->count;
    for (unsigned k = 0; k < g->count; k++) {
        unsigned i = group_nth(g, first, k);
        aw_future *child = group_child_at(&g->future, i);
        bool cancelling = cancel || g->flags & AW__GROUP_DECIDED;
        aw_poll r = AW_READY;
        if (!aw_future_ended(child))
            r = cancelling ? aw_future_cancel(child, cx) : aw_future_poll(child, cx);
        else if (AW__LIKELY(!(g->left & held_bit(i))))
            continue;
        else
            g->left &= ~held_bit(i);
        if (r == AW_PENDING) {
            pending = true;
            if (AW__UNLIKELY(aw_cx_exhausted(cx)) && ended == select_ended && !cancelling)
                return group_walk_starved(g, cx, first, k + 1);
        } else if (r == AW_READY && ended && ended(g, i, child) &&
                   !(g->flags & AW__GROUP_DECIDED)) {
            g->flags |= AW__GROUP_DECIDED;
            g->winner = (uint8_t)i;
            /* Walk again, to cancel the children that were polled before the winner. */
            if (!cancel) return group_walk(g, cx, false, ended);
        }
    }
    return !pending;
}

static bool group_any_cancelled(const struct aw__group *g) {
    for (unsigned i = 0; i < g->count; i++)
        if (aw__life(group_child_at(&g->future, i)) == AW__GONE) return true;
    return false;
}

static void group_discard_finished(struct aw__group *g, int except) {
    for (unsigned i = 0; i < g->count; i++) {
        aw_future *child = group_child_at(&g->future, i);
        if ((int)i != except && aw_future_finished(child)) aw_future_discard(child);
    }
}

static const aw_future *group_child(const aw_future *self, size_t n) {
    const struct aw__group *g = (const struct aw__group *)self;
    for (unsigned i = 0; i < g->count; i++) {
        const aw_future *child = group_child_at(self, i);
        if (!aw_future_ended(child) && n-- == 0) return child;
    }
    return NULL;
}

/* ---- join ------------------------------------------------------------------------------------ */

static aw_poll group_join_poll(aw_future *self, aw_cx *cx) {
    return group_walk((struct aw__group *)self, cx, false, NULL) ? AW_READY : AW_PENDING;
}

static aw_poll group_join_cancel(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    if (!group_walk(g, cx, true, NULL)) return AW_PENDING;
    if (aw_future_started(self) && !group_any_cancelled(g)) return AW_READY;
    group_discard_finished(g, -1);
    return AW_CANCELLED;
}

static void group_join_discard(aw_future *self) {
    group_discard_finished((struct aw__group *)self, -1);
}

const aw_future_type aw_join_type = {
    .self_size = sizeof(aw_future_type),
    .name = "join",
    .out_offset = offsetof(aw_group, out),
    .out_size = sizeof(int),
    .flags = AW_OUT_ERRNO,
    .poll = group_join_poll,
    .cancel = group_join_cancel,
    .discard = group_join_discard,
    .child = group_child,
};

/* ---- try_join -------------------------------------------------------------------------------- */

/* The first error is the result. */
static bool try_join_ended(struct aw__group *g, unsigned i, aw_future *child) {
    (void)i;
    int error = aw_future_error(child);
    if (error && !g->out) g->out = error;
    return error != 0;
}

static aw_poll try_join_end(struct aw__group *g) {
    if (g->flags & AW__GROUP_DECIDED) group_discard_finished(g, g->winner);
    return AW_READY;
}

static aw_poll try_join_poll(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    return group_walk(g, cx, false, try_join_ended) ? try_join_end(g) : AW_PENDING;
}

static aw_poll try_join_cancel(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    bool decided = g->flags & AW__GROUP_DECIDED; /* before this cancel */
    if (!group_walk(g, cx, true, decided ? try_join_ended : NULL)) return AW_PENDING;
    if (decided) return try_join_end(g);
    if (!aw_future_started(self) || group_any_cancelled(g)) {
        group_discard_finished(g, -1);
        return AW_CANCELLED;
    }
    /* All children finished. The first one with an error decides. */
    for (unsigned i = 0; i < g->count; i++)
        if (try_join_ended(g, i, group_child_at(self, i)) && !(g->flags & AW__GROUP_DECIDED)) {
            g->flags |= AW__GROUP_DECIDED;
            g->winner = (uint8_t)i;
        }
    return try_join_end(g);
}

static void try_join_discard(aw_future *self) {
    struct aw__group *g = (struct aw__group *)self;
    if (!(g->flags & AW__GROUP_DECIDED)) group_discard_finished(g, -1);
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

/* ---- select ---------------------------------------------------------------------------------- */

static bool select_ended(struct aw__group *g, unsigned i, aw_future *child) {
    (void)child;
    g->out |= 1 << i;
    g->left |= 1u << i;
    return true;
}

static aw_poll select_poll(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    /* Loops usually construct their select in each iteration: begin with a random branch. */
    if (!(g->flags & (AW__GROUP_POLLED | AW__GROUP_BIASED)) && g->count)
        g->first = (uint8_t)(aw_cx_random(cx) % g->count);
    g->flags |= AW__GROUP_POLLED;
    if (AW__UNLIKELY(aw_cx_exhausted(cx)) && !(g->flags & AW__GROUP_DECIDED))
        return group_walk_starved(g, cx, 0, 0) ? AW_READY : AW_PENDING;
    return group_walk(g, cx, false, select_ended) ? AW_READY : AW_PENDING;
}

static aw_poll select_cancel(aw_future *self, aw_cx *cx) {
    struct aw__group *g = (struct aw__group *)self;
    if (!group_walk(g, cx, true, select_ended)) return AW_PENDING;
    if (aw_future_started(self) && g->out) return AW_READY;
    self->type->discard(self);
    return AW_CANCELLED;
}

static void select_discard(aw_future *self) {
    int i;
    while ((i = aw__select_next(self)) >= 0)
        aw_future_discard(group_child_at(self, (unsigned)i));
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
