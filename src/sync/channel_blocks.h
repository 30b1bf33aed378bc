/* SPDX-License-Identifier: MIT
 *
 * The messages of a channel: a list of blocks of consecutive messages. Everything here is under the
 * channel's lock.
 *
 * A bounded channel has one block, its ring, with one slot more than its capacity. An unbounded
 * channel fills one block after the other and keeps one emptied block as a spare; its ring has no
 * slots.
 *
 * Messages are numbered in the order of the sends. Messages that a receiver puts back go before
 * those inside, by their number: into the first block if they precede it directly and fit, or as a
 * block of their own. So blocks are ordered by number, and only the last one may be empty. */
#ifndef AW_SYNC_CHANNEL_BLOCKS_H
#define AW_SYNC_CHANNEL_BLOCKS_H

#include <string.h>

#include <awake/channel.h>

#include "base/allocate.h"

/* Flags of a channel. */
enum {
    AW__CHANNEL_CLOSED = 1,
    AW__CHANNEL_ABANDONED = 2, /* no receivers are left: messages are being released */
    AW__CHANNEL_COUNTED = 4,   /* freed with its last reference */
    AW__CHANNEL_OWNS_RING = 8,
    AW__CHANNEL_TAIL_ALLOWED = 16, /* it may have an open tail: channel_tail.h */
    AW__CHANNEL_TAIL_OPEN = 32     /* the tail is open */
};

/* Copies the common sizes without a call. */
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

/* ---- Memory ---------------------------------------------------------------------------------- */

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
        aw__free(a, b, aw__block_bytes(b->slots, size));
    }
}

/* ---- Push ------------------------------------------------------------------------------------ */

/* True: a send needs a new block. Release the lock, allocate one, and check again. */
static inline bool aw__blocks_full(const aw_channel *c) {
    const aw__block *b = c->last;
    return aw__unbounded(c) && b->head + b->count == b->slots && !c->spare;
}

static inline void aw__blocks_stash(aw_channel *c, aw__block *b) {
    b->next = c->spare;
    c->spare = b;
}

static AW__COLD void aw__blocks_append(aw_channel *c) {
    aw__block *b = c->spare;
    c->spare = b->next;
    b->next = NULL;
    b->head = b->count = 0;
    b->number = c->last->number + c->last->count;
    /* The ring of an unbounded channel has no slots: this block replaces it as the last one. */
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

/* ---- Pop ------------------------------------------------------------------------------------- */

/* The first block is empty and not the last. A block that is not kept is added to *dead. */
static AW__COLD void aw__blocks_unlink(aw_channel *c, aw__block **dead) {
    aw__block *b = c->first;
    c->first = b->next;
    if (!c->spare && aw__unbounded(c) && b->slots == aw__block_slots(c->size)) {
        aw__blocks_stash(c, b);
    } else {
        b->next = *dead;
        *dead = b;
    }
}

/* There must be a message. */
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
        else if (b != &c->ring) /* an open tail continues after this slot */
            b->head = 0;
    }
}

/* ---- Put back -------------------------------------------------------------------------------- */

/* How many messages fit before those in the block. The ring must keep its reserved slots. */
static inline uint32_t aw__block_capacity(const aw_channel *c, const aw__block *b) {
    if (b == &c->ring) return b->slots - b->count - c->reserved;
    return b->count ? b->head : b->slots;
}

/* Puts back messages that were popped as `number` and following. False: they need a block. */
static inline bool aw__blocks_unpop(aw_channel *c, uint64_t number, const void *items,
                                    uint32_t count) {
    aw__block *b = c->first;
    if (b->number != number + count || aw__block_capacity(c, b) < count) return false;
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

/* The same for messages in a block of their own. */
static inline void aw__blocks_insert(aw_channel *c, aw__block *b) {
    aw__block **at = &c->first;
    while (*at != c->last && (*at)->number < b->number)
        at = &(*at)->next;
    b->next = *at;
    *at = b;
    c->len += b->count;
}

#endif
