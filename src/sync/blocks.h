/* SPDX-License-Identifier: MIT
 *
 * The messages of a channel: a list of blocks, each with some consecutive messages. All under the channel's lock.
 *
 * A bounded channel has one block, its ring, with a slot more than its capacity. An unbounded one fills a block, then
 * the next, and keeps one that was emptied; its ring has no slots and is empty.
 *
 * Messages are numbered as they are sent. What a receiver puts back goes in front of what is inside, by its number:
 * into the first block, when that is its place and there is space, or as a block of its own. So blocks are in the
 * order of their numbers, and only the last one may be empty. */
#ifndef AW_SYNC_BLOCKS_H
#define AW_SYNC_BLOCKS_H

#include <string.h>

#include <awake/channel.h>

#include "core/alloc.h"

/* flags of a channel */
enum {
    AW__CHANNEL_CLOSED = 1,
    AW__CHANNEL_ABANDONED = 2, /* no receiver is left: what is inside is being released */
    AW__CHANNEL_COUNTED = 4,   /* it is freed when nobody is left */
    AW__CHANNEL_OWNS_RING = 8,
    AW__CHANNEL_WIDE = 16, /* it may have an open back: back.h */
    AW__CHANNEL_OPEN = 32  /* it has */
};

/* The sizes of most messages, without a call. */
static inline void aw__item_copy(void *to, const void *from, size_t size) {
    if (AW__LIKELY(size == 8))
        memcpy(to, from, 8);
    else if (size == 4)
        memcpy(to, from, 4);
    else if (size == 16)
        memcpy(to, from, 16);
    else
        memcpy(to, from, size);
}

static inline void *aw__block_at(const aw_channel *c, const aw__block *b, uint32_t at) {
    return b->items + at * c->size;
}

static inline bool aw__unbounded(const aw_channel *c) {
    return c->capacity == AW_UNBOUNDED;
}

/* ---- Memory ----------------------------------------------------------------------------------- */

/* Blocks of an unbounded channel have about a kilobyte. */
static inline uint32_t aw__block_slots(size_t size) {
    size_t slots = (1024 - 48) / size;
    return slots < 8 ? 8 : (uint32_t)slots;
}

static inline size_t aw__block_bytes(uint32_t slots, size_t size) {
    return ((sizeof(aw__block) + 15) & ~(size_t)15) + slots * size;
}

/* NULL: no memory. Not under the lock. */
static inline aw__block *aw__block_new(const aw_allocator *a, uint32_t slots, size_t size) {
    aw__block *b = aw__alloc(a, aw__block_bytes(slots, size));
    if (!b) return NULL;
    *b = (aw__block){.slots = slots, .items = (unsigned char *)b + aw__block_bytes(0, size)};
    return b;
}

static inline void aw__blocks_free(aw__block *b, const aw_allocator *a, size_t size) {
    for (aw__block *next; b; b = next) {
        next = b->next;
        aw__release(a, b, aw__block_bytes(b->slots, size));
    }
}

/* ---- In --------------------------------------------------------------------------------------- */

/* A send needs a block first: let the lock go, make one, and look again. */
static inline bool aw__blocks_full(const aw_channel *c) {
    const aw__block *b = c->last;
    return aw__unbounded(c) && b->head + b->count == b->slots && !c->spare;
}

static inline void aw__blocks_keep(aw_channel *c, aw__block *b) {
    b->next = c->spare;
    c->spare = b;
}

static AW__COLD void aw__blocks_append(aw_channel *c) {
    aw__block *b = c->spare;
    c->spare = b->next;
    b->next = NULL;
    b->head = b->count = 0;
    b->number = c->last->number + c->last->count;
    /* The ring without slots is the last one only as long as there is no other. */
    if (c->first == &c->ring) {
        c->first = b;
    } else if (c->last == &c->ring) {
        aw__block *before = c->first;
        while (before->next != &c->ring)
            before = before->next;
        before->next = b;
    } else {
        c->last->next = b;
    }
    c->last = b;
}

static inline void aw__blocks_push(aw_channel *c, const void *item) {
    aw__block *b = c->last;
    uint32_t at = b->head + b->count;
    if (AW__UNLIKELY(at >= b->slots)) {
        if (aw__unbounded(c)) {
            aw__blocks_append(c);
            b = c->last;
            at = 0;
        } else {
            at -= b->slots;
        }
    }
    aw__item_copy(aw__block_at(c, b, at), item, c->size);
    b->count++;
    c->len++;
}

/* ---- Out -------------------------------------------------------------------------------------- */

/* The first block is empty and there is another one. What is not kept goes to *dead. */
static AW__COLD void aw__blocks_unlink(aw_channel *c, aw__block **dead) {
    aw__block *b = c->first;
    c->first = b->next;
    if (!c->spare && aw__unbounded(c) && b->slots == aw__block_slots(c->size)) {
        aw__blocks_keep(c, b);
    } else {
        b->next = *dead;
        *dead = b;
    }
}

/* There is one. */
static inline void aw__blocks_pop(aw_channel *c, void *item, aw__block **dead) {
    aw__block *b = c->first;
    aw__item_copy(item, aw__block_at(c, b, b->head), c->size);
    b->number++;
    b->count--;
    c->len--;
    if (++b->head == b->slots) b->head = 0;
    if (AW__UNLIKELY(b->count == 0)) {
        if (b->next)
            aw__blocks_unlink(c, dead);
        else if (b != &c->ring) /* what is at its back may be behind this */
            b->head = 0;
    }
}

/* ---- Back ------------------------------------------------------------------------------------- */

/* How many fit in front of what is in the block. The ring has to keep what is reserved. */
static inline uint32_t aw__block_room(const aw_channel *c, const aw__block *b) {
    if (b == &c->ring) return b->slots - b->count - c->reserved;
    return b->count ? b->head : b->slots;
}

/* Messages that were popped as `number` and following. False: a block is needed for them. */
static inline bool aw__blocks_unpop(aw_channel *c, uint64_t number, const void *items,
                                    uint32_t count) {
    aw__block *b = c->first;
    if (b->number != number + count || aw__block_room(c, b) < count) return false;
    if (b->count == 0 && b != &c->ring) b->head = count;
    for (uint32_t i = count; i-- > 0;) {
        b->head = (b->head ? b->head : b->slots) - 1;
        aw__item_copy(aw__block_at(c, b, b->head), (const char *)items + i * c->size, c->size);
        b->count++;
    }
    b->number = number;
    c->len += count;
    return true;
}

/* The same, with a block that has them. */
static inline void aw__blocks_insert(aw_channel *c, aw__block *b) {
    aw__block **at = &c->first;
    while (*at != c->last && (*at)->number < b->number)
        at = &(*at)->next;
    b->next = *at;
    *at = b;
    c->len += b->count;
}

#endif
