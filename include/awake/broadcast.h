/* SPDX-License-Identifier: MIT
 *
 * awake/broadcast.h: each message goes to every receiver. Senders never wait: the last `capacity`
 * messages are kept, and a slower receiver learns how many it has missed.
 *
 *     typedef AW_BROADCAST(struct event) events;
 *     aw_broadcast_init(&b, 64);                                 allocated once
 *
 *     aw_broadcast_receiver r = aw_broadcast_subscribe(&b);      gets messages from now on
 *     aw_broadcast_send(&b, &event);                             any thread
 *
 *     AW_AWAIT(self->f, aw_broadcast_recv(&b, &self->r, &self->event));
 *                                      `out` is 0; -EOVERFLOW: r.lag messages were missed, the next
 *                                      receive gets the oldest kept; -EPIPE: closed, all received
 *     aw_broadcast_unsubscribe(&b, &self->r);
 *
 * One task at a time may use a receiver; any thread may use everything else. */
#ifndef AWAKE_BROADCAST_H
#define AWAKE_BROADCAST_H

#include <awake/alloc.h>
#include <awake/detail/element.h>
#include <awake/detail/waiter.h>
#include <awake/element.h>
#include <awake/wait.h>

AW_C_BEGIN

/* Must outlive its receivers, its waiters and each call; do not move it. Its members are
 * private. */
typedef struct aw_broadcast {
    uint32_t lock;
    uint32_t flags;
    uint32_t capacity;
    uint32_t end;  /* slot of the next message */
    uint64_t next; /* its number */
    size_t size;
    unsigned char *items;
    uint32_t *pending; /* per slot: receivers that have yet to receive it */
    uint32_t sender_count, receiver_count;
    aw__waiters receivers, closers;
    aw_clone_fn *clone;
    aw_release_fn *release;
    const aw_allocator *allocator; /* NULL: the storage is the user's */
} aw_broadcast;

#define AW_BROADCAST(T)                                                                            \
    union {                                                                                        \
        aw_broadcast broadcast;                                                                    \
        __typeof__(T) *item; /* never set: names the type */                                       \
    }

/* Your storage, for aw_broadcast_init_in. */
#define AW_BROADCAST_STORAGE(T, capacity)                                                          \
    struct {                                                                                       \
        __typeof__(T) items[capacity];                                                             \
        uint32_t pending[capacity];                                                                \
    }

typedef struct aw_broadcast_receiver {
    uint64_t next; /* number of its next message; 0: not subscribed */
    uint64_t lag;  /* messages missed, as of the last -EOVERFLOW */
} aw_broadcast_receiver;

/* ---- Begin and end --------------------------------------------------------------------------- */

#define AW_BROADCAST_MAX 0x7fffffffu
/* Starts with one sender and no receiver. 0; -ENOMEM; -EINVAL: the capacity is 0 or more than
 * AW_BROADCAST_MAX. Allocates memory for all slots; each slot is first touched when it is used. */
#define aw_broadcast_init(b, capacity)                                                             \
    AW__ITEMS_OF(__typeof__(*(b)->item),                                                           \
                 aw__broadcast_init(&(b)->broadcast, sizeof *(b)->item, (capacity)))
AW_API int aw__broadcast_init(aw_broadcast *b, size_t size, size_t capacity);
#define aw_broadcast_init_in(b, storage)                                                           \
    aw__broadcast_init_in(&(b)->broadcast, sizeof *(b)->item,                                      \
                          sizeof((storage)->items) / sizeof((storage)->items[0]),                  \
                          AW__ITEM(b, (storage)->items), (storage)->pending)
AW_API int aw__broadcast_init_in(aw_broadcast *b, size_t size, size_t capacity, void *items,
                                 uint32_t *pending);
/* For elements that own something. Each receiver gets a clone, the last one the element itself.
 * Elements that are missed, or no longer received, are released. Call it before the first use. */
#define aw_broadcast_set_owned(b, clone_fn, release_fn)                                            \
    ((void)((b)->broadcast.clone = (clone_fn), (b)->broadcast.release = (release_fn)))
/* The broadcast must not be in use. Releases the elements inside. */
#define aw_broadcast_free(b) aw__broadcast_free(&(b)->broadcast)
AW_API void aw__broadcast_free(aw_broadcast *b);

/* No more sends. Dropping the last sender does the same. */
#define aw_broadcast_close(b)       aw__broadcast_close(&(b)->broadcast)
#define aw_broadcast_sender_keep(b) aw__broadcast_sender_keep(&(b)->broadcast)
#define aw_broadcast_sender_drop(b) aw__broadcast_sender_drop(&(b)->broadcast)
AW_API void aw__broadcast_close(aw_broadcast *b);
AW_API void aw__broadcast_sender_keep(aw_broadcast *b);
AW_API void aw__broadcast_sender_drop(aw_broadcast *b);

/* ---- Without waiting ------------------------------------------------------------------------- */

/* Returns the number of receivers; -EPIPE: there are none, or it is closed, and the value is still
 * yours. */
#define aw_broadcast_send(b, ...)                                                                  \
    AW__WITH_OLD(b, aw__broadcast_send(&(b)->broadcast, AW__CONST_ITEM(b, __VA_ARGS__), &aw__old))
AW_API int aw__broadcast_send(aw_broadcast *b, const void *value, void *old);

#define aw_broadcast_subscribe(b) aw__broadcast_subscribe(&(b)->broadcast)
AW_API aw_broadcast_receiver aw__broadcast_subscribe(aw_broadcast *b);
/* Releases elements that only this receiver had yet to receive. Does nothing if the receiver is all
 * zero or unsubscribed. (A copy of the struct is not recognised.) */
#define aw_broadcast_unsubscribe(b, r)                                                             \
    AW__WITH_OLD(b, aw__broadcast_unsubscribe(&(b)->broadcast, (r), &aw__old))
AW_API void aw__broadcast_unsubscribe(aw_broadcast *b, aw_broadcast_receiver *r, void *old);

/* As aw_broadcast_recv; -EAGAIN: no message. */
#define aw_broadcast_try_recv(b, r, value)                                                         \
    aw__broadcast_try_recv(&(b)->broadcast, (r), AW__ITEM(b, value))
AW_API int aw__broadcast_try_recv(aw_broadcast *b, aw_broadcast_receiver *r, void *value);
/* Messages kept for this receiver at this moment. */
#define aw_broadcast_len(b, r) aw__broadcast_len(&(b)->broadcast, (r))
AW_API size_t aw__broadcast_len(aw_broadcast *b, const aw_broadcast_receiver *r);
/* For senders: true if there is no receiver at this moment. */
#define aw_broadcast_is_closed(b) aw__broadcast_is_closed(&(b)->broadcast)
AW_API bool aw__broadcast_is_closed(aw_broadcast *b);

/* ---- Futures --------------------------------------------------------------------------------- */

/* aw-future: aw_broadcast_recv */
/* aw-future: aw_broadcast_closed */
typedef struct aw_broadcast_future {
    AW__WAITER;
    aw_broadcast *broadcast;
    aw_broadcast_receiver *receiver;
    void *value;
    uint64_t before; /* position of the receiver before this */
} aw_broadcast_future;

AW_API extern const aw_future_type aw_broadcast_recv_type;
AW_API extern const aw_future_type aw_broadcast_closed_type;

static inline aw_broadcast_future aw__broadcast_future(const aw_future_type *type, aw_broadcast *b,
                                                       aw_broadcast_receiver *r, void *value) {
    aw_broadcast_future f = {AW__WAITER_INIT(type, 0), b, r, value, 0};
    return f;
}

/* `out` is 0, -EOVERFLOW or -EPIPE as above. The value is borrowed until the future has ended. A
 * discard moves the receiver back, and the value with it. One at a time per receiver. */
#define aw_broadcast_recv(b, r, value)                                                             \
    aw__broadcast_future(&aw_broadcast_recv_type, &(b)->broadcast, (r), AW__ITEM(b, value))
/* For senders: waits until there is no receiver. `out` is 0. The moment of the poll counts: if a
 * receiver subscribes before it, the wait continues. */
#define aw_broadcast_closed(b)                                                                     \
    aw__broadcast_future(&aw_broadcast_closed_type, &(b)->broadcast, NULL, NULL)

AW_C_END

#endif
