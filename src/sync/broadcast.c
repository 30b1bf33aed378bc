/* SPDX-License-Identifier: MIT
 *
 * Broadcast: a ring of the last messages and the queues of waiters, under a short lock. Any thread
 * may call these functions; a receiver is used by one task at a time. Nothing is lock-free: a
 * message of any size must be read whole.
 *
 *   1. Messages are numbered from 1. The last `capacity` messages are kept. A receiver holds the
 *      number of its next message, so it knows how many it has missed when that message is no
 *      longer kept. Number 0: the receiver is not subscribed.
 *   2. `pending` of a used slot counts the receivers that have yet to receive the message: those
 *      subscribed at the time of the send, minus those that have received it or have unsubscribed.
 *      At 0 the slot no longer holds the element: the last receiver took it, or it was released.
 *   3. A waiting receiver has received everything, so each new message wakes all of them, in
 *      batches between which the lock is free. Receivers that begin to wait meanwhile have already
 *      received the new message. A waiter is judged by the position at which it began to wait
 *      (`before`): its receiver may have advanced by another call, which must not stop the wake-up
 *      of the waiters behind it.
 *   4. Elements are released without the lock: a release function may send. */
#include <awake/broadcast.h>

#include <string.h>

#include "base/allocate.h"
#include "base/misuse.h"
#include "future/waiters.h"

enum { BROADCAST_CLOSED = 1 };

static aw_broadcast_future *broadcast_future_of(aw__waiter *w) {
    return (aw_broadcast_future *)(void *)w;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static uint64_t oldest(const aw_broadcast *b) {
    return b->next > b->capacity ? b->next - b->capacity : 1;
}

/* The message must still be kept. */
static uint32_t slot_of(const aw_broadcast *b, uint64_t number) {
    uint32_t back = (uint32_t)(b->next - number);
    return b->end >= back ? b->end - back : b->end + (b->capacity - back);
}

static void *broadcast_item(const aw_broadcast *b, uint32_t slot) {
    return b->items + slot * b->size;
}

/* ---- Construction and destruction ------------------------------------------------------------ */

static bool broadcast_capacity_valid(size_t capacity, size_t size) {
    return capacity > 0 && capacity <= AW_BROADCAST_MAX &&
           capacity <= SIZE_MAX / 2 / (size + sizeof(uint32_t));
}

static size_t storage_bytes(size_t capacity, size_t size) {
    return ((capacity * size + 3) & ~(size_t)3) + capacity * sizeof(uint32_t);
}

int aw__broadcast_init_in(aw_broadcast *b, size_t size, size_t capacity, void *items,
                          uint32_t *pending) {
    if (!broadcast_capacity_valid(capacity, size)) return -EINVAL;
    *b = (aw_broadcast){
        .size = size, .capacity = (uint32_t)capacity, .items = items, .pending = pending};
    b->sender_count = 1;
    b->next = 1;
    return 0;
}

int aw__broadcast_init(aw_broadcast *b, size_t size, size_t capacity) {
    if (!broadcast_capacity_valid(capacity, size)) return -EINVAL;
    const aw_allocator *allocator = aw_get_allocator();
    char *storage = aw__alloc(allocator, storage_bytes(capacity, size));
    if (!storage) return -ENOMEM;
    void *pending = storage + storage_bytes(capacity, size) - capacity * sizeof(uint32_t);
    aw__broadcast_init_in(b, size, capacity, storage, pending);
    b->allocator = allocator;
    return 0;
}

void aw__broadcast_free(aw_broadcast *b) {
    if (b->receivers.first || b->closers.first)
        aw__misuse("a broadcast was freed while futures wait for it");
    b->flags |= BROADCAST_CLOSED;
    for (uint64_t n = oldest(b); n < b->next && b->release; n++)
        if (b->pending[slot_of(b, n)]) b->release(broadcast_item(b, slot_of(b, n)));
    if (b->allocator) aw__free(b->allocator, b->items, storage_bytes(b->capacity, b->size));
}

/* ---- Waking ---------------------------------------------------------------------------------- */

/* Under the lock: the queue of a waiter that can proceed, or NULL. */
static aw__waiters *broadcast_ready_queue(void *owner) {
    aw_broadcast *b = owner;
    aw__waiter *first = b->receivers.first;
    if (first && (broadcast_future_of(first)->before != b->next || b->flags & BROADCAST_CLOSED))
        return &b->receivers;
    return b->closers.first && !b->receiver_count ? &b->closers : NULL;
}

/* Takes over the held lock and releases it. */
static void broadcast_wake_and_unlock(aw_broadcast *b) {
    aw__wake_ready_and_unlock(&b->lock, broadcast_ready_queue, b);
}

/* ---- Senders --------------------------------------------------------------------------------- */

int aw__broadcast_send(aw_broadcast *b, const void *value, void *old) {
    aw_release_fn *release = b->release;
    aw__lock(&b->lock);
    int receivers = (int)b->receiver_count;
    if (b->flags & BROADCAST_CLOSED || receivers == 0) {
        aw__unlock(&b->lock);
        return -EPIPE;
    }
    uint32_t slot = b->end;
    bool missed = release && b->next > b->capacity && b->pending[slot];
    if (missed) memcpy(old, broadcast_item(b, slot), b->size);
    memcpy(broadcast_item(b, slot), value, b->size);
    b->pending[slot] = b->receiver_count;
    b->end = slot + 1 == b->capacity ? 0 : slot + 1;
    b->next++;
    broadcast_wake_and_unlock(b);
    if (missed) release(old);
    return receivers;
}

void aw__broadcast_close(aw_broadcast *b) {
    aw__lock(&b->lock);
    b->flags |= BROADCAST_CLOSED;
    broadcast_wake_and_unlock(b);
}

void aw__broadcast_sender_keep(aw_broadcast *b) {
    aw__lock(&b->lock);
    b->sender_count++;
    aw__unlock(&b->lock);
}

void aw__broadcast_sender_drop(aw_broadcast *b) {
    aw__lock(&b->lock);
    if (b->sender_count == 0) aw__misuse("a broadcast sender was dropped more often than kept");
    if (--b->sender_count == 0) b->flags |= BROADCAST_CLOSED;
    broadcast_wake_and_unlock(b);
}

/* ---- Receivers ------------------------------------------------------------------------------- */

aw_broadcast_receiver aw__broadcast_subscribe(aw_broadcast *b) {
    aw__lock(&b->lock);
    b->receiver_count++;
    aw_broadcast_receiver r = {b->next, 0};
    aw__unlock(&b->lock);
    return r;
}

/* Under the lock: one receiver will not receive this message. True: it was the last one, and the
 * element is now in `old`, to be released. */
static bool skip_message(aw_broadcast *b, uint64_t number, void *old) {
    uint32_t slot = slot_of(b, number);
    if (--b->pending[slot] || !b->release) return false;
    memcpy(old, broadcast_item(b, slot), b->size);
    return true;
}

void aw__broadcast_unsubscribe(aw_broadcast *b, aw_broadcast_receiver *r, void *old) {
    uint64_t n = r->next;
    if (!n) return;
    r->next = 0;
    aw__lock(&b->lock);
    if (b->receiver_count == 0)
        aw__misuse("a broadcast was unsubscribed from more often than subscribed to");
    b->receiver_count--;
    for (uint64_t end = b->next; n < end; n++) {
        if (n < oldest(b)) n = oldest(b); /* overwritten, before or meanwhile */
        if (n >= end || !skip_message(b, n, old)) continue;
        aw__unlock(&b->lock);
        b->release(old);
        aw__lock(&b->lock);
    }
    broadcast_wake_and_unlock(b);
}

/* Under the lock. */
static int broadcast_receive(aw_broadcast *b, aw_broadcast_receiver *r, void *value) {
    if (r->next == b->next) return b->flags & BROADCAST_CLOSED ? -EPIPE : -EAGAIN;
    if (r->next < oldest(b)) {
        if (!r->next)
            aw__misuse("a broadcast receiver was used that is not subscribed: call "
                       "aw_broadcast_subscribe");
        r->lag = oldest(b) - r->next;
        r->next = oldest(b);
        return -EOVERFLOW;
    }
    uint32_t slot = slot_of(b, r->next++);
    bool last = --b->pending[slot] == 0;
    if (b->clone && !last)
        b->clone(value, broadcast_item(b, slot));
    else
        memcpy(value, broadcast_item(b, slot), b->size);
    return 0;
}

int aw__broadcast_try_recv(aw_broadcast *b, aw_broadcast_receiver *r, void *value) {
    aw__lock(&b->lock);
    int out = broadcast_receive(b, r, value);
    aw__unlock(&b->lock);
    return out;
}

size_t aw__broadcast_len(aw_broadcast *b, const aw_broadcast_receiver *r) {
    aw__lock(&b->lock);
    uint64_t from = r->next < oldest(b) ? oldest(b) : r->next;
    size_t len = r->next ? (size_t)(b->next - from) : 0;
    aw__unlock(&b->lock);
    return len;
}

/* ---- The futures ----------------------------------------------------------------------------- */

static void broadcast_unlock(aw__waiter *w, void *deferred) {
    (void)deferred;
    aw__unlock(&broadcast_future_of(w)->broadcast->lock);
}

static int broadcast_recv_attempt(aw__waiter *w, bool fresh, void *deferred) {
    (void)deferred;
    aw_broadcast_future *f = broadcast_future_of(w);
    f->before = f->receiver->next;
    int out = broadcast_receive(f->broadcast, f->receiver, f->value);
    if (out == -EAGAIN && !fresh) aw__waiters_add(&f->broadcast->receivers, w);
    return out;
}

static aw_poll broadcast_recv_poll(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_broadcast *b = broadcast_future_of(w)->broadcast;
    return aw__wait_poll_attempt(w, &b->lock, &b->receivers, broadcast_recv_attempt,
                                 broadcast_unlock, NULL, cx);
}

/* Nothing is received before the poll, so there is nothing to put back. */
static aw_poll broadcast_recv_cancel(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_broadcast *b = broadcast_future_of(w)->broadcast;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&b->lock);
    aw__wait_leave(&b->receivers, w);
    aw__unlock(&b->lock);
    return aw__wait_cancelled(w, true, cx);
}

/* Under the lock: puts the element back into its slot. False: the message is no longer kept, or the
 * slot still has the element. */
static bool broadcast_put_back(aw_broadcast *b, uint64_t number, const void *value) {
    if (number < oldest(b)) return false;
    uint32_t slot = slot_of(b, number);
    if (b->pending[slot]++) return false;
    memcpy(broadcast_item(b, slot), value, b->size);
    return true;
}

static void broadcast_recv_discard(aw_future *self) {
    aw_broadcast_future *f = (aw_broadcast_future *)self;
    aw_broadcast *b = f->broadcast;
    if (f->out < 0 && f->out != -EOVERFLOW) return;
    aw_release_fn *release = b->release;
    aw__lock(&b->lock);
    bool disposed = f->out != 0;
    if (f->receiver->next) { /* still subscribed */
        disposed = disposed || broadcast_put_back(b, f->before, f->value);
        f->receiver->next = f->before;
    }
    aw__unlock(&b->lock);
    if (!disposed && release) release(f->value);
}

bool aw__broadcast_is_closed(aw_broadcast *b) {
    aw__lock(&b->lock);
    bool closed = b->receiver_count == 0;
    aw__unlock(&b->lock);
    return closed;
}

/* Under the lock. "Closed" is a state, not an event: a receiver that subscribed after the wake
 * counts. */
static int broadcast_closed_attempt(aw__waiter *w, bool fresh, void *deferred) {
    (void)deferred;
    aw_broadcast *b = broadcast_future_of(w)->broadcast;
    if (!b->receiver_count) return 0;
    if (!fresh) aw__waiters_add(&b->closers, w);
    return -EAGAIN;
}

static aw_poll broadcast_closed_poll(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_broadcast *b = broadcast_future_of(w)->broadcast;
    return aw__wait_poll_attempt(w, &b->lock, &b->closers, broadcast_closed_attempt,
                                 broadcast_unlock, NULL, cx);
}

static aw_poll broadcast_closed_cancel(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_broadcast *b = broadcast_future_of(w)->broadcast;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&b->lock);
    bool cancelled = aw__wait_leave(&b->closers, w) || b->receiver_count;
    aw__unlock(&b->lock);
    return aw__wait_cancelled(w, cancelled, cx);
}

const aw_future_type aw_broadcast_recv_type = {
    AW_TYPE_OF(aw_broadcast_future, "broadcast_recv"),
    .flags = AW_OUT_ERRNO,
    .poll = broadcast_recv_poll,
    .cancel = broadcast_recv_cancel,
    .discard = broadcast_recv_discard,
};

const aw_future_type aw_broadcast_closed_type = {
    AW_TYPE_OF(aw_broadcast_future, "broadcast_closed"),
    .flags = AW_OUT_ERRNO,
    .poll = broadcast_closed_poll,
    .cancel = broadcast_closed_cancel,
};
