/* SPDX-License-Identifier: MIT
 *
 * Wakers that count, and an executor of one future that brings another waker to each call.
 *
 * A beacon is a waker with a number of references and of wakes. Once a later call has brought another
 * one, or the future has ended, it is retired: nobody may hold a clone of it any more, and nobody may
 * use it. That is checked after each call, so every test that drives a future with these also shows
 * that only the latest waker is kept, and none after the end. */
#ifndef AWAKE_TEST_BEACON_H
#define AWAKE_TEST_BEACON_H

#include <awake.h>

#include <sched.h>

#include "test.h"

struct beacon {
    int refs, wakes; /* atomic */
    bool retired;    /* atomic */
};

static aw_waker beacon_clone(void *data);

static inline void beacon_wake_by_ref(void *data) {
    struct beacon *b = data;
    if (__atomic_load_n(&b->retired, __ATOMIC_ACQUIRE)) FAIL("an old waker was woken");
    __atomic_fetch_add(&b->wakes, 1, __ATOMIC_ACQ_REL);
}

static inline void beacon_drop(void *data) {
    struct beacon *b = data;
    if (__atomic_fetch_sub(&b->refs, 1, __ATOMIC_ACQ_REL) <= 0)
        FAIL("a waker was dropped once more than it was cloned");
}

static inline void beacon_wake(void *data) {
    beacon_wake_by_ref(data);
    beacon_drop(data);
}

static const aw_waker_type beacon_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "beacon",
    .clone = beacon_clone,
    .wake = beacon_wake,
    .wake_by_ref = beacon_wake_by_ref,
    .drop = beacon_drop,
};

static aw_waker beacon_clone(void *data) {
    struct beacon *b = data;
    if (__atomic_load_n(&b->retired, __ATOMIC_ACQUIRE)) FAIL("an old waker was cloned");
    __atomic_fetch_add(&b->refs, 1, __ATOMIC_ACQ_REL);
    return (aw_waker){&beacon_type, b};
}

static inline aw_waker beacon_waker(struct beacon *b) {
    return (aw_waker){&beacon_type, b};
}

static inline void beacon_retire(struct beacon *b) {
    /* A worker whose timer fires clones the waker under a lock and wakes the clone after it. */
    aw_runtime *rt = aw_runtime_current();
    while (rt && aw_runtime_workers(rt) && __atomic_load_n(&b->refs, __ATOMIC_ACQUIRE) > 0)
        sched_yield();
    CHECK_EQ(__atomic_load_n(&b->refs, __ATOMIC_ACQUIRE), 0);
    __atomic_store_n(&b->retired, true, __ATOMIC_RELEASE);
}

/* ---- Driving one future by hand --------------------------------------------------------------- */

/* Enough for a late use of an old one to be noticed before its place is used again. */
enum { DRIVE_BEACONS = 64 };

struct drive {
    struct beacon beacons[DRIVE_BEACONS];
    unsigned calls;
};

static struct drive drive;

static inline struct beacon *drive_beacon(unsigned call) {
    return &drive.beacons[call % DRIVE_BEACONS];
}

static inline aw_poll drive_call(aw_future *f, bool cancel) {
    struct beacon *now = drive_beacon(++drive.calls);
    *now = (struct beacon){0, 0, false};
    aw_waker waker = beacon_waker(now);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_poll r = cancel ? aw_future_cancel(f, &cx) : aw_future_poll(f, &cx);
    if (drive.calls > 1) beacon_retire(drive_beacon(drive.calls - 1));
    if (r != AW_PENDING) beacon_retire(now);
    return r;
}

static inline aw_poll drive_poll(aw_future *f) {
    return drive_call(f, false);
}
static inline aw_poll drive_cancel(aw_future *f) {
    return drive_call(f, true);
}

/* How often the waker of the latest call was woken. */
static inline int drive_wakes(void) {
    return drive.calls ? __atomic_load_n(&drive_beacon(drive.calls)->wakes, __ATOMIC_ACQUIRE) : 0;
}

/* Cancel until it ends, each time with another waker. A future that is pending and was not woken would
 * never have been called again. */
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
