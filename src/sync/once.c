/* SPDX-License-Identifier: MIT
 *
 * Once. `state` is EMPTY, MAKING while somebody makes it, and then DONE for ever. It changes under the lock; DONE is stored
 * with release and may be looked at without it, and that is all there is to it once it is done. */
#include <awake/once.h>

#include "core/misuse.h"
#include "sync/waiters.h"

enum { EMPTY, MAKING, DONE };

bool aw_once_is_done(const aw_once *o) {
    return aw__load_acquire(&o->state) == DONE;
}

/* Under the lock. */
static int begin(aw_once *o) {
    if (o->state != EMPTY) return o->state == DONE ? 0 : -EAGAIN;
    aw__store_relaxed(&o->state, (uint32_t)MAKING);
    return 1;
}

int aw_once_try_begin(aw_once *o) {
    if (aw_once_is_done(o)) return 0;
    aw__lock(&o->lock);
    int r = begin(o);
    aw__unlock(&o->lock);
    return r;
}

static void lock_of_maker(aw_once *o) {
    aw__lock(&o->lock);
    if (AW__UNLIKELY(o->state != MAKING)) aw__misuse("a once is ended that nobody has begun");
}

void aw_once_done(aw_once *o) {
    static const uint32_t all = 1;
    lock_of_maker(o);
    aw__store_release(&o->state, (uint32_t)DONE);
    aw__end_older_and_unlock(&o->lock, &o->waiters, &all, 0);
}

void aw_once_undone(aw_once *o) {
    aw__wakes wakes = {.count = 0};
    lock_of_maker(o);
    if (o->waiters.first)
        aw__waiter_end(&o->waiters, o->waiters.first, 1, &wakes);
    else
        aw__store_relaxed(&o->state, (uint32_t)EMPTY);
    aw__unlock(&o->lock);
    aw__wakes_run(&wakes);
}

/* ---- The future ------------------------------------------------------------------------------- */

static int begin_or_queue(aw__waiter *w) {
    return begin(((aw_once_future *)(void *)w)->once);
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
    bool left = aw__wait_leave_busy(&f->once->lock, &f->once->waiters, w);
    aw__unlock(&f->once->lock);
    return aw__wait_cancelled(w, left, cx);
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
