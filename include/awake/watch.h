/* SPDX-License-Identifier: MIT
 *
 * awake/watch.h: the latest value of something, and who wants to know when it changes.
 *
 *     static AW_WATCH(struct config) config;
 *     aw_watch_init(&config, &first);
 *
 *     aw_watch_send(&config, &next);                            any thread
 *
 *     aw_watch_receiver r = aw_watch_subscribe(&config);        has seen what is there now
 *     AW_AWAIT(self->f, aw_watch_changed(&self->r));            `out` is 0, or -EPIPE: no sender is left
 *     aw_watch_get(&config, &self->copy);
 *     aw_watch_unsubscribe(&self->r);
 *
 * Receivers see the latest value, not each one. The last value is seen before the -EPIPE. A receiver is used by one
 * task at a time; everything else by any thread. The value is in the AW_WATCH itself: nothing is allocated. */
#ifndef AWAKE_WATCH_H
#define AWAKE_WATCH_H

#include <awake/element.h>
#include <awake/wait.h>

AW_C_BEGIN

/* Must outlive its receivers, its waiters and each call, and stays where it is. */
typedef struct aw_watch {
    uint32_t lock;
    uint32_t sender_count, receiver_count;
    uint64_t version; /* how often it was set */
    size_t size;
    void *value;
    aw__waiters receivers, closers;
    aw_clone_fn *clone;
    aw_release_fn *release;
} aw_watch;

#define AW_WATCH(T)                                                                                \
    struct {                                                                                       \
        aw_watch watch;                                                                            \
        union {                                                                                    \
            __typeof__(T) value; /* only through the functions below */                            \
            __typeof__(T) *item; /* never set: it names the type */                                \
        };                                                                                         \
    }

typedef struct aw_watch_receiver {
    aw_watch *watch;
    uint64_t seen;
} aw_watch_receiver;

/* ---- Begin and end ----------------------------------------------------------------------------- */

/* With one sender and no receiver. */
#define aw_watch_init(w, ...)                                                                      \
    aw__watch_init(&(w)->watch, &(w)->value, AW__CONST_ITEM(w, __VA_ARGS__), sizeof *(w)->item)
AW_API void aw__watch_init(aw_watch *w, void *place, const void *first, size_t size);
/* For values that own something: a get makes a second owner, and what is replaced is released. Before the first use. */
#define aw_watch_set_owned(w, clone_fn, release_fn)                                                \
    ((void)((w)->watch.clone = (clone_fn), (w)->watch.release = (release_fn)))
/* Nobody uses it any more: releases the value. */
#define aw_watch_free(w) aw__watch_free(&(w)->watch)
AW_API void aw__watch_free(aw_watch *w);

/* When the last sender is dropped, receivers see the last value and then -EPIPE. */
#define aw_watch_sender_clone(w) aw__watch_sender_clone(&(w)->watch)
#define aw_watch_sender_drop(w)  aw__watch_sender_drop(&(w)->watch)
AW_API void aw__watch_sender_clone(aw_watch *w);
AW_API void aw__watch_sender_drop(aw_watch *w);

/* ---- Senders ----------------------------------------------------------------------------------- */

/* 0, or -EPIPE: nobody has subscribed, nothing has changed, and the value is still the caller's. */
#define aw_watch_send(w, ...)                                                                      \
    __extension__({                                                                                \
        __typeof__(*(w)->item) aw__old;                                                            \
        aw__watch_send(&(w)->watch, AW__CONST_ITEM(w, __VA_ARGS__), &aw__old, true);               \
    })
/* Also when nobody has subscribed. */
#define aw_watch_set(w, ...)                                                                       \
    __extension__({                                                                                \
        __typeof__(*(w)->item) aw__old;                                                            \
        (void)aw__watch_send(&(w)->watch, AW__CONST_ITEM(w, __VA_ARGS__), &aw__old, false);        \
    })
/* `old` is room for a value. */
AW_API int aw__watch_send(aw_watch *w, const void *next, void *old, bool subscribed);

/* Change the value in place. `fn` is called under the lock: it does little, and does not use the watch. It answers
 * whether receivers are to be told; so does this. */
typedef bool aw_watch_modify_fn(void *value, void *arg);
#define aw_watch_modify(w, fn, arg) aw__watch_modify(&(w)->watch, (fn), (arg))
AW_API bool aw__watch_modify(aw_watch *w, aw_watch_modify_fn *fn, void *arg);

/* ---- Receivers --------------------------------------------------------------------------------- */

/* Also when all others have gone: then sends reach somebody again. */
#define aw_watch_subscribe(w) aw__watch_subscribe(&(w)->watch)
AW_API aw_watch_receiver aw__watch_subscribe(aw_watch *w);
AW_API void aw_watch_unsubscribe(aw_watch_receiver *r);

/* A copy of the latest value; by anybody. */
#define aw_watch_get(w, copy) aw__watch_get(&(w)->watch, NULL, AW__ITEM(w, copy))
/* The same, and the receiver has seen it. */
#define aw_watch_see(w, r, copy) aw__watch_get(&(w)->watch, (r), AW__ITEM(w, copy))
AW_API void aw__watch_get(aw_watch *w, aw_watch_receiver *r, void *copy);
/* There is a value that the receiver has not seen: 1; 0; -EPIPE: and none will come. */
AW_API int aw_watch_has_changed(const aw_watch_receiver *r);
/* For senders: whether nobody is subscribed at this moment. */
#define aw_watch_is_closed(w) aw__watch_is_closed(&(w)->watch)
AW_API bool aw__watch_is_closed(aw_watch *w);

/* ---- Futures ----------------------------------------------------------------------------------- */

/* aw-future: aw_watch_changed */
/* aw-future: aw_watch_closed */
typedef struct aw_watch_future {
    AW__WAITER;
    aw_watch *watch;
    aw_watch_receiver *receiver;
    uint64_t before; /* what the receiver had seen when it last looked */
} aw_watch_future;

AW_API extern const aw_future_type aw_watch_changed_type;
AW_API extern const aw_future_type aw_watch_closed_type;

/* Waits until there is a value that the receiver has not seen; from then on it has. `out` is 0, or -EPIPE: all have been
 * seen and no sender is left. Discarding it takes that back. */
static inline aw_watch_future aw_watch_changed(aw_watch_receiver *r) {
    aw_watch_future f = {AW__WAITER_INIT(&aw_watch_changed_type, 0), r->watch, r, 0};
    return f;
}
/* For senders: waits until nobody is subscribed. `out` is 0. */
#define aw_watch_closed(w) aw__watch_closed(&(w)->watch)
static inline aw_watch_future aw__watch_closed(aw_watch *w) {
    aw_watch_future f = {AW__WAITER_INIT(&aw_watch_closed_type, 0), w, NULL, 0};
    return f;
}

AW_C_END

#endif
