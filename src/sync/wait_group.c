/* SPDX-License-Identifier: MIT
 *
 * Wait group. Any thread may call these functions. Count and queue are under one short lock. The
 * call that brings the count to zero wakes the waiters. It does not touch the group after
 * unlocking: the last waiter may have freed it. */
#include <awake/wait_group.h>

#include "base/misuse.h"
#include "future/waiters.h"

int aw_wait_group_add(aw_wait_group *g, uint32_t n) {
    aw__lock(&g->lock);
    int error = g->closed ? -EPIPE : n > UINT32_MAX - g->count ? -EOVERFLOW : 0;
    if (!error) g->count += n;
    aw__unlock(&g->lock);
    return error;
}

void aw_wait_group_done(aw_wait_group *g) {
    aw__lock(&g->lock);
    if (AW__UNLIKELY(!g->count))
        aw__misuse("a wait group was marked done more often than added to");
    if (--g->count == 0) g->generation++;
    aw__end_older_and_unlock(&g->lock, &g->waiters, &g->generation, 0);
}

void aw_wait_group_close(aw_wait_group *g) {
    aw__lock(&g->lock);
    g->closed = 1;
    aw__unlock(&g->lock);
}

uint32_t aw_wait_group_count(aw_wait_group *g) {
    aw__lock(&g->lock);
    uint32_t count = g->count;
    aw__unlock(&g->lock);
    return count;
}

int aw_wait_group_try_wait(aw_wait_group *g) {
    return aw_wait_group_count(g) ? -EAGAIN : 0;
}

/* ---- The future ------------------------------------------------------------------------------ */

static int wait_group_try(aw__waiter *w) {
    const aw_wait_group *g = ((aw_wait_group_future *)(void *)w)->group;
    w->wants = g->generation;
    return g->count ? -EAGAIN : 0;
}

static aw_poll wait_group_poll(aw_future *self, aw_cx *cx) {
    aw_wait_group_future *f = (aw_wait_group_future *)self;
    return aw__wait_poll((aw__waiter *)f, &f->group->lock, &f->group->waiters, wait_group_try, cx);
}

static aw_poll wait_group_cancel(aw_future *self, aw_cx *cx) {
    aw_wait_group_future *f = (aw_wait_group_future *)self;
    aw__waiter *w = (aw__waiter *)f;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&f->group->lock);
    bool dequeued = aw__wait_leave_busy(&f->group->lock, &f->group->waiters, w);
    aw__unlock(&f->group->lock);
    return aw__wait_cancelled(w, dequeued, cx);
}

const aw_future_type aw_wait_group_wait_type = {
    AW_TYPE_OF(aw_wait_group_future, "wait_group_wait"),
    .flags = AW_OUT_ERRNO,
    .poll = wait_group_poll,
    .cancel = wait_group_cancel,
};
