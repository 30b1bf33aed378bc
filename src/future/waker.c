/* SPDX-License-Identifier: MIT
 *
 * Wakers that need no runtime: a no-op, a flag, a counted object. */
#include <awake/waker.h>

#include "base/atomic.h"

/* ---- No-op ----------------------------------------------------------------------------------- */

static aw_waker noop_clone(void *data);
static void noop(void *data) {
    (void)data;
}

static const aw_waker_type noop_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "noop",
    .clone = noop_clone,
    .wake = noop,
    .wake_by_ref = noop,
    .drop = noop,
};

static aw_waker noop_clone(void *data) {
    return (aw_waker){&noop_type, data};
}

aw_waker aw_noop_waker(void) {
    return (aw_waker){&noop_type, NULL};
}

/* ---- Flag ------------------------------------------------------------------------------------ */

static aw_waker flag_clone(void *data);
static void flag_raise(void *data) {
    aw__store_release(&((aw_flag *)data)->raised, 1u);
}

static const aw_waker_type flag_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "flag",
    .clone = flag_clone,
    .wake = flag_raise,
    .wake_by_ref = flag_raise,
    .drop = noop,
};

static aw_waker flag_clone(void *data) {
    return (aw_waker){&flag_type, data};
}

aw_waker aw_flag_waker(aw_flag *flag) {
    return (aw_waker){&flag_type, flag};
}

bool aw_flag_take(aw_flag *flag) {
    return aw__exchange(&flag->raised, 0u) != 0;
}

/* ---- Counted object -------------------------------------------------------------------------- */

static aw_waker counted_clone(void *data);
static void counted_wake_by_ref(void *data) {
    aw_counted *c = data;
    c->wake(c);
}
static void counted_wake(void *data) {
    counted_wake_by_ref(data);
    aw_counted_drop(data);
}
static void counted_drop(void *data) {
    aw_counted_drop(data);
}

static const aw_waker_type counted_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "counted",
    .clone = counted_clone,
    .wake = counted_wake,
    .wake_by_ref = counted_wake_by_ref,
    .drop = counted_drop,
};

static aw_waker counted_clone(void *data) {
    aw_counted_keep(data);
    return (aw_waker){&counted_type, data};
}

void aw_counted_init(aw_counted *c, void (*wake)(aw_counted *), void (*release)(aw_counted *)) {
    c->refs = 1;
    c->wake = wake;
    c->release = release;
}

void aw_counted_keep(aw_counted *c) {
    /* Relaxed: the caller already has a reference. */
    aw__fetch_add_relaxed(&c->refs, (size_t)1);
}

void aw_counted_drop(aw_counted *c) {
    /* The release function must see all writes made through any reference: release the writes of
     * this thread, acquire those of other threads. */
    if (aw__fetch_sub(&c->refs, (size_t)1) == 1) c->release(c);
}

aw_waker aw_counted_waker(aw_counted *c) {
    return (aw_waker){&counted_type, c};
}
