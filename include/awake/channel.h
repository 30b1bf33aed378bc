/* SPDX-License-Identifier: MIT
 *
 * awake/channel.h: a queue of values between tasks and threads. Any number of senders and
 * receivers; each message goes to one receiver.
 *
 *     typedef AW_CHANNEL(int) numbers;
 *     numbers c;
 *     aw_channel_init(&c, 16);                       capacity 16, allocated once; or AW_UNBOUNDED
 *
 *     AW_AWAIT(self->s, aw_channel_send(&c, &self->n));   0; -EPIPE: the value is still yours
 *     AW_AWAIT(self->r, aw_channel_recv(&c, &self->n));   0; -EPIPE: closed and empty
 *
 *     aw_channel_close(&c);                          no more sends; receives go on until empty
 *     aw_channel_free(&c);                           when it is no longer used
 *
 * Values are copied in and out. A value of another type than the channel's does not compile.
 * Messages of one sender are received in order. Waiting senders and waiting receivers are served
 * first come, first served. Tasks of any runtime, fibers and plain threads (aw_wait) may use the
 * same channel.
 *
 * The value of a send or receive is borrowed until that future has ended. A cancelled receive takes
 * no message. If you discard a finished receive, its messages go back to their old position, so the
 * value must still exist. That needs memory if other messages were sent and received meanwhile.
 * Without memory the message is released, and logged. */
#ifndef AWAKE_CHANNEL_H
#define AWAKE_CHANNEL_H

#include <awake/alloc.h>
#include <awake/detail/channel.h>
#include <awake/detail/element.h>
#include <awake/detail/waiter.h>
#include <awake/element.h>
#include <awake/wait.h>

AW_C_BEGIN

#define AW_UNBOUNDED SIZE_MAX

/* A channel of any type. Must outlive its waiters and each call; do not move it. Its members are
 * private. */
typedef struct aw_channel {
    uint32_t lock;
    uint32_t flags;
    size_t size; /* of an element */
    size_t capacity;
    size_t len;        /* messages inside */
    uint32_t woken;    /* receivers that were woken for a message, and not polled yet */
    uint32_t reserved; /* slots of permits */
    aw__block *first;  /* blocks of messages that were put back, then `last` */
    aw__block *last;   /* `ring`, or the block that an unbounded channel fills */
    aw__waiters receivers, senders, closers;
    uint64_t next_ticket; /* order of waiting receivers */
    aw__block ring;
    aw__block *spare;
    aw_release_fn *release;
    const aw_allocator *allocator;
    uint32_t sender_count, receiver_count, weak_count;
    char padding[28]; /* senders and receivers write different cache lines */
    aw__channel_tail tail;
} aw_channel;

#define AW_CHANNEL(T)                                                                              \
    union {                                                                                        \
        aw_channel channel;                                                                        \
        __typeof__(T) *item; /* never set: names the type */                                       \
    }

/* Your storage for a bounded channel, for aw_channel_init_in. One extra slot, for a message that is
 * put back. */
#define AW_CHANNEL_STORAGE(T, capacity)                                                            \
    struct {                                                                                       \
        __typeof__(T) items[(capacity) + 1];                                                       \
    }

/* ---- Begin and end ---------------------------------------------------------------------------
 * 0; -ENOMEM; -EINVAL: the capacity is 0 or more than AW_CHANNEL_MAX. An unbounded channel
 * allocates as needed, from the allocator of the process, and keeps little when it is empty. */
#define AW_CHANNEL_MAX 0x7fffffffu
#define aw_channel_init(c, capacity)                                                               \
    AW__ITEMS_OF(__typeof__(*(c)->item),                                                           \
                 aw__channel_init(&(c)->channel, sizeof *(c)->item, (capacity), NULL))
#define aw_channel_init_in(c, storage)                                                             \
    aw__channel_init(&(c)->channel, sizeof *(c)->item,                                             \
                     sizeof((storage)->items) / sizeof((storage)->items[0]) - 1,                   \
                     AW__ITEM(c, (storage)->items))
AW_API int aw__channel_init(aw_channel *c, size_t size, size_t capacity, void *storage);

/* Releases the messages inside. */
#define aw_channel_free(c) aw__channel_free(&(c)->channel)
AW_API void aw__channel_free(aw_channel *c);

/* How to release a message that will not be received. Call it before the first send. */
#define aw_channel_set_release(c, fn) ((void)((c)->channel.release = (fn)))

/* No more sends: they end with -EPIPE, also those that wait. Receivers get the messages inside,
 * then those sent by outstanding permits, and then -EPIPE. */
#define aw_channel_close(c) aw__channel_close(&(c)->channel)
AW_API void aw__channel_close(aw_channel *c);

#define aw_channel_is_closed(c) aw__channel_is_closed(&(c)->channel)
AW_API bool aw__channel_is_closed(aw_channel *c);
/* Messages inside at this moment. */
#define aw_channel_len(c) aw__channel_len(&(c)->channel)
AW_API size_t aw__channel_len(aw_channel *c);
#define aw_channel_capacity(c) ((c)->channel.capacity)

/* ---- Reference counts ------------------------------------------------------------------------
 * A channel in its own memory, with one sender and one receiver at first:
 *
 *     numbers *c = aw_channel_new(numbers, 16);      NULL: no memory, or invalid capacity
 *
 * All users share the pointer. Drop each reference once. Dropping the last sender closes the
 * channel. Dropping the last receiver closes it and releases the messages inside. Weak senders do
 * not keep it open. The last drop of any kind frees it. (A channel from aw_channel_init has the
 * same counts, but is not freed.) */
#define aw_channel_new(C, capacity)                                                                \
    AW__ITEMS_OF(__typeof__(*((C *)0)->item),                                                      \
                 (C *)(void *)aw__channel_new(sizeof *((C *)0)->item, (capacity)))
AW_API aw_channel *aw__channel_new(size_t size, size_t capacity);

#define aw_channel_sender_keep(c)   aw__channel_sender_keep(&(c)->channel)
#define aw_channel_sender_drop(c)   aw__channel_sender_drop(&(c)->channel)
#define aw_channel_receiver_keep(c) aw__channel_receiver_keep(&(c)->channel)
#define aw_channel_receiver_drop(c) aw__channel_receiver_drop(&(c)->channel)
/* aw_channel_downgrade adds a weak sender; you must hold a sender or a receiver. aw_channel_upgrade
 * adds a sender: 0, or -EPIPE: closed. */
#define aw_channel_downgrade(c) aw__channel_downgrade(&(c)->channel)
#define aw_channel_upgrade(c)   aw__channel_upgrade(&(c)->channel)
#define aw_channel_weak_drop(c) aw__channel_weak_drop(&(c)->channel)
AW_API void aw__channel_sender_keep(aw_channel *c);
AW_API void aw__channel_sender_drop(aw_channel *c);
AW_API void aw__channel_receiver_keep(aw_channel *c);
AW_API void aw__channel_receiver_drop(aw_channel *c);
AW_API void aw__channel_downgrade(aw_channel *c);
AW_API int aw__channel_upgrade(aw_channel *c);
AW_API void aw__channel_weak_drop(aw_channel *c);

/* ---- Without waiting ------------------------------------------------------------------------- */

/* 0; -EAGAIN: full; -EPIPE: closed; -ENOMEM (unbounded). On failure the value is still yours. */
#define aw_channel_try_send(c, ...)                                                                \
    aw__channel_try_send(&(c)->channel, AW__CONST_ITEM(c, __VA_ARGS__))
AW_API int aw__channel_try_send(aw_channel *c, const void *value);
/* 0; -EAGAIN: empty; -EPIPE: closed and empty. */
#define aw_channel_try_recv(c, value) aw__channel_try_recv(&(c)->channel, AW__ITEM(c, value))
AW_API int aw__channel_try_recv(aw_channel *c, void *value);
/* Up to n messages that are inside now: how many, or as above. */
#define aw_channel_try_recv_many(c, array, n)                                                      \
    aw__channel_try_recv_many(&(c)->channel, AW__ITEM(c, array), (n))
AW_API int aw__channel_try_recv_many(aw_channel *c, void *values, uint32_t n);
/* Reserve a slot. You must use the permit for a send, or give it back with aw_channel_unreserve. 0;
 * -EAGAIN: full; -EPIPE: closed; -EINVAL: the channel is unbounded. */
#define aw_channel_try_reserve(c) aw__channel_try_reserve(&(c)->channel)
AW_API int aw__channel_try_reserve(aw_channel *c);
/* Uses up the permit. 0, also after a close; -EPIPE: no receiver is left, and the value is still
 * yours. */
#define aw_channel_send_reserved(c, ...)                                                           \
    aw__channel_send_reserved(&(c)->channel, AW__CONST_ITEM(c, __VA_ARGS__))
AW_API int aw__channel_send_reserved(aw_channel *c, const void *value);
#define aw_channel_unreserve(c) aw__channel_unreserve(&(c)->channel)
AW_API void aw__channel_unreserve(aw_channel *c);

/* ---- Futures --------------------------------------------------------------------------------- */

/* aw-future: aw_channel_send */
/* aw-future: aw_channel_recv */
/* aw-future: aw_channel_recv_many */
/* aw-future: aw_channel_reserve */
/* aw-future: aw_channel_closed */
typedef struct aw_channel_future {
    AW__WAITER;
    aw_channel *channel;
    void *value;
    /* Number of the first message received. During the wait: its ticket, see channel.c. */
    uint64_t number;
} aw_channel_future;

AW_API extern const aw_future_type aw_channel_send_type;
AW_API extern const aw_future_type aw_channel_recv_type;
AW_API extern const aw_future_type aw_channel_recv_many_type;
AW_API extern const aw_future_type aw_channel_reserve_type;
AW_API extern const aw_future_type aw_channel_closed_type;

static inline aw_channel_future aw__channel_future(const aw_future_type *type, aw_channel *c,
                                                   const void *value, size_t wants) {
    aw_channel_future f = {AW__WAITER_INIT(type, wants > INT32_MAX ? INT32_MAX : (uint32_t)wants),
                           c, (void *)(uintptr_t)value, 0};
    return f;
}

/* `out` is 0; -EPIPE: closed; -ENOMEM (unbounded). On failure and after a cancel the value is
 * yours. */
#define aw_channel_send(c, ...)                                                                    \
    aw__channel_future(&aw_channel_send_type, &(c)->channel, AW__CONST_ITEM(c, __VA_ARGS__), 1)
/* `out` is 0; -EPIPE: closed and empty. */
#define aw_channel_recv(c, value)                                                                  \
    aw__channel_future(&aw_channel_recv_type, &(c)->channel, AW__ITEM(c, value), 1)
/* Waits for one message and takes more that are inside, up to n. `out` is the number (0 only if n
 * is 0), or -EPIPE. */
#define aw_channel_recv_many(c, array, n)                                                          \
    aw__channel_future(&aw_channel_recv_many_type, &(c)->channel, AW__ITEM(c, array), (n))
/* Waits for a permit. `out` is 0, -EPIPE or -EINVAL as above. A discard gives the permit back. */
#define aw_channel_reserve(c) aw__channel_future(&aw_channel_reserve_type, &(c)->channel, NULL, 1)
/* For senders: waits until the channel is closed. `out` is 0. */
#define aw_channel_closed(c) aw__channel_future(&aw_channel_closed_type, &(c)->channel, NULL, 1)

AW_C_END

#endif
