/* SPDX-License-Identifier: MIT
 *
 * Channel: a queue of messages (blocks.h) and three queues of waiters under one short lock. Where nobody waits and
 * there is room, senders have a lock of their own (back.h); "the lock" below is the front, whole. Nothing here is
 * lock-free: a send is one locked instruction and a receive is one, which is what a ring without a lock needs at
 * least, and that one would still have to ask whether somebody waits.
 *
 *   1. Nobody waits who could go on: while a receiver waits, there is a woken one for each message inside; while a sender
 *      waits, no slot is free. Each change is followed by settle_one(), which ends the waits of those who can go on, the
 *      first that came first. So who finds nobody waiting need not look further; and who finds somebody waiting has to wait
 *      behind him, also when the lock is free because some of many are being woken.
 *   2. A waiting sender's message is copied into the queue by who makes a slot free, and the send is done.
 *   3. A waiting receiver is woken for a message, which stays in the queue until that receiver is polled. One that is
 *      cancelled before that leaves it to the next, and the message has never moved. A receive that comes meanwhile
 *      waits behind it. Only a try_recv takes what is there: the queue is not empty, so it cannot say so; then the
 *      woken one waits again, where it was: receivers have numbers, in the order in which they came. So every
 *      operation is what it is on a plain queue, at the moment at which it has the lock. A receiver that has finished
 *      and is discarded puts its messages back by their numbers.
 *   4. An operation does not touch the channel once the lock is free: who got the message may free it. */
#include "sync/channel.h"

#include <awake/runtime.h>

#include "core/misuse.h"

static bool has_slot(const aw_channel *c) {
    return c->len + c->reserved < c->capacity;
}

/* For who comes now. */
static bool is_full(const aw_channel *c) {
    return c->senders.first || !has_slot(c);
}

/* One that nobody was woken for. */
static bool has_message(const aw_channel *c) {
    return c->len > c->woken;
}

static bool is_closed(const aw_channel *c) {
    return c->flags & AW__CHANNEL_CLOSED;
}

static bool is_abandoned(const aw_channel *c) {
    return c->flags & AW__CHANNEL_ABANDONED;
}

/* ---- Letting others go on --------------------------------------------------------------------- */

static void grant_slot(aw_channel *c, aw__wakes *wakes) {
    aw_channel_future *f = (aw_channel_future *)(void *)c->senders.first;
    bool closed = is_closed(c);
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

static bool sender_can_go_on(const aw_channel *c) {
    return c->senders.first && (is_closed(c) || has_slot(c));
}

static bool receiver_can_go_on(const aw_channel *c) {
    return c->receivers.first && (has_message(c) || aw__channel_drained(c));
}

static bool closer_can_go_on(const aw_channel *c) {
    return c->closers.first && is_closed(c);
}

/* One more who can go on; false: there is none. */
static bool settle_one(aw_channel *c, aw__wakes *wakes) {
    if (sender_can_go_on(c))
        grant_slot(c, wakes);
    else if (receiver_can_go_on(c) && has_message(c))
        wake_receiver(c, wakes);
    else if (receiver_can_go_on(c))
        aw__waiter_end(&c->receivers, c->receivers.first, -EPIPE, wakes);
    else if (closer_can_go_on(c))
        aw__waiter_end(&c->closers, c->closers.first, 0, wakes);
    else
        return false;
    return true;
}

/* With the lock, when the wakes are full: lets it go for them, if there are more. */
static bool make_room(aw_channel *c, aw__wakes *wakes) {
    if (!sender_can_go_on(c) && !receiver_can_go_on(c) && !closer_can_go_on(c)) return false;
    aw__unlock(&c->lock);
    aw__wakes_run(wakes);
    aw__channel_lock(c);
    return true;
}

static bool somebody_waits(const aw_channel *c) {
    return c->senders.first || c->receivers.first || c->closers.first;
}

static void unlock(aw_channel *c, aw__after *a) {
    while (somebody_waits(c) && (!aw__wakes_full(&a->wakes) || make_room(c, &a->wakes)))
        if (!settle_one(c, &a->wakes)) break;
    const aw_allocator *allocator = c->allocator;
    size_t size = c->size;
    aw__back_open(c);
    aw__unlock(&c->lock);
    aw__wakes_run(&a->wakes);
    aw__blocks_free(a->blocks, allocator, size);
}

void aw__channel_unlock(aw_channel *c, aw__after *a) {
    unlock(c, a);
}

/* ---- Sending ---------------------------------------------------------------------------------- */

/* An unbounded channel has to have a block before a message can go in; the lock is let go meanwhile. */
static AW__COLD int add_block(aw_channel *c) {
    const aw_allocator *allocator = c->allocator;
    size_t size = c->size;
    aw__unlock(&c->lock);
    aw__block *b = aw__block_new(allocator, aw__block_slots(size), size);
    aw__lock(&c->lock);
    if (!is_closed(c)) {
        if (b) aw__blocks_keep(c, b);
        return aw__blocks_full(c) ? -ENOMEM : 0;
    }
    /* What is inside may be released just now by who abandoned it, without the lock: it is not looked at. */
    aw__unlock(&c->lock);
    aw__blocks_free(b, allocator, size);
    aw__lock(&c->lock);
    return 0;
}

static inline int send(aw_channel *c, const void *value) {
    for (;;) {
        if (is_closed(c)) return -EPIPE;
        if (is_full(c)) return -EAGAIN;
        if (AW__LIKELY(!aw__blocks_full(c))) break;
        if (add_block(c) < 0) return -ENOMEM;
    }
    aw__blocks_push(c, value);
    return 0;
}

int aw__channel_try_send(aw_channel *c, const void *value) {
    aw__after a;
    if (aw__back_has_room(c) && aw__back_push(c, value)) return 0;
    aw__after_begin(&a);
    aw__channel_lock(c);
    int r = send(c, value);
    unlock(c, &a);
    return r;
}

static int reserve(aw_channel *c) {
    if (aw__unbounded(c)) return -EINVAL;
    if (is_closed(c)) return -EPIPE;
    if (is_full(c)) return -EAGAIN;
    c->reserved++;
    return 0;
}

int aw__channel_try_reserve(aw_channel *c) {
    aw__channel_lock(c);
    int r = reserve(c);
    aw__unlock(&c->lock);
    return r;
}

/* With the lock. */
static void use_permit(aw_channel *c) {
    if (c->reserved == 0) aw__misuse("a channel is sent to by a permit that nobody has");
    c->reserved--;
}

int aw__channel_send_reserved(aw_channel *c, const void *value) {
    aw__after a;
    aw__after_begin(&a);
    aw__channel_lock(c);
    use_permit(c);
    bool abandoned = is_abandoned(c);
    if (!abandoned) aw__blocks_push(c, value);
    unlock(c, &a);
    return abandoned ? -EPIPE : 0;
}

void aw__channel_unreserve(aw_channel *c) {
    aw__after a;
    aw__after_begin(&a);
    aw__channel_lock(c);
    use_permit(c);
    unlock(c, &a);
}

/* ---- Receiving -------------------------------------------------------------------------------- */

static inline int receive(aw_channel *c, void *value, aw__after *a) {
    if (c->len == 0) return aw__channel_drained(c) ? -EPIPE : -EAGAIN;
    aw__blocks_pop(c, value, &a->blocks);
    return 0;
}

int aw__channel_try_recv(aw_channel *c, void *value) {
    aw__after a;
    aw__after_begin(&a);
    aw__channel_lock(c);
    int r = receive(c, value, &a);
    unlock(c, &a);
    return r;
}

/* The first one, and what else is there that nobody was woken for; but only such that follow one another, so that
 * they can be put back. */
static int receive_many(aw_channel *c, char *values, uint32_t n, aw__after *a) {
    uint64_t number = c->first->number;
    int r = n ? receive(c, values, a) : 0;
    if (r < 0 || n == 0) return r;
    uint32_t got = 1;
    for (; got < n && has_message(c) && c->first->number == number + got; got++)
        receive(c, values + got * c->size, a);
    return (int)got;
}

int aw__channel_try_recv_many(aw_channel *c, void *values, uint32_t n) {
    aw__after a;
    aw__after_begin(&a);
    aw__channel_lock(c);
    int r = receive_many(c, values, n, &a);
    unlock(c, &a);
    return r;
}

static void release_items(aw_release_fn *release, void *items, size_t size, size_t count) {
    for (size_t i = 0; release && i < count; i++)
        release((char *)items + i * size);
}

/* With a block of their own. False: no memory, or nobody wants them. Without the lock. */
static AW__COLD bool put_back_block(aw_channel *c, uint64_t number, const void *items,
                                    uint32_t count) {
    aw__after a;
    aw__after_begin(&a);
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
    bool done = !is_abandoned(c);
    if (done)
        aw__blocks_insert(c, b);
    else
        a.blocks = b;
    unlock(c, &a);
    return done;
}

/* Messages that were received as `number` and following, and that nobody took. */
static void put_back(aw_channel *c, uint64_t number, void *items, uint32_t count) {
    aw__after a;
    aw__after_begin(&a);
    aw__channel_lock(c);
    bool abandoned = is_abandoned(c);
    bool done = !abandoned && aw__blocks_unpop(c, number, items, count);
    unlock(c, &a);
    if (!done && !abandoned) done = put_back_block(c, number, items, count);
    if (!done) release_items(c->release, items, c->size, count);
}

/* ---- The futures ------------------------------------------------------------------------------ */

static aw_channel_future *of(aw__waiter *w) {
    return (aw_channel_future *)(void *)w;
}

static void unlock_after(aw__waiter *w, void *after) {
    unlock(of(w)->channel, after);
}

/* With the lock. */
static inline aw_poll wait_locked(aw_future *self, aw__waiters *queue, aw__wait_look *look,
                                  aw_cx *cx) {
    aw__waiter *w = (aw__waiter *)(void *)self;
    aw__after a;
    aw__after_begin(&a);
    return aw__wait_locked_look(w, &of(w)->channel->lock, queue, look, unlock_after, &a, cx);
}

static inline aw_poll wait_poll(aw_future *self, aw__waiters *queue, aw__wait_look *look,
                                aw_cx *cx) {
    aw_channel *c = ((aw_channel_future *)self)->channel;
    if (aw__wait_goes_on((aw__waiter *)(void *)self, &c->lock, cx)) return AW_PENDING;
    aw__channel_lock(c);
    return wait_locked(self, queue, look, cx);
}

/* What is usual is apart from the rest, so that it is short. Without a lock: the channel may be gone. */
static inline aw_poll done_at_once(aw_channel_future *f, bool fresh, aw_cx *cx) {
    f->out = 0;
    if (!fresh) aw__wait_disarm((aw__waiter *)f, cx);
    aw_cx_spend(cx);
    return AW_READY;
}

/* Its result stands; or it leaves the queue. */
static aw_poll wait_cancel(aw_future *self, aw__waiters *queue, aw_cx *cx) {
    aw_channel_future *f = (aw_channel_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&f->channel->lock);
    bool left = aw__wait_leave(queue, w);
    aw__unlock(&f->channel->lock);
    return aw__wait_cancelled(w, left, cx);
}

static aw__waiters *senders_of(aw_future *self) {
    return &((aw_channel_future *)self)->channel->senders;
}

/* ---- Send and reserve ---- */

static int send_look(aw__waiter *w, bool fresh, void *after) {
    (void)after;
    return fresh ? send(of(w)->channel, of(w)->value) : w->out;
}

static __attribute__((noinline)) aw_poll send_locked(aw_future *self, aw_cx *cx) {
    return wait_locked(self, senders_of(self), send_look, cx);
}

/* One message more wakes one receiver at most. */
static __attribute__((noinline)) aw_poll sent_to_waiter(aw_channel_future *f, aw_cx *cx) {
    aw__wakes wakes;
    wakes.count = 0;
    wake_receiver(f->channel, &wakes);
    aw__unlock(&f->channel->lock);
    aw_poll r = done_at_once(f, true, cx);
    aw__wakes_run(&wakes);
    return r;
}

static aw_poll send_poll(aw_future *self, aw_cx *cx) {
    aw_channel_future *f = (aw_channel_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    aw_channel *c = f->channel;
    uint32_t state = aw__load_acquire(&self->state);
    if (AW__LIKELY(state == AW__WAIT_FRESH)) {
        if (aw__wait_exhausted(state, &c->lock, cx)) return AW_PENDING;
        if (aw__back_has_room(c) && aw__back_push(c, f->value)) return done_at_once(f, true, cx);
    } else if (aw__wait_goes_on(w, &c->lock, cx)) {
        return AW_PENDING;
    } else if (state == AW__WAIT_DONE) {
        return aw__wait_done(w, &c->lock, cx);
    }
    aw__channel_lock(c);
    bool usual = self->state == AW__WAIT_FRESH && !is_closed(c) && !is_full(c);
    if (AW__UNLIKELY(!usual || aw__blocks_full(c))) return send_locked(self, cx);
    aw__blocks_push(c, f->value);
    if (c->receivers.first && has_message(c)) return sent_to_waiter(f, cx);
    aw__back_open(c);
    aw__unlock(&c->lock);
    return done_at_once(f, true, cx);
}

static aw_poll send_cancel(aw_future *self, aw_cx *cx) {
    return wait_cancel(self, senders_of(self), cx);
}

static int reserve_look(aw__waiter *w, bool fresh, void *after) {
    (void)after;
    return fresh ? reserve(of(w)->channel) : w->out;
}

static aw_poll reserve_poll(aw_future *self, aw_cx *cx) {
    return wait_poll(self, senders_of(self), reserve_look, cx);
}

static void reserve_discard(aw_future *self) {
    aw_channel_future *f = (aw_channel_future *)self;
    if (f->out == 0) aw__channel_unreserve(f->channel);
}

/* ---- Receive ---- */

/* Others wait, or were woken for what is there: behind them. One that was woken itself looks first. */
static inline bool must_wait(aw_channel *c, bool fresh) {
    if (fresh) return c->receivers.first || (c->len && !has_message(c));
    c->woken--;
    return false;
}

/* While it waits, `number` is that of the receiver. */
static int wait_in_order(aw_channel_future *f, bool fresh) {
    aw_channel *c = f->channel;
    if (fresh) {
        f->number = c->receivers_came++;
        return -EAGAIN;
    }
    aw__waiter *next = c->receivers.first;
    while (next && of(next)->number < f->number)
        next = next->next;
    aw__waiters_add_before(&c->receivers, next, (aw__waiter *)f);
    return -EAGAIN;
}

static int recv_look(aw__waiter *w, bool fresh, void *after) {
    aw_channel_future *f = of(w);
    aw_channel *c = f->channel;
    if (!fresh && f->out < 0) return f->out; /* nothing will come */
    uint64_t number = c->first->number;
    int r = must_wait(c, fresh) ? -EAGAIN : receive(c, f->value, after);
    if (r == -EAGAIN) return wait_in_order(f, fresh);
    f->number = number;
    return r;
}

static int recv_many_look(aw__waiter *w, bool fresh, void *after) {
    aw_channel_future *f = of(w);
    aw_channel *c = f->channel;
    if (!fresh && f->out < 0) return f->out;
    uint64_t number = c->first->number;
    bool wait = f->wants && must_wait(c, fresh);
    int r = wait ? -EAGAIN : receive_many(c, f->value, f->wants, after);
    if (r == -EAGAIN) return wait_in_order(f, fresh);
    f->number = number;
    return r;
}

static __attribute__((noinline)) aw_poll recv_locked(aw_future *self, aw_cx *cx) {
    return wait_locked(self, &((aw_channel_future *)self)->channel->receivers, recv_look, cx);
}

static aw_poll recv_poll(aw_future *self, aw_cx *cx) {
    aw_channel_future *f = (aw_channel_future *)self;
    aw_channel *c = f->channel;
    if (aw__wait_goes_on((aw__waiter *)f, &c->lock, cx)) return AW_PENDING;
    aw__lock(&c->lock);
    bool fresh = self->state == AW__WAIT_FRESH;
    bool usual = fresh ? has_message(c) && !c->receivers.first
                       : self->state == AW__WAIT_DONE && f->out == 0 && c->len;
    bool ends_block = c->first != c->last && c->first->count == 1;
    if (AW__UNLIKELY(!usual || ends_block || c->senders.first || is_closed(c))) {
        if (aw__back_is_open(c)) aw__back_shut(c);
        return recv_locked(self, cx);
    }
    c->woken -= !fresh;
    f->number = c->first->number;
    aw__blocks_pop(c, f->value, NULL);
    aw__unlock(&c->lock);
    return done_at_once(f, fresh, cx);
}

static aw_poll recv_many_poll(aw_future *self, aw_cx *cx) {
    aw_channel *c = ((aw_channel_future *)self)->channel;
    return wait_poll(self, &c->receivers, recv_many_look, cx);
}

/* The message that it was woken for is for the next one. */
static aw_poll recv_cancel(aw_future *self, aw_cx *cx) {
    aw_channel_future *f = (aw_channel_future *)self;
    aw_channel *c = f->channel;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__after a;
    aw__after_begin(&a);
    aw__lock(&c->lock);
    bool left = aw__wait_leave(&c->receivers, w), woken = !left && f->out == 0;
    if (woken) c->woken--;
    unlock(c, &a);
    return aw__wait_cancelled(w, left || woken, cx);
}

static void recv_discard(aw_future *self) {
    aw_channel_future *f = (aw_channel_future *)self;
    if (f->out == 0) put_back(f->channel, f->number, f->value, 1);
}

static void recv_many_discard(aw_future *self) {
    aw_channel_future *f = (aw_channel_future *)self;
    if (f->out > 0) put_back(f->channel, f->number, f->value, (uint32_t)f->out);
}

/* ---- Closed ---- */

static int closed_look(aw__waiter *w, bool fresh, void *after) {
    (void)fresh, (void)after;
    return is_closed(of(w)->channel) ? 0 : -EAGAIN;
}

static aw_poll closed_poll(aw_future *self, aw_cx *cx) {
    aw_channel *c = ((aw_channel_future *)self)->channel;
    return wait_poll(self, &c->closers, closed_look, cx);
}

static aw_poll closed_cancel(aw_future *self, aw_cx *cx) {
    return wait_cancel(self, &((aw_channel_future *)self)->channel->closers, cx);
}

const aw_future_type aw_channel_send_type = {
    AW_TYPE_OF(aw_channel_future, "channel_send"),
    .flags = AW_OUT_ERRNO,
    .poll = send_poll,
    .cancel = send_cancel,
};

const aw_future_type aw_channel_reserve_type = {
    AW_TYPE_OF(aw_channel_future, "channel_reserve"),
    .flags = AW_OUT_ERRNO,
    .poll = reserve_poll,
    .cancel = send_cancel,
    .discard = reserve_discard,
};

const aw_future_type aw_channel_recv_type = {
    AW_TYPE_OF(aw_channel_future, "channel_recv"),
    .flags = AW_OUT_ERRNO,
    .poll = recv_poll,
    .cancel = recv_cancel,
    .discard = recv_discard,
};

const aw_future_type aw_channel_recv_many_type = {
    AW_TYPE_OF(aw_channel_future, "channel_recv_many"),
    .flags = AW_OUT_ERRNO,
    .poll = recv_many_poll,
    .cancel = recv_cancel,
    .discard = recv_many_discard,
};

const aw_future_type aw_channel_closed_type = {
    AW_TYPE_OF(aw_channel_future, "channel_closed"),
    .flags = AW_OUT_ERRNO,
    .poll = closed_poll,
    .cancel = closed_cancel,
};
