/* SPDX-License-Identifier: MIT
 *
 * The back of a channel: where senders put messages in while receivers take others out, each under a lock of their
 * own, so that two processors do not pass the same lines to and fro with each message. It is open only where nobody
 * waits and there is much room, in the ring of a bounded channel; otherwise it is shut, and everything is under the
 * channel's lock, the *front*.
 *
 *   1. Who has the front, and only he, opens and shuts the back; a flag says which. Open, it has `room` for so many
 *      messages, which nobody else gives away, from the slot `tail` on. They are not counted in the channel: it may
 *      be taken for emptier than it is, and senders may take it for fuller; never the other way.
 *   2. A send takes the lock of the back, and if there is room it puts its message there. That lock is the last of
 *      the channel that it touches.
 *   3. A receive that finds a message, and nobody who waits, takes the front only. In all other cases, and in all other
 *      operations that look at what is inside, the front is taken *whole*: with the back shut, and what was put there
 *      counted. So they are what they would be with a single lock.
 *   4. To shut it is to take its lock and set `room` to 0. While it is shut, its fields belong to who has the front. They
 *      are published by storing `room` with release; a send reads `room` with acquire, under the lock: what it finds there
 *      is either of a send before it, or of who opened.
 *   5. While the back is open nobody waits to send or to receive. So a send there has nobody to wake, and neither has a
 *      receive by the front alone. */
#ifndef AW_SYNC_BACK_H
#define AW_SYNC_BACK_H

#include "core/lock.h"
#include "sync/blocks.h"

/* What is worth while: of a channel, and of what is free in it. */
#ifndef AW__BACK_CAPACITY
#define AW__BACK_CAPACITY 32
#endif
#ifndef AW__BACK_ROOM
#define AW__BACK_ROOM 16
#endif

/* Perhaps. */
static inline bool aw__back_has_room(const aw_channel *c) {
    return aw__load_relaxed(&c->back.room);
}

/* Rule 2. False: ask the front. */
static inline bool aw__back_push(aw_channel *c, const void *item) {
    aw__back *b = &c->back;
    aw__lock(&b->lock);
    uint32_t room = aw__load_acquire(&b->room);
    if (AW__LIKELY(room)) {
        aw__item_copy(b->items + b->tail * b->size, item, b->size);
        if (++b->tail == b->slots) b->tail = 0;
        b->pushed++;
        aw__store_relaxed(&b->room, room - 1);
    }
    aw__unlock(&b->lock);
    return room;
}

/* With the front. */
static inline bool aw__back_is_open(const aw_channel *c) {
    return AW__UNLIKELY(c->flags & AW__CHANNEL_OPEN);
}
static __attribute__((noinline)) void aw__back_shut(aw_channel *c) {
    aw__back *b = &c->back;
    aw__lock(&b->lock);
    aw__store_relaxed(&b->room, 0u);
    aw__unlock(&b->lock);
    c->flags &= ~(uint32_t)AW__CHANNEL_OPEN;
    c->ring.count += b->pushed;
    c->len += b->pushed;
}

/* The front, whole: rule 3. */
static inline void aw__channel_lock(aw_channel *c) {
    aw__lock(&c->lock);
    if (aw__back_is_open(c)) aw__back_shut(c);
}

/* With the front: rule 1. Where it is open already nothing is changed. */
static __attribute__((noinline)) void aw__back_open_wide(aw_channel *c) {
    aw__back *b = &c->back;
    size_t used = c->len + c->reserved;
    if (c->receivers.first || c->senders.first || used + b->least > c->capacity) return;
    uint32_t tail = c->ring.head + c->ring.count;
    b->tail = tail >= c->ring.slots ? tail - c->ring.slots : tail;
    b->pushed = 0;
    c->flags |= AW__CHANNEL_OPEN;
    aw__store_release(&b->room, (uint32_t)(c->capacity - used));
}
static inline void aw__back_open(aw_channel *c) {
    const uint32_t those = AW__CHANNEL_WIDE | AW__CHANNEL_OPEN | AW__CHANNEL_CLOSED;
    if (AW__UNLIKELY((c->flags & those) == AW__CHANNEL_WIDE)) aw__back_open_wide(c);
}

/* When the channel begins. */
static inline void aw__back_begin(aw_channel *c) {
    c->back.slots = c->ring.slots;
    c->back.items = c->ring.items;
    c->back.size = c->size;
    c->back.least = AW__BACK_ROOM;
    if (c->ring.slots > AW__BACK_CAPACITY) c->flags |= AW__CHANNEL_WIDE;
}

/* For tests: also where it is not worth while. Before the first message. */
static inline void aw__back_always(aw_channel *c) {
    if (aw__unbounded(c)) return;
    c->flags |= AW__CHANNEL_WIDE;
    c->back.least = 1;
}

#endif
