/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "io/here.h"
#include "sync/waiters.h"

enum { HELD = 1, CONNECTING = 2 }; /* what an operation has */

enum { TICK = 4, WOULD_BLOCK = INT_MIN, MOST = 0x7ffff000 /* bytes that Linux moves at a time */ };

/* ---- Life ------------------------------------------------------------------------------------- */

static int make(aw_conn **out, int fd, bool borrowed) {
    const aw_allocator *a = aw__allocator_for(NULL);
    aw__fd *f = aw__alloc(a, sizeof *f);
    if (!f) return -ENOMEM;
    struct stat about;
    bool socket = fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode);
    *f = (aw__fd){.socket = socket,
                  .borrowed = borrowed,
                  .conn = {&aw__fd_type},
                  .refs = 1,
                  .ready = AW__BOTH,
                  .fd = fd,
                  .allocator = a};
    *out = &f->conn;
    return 0;
}

int aw__fd_new(aw_conn **out, int fd) {
    return make(out, fd, false);
}

int aw_conn_borrow(aw_conn **out, int fd) {
    return fcntl(fd, F_GETFD) < 0 ? -errno : make(out, fd, true);
}

int aw_conn_of_fd(aw_conn **out, int fd) {
    int flags = fcntl(fd, F_GETFL), more = fcntl(fd, F_GETFD);
    if (flags < 0 || more < 0) return -errno;
    if (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK)) return -errno;
    if (!(more & FD_CLOEXEC) && fcntl(fd, F_SETFD, more | FD_CLOEXEC)) return -errno;
    return aw__fd_new(out, fd);
}

int aw_conn_fd(const aw_conn *c) {
    return c->type == &aw__fd_type ? ((const aw__fd *)c)->fd : -EBADF;
}

static void fd_keep(aw_conn *c) {
    aw__fd_keep((aw__fd *)c);
}

void aw__fd_let_go(aw__fd *f) {
    if (aw__fetch_sub(&f->refs, 1u) != 1) return;
    if (f->driver) aw__driver_remove(f->driver, f->fd, f->index);
    if (!f->borrowed) close(f->fd);
    if (f->end) f->end->gone(f->end);
    aw__release(f->allocator, f, sizeof *f);
}

/* ---- Who waits -------------------------------------------------------------------------------- */

/* With the lock; without it afterwards. -EAGAIN: they are to try again. */
static void end_waits_and_unlock(aw__fd *f, uint32_t directions, int out) {
    aw__wakes wakes = {.count = 0};
    for (int i = 0; i < 2; i++)
        while (directions & (1u << i) && f->waiters[i].first) {
            if (aw__wakes_full(&wakes)) {
                aw__unlock(&f->lock);
                aw__wakes_run(&wakes);
                aw__lock(&f->lock);
                continue;
            }
            aw__waiter_end(&f->waiters[i], f->waiters[i].first, out, &wakes);
        }
    aw__unlock(&f->lock);
    aw__wakes_run(&wakes);
}

void aw__fd_ready(aw__fd *f, uint32_t directions) {
    uint32_t ready = aw__load_relaxed(&f->ready);
    while (!aw__cas(&f->ready, &ready, (ready | directions) + TICK))
        ;
    aw__lock(&f->lock);
    end_waits_and_unlock(f, directions, -EAGAIN);
}

static void give_up(aw__fd *f, int error) {
    aw__lock(&f->lock);
    aw__driver *d = f->driver;
    aw__store_relaxed(&f->driver, (aw__driver *)NULL);
    if (!f->error) aw__store_relaxed(&f->error, error);
    if (d) aw__driver_remove(d, f->fd, f->index);
    end_waits_and_unlock(f, AW__BOTH, f->error);
}

void aw__fd_orphan(aw__fd *f) {
    give_up(f, -ESHUTDOWN);
}

static void fd_close(aw_conn *c) {
    give_up((aw__fd *)c, -EBADF);
    aw__fd_let_go((aw__fd *)c);
}

static void fd_drop(aw_conn *c) {
    aw__fd_let_go((aw__fd *)c);
}

/* ---- Operations ------------------------------------------------------------------------------- */

static size_t at_most(size_t size) {
    return size < MOST ? size : MOST;
}

static uint32_t direction_of(const aw_io *op) {
    switch (op->wants) {
    case AW_IO_READ:
    case AW_IO_READV:
    case AW_IO_RECVMSG:
    case AW_IO_ACCEPT:
    case AW_IO_READABLE: return AW__READABLE;
    default: return AW__WRITABLE;
    }
}

/* Where the system would raise SIGPIPE the thread is asked not to listen; what came is taken away again. */
static ssize_t write_quietly(aw_io *op, int fd) {
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    sigpending(&pending);
    ssize_t n = op->wants == AW_IO_WRITE ? write(fd, op->data, at_most(op->size))
                                         : writev(fd, op->data, (int)op->size);
    int error = errno;
    static const struct timespec now;
    if (n < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return n;
}

static ssize_t write_to_socket(aw_io *op, int fd) {
    struct msghdr parts = {.msg_iov = op->data, .msg_iovlen = op->size};
    if (op->wants == AW_IO_WRITE) return send(fd, op->data, at_most(op->size), MSG_NOSIGNAL);
    return sendmsg(fd, &parts, MSG_NOSIGNAL);
}

/* Again and again, until it is decided. */
static int connect_on(aw_io *op, int fd) {
    int n = connect(fd, op->data, (socklen_t)op->size);
    if (n < 0 && (errno == EINPROGRESS || errno == EALREADY)) {
        op->has |= CONNECTING;
        return WOULD_BLOCK;
    }
    if (n < 0 && errno == EISCONN && op->has & CONNECTING) return 0;
    return n < 0
               ? -errno
               : 0; /* -EAGAIN: too many wait to be accepted, and nobody tells when they are fewer */
}

static int look(int fd, short events) {
    struct pollfd p = {fd, events, 0};
    int n = poll(&p, 1, 0);
    return n < 0 ? -errno : n == 0 ? WOULD_BLOCK : p.revents & POLLNVAL ? -EBADF : 0;
}

static ssize_t transfer(aw_io *op, const aw__fd *f) {
    switch (op->wants) {
    case AW_IO_READ: return read(f->fd, op->data, at_most(op->size));
    case AW_IO_READV: return readv(f->fd, op->data, (int)op->size);
    case AW_IO_RECVMSG: return recvmsg(f->fd, op->data, (int)op->size | MSG_CMSG_CLOEXEC);
    case AW_IO_SENDMSG: return sendmsg(f->fd, op->data, (int)op->size | MSG_NOSIGNAL);
    case AW_IO_ACCEPT: return accept4(f->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    default: return f->socket ? write_to_socket(op, f->fd) : write_quietly(op, f->fd);
    }
}

static int call(aw_io *op, const aw__fd *f) {
    if (op->wants == AW_IO_READABLE) return look(f->fd, POLLIN | POLLRDHUP | POLLPRI);
    if (op->wants == AW_IO_WRITABLE) return look(f->fd, POLLOUT);
    if (f->borrowed) return -EOPNOTSUPP; /* it may block */
    if (op->wants == AW_IO_SHUTDOWN) return shutdown(f->fd, SHUT_WR) ? -errno : 0;
    if (op->wants == AW_IO_CONNECT) return connect_on(op, f->fd);
    ssize_t n = transfer(op, f);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? WOULD_BLOCK : -errno;
    return (int)n;
}

/* Its result; or WOULD_BLOCK, and the bit is clear at the tick that was seen. */
static int attempt(aw_io *op, uint32_t direction) {
    aw__fd *f = (aw__fd *)op->conn;
    for (;;) {
        uint32_t seen = aw__load_acquire(&f->ready);
        int error = aw__load_relaxed(&f->error);
        if (error) return error;
        if (!(seen & direction)) return WOULD_BLOCK;
        int n = call(op, f);
        if (n == -EINTR) continue;
        if (n != WOULD_BLOCK) return n;
        aw__cas(&f->ready, &seen, seen & ~direction); /* otherwise something came: try again */
    }
}

/* Under the lock: wait (0), or say why not; 1: something came, try again. */
static int link_or_tell(aw_io *op, uint32_t direction, aw__driver *here, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (f->error) return f->error;
    if (aw__load_acquire(&f->ready) & direction) return 1;
    if (!f->driver) {
        int error = aw__driver_add(here, f, f->fd, &f->index);
        if (error) return error;
        aw__store_release(&f->driver, here);
    }
    if (f->driver->type->want) f->driver->type->want(f->driver, f->index, direction);
    aw__waiters_add(&f->waiters[direction == AW__WRITABLE], (aw__waiter *)op);
    op->waker = *cx->waker;
    op->future.state = AW__WAITING;
    return 0;
}

static aw_poll finish(aw_io *op, int out, aw_cx *cx) {
    op->out = out;
    aw__fd_let_go((aw__fd *)op->conn);
    aw_cx_spend(cx);
    return AW_READY;
}

/* It was waiting. False: it still is. */
static bool resume(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    aw__lock(&f->lock);
    bool waits = op->future.state == AW__WAITING;
    if (waits) op->waker = *cx->waker;
    aw__unlock(&f->lock);
    if (waits) {
        aw_cx_arm(cx);
        return false;
    }
    aw__wait_disarm((aw__waiter *)op, cx);
    op->future.state = AW__WAIT_FRESH;
    return true;
}

static aw_poll fd_poll(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    uint32_t direction = direction_of(op), state = aw__load_acquire(&op->future.state);
    if (state == AW__WAITING && aw_waker_will_wake(&op->waker, cx->waker)) return AW_PENDING;
    if (state != AW__WAITING && aw__wait_exhausted(state, &f->lock, cx)) return AW_PENDING;
    if (!(op->has & HELD)) aw__fd_keep(f);
    op->has |= HELD;
    if (state != AW__WAIT_FRESH && !resume(op, cx)) return AW_PENDING;
    for (;;) {
        aw__driver *here = NULL;
        int n = attempt(op, direction);
        if (n != WOULD_BLOCK) return finish(op, n, cx);
        n = aw__load_acquire(&f->driver) ? 0 : aw__driver_here(cx, &here);
        if (n == 0) {
            aw__lock(&f->lock);
            n = link_or_tell(op, direction, here, cx);
            aw__unlock(&f->lock);
        }
        if (n == 0) break;
        if (n > 0) continue;
        aw__fetch_or(&f->ready, direction); /* nobody will tell: the next one tries again */
        return finish(op, n, cx);
    }
    aw_cx_arm(cx);
    return AW_PENDING;
}

/* Nothing was read or written while it waited. */
static aw_poll fd_cancel(aw_io *op, aw_cx *cx) {
    aw__fd *f = (aw__fd *)op->conn;
    if (!(op->has & HELD)) return AW_CANCELLED;
    if (aw__wait_began((aw__waiter *)op)) {
        aw__lock(&f->lock);
        aw__wait_leave(&f->waiters[direction_of(op) == AW__WRITABLE], (aw__waiter *)op);
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
