/* SPDX-License-Identifier: MIT
 *
 * Wakers that do something when they are woken, on the thread that wakes: what another thread might do between two wakes. The
 * lock of what they wait for is free then. */
#ifndef AWAKE_TEST_ACTING_H
#define AWAKE_TEST_ACTING_H

#include <awake.h>

#define POLL_ACTING(f, a)   acting_poll(&(f)->future, a)
#define CANCEL_ACTING(f, a) acting_cancel(&(f)->future, a)

typedef struct acting {
    aw_counted counted;
    void (*act)(struct acting *self); /* NULL: nothing */
    int wakes;                        /* atomic */
} acting;

static inline void acting_wake(aw_counted *counted) {
    acting *a = (acting *)counted;
    __atomic_fetch_add(&a->wakes, 1, __ATOMIC_ACQ_REL);
    if (a->act) a->act(a);
}

static inline void acting_release(aw_counted *counted) {
    (void)counted;
}

static inline void acting_init(acting *a, void (*act)(acting *self)) {
    *a = (acting){.act = act};
    aw_counted_init(&a->counted, acting_wake, acting_release);
}

static inline aw_poll acting_poll(aw_future *f, acting *a) {
    aw_waker waker = aw_counted_waker(&a->counted);
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_poll(f, &cx);
}

static inline aw_poll acting_cancel(aw_future *f, acting *a) {
    aw_waker waker = aw_counted_waker(&a->counted);
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_cancel(f, &cx);
}

#endif
