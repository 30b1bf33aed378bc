/* SPDX-License-Identifier: MIT
 *
 * Ring ownership of the io_uring backend: how a thread adopts a ring that only it can enter, drains
 * it before it leaves, and how the next owner takes over. See rule 6 of uring_state.h.
 *
 * The owner calls `adopt` and `share`; if the ring has no owner, any thread does. An owner that
 * leaves calls `drain`, and so does the thread that closes the driver. The driver's lock guards
 * replacing the ring. */
#define _GNU_SOURCE
#include "io/uring_state.h"

#ifdef AW_URING

#include <string.h>

#include "os/lock.h"
#include "os/park.h"

/* ---- Adopt ----------------------------------------------------------------------------------- */

/* Under the lock: copy the queued SQEs, in order. */
static void move_queued(uring_driver *u, const aw__uring *from, aw__uring *to) {
    struct msghdr msghdrs[AW__URING_SUBMISSIONS];
    memcpy(msghdrs, u->msghdrs, sizeof msghdrs);
    for (uint32_t at = aw__load_acquire(from->sq.khead); at != from->sq.sqe_tail; at++) {
        uint32_t index = at & from->sq.ring_mask;
        const struct io_uring_sqe *old = &from->sq.sqes[index];
        if (old->user_data == AW__URING_TAG_WAKE) continue; /* armed again later */
        struct io_uring_sqe *s = io_uring_get_sqe(to);
        *s = *old;
        if (old->addr == (uintptr_t)&u->msghdrs[index]) {
            struct msghdr *head = &u->msghdrs[s - to->sq.sqes];
            s->addr = (uintptr_t)head;
            *head = msghdrs[index];
        }
        aw__uring_push(to);
    }
}

/* Under the lock. Nothing of the old ring is in flight. */
static int replace_ring(uring_driver *u, bool single_issuer) {
    aw__uring ring;
    int error = aw__uring_open(&ring, AW__URING_SUBMISSIONS, AW__URING_COMPLETIONS, single_issuer);
    if (error) return error;
    move_queued(u, &u->ring, &ring);
    aw__uring_close(&u->ring);
    u->ring = ring;
    u->armed = false;
    aw__store_relaxed(&u->adopter, (uint64_t)0);
    return 0;
}

bool aw__uring_adopt_slow(uring_driver *u) {
    aw__lock(&u->driver.lock);
    int error = u->adopter ? replace_ring(u, true) : 0;
    if (!error) error = aw__uring_enable(&u->ring);
    if (!error) aw__store_relaxed(&u->adopter, aw__os_thread_number());
    aw__unlock(&u->driver.lock);
    if (aw__uring_is_refused(error)) aw__uring_mark_forbidden(u, error);
    return !error;
}

/* ---- Drain ----------------------------------------------------------------------------------- */

/* Under the lock: operations that are queued, not submitted. */
static uint32_t count_queued_ops(const uring_driver *u) {
    uint32_t count = 0;
    const struct io_uring_sq *q = &u->ring.sq;
    for (uint32_t at = aw__load_acquire(q->khead); at != q->sqe_tail; at++)
        count += !(q->sqes[at & q->ring_mask].user_data & 1);
    return count;
}

/* Under the lock. Returns how many SQEs to submit. To cancel each operation once should do. Repeat
 * it, in case a cancel came too early for its operation. */
static uint32_t push_drain_cancels(uring_driver *u, int round, uint32_t *cursor) {
    enum { REPEAT_ROUNDS = 16 };
    const aw__slots *table = &u->driver.table;
    if (round % REPEAT_ROUNDS == 0 && *cursor >= table->count) *cursor = 0;
    return *cursor < table->count ? aw__uring_push_cancel_batch(u, cursor) : 0;
}

static void enter_to_drain(uring_driver *u, uint32_t submit) {
    enum { WAIT_NS = 1000000 };
    aw__count_call(&u->driver);
    if (submit && !u->driver.owner) submit = u->ring.sq.ring_entries; /* rule 3 */
    int error = aw__uring_enter(&u->ring, submit, aw__os_now() + WAIT_NS);
    if (!error) return;
    aw__uring_mark_forbidden(u, error);
    aw__os_nap();
}

static void reap_and_deliver(uring_driver *u) {
    aw__event events[AW__EVENTS];
    bool woken = false;
    aw__lock(&u->driver.lock);
    int count = aw__uring_reap(u, events, &woken);
    aw__unlock(&u->driver.lock);
    aw__driver_deliver(&u->driver, events, count);
}

/* Cancel and reap everything in flight. What is queued stays for the next owner, except with
 * `all`. */
static void drain_in_flight(uring_driver *u, bool all) {
    uint32_t cursor = 0;
    for (int round = 0;; round++) {
        aw__lock(&u->driver.lock);
        uint32_t in_flight = u->unfinished - (all ? 0 : count_queued_ops(u));
        uint32_t submit = in_flight ? push_drain_cancels(u, round, &cursor) : 0;
        aw__unlock(&u->driver.lock);
        if (!in_flight) return;
        enter_to_drain(u, submit);
        reap_and_deliver(u);
    }
}

/* Cancel and reap everything in flight: at close, and before the only thread leaves that can reap
 * it. An owner that leaves also ends the queued multishot operations (io/multishot.h): they serve
 * other threads too, which do not wait for the next owner. After close nothing can be queued, so
 * the queue ends as well: through the kernel, where other threads may be submitting it at this
 * moment. */
void aw__uring_drain(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    bool closed = aw__load_relaxed(&d->closed);
    if (!closed) aw__uring_fail_queued_multishots(u);
    if (aw__uring_may_adopt(d) && aw__uring_can_enter(u))
        drain_in_flight(u, closed);
    else if (closed)
        aw__uring_fail_all_queued(u);
}

/* ---- Share ----------------------------------------------------------------------------------- */

int aw__uring_share(aw__driver *d) {
    if (!d->owner) return 0;
    aw__uring_drain(d);
    aw__lock(&d->lock);
    int error = replace_ring((uring_driver *)d, false);
    if (!error) aw__store_release(&d->owner, (const uint64_t *)NULL);
    aw__unlock(&d->lock);
    return error;
}

#endif
