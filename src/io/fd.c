/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "io/here.h"
#include "sync/waiters.h"

enum { TICK = 16 };

/* ---- Life ------------------------------------------------------------------------------------- */

static const aw_allocator *allocator_of(uintptr_t owner) {
    return owner & 1 ? ((aw__fd_end *)(owner - 1))->allocator : (const aw_allocator *)owner;
}

/* Of the rest the caller says what is not 0. */
static int make(aw_conn **out, aw__fd rest) {
    aw__fd *f = aw__alloc(allocator_of(rest.owner), sizeof *f);
    if (!f) return -ENOMEM;
    *f = rest;
    f->conn.type = &aw__fd_type;
    f->refs = 1;
    f->ready = AW__BOTH;
    *out = &f->conn;
    return 0;
}

static int make_of(aw_conn **out, int fd, bool borrowed) {
    int protocol;
    socklen_t size = sizeof protocol;
    bool socket = getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0;
    return make(out, (aw__fd){.fd = fd,
                              .socket = socket,
                              .drains = socket && protocol == IPPROTO_TCP,
                              .borrowed = borrowed,
                              .owner = (uintptr_t)aw__allocator_for(NULL)});
}

int aw__fd_new(aw_conn **out, int fd) {
    return make_of(out, fd, false);
}

int aw__fd_new_accepted(aw_conn **out, int fd, const aw__fd *listener, aw__fd_end *end) {
    uintptr_t owner = end ? (uintptr_t)end + 1 : (uintptr_t)aw__allocator_for(NULL);
    return make(out,
                (aw__fd){.fd = fd, .socket = true, .drains = listener->drains, .owner = owner});
}

int aw_conn_borrow(aw_conn **out, int fd) {
    return fcntl(fd, F_GETFD) < 0 ? -errno : make_of(out, fd, true);
}

int aw_conn_of_fd(aw_conn **out, int fd) {
    int flags = fcntl(fd, F_GETFL), more = fcntl(fd, F_GETFD);
    if (flags < 0 || more < 0) return -errno;
    aw_conn *c;
    int error = aw__fd_new(&c, fd);
    if (error) return error;
    if ((!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK)) ||
        (!(more & FD_CLOEXEC) && fcntl(fd, F_SETFD, more | FD_CLOEXEC))) {
        error = -errno;
        aw__fd *f = (aw__fd *)c;
        aw__release(allocator_of(f->owner), f, sizeof *f); /* the number is the caller's */
        return error;
    }
    *out = c;
    return 0;
}

int aw_conn_fd(const aw_conn *c) {
    return c && c->type == &aw__fd_type ? ((const aw__fd *)c)->fd : -EBADF;
}

static void fd_keep(aw_conn *c) {
    aw__fd_keep((aw__fd *)c);
}

void aw__fd_let_go(aw__fd *f) {
    if (aw__fetch_sub(&f->refs, 1u) != 1) return;
    if (f->driver) aw__driver_remove(f->driver, f->fd, f->index);
    if (!f->borrowed) close(f->fd);
    aw__fd_end *end = f->owner & 1 ? (aw__fd_end *)(f->owner - 1) : NULL;
    aw__release(allocator_of(f->owner), f, sizeof *f);
    if (end) end->gone(end);
}

/* ---- Who waits -------------------------------------------------------------------------------- */

/* The first of these that is not in the system's hands. */
static aw_io *first_of(aw__fd *f, uint32_t directions) {
    aw_io *op = (aw_io *)f->waiters;
    while (op && (op->driver || !(aw__io_direction(op) & directions)))
        op = (aw_io *)op->next;
    return op;
}

/* With the lock; without it afterwards. */
static void end_waits_and_unlock(aw__fd *f, uint32_t directions, int out) {
    aw__wakes wakes = {.count = 0};
    for (aw_io *op; (op = first_of(f, directions));) {
        if (aw__wakes_full(&wakes)) {
            aw__unlock(&f->lock);
            aw__wakes_run(&wakes);
            aw__lock(&f->lock);
            continue;
        }
        /* Guests of a runtime that ends wait at home. */
        bool goes_on = out == -ESHUTDOWN && op->has & AW__IO_GUEST;
        aw__fd_unlink(f, op);
        aw__waiter_tell((aw__waiter *)op, goes_on ? AW__IO_AGAIN : out, &wakes);
    }
    aw__unlock(&f->lock);
    aw__wakes_run(&wakes);
}

static void note_ready(aw__fd *f, uint32_t directions) {
    uint32_t ready = aw__load_relaxed(&f->ready);
    while (!aw__cas(&f->ready, &ready, (ready | directions) + TICK))
        ;
}

void aw__fd_ready(aw__fd *f, uint32_t directions) {
    note_ready(f, directions);
    aw__lock(&f->lock);
    end_waits_and_unlock(f, directions, AW__IO_AGAIN);
}

/* After a shutdown: who waits to write tries again, and fails. A full Unix socket is not writable then; its waiters are woken
 * once, which the system misses for one that it is about to let wait. */
static void end_writes(aw__fd *f) {
    note_ready(f, AW__WRITABLE | AW__SHUT);
    aw__lock(&f->lock);
    aw__fd_ask_back(f, AW__WRITABLE);
    end_waits_and_unlock(f, AW__WRITABLE, AW__IO_AGAIN);
}

/* With the lock. Nobody tells any more: who comes next tries by himself, and is told elsewhere. */
static void unregister(aw__fd *f) {
    aw__driver *d = f->driver;
    aw__store_relaxed(&f->driver, (aw__driver *)NULL);
    if (d) aw__driver_remove(d, f->fd, f->index);
    aw__fetch_or(&f->ready, AW__BOTH);
}

void aw__fd_orphan(aw__fd *f) {
    aw__lock(&f->lock);
    unregister(f);
    end_waits_and_unlock(f, AW__BOTH, -ESHUTDOWN);
}

static void fd_close(aw_conn *c) {
    aw__fd *f = (aw__fd *)c;
    aw__lock(&f->lock);
    if (!f->error) aw__store_relaxed(&f->error, -EBADF);
    unregister(f);
    aw__fd_ask_back(f, AW__BOTH);
    end_waits_and_unlock(f, AW__BOTH, -EBADF);
    aw__fd_let_go(f);
}

static void fd_drop(aw_conn *c) {
    aw__fd_let_go((aw__fd *)c);
}

/* ---- Operations ------------------------------------------------------------------------------- */

/* Which bits let an operation try. */
static uint32_t tries_at(uint32_t direction) {
    return direction == AW__READABLE ? AW__READABLE | AW__MORE : direction;
}

/* Its result; or AW__IO_AGAIN, and the bit is clear at the tick that was seen. */
static int attempt(aw_io *op, uint32_t direction) {
    aw__fd *f = (aw__fd *)op->conn;
    uint32_t bits = tries_at(direction);
    for (;;) {
        uint32_t seen = aw__load_acquire(&f->ready);
        int error = aw__load_relaxed(&f->error);
        if (error) return error;
        if (!(seen & bits) && op->wants != AW_IO_SHUTDOWN) return AW__IO_AGAIN;
        int n = aw__io_call(op);
        if (n == -EINTR) continue;
        bool drained = f->drains && op->wants == AW_IO_READ && n > 0 && (size_t)n < op->size;
        if (n == AW__IO_AGAIN || drained)
            aw__cas(&f->ready, &seen, seen & ~(drained ? direction : bits));
        if (n != AW__IO_AGAIN) return n; /* otherwise, if something came, try again */
    }
}

/* It is registered with another runtime. */
static bool is_elsewhere(const aw__fd *f, const aw_cx *cx) {
    const aw_runtime *rt = aw_cx_runtime(cx);
    return rt && f->driver->runtime != rt;
}

/* Under the lock: wait, or say why not; AW__IO_AGAIN: something came. */
static int link_or_tell(aw_io *op, uint32_t direction, aw__driver *here, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (f->error) return f->error;
    if (aw__load_acquire(&f->ready) & tries_at(direction)) return AW__IO_AGAIN;
    /* Nobody waits for it there, and maybe nobody runs that one. */
    if (f->driver && is_elsewhere(f, cx) && !first_of(f, AW__BOTH)) {
        unregister(f);
        return AW__IO_AGAIN;
    }
    if (!f->driver && !here) return AW__IO_AGAIN; /* it had one until now, of a runtime that ends */
    if (!f->driver) {
        int error = aw__driver_add(here, f, f->fd, &f->index);
        if (error) return error;
        aw__store_release(&f->driver, here);
    }
    if (f->driver->type->want) f->driver->type->want(f->driver, f->index, direction);
    aw__fd_link(f, op);
    op->has &= ~(uint32_t)AW__IO_GUEST;
    if (is_elsewhere(f, cx)) op->has |= AW__IO_GUEST;
    op->waker = *cx->waker;
    op->future.state = AW__WAITING;
    return AW__IO_WAITS;
}

static aw_poll finish(aw_io *op, int out, aw_cx *cx) {
    op->out = out;
    aw__fd_let_go((aw__fd *)op->conn);
    aw_cx_spend(cx);
    return AW_READY;
}

/* It was waiting. False: it still is. */
static bool resume(aw_io *op, uint32_t state, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    bool waits = false;
    /* Over, and the lock is free: then who ended it has let go of it, for he had it when he wrote the state. */
    if (state == AW__WAITING || aw__load_acquire(&f->lock)) {
        aw__lock(&f->lock);
        waits = op->future.state == AW__WAITING;
        if (waits) op->waker = *cx->waker;
        aw__unlock(&f->lock);
    }
    if (waits) {
        aw_cx_arm(cx);
        return false;
    }
    aw__wait_disarm((aw__waiter *)op, cx);
    op->future.state = AW__WAIT_FRESH;
    return true;
}

/* Its result, AW__IO_AGAIN, or AW__IO_WAITS. */
static int try_or_wait(aw_io *op, uint32_t direction, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    aw__driver *here = NULL;
    int n = attempt(op, direction);
    if (n != AW__IO_AGAIN) return n;
    n = aw__load_acquire(&f->driver) ? 0 : aw__driver_here(cx, &here);
    if (n == 0) {
        aw__lock(&f->lock);
        n = link_or_tell(op, direction, here, cx);
        aw__unlock(&f->lock);
    }
    if (n != AW__IO_WAITS && n != AW__IO_AGAIN)
        aw__fetch_or(&f->ready, direction); /* nobody will tell: the next one tries again */
    return n;
}

static bool is_shut(const aw__fd *f) {
    return aw__load_acquire(&f->ready) & AW__SHUT && !aw__load_relaxed(&f->error);
}

/* The same, or AW__IO_LATER. */
static int go_on(aw_io *op, uint32_t direction, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (op->wants == AW_IO_WRITABLE && is_shut(f)) return 0;
    if (!aw__load_acquire(&f->driver) && aw__completes_here(cx)) return aw__io_give(op, cx);
    return try_or_wait(op, direction, cx);
}

static aw_poll fd_poll(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    uint32_t direction = aw__io_direction(op), state = aw__load_acquire(&op->future.state);
    if (state == AW__WAITING && aw_waker_will_wake(&op->waker, cx->waker)) return AW_PENDING;
    if (state != AW__WAITING && aw__wait_exhausted(state, &f->lock, cx)) return AW_PENDING;
    if (state == AW__WAIT_FRESH && !(op->has & AW__IO_HELD)) {
        aw__fd_keep(f);
        op->has |= AW__IO_HELD;
    }
    if (state != AW__WAIT_FRESH && !resume(op, state, cx)) return AW_PENDING;
    int n = op->driver ? aw__io_take(op) : state == AW__WAIT_FRESH ? AW__IO_AGAIN : op->out;
    while (n == AW__IO_AGAIN)
        n = go_on(op, direction, cx);
    if (n == AW__IO_LATER) return AW_PENDING;
    if (n == 0 && op->wants == AW_IO_SHUTDOWN) end_writes(f);
    if (n != AW__IO_WAITS) return finish(op, n, cx);
    aw_cx_arm(cx);
    return AW_PENDING;
}

/* Nothing was read or written while it waited. */
static aw_poll fd_cancel(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (!aw__wait_began((aw__waiter *)op) && !(op->has & AW__IO_HELD)) return AW_CANCELLED;
    if (aw__io_is_given(op)) return aw__io_take_back(op, cx);
    if (aw__wait_began((aw__waiter *)op)) {
        aw__lock(&f->lock);
        if (op->future.state == AW__WAITING) aw__fd_unlink(f, op);
        aw__unlock(&f->lock);
        aw__wait_disarm((aw__waiter *)op, cx);
    }
    aw__fd_let_go(f);
    return AW_CANCELLED;
}

const aw_conn_type aw__fd_type = {
    .self_size = sizeof(aw_conn_type),
    .name = "fd",
    .poll = fd_poll,
    .cancel = fd_cancel,
    .close = fd_close,
    .keep = fd_keep,
    .drop = fd_drop,
};
