/* SPDX-License-Identifier: MIT
 *
 * awake/waker.h: how a future asks to be polled again.
 *
 *     aw_waker_set(&f->waker, aw_cx_waker(cx));       in poll, before it returns AW_PENDING
 *     ...
 *     aw_waker w = aw_waker_take(&f->waker);          later, on any thread
 *     if (w.type) aw_waker_wake(w);
 *
 * A waker is a type and a pointer. A poll borrows one from its context. A leaf future keeps it in
 * one of two ways:
 *
 *   clone    Wake or drop the clone later, from any thread.
 *   borrow   Copy the pair into the future's frame. This is safe because the future ends, is
 *            cancelled, or is polled by another task, before its frame goes away and before the
 *            task that polled it last ends. Use a borrowed waker only under the lock that guards
 *            its storage.
 *
 * Waking too often, or after the task has ended, is harmless. You may call every function here from
 * any thread, but not from a signal handler. */
#ifndef AWAKE_WAKER_H
#define AWAKE_WAKER_H

#include <awake/config.h>

AW_C_BEGIN

typedef struct aw_waker_type aw_waker_type;

typedef struct aw_waker {
    const aw_waker_type *type;
    void *data;
} aw_waker;

enum {
    /* `wake` only touches a queue and unparks a thread: allowed under a lock */
    AW_WAKES_UNDER_LOCK = 1
};

/* The operations of a kind of waker. `wake` consumes the reference that `clone` returned,
 * `wake_by_ref` does not. If `will_wake` is NULL, wakers with equal type and data are the same. */
struct aw_waker_type {
    size_t self_size;
    const char *name;
    unsigned flags;
    aw_waker (*clone)(void *data);
    void (*wake)(void *data);
    void (*wake_by_ref)(void *data);
    void (*drop)(void *data);
    bool (*will_wake)(const void *data, const aw_waker *other);
};

static inline aw_waker aw_waker_clone(const aw_waker *w) {
    return w->type->clone(w->data);
}
static inline void aw_waker_wake(aw_waker w) {
    w.type->wake(w.data);
}
static inline void aw_waker_wake_by_ref(const aw_waker *w) {
    w->type->wake_by_ref(w->data);
}
static inline void aw_waker_drop(aw_waker w) {
    w.type->drop(w.data);
}

/* Whether waking one has the effect of waking the other. False is always a correct answer. */
static inline bool aw_waker_will_wake(const aw_waker *a, const aw_waker *b) {
    if (a->type == b->type && a->data == b->data) return true;
    return a->type && a->type->will_wake && a->type->will_wake(a->data, b);
}

/* Store the waker of the latest poll in a slot that owns its waker. Clones only if it changed. A
 * slot starts as {NULL, NULL}. Hold the lock that guards the slot. */
static inline void aw_waker_set(aw_waker *slot, const aw_waker *latest) {
    aw_waker old = *slot;
    if (old.type && aw_waker_will_wake(&old, latest)) return;
    *slot = aw_waker_clone(latest);
    if (old.type) aw_waker_drop(old);
}

/* Take the waker out of a slot: {NULL, NULL} if it is empty. */
static inline aw_waker aw_waker_take(aw_waker *slot) {
    aw_waker w = *slot;
    slot->type = NULL;
    slot->data = NULL;
    return w;
}

/* Empty a slot. */
static inline void aw_waker_clear(aw_waker *slot) {
    aw_waker w = aw_waker_take(slot);
    if (w.type) aw_waker_drop(w);
}

/* A waker that does nothing. */
AW_API aw_waker aw_noop_waker(void);

/* Waking sets the flag. It must outlive every clone of its waker. If other threads can wake it, do
 * not put it on the stack: they may do so shortly after the future has ended. */
typedef struct aw_flag {
    uint32_t raised;
} aw_flag;

AW_API aw_waker aw_flag_waker(aw_flag *flag);
AW_API bool aw_flag_take(aw_flag *flag); /* whether it was set; clears it */

/* A reference-counted object that can be woken: make it the first member of your own struct. Each
 * wake calls `wake`, on the thread that wakes. Dropping the last reference calls `release`. */
typedef struct aw_counted aw_counted;
struct aw_counted {
    size_t refs;
    void (*wake)(aw_counted *self);
    void (*release)(aw_counted *self);
};

/* Starts with one reference, which is yours: aw_counted_drop releases it. */
AW_API void aw_counted_init(aw_counted *c, void (*wake)(aw_counted *),
                            void (*release)(aw_counted *));
AW_API void aw_counted_keep(aw_counted *c);
AW_API void aw_counted_drop(aw_counted *c);
/* A borrowed waker of the object. Its clones hold references. */
AW_API aw_waker aw_counted_waker(aw_counted *c);

/* A thread that sleeps until it is woken. A wake that comes first is remembered; several count as
 * one. The memory is freed after aw_parker_free and the drop of the last clone of its waker. */
typedef struct aw_parker aw_parker;

AW_API aw_parker *aw_parker_new(void); /* NULL: no memory */
AW_API void aw_parker_free(aw_parker *p);
AW_API aw_waker aw_parker_waker(aw_parker *p); /* borrowed; clones hold references */
AW_API void aw_parker_park(aw_parker *p);      /* one thread at a time */
/* False: the deadline (CLOCK_MONOTONIC nanoseconds) came first. */
AW_API bool aw_parker_park_until(aw_parker *p, uint64_t deadline);
AW_API void aw_parker_unpark(aw_parker *p);

AW_C_END

#endif
