/* SPDX-License-Identifier: MIT
 *
 * The growing set. A block is a wakeset (wakeset.h) with room for its children behind the nodes;
 * child i of a block has node i. Blocks double and are never moved. The set has wakers of its own for
 * its children; who polls `next` or `clear` is their parent for as long as that future is pending. */
#include <awake/set.h>

#include <errno.h>
#include <string.h>

#include "combinators/wakeset.h"
#include "core/alloc.h"
#include "core/misuse.h"
#include "core/unstarted.h"

typedef struct aw__set_block {
    struct aw__set_block *next;
    aw__wakeset *ws;
    size_t used; /* children in it that have not ended */
    uint32_t capacity;
} block;

typedef struct aw__set_child {
    struct aw__set_child *next_free;
    block *block;
    uint32_t index;
    bool used; /* by a child that has not ended */
} slot;

enum { FIRST_BLOCK = 8, LAST_BLOCK = 1 << 30, SLOT_HEAD = (sizeof(slot) + 15) & ~15 };

static size_t slot_size(const aw_set *set) {
    return SLOT_HEAD + ((set->child_size + 15) & ~(size_t)15);
}
static slot *slot_at(const aw_set *set, block *b, size_t i) {
    return (slot *)(void *)((char *)b + ((sizeof(block) + 15) & ~(size_t)15) + i * slot_size(set));
}
static aw_future *child_of(slot *s) {
    return (aw_future *)(void *)((char *)s + SLOT_HEAD);
}

void aw_set_init(aw_set *set, size_t child_size) {
    *set = (aw_set){.child_size = child_size, .allocator = aw__allocator_for(NULL)};
}

static void make_free(aw_set *set, slot *s) {
    s->next_free = set->free;
    set->free = s;
}

/* A block with room for n more children. */
static int add_block(aw_set *set, uint32_t n) {
    size_t head = (sizeof(block) + 15) & ~(size_t)15;
    if (set->child_size > (SIZE_MAX - head) / (2 * n)) return -ENOMEM;
    aw__wakeset *ws = aw__wakeset_new(set->allocator, n, head + n * slot_size(set));
    if (!ws) return -ENOMEM;
    block *b = aw__wakeset_extra(ws);
    *b = (block){.next = set->blocks, .ws = ws, .capacity = n};
    set->blocks = b;
    for (uint32_t i = n; i-- > 0;) {
        slot *s = slot_at(set, b, i);
        *s = (slot){.block = b, .index = i};
        make_free(set, s);
    }
    return 0;
}

static int grow(aw_set *set) {
    uint32_t n = FIRST_BLOCK;
    for (const block *b = set->blocks; b; b = b->next)
        if (b->capacity >= n) n = b->capacity < LAST_BLOCK ? b->capacity * 2 : LAST_BLOCK;
    return add_block(set, n);
}

int aw_set_reserve(aw_set *set, size_t count) {
    size_t room = 0;
    for (const slot *s = set->free; s && room < count; s = s->next_free)
        room++;
    if (room == count) return 0;
    return count - room <= LAST_BLOCK ? add_block(set, (uint32_t)(count - room)) : -ENOMEM;
}

int aw_set_push_future(aw_set *set, aw_future *f, size_t size) {
    int error = size > set->child_size ? -EINVAL : set->free ? 0 : grow(set);
    if (error) {
        aw__cancel_unstarted(f);
        return error;
    }
    slot *s = set->free;
    set->free = s->next_free;
    s->used = true;
    memcpy(child_of(s), f, size);
    s->block->used++;
    set->count++;
    aw__wakeset_add(s->block->ws, s->index);
    /* A next that is pending, or is polling the child that adds this one, may be past its block. */
    for (block *b = set->blocks; b && !aw__wakeset_wake_parent(b->ws);)
        b = b->next;
    return 0;
}

static void forget_yielded(aw_set *set) {
    if (set->yielded) make_free(set, set->yielded);
    set->yielded = NULL;
}

void aw_set_free(aw_set *set) {
    if (set->count)
        aw__misuse("a set with %zu children was freed: await aw_set_clear first", set->count);
    forget_yielded(set);
    for (block *b = set->blocks, *next; b; b = next) {
        next = b->next;
        aw__wakeset_drop(b->ws);
    }
    set->blocks = NULL;
    set->free = NULL;
}

/* Nobody waits any more: wakes are remembered, but nobody is woken. */
static void stop_waiting(aw_set *set, aw_cx *cx) {
    for (block *b = set->blocks; b; b = b->next) {
        aw__wakeset_disarm(b->ws, cx);
        aw__wakeset_orphan(b->ws);
    }
}

/* The first block goes last: a walk ends at the first child that finishes, and a block that is kept
 * full must not starve the others. */
static void turn_blocks(aw_set *set) {
    block *first = set->blocks, **end = &set->blocks;
    if (!first || !first->next) return;
    while (*end)
        end = &(*end)->next;
    set->blocks = first->next;
    first->next = NULL;
    *end = first;
}

/* Poll, or cancel, the woken children. Returns the first that finishes. */
static slot *walk(aw_set *set, aw_cx *cx, bool cancel, const aw_future *self) {
    slot *done = NULL;
    turn_blocks(set);
    for (block *b = set->blocks; b && !done; b = b->next) {
        aw__wakeset_poll p;
        int64_t i;
        aw__wakeset_begin(b->ws, &p, cx);
        /* Without budget the others would only ask to be polled again: leave them in the list. */
        while (!done && (cancel || p.cx.meter->budget) && (i = aw__wakeset_next(&p)) >= 0) {
            slot *s = slot_at(set, b, (size_t)i);
            if (!s->used) continue; /* a late wake */
            aw_poll r = cancel ? aw_future_cancel(child_of(s), &p.cx)
                               : aw_future_poll(child_of(s), &p.cx);
            if (r == AW_PENDING) continue;
            s->used = false;
            b->used--;
            set->count--;
            if (r == AW_READY)
                done = s;
            else
                make_free(set, s);
        }
        aw__wakeset_end(&p, done ? 0 : b->used, self);
    }
    return done;
}

static const aw_future *set_child(const aw_set *set, size_t n) {
    for (block *b = set->blocks; b; b = b->next)
        for (size_t i = 0; i < b->capacity; i++) {
            slot *s = slot_at(set, b, i);
            if (s->used && n-- == 0) return child_of(s);
        }
    return NULL;
}

/* ---- next ------------------------------------------------------------------------------------- */

static aw_poll next_poll(aw_future *self, aw_cx *cx) {
    aw_set_next_future *f = (aw_set_next_future *)self;
    aw_set *set = f->set;
    forget_yielded(set);
    if (set->count) {
        set->yielded = walk(set, cx, false, self);
        if (!set->yielded) return AW_PENDING;
        f->out = child_of(set->yielded);
    }
    stop_waiting(set, cx);
    return AW_READY;
}

static aw_poll next_cancel(aw_future *self, aw_cx *cx) {
    if (aw_future_started(self)) stop_waiting(((aw_set_next_future *)self)->set, cx);
    return AW_CANCELLED;
}

static void next_discard(aw_future *self) {
    aw_set_next_future *f = (aw_set_next_future *)self;
    if (f->out) aw_future_discard(f->out);
}

static const aw_future *next_child(const aw_future *self, size_t i) {
    return set_child(((const aw_set_next_future *)self)->set, i);
}

const aw_future_type aw_set_next_type = {
    AW_TYPE_OF(aw_set_next_future, "set_next"),
    .poll = next_poll,
    .cancel = next_cancel,
    .discard = next_discard,
    .child = next_child,
};

/* ---- clear ------------------------------------------------------------------------------------ */

static aw_poll clear_poll(aw_future *self, aw_cx *cx) {
    aw_set *set = ((aw_set_clear_future *)self)->set;
    slot *s;
    if (!self->state) {
        self->state = 1;
        forget_yielded(set);
        for (block *b = set->blocks; b; b = b->next)
            for (uint32_t i = 0; i < b->capacity; i++)
                if (slot_at(set, b, i)->used) aw__wakeset_add(b->ws, i);
    }
    while (set->count && (s = walk(set, cx, true, self))) {
        aw_future_discard(child_of(s));
        make_free(set, s);
    }
    if (set->count) return AW_PENDING;
    stop_waiting(set, cx);
    return AW_READY;
}

/* It is cleaning up: it goes on. */
static aw_poll clear_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_started(self) ? clear_poll(self, cx) : AW_CANCELLED;
}

static const aw_future *clear_child(const aw_future *self, size_t i) {
    return set_child(((const aw_set_clear_future *)self)->set, i);
}

const aw_future_type aw_set_clear_type = {
    AW_TYPE_OF(aw_set_clear_future, "set_clear"),
    .flags = AW_OUT_ERRNO,
    .poll = clear_poll,
    .cancel = clear_cancel,
    .child = clear_child,
};
