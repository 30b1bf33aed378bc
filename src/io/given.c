/* SPDX-License-Identifier: MIT
 *
 * Operations that the system has, where the driver can give them to it.
 *
 *   1. One that is given is linked to its descriptor, and `driver` says where it is. From then on until it has come back
 *      it stays where it is, with all that it points to: it has no end before.
 *   2. Giving it, asking for it and its coming back are under the descriptor's lock: so who asks finds it in the
 *      queue in front of his question, or not linked any more.
 *   3. It is asked for once, by a cancel, a close, or a shutdown, and comes back all the same: with its result, if it was
 *      faster.
 *   4. One that comes back though nobody has cancelled or closed is given again: the thread that handed it over has
 *      ended; or, after a shutdown, it fails then.
 *   5. In the child of a fork nothing comes back: what the system has is the parent's memory. So it is as if it had never
 *      been given. */
#include <errno.h>

#include "driver/uring.h"
#include "io/fd.h"
#include "io/here.h"
#include "io/many.h"
#include "os/fork.h"
#include "os/park.h"
#include "sync/waiters.h"

enum { WAIT_NS = 1000000 }; /* for what another thread is about to do */

static bool is_by_hand(const aw_io *op) {
    const aw__fd *f = (const aw__fd *)op->conn;
    switch (op->wants) {
    case AW_IO_READABLE:
    case AW_IO_WRITABLE: return false;
    case AW_IO_SHUTDOWN: return true;
    case AW_IO_ACCEPT:
        if (!(op->has & AW__IO_MANY) && !aw__uring_accepts()) return true;
        break;
    case AW_IO_READ:
        if (op->size == 0) return true; /* a receive would wait, or take a datagram */
        break;
    case AW_IO_WRITE:
    case AW_IO_WRITEV:
        if (!f->socket) return true; /* the system would raise SIGPIPE */
    }
    return f->borrowed || op->has & AW__IO_BY_HAND || aw__io_has_too_many_parts(op);
}

static int give_and_link(aw_io *op, aw__driver *d, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    bool poll = op->has & AW__IO_BY_HAND || op->wants == AW_IO_READABLE ||
                op->wants == AW_IO_WRITABLE;
    uint32_t direction = aw__io_direction(op);
    if (f->error) return f->error;
    if (op->wants == AW_IO_WRITABLE && aw__load_relaxed(&f->ready) & AW__SHUT) return AW__IO_AGAIN;
    if (poll) op->has |= AW__IO_POLLED; /* before others may look at it */
    int error = d->type->submit(d, op, poll ? direction : 0);
    if (error) {
        op->has &= ~(uint32_t)AW__IO_POLLED;
        return error;
    }
    aw__fd_link(f, op);
    op->waker = op->has & AW__IO_MANY ? aw_noop_waker() : *cx->waker;
    op->driver = d;
    op->future.state = AW__WAITING;
    return AW__IO_WAITS;
}

/* It may come back, and its runtime end, as soon as the lock is free. */
static int give(aw_io *op, aw__driver *d, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    bool own = aw__driver_is_own(d);
    aw__lock(&f->lock);
    int n = give_and_link(op, d, cx);
    bool handed_over = n == AW__IO_WAITS && !own;
    if (handed_over) aw__driver_keep(d);
    aw__unlock(&f->lock);
    if (handed_over) {
        aw__driver_hand_over(d);
        aw__driver_let_go(d);
    }
    return n;
}

int aw__io_give(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (is_by_hand(op)) {
        op->has |= AW__IO_BY_HAND;
        int n = aw__load_relaxed(&f->error);
        if (!n)
            while ((n = aw__io_call(op)) == -EINTR)
                ;
        if (n != AW__IO_AGAIN) return n;
    }
    aw__driver *d;
    int n = aw__driver_here(cx, &d);
    if (n) return n;
    if (!d->type->submit) return AW__IO_AGAIN; /* the runtime has just begun to use another kind */
    n = give(op, d, cx);
    if (n == -EBUSY) {
        aw__driver_turn(d); /* what has come back may be in the way, too */
        n = give(op, d, cx);
    }
    if (n != -EBUSY) return n;
    /* The system takes nothing now, or there is no descriptor for a ring of this thread: it may be better soon. */
    aw_cx_yield(cx);
    return AW__IO_LATER;
}

int aw__io_take(aw_io *op) {
    op->driver = NULL;
    op->has &= ~(uint32_t)(AW__IO_POLLED | AW__IO_ASKED_BACK);
    return op->out;
}

/* Under the lock. */
static int result_of(aw_io *op, int result) {
    const aw__fd *f = (const aw__fd *)op->conn;
    const aw__driver *d = op->driver;
    /* A connect goes on by itself: from now on the system only says when. */
    if (op->wants == AW_IO_CONNECT && result == -ECANCELED)
        op->has |= AW__IO_BY_HAND | AW__IO_CONNECTING;
    if (result == -ECANCELED || result == -EINTR)
        return f->error ? f->error : aw__load_relaxed(&d->closed) ? -ESHUTDOWN : AW__IO_AGAIN;
    if (op->has & AW__IO_POLLED)
        return result < 0 ? result : op->has & AW__IO_BY_HAND ? AW__IO_AGAIN : 0;
    if (result != -EAGAIN || op->wants == AW_IO_CONNECT) return result;
    /* An accept found that somebody else had been faster; anything else is a file that the system cannot wait for. */
    if (op->wants != AW_IO_ACCEPT) aw__fetch_or(&op->has, AW__IO_BY_HAND);
    return AW__IO_AGAIN;
}

void aw__fd_came_back(aw_io *op, int result, bool more) {
    aw__fd *f = (aw__fd *)op->conn;
    if (aw__load_relaxed(&op->has) & AW__IO_MANY) {
        aw__many_tell(op, result, more);
        return;
    }
    aw__wakes wakes = {.count = 0};
    aw__lock(&f->lock);
    aw__fd_unlink(f, op);
    aw__waiter_tell((aw__waiter *)op, result_of(op, result), &wakes);
    aw__unlock(&f->lock);
    aw__wakes_run(&wakes);
}

/* ---- Asking ----------------------------------------------------------------------------------- */

/* With the lock. Of one that does not wait any more the driver may be gone. */
static bool is_given(aw_io *op) {
    const aw__driver *d = op->driver;
    if (d && op->future.state == AW__WAITING && AW__UNLIKELY(d->generation != aw__fork_generation))
        op->driver = NULL;
    return op->driver;
}

bool aw__io_is_given(aw_io *op) {
    aw__fd *f = (aw__fd *)op->conn;
    if (!op->driver) return false;
    aw__lock(&f->lock);
    bool given = is_given(op);
    aw__unlock(&f->lock);
    return given;
}

static bool is_there(aw_io *op) {
    return is_given(op) && op->future.state == AW__WAITING && !(op->has & AW__IO_ASKED_BACK);
}

/* With the lock. */
static void ask_if_there(aw_io *op) {
    aw__driver *d = op->driver;
    if (!is_there(op)) return;
    aw__fetch_or(&op->has, AW__IO_ASKED_BACK);
    d->type->cancel(d, op);
}

/* With the lock, and again afterwards: then it may be gone. */
void aw__fd_ask_for(aw__fd *f, aw_io *op) {
    aw__driver *d = op->driver;
    if (!is_there(op)) return;
    ask_if_there(op);
    aw__driver_keep(d);
    aw__unlock(&f->lock);
    aw__driver_hand_over(d);
    aw__driver_let_go(d);
    aw__lock(&f->lock);
}

/* With the lock: one that was asked for an operation of this descriptor, and nobody may look into it. */
static aw__driver *find_left(const aw__fd *f) {
    for (aw__waiter *w = f->waiters; w; w = w->next) {
        aw_io *op = (aw_io *)w;
        if (is_given(op) && op->has & AW__IO_ASKED_BACK && aw__driver_is_left(op->driver))
            return op->driver;
    }
    return NULL;
}

/* With the lock, and again afterwards. What was asked for comes soon: the system asks the thread that had handed it over.
 * But there are files that hang; then it is told when somebody runs the runtime. */
static void collect_left(aw__fd *f) {
    enum { TRIES = 100 };
    aw__driver *d;
    for (int i = 0; i < TRIES && (d = find_left(f)); i++) {
        aw__driver_keep(d);
        aw__unlock(&f->lock);
        aw__driver_turn_until(d, i ? aw__os_now() + WAIT_NS : 0);
        aw__driver_let_go(d);
        aw__lock(&f->lock);
    }
}

static bool is_there_for(aw__waiter *w, uint32_t directions) {
    return aw__io_direction((aw_io *)w) & directions && is_there((aw_io *)w);
}

static aw_io *first_there(const aw__fd *f, uint32_t directions) {
    aw__waiter *w = f->waiters;
    while (w && !is_there_for(w, directions))
        w = w->next;
    return (aw_io *)w;
}

/* Those that are there now: one that is given again in between is behind them. */
void aw__fd_ask_back(aw__fd *f, uint32_t directions) {
    uint32_t left = 0;
    for (aw__waiter *w = f->waiters; w; w = w->next)
        left += is_there_for(w, directions);
    for (aw_io *op; left && (op = first_there(f, directions)); left--)
        aw__fd_ask_for(f, op);
    collect_left(f);
}

/* With the lock. Not NULL: somebody has to collect what comes back, and nobody is sure to do it soon. */
static aw__driver *ask_here(aw_io *op) {
    aw__driver *d = op->driver;
    ask_if_there(op);
    if (op->future.state != AW__WAITING || aw__driver_is_own(d)) return NULL;
    aw__driver_keep(d);
    return d;
}

/* By the one who has asked. It comes at once, unless another thread had handed it over, or the system is busy with it: then,
 * where nobody else may look, it is waited for a little. True: look again. */
static bool collect(aw__driver *d, const aw_io *op) {
    aw__driver_turn(d);
    if (!aw__driver_is_left(d)) return false;
    if (aw__load_acquire(&op->future.state) == AW__WAITING)
        aw__driver_turn_until(d, aw__os_now() + WAIT_NS);
    return true;
}

aw_poll aw__io_take_back(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    bool later = false;
    aw__lock(&f->lock);
    if (op->future.state == AW__WAITING) {
        bool arm = !aw_waker_will_wake(&op->waker, cx->waker);
        op->waker = *cx->waker;
        if (arm) aw_cx_arm(cx);
        aw__driver *d = ask_here(op);
        aw__unlock(&f->lock);
        if (d) {
            later = collect(d, op);
            aw__driver_let_go(d);
        }
        aw__lock(&f->lock);
    }
    bool waits = op->future.state == AW__WAITING;
    aw__unlock(&f->lock);
    if (waits && later) aw_cx_yield(cx);
    if (waits) return AW_PENDING;
    aw__wait_disarm((aw__waiter *)op, cx);
    int out = aw__io_take(op);
    aw__fd_let_go(f);
    return out == AW__IO_AGAIN ? AW_CANCELLED : AW_READY;
}
