/* SPDX-License-Identifier: MIT
 *
 * Channel: a queue of messages (channel_blocks.h) and three queues of waiters under one short lock.
 * While there are no waiters and enough free slots, senders use a lock of their own
 * (channel_tail.h). "The lock" below means the channel locked exclusively. Nothing here is
 * lock-free: a send and a receive are one locked instruction each. A lock-free ring needs at least
 * as much, and would still have to check for waiters.
 *
 *   1. A waiter that can proceed is never left waiting. While a receiver waits, each message inside
 *      has a woken receiver; while a sender waits, no slot is free. Each change is followed by
 *      settle_one(), which ends the waits that can end, first come first served. So an operation
 *      that finds no waiters need not check further. One that finds waiters must queue behind them,
 *      even if the lock is free because a batch of many is being woken.
 *   2. The message of a waiting sender is copied into the queue by the thread that frees a slot.
 *      That completes the send.
 *   3. A waiting receiver is woken for a message, which stays in the queue until that receiver is
 *      polled. If it is cancelled before, the message is for the next receiver and has never moved.
 *      A receive that comes meanwhile waits behind the woken one. Only try_recv takes the message:
 *      it must not report the queue as empty. Then the woken receiver waits again at its old
 *      position, which is given by its ticket, a number in order of arrival. So each operation
 *      behaves as on a plain queue, at the moment it holds the lock. A finished receive that is
 *      discarded puts its messages back by their numbers.
 *   4. An operation does not touch the channel after unlocking: the receiver of the message may
 *      free it. */
#include "sync/channel_lock.h"

#include <awake/runtime.h>

#include "base/misuse.h"
#include "context/context.h"

static bool channel_has_slot(const aw_channel *c) {
    return c->len + c->reserved < c->capacity;
}

/* Whether a new send has to wait. */
static bool channel_is_full(const aw_channel *c) {
    return c->senders.first || !channel_has_slot(c);
}

/* Whether there is a message for which no receiver has been woken. */
static bool channel_has_message(const aw_channel *c) {
    return c->len > c->woken;
}

static bool channel_is_closed(const aw_channel *c) {
    return c->flags & AW__CHANNEL_CLOSED;
}

static bool channel_is_abandoned(const aw_channel *c) {
    return c->flags & AW__CHANNEL_ABANDONED;
}

/* ---- Serving waiters ------------------------------------------------------------------------- */

static void grant_slot(aw_channel *c, aw__wakes *wakes) {
    aw_channel_future *f = (aw_channel_future *)(void *)c->senders.first;
    bool closed = channel_is_closed(c);
    if (!closed && f->value)
        aw__blocks_push(c, f->value);
    else if (!closed)
        c->reserved++;
    aw__waiter_end(&c->senders, c->senders.first, closed ? -EPIPE : 0, wakes);
}

static void wake_receiver(aw_channel *c, aw__wakes *wakes) {
    c->woken++;
    aw__waiter_end(&c->receivers, c->receivers.first, 0, wakes);
}

static bool sender_can_proceed(const aw_channel *c) {
    return c->senders.first && (channel_is_closed(c) || channel_has_slot(c));
}

static bool receiver_can_proceed(const aw_channel *c) {
    return c->receivers.first && (channel_has_message(c) || aw__channel_drained(c));
}

static bool closer_can_proceed(const aw_channel *c) {
    return c->closers.first && channel_is_closed(c);
}

/* Ends one wait that can end. False: there is none. */
static bool settle_one(aw_channel *c, aw__wakes *wakes) {
    if (sender_can_proceed(c))
        grant_slot(c, wakes);
    else if (receiver_can_proceed(c) && channel_has_message(c))
        wake_receiver(c, wakes);
    else if (receiver_can_proceed(c))
        aw__waiter_end(&c->receivers, c->receivers.first, -EPIPE, wakes);
    else if (closer_can_proceed(c))
        aw__waiter_end(&c->closers, c->closers.first, 0, wakes);
    else
        return false;
    return true;
}

/* Under the lock, when the batch is full: if more waits can end, releases the lock to run it. */
static bool flush_wakes(aw_channel *c, aw__wakes *wakes) {
    if (!sender_can_proceed(c) && !receiver_can_proceed(c) && !closer_can_proceed(c)) return false;
    aw__unlock(&c->lock);
    aw__wakes_run(wakes);
    aw__channel_lock(c);
    return true;
}

static bool channel_has_waiters(const aw_channel *c) {
    return c->senders.first || c->receivers.first || c->closers.first;
}

static void settle_and_unlock(aw_channel *c, aw__deferred *d) {
    while (channel_has_waiters(c) && (!aw__wakes_full(&d->wakes) || flush_wakes(c, &d->wakes)))
        if (!settle_one(c, &d->wakes)) break;
    const aw_allocator *allocator = c->allocator;
    size_t size = c->size;
    aw__tail_open(c);
    aw__unlock(&c->lock);
    aw__wakes_run(&d->wakes);
    aw__blocks_free(d->blocks, allocator, size);
}

void aw__channel_unlock(aw_channel *c, aw__deferred *d) {
    settle_and_unlock(c, d);
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* An unbounded channel needs a block before the message is stored. Releases the lock meanwhile. */
static AW__COLD int channel_add_block(aw_channel *c) {
    const aw_allocator *allocator = c->allocator;
    size_t size = c->size;
    aw__unlock(&c->lock);
    aw__block *b = aw__block_new(allocator, aw__block_slots(size), size);
    aw__lock(&c->lock);
    if (!channel_is_closed(c)) {
        if (b) aw__blocks_stash(c, b);
        return aw__blocks_full(c) ? -ENOMEM : 0;
    }
    /* Do not look at the messages: the thread that abandoned the channel may be releasing them,
     * without the lock. */
    aw__unlock(&c->lock);
    aw__blocks_free(b, allocator, size);
    aw__lock(&c->lock);
    return 0;
}

static inline int channel_send(aw_channel *c, const void *value) {
    for (;;) {
        if (channel_is_closed(c)) return -EPIPE;
        if (channel_is_full(c)) return -EAGAIN;
        if (AW__LIKELY(!aw__blocks_full(c))) break;
        if (channel_add_block(c) < 0) return -ENOMEM;
    }
    aw__blocks_push(c, value);
    return 0;
}

int aw__channel_try_send(aw_channel *c, const void *value) {
    aw__deferred d;
    if (aw__tail_has_free_slot(c) && aw__tail_push(c, value)) return 0;
    aw__deferred_init(&d);
    aw__channel_lock(c);
    int r = channel_send(c, value);
    settle_and_unlock(c, &d);
    return r;
}

static int channel_reserve(aw_channel *c) {
    if (aw__unbounded(c)) return -EINVAL;
    if (channel_is_closed(c)) return -EPIPE;
    if (channel_is_full(c)) return -EAGAIN;
    c->reserved++;
    return 0;
}

int aw__channel_try_reserve(aw_channel *c) {
    aw__channel_lock(c);
    int r = channel_reserve(c);
    aw__unlock(&c->lock);
    return r;
}

/* Under the lock. */
static void use_permit(aw_channel *c) {
    if (c->reserved == 0) aw__misuse("a channel permit was used that was not reserved");
    c->reserved--;
}

int aw__channel_send_reserved(aw_channel *c, const void *value) {
    aw__deferred d;
    aw__deferred_init(&d);
    aw__channel_lock(c);
    use_permit(c);
    bool abandoned = channel_is_abandoned(c);
    if (!abandoned) aw__blocks_push(c, value);
    settle_and_unlock(c, &d);
    return abandoned ? -EPIPE : 0;
}

void aw__channel_unreserve(aw_channel *c) {
    aw__deferred d;
    aw__deferred_init(&d);
    aw__channel_lock(c);
    use_permit(c);
    settle_and_unlock(c, &d);
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static inline int channel_receive(aw_channel *c, void *value, aw__deferred *d) {
    if (c->len == 0) return aw__channel_drained(c) ? -EPIPE : -EAGAIN;
    aw__blocks_pop(c, value, &d->blocks);
    return 0;
}

int aw__channel_try_recv(aw_channel *c, void *value) {
    aw__deferred d;
    aw__deferred_init(&d);
    aw__channel_lock(c);
    int r = channel_receive(c, value, &d);
    settle_and_unlock(c, &d);
    return r;
}

/* The first message, and further ones for which no receiver has been woken. Only consecutive
 * messages, so that they can be put back. */
static int channel_receive_many(aw_channel *c, char *values, uint32_t n, aw__deferred *d) {
    uint64_t number = c->first->number;
    int r = n ? channel_receive(c, values, d) : 0;
    if (r < 0 || n == 0) return r;
    uint32_t got = 1;
    for (; got < n && channel_has_message(c) && c->first->number == number + got; got++)
        channel_receive(c, values + got * c->size, d);
    return (int)got;
}

int aw__channel_try_recv_many(aw_channel *c, void *values, uint32_t n) {
    aw__deferred d;
    aw__deferred_init(&d);
    aw__channel_lock(c);
    int r = channel_receive_many(c, values, n, &d);
    settle_and_unlock(c, &d);
    return r;
}

static void release_items(aw_release_fn *release, void *items, size_t size, size_t count) {
    for (size_t i = 0; release && i < count; i++)
        release((char *)items + i * size);
}

/* In a block of their own. False: no memory, or no receivers are left. Without the lock. */
static AW__COLD bool channel_unreceive_block(aw_channel *c, uint64_t number, const void *items,
                                             uint32_t count) {
    aw__deferred d;
    aw__deferred_init(&d);
    aw__block *b = aw__block_new(c->allocator, count, c->size);
    if (!b) {
        aw__rt_log(aw_runtime_current(), AW_LOG_PROBLEM,
                   "no memory to put %u message(s) back into a channel: released", count);
        return false;
    }
    memcpy(b->items, items, count * c->size);
    b->number = number;
    b->count = count;
    aw__channel_lock(c);
    bool done = !channel_is_abandoned(c);
    if (done)
        aw__blocks_insert(c, b);
    else
        d.blocks = b;
    settle_and_unlock(c, &d);
    return done;
}

/* Puts back messages that were received as `number` and following, and discarded. */
static void channel_unreceive(aw_channel *c, uint64_t number, void *items, uint32_t count) {
    aw__deferred d;
    aw__deferred_init(&d);
    aw__channel_lock(c);
    bool abandoned = channel_is_abandoned(c);
    bool done = !abandoned && aw__blocks_unpop(c, number, items, count);
    settle_and_unlock(c, &d);
    if (!done && !abandoned) done = channel_unreceive_block(c, number, items, count);
    if (!done) release_items(c->release, items, c->size, count);
}

/* ---- The futures ----------------------------------------------------------------------------- */

static aw_channel_future *channel_future_of(aw__waiter *w) {
    return (aw_channel_future *)(void *)w;
}

static void channel_unlock_deferred(aw__waiter *w, void *deferred) {
    settle_and_unlock(channel_future_of(w)->channel, deferred);
}

/* Under the lock, which is released. */
static inline aw_poll channel_wait_locked(aw_future *self, aw__waiters *queue,
                                          aw__wait_attempt *attempt, aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw__deferred d;
    aw__deferred_init(&d);
    return aw__wait_locked_attempt(w, &channel_future_of(w)->channel->lock, queue, attempt,
                                   channel_unlock_deferred, &d, cx);
}

static inline aw_poll channel_wait_poll(aw_future *self, aw__waiters *queue,
                                        aw__wait_attempt *attempt, aw_cx *cx) {
    aw_channel *c = ((aw_channel_future *)self)->channel;
    if (aw__wait_stays_pending((aw__waiter *)(void *)self, &c->lock, cx)) return AW_PENDING;
    aw__channel_lock(c);
    return channel_wait_locked(self, queue, attempt, cx);
}

/* Common end of the fast paths, which are kept apart to be short. Without the lock: the channel may
 * be gone. */
static inline aw_poll channel_done(aw_channel_future *f, bool fresh, aw_cx *cx) {
    f->out = 0;
    if (!fresh) aw__wait_disarm((aw__waiter *)f, cx);
    aw_cx_spend(cx);
    return AW_READY;
}

/* Leaves the queue, unless it has its result. */
static aw_poll channel_wait_cancel(aw_future *self, aw__waiters *queue, aw_cx *cx) {
    aw_channel_future *f = (aw_channel_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&f->channel->lock);
    bool dequeued = aw__wait_leave(queue, w);
    aw__unlock(&f->channel->lock);
    return aw__wait_cancelled(w, dequeued, cx);
}

static aw__waiters *senders_of(aw_future *self) {
    return &((aw_channel_future *)self)->channel->senders;
}

/* ---- Send and reserve ---- */

static int channel_send_attempt(aw__waiter *w, bool fresh, void *deferred) {
    (void)deferred;
    return fresh ? channel_send(channel_future_of(w)->channel, channel_future_of(w)->value)
                 : w->out;
}

static __attribute__((noinline)) aw_poll channel_send_locked(aw_future *self, aw_cx *cx) {
    return channel_wait_locked(self, senders_of(self), channel_send_attempt, cx);
}

/* One more message wakes at most one receiver. */
static __attribute__((noinline)) aw_poll channel_sent_to_waiter(aw_channel_future *f, aw_cx *cx) {
    aw__wakes wakes;
    wakes.count = 0;
    wake_receiver(f->channel, &wakes);
    aw__unlock(&f->channel->lock);
    aw_poll r = channel_done(f, true, cx);
    aw__wakes_run(&wakes);
    return r;
}

static aw_poll channel_send_poll(aw_future *self, aw_cx *cx) {
    aw_channel_future *f = (aw_channel_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    aw_channel *c = f->channel;
    uint32_t state = aw__load_acquire(&self->state);
    if (AW__LIKELY(state == AW__WAIT_FRESH)) {
        if (aw__wait_exhausted(state, &c->lock, cx)) return AW_PENDING;
        if (aw__tail_has_free_slot(c) && aw__tail_push(c, f->value))
            return channel_done(f, true, cx);
    } else if (aw__wait_stays_pending(w, &c->lock, cx)) {
        return AW_PENDING;
    } else if (state == AW__WAIT_DONE) {
        return aw__wait_done(w, &c->lock, cx);
    }
    aw__channel_lock(c);
    bool fast = self->state == AW__WAIT_FRESH && !channel_is_closed(c) && !channel_is_full(c);
    if (AW__UNLIKELY(!fast || aw__blocks_full(c))) return channel_send_locked(self, cx);
    aw__blocks_push(c, f->value);
    if (c->receivers.first && channel_has_message(c)) return channel_sent_to_waiter(f, cx);
    aw__tail_open(c);
    aw__unlock(&c->lock);
    return channel_done(f, true, cx);
}

static aw_poll channel_send_cancel(aw_future *self, aw_cx *cx) {
    return channel_wait_cancel(self, senders_of(self), cx);
}

static int channel_reserve_attempt(aw__waiter *w, bool fresh, void *deferred) {
    (void)deferred;
    return fresh ? channel_reserve(channel_future_of(w)->channel) : w->out;
}

static aw_poll channel_reserve_poll(aw_future *self, aw_cx *cx) {
    return channel_wait_poll(self, senders_of(self), channel_reserve_attempt, cx);
}

static void channel_reserve_discard(aw_future *self) {
    aw_channel_future *f = (aw_channel_future *)self;
    if (f->out == 0) aw__channel_unreserve(f->channel);
}

/* ---- Receive ---- */

/* A new receive waits behind receivers that wait, or that were woken for the messages inside. A
 * woken receiver gives up its claim (`woken`) and tries first. */
static inline bool must_wait(aw_channel *c, bool fresh) {
    if (fresh) return c->receivers.first || (c->len && !channel_has_message(c));
    c->woken--;
    return false;
}

/* While it waits, `number` is the ticket of the receiver. */
static int wait_in_order(aw_channel_future *f, bool fresh) {
    aw_channel *c = f->channel;
    if (fresh) {
        f->number = c->next_ticket++;
        return -EAGAIN;
    }
    aw__waiter *next = c->receivers.first;
    while (next && channel_future_of(next)->number < f->number)
        next = next->next;
    aw__waiters_add_before(&c->receivers, next, (aw__waiter *)f);
    return -EAGAIN;
}

static int channel_recv_attempt(aw__waiter *w, bool fresh, void *deferred) {
    aw_channel_future *f = channel_future_of(w);
    aw_channel *c = f->channel;
    if (!fresh && f->out < 0) return f->out; /* no message will come */
    uint64_t number = c->first->number;
    int r = must_wait(c, fresh) ? -EAGAIN : channel_receive(c, f->value, deferred);
    if (r == -EAGAIN) return wait_in_order(f, fresh);
    f->number = number;
    return r;
}

static int channel_recv_many_attempt(aw__waiter *w, bool fresh, void *deferred) {
    aw_channel_future *f = channel_future_of(w);
    aw_channel *c = f->channel;
    if (!fresh && f->out < 0) return f->out;
    uint64_t number = c->first->number;
    bool wait = f->wants && must_wait(c, fresh);
    int r = wait ? -EAGAIN : channel_receive_many(c, f->value, f->wants, deferred);
    if (r == -EAGAIN) return wait_in_order(f, fresh);
    f->number = number;
    return r;
}

static __attribute__((noinline)) aw_poll channel_recv_locked(aw_future *self, aw_cx *cx) {
    return channel_wait_locked(self, &((aw_channel_future *)self)->channel->receivers,
                               channel_recv_attempt, cx);
}

static aw_poll channel_recv_poll(aw_future *self, aw_cx *cx) {
    aw_channel_future *f = (aw_channel_future *)self;
    aw_channel *c = f->channel;
    if (aw__wait_stays_pending((aw__waiter *)f, &c->lock, cx)) return AW_PENDING;
    aw__lock(&c->lock);
    bool fresh = self->state == AW__WAIT_FRESH;
    bool fast = fresh ? channel_has_message(c) && !c->receivers.first
                      : self->state == AW__WAIT_DONE && f->out == 0 && c->len;
    bool empties_block = c->first != c->last && c->first->count == 1;
    if (AW__UNLIKELY(!fast || empties_block || c->senders.first || channel_is_closed(c))) {
        if (aw__tail_is_open(c)) aw__tail_close(c);
        return channel_recv_locked(self, cx);
    }
    c->woken -= !fresh;
    f->number = c->first->number;
    aw__blocks_pop(c, f->value, NULL);
    aw__unlock(&c->lock);
    return channel_done(f, fresh, cx);
}

static aw_poll channel_recv_many_poll(aw_future *self, aw_cx *cx) {
    aw_channel *c = ((aw_channel_future *)self)->channel;
    return channel_wait_poll(self, &c->receivers, channel_recv_many_attempt, cx);
}

/* The message that it was woken for is left to the next receiver. */
static aw_poll channel_recv_cancel(aw_future *self, aw_cx *cx) {
    aw_channel_future *f = (aw_channel_future *)self;
    aw_channel *c = f->channel;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__deferred d;
    aw__deferred_init(&d);
    aw__lock(&c->lock);
    bool dequeued = aw__wait_leave(&c->receivers, w), woken = !dequeued && f->out == 0;
    if (woken) c->woken--;
    settle_and_unlock(c, &d);
    return aw__wait_cancelled(w, dequeued || woken, cx);
}

static void channel_recv_discard(aw_future *self) {
    aw_channel_future *f = (aw_channel_future *)self;
    if (f->out == 0) channel_unreceive(f->channel, f->number, f->value, 1);
}

static void channel_recv_many_discard(aw_future *self) {
    aw_channel_future *f = (aw_channel_future *)self;
    if (f->out > 0) channel_unreceive(f->channel, f->number, f->value, (uint32_t)f->out);
}

/* ---- Closed ---- */

static int channel_closed_attempt(aw__waiter *w, bool fresh, void *deferred) {
    (void)fresh, (void)deferred;
    return channel_is_closed(channel_future_of(w)->channel) ? 0 : -EAGAIN;
}

static aw_poll channel_closed_poll(aw_future *self, aw_cx *cx) {
    aw_channel *c = ((aw_channel_future *)self)->channel;
    return channel_wait_poll(self, &c->closers, channel_closed_attempt, cx);
}

static aw_poll channel_closed_cancel(aw_future *self, aw_cx *cx) {
    return channel_wait_cancel(self, &((aw_channel_future *)self)->channel->closers, cx);
}

const aw_future_type aw_channel_send_type = {
    AW_TYPE_OF(aw_channel_future, "channel_send"),
    .flags = AW_OUT_ERRNO,
    .poll = channel_send_poll,
    .cancel = channel_send_cancel,
};

const aw_future_type aw_channel_reserve_type = {
    AW_TYPE_OF(aw_channel_future, "channel_reserve"),
    .flags = AW_OUT_ERRNO,
    .poll = channel_reserve_poll,
    .cancel = channel_send_cancel,
    .discard = channel_reserve_discard,
};

const aw_future_type aw_channel_recv_type = {
    AW_TYPE_OF(aw_channel_future, "channel_recv"),
    .flags = AW_OUT_ERRNO,
    .poll = channel_recv_poll,
    .cancel = channel_recv_cancel,
    .discard = channel_recv_discard,
};

const aw_future_type aw_channel_recv_many_type = {
    AW_TYPE_OF(aw_channel_future, "channel_recv_many"),
    .flags = AW_OUT_ERRNO,
    .poll = channel_recv_many_poll,
    .cancel = channel_recv_cancel,
    .discard = channel_recv_many_discard,
};

const aw_future_type aw_channel_closed_type = {
    AW_TYPE_OF(aw_channel_future, "channel_closed"),
    .flags = AW_OUT_ERRNO,
    .poll = channel_closed_poll,
    .cancel = channel_closed_cancel,
};
