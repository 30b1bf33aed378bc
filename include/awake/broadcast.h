/* SPDX-License-Identifier: MIT
 *
 * awake/broadcast.h: each message to every receiver. Senders never wait: the last so many messages are kept, and a
 * receiver that is slower is told how many it has missed.
 *
 *     typedef AW_BROADCAST(struct event) events;
 *     aw_broadcast_init(&b, 64);                                 allocated once
 *
 *     aw_broadcast_receiver r = aw_broadcast_subscribe(&b);      gets what is sent from now on
 *     aw_broadcast_send(&b, &event);                             any thread
 *
 *     AW_AWAIT(self->f, aw_broadcast_recv(&b, &self->r, &self->event));
 *                                      `out` is 0; -EOVERFLOW: r.lag messages were missed, the next receive
 *                                      gets the oldest that is kept; -EPIPE: closed and all received
 *     aw_broadcast_unsubscribe(&b, &self->r);
 *
 * A receiver is used by one task at a time; everything else by any thread. */
#ifndef AWAKE_BROADCAST_H
#define AWAKE_BROADCAST_H

#include <awake/alloc.h>
#include <awake/element.h>
#include <awake/wait.h>

AW_C_BEGIN

/* Must outlive its receivers, its waiters and each call, and stays where it is. */
typedef struct aw_broadcast {
    uint32_t lock;
    uint32_t flags;
    uint32_t capacity;
    uint32_t end;  /* the slot of the next message */
    uint64_t next; /* its number */
    size_t size;
    unsigned char *items;
    uint32_t *left; /* of each slot: how many have still to receive it */
    uint32_t sender_count, receiver_count;
    aw__waiters receivers, closers;
    aw_clone_fn *clone;
    aw_release_fn *release;
    const aw_allocator *allocator; /* NULL: the room is the caller's */
} aw_broadcast;

#define AW_BROADCAST(T)                                                                            \
    union {                                                                                        \
        aw_broadcast broadcast;                                                                    \
        __typeof__(T) *item; /* never set: it names the type */                                    \
    }

/* Room of the caller's, for aw_broadcast_init_in. */
#define AW_BROADCAST_ROOM(T, capacity)                                                             \
    struct {                                                                                       \
        __typeof__(T) items[capacity];                                                             \
        uint32_t left[capacity];                                                                   \
    }

typedef struct aw_broadcast_receiver {
    uint64_t next; /* the number of what it receives next */
    uint64_t lag;  /* how many it had missed, when it was last told so */
} aw_broadcast_receiver;

/* ---- Begin and end ----------------------------------------------------------------------------- */

#define AW_BROADCAST_MAX 0x7fffffffu
/* With one sender and no receiver: 0; -ENOMEM; -EINVAL for a capacity of 0 or beyond AW_BROADCAST_MAX. */
#define aw_broadcast_init(b, capacity)                                                             \
    __extension__({                                                                                \
        AW__ASSERT_ITEM_ALIGNED(__typeof__(*(b)->item));                                           \
        aw__broadcast_init(&(b)->broadcast, sizeof *(b)->item, (capacity));                        \
    })
AW_API int aw__broadcast_init(aw_broadcast *b, size_t size, size_t capacity);
#define aw_broadcast_init_in(b, room)                                                              \
    aw__broadcast_init_in(&(b)->broadcast, sizeof *(b)->item,                                      \
                          sizeof((room)->items) / sizeof((room)->items[0]),                        \
                          AW__ITEM(b, (room)->items), (room)->left)
AW_API int aw__broadcast_init_in(aw_broadcast *b, size_t size, size_t capacity, void *items,
                                 uint32_t *left);
/* For elements that own something: each receiver gets its own by `clone`, the last one gets the element itself; what
 * somebody has missed, or nobody receives any more, is released. Before the first use. */
#define aw_broadcast_set_owned(b, clone_fn, release_fn)                                            \
    ((void)((b)->broadcast.clone = (clone_fn), (b)->broadcast.release = (release_fn)))
/* Nobody uses it any more: releases what is left inside. */
#define aw_broadcast_free(b) aw__broadcast_free(&(b)->broadcast)
AW_API void aw__broadcast_free(aw_broadcast *b);

/* No more sends. The same when the last sender is dropped. */
#define aw_broadcast_close(b)        aw__broadcast_close(&(b)->broadcast)
#define aw_broadcast_sender_clone(b) aw__broadcast_sender_clone(&(b)->broadcast)
#define aw_broadcast_sender_drop(b)  aw__broadcast_sender_drop(&(b)->broadcast)
AW_API void aw__broadcast_close(aw_broadcast *b);
AW_API void aw__broadcast_sender_clone(aw_broadcast *b);
AW_API void aw__broadcast_sender_drop(aw_broadcast *b);

/* ---- Without waiting --------------------------------------------------------------------------- */

/* How many will receive it; -EPIPE: nobody would, or it is closed, and the value is still the caller's. */
#define aw_broadcast_send(b, ...)                                                                  \
    __extension__({                                                                                \
        __typeof__(*(b)->item) aw__old;                                                            \
        aw__broadcast_send(&(b)->broadcast, AW__CONST_ITEM(b, __VA_ARGS__), &aw__old);             \
    })
/* `old` is room for an element. */
AW_API int aw__broadcast_send(aw_broadcast *b, const void *value, void *old);

#define aw_broadcast_subscribe(b) aw__broadcast_subscribe(&(b)->broadcast)
AW_API aw_broadcast_receiver aw__broadcast_subscribe(aw_broadcast *b);
/* What only this one had still to receive is released. */
#define aw_broadcast_unsubscribe(b, r)                                                             \
    __extension__({                                                                                \
        __typeof__(*(b)->item) aw__old;                                                            \
        aw__broadcast_unsubscribe(&(b)->broadcast, (r), &aw__old);                                 \
    })
AW_API void aw__broadcast_unsubscribe(aw_broadcast *b, aw_broadcast_receiver *r, void *old);

/* As aw_broadcast_recv; -EAGAIN: nothing is there. */
#define aw_broadcast_try_recv(b, r, value)                                                         \
    aw__broadcast_try_recv(&(b)->broadcast, (r), AW__ITEM(b, value))
AW_API int aw__broadcast_try_recv(aw_broadcast *b, aw_broadcast_receiver *r, void *value);
/* What is kept for this receiver at this moment. */
#define aw_broadcast_len(b, r) aw__broadcast_len(&(b)->broadcast, (r))
AW_API size_t aw__broadcast_len(aw_broadcast *b, const aw_broadcast_receiver *r);
/* For senders: whether nobody is subscribed at this moment. */
#define aw_broadcast_is_closed(b) aw__broadcast_is_closed(&(b)->broadcast)
AW_API bool aw__broadcast_is_closed(aw_broadcast *b);

/* ---- Futures ----------------------------------------------------------------------------------- */

/* aw-future: aw_broadcast_recv */
/* aw-future: aw_broadcast_closed */
typedef struct aw_broadcast_future {
    AW__WAITER;
    aw_broadcast *broadcast;
    aw_broadcast_receiver *receiver;
    void *value;
    uint64_t before; /* where the receiver was */
} aw_broadcast_future;

AW_API extern const aw_future_type aw_broadcast_recv_type;
AW_API extern const aw_future_type aw_broadcast_closed_type;

static inline aw_broadcast_future aw__broadcast_future(const aw_future_type *type, aw_broadcast *b,
                                                       aw_broadcast_receiver *r, void *value) {
    aw_broadcast_future f = {AW__WAITER_INIT(type, 0), b, r, value, 0};
    return f;
}

/* `out` is 0, -EOVERFLOW or -EPIPE as above. The value is borrowed until the future has ended. Discarding it puts the
 * receiver back to where it was, and the value with it. One at a time for each receiver. */
#define aw_broadcast_recv(b, r, value)                                                             \
    aw__broadcast_future(&aw_broadcast_recv_type, &(b)->broadcast, (r), AW__ITEM(b, value))
/* For senders: waits until nobody is subscribed. `out` is 0. */
#define aw_broadcast_closed(b)                                                                     \
    aw__broadcast_future(&aw_broadcast_closed_type, &(b)->broadcast, NULL, NULL)

AW_C_END

#endif
