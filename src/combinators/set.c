/* SPDX-License-Identifier: MIT
 *
 * A growing set of futures, used by one task at a time. A block is a wakeset (wakeset.h), with the
 * slots of its children behind the nodes; child i of a block has node i. Each block is twice as
 * large as the one before, and never moves. The task that polls `next` or `clear` is the parent of
 * the wakesets while that future is pending. */
#include <awake/set.h>

#include <errno.h>
#include <string.h>

#include "base/allocate.h"
#include "base/misuse.h"
#include "combinators/wakeset.h"
#include "context/context.h"
#include "future/unstarted.h"

typedef struct aw__set_block {
    struct aw__set_block *next;
    aw__wakeset *ws;
    size_t used; /* slots of children that have not ended */
    uint32_t capacity;
} set_block;

typedef struct aw__set_child {
    struct aw__set_child *next_free;
    set_block *block;
    uint32_t index;
    bool used; /* by a child that has not ended */
} set_slot;

enum { FIRST_BLOCK = 8, LAST_BLOCK = 1 << 30, SET_SLOT_HEAD = (sizeof(set_slot) + 15) & ~15 };

static size_t set_slot_size(const aw_set *set) {
    return SET_SLOT_HEAD + ((set->child_size + 15) & ~(size_t)15);
}
static set_slot *set_slot_at(const aw_set *set, set_block *b, size_t i) {
    return (set_slot *)(void *)((char *)b + ((sizeof(set_block) + 15) & ~(size_t)15) +
                                i * set_slot_size(set));
}
static aw_future *set_slot_child(set_slot *s) {
    return (aw_future *)(void *)((char *)s + SET_SLOT_HEAD);
}

void aw_set_init(aw_set *set, size_t child_size) {
    *set = (aw_set){.child_size = child_size, .allocator = aw__allocator_for(NULL)};
}

static void set_free_slot(aw_set *set, set_slot *s) {
    s->next_free = set->free;
    set->free = s;
}

/* Adds a block with slots for n children. */
static int set_add_block(aw_set *set, uint32_t n) {
    size_t head = (sizeof(set_block) + 15) & ~(size_t)15;
    if (set->child_size > (SIZE_MAX - head) / (2 * n)) return -ENOMEM;
    aw__wakeset *ws = aw__wakeset_new(set->allocator, n, head + n * set_slot_size(set));
    if (!ws) return -ENOMEM;
    set_block *b = aw__wakeset_extra(ws);
    *b = (set_block){.next = set->blocks, .ws = ws, .capacity = n};
    set->blocks = b;
    for (uint32_t i = n; i-- > 0;) {
        set_slot *s = set_slot_at(set, b, i);
        *s = (set_slot){.block = b, .index = i};
        set_free_slot(set, s);
    }
    return 0;
}

static int set_grow(aw_set *set) {
    uint32_t n = FIRST_BLOCK;
    for (const set_block *b = set->blocks; b; b = b->next)
        if (b->capacity >= n) n = b->capacity < LAST_BLOCK ? b->capacity * 2 : LAST_BLOCK;
    return set_add_block(set, n);
}

int aw_set_reserve(aw_set *set, size_t count) {
    size_t free_slots = 0;
    for (const set_slot *s = set->free; s && free_slots < count; s = s->next_free)
        free_slots++;
    if (free_slots == count) return 0;
    return count - free_slots <= LAST_BLOCK ? set_add_block(set, (uint32_t)(count - free_slots))
                                            : -ENOMEM;
}

int aw_set_push_future(aw_set *set, aw_future *f, size_t size) {
    int error = size > set->child_size ? -EINVAL : set->free ? 0 : set_grow(set);
    if (error) {
        aw__cancel_unstarted(f);
        return error;
    }
    set_slot *s = set->free;
    set->free = s->next_free;
    s->used = true;
    memcpy(set_slot_child(s), f, size);
    s->block->used++;
    set->count++;
    aw__wakeset_add(s->block->ws, s->index);
    /* Wake the parent: a pending `next`, or one that is polling the child that pushes this one, may
     * already have passed the block of the new child. */
    for (set_block *b = set->blocks; b && !aw__wakeset_wake_parent(b->ws);)
        b = b->next;
    return 0;
}

static void set_free_yielded(aw_set *set) {
    if (set->yielded) set_free_slot(set, set->yielded);
    set->yielded = NULL;
}

void aw_set_free(aw_set *set) {
    if (set->count)
        aw__misuse("a set with %zu children was freed: await aw_set_clear first", set->count);
    set_free_yielded(set);
    for (set_block *b = set->blocks, *next; b; b = next) {
        next = b->next;
        aw__wakeset_drop(b->ws);
    }
    set->blocks = NULL;
    set->free = NULL;
}

/* The parent stops waiting. Wakes are still recorded, but wake no task. */
static void set_stop_waiting(aw_set *set, aw_cx *cx) {
    for (set_block *b = set->blocks; b; b = b->next) {
        aw__wakeset_disarm(b->ws, cx);
        aw__wakeset_orphan(b->ws);
    }
}

/* Moves the first block to the end. A walk ends at the first child that finishes, and a block that
 * is always busy must not starve the other blocks. */
static void set_rotate_blocks(aw_set *set) {
    set_block *first = set->blocks, **end = &set->blocks;
    if (!first || !first->next) return;
    while (*end)
        end = &(*end)->next;
    set->blocks = first->next;
    first->next = NULL;
    *end = first;
}

/* Polls or cancels the woken children. Returns the first that finishes. */
static set_slot *set_walk(aw_set *set, aw_cx *cx, bool cancel, const aw_future *self) {
    set_slot *done = NULL;
    set_rotate_blocks(set);
    for (set_block *b = set->blocks; b && !done; b = b->next) {
        aw__wakeset_poll p;
        int64_t i;
        aw__wakeset_begin(b->ws, &p, cx);
        /* Without budget the remaining children would only wake themselves again: keep them in the
         * list. */
        while (!done && (cancel || p.cx.meter->budget) && (i = aw__wakeset_next(&p)) >= 0) {
            set_slot *s = set_slot_at(set, b, (size_t)i);
            if (!s->used) continue; /* woken after its end */
            aw_poll r = cancel ? aw_future_cancel(set_slot_child(s), &p.cx)
                               : aw_future_poll(set_slot_child(s), &p.cx);
            if (r == AW_PENDING) continue;
            s->used = false;
            b->used--;
            set->count--;
            if (r == AW_READY)
                done = s;
            else
                set_free_slot(set, s);
        }
        aw__wakeset_end(&p, done ? 0 : b->used, self);
    }
    return done;
}

static const aw_future *set_child(const aw_set *set, size_t n) {
    for (set_block *b = set->blocks; b; b = b->next)
        for (size_t i = 0; i < b->capacity; i++) {
            set_slot *s = set_slot_at(set, b, i);
            if (s->used && n-- == 0) return set_slot_child(s);
        }
    return NULL;
}

/* ---- next ------------------------------------------------------------------------------------ */

static aw_poll set_next_poll(aw_future *self, aw_cx *cx) {
    aw_set_next_future *f = (aw_set_next_future *)self;
    aw_set *set = f->set;
    set_free_yielded(set);
    if (set->count) {
        set->yielded = set_walk(set, cx, false, self);
        if (!set->yielded) return AW_PENDING;
        f->out = set_slot_child(set->yielded);
    }
    set_stop_waiting(set, cx);
    return AW_READY;
}

static aw_poll set_next_cancel(aw_future *self, aw_cx *cx) {
    if (aw_future_started(self)) set_stop_waiting(((aw_set_next_future *)self)->set, cx);
    return AW_CANCELLED;
}

static void set_next_discard(aw_future *self) {
    aw_set_next_future *f = (aw_set_next_future *)self;
    if (f->out) aw_future_discard(f->out);
}

static const aw_future *set_next_child(const aw_future *self, size_t i) {
    return set_child(((const aw_set_next_future *)self)->set, i);
}

const aw_future_type aw_set_next_type = {
    AW_TYPE_OF(aw_set_next_future, "set_next"),
    .poll = set_next_poll,
    .cancel = set_next_cancel,
    .discard = set_next_discard,
    .child = set_next_child,
};

/* ---- clear ----------------------------------------------------------------------------------- */

static aw_poll set_clear_poll(aw_future *self, aw_cx *cx) {
    aw_set *set = ((aw_set_clear_future *)self)->set;
    set_slot *s;
    if (!self->state) {
        self->state = 1;
        set_free_yielded(set);
        for (set_block *b = set->blocks; b; b = b->next)
            for (uint32_t i = 0; i < b->capacity; i++)
                if (set_slot_at(set, b, i)->used) aw__wakeset_add(b->ws, i);
    }
    while (set->count && (s = set_walk(set, cx, true, self))) {
        aw_future_discard(set_slot_child(s));
        set_free_slot(set, s);
    }
    if (set->count) return AW_PENDING;
    set_stop_waiting(set, cx);
    return AW_READY;
}

/* A clear cannot be interrupted: once started, it continues until the set is empty. */
static aw_poll set_clear_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_started(self) ? set_clear_poll(self, cx) : AW_CANCELLED;
}

static const aw_future *set_clear_child(const aw_future *self, size_t i) {
    return set_child(((const aw_set_clear_future *)self)->set, i);
}

const aw_future_type aw_set_clear_type = {
    AW_TYPE_OF(aw_set_clear_future, "set_clear"),
    .flags = AW_OUT_ERRNO,
    .poll = set_clear_poll,
    .cancel = set_clear_cancel,
    .child = set_clear_child,
};
