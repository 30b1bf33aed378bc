/* SPDX-License-Identifier: MIT
 *
 * System calls of operations. None of them blocks or raises a signal. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/fd.h"
#include "os/sigpipe.h"

/* The most bytes and parts that Linux transfers in one call. */
enum { MAX_RW_COUNT = 0x7ffff000, MAX_PARTS = 1024 };

/* Refused here, because the kernel's error depends on the kind of descriptor and of call. */
bool aw__io_has_too_many_parts(const aw_io *op) {
    return (op->wants == AW_IO_READV || op->wants == AW_IO_WRITEV) && op->size > MAX_PARTS;
}

static size_t rw_count(size_t size) {
    return size < MAX_RW_COUNT ? size : MAX_RW_COUNT;
}

static ssize_t write_without_sigpipe(aw_io *op, int fd) {
    aw__sigpipe_guard guard;
    aw__sigpipe_block(&guard);
    ssize_t n = op->wants == AW_IO_WRITE ? write(fd, op->data, rw_count(op->size))
                                         : writev(fd, op->data, (int)op->size);
    aw__sigpipe_restore(&guard, n < 0 ? errno : 0);
    return n;
}

static ssize_t write_to_socket(aw_io *op, int fd) {
    struct msghdr parts = {.msg_iov = op->data, .msg_iovlen = op->size};
    if (op->wants == AW_IO_WRITE) return send(fd, op->data, rw_count(op->size), MSG_NOSIGNAL);
    return sendmsg(fd, &parts, MSG_NOSIGNAL);
}

/* Called until the connect is decided. */
static int continue_connect(aw_io *op, int fd) {
    int n = connect(fd, op->data, (socklen_t)op->size);
    if (n < 0 && (errno == EINPROGRESS || errno == EALREADY)) {
        op->flags |= AW__IO_CONNECTING;
        return AW__IO_AGAIN;
    }
    if (n < 0 && errno == EISCONN && op->flags & AW__IO_CONNECTING) return 0;
    /* -EAGAIN: the backlog is full, and no event tells when there is space. */
    return n < 0 ? -errno : 0;
}

/* Whether any segment ever came from a peer. */
static bool was_connected(const aw__fd *f) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return f->tcp && !getsockopt(f->fd, IPPROTO_TCP, TCP_INFO, &info, &size) &&
           info.tcpi_segs_in > 0;
}

/* The kernel has no connection any more after a reset, or when both directions were shut down:
 * nothing is left to do. */
static int shut_down(const aw__fd *f) {
    if (!shutdown(f->fd, SHUT_WR)) return 0;
    int error = -errno;
    return error == -ENOTCONN && was_connected(f) ? 0 : error;
}

int aw__io_poll_now(int fd, short events) {
    struct pollfd p = {fd, events, 0};
    int n = poll(&p, 1, 0);
    return n < 0 ? -errno : n == 0 ? AW__IO_AGAIN : p.revents & POLLNVAL ? -EBADF : 0;
}

static ssize_t transfer(aw_io *op, const aw__fd *f) {
    switch (op->wants) {
    case AW_IO_READ:
        /* A recv of 0 bytes would wait, or consume a datagram. */
        if (f->socket && op->size) return recv(f->fd, op->data, rw_count(op->size), 0);
        return read(f->fd, op->data, rw_count(op->size));
    case AW_IO_READV: return readv(f->fd, op->data, (int)op->size);
    case AW_IO_RECVMSG: return recvmsg(f->fd, op->data, (int)op->size | MSG_CMSG_CLOEXEC);
    case AW_IO_SENDMSG: return sendmsg(f->fd, op->data, (int)op->size | MSG_NOSIGNAL);
    case AW_IO_ACCEPT: return accept4(f->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    default: return f->socket ? write_to_socket(op, f->fd) : write_without_sigpipe(op, f->fd);
    }
}

int aw__io_syscall(aw_io *op) {
    const aw__fd *f = (const aw__fd *)op->conn;
    if (op->wants == AW_IO_READABLE) return aw__io_poll_now(f->fd, POLLIN | POLLRDHUP | POLLPRI);
    if (op->wants == AW_IO_WRITABLE) return aw__io_poll_now(f->fd, POLLOUT);
    if (f->borrowed) return -EOPNOTSUPP; /* it may block */
    if (aw__io_has_too_many_parts(op)) return -EINVAL;
    if (op->wants == AW_IO_SHUTDOWN) return shut_down(f);
    if (op->wants == AW_IO_CONNECT) return continue_connect(op, f->fd);
    ssize_t n = transfer(op, f);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? AW__IO_AGAIN : -errno;
    return (int)n;
}
