/* SPDX-License-Identifier: MIT
 *
 * Construction, close and destruction of channels. Reference counts change under the lock. The
 * thread that drops the last reference frees the channel; every other thread last touches it when
 * it releases the lock. */
#include "base/misuse.h"
#include "sync/channel_lock.h"

/* ---- Construction ---------------------------------------------------------------------------- */

static bool channel_capacity_valid(size_t capacity, size_t size) {
    if (capacity == AW_UNBOUNDED) return true;
    return capacity > 0 && capacity <= AW_CHANNEL_MAX && capacity + 1 <= SIZE_MAX / 2 / size;
}

static size_t ring_bytes(size_t capacity, size_t size) {
    return capacity == AW_UNBOUNDED ? 0 : (capacity + 1) * size;
}

static void channel_setup(aw_channel *c, size_t size, size_t capacity, void *ring) {
    *c = (aw_channel){.size = size, .capacity = capacity, .allocator = aw_get_allocator()};
    c->sender_count = c->receiver_count = 1;
    c->ring.items = ring;
    c->ring.slots = capacity == AW_UNBOUNDED ? 0 : (uint32_t)capacity + 1;
    c->first = c->last = &c->ring;
    aw__tail_begin(c);
}

int aw__channel_init(aw_channel *c, size_t size, size_t capacity, void *storage) {
    if (!channel_capacity_valid(capacity, size)) return -EINVAL;
    void *ring = storage;
    bool allocate = !storage && capacity != AW_UNBOUNDED;
    if (allocate && !(ring = aw__alloc(aw_get_allocator(), ring_bytes(capacity, size))))
        return -ENOMEM;
    channel_setup(c, size, capacity, ring);
    if (allocate) c->flags |= AW__CHANNEL_OWNS_RING;
    return 0;
}

/* The ring follows the channel in the same memory. */
static size_t counted_bytes(size_t capacity, size_t size) {
    return ((sizeof(aw_channel) + 15) & ~(size_t)15) + ring_bytes(capacity, size);
}

aw_channel *aw__channel_new(size_t size, size_t capacity) {
    if (!channel_capacity_valid(capacity, size)) return NULL;
    aw_channel *c = aw__alloc(aw_get_allocator(), counted_bytes(capacity, size));
    if (!c) return NULL;
    channel_setup(c, size, capacity, (char *)c + counted_bytes(AW_UNBOUNDED, size));
    c->flags |= AW__CHANNEL_COUNTED;
    return c;
}

/* ---- Close and destruction ------------------------------------------------------------------- */

static void release_block(const aw_channel *c, aw__block *b) {
    for (; b->count; b->count--) {
        c->release(aw__block_at(c, b, b->head));
        if (++b->head == b->slots) b->head = 0;
    }
}

/* Under the lock, or without users: the caller gets the messages for itself. Afterwards no message
 * is put in or taken out, even if a release function tries to. */
static void seal(aw_channel *c) {
    c->flags |= AW__CHANNEL_CLOSED | AW__CHANNEL_ABANDONED;
    c->len = c->woken = 0;
}

/* After seal(), without the lock. */
static void channel_clear(aw_channel *c) {
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
        aw__misuse("a channel was freed while futures wait for it");
}

void aw__channel_free(aw_channel *c) {
    check_unused(c);
    if (aw__tail_is_open(c)) aw__tail_close(c);
    seal(c);
    channel_clear(c);
    if (c->flags & AW__CHANNEL_OWNS_RING)
        aw__free(c->allocator, c->ring.items, ring_bytes(c->capacity, c->size));
    c->flags = AW__CHANNEL_CLOSED;
}

/* Takes over the held lock and releases it. */
static void channel_close_and_unlock(aw_channel *c) {
    aw__deferred d;
    aw__deferred_init(&d);
    c->flags |= AW__CHANNEL_CLOSED;
    aw__channel_unlock(c, &d);
}

void aw__channel_close(aw_channel *c) {
    aw__channel_lock(c);
    channel_close_and_unlock(c);
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

/* ---- Reference counts ------------------------------------------------------------------------ */

/* Drops one reference. Takes over the held lock and releases it. */
static void channel_unref_and_unlock(aw_channel *c, uint32_t *count) {
    if (*count == 0) aw__misuse("a channel was dropped more often than kept");
    --*count;
    bool last = !c->sender_count && !c->receiver_count && !c->weak_count;
    bool free_it = last && c->flags & AW__CHANNEL_COUNTED;
    aw__unlock(&c->lock);
    if (!free_it) return;
    check_unused(c);
    if (aw__tail_is_open(c)) aw__tail_close(c);
    seal(c);
    channel_clear(c);
    aw__free(c->allocator, c, counted_bytes(c->capacity, c->size));
}

static void channel_ref(aw_channel *c, uint32_t *count) {
    aw__lock(&c->lock);
    ++*count;
    aw__unlock(&c->lock);
}

void aw__channel_sender_keep(aw_channel *c) {
    channel_ref(c, &c->sender_count);
}

void aw__channel_receiver_keep(aw_channel *c) {
    channel_ref(c, &c->receiver_count);
}

void aw__channel_downgrade(aw_channel *c) {
    channel_ref(c, &c->weak_count);
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
        channel_close_and_unlock(c); /* the sender's reference keeps it */
        aw__lock(&c->lock);
    }
    channel_unref_and_unlock(c, &c->sender_count);
}

void aw__channel_weak_drop(aw_channel *c) {
    aw__lock(&c->lock);
    channel_unref_and_unlock(c, &c->weak_count);
}

/* Takes over the held lock and releases it. */
static void abandon(aw_channel *c) {
    aw__deferred d;
    aw__deferred_init(&d);
    seal(c);
    aw__channel_unlock(c, &d);
    channel_clear(c);
}

void aw__channel_receiver_drop(aw_channel *c) {
    aw__channel_lock(c);
    if (c->receiver_count == 1) {
        abandon(c);
        aw__lock(&c->lock);
    }
    channel_unref_and_unlock(c, &c->receiver_count);
}
