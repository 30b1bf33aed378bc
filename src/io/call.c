/* SPDX-License-Identifier: MIT
 *
 * The system calls of operations, which do not block, and never raise a signal. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/fd.h"
#include "io/quiet.h"

enum { MOST = 0x7ffff000, MOST_PARTS = 1024 }; /* bytes and parts that Linux moves at a time */

/* They are refused in different ways, by kind and by who does the call. */
bool aw__io_has_too_many_parts(const aw_io *op) {
    return (op->wants == AW_IO_READV || op->wants == AW_IO_WRITEV) && op->size > MOST_PARTS;
}

static size_t at_most(size_t size) {
    return size < MOST ? size : MOST;
}

static ssize_t write_quietly(aw_io *op, int fd) {
    aw__quiet quiet;
    aw__quiet_begin(&quiet);
    ssize_t n = op->wants == AW_IO_WRITE ? write(fd, op->data, at_most(op->size))
                                         : writev(fd, op->data, (int)op->size);
    aw__quiet_end(&quiet, n < 0 ? errno : 0);
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
        op->has |= AW__IO_CONNECTING;
        return AW__IO_AGAIN;
    }
    if (n < 0 && errno == EISCONN && op->has & AW__IO_CONNECTING) return 0;
    return n < 0
               ? -errno
               : 0; /* -EAGAIN: too many wait to be accepted, and nobody tells when they are fewer */
}

static int look(int fd, short events) {
    struct pollfd p = {fd, events, 0};
    int n = poll(&p, 1, 0);
    return n < 0 ? -errno : n == 0 ? AW__IO_AGAIN : p.revents & POLLNVAL ? -EBADF : 0;
}

static ssize_t transfer(aw_io *op, const aw__fd *f) {
    switch (op->wants) {
    case AW_IO_READ:
        /* One of nothing would wait, or take a datagram. */
        if (f->socket && op->size) return recv(f->fd, op->data, at_most(op->size), 0);
        return read(f->fd, op->data, at_most(op->size));
    case AW_IO_READV: return readv(f->fd, op->data, (int)op->size);
    case AW_IO_RECVMSG: return recvmsg(f->fd, op->data, (int)op->size | MSG_CMSG_CLOEXEC);
    case AW_IO_SENDMSG: return sendmsg(f->fd, op->data, (int)op->size | MSG_NOSIGNAL);
    case AW_IO_ACCEPT: return accept4(f->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    default: return f->socket ? write_to_socket(op, f->fd) : write_quietly(op, f->fd);
    }
}

int aw__io_call(aw_io *op) {
    const aw__fd *f = (const aw__fd *)op->conn;
    if (op->wants == AW_IO_READABLE) return look(f->fd, POLLIN | POLLRDHUP | POLLPRI);
    if (op->wants == AW_IO_WRITABLE) return look(f->fd, POLLOUT);
    if (f->borrowed) return -EOPNOTSUPP; /* it may block */
    if (aw__io_has_too_many_parts(op)) return -EINVAL;
    if (op->wants == AW_IO_SHUTDOWN) return shutdown(f->fd, SHUT_WR) ? -errno : 0;
    if (op->wants == AW_IO_CONNECT) return connect_on(op, f->fd);
    ssize_t n = transfer(op, f);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? AW__IO_AGAIN : -errno;
    return (int)n;
}
