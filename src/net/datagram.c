/* SPDX-License-Identifier: MIT
 *
 * Send and receive datagrams.
 *
 * A send to a Unix address fails with EAGAIN while the receiver's queue is full. The kernel then
 * still reports this socket as writable, and does not report when the queue has space (it does for
 * a connected socket). So such a datagram is sent by an inline system call, and retried after a
 * pause. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include <awake/udp.h>

#include "base/backoff.h"
#include "io/fd.h"
#include "net/socket.h"

enum { DATAGRAM_FRESH, DATAGRAM_IO, DATAGRAM_SENDING, DATAGRAM_PAUSED }; /* state */
static const uint64_t DATAGRAM_PAUSE_MIN = AW_MSEC(1), DATAGRAM_PAUSE_MAX = AW_MSEC(100);

static aw_poll datagram_ready(aw_datagram *d, int out) {
    d->out = out;
    return AW_READY;
}

/* From now on the future does not move: the message may point into it. */
static void datagram_prepare(aw_datagram *d) {
    d->message = (struct msghdr){.msg_iov = &d->part, .msg_iovlen = 1};
    d->io.data = &d->message;
    if (d->io.wants == AW_IO_SENDMSG && d->to.size) {
        d->message.msg_name = &d->to.u;
        d->message.msg_namelen = d->to.size;
    } else if (d->from) {
        d->message.msg_name = &d->to.u;
        d->message.msg_namelen = sizeof d->to.u;
    }
    d->future.state = DATAGRAM_IO;
    if (d->io.wants == AW_IO_SENDMSG && aw_addr_family(&d->to) == AF_UNIX &&
        aw_conn_fd(d->io.conn) >= 0) {
        aw_conn_keep(d->io.conn);
        d->future.state = DATAGRAM_SENDING;
    }
}

/* ---- Inline, to a Unix address --------------------------------------------------------------- */

static int send_inline(const aw_datagram *d) {
    const aw__fd *f = (const aw__fd *)d->io.conn;
    int error = aw__load_relaxed(&f->error);
    if (error) return error;
    for (;;) {
        ssize_t n = sendmsg(f->fd, &d->message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) return (int)n;
        if (errno != EINTR) return -errno;
    }
}

static aw_poll inline_sent(aw_datagram *d, int out) {
    aw_conn_drop(d->io.conn);
    return datagram_ready(d, out);
}

static aw_poll poll_inline(aw_datagram *d, aw_cx *cx) {
    for (;;) {
        if (d->future.state == DATAGRAM_PAUSED) {
            if (aw_future_poll(&d->nap.future, cx) == AW_PENDING) return AW_PENDING;
            if (d->nap.out < 0) return inline_sent(d, d->nap.out);
            d->future.state = DATAGRAM_SENDING;
        }
        if (!aw_cx_spend(cx)) return AW_PENDING;
        int n = send_inline(d);
        if (n != -EAGAIN) return inline_sent(d, n);
        d->pause = aw__backoff_next(d->pause, DATAGRAM_PAUSE_MIN, DATAGRAM_PAUSE_MAX);
        d->nap = aw_sleep_for(d->pause);
        d->future.state = DATAGRAM_PAUSED;
    }
}

/* ---- Through the connection ------------------------------------------------------------------ */

static aw_poll datagram_finish(aw_datagram *d) {
    int n = d->io.out;
    if (n >= 0 && d->io.wants == AW_IO_RECVMSG) {
        const struct sockaddr *name = d->message.msg_name;
        if (d->truncated) *d->truncated = d->message.msg_flags & MSG_TRUNC;
        if (d->from && aw_addr_of_sockaddr(d->from, name, d->message.msg_namelen))
            *d->from = (aw_addr){0}; /* a sender without an address */
    }
    return datagram_ready(d, n);
}

static aw_poll datagram_poll(aw_future *self, aw_cx *cx) {
    aw_datagram *d = (aw_datagram *)self;
    if (self->state == DATAGRAM_FRESH) datagram_prepare(d);
    if (self->state != DATAGRAM_IO) return poll_inline(d, cx);
    return aw_future_poll(&d->io.future, cx) == AW_READY ? datagram_finish(d) : AW_PENDING;
}

static aw_poll datagram_cancel(aw_future *self, aw_cx *cx) {
    aw_datagram *d = (aw_datagram *)self;
    if (self->state == DATAGRAM_FRESH) return AW_CANCELLED;
    if (self->state == DATAGRAM_IO) {
        aw_poll r = aw_future_cancel(&d->io.future, cx);
        return r == AW_READY ? datagram_finish(d) : r;
    }
    if (self->state == DATAGRAM_PAUSED)
        aw_future_cancel(&d->nap.future, cx); /* a sleep ends at once */
    aw_conn_drop(d->io.conn);
    return AW_CANCELLED;
}

static const aw_future *datagram_child(const aw_future *self, size_t i) {
    const aw_datagram *d = (const aw_datagram *)self;
    if (i > 0 || self->state == DATAGRAM_FRESH || self->state == DATAGRAM_SENDING) return NULL;
    return self->state == DATAGRAM_IO ? &d->io.future : &d->nap.future;
}

const aw_future_type aw_datagram_type = {
    AW_TYPE_OF(aw_datagram, "datagram"), .flags = AW_OUT_ERRNO,   .poll = datagram_poll,
    .cancel = datagram_cancel,           .child = datagram_child,
};

static aw_datagram datagram_make(aw_conn *c, uint32_t wants, const void *buf, size_t size) {
    return (aw_datagram){.future = AW_FUTURE_INIT(&aw_datagram_type),
                         .part = {(void *)(uintptr_t)buf, size},
                         .io = aw__io(c, wants, NULL, 0)};
}

aw_datagram aw_recv_from(aw_conn *c, void *buf, size_t size, aw_addr *from, bool *truncated) {
    aw_datagram d = datagram_make(c, AW_IO_RECVMSG, buf, size);
    d.from = from;
    d.truncated = truncated;
    return d;
}

aw_datagram aw_send_to(aw_conn *c, const void *buf, size_t size, const aw_addr *to) {
    aw_datagram d = datagram_make(c, AW_IO_SENDMSG, buf, size);
    if (to) d.to = *to;
    return d;
}
