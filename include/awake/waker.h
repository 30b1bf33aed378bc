/* SPDX-License-Identifier: MIT
 *
 * awake/waker.h: how a future says "poll me again".
 *
 * A waker is a pair of a type and a pointer. A poll is lent one by its context. A leaf future either clones it (and
 * wakes or drops the clone later, from any thread), or borrows it: copies the pair into its own frame, which is safe
 * because a future ends, is cancelled, or is polled by another task, before its frame goes away and before the task
 * that polled it last ends. A borrowed waker is used only under the lock that guards the place where it is kept.
 *
 * Waking too often, or after the task has ended, is harmless. Every function here may be called
 * from any thread, but not from a signal handler. */
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
    AW_WAKES_UNDER_LOCK = 1 /* waking only touches a queue: it may be done while a lock is held */
};

/* What a kind of waker does. `wake` consumes the reference that `clone` gave; `wake_by_ref` leaves
 * it. `will_wake` may be NULL: then two wakers are the same when type and data are. */
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

/* Whether waking one is as good as waking the other. False is always a correct answer. */
static inline bool aw_waker_will_wake(const aw_waker *a, const aw_waker *b) {
    if (a->type == b->type && a->data == b->data) return true;
    return a->type && a->type->will_wake && a->type->will_wake(a->data, b);
}

/* Store the waker of the latest poll in a slot that owns its waker: clones only when it changed.
 * A slot starts as {NULL, NULL}. The caller holds whatever lock guards the slot. */
static inline void aw_waker_set(aw_waker *slot, const aw_waker *latest) {
    aw_waker old = *slot;
    if (old.type && aw_waker_will_wake(&old, latest)) return;
    *slot = aw_waker_clone(latest);
    if (old.type) aw_waker_drop(old);
}

/* Take the waker out of a slot; {NULL, NULL} when there is none. */
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

/* A flag: waking raises it. The flag must outlive every clone of its waker. A thread that wakes may do
 * so a moment after the future has ended: a flag that others can raise is not for the stack. */
typedef struct aw_flag {
    uint32_t raised;
} aw_flag;

AW_API aw_waker aw_flag_waker(aw_flag *flag);
AW_API bool aw_flag_take(aw_flag *flag); /* whether it was raised; lowers it */

/* A counted object that is woken: make it the first member of your own struct. `wake` is called
 * for each wake, on the thread that wakes; `release` when the last reference is gone. */
typedef struct aw_counted aw_counted;
struct aw_counted {
    size_t refs;
    void (*wake)(aw_counted *self);
    void (*release)(aw_counted *self);
};

/* Starts with one reference, the caller's, given back with aw_counted_drop. */
AW_API void aw_counted_init(aw_counted *c, void (*wake)(aw_counted *),
                            void (*release)(aw_counted *));
AW_API void aw_counted_keep(aw_counted *c);
AW_API void aw_counted_drop(aw_counted *c);
/* A borrowed waker of the object: clones of it are counted. */
AW_API aw_waker aw_counted_waker(aw_counted *c);

/* A thread that sleeps until it is woken. A wake that comes first is remembered, several count as
 * one. The parker lives until it is freed and every clone of its waker is gone. */
typedef struct aw_parker aw_parker;

AW_API aw_parker *aw_parker_new(void); /* NULL when there is no memory */
AW_API void aw_parker_free(aw_parker *p);
AW_API aw_waker aw_parker_waker(aw_parker *p); /* borrowed; clones are counted */
AW_API void aw_parker_park(aw_parker *p);      /* by one thread at a time */
/* False when the deadline (CLOCK_MONOTONIC nanoseconds) came first. */
AW_API bool aw_parker_park_until(aw_parker *p, uint64_t deadline);
AW_API void aw_parker_unpark(aw_parker *p);

AW_C_END

#endif
