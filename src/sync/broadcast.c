/* SPDX-License-Identifier: MIT
 *
 * Broadcast: a ring of the last messages, and who waits, under a short lock. Nothing is lock-free: a message of any
 * size has to be read whole.
 *
 *   1. Messages are numbered. Kept are the last `capacity`; a receiver knows the number of its next one, and so how many it
 *      has missed when that one is not kept any more.
 *   2. `left` of a slot counts those who have still to receive it: all that were subscribed when it was sent, less
 *      those who have it, or have unsubscribed. At 0 the element is gone: the last receiver got it, or it was released.
 *   3. A receiver that waits has received everything: so when a message comes, all that wait are woken, some at a
 *      time, and the lock is free in between. Those who come to wait meanwhile, or wait again, have the new one
 *      already. What counts is where the receiver was when it began to wait: it may have gone on in another way, and
 *      must not keep those behind it from being woken.
 *   4. Elements are released when the lock is free: a release may send. */
#include <awake/broadcast.h>

#include <string.h>

#include "core/alloc.h"
#include "core/misuse.h"
#include "sync/waiters.h"

enum { CLOSED = 1 };

static aw_broadcast_future *of(aw__waiter *w) {
    return (aw_broadcast_future *)(void *)w;
}

/* ---- Slots ------------------------------------------------------------------------------------ */

static uint64_t oldest(const aw_broadcast *b) {
    return b->next > b->capacity ? b->next - b->capacity : 0;
}

/* Of a message that is kept. */
static uint32_t slot_of(const aw_broadcast *b, uint64_t number) {
    uint32_t back = (uint32_t)(b->next - number);
    return b->end >= back ? b->end - back : b->end + (b->capacity - back);
}

static void *item_at(const aw_broadcast *b, uint32_t slot) {
    return b->items + slot * b->size;
}

/* ---- Begin and end ---------------------------------------------------------------------------- */

static bool good_capacity(size_t capacity, size_t size) {
    return capacity > 0 && capacity <= AW_BROADCAST_MAX &&
           capacity <= SIZE_MAX / 2 / (size + sizeof(uint32_t));
}

static size_t room_bytes(size_t capacity, size_t size) {
    return ((capacity * size + 3) & ~(size_t)3) + capacity * sizeof(uint32_t);
}

int aw__broadcast_init_in(aw_broadcast *b, size_t size, size_t capacity, void *items,
                          uint32_t *left) {
    if (!good_capacity(capacity, size)) return -EINVAL;
    *b = (aw_broadcast){.size = size, .capacity = (uint32_t)capacity, .items = items, .left = left};
    b->sender_count = 1;
    memset(left, 0, capacity * sizeof *left);
    return 0;
}

int aw__broadcast_init(aw_broadcast *b, size_t size, size_t capacity) {
    if (!good_capacity(capacity, size)) return -EINVAL;
    const aw_allocator *allocator = aw_get_allocator();
    char *room = aw__alloc(allocator, room_bytes(capacity, size));
    if (!room) return -ENOMEM;
    void *left = room + room_bytes(capacity, size) - capacity * sizeof(uint32_t);
    aw__broadcast_init_in(b, size, capacity, room, left);
    b->allocator = allocator;
    return 0;
}

void aw__broadcast_free(aw_broadcast *b) {
    if (b->receivers.first || b->closers.first)
        aw__misuse("a broadcast is freed while somebody waits for it");
    b->flags |= CLOSED;
    for (uint64_t n = oldest(b); n < b->next && b->release; n++)
        if (b->left[slot_of(b, n)]) b->release(item_at(b, slot_of(b, n)));
    if (b->allocator) aw__release(b->allocator, b->items, room_bytes(b->capacity, b->size));
}

/* ---- Waking ----------------------------------------------------------------------------------- */

/* With the lock: who can go on, if anybody. */
static aw__waiters *ready_queue(void *owner) {
    aw_broadcast *b = owner;
    aw__waiter *first = b->receivers.first;
    if (first && (of(first)->before != b->next || b->flags & CLOSED)) return &b->receivers;
    return b->closers.first && !b->receiver_count ? &b->closers : NULL;
}

/* With the lock, which is given back. */
static void wake_and_unlock(aw_broadcast *b) {
    aw__wake_ready_and_unlock(&b->lock, ready_queue, b);
}

/* ---- Senders ---------------------------------------------------------------------------------- */

int aw__broadcast_send(aw_broadcast *b, const void *value, void *old) {
    aw_release_fn *release = b->release;
    aw__lock(&b->lock);
    int receivers = (int)b->receiver_count;
    if (b->flags & CLOSED || receivers == 0) {
        aw__unlock(&b->lock);
        return -EPIPE;
    }
    uint32_t slot = b->end;
    bool missed = release && b->left[slot];
    if (missed) memcpy(old, item_at(b, slot), b->size);
    memcpy(item_at(b, slot), value, b->size);
    b->left[slot] = b->receiver_count;
    b->end = slot + 1 == b->capacity ? 0 : slot + 1;
    b->next++;
    wake_and_unlock(b);
    if (missed) release(old);
    return receivers;
}

void aw__broadcast_close(aw_broadcast *b) {
    aw__lock(&b->lock);
    b->flags |= CLOSED;
    wake_and_unlock(b);
}

void aw__broadcast_sender_clone(aw_broadcast *b) {
    aw__lock(&b->lock);
    b->sender_count++;
    aw__unlock(&b->lock);
}

void aw__broadcast_sender_drop(aw_broadcast *b) {
    aw__lock(&b->lock);
    if (b->sender_count == 0) aw__misuse("a broadcast is dropped by more senders than it has");
    if (--b->sender_count == 0) b->flags |= CLOSED;
    wake_and_unlock(b);
}

/* ---- Receivers -------------------------------------------------------------------------------- */

aw_broadcast_receiver aw__broadcast_subscribe(aw_broadcast *b) {
    aw__lock(&b->lock);
    b->receiver_count++;
    aw_broadcast_receiver r = {b->next, 0};
    aw__unlock(&b->lock);
    return r;
}

/* With the lock: one that will not receive this one. True: it was the last, and the element is in `old`, to be
 * released. */
static bool give_up(aw_broadcast *b, uint64_t number, void *old) {
    uint32_t slot = slot_of(b, number);
    if (--b->left[slot] || !b->release) return false;
    memcpy(old, item_at(b, slot), b->size);
    return true;
}

void aw__broadcast_unsubscribe(aw_broadcast *b, aw_broadcast_receiver *r, void *old) {
    aw__lock(&b->lock);
    if (b->receiver_count == 0)
        aw__misuse("a broadcast is unsubscribed by more than have subscribed");
    b->receiver_count--;
    for (uint64_t n = r->next, end = b->next; n < end; n++) {
        if (n < oldest(b)) n = oldest(b); /* also by who sends meanwhile */
        if (n >= end || !give_up(b, n, old)) continue;
        aw__unlock(&b->lock);
        b->release(old);
        aw__lock(&b->lock);
    }
    r->next = UINT64_MAX;
    wake_and_unlock(b);
}

/* With the lock. */
static int receive(aw_broadcast *b, aw_broadcast_receiver *r, void *value) {
    if (r->next == b->next) return b->flags & CLOSED ? -EPIPE : -EAGAIN;
    if (r->next < oldest(b)) {
        r->lag = oldest(b) - r->next;
        r->next = oldest(b);
        return -EOVERFLOW;
    }
    uint32_t slot = slot_of(b, r->next++);
    bool last = --b->left[slot] == 0;
    if (b->clone && !last)
        b->clone(value, item_at(b, slot));
    else
        memcpy(value, item_at(b, slot), b->size);
    return 0;
}

int aw__broadcast_try_recv(aw_broadcast *b, aw_broadcast_receiver *r, void *value) {
    aw__lock(&b->lock);
    int out = receive(b, r, value);
    aw__unlock(&b->lock);
    return out;
}

size_t aw__broadcast_len(aw_broadcast *b, const aw_broadcast_receiver *r) {
    aw__lock(&b->lock);
    uint64_t from = r->next < oldest(b) ? oldest(b) : r->next;
    size_t len = (size_t)(b->next - from);
    aw__unlock(&b->lock);
    return len;
}

/* ---- The futures ------------------------------------------------------------------------------ */

static void plain_unlock(aw__waiter *w, void *after) {
    (void)after;
    aw__unlock(&of(w)->broadcast->lock);
}

static int recv_look(aw__waiter *w, bool fresh, void *after) {
    (void)after;
    aw_broadcast_future *f = of(w);
    f->before = f->receiver->next;
    int out = receive(f->broadcast, f->receiver, f->value);
    if (out == -EAGAIN && !fresh) aw__waiters_add(&f->broadcast->receivers, w);
    return out;
}

static aw_poll recv_poll(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_broadcast *b = of(w)->broadcast;
    return aw__wait_poll_look(w, &b->lock, &b->receivers, recv_look, plain_unlock, NULL, cx);
}

/* Nothing has been taken until it is polled: there is nothing to give back. */
static aw_poll wait_cancel(aw_future *self, aw__waiters *queue, aw_cx *cx, bool stands) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&of(w)->broadcast->lock);
    bool left = aw__wait_leave(queue, w);
    aw__unlock(&of(w)->broadcast->lock);
    return aw__wait_cancelled(w, left || !stands, cx);
}

static aw_poll recv_cancel(aw_future *self, aw_cx *cx) {
    return wait_cancel(self, &((aw_broadcast_future *)self)->broadcast->receivers, cx, false);
}

/* With the lock: the element is in its slot again. False: it is one too many. */
static bool put_back(aw_broadcast *b, uint64_t number, const void *value) {
    if (number < oldest(b)) return false;
    uint32_t slot = slot_of(b, number);
    if (b->left[slot]++) return false;
    memcpy(item_at(b, slot), value, b->size);
    return true;
}

static void recv_discard(aw_future *self) {
    aw_broadcast_future *f = (aw_broadcast_future *)self;
    aw_broadcast *b = f->broadcast;
    if (f->out < 0 && f->out != -EOVERFLOW) return;
    aw_release_fn *release = b->release;
    aw__lock(&b->lock);
    bool inside = f->out != 0 || put_back(b, f->before, f->value);
    f->receiver->next = f->before;
    aw__unlock(&b->lock);
    if (!inside && release) release(f->value);
}

bool aw__broadcast_is_closed(aw_broadcast *b) {
    aw__lock(&b->lock);
    bool closed = b->receiver_count == 0;
    aw__unlock(&b->lock);
    return closed;
}

static int closed_look(aw__waiter *w, bool fresh, void *after) {
    (void)after;
    return fresh && of(w)->broadcast->receiver_count ? -EAGAIN : 0;
}

static aw_poll closed_poll(aw_future *self, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw_broadcast *b = of(w)->broadcast;
    return aw__wait_poll_look(w, &b->lock, &b->closers, closed_look, plain_unlock, NULL, cx);
}

static aw_poll closed_cancel(aw_future *self, aw_cx *cx) {
    return wait_cancel(self, &((aw_broadcast_future *)self)->broadcast->closers, cx, true);
}

const aw_future_type aw_broadcast_recv_type = {
    AW_TYPE_OF(aw_broadcast_future, "broadcast_recv"),
    .flags = AW_OUT_ERRNO,
    .poll = recv_poll,
    .cancel = recv_cancel,
    .discard = recv_discard,
};

const aw_future_type aw_broadcast_closed_type = {
    AW_TYPE_OF(aw_broadcast_future, "broadcast_closed"),
    .flags = AW_OUT_ERRNO,
    .poll = closed_poll,
    .cancel = closed_cancel,
};
