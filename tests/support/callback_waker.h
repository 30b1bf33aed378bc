/* SPDX-License-Identifier: MIT
 *
 * Wakers that call a function when woken, on the waking thread. They stand for another thread
 * that acts between two wakes. The lock of the awaited object is not held during the call. */
#ifndef AWAKE_TEST_CALLBACK_WAKER_H
#define AWAKE_TEST_CALLBACK_WAKER_H

#include <awake.h>

#define POLL_WITH(f, a)   callback_waker_poll(&(f)->future, a)
#define CANCEL_WITH(f, a) callback_waker_cancel(&(f)->future, a)

typedef struct callback_waker {
    aw_counted counted;
    void (*act)(struct callback_waker *self); /* may be NULL */
    int wakes;                                /* atomic */
} callback_waker;

static inline void callback_waker_wake(aw_counted *counted) {
    callback_waker *a = (callback_waker *)counted;
    __atomic_fetch_add(&a->wakes, 1, __ATOMIC_ACQ_REL);
    if (a->act) a->act(a);
}

static inline void callback_waker_release(aw_counted *counted) {
    (void)counted;
}

static inline void callback_waker_init(callback_waker *a, void (*act)(callback_waker *self)) {
    *a = (callback_waker){.act = act};
    aw_counted_init(&a->counted, callback_waker_wake, callback_waker_release);
}

static inline aw_poll callback_waker_poll(aw_future *f, callback_waker *a) {
    aw_waker waker = aw_counted_waker(&a->counted);
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_poll(f, &cx);
}

static inline aw_poll callback_waker_cancel(aw_future *f, callback_waker *a) {
    aw_waker waker = aw_counted_waker(&a->counted);
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_cancel(f, &cx);
}

#endif
