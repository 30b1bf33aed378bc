/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/allocate.h"
#include "context/context.h"
#include "future/waiters.h"
#include "io/driver_for_thread.h"
#include "io/nonblock.h"

enum { TICK = 16 }; /* each event adds it to `ready`, above the bits */

/* ---- Life ------------------------------------------------------------------------------------ */

static const aw_allocator *fd_allocator(uintptr_t owner) {
    return owner & 1 ? ((aw__fd_close_hook *)(owner - 1))->allocator : (const aw_allocator *)owner;
}

typedef struct nonblock_fd {
    aw__fd fd;
    aw__nonblock nonblock;
} nonblock_fd;

static size_t fd_size(const aw__fd *f) {
    return f->restores_nonblock ? sizeof(nonblock_fd) : sizeof *f;
}

static void fd_free(aw__fd *f) {
    aw__free(fd_allocator(f->owner), f, fd_size(f));
}

/* `init`: the members that are not 0. */
static int fd_make(aw_conn **out, aw__fd init) {
    aw__fd *f = aw__alloc(fd_allocator(init.owner), fd_size(&init));
    if (!f) return -ENOMEM;
    *f = init;
    f->conn.type = &aw__fd_type;
    f->refs = 1;
    f->ready = AW__BOTH;
    *out = &f->conn;
    return 0;
}

static aw__fd fd_inspect(int fd) {
    int protocol;
    socklen_t size = sizeof protocol;
    bool socket = getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0;
    return (aw__fd){.fd = fd,
                    .socket = socket,
                    .tcp = socket && protocol == IPPROTO_TCP,
                    .owner = (uintptr_t)aw__allocator_for(NULL)};
}

int aw__fd_new(aw_conn **out, int fd) {
    return fd_make(out, fd_inspect(fd));
}

int aw__fd_new_accepted(aw_conn **out, int fd, const aw__fd *listener, aw__fd_close_hook *hook) {
    uintptr_t owner = hook ? (uintptr_t)hook + 1 : (uintptr_t)aw__allocator_for(NULL);
    return fd_make(out, (aw__fd){.fd = fd, .socket = true, .tcp = listener->tcp, .owner = owner});
}

int aw_conn_borrow(aw_conn **out, int fd) {
    if (fcntl(fd, F_GETFD) < 0) return -errno;
    aw__fd f = fd_inspect(fd);
    f.borrowed = true;
    return fd_make(out, f);
}

static int set_cloexec(int fd) {
    int flags = fcntl(fd, F_GETFD);
    if (flags < 0) return -errno;
    return !(flags & FD_CLOEXEC) && fcntl(fd, F_SETFD, flags | FD_CLOEXEC) ? -errno : 0;
}

static int set_nonblock(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) return -errno;
    return !(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

int aw_conn_of_fd(aw_conn **out, int fd) {
    aw__fd f = fd_inspect(fd);
    aw_conn *c;
    f.restores_nonblock = !f.socket;
    int error = fd_make(&c, f);
    if (error) return error;
    aw__nonblock *n = f.restores_nonblock ? &((nonblock_fd *)c)->nonblock : NULL;
    error = n ? aw__nonblock_begin(n, fd) : set_nonblock(fd);
    if (!error) {
        error = set_cloexec(fd);
        if (error && n) aw__nonblock_end(n);
    }
    if (error)
        fd_free((aw__fd *)c); /* the number stays the caller's */
    else
        *out = c;
    return error;
}

int aw_conn_fd(const aw_conn *c) {
    return c && c->type == &aw__fd_type ? ((const aw__fd *)c)->fd : -EBADF;
}

static void fd_keep(aw_conn *c) {
    aw__fd_ref((aw__fd *)c);
}

void aw__fd_unref(aw__fd *f) {
    if (aw__fetch_sub(&f->refs, 1u) != 1) return;
    if (f->driver) aw__driver_remove(f->driver, f->fd, f->index);
    if (f->restores_nonblock) aw__nonblock_end(&((nonblock_fd *)f)->nonblock);
    if (!f->borrowed) close(f->fd);
    aw__fd_close_hook *hook = f->owner & 1 ? (aw__fd_close_hook *)(f->owner - 1) : NULL;
    fd_free(f);
    if (hook) hook->closed(hook);
}

/* ---- Waiters --------------------------------------------------------------------------------- */

/* The first waiter of these directions that is not submitted to the kernel. */
static aw_io *fd_first_waiter(aw__fd *f, uint32_t directions) {
    aw_io *op = (aw_io *)f->waiters;
    while (op && (op->driver || !(aw__io_direction(op) & directions)))
        op = (aw_io *)op->next;
    return op;
}

/* Called with the lock held; returns with it released. */
static void complete_waits_and_unlock(aw__fd *f, uint32_t directions, int out) {
    aw__wakes wakes = {.count = 0};
    for (aw_io *op; (op = fd_first_waiter(f, directions));) {
        if (aw__wakes_full(&wakes)) {
            aw__unlock(&f->lock);
            aw__wakes_run(&wakes);
            aw__lock(&f->lock);
            continue;
        }
        /* A waiter from another runtime retries on its own driver when this one shuts down. */
        bool retries = out == -ESHUTDOWN && op->flags & AW__IO_FOREIGN;
        aw__fd_unlink(f, op);
        aw__waiter_complete((aw__waiter *)op, retries ? AW__IO_AGAIN : out, &wakes);
    }
    aw__unlock(&f->lock);
    aw__wakes_run(&wakes);
}

static void set_ready(aw__fd *f, uint32_t directions) {
    uint32_t ready = aw__load_relaxed(&f->ready);
    while (!aw__cas(&f->ready, &ready, (ready | directions) + TICK))
        ;
}

void aw__fd_ready(aw__fd *f, uint32_t directions) {
    set_ready(f, directions);
    aw__lock(&f->lock);
    complete_waits_and_unlock(f, directions, AW__IO_AGAIN);
}

/* After a shutdown, waiting writes retry, and fail. A full Unix socket is not writable then; the
 * kernel wakes its waiters only once. An operation that it is just about to let wait misses that:
 * so it is cancelled here. */
static void retry_writes(aw__fd *f) {
    set_ready(f, AW__WRITABLE | AW__SHUT);
    aw__lock(&f->lock);
    aw__fd_cancel_ops(f, AW__WRITABLE);
    complete_waits_and_unlock(f, AW__WRITABLE, AW__IO_AGAIN);
}

/* Under the lock. No driver reports events any more: the next operation tries by itself, and
 * registers elsewhere. */
static void unregister(aw__fd *f) {
    aw__driver *d = f->driver;
    aw__store_relaxed(&f->driver, (aw__driver *)NULL);
    if (d) aw__driver_remove(d, f->fd, f->index);
    aw__fetch_or(&f->ready, AW__BOTH);
}

void aw__fd_driver_gone(aw__fd *f, const aw__driver *d) {
    aw__lock(&f->lock);
    if (f->driver != d) { /* it has been registered with another driver meanwhile */
        aw__unlock(&f->lock);
        return;
    }
    unregister(f);
    complete_waits_and_unlock(f, AW__BOTH, -ESHUTDOWN);
}

static void fd_close(aw_conn *c) {
    aw__fd *f = (aw__fd *)c;
    aw__lock(&f->lock);
    if (!f->error) aw__store_relaxed(&f->error, -EBADF);
    unregister(f);
    aw__fd_cancel_ops(f, AW__BOTH);
    complete_waits_and_unlock(f, AW__BOTH, -EBADF);
    aw__fd_unref(f);
}

static void fd_drop(aw_conn *c) {
    aw__fd_unref((aw__fd *)c);
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* The bits that let an operation try. */
static uint32_t ready_bits_of(uint32_t direction) {
    return direction == AW__READABLE ? AW__READABLE | AW__MORE : direction;
}

/* The last look of a timeout makes the call though no event has come. For a write only if poll
 * reports the socket as writable: a full socket takes a few bytes before that, so the timeout would
 * not end writes to a peer that does not read. */
static bool attempts_unready(const aw__fd *f, uint32_t direction) {
    return aw__context.last_look &&
           (direction == AW__READABLE || aw__io_poll_now(f->fd, POLLOUT) != AW__IO_AGAIN);
}

/* Its result; or AW__IO_AGAIN, and the bits are clear as of the tick that was read. */
static int fd_attempt(aw_io *op, uint32_t direction) {
    aw__fd *f = (aw__fd *)op->conn;
    uint32_t bits = ready_bits_of(direction);
    bool try_anyway = op->wants == AW_IO_SHUTDOWN || attempts_unready(f, direction);
    for (;;) {
        uint32_t seen = aw__load_acquire(&f->ready);
        int error = aw__load_relaxed(&f->error);
        if (error) return error;
        if (!(seen & bits) && !try_anyway) return AW__IO_AGAIN;
        int n = aw__io_syscall(op);
        if (n == -EINTR) continue;
        try_anyway = false;
        bool drained = f->tcp && op->wants == AW_IO_READ && n > 0 && (size_t)n < op->size;
        if (n == AW__IO_AGAIN || drained)
            aw__cas(&f->ready, &seen, seen & ~(drained ? direction : bits));
        if (n != AW__IO_AGAIN) return n; /* otherwise, if an event came, try again */
    }
}

/* Whether it is registered with another runtime. */
static bool is_registered_elsewhere(const aw__fd *f, const aw_cx *cx) {
    const aw_runtime *rt = aw_cx_runtime(cx);
    return rt && f->driver->runtime != rt;
}

/* Under the lock: wait, or return why not; AW__IO_AGAIN: an event came. */
static int register_and_link(aw_io *op, uint32_t direction, aw__driver *thread_driver, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (f->error) return f->error;
    if (aw__load_acquire(&f->ready) & ready_bits_of(direction)) return AW__IO_AGAIN;
    /* No operation waits there, and maybe no thread runs that runtime: move. */
    if (f->driver && is_registered_elsewhere(f, cx) && !fd_first_waiter(f, AW__BOTH)) {
        unregister(f);
        return AW__IO_AGAIN;
    }
    /* It had a driver until now, of a runtime that shuts down. */
    if (!f->driver && !thread_driver) return AW__IO_AGAIN;
    if (!f->driver) {
        int error = aw__driver_add(thread_driver, f, f->fd, &f->index);
        if (error) return error;
        aw__store_release(&f->driver, thread_driver);
    }
    if (f->driver->type->want) f->driver->type->want(f->driver, f->index, direction);
    aw__fd_link(f, op);
    op->flags &= ~(uint32_t)AW__IO_FOREIGN;
    if (is_registered_elsewhere(f, cx)) op->flags |= AW__IO_FOREIGN;
    op->waker = *cx->waker;
    op->future.state = AW__WAITING;
    return AW__IO_PENDING;
}

static aw_poll fd_finish(aw_io *op, int out, aw_cx *cx) {
    op->out = out;
    aw__fd_unref((aw__fd *)op->conn);
    aw_cx_spend(cx);
    return AW_READY;
}

/* A last look ends the wait, unless the operation is submitted: the cancel that follows returns its
 * result. */
static bool ends_wait_for_last_look(const aw_io *op) {
    return aw__context.last_look && !op->driver;
}

/* The operation was waiting. False: it still is. */
static bool fd_resume(aw_io *op, uint32_t state, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    bool pending = false;
    /* No need to lock if the operation is done and the lock is free: the completer stored the state
     * under the lock, and has released it. */
    if (state == AW__WAITING || aw__load_acquire(&f->lock)) {
        aw__lock(&f->lock);
        pending = op->future.state == AW__WAITING;
        if (pending && ends_wait_for_last_look(op)) {
            aw__fd_unlink(f, op);
            op->out = AW__IO_AGAIN;
            pending = false;
        }
        if (pending) op->waker = *cx->waker;
        aw__unlock(&f->lock);
    }
    if (pending) {
        aw_cx_arm(cx);
        return false;
    }
    aw__wait_disarm((aw__waiter *)op, cx);
    op->future.state = AW__WAIT_FRESH;
    return true;
}

/* Its result, AW__IO_AGAIN, or AW__IO_PENDING. */
static int try_or_wait(aw_io *op, uint32_t direction, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    aw__driver *thread_driver = NULL;
    int n = fd_attempt(op, direction);
    if (n != AW__IO_AGAIN) return n;
    n = aw__load_acquire(&f->driver) ? 0 : aw__driver_for_thread(cx, &thread_driver);
    if (n == 0) {
        aw__lock(&f->lock);
        n = register_and_link(op, direction, thread_driver, cx);
        aw__unlock(&f->lock);
    }
    if (n != AW__IO_PENDING && n != AW__IO_AGAIN)
        aw__fetch_or(&f->ready, direction); /* no event will come: the next operation tries again */
    return n;
}

static bool is_shut(const aw__fd *f) {
    return aw__load_acquire(&f->ready) & AW__SHUT && !aw__load_relaxed(&f->error);
}

/* The same, or AW__IO_YIELDED. */
static int submit_or_try(aw_io *op, uint32_t direction, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (op->wants == AW_IO_WRITABLE && is_shut(f)) return 0;
    if (!aw__load_acquire(&f->driver) && aw__thread_completes(cx)) return aw__io_submit(op, cx);
    return try_or_wait(op, direction, cx);
}

static aw_poll fd_poll(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    uint32_t direction = aw__io_direction(op), state = aw__load_acquire(&op->future.state);
    if (state == AW__WAITING && aw_waker_will_wake(&op->waker, cx->waker) &&
        !ends_wait_for_last_look(op))
        return AW_PENDING;
    if (state != AW__WAITING && aw__wait_exhausted(state, &f->lock, cx)) return AW_PENDING;
    if (state == AW__WAIT_FRESH && !(op->flags & AW__IO_REFERENCED)) {
        aw__fd_ref(f);
        op->flags |= AW__IO_REFERENCED;
    }
    if (state != AW__WAIT_FRESH && !fd_resume(op, state, cx)) return AW_PENDING;
    int n = op->driver ? aw__io_take_result(op) : state == AW__WAIT_FRESH ? AW__IO_AGAIN : op->out;
    while (n == AW__IO_AGAIN)
        n = submit_or_try(op, direction, cx);
    if (n == AW__IO_YIELDED) return AW_PENDING;
    if (n == 0 && op->wants == AW_IO_SHUTDOWN) retry_writes(f);
    if (n != AW__IO_PENDING) return fd_finish(op, n, cx);
    aw_cx_arm(cx);
    return AW_PENDING;
}

/* A cancelled wait has not read or written anything. */
static aw_poll fd_cancel(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (!aw__wait_began((aw__waiter *)op) && !(op->flags & AW__IO_REFERENCED)) return AW_CANCELLED;
    aw_poll answer;
    if (op->driver && aw__io_cancel_submitted(op, cx, &answer)) return answer;
    if (aw__wait_began((aw__waiter *)op)) {
        aw__lock(&f->lock);
        if (op->future.state == AW__WAITING) aw__fd_unlink(f, op);
        aw__unlock(&f->lock);
        aw__wait_disarm((aw__waiter *)op, cx);
    }
    aw__fd_unref(f);
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
