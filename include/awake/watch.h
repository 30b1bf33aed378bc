/* SPDX-License-Identifier: MIT
 *
 * awake/watch.h: a value, and notification of its changes.
 *
 *     static AW_WATCH(struct config) config;
 *     aw_watch_init(&config, &first);
 *
 *     aw_watch_send(&config, &next);                            any thread
 *
 *     aw_watch_receiver r = aw_watch_subscribe(&config);        has seen the current value
 *     AW_AWAIT(self->f, aw_watch_changed(&self->r));            `out` is 0; -EPIPE: no sender left
 *     aw_watch_get(&config, &self->copy);
 *     aw_watch_unsubscribe(&self->r);
 *
 * Receivers see the latest value, not every value. They see the last value before -EPIPE. One task
 * at a time may use a receiver; any thread may use everything else. The AW_WATCH contains the
 * value: nothing is allocated. */
#ifndef AWAKE_WATCH_H
#define AWAKE_WATCH_H

#include <awake/detail/element.h>
#include <awake/detail/waiter.h>
#include <awake/element.h>
#include <awake/wait.h>

AW_C_BEGIN

/* Must outlive its receivers, its waiters and each call; do not move it. Its members are
 * private. */
typedef struct aw_watch {
    uint32_t lock;
    uint32_t sender_count, receiver_count;
    uint64_t version; /* how often the value was set */
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
            __typeof__(T) value; /* use the functions below */                                     \
            __typeof__(T) *item; /* never set: names the type */                                   \
        };                                                                                         \
    }

typedef struct aw_watch_receiver {
    aw_watch *watch;
    uint64_t seen;
} aw_watch_receiver;

/* ---- Begin and end --------------------------------------------------------------------------- */

/* Starts with one sender and no receiver. */
#define aw_watch_init(w, ...)                                                                      \
    aw__watch_init(&(w)->watch, &(w)->value, AW__CONST_ITEM(w, __VA_ARGS__), sizeof *(w)->item)
AW_API void aw__watch_init(aw_watch *w, void *storage, const void *first, size_t size);
/* For values that own something: a get clones, and a replaced value is released. Call it before the
 * first use. */
#define aw_watch_set_owned(w, clone_fn, release_fn)                                                \
    ((void)((w)->watch.clone = (clone_fn), (w)->watch.release = (release_fn)))
/* The watch must not be in use. Releases the value. */
#define aw_watch_free(w) aw__watch_free(&(w)->watch)
AW_API void aw__watch_free(aw_watch *w);

/* After the last sender is dropped, receivers see the last value and then -EPIPE. */
#define aw_watch_sender_keep(w) aw__watch_sender_keep(&(w)->watch)
#define aw_watch_sender_drop(w) aw__watch_sender_drop(&(w)->watch)
AW_API void aw__watch_sender_keep(aw_watch *w);
AW_API void aw__watch_sender_drop(aw_watch *w);

/* ---- Senders --------------------------------------------------------------------------------- */

/* 0, or -EPIPE: no receiver; nothing has changed, and the value is still yours. */
#define aw_watch_send(w, ...)                                                                      \
    AW__WITH_OLD(w, aw__watch_send(&(w)->watch, AW__CONST_ITEM(w, __VA_ARGS__), &aw__old, true))
/* Also without a receiver. */
#define aw_watch_set(w, ...)                                                                       \
    AW__WITH_OLD(                                                                                  \
        w, (void)aw__watch_send(&(w)->watch, AW__CONST_ITEM(w, __VA_ARGS__), &aw__old, false))
AW_API int aw__watch_send(aw_watch *w, const void *next, void *old, bool subscribed);

/* Change the value in place. `fn` runs under the lock: keep it short, and do not use the watch in
 * it. If it returns true, receivers are notified. Returns the result of `fn`. */
typedef bool aw_watch_modify_fn(void *value, void *arg);
#define aw_watch_modify(w, fn, arg) aw__watch_modify(&(w)->watch, (fn), (arg))
AW_API bool aw__watch_modify(aw_watch *w, aw_watch_modify_fn *fn, void *arg);

/* ---- Receivers ------------------------------------------------------------------------------- */

/* Also possible after all receivers have unsubscribed: sends then succeed again. */
#define aw_watch_subscribe(w) aw__watch_subscribe(&(w)->watch)
AW_API aw_watch_receiver aw__watch_subscribe(aw_watch *w);
/* Does nothing if the receiver is all zero or unsubscribed. (A copy of the struct is not
 * recognised.) */
AW_API void aw_watch_unsubscribe(aw_watch_receiver *r);

/* Copy the latest value. No receiver needed. */
#define aw_watch_get(w, copy) aw__watch_get(&(w)->watch, NULL, AW__ITEM(w, copy))
/* The same, and marks the value as seen by the receiver. */
#define aw_watch_see(w, r, copy) aw__watch_get(&(w)->watch, (r), AW__ITEM(w, copy))
AW_API void aw__watch_get(aw_watch *w, aw_watch_receiver *r, void *copy);
/* 1: there is a value that the receiver has not seen; 0: there is none; -EPIPE: there is none, and
 * no sender is left. */
AW_API int aw_watch_has_changed(const aw_watch_receiver *r);
/* For senders: true if there is no receiver at this moment. */
#define aw_watch_is_closed(w) aw__watch_is_closed(&(w)->watch)
AW_API bool aw__watch_is_closed(aw_watch *w);

/* ---- Futures --------------------------------------------------------------------------------- */

/* aw-future: aw_watch_changed */
/* aw-future: aw_watch_closed */
typedef struct aw_watch_future {
    AW__WAITER;
    aw_watch *watch;
    aw_watch_receiver *receiver;
    uint64_t before; /* what the receiver had seen before this */
} aw_watch_future;

AW_API extern const aw_future_type aw_watch_changed_type;
AW_API extern const aw_future_type aw_watch_closed_type;

/* Waits for a value that the receiver has not seen, and marks it as seen. `out` is 0, or -EPIPE:
 * all seen, and no sender is left. A discard marks it as not seen. */
static inline aw_watch_future aw_watch_changed(aw_watch_receiver *r) {
    aw_watch_future f = {AW__WAITER_INIT(&aw_watch_changed_type, 0), r->watch, r, 0};
    return f;
}
/* For senders: waits until there is no receiver. `out` is 0. The moment of the poll counts: if a
 * receiver subscribes before it, the wait continues. */
#define aw_watch_closed(w) aw__watch_closed(&(w)->watch)
static inline aw_watch_future aw__watch_closed(aw_watch *w) {
    aw_watch_future f = {AW__WAITER_INIT(&aw_watch_closed_type, 0), w, NULL, 0};
    return f;
}

AW_C_END

#endif
