/* SPDX-License-Identifier: MIT
 *
 * The tail of a channel: as in a two-lock queue, senders append messages under the *tail lock*
 * while receivers remove earlier ones under the *head lock*, the lock of the channel. So two
 * processors do not exchange the same cache lines with each message. The tail is open only in the
 * ring of a bounded channel, while there are no waiters and many slots are free. Otherwise it is
 * closed, and everything is under the head lock.
 *
 *   1. Only the holder of the head lock opens and closes the tail; a flag in the channel says
 *      whether it is open. An open tail owns `free_slots` slots from `next_slot` on, which are not
 *      granted otherwise. Messages in the tail are not counted: a receiver may find the channel
 *      emptier than it is. Slots freed since the opening are not in the tail: a sender may find it
 *      fuller than it is. It is never the other way round.
 *   2. A send takes the tail lock and, if there is a free slot, stores its message there. It
 *      touches nothing of the channel after releasing the tail lock.
 *   3. A receive that finds a message and no waiters takes only the head lock. In all other cases,
 *      and in all other operations that look at the messages, the channel is locked *exclusively*
 *      (aw__channel_lock): head lock held, tail closed, its messages counted. So they behave as
 *      with a single lock.
 *   4. To close the tail, take its lock and set `free_slots` to 0. While it is closed, its fields
 *      belong to the holder of the head lock. They are published by storing `free_slots` with
 *      release. A send reads `free_slots` with acquire, although under the tail lock, because the
 *      opening thread does not hold that lock.
 *   5. While the tail is open, no future waits to send or to receive. So neither a send to the tail
 *      nor a receive with only the head lock has a waiter to wake. */
#ifndef AW_SYNC_CHANNEL_TAIL_H
#define AW_SYNC_CHANNEL_TAIL_H

#include "os/lock.h"
#include "sync/channel_blocks.h"

/* The tail pays off in channels of at least this capacity (the ring has one slot more), with at
 * least this many free slots. */
#ifndef AW__TAIL_MIN_CAPACITY
#define AW__TAIL_MIN_CAPACITY 32
#endif
#ifndef AW__TAIL_MIN_FREE
#define AW__TAIL_MIN_FREE 16
#endif

/* A hint, without a lock. */
static inline bool aw__tail_has_free_slot(const aw_channel *c) {
    return aw__load_relaxed(&c->tail.free_slots);
}

/* Rule 2. False: no free slot; the caller locks the channel and sends there. */
static inline bool aw__tail_push(aw_channel *c, const void *item) {
    aw__channel_tail *t = &c->tail;
    aw__lock(&t->lock);
    uint32_t free_slots = aw__load_acquire(&t->free_slots);
    if (AW__LIKELY(free_slots)) {
        aw__item_copy(t->items + t->next_slot * t->size, item, t->size);
        if (++t->next_slot == t->slots) t->next_slot = 0;
        t->pushed++;
        aw__store_relaxed(&t->free_slots, free_slots - 1);
    }
    aw__unlock(&t->lock);
    return free_slots;
}

/* Under the head lock. */
static inline bool aw__tail_is_open(const aw_channel *c) {
    return AW__UNLIKELY(c->flags & AW__CHANNEL_TAIL_OPEN);
}
static __attribute__((noinline)) void aw__tail_close(aw_channel *c) {
    aw__channel_tail *t = &c->tail;
    aw__lock(&t->lock);
    aw__store_relaxed(&t->free_slots, 0u);
    aw__unlock(&t->lock);
    c->flags &= ~(uint32_t)AW__CHANNEL_TAIL_OPEN;
    c->ring.count += t->pushed;
    c->len += t->pushed;
}

/* Under the head lock: rule 1. The tail is closed; it stays so if there are waiters, or too few
 * free slots. */
static __attribute__((noinline)) void aw__tail_open_slow(aw_channel *c) {
    aw__channel_tail *t = &c->tail;
    size_t used = c->len + c->reserved;
    if (c->receivers.first || c->senders.first || used + t->min_free > c->capacity) return;
    uint32_t next_slot = c->ring.head + c->ring.count;
    t->next_slot = next_slot >= c->ring.slots ? next_slot - c->ring.slots : next_slot;
    t->pushed = 0;
    c->flags |= AW__CHANNEL_TAIL_OPEN;
    aw__store_release(&t->free_slots, (uint32_t)(c->capacity - used));
}
/* The same; does nothing if the tail is already open. */
static inline void aw__tail_open(aw_channel *c) {
    const uint32_t mask = AW__CHANNEL_TAIL_ALLOWED | AW__CHANNEL_TAIL_OPEN | AW__CHANNEL_CLOSED;
    if (AW__UNLIKELY((c->flags & mask) == AW__CHANNEL_TAIL_ALLOWED)) aw__tail_open_slow(c);
}

/* At initialization of the channel. */
static inline void aw__tail_begin(aw_channel *c) {
    c->tail.slots = c->ring.slots;
    c->tail.items = c->ring.items;
    c->tail.size = c->size;
    c->tail.min_free = AW__TAIL_MIN_FREE;
    /* slots = capacity + 1 */
    if (c->ring.slots > AW__TAIL_MIN_CAPACITY) c->flags |= AW__CHANNEL_TAIL_ALLOWED;
}

/* For tests: use the tail wherever it is correct. Call it before the first message. */
static inline void aw__tail_always(aw_channel *c) {
    if (aw__unbounded(c)) return;
    c->flags |= AW__CHANNEL_TAIL_ALLOWED;
    c->tail.min_free = 1;
}

#endif
