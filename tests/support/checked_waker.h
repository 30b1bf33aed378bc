/* SPDX-License-Identifier: MIT
 *
 * Wakers that check their use, and a driver for one future that passes a new waker to each call.
 *
 * A checked waker counts references and wakes. It is retired when a later call has passed
 * another waker, or when the future has ended. From then on there must be no clone of it, and it
 * must not be used. This is checked after each call. So each test that drives a future this way
 * also shows that the future keeps only the latest waker, and none after its end. */
#ifndef AWAKE_TEST_CHECKED_WAKER_H
#define AWAKE_TEST_CHECKED_WAKER_H

#include <awake.h>

#include <sched.h>

#include "test.h"

struct checked_waker {
    int refs, wakes; /* atomic */
    bool retired;    /* atomic */
};

static aw_waker checked_waker_clone(void *data);

static inline void checked_waker_wake_by_ref(void *data) {
    struct checked_waker *b = data;
    if (__atomic_load_n(&b->retired, __ATOMIC_ACQUIRE)) FAIL("a retired waker was woken");
    __atomic_fetch_add(&b->wakes, 1, __ATOMIC_ACQ_REL);
}

static inline void checked_waker_drop(void *data) {
    struct checked_waker *b = data;
    if (__atomic_fetch_sub(&b->refs, 1, __ATOMIC_ACQ_REL) <= 0)
        FAIL("a waker was dropped more often than it was cloned");
}

static inline void checked_waker_wake(void *data) {
    checked_waker_wake_by_ref(data);
    checked_waker_drop(data);
}

static const aw_waker_type checked_waker_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "checked_waker",
    .clone = checked_waker_clone,
    .wake = checked_waker_wake,
    .wake_by_ref = checked_waker_wake_by_ref,
    .drop = checked_waker_drop,
};

static aw_waker checked_waker_clone(void *data) {
    struct checked_waker *b = data;
    if (__atomic_load_n(&b->retired, __ATOMIC_ACQUIRE)) FAIL("a retired waker was cloned");
    __atomic_fetch_add(&b->refs, 1, __ATOMIC_ACQ_REL);
    return (aw_waker){&checked_waker_type, b};
}

static inline aw_waker checked_waker_of(struct checked_waker *b) {
    return (aw_waker){&checked_waker_type, b};
}

static inline void checked_waker_retire(struct checked_waker *b) {
    /* A worker that fires a timer clones the waker under a lock and wakes the clone after
     * unlocking. */
    aw_runtime *rt = aw_runtime_current();
    while (rt && aw_runtime_workers(rt) && __atomic_load_n(&b->refs, __ATOMIC_ACQUIRE) > 0)
        sched_yield();
    CHECK_EQ(__atomic_load_n(&b->refs, __ATOMIC_ACQUIRE), 0);
    __atomic_store_n(&b->retired, true, __ATOMIC_RELEASE);
}

/* ---- Driving one future ---------------------------------------------------------------------- */

/* Enough to notice a late use of a retired waker before its slot is reused. */
enum { DRIVE_WAKERS = 64 };

struct drive {
    struct checked_waker wakers[DRIVE_WAKERS];
    unsigned calls;
};

static struct drive drive;

static inline struct checked_waker *drive_waker(unsigned call) {
    return &drive.wakers[call % DRIVE_WAKERS];
}

static inline aw_poll drive_call(aw_future *f, bool cancel) {
    struct checked_waker *now = drive_waker(++drive.calls);
    *now = (struct checked_waker){0, 0, false};
    aw_waker waker = checked_waker_of(now);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_poll r = cancel ? aw_future_cancel(f, &cx) : aw_future_poll(f, &cx);
    if (drive.calls > 1) checked_waker_retire(drive_waker(drive.calls - 1));
    if (r != AW_PENDING) checked_waker_retire(now);
    return r;
}

static inline aw_poll drive_poll(aw_future *f) {
    return drive_call(f, false);
}
static inline aw_poll drive_cancel(aw_future *f) {
    return drive_call(f, true);
}

/* The wakes of the latest call's waker. */
static inline int drive_wakes(void) {
    return drive.calls ? __atomic_load_n(&drive_waker(drive.calls)->wakes, __ATOMIC_ACQUIRE) : 0;
}

/* Cancels until the future ends, with a new waker each time. Fails if the future is pending and
 * has not been woken: an executor would never call it again. */
static inline aw_poll drive_cancel_to_end(aw_future *f) {
    for (int n = 0; n < 1000; n++) {
        aw_poll r = drive_cancel(f);
        if (r != AW_PENDING) return r;
        CHECK_GT(drive_wakes(), 0);
    }
    FAIL("the cancel of '%s' does not end", f->type->name);
}

static inline aw_poll drive_poll_to_end(aw_future *f) {
    for (int n = 0; n < 1000; n++) {
        aw_poll r = drive_poll(f);
        if (r != AW_PENDING) return r;
        CHECK_GT(drive_wakes(), 0);
    }
    FAIL("'%s' does not end", f->type->name);
}

#endif
