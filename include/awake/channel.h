/* SPDX-License-Identifier: MIT
 *
 * awake/channel.h: a queue of values between tasks and threads. Any number may send, any number may receive; each
 * message goes to one receiver.
 *
 *     typedef AW_CHANNEL(int) numbers;
 *     numbers c;
 *     aw_channel_init(&c, 16);                       room for 16, allocated once; or AW_UNBOUNDED
 *
 *     AW_AWAIT(self->s, aw_channel_send(&c, &self->n));   `out` is 0, or -EPIPE and the value is still the caller's
 *     AW_AWAIT(self->r, aw_channel_recv(&c, &self->n));   0; -EPIPE: closed, and nothing will come any more
 *
 *     aw_channel_close(&c);                          no more sends; what is inside is still received
 *     aw_channel_free(&c);                           nobody uses it any more
 *
 * Values are copied in and out, and have the type of the channel: any other does not compile. Messages of one
 * sender are received in the order in which they were sent. Who waits is served in the order in which it came, senders
 * and receivers. Tasks of any runtime, fibers and plain threads (aw_wait) may use the same channel.
 *
 * The value of a send or a receive is borrowed until that future has ended. A receiver that is cancelled takes nothing with
 * it. A finished receive that is discarded puts its messages back to where they were; for that the value must still
 * be there. That takes memory when others have sent and received meanwhile; without any the message is released, and
 * the log says so. */
#ifndef AWAKE_CHANNEL_H
#define AWAKE_CHANNEL_H

#include <awake/alloc.h>
#include <awake/element.h>
#include <awake/wait.h>

AW_C_BEGIN

#define AW_UNBOUNDED SIZE_MAX

/* Private: some consecutive messages, in order. */
typedef struct aw__block {
    struct aw__block *next;
    uint64_t number; /* of its first message */
    unsigned char *items;
    uint32_t head, count, slots;
} aw__block;

/* Where senders put messages without disturbing receivers: src/sync/back.h. */
typedef struct aw__back {
    uint32_t lock;
    uint32_t room;   /* atomic: so many more may be put in; 0: it is shut */
    uint32_t pushed; /* so many were, and are not counted in the channel */
    uint32_t tail;   /* the slot for the next one */
    uint32_t slots;
    uint32_t least; /* it is opened for so many */
    size_t size;
    unsigned char *items;
} aw__back;

/* The channel whatever its type. Must outlive its waiters and each call, and stays where it is. */
typedef struct aw_channel {
    uint32_t lock;
    uint32_t flags;
    size_t size; /* of an element */
    size_t capacity;
    size_t len;        /* messages inside */
    uint32_t woken;    /* receivers that have been woken for one and have not looked yet */
    uint32_t reserved; /* slots that are out as permits */
    aw__block *first;  /* what was put back, then */
    aw__block *last;   /* `ring`, or the block that an unbounded one fills */
    aw__waiters receivers, senders, closers;
    uint64_t receivers_came; /* so many have waited: their numbers */
    aw__block ring;
    aw__block *spare;
    aw_release_fn *release;
    const aw_allocator *allocator;
    uint32_t sender_count, receiver_count, weak_count;
    char apart[28]; /* what both sides write lies a line of the cache apart */
    aw__back back;
} aw_channel;

#define AW_CHANNEL(T)                                                                              \
    union {                                                                                        \
        aw_channel channel;                                                                        \
        __typeof__(T) *item; /* never set: it names the type */                                    \
    }

/* Room for a bounded channel, of the caller's, for aw_channel_init_in. (One slot more, for what is put back.) */
#define AW_CHANNEL_ROOM(T, capacity)                                                               \
    struct {                                                                                       \
        __typeof__(T) items[(capacity) + 1];                                                       \
    }

/* ---- Begin and end ----------------------------------------------------------------------------
 * 0; -ENOMEM; -EINVAL for a capacity of 0, or beyond AW_CHANNEL_MAX. Unbounded, it takes memory when it needs some, from
 * the allocator of the process, and keeps little when it is empty. */
#define AW_CHANNEL_MAX 0x7fffffffu
#define aw_channel_init(c, capacity)                                                               \
    __extension__({                                                                                \
        AW__ASSERT_ITEM_ALIGNED(__typeof__(*(c)->item));                                           \
        aw__channel_init(&(c)->channel, sizeof *(c)->item, (capacity), NULL);                      \
    })
#define aw_channel_init_in(c, room)                                                                \
    aw__channel_init(&(c)->channel, sizeof *(c)->item,                                             \
                     sizeof((room)->items) / sizeof((room)->items[0]) - 1,                         \
                     AW__ITEM(c, (room)->items))
AW_API int aw__channel_init(aw_channel *c, size_t size, size_t capacity, void *room);

/* Releases what is left inside. */
#define aw_channel_free(c) aw__channel_free(&(c)->channel)
AW_API void aw__channel_free(aw_channel *c);

/* How a message that nobody will receive is released. Before the first send. */
#define aw_channel_set_release(c, fn) ((void)((c)->channel.release = (fn)))

/* No more sends: who waits to send, or sends, gets -EPIPE. Receivers get what is inside, then what is sent by permits that
 * are out, and then -EPIPE. */
#define aw_channel_close(c) aw__channel_close(&(c)->channel)
AW_API void aw__channel_close(aw_channel *c);

#define aw_channel_is_closed(c) aw__channel_is_closed(&(c)->channel)
AW_API bool aw__channel_is_closed(aw_channel *c);
/* Messages inside at this moment. */
#define aw_channel_len(c) aw__channel_len(&(c)->channel)
AW_API size_t aw__channel_len(aw_channel *c);
#define aw_channel_capacity(c) ((c)->channel.capacity)

/* ---- Counted ----------------------------------------------------------------------------------
 * A channel in memory of its own, with one sender and one receiver to begin with:
 *
 *     numbers *c = aw_channel_new(numbers, 16);      NULL: no memory, or not such a capacity
 *
 * All use the same pointer; each drops once what it was given or cloned. When the last sender is dropped, the channel
 * is closed. When the last receiver is, it is closed and what is inside is released. Weak senders do not keep it open. When
 * nobody is left it is freed. (The same counts, without the freeing, on one that was made with init.) */
#define aw_channel_new(C, capacity)                                                                \
    __extension__({                                                                                \
        AW__ASSERT_ITEM_ALIGNED(__typeof__(*((C *)0)->item));                                      \
        (C *)(void *)aw__channel_new(sizeof *((C *)0)->item, (capacity));                          \
    })
AW_API aw_channel *aw__channel_new(size_t size, size_t capacity);

#define aw_channel_sender_clone(c)   aw__channel_sender_clone(&(c)->channel)
#define aw_channel_sender_drop(c)    aw__channel_sender_drop(&(c)->channel)
#define aw_channel_receiver_clone(c) aw__channel_receiver_clone(&(c)->channel)
#define aw_channel_receiver_drop(c)  aw__channel_receiver_drop(&(c)->channel)
/* A weak sender, by who is a sender or a receiver; a sender again: 0, or -EPIPE when it is closed. */
#define aw_channel_downgrade(c) aw__channel_downgrade(&(c)->channel)
#define aw_channel_upgrade(c)   aw__channel_upgrade(&(c)->channel)
#define aw_channel_weak_drop(c) aw__channel_weak_drop(&(c)->channel)
AW_API void aw__channel_sender_clone(aw_channel *c);
AW_API void aw__channel_sender_drop(aw_channel *c);
AW_API void aw__channel_receiver_clone(aw_channel *c);
AW_API void aw__channel_receiver_drop(aw_channel *c);
AW_API void aw__channel_downgrade(aw_channel *c);
AW_API int aw__channel_upgrade(aw_channel *c);
AW_API void aw__channel_weak_drop(aw_channel *c);

/* ---- Without waiting --------------------------------------------------------------------------- */

/* 0; -EAGAIN: full; -EPIPE: closed; -ENOMEM (unbounded). On failure the value is still the caller's. */
#define aw_channel_try_send(c, ...)                                                                \
    aw__channel_try_send(&(c)->channel, AW__CONST_ITEM(c, __VA_ARGS__))
AW_API int aw__channel_try_send(aw_channel *c, const void *value);
/* 0; -EAGAIN: empty; -EPIPE: closed, and nothing will come any more. */
#define aw_channel_try_recv(c, value) aw__channel_try_recv(&(c)->channel, AW__ITEM(c, value))
AW_API int aw__channel_try_recv(aw_channel *c, void *value);
/* As many as are there, up to n: how many; or as above. */
#define aw_channel_try_recv_many(c, array, n)                                                      \
    aw__channel_try_recv_many(&(c)->channel, AW__ITEM(c, array), (n))
AW_API int aw__channel_try_recv_many(aw_channel *c, void *values, uint32_t n);
/* A permit: one slot is kept for who has it, who sends by it or gives it back. -EAGAIN: full; -EPIPE: closed; -EINVAL:
 * an unbounded channel has none. */
#define aw_channel_try_reserve(c) aw__channel_try_reserve(&(c)->channel)
AW_API int aw__channel_try_reserve(aw_channel *c);
/* 0, also after a close; -EPIPE: no receiver is left, the value is still the caller's. The permit is used up. */
#define aw_channel_send_reserved(c, ...)                                                           \
    aw__channel_send_reserved(&(c)->channel, AW__CONST_ITEM(c, __VA_ARGS__))
AW_API int aw__channel_send_reserved(aw_channel *c, const void *value);
#define aw_channel_unreserve(c) aw__channel_unreserve(&(c)->channel)
AW_API void aw__channel_unreserve(aw_channel *c);

/* ---- Futures ----------------------------------------------------------------------------------- */

/* aw-future: aw_channel_send */
/* aw-future: aw_channel_recv */
/* aw-future: aw_channel_recv_many */
/* aw-future: aw_channel_reserve */
/* aw-future: aw_channel_closed */
typedef struct aw_channel_future {
    AW__WAITER;
    aw_channel *channel;
    void *value;
    uint64_t number; /* of the first message that it received; while it waits, its own: channel.c */
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

/* `out` is 0: sent; -EPIPE: closed; -ENOMEM (unbounded). On failure, and when cancelled, the value is the caller's. */
#define aw_channel_send(c, ...)                                                                    \
    aw__channel_future(&aw_channel_send_type, &(c)->channel, AW__CONST_ITEM(c, __VA_ARGS__), 1)
/* `out` is 0: received; -EPIPE: closed, and nothing will come any more. */
#define aw_channel_recv(c, value)                                                                  \
    aw__channel_future(&aw_channel_recv_type, &(c)->channel, AW__ITEM(c, value), 1)
/* Waits for the first, and takes what else is there, up to n: `out` is how many (0 only for n = 0), or -EPIPE. */
#define aw_channel_recv_many(c, array, n)                                                          \
    aw__channel_future(&aw_channel_recv_many_type, &(c)->channel, AW__ITEM(c, array), (n))
/* Waits for a permit: `out` is 0, -EPIPE or -EINVAL as above. Discarding it gives the permit back. */
#define aw_channel_reserve(c) aw__channel_future(&aw_channel_reserve_type, &(c)->channel, NULL, 1)
/* For senders: waits until it is closed. `out` is 0. */
#define aw_channel_closed(c) aw__channel_future(&aw_channel_closed_type, &(c)->channel, NULL, 1)

AW_C_END

#endif
