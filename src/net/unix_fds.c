/* SPDX-License-Identifier: MIT
 *
 * Send and receive descriptors with bytes (SCM_RIGHTS).
 *
 * A socket may pass more ancillary data: the sender's credentials (SO_PASSCRED, inherited by
 * connections of a listener that was made elsewhere), and a pidfd of the sender (SO_PASSPIDFD). So
 * every receive has control space for all of it, whatever `max` is. Descriptors that were not asked
 * for are closed. */
#define _GNU_SOURCE
#include <awake/unix.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

_Static_assert(CMSG_SPACE(AW_FDS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred)) +
                       CMSG_SPACE(sizeof(int)) <=
                   sizeof(((aw_fds *)0)->control),
               "awake/unix.h");

enum { FDS_FRESH, FDS_IO }; /* state */

/* From now on the future does not move: the message points into it. */
static int fds_prepare(aw_fds *f) {
    bool sends = f->io.wants == AW_IO_SENDMSG;
    if (f->max < 0 || f->max > AW_FDS_MAX || (f->max && !f->fds)) return -EINVAL;
    if ((sends && f->part.iov_len == 0) || (!sends && !f->count)) return -EINVAL;
    f->message = (struct msghdr){.msg_iov = &f->part, .msg_iovlen = 1};
    f->io.data = &f->message;
    f->future.state = FDS_IO;
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

static void close_fds(const int *fds, int count) {
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

/* Descriptor `i` of a control message. A pidfd that the kernel failed to create is a negative
 * errno. */
static int fd_at(struct cmsghdr *h, size_t i) {
    int fd;
    memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
    return fd;
}

/* Takes the descriptors out of the control messages. */
static int take_control(aw_fds *f) {
    int count = 0, excess = 0;
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
            excess += wanted;
            if (fd >= 0) close(fd);
        }
    }
    if (excess || f->message.msg_flags & MSG_CTRUNC) {
        close_fds(f->fds, count);
        return -EMSGSIZE;
    }
    *f->count = count;
    return f->io.out;
}

static aw_poll fds_finish(aw_fds *f) {
    f->out = f->io.out;
    if (f->out >= 0 && f->io.wants == AW_IO_RECVMSG) f->out = take_control(f);
    return AW_READY;
}

static aw_poll fds_poll(aw_future *self, aw_cx *cx) {
    aw_fds *f = (aw_fds *)self;
    if (self->state == FDS_FRESH && (f->out = fds_prepare(f)) < 0) return AW_READY;
    return aw_future_poll(&f->io.future, cx) == AW_READY ? fds_finish(f) : AW_PENDING;
}

static aw_poll fds_cancel(aw_future *self, aw_cx *cx) {
    aw_fds *f = (aw_fds *)self;
    if (self->state == FDS_FRESH) return AW_CANCELLED;
    aw_poll r = aw_future_cancel(&f->io.future, cx);
    return r == AW_READY ? fds_finish(f) : r;
}

static void recv_fds_discard(aw_future *self) {
    aw_fds *f = (aw_fds *)self;
    if (f->out >= 0) close_fds(f->fds, *f->count);
}

static const aw_future *fds_child(const aw_future *self, size_t i) {
    return i == 0 && self->state == FDS_IO ? &((const aw_fds *)self)->io.future : NULL;
}

const aw_future_type aw_send_fds_type = {
    AW_TYPE_OF(aw_fds, "send_fds"), .flags = AW_OUT_ERRNO, .poll = fds_poll,
    .cancel = fds_cancel,           .child = fds_child,
};
const aw_future_type aw_recv_fds_type = {
    AW_TYPE_OF(aw_fds, "recv_fds"), .flags = AW_OUT_ERRNO,       .poll = fds_poll,
    .cancel = fds_cancel,           .discard = recv_fds_discard, .child = fds_child,
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
