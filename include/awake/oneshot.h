/* SPDX-License-Identifier: MIT
 *
 * awake/oneshot.h: one value from one sender to one receiver, in your storage.
 *
 *     AW_ONESHOT(int) reply;                       zeroed; outlives both sides
 *     aw_oneshot_send(&reply, 42);                 any thread: 0; -EPIPE: the receiver closed
 *     AW_AWAIT(self->r, aw_oneshot_recv(&reply));  `out` is 0: the value is in reply.value;
 *                                                  -EPIPE: the sender closed without sending
 *
 * Either side may move between tasks and threads. You may close a side twice, or after the value
 * went through. */
#ifndef AWAKE_ONESHOT_H
#define AWAKE_ONESHOT_H

#include <awake/future.h>

AW_C_BEGIN

/* Its members are private. */
typedef struct aw_oneshot {
    uint32_t lock;
    uint32_t state;
    struct aw_oneshot_future *receiver; /* waits for the value */
    struct aw_oneshot_future *closed;   /* waits for the receiver to close */
} aw_oneshot;

#define AW_ONESHOT(T)                                                                              \
    struct {                                                                                       \
        aw_oneshot channel;                                                                        \
        T value;                                                                                   \
    }
/* clang-format off */
#ifdef __cplusplus
#define AW_ONESHOT_INIT {}
#else
#define AW_ONESHOT_INIT {.channel = {0, 0, NULL, NULL}}
#endif
/* clang-format on */

/* 0; -EPIPE: the receiver has closed; -EALREADY: a value was sent, or the sender has closed. On
 * failure the value is still yours. */
#define aw_oneshot_send(c, ...)                                                                    \
    __extension__({                                                                                \
        __typeof__((c)->value) aw__value = (__VA_ARGS__);                                          \
        aw__oneshot_send(&(c)->channel, &(c)->value, &aw__value, sizeof aw__value);                \
    })
AW_API int aw__oneshot_send(aw_oneshot *c, void *slot, const void *value, size_t size);

/* No value will be sent: a waiting receiver ends with -EPIPE. */
#define aw_oneshot_close_sender(c) aw__oneshot_close_sender(&(c)->channel)
AW_API void aw__oneshot_close_sender(aw_oneshot *c);
/* No value is wanted: later sends fail. A value that was sent before can still be received. */
#define aw_oneshot_close_receiver(c) aw__oneshot_close_receiver(&(c)->channel)
AW_API void aw__oneshot_close_receiver(aw_oneshot *c);

/* Without waiting: 0: the value is in c->value, and taken; -EAGAIN; -EPIPE. */
#define aw_oneshot_try_recv(c) aw__oneshot_try_recv(&(c)->channel)
AW_API int aw__oneshot_try_recv(aw_oneshot *c);

/* For the sender: whether the receiver has closed, or has the value. */
#define aw_oneshot_is_closed(c) aw__oneshot_is_closed(&(c)->channel)
AW_API bool aw__oneshot_is_closed(aw_oneshot *c);

/* aw-future: aw_oneshot_recv */
/* aw-future: aw_oneshot_closed */
typedef struct aw_oneshot_future {
    aw_future future;
    int out;
    bool linked;
    aw_oneshot *channel;
    aw_waker waker;
} aw_oneshot_future;

AW_API extern const aw_future_type aw_oneshot_recv_type;
AW_API extern const aw_future_type aw_oneshot_closed_type;

/* Receive. If you discard a finished receive, the value can be received again. */
#define aw_oneshot_recv(c) aw__oneshot_future(&aw_oneshot_recv_type, &(c)->channel)
/* For the sender: waits until the receiver has closed, or has the value. `out` is 0. */
#define aw_oneshot_closed(c) aw__oneshot_future(&aw_oneshot_closed_type, &(c)->channel)

static inline aw_oneshot_future aw__oneshot_future(const aw_future_type *type, aw_oneshot *c) {
    aw_oneshot_future f = {AW_FUTURE_INIT(type), 0, false, c, {NULL, NULL}};
    return f;
}

AW_C_END

#endif
