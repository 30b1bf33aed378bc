/* SPDX-License-Identifier: MIT
 *
 * How a channel begins and ends: memory, closing, and the counts of who uses it. All counts are under its lock; who
 * takes the last one away frees it, and everybody else has touched it for the last time by giving the lock back. */
#include "core/misuse.h"
#include "sync/channel.h"

/* ---- Begin ------------------------------------------------------------------------------------ */

static bool good_capacity(size_t capacity, size_t size) {
    if (capacity == AW_UNBOUNDED) return true;
    return capacity > 0 && capacity <= AW_CHANNEL_MAX && capacity + 1 <= SIZE_MAX / 2 / size;
}

static size_t ring_bytes(size_t capacity, size_t size) {
    return capacity == AW_UNBOUNDED ? 0 : (capacity + 1) * size;
}

static void begin(aw_channel *c, size_t size, size_t capacity, void *ring) {
    *c = (aw_channel){.size = size, .capacity = capacity, .allocator = aw_get_allocator()};
    c->sender_count = c->receiver_count = 1;
    c->ring.items = ring;
    c->ring.slots = capacity == AW_UNBOUNDED ? 0 : (uint32_t)capacity + 1;
    c->first = c->last = &c->ring;
    aw__back_begin(c);
}

int aw__channel_init(aw_channel *c, size_t size, size_t capacity, void *room) {
    if (!good_capacity(capacity, size)) return -EINVAL;
    void *ring = room;
    bool allocate = !room && capacity != AW_UNBOUNDED;
    if (allocate && !(ring = aw__alloc(aw_get_allocator(), ring_bytes(capacity, size))))
        return -ENOMEM;
    begin(c, size, capacity, ring);
    if (allocate) c->flags |= AW__CHANNEL_OWNS_RING;
    return 0;
}

/* The ring lies behind the channel. */
static size_t counted_bytes(size_t capacity, size_t size) {
    return ((sizeof(aw_channel) + 15) & ~(size_t)15) + ring_bytes(capacity, size);
}

aw_channel *aw__channel_new(size_t size, size_t capacity) {
    if (!good_capacity(capacity, size)) return NULL;
    aw_channel *c = aw__alloc(aw_get_allocator(), counted_bytes(capacity, size));
    if (!c) return NULL;
    begin(c, size, capacity, (char *)c + counted_bytes(AW_UNBOUNDED, size));
    c->flags |= AW__CHANNEL_COUNTED;
    return c;
}

/* ---- End -------------------------------------------------------------------------------------- */

static void release_block(const aw_channel *c, aw__block *b) {
    for (; b->count; b->count--) {
        c->release(aw__block_at(c, b, b->head));
        if (++b->head == b->slots) b->head = 0;
    }
}

/* With the lock, or when nobody uses it any more: whoever does this has what is inside for itself. Nobody puts
 * anything in or takes anything out after it, also when a release tries to. */
static void seal(aw_channel *c) {
    c->flags |= AW__CHANNEL_CLOSED | AW__CHANNEL_ABANDONED;
    c->len = c->woken = 0;
}

/* Sealed, and without the lock. */
static void empty(aw_channel *c) {
    for (aw__block *b = c->first, *next; b; b = next) {
        next = b->next;
        if (c->release) release_block(c, b);
        b->next = NULL;
        if (b != &c->ring) aw__blocks_free(b, c->allocator, c->size);
    }
    aw__blocks_free(c->spare, c->allocator, c->size);
    c->spare = NULL;
    c->ring.count = c->ring.head = 0;
    c->first = c->last = &c->ring;
}

static void check_unused(const aw_channel *c) {
    if (c->senders.first || c->receivers.first || c->closers.first)
        aw__misuse("a channel is freed while somebody waits for it");
}

void aw__channel_free(aw_channel *c) {
    check_unused(c);
    if (aw__back_is_open(c)) aw__back_shut(c);
    seal(c);
    empty(c);
    if (c->flags & AW__CHANNEL_OWNS_RING)
        aw__release(c->allocator, c->ring.items, ring_bytes(c->capacity, c->size));
    c->flags = AW__CHANNEL_CLOSED;
}

/* With the lock, which is given back. */
static void close_and_unlock(aw_channel *c) {
    aw__after a;
    aw__after_begin(&a);
    c->flags |= AW__CHANNEL_CLOSED;
    aw__channel_unlock(c, &a);
}

void aw__channel_close(aw_channel *c) {
    aw__channel_lock(c);
    close_and_unlock(c);
}

bool aw__channel_is_closed(aw_channel *c) {
    aw__lock(&c->lock);
    bool closed = c->flags & AW__CHANNEL_CLOSED;
    aw__unlock(&c->lock);
    return closed;
}

size_t aw__channel_len(aw_channel *c) {
    aw__channel_lock(c);
    size_t len = c->len;
    aw__unlock(&c->lock);
    return len;
}

/* ---- Counts ----------------------------------------------------------------------------------- */

/* With the lock, which is given back: take one away. */
static void drop(aw_channel *c, uint32_t *count) {
    if (*count == 0) aw__misuse("a channel is dropped by more than have it");
    --*count;
    bool last = !c->sender_count && !c->receiver_count && !c->weak_count;
    bool gone = last && c->flags & AW__CHANNEL_COUNTED;
    aw__unlock(&c->lock);
    if (!gone) return;
    check_unused(c);
    if (aw__back_is_open(c)) aw__back_shut(c);
    seal(c);
    empty(c);
    aw__release(c->allocator, c, counted_bytes(c->capacity, c->size));
}

static void add(aw_channel *c, uint32_t *count) {
    aw__lock(&c->lock);
    ++*count;
    aw__unlock(&c->lock);
}

void aw__channel_sender_clone(aw_channel *c) {
    add(c, &c->sender_count);
}

void aw__channel_receiver_clone(aw_channel *c) {
    add(c, &c->receiver_count);
}

void aw__channel_downgrade(aw_channel *c) {
    add(c, &c->weak_count);
}

int aw__channel_upgrade(aw_channel *c) {
    aw__lock(&c->lock);
    bool open = c->sender_count && !(c->flags & AW__CHANNEL_CLOSED);
    c->sender_count += open;
    aw__unlock(&c->lock);
    return open ? 0 : -EPIPE;
}

void aw__channel_sender_drop(aw_channel *c) {
    aw__channel_lock(c);
    if (c->sender_count == 1) {
        close_and_unlock(c); /* the count still keeps it */
        aw__lock(&c->lock);
    }
    drop(c, &c->sender_count);
}

void aw__channel_weak_drop(aw_channel *c) {
    aw__lock(&c->lock);
    drop(c, &c->weak_count);
}

/* With the lock, which is given back. */
static void abandon(aw_channel *c) {
    aw__after a;
    aw__after_begin(&a);
    seal(c);
    aw__channel_unlock(c, &a);
    empty(c);
}

void aw__channel_receiver_drop(aw_channel *c) {
    aw__channel_lock(c);
    if (c->receiver_count == 1) {
        abandon(c);
        aw__lock(&c->lock);
    }
    drop(c, &c->receiver_count);
}
