/* SPDX-License-Identifier: MIT
 *
 * Connect to one address. */
#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <awake/net.h>

#include "base/backoff.h"
#include "net/socket.h"

static const uint64_t CONNECT_PAUSE_MIN = AW_MSEC(1), CONNECT_PAUSE_MAX = AW_MSEC(100);

static int connect_open(aw_connect_future *self) {
    int family = aw_addr_family(&self->addr);
    if (!self->conn || family == AF_UNSPEC) return -EINVAL;
    if (self->kind == SOCK_SEQPACKET && family != AF_UNIX) return -EINVAL;
    int fd = aw__socket(family, self->kind);
    if (fd < 0) return fd;
    int error = family == AF_UNIX ? 0 : aw__socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (!error) error = aw__socket_conn(&self->fresh, fd);
    if (error) close(fd);
    return error;
}

static aw_io connect_io(aw_connect_future *self) {
    return aw__io(self->fresh, AW_IO_CONNECT, &self->addr.u, self->addr.size);
}

/* The queue of a Unix listener is full. The kernel does not report when it has space again: retry
 * after `pause`. */
static bool connect_queue_full(aw_connect_future *self, int error) {
    if (error != -EAGAIN || aw_addr_family(&self->addr) != AF_UNIX) return false;
    self->pause = aw__backoff_next(self->pause, CONNECT_PAUSE_MIN, CONNECT_PAUSE_MAX);
    return true;
}

static void connect_discard(aw_future *f) {
    aw_connect_future *self = (aw_connect_future *)f;
    if (self->out == 0) aw_close(*self->conn);
}

AW_ASYNC_DEF(aw_connect_future, .discard = connect_discard) {
    AW_BEGIN;
    self->out = connect_open(self);
    if (self->out < 0) AW_RETURN(self->out);
    AW_AWAIT(self->io, connect_io(self));
    while (connect_queue_full(self, self->io.out)) {
        AW_AWAIT(self->nap, aw_sleep_for(self->pause));
        if (self->nap.out < 0) AW_RETURN(self->nap.out);
        AW_AWAIT(self->io, connect_io(self));
    }
    if (self->io.out < 0) AW_RETURN(self->io.out);
    *self->conn = self->fresh;
    self->fresh = NULL;
    AW_RETURN(0);
    AW_FINALLY;
    aw_close(self->fresh);
    AW_END;
}

static aw_connect_future connect_make(aw_conn **conn, const aw_addr *addr, int kind) {
    aw_connect_future f = AW_CALL(aw_connect_future, .conn = conn, .kind = kind);
    if (addr) f.addr = *addr;
    return f;
}

aw_connect_future aw_connect(aw_conn **conn, const aw_addr *addr) {
    return connect_make(conn, addr, SOCK_STREAM);
}

aw_connect_future aw_connect_seqpacket(aw_conn **conn, const aw_addr *addr) {
    return connect_make(conn, addr, SOCK_SEQPACKET);
}
