/* SPDX-License-Identifier: MIT
 *
 * Cancels of the io_uring backend: cancel requests for operations in flight, and failing operations
 * that are still queued. See rules 3 and 4 of uring_state.h; the failing serves rules 6 and 7.
 *
 * Any thread may request a cancel. It takes the driver's lock, and never enters the ring: `flush`
 * or the next collect submits the request. Queued operations are failed only on a ring that no
 * thread, or only the calling thread, can enter. */
#define _GNU_SOURCE
#include "io/uring_state.h"

#ifdef AW_URING

#include <errno.h>

#include "os/lock.h"

/* ---- Cancel requests ------------------------------------------------------------------------- */

/* Under the lock. False: the SQ is full. */
static bool push_cancel(uring_driver *u, const struct aw_io *op) {
    struct io_uring_sqe *s = io_uring_get_sqe(&u->ring);
    if (!s) return false;
    uint64_t target = aw__uring_has_linked_poll(op) ? aw__uring_linked_poll_user_data(op)
                                                    : (uintptr_t)op;
    io_uring_prep_cancel64(s, target, 0);
    io_uring_sqe_set_data64(s, ((uint64_t)op->index + 1) << 2 | AW__URING_TAG_CANCEL);
    aw__uring_push(&u->ring);
    return true;
}

/* Under the lock. With a full SQ the cancel goes to the backlog. */
static void request_cancel(uring_driver *u, const struct aw_io *op) {
    if (push_cancel(u, op)) return;
    aw__store_relaxed(&u->cancel_backlog, true);
    u->cancel_cursor = 0;
}

void aw__uring_cancel(aw__driver *d, struct aw_io *op) {
    aw__lock(&d->lock);
    request_cancel((uring_driver *)d, op);
    aw__unlock(&d->lock);
}

static bool is_cancel_requested(const struct aw_io *op) {
    return op && aw__load_relaxed(&op->flags) & AW__IO_CANCEL_REQUESTED;
}

/* The operation is about to be retried, or it has completed and its slot may hold another
 * operation. */
void aw__uring_retry_cancel(uring_driver *u, uint64_t user_data) {
    uint32_t index = (uint32_t)(user_data >> 2);
    const struct aw_io *op = index ? aw__slots_at(&u->driver.table, index - 1) : NULL;
    if (is_cancel_requested(op)) request_cancel(u, op);
}

/* Cancelling an operation twice does no harm. */
void aw__uring_push_cancel_backlog_slow(uring_driver *u) {
    for (; u->cancel_cursor < u->driver.table.count; u->cancel_cursor++) {
        const struct aw_io *op = aw__slots_at(&u->driver.table, u->cancel_cursor);
        if (is_cancel_requested(op) && !push_cancel(u, op)) return;
    }
    aw__store_relaxed(&u->cancel_backlog, false);
}

/* (The kernel can cancel everything in one request, but takes quadratic time for it.) */
uint32_t aw__uring_push_cancel_batch(uring_driver *u, uint32_t *cursor) {
    for (; *cursor < u->driver.table.count; ++*cursor) {
        struct aw_io *op = aw__slots_at(&u->driver.table, *cursor);
        if (op && !push_cancel(u, op)) break;
    }
    return aw__uring_queued(&u->ring);
}

/* ---- Operations that are queued, not submitted ----------------------------------------------- */

int aw__uring_fail_queued(uring_driver *u, aw__event *events, int error) {
    int count = 0;
    struct io_uring_sq *q = &u->ring.sq;
    for (; count < AW__EVENTS && q->sqe_tail != aw__load_acquire(q->khead); q->sqe_tail--) {
        const struct io_uring_sqe *s = &q->sqes[(q->sqe_tail - 1) & q->ring_mask];
        if (s->user_data & 1) continue;
        aw__event *e = &events[count++];
        *e = (aw__event){.op = (struct aw_io *)(uintptr_t)s->user_data, .result = error};
        aw__uring_release_slot(u, e->op);
    }
    aw__uring_push(&u->ring);
    return count;
}

static int fail_queued_ecanceled(uring_driver *u, aw__event *events) {
    return aw__uring_fail_queued(u, events, -ECANCELED);
}

/* Under the lock. The other SQEs stay queued, so these are turned into no-ops. */
static int fail_multishots(uring_driver *u, aw__event *events) {
    int count = 0;
    const struct io_uring_sq *q = &u->ring.sq;
    for (uint32_t at = *q->khead; at != q->sqe_tail && count < AW__EVENTS; at++) {
        struct io_uring_sqe *s = &q->sqes[at & q->ring_mask];
        struct aw_io *op = (struct aw_io *)(uintptr_t)s->user_data;
        if (s->user_data & 1 || !(aw__load_relaxed(&op->flags) & AW__IO_MULTISHOT)) continue;
        events[count++] = (aw__event){.op = op, .result = -ECANCELED};
        io_uring_prep_nop(s);
        io_uring_sqe_set_data64(s, AW__URING_TAG_CANCEL);
        aw__uring_release_slot(u, op);
    }
    return count;
}

static void fail_and_deliver(uring_driver *u, int (*fail)(uring_driver *, aw__event *)) {
    aw__event events[AW__EVENTS];
    for (int count = 1; count;) {
        aw__lock(&u->driver.lock);
        count = fail(u, events);
        aw__unlock(&u->driver.lock);
        aw__driver_deliver(&u->driver, events, count);
    }
}

void aw__uring_fail_all_queued(uring_driver *u) {
    fail_and_deliver(u, fail_queued_ecanceled);
}

void aw__uring_fail_queued_multishots(uring_driver *u) {
    fail_and_deliver(u, fail_multishots);
}

#endif
