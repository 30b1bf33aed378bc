/* SPDX-License-Identifier: MIT
 *
 * Descriptors that are sent and received with bytes (SCM_RIGHTS).
 *
 * A socket may pass more beside bytes: who sent them (SO_PASSCRED, which connections inherit from a listener that
 * somebody else made), and a descriptor of his process (SO_PASSPIDFD). So there is room for all of it with each
 * receive, whatever it wants; and what was not asked for is closed. */
#define _GNU_SOURCE
#include <awake/unix.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

_Static_assert(CMSG_SPACE(AW_FDS_MOST * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred)) +
                       CMSG_SPACE(sizeof(int)) <=
                   sizeof(((aw_fds *)0)->control),
               "awake/unix.h");

enum { FRESH, IO }; /* state */

/* It stays where it is from now on: the message points into it. */
static int prepare(aw_fds *f) {
    bool sends = f->io.wants == AW_IO_SENDMSG;
    if (f->max < 0 || f->max > AW_FDS_MOST || (f->max && !f->fds)) return -EINVAL;
    if ((sends && f->part.iov_len == 0) || (!sends && !f->count)) return -EINVAL;
    f->message = (struct msghdr){.msg_iov = &f->part, .msg_iovlen = 1};
    f->io.data = &f->message;
    f->future.state = IO;
    if (sends && f->max == 0) return 0;
    size_t size = (size_t)f->max * sizeof(int);
    f->message.msg_control = f->control;
    f->message.msg_controllen = sends ? CMSG_LEN(size) : sizeof f->control;
    if (sends) {
        struct cmsghdr head = {
            .cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(f->control, &head, sizeof head);
        memcpy(f->control + CMSG_LEN(0), f->fds, size);
    }
    return 0;
}

static void close_all(const int *fds, int count) {
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

/* The i-th of a part; none: the system had an error to tell instead. */
static int fd_at(struct cmsghdr *h, size_t i) {
    int fd;
    memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
    return fd;
}

/* What came beside the bytes. */
static int take(aw_fds *f) {
    int count = 0, more = 0;
    struct cmsghdr *h = CMSG_FIRSTHDR(&f->message);
    for (; h; h = CMSG_NXTHDR(&f->message, h)) {
        bool wanted = h->cmsg_type == SCM_RIGHTS;
        if (h->cmsg_level != SOL_SOCKET || (!wanted && h->cmsg_type != SCM_PIDFD)) continue;
        for (size_t i = 0; i < (h->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd = fd_at(h, i);
            if (wanted && count < f->max) {
                f->fds[count++] = fd;
                continue;
            }
            more += wanted;
            if (fd >= 0) close(fd);
        }
    }
    if (more || f->message.msg_flags & MSG_CTRUNC) {
        close_all(f->fds, count);
        return -EMSGSIZE;
    }
    *f->count = count;
    return f->io.out;
}

static aw_poll finish(aw_fds *f) {
    f->out = f->io.out;
    if (f->out >= 0 && f->io.wants == AW_IO_RECVMSG) f->out = take(f);
    return AW_READY;
}

static aw_poll fds_poll(aw_future *self, aw_cx *cx) {
    aw_fds *f = (aw_fds *)self;
    if (self->state == FRESH && (f->out = prepare(f)) < 0) return AW_READY;
    return aw_future_poll(&f->io.future, cx) == AW_READY ? finish(f) : AW_PENDING;
}

static aw_poll fds_cancel(aw_future *self, aw_cx *cx) {
    aw_fds *f = (aw_fds *)self;
    if (self->state == FRESH) return AW_CANCELLED;
    aw_poll r = aw_future_cancel(&f->io.future, cx);
    return r == AW_READY ? finish(f) : r;
}

static void recv_discard(aw_future *self) {
    aw_fds *f = (aw_fds *)self;
    if (f->out >= 0) close_all(f->fds, *f->count);
}

static const aw_future *fds_child(const aw_future *self, size_t i) {
    return i == 0 && self->state == IO ? &((const aw_fds *)self)->io.future : NULL;
}

const aw_future_type aw_send_fds_type = {
    AW_TYPE_OF(aw_fds, "send_fds"), .flags = AW_OUT_ERRNO, .poll = fds_poll,
    .cancel = fds_cancel,           .child = fds_child,
};
const aw_future_type aw_recv_fds_type = {
    AW_TYPE_OF(aw_fds, "recv_fds"), .flags = AW_OUT_ERRNO,   .poll = fds_poll,
    .cancel = fds_cancel,           .discard = recv_discard, .child = fds_child,
};

aw_fds aw_send_fds(aw_conn *c, const void *buf, size_t size, const int *fds, int count) {
    return (aw_fds){.future = AW_FUTURE_INIT(&aw_send_fds_type),
                    .max = count,
                    .fds = (int *)(uintptr_t)fds,
                    .io = aw__io(c, AW_IO_SENDMSG, NULL, 0),
                    .part = {(void *)(uintptr_t)buf, size}};
}

aw_fds aw_recv_fds(aw_conn *c, void *buf, size_t size, int *fds, int max, int *count) {
    return (aw_fds){.future = AW_FUTURE_INIT(&aw_recv_fds_type),
                    .max = max,
                    .fds = fds,
                    .count = count,
                    .io = aw__io(c, AW_IO_RECVMSG, NULL, 0),
                    .part = {buf, size}};
}
