/* SPDX-License-Identifier: MIT
 *
 * Operations that the kernel executes, where the driver can submit them. "The lock" in this file is
 * the descriptor's (io/fd.h), which is taken before the driver's.
 *
 *   1. A submitted operation is linked to its descriptor, and `driver` says where it was submitted.
 *      From then until it completes, it must stay in place, with everything that it points to: its
 *      future does not end before.
 *   2. Submission, cancel request and completion happen under the lock. So a cancel finds its
 *      operation completed and unlinked, or the SQE of the operation is ahead of the cancel's.
 *   3. A cancel, a close, or a shutdown of the socket requests the cancel once. The operation
 *      completes in any case: with its result, if that was faster.
 *   4. If the kernel cancels an operation, but its future was not cancelled, and neither its
 *      descriptor nor its driver was closed, the next poll submits it again. There are three
 *      causes: the thread that submitted it has exited; the owner has left the ring, and drained
 *      it; or the socket was shut down, and the second submission fails.
 *   5. In a forked child nothing completes: the kernel works on the parent's memory. There the
 *      operation counts as never submitted. */
#include <errno.h>

#include "future/waiters.h"
#include "io/driver_for_thread.h"
#include "io/fd.h"
#include "io/multishot.h"
#include "io/uring.h"
#include "os/fork.h"
#include "os/park.h"

enum { WAIT_NS = 1000000 }; /* how long to wait for another thread's completion */

static bool is_inline(const aw_io *op) {
    const aw__fd *f = (const aw__fd *)op->conn;
    switch (op->wants) {
    case AW_IO_READABLE:
    case AW_IO_WRITABLE: return false;
    case AW_IO_SHUTDOWN: return true;
    case AW_IO_ACCEPT:
        if (!(op->flags & AW__IO_MULTISHOT) && !aw__uring_has_accept_dontwait()) return true;
        break;
    case AW_IO_READ:
        if (op->size == 0) return true; /* a recv would wait, or consume a datagram */
        break;
    case AW_IO_WRITE:
    case AW_IO_WRITEV:
        if (!f->socket) return true; /* the kernel would raise SIGPIPE */
    }
    return f->borrowed || op->flags & AW__IO_INLINE || aw__io_has_too_many_parts(op);
}

static int submit_and_link(aw_io *op, aw__driver *d, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    bool poll = op->flags & AW__IO_INLINE || op->wants == AW_IO_READABLE ||
                op->wants == AW_IO_WRITABLE;
    uint32_t direction = aw__io_direction(op);
    if (f->error) return f->error;
    if (op->wants == AW_IO_WRITABLE && aw__load_relaxed(&f->ready) & AW__SHUT) return AW__IO_AGAIN;
    if (poll) op->flags |= AW__IO_POLLED; /* before other threads may see it */
    int error = d->type->submit(d, op, poll ? direction : 0);
    if (error) {
        op->flags &= ~(uint32_t)AW__IO_POLLED;
        return error;
    }
    aw__fd_link(f, op);
    op->waker = op->flags & AW__IO_MULTISHOT ? aw_noop_waker() : *cx->waker;
    op->driver = d;
    op->future.state = AW__WAITING;
    return AW__IO_PENDING;
}

/* Once the lock is free, the operation may complete, and its runtime end: hence the reference. */
static int submit_op(aw_io *op, aw__driver *d, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    bool mine = aw__driver_is_mine(d);
    aw__lock(&f->lock);
    int n = submit_and_link(op, d, cx);
    bool flush = n == AW__IO_PENDING && !mine;
    if (flush) aw__driver_ref(d);
    aw__unlock(&f->lock);
    if (flush) {
        aw__driver_flush(d);
        aw__driver_unref(d);
    }
    return n;
}

int aw__io_submit(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (is_inline(op)) {
        op->flags |= AW__IO_INLINE;
        int n = aw__load_relaxed(&f->error);
        if (!n)
            while ((n = aw__io_syscall(op)) == -EINTR)
                ;
        if (n != AW__IO_AGAIN) return n;
    }
    aw__driver *d;
    int n = aw__driver_for_thread(cx, &d);
    if (n) return n;
    if (!d->type->submit) return AW__IO_AGAIN; /* the runtime has just fallen back to epoll */
    n = submit_op(op, d, cx);
    if (n == -EBUSY) {
        aw__driver_poll(d); /* completions may be in the way, too */
        n = submit_op(op, d, cx);
    }
    if (n != -EBUSY) return n;
    /* The SQ is still full: the kernel takes nothing now, or this thread could not open its ring,
     * for lack of descriptors or memory. Retry soon. */
    aw_cx_yield(cx);
    return AW__IO_YIELDED;
}

int aw__io_take_result(aw_io *op) {
    op->driver = NULL;
    op->flags &= ~(uint32_t)(AW__IO_POLLED | AW__IO_CANCEL_REQUESTED);
    return op->out;
}

/* Under the lock: the result of a completion, or AW__IO_AGAIN. The operation has left the driver's
 * table: no other thread reads its flags without the lock any more. */
static int completion_result(aw_io *op, int result) {
    const aw__fd *f = (const aw__fd *)op->conn;
    const aw__driver *d = op->driver;
    /* A cancelled connect goes on in the kernel: from now on only poll for its end. */
    if (op->wants == AW_IO_CONNECT && result == -ECANCELED)
        op->flags |= AW__IO_INLINE | AW__IO_CONNECTING;
    if (result == -ECANCELED || result == -EINTR)
        return f->error ? f->error : aw__load_relaxed(&d->closed) ? -ESHUTDOWN : AW__IO_AGAIN;
    if (op->flags & AW__IO_POLLED)
        return result < 0 ? result : op->flags & AW__IO_INLINE ? AW__IO_AGAIN : 0;
    if (result != -EAGAIN || op->wants == AW_IO_CONNECT) return result;
    /* Another accept was faster; for anything else, the kernel cannot wait for this kind of
     * file. */
    if (op->wants != AW_IO_ACCEPT) aw__fetch_or(&op->flags, AW__IO_INLINE);
    return AW__IO_AGAIN;
}

void aw__fd_complete(aw_io *op, int result, bool more) {
    aw__fd *f = (aw__fd *)op->conn;
    if (aw__load_relaxed(&op->flags) & AW__IO_MULTISHOT) {
        aw__multishot_complete(op, result, more);
        return;
    }
    aw__wakes wakes = {.count = 0};
    aw__lock(&f->lock);
    aw__fd_unlink(f, op);
    aw__waiter_complete((aw__waiter *)op, completion_result(op, result), &wakes);
    aw__unlock(&f->lock);
    aw__wakes_run(&wakes);
}

/* ---- Cancels --------------------------------------------------------------------------------- */

/* Under the lock: whether it was submitted, and its result has not been taken; it may have
 * completed. Rule 5: in a forked child this clears the driver of an operation in flight. (The
 * driver of one that has completed may be gone, so it is not read.) */
static bool is_submitted(aw_io *op) {
    const aw__driver *d = op->driver;
    if (d && op->future.state == AW__WAITING && AW__UNLIKELY(d->generation != aw__fork_generation))
        op->driver = NULL;
    return op->driver;
}

/* Under the lock: it is in flight, and no cancel was requested yet. */
static bool can_request_cancel(aw_io *op) {
    return is_submitted(op) && op->future.state == AW__WAITING &&
           !(op->flags & AW__IO_CANCEL_REQUESTED);
}

/* Under the lock. */
static void request_cancel_once(aw_io *op) {
    aw__driver *d = op->driver;
    if (!can_request_cancel(op)) return;
    aw__fetch_or(&op->flags, AW__IO_CANCEL_REQUESTED);
    d->type->cancel(d, op);
}

/* Called and returns with the lock held. The operation may be gone on return. */
void aw__fd_cancel_op(aw__fd *f, aw_io *op) {
    aw__driver *d = op->driver;
    if (!can_request_cancel(op)) return;
    request_cancel_once(op);
    aw__driver_ref(d);
    aw__unlock(&f->lock);
    aw__driver_flush(d);
    aw__driver_unref(d);
    aw__lock(&f->lock);
}

/* Under the lock: an unattended driver with a cancel requested for an operation of this
 * descriptor. */
static aw__driver *find_unattended(const aw__fd *f) {
    for (aw__waiter *w = f->waiters; w; w = w->next) {
        aw_io *op = (aw_io *)w;
        if (is_submitted(op) && op->flags & AW__IO_CANCEL_REQUESTED &&
            aw__driver_is_unattended(op->driver))
            return op->driver;
    }
    return NULL;
}

/* Called and returns with the lock held. A cancelled operation completes soon, but only when the
 * thread that submitted it next enters the kernel. If it does not complete in time, a thread that
 * later runs the runtime delivers it. */
static void poll_unattended(aw__fd *f) {
    enum { MAX_TRIES = 100 };
    aw__driver *d;
    for (int i = 0; i < MAX_TRIES && (d = find_unattended(f)); i++) {
        aw__driver_ref(d);
        aw__unlock(&f->lock);
        aw__driver_poll_until(d, i ? aw__os_now() + WAIT_NS : 0);
        aw__driver_unref(d);
        aw__lock(&f->lock);
    }
}

static bool can_request_cancel_for(aw__waiter *w, uint32_t directions) {
    return aw__io_direction((aw_io *)w) & directions && can_request_cancel((aw_io *)w);
}

static aw_io *first_to_cancel(const aw__fd *f, uint32_t directions) {
    aw__waiter *w = f->waiters;
    while (w && !can_request_cancel_for(w, directions))
        w = w->next;
    return (aw_io *)w;
}

/* Cancels what is in flight now. An operation that is submitted again meanwhile goes to the end of
 * the list, so it is not cancelled a second time. */
void aw__fd_cancel_ops(aw__fd *f, uint32_t directions) {
    uint32_t remaining = 0;
    for (aw__waiter *w = f->waiters; w; w = w->next)
        remaining += can_request_cancel_for(w, directions);
    for (aw_io *op; remaining && (op = first_to_cancel(f, directions)); remaining--)
        aw__fd_cancel_op(f, op);
    poll_unattended(f);
}

/* Under the lock. Not NULL: a driver that is not this thread's, with a reference. The caller polls
 * it now, so that the cancel does not wait for another thread; or, if the ring has an owner, to
 * interrupt that. */
static aw__driver *request_cancel_and_ref(aw_io *op) {
    aw__driver *d = op->driver;
    request_cancel_once(op);
    if (op->future.state != AW__WAITING || aw__driver_is_mine(d)) return NULL;
    aw__driver_ref(d);
    return d;
}

/* By the thread that requested the cancel. The completion is there at once, unless another thread
 * submitted the operation, or the kernel is busy with it. If no other thread polls the driver, wait
 * for it briefly. True: poll again. */
static bool poll_after_cancel(aw__driver *d, const aw_io *op) {
    aw__driver_poll(d);
    if (!aw__driver_is_unattended(d)) return false;
    if (aw__load_acquire(&op->future.state) == AW__WAITING)
        aw__driver_poll_until(d, aw__os_now() + WAIT_NS);
    return true;
}

bool aw__io_cancel_submitted(aw_io *op, aw_cx *cx, aw_poll *answer) {
    aw__fd *f = (aw__fd *)op->conn;
    aw__driver *d = NULL;
    bool poll_again = false;
    aw__lock(&f->lock);
    if (!is_submitted(op)) {
        aw__unlock(&f->lock);
        return false;
    }
    if (op->future.state == AW__WAITING) {
        bool arm = !aw_waker_will_wake(&op->waker, cx->waker);
        op->waker = *cx->waker;
        if (arm) aw_cx_arm(cx);
        d = request_cancel_and_ref(op);
    }
    bool pending = op->future.state == AW__WAITING;
    aw__unlock(&f->lock);
    if (d) {
        poll_again = poll_after_cancel(d, op);
        aw__driver_unref(d);
        aw__lock(&f->lock);
        pending = op->future.state == AW__WAITING;
        aw__unlock(&f->lock);
    }
    *answer = AW_PENDING;
    if (pending && poll_again) aw_cx_yield(cx);
    if (pending) return true;
    aw__wait_disarm((aw__waiter *)op, cx);
    *answer = aw__io_take_result(op) == AW__IO_AGAIN ? AW_CANCELLED : AW_READY;
    aw__fd_unref(f);
    return true;
}
