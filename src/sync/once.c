/* SPDX-License-Identifier: MIT
 *
 * Once. Any thread may call these functions. `state` is EMPTY, RUNNING while one caller
 * initializes, and finally DONE. It changes under the lock. DONE is stored with release and read
 * without the lock, so a finished once costs one load. */
#include <awake/once.h>

#include "base/misuse.h"
#include "future/waiters.h"

enum { ONCE_EMPTY, ONCE_RUNNING, ONCE_DONE };

bool aw_once_is_done(const aw_once *o) {
    return aw__load_acquire(&o->state) == ONCE_DONE;
}

/* Under the lock. 0: done; 1: the caller initializes; -EAGAIN: another caller does. */
static int once_begin(aw_once *o) {
    if (o->state != ONCE_EMPTY) return o->state == ONCE_DONE ? 0 : -EAGAIN;
    aw__store_relaxed(&o->state, (uint32_t)ONCE_RUNNING);
    return 1;
}

int aw_once_try_begin(aw_once *o) {
    if (aw_once_is_done(o)) return 0;
    aw__lock(&o->lock);
    int r = once_begin(o);
    aw__unlock(&o->lock);
    return r;
}

static void once_lock_running(aw_once *o) {
    aw__lock(&o->lock);
    if (AW__UNLIKELY(o->state != ONCE_RUNNING)) aw__misuse("a once was ended that was not begun");
}

void aw_once_done(aw_once *o) {
    static const uint32_t all = 1; /* all waiters are of generation 0 */
    once_lock_running(o);
    aw__store_release(&o->state, (uint32_t)ONCE_DONE);
    aw__end_older_and_unlock(&o->lock, &o->waiters, &all, 0);
}

void aw_once_undone(aw_once *o) {
    aw__wakes wakes = {.count = 0};
    once_lock_running(o);
    if (o->waiters.first)
        aw__waiter_end(&o->waiters, o->waiters.first, 1, &wakes);
    else
        aw__store_relaxed(&o->state, (uint32_t)ONCE_EMPTY);
    aw__unlock(&o->lock);
    aw__wakes_run(&wakes);
}

/* ---- The future ------------------------------------------------------------------------------ */

static int begin_or_queue(aw__waiter *w) {
    return once_begin(((aw_once_future *)(void *)w)->once);
}

static aw_poll once_poll(aw_future *self, aw_cx *cx) {
    aw_once_future *f = (aw_once_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w) && !aw_cx_exhausted(cx) && aw_once_is_done(f->once)) {
        aw_cx_spend(cx);
        return AW_READY;
    }
    return aw__wait_poll(w, &f->once->lock, &f->once->waiters, begin_or_queue, cx);
}

static aw_poll once_cancel(aw_future *self, aw_cx *cx) {
    aw_once_future *f = (aw_once_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&f->once->lock);
    bool dequeued = aw__wait_leave_busy(&f->once->lock, &f->once->waiters, w);
    aw__unlock(&f->once->lock);
    return aw__wait_cancelled(w, dequeued, cx);
}

static void once_discard(aw_future *self) {
    aw_once_future *f = (aw_once_future *)self;
    if (f->out == 1) aw_once_undone(f->once);
}

const aw_future_type aw_once_begin_type = {
    AW_TYPE_OF(aw_once_future, "once_begin"),
    .flags = AW_OUT_ERRNO,
    .poll = once_poll,
    .cancel = once_cancel,
    .discard = once_discard,
};
