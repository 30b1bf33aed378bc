/* SPDX-License-Identifier: MIT
 *
 * awake/notify.h: wake one waiter, or all of them. Tasks of any runtime and plain threads (through
 * block_on) may wait; any thread may notify. */
#ifndef AWAKE_NOTIFY_H
#define AWAKE_NOTIFY_H

#include <awake/future.h>

AW_C_BEGIN

struct aw_notified;

/* All zero is ready for use (AW_NOTIFY_INIT). It must outlive its waiters and each
 * call; nothing to free. */
typedef struct aw_notify {
    uint32_t lock;
    uint32_t permit;     /* 1: a notify_one that found nobody waiting */
    uint32_t generation; /* how many notify_waiters there were; it wraps around */
    struct aw_notified *first, *last;
} aw_notify;

#define AW_NOTIFY_INIT                                                                             \
    { 0, 0, 0, NULL, NULL }

/* Wake the waiter that has waited longest; with none, the next one will not wait (at most one such
 * permit is kept). */
AW_API void aw_notify_one(aw_notify *n);
/* Wake exactly those who are waiting at this moment. */
AW_API void aw_notify_waiters(aw_notify *n);

/* Without waiting: 0, the permit is taken; -EAGAIN: there is none. */
AW_API int aw_notify_try_wait(aw_notify *n);

/* Wait for a notification: `out` is 0. First polled, first served. Discarding one that got its
 * notification from notify_one passes it on. */
/* aw-future: aw_notified */
typedef struct aw_notified {
    aw_future future;
    union {
        struct aw_notified *prev; /* while it waits; then NULL, */
        int out;                  /* which is 0 */
    };
    struct aw_notified *next;
    aw_notify *notify;
    aw_waker waker;
} aw_notified;

AW_API extern const aw_future_type aw_notified_type;

static inline aw_notified aw_notify_wait(aw_notify *n) {
    aw_notified f = {AW_FUTURE_INIT(&aw_notified_type), {NULL}, NULL, n, {NULL, NULL}};
    return f;
}

AW_C_END

#endif
