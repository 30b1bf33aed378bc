/* SPDX-License-Identifier: MIT
 *
 * Sending and receiving datagrams.
 *
 * One to a Unix address may find the other's queue full. The system then says that this socket could be written, and tells
 * nobody when there is room over there (it does for a socket with a peer). So these are sent by a call of their
 * own, and tried again after a while. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include <awake/udp.h>

#include "io/fd.h"
#include "net/socket.h"

enum { FRESH, IO, TRYING, NAPPING }; /* state */
static const uint64_t SHORTEST = AW_MSEC(1), LONGEST = AW_MSEC(100);

static aw_poll ready(aw_datagram *d, int out) {
    d->out = out;
    return AW_READY;
}

/* It stays where it is from now on: the message may point into it. */
static void prepare(aw_datagram *d) {
    d->message = (struct msghdr){.msg_iov = &d->part, .msg_iovlen = 1};
    d->io.data = &d->message;
    if (d->io.wants == AW_IO_SENDMSG && d->to.size) {
        d->message.msg_name = &d->to.u;
        d->message.msg_namelen = d->to.size;
    } else if (d->from) {
        d->message.msg_name = &d->to.u;
        d->message.msg_namelen = sizeof d->to.u;
    }
    d->future.state = IO;
    if (d->io.wants == AW_IO_SENDMSG && aw_addr_family(&d->to) == AF_UNIX &&
        aw_conn_fd(d->io.conn) >= 0) {
        aw_conn_keep(d->io.conn);
        d->future.state = TRYING;
    }
}

/* ---- By a call of one's own ------------------------------------------------------------------- */

static int try_to_send(const aw_datagram *d) {
    const aw__fd *f = (const aw__fd *)d->io.conn;
    int error = aw__load_relaxed(&f->error);
    if (error) return error;
    for (;;) {
        ssize_t n = sendmsg(f->fd, &d->message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) return (int)n;
        if (errno != EINTR) return -errno;
    }
}

static aw_poll sent(aw_datagram *d, int out) {
    aw_conn_drop(d->io.conn);
    return ready(d, out);
}

static aw_poll poll_trying(aw_datagram *d, aw_cx *cx) {
    for (;;) {
        if (d->future.state == NAPPING) {
            if (aw_future_poll(&d->nap.future, cx) == AW_PENDING) return AW_PENDING;
            if (d->nap.out < 0) return sent(d, d->nap.out);
            d->future.state = TRYING;
        }
        if (!aw_cx_spend(cx)) return AW_PENDING;
        int n = try_to_send(d);
        if (n != -EAGAIN) return sent(d, n);
        d->pause = aw__longer(d->pause, SHORTEST, LONGEST);
        d->nap = aw_sleep_for(d->pause);
        d->future.state = NAPPING;
    }
}

/* ---- By the connection ------------------------------------------------------------------------ */

static aw_poll finish(aw_datagram *d) {
    int n = d->io.out;
    if (n >= 0 && d->io.wants == AW_IO_RECVMSG) {
        const struct sockaddr *name = d->message.msg_name;
        if (d->truncated) *d->truncated = d->message.msg_flags & MSG_TRUNC;
        if (d->from && aw_addr_of_sockaddr(d->from, name, d->message.msg_namelen))
            *d->from = (aw_addr){0}; /* a sender without an address */
    }
    return ready(d, n);
}

static aw_poll datagram_poll(aw_future *self, aw_cx *cx) {
    aw_datagram *d = (aw_datagram *)self;
    if (self->state == FRESH) prepare(d);
    if (self->state != IO) return poll_trying(d, cx);
    return aw_future_poll(&d->io.future, cx) == AW_READY ? finish(d) : AW_PENDING;
}

static aw_poll datagram_cancel(aw_future *self, aw_cx *cx) {
    aw_datagram *d = (aw_datagram *)self;
    if (self->state == FRESH) return AW_CANCELLED;
    if (self->state == IO) {
        aw_poll r = aw_future_cancel(&d->io.future, cx);
        return r == AW_READY ? finish(d) : r;
    }
    if (self->state == NAPPING) aw_future_cancel(&d->nap.future, cx); /* gone at once */
    aw_conn_drop(d->io.conn);
    return AW_CANCELLED;
}

static const aw_future *datagram_child(const aw_future *self, size_t i) {
    const aw_datagram *d = (const aw_datagram *)self;
    if (i > 0 || self->state == FRESH || self->state == TRYING) return NULL;
    return self->state == IO ? &d->io.future : &d->nap.future;
}

const aw_future_type aw_datagram_type = {
    AW_TYPE_OF(aw_datagram, "datagram"), .flags = AW_OUT_ERRNO,   .poll = datagram_poll,
    .cancel = datagram_cancel,           .child = datagram_child,
};

static aw_datagram make(aw_conn *c, uint32_t what, const void *buf, size_t size) {
    return (aw_datagram){.future = AW_FUTURE_INIT(&aw_datagram_type),
                         .part = {(void *)(uintptr_t)buf, size},
                         .io = aw__io(c, what, NULL, 0)};
}

aw_datagram aw_recv_from(aw_conn *c, void *buf, size_t size, aw_addr *from, bool *truncated) {
    aw_datagram d = make(c, AW_IO_RECVMSG, buf, size);
    d.from = from;
    d.truncated = truncated;
    return d;
}

aw_datagram aw_send_to(aw_conn *c, const void *buf, size_t size, const aw_addr *to) {
    aw_datagram d = make(c, AW_IO_SENDMSG, buf, size);
    if (to) d.to = *to;
    return d;
}
