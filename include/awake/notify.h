/* SPDX-License-Identifier: MIT
 *
 * awake/notify.h: wake one waiter, or all of them. Tasks of any runtime and plain threads (through
 * block_on) may wait; any thread may notify.
 *
 * To wait for a condition, make the future, then test the condition, then await the future:
 *
 *     for (;;) {
 *         self->changed = aw_notify_wait(&n);       a notify_waiters from here on counts
 *         if (is_done(job)) break;                  the future was not polled: nothing to undo
 *         AW_AWAIT_FUTURE(self->changed);           in a fiber: aw_await_future(&changed.future)
 *     }
 *
 *     set_done(job);                                any thread: first the condition,
 *     aw_notify_waiters(&n);                        then the notification
 *
 * So a notify_waiters between the test and the await is not lost. If you test before you make the
 * future, it is. */
#ifndef AWAKE_NOTIFY_H
#define AWAKE_NOTIFY_H

#include <awake/detail/notify.h>
#include <awake/future.h>

AW_C_BEGIN

struct aw_notified;

/* All zero is ready for use (AW_NOTIFY_INIT). Must outlive its waiters and each call; nothing to
 * free. Its members are private. */
typedef struct aw_notify {
    uint32_t lock;
    uint32_t permit;     /* 1: a notify_one found no waiter */
    uint32_t generation; /* atomic: number of notify_waiters calls; wraps around */
    struct aw_notified *first, *last;
} aw_notify;

#define AW_NOTIFY_INIT                                                                             \
    { 0, 0, 0, NULL, NULL }

/* Wake the oldest waiter. Without waiters, store a permit (at most one): the next wait ends at
 * once. */
AW_API void aw_notify_one(aw_notify *n);
/* Wake all waiters of this moment, and no later ones. A future counts as waiting from its
 * construction, before its first poll. Stores no permit and takes none. */
AW_API void aw_notify_waiters(aw_notify *n);

/* Without waiting: 0: took the permit; -EAGAIN: there is none. */
AW_API int aw_notify_try_wait(aw_notify *n);

/* Wait for a notification. `out` is 0. For notify_one the wait begins with the first poll: first
 * polled, first served. A discarded notification of notify_one goes to the next waiter. */
/* aw-future: aw_notified */
typedef struct aw_notified {
    aw_future future;
    union {
        struct aw_notified *prev; /* during the wait; then NULL, */
        int out;                  /* which reads as 0 */
    };
    struct aw_notified *next;
    aw_notify *notify;
    aw_waker waker;
} aw_notified;

AW_API extern const aw_future_type aw_notified_type;

/* `state` is the current generation: see notify.c. */
static inline aw_notified aw_notify_wait(aw_notify *n) {
    aw_notified f = {AW_FUTURE_INIT(&aw_notified_type), {NULL}, NULL, n, {NULL, NULL}};
    f.future.state = AW__NOTIFY_LOAD(&n->generation);
    return f;
}

AW_C_END

#endif
