/* SPDX-License-Identifier: MIT
 *
 * From a file to a descriptor, within the system. */
#define _GNU_SOURCE
#include <awake/copy.h>

#include <sys/sendfile.h>

#include "bytes/raw.h"
#include "io/quiet.h"

enum { AT_ONCE = 128 * 1024 }; /* the disk may be slow, and the thread waits */

static aw_poll pass_poll(aw_future *self, aw_cx *cx) {
    ((aw_io *)self)->out = 0;
    return aw_cx_spend(cx) ? AW_READY : AW_PENDING;
}

const aw_future_type aw__pass_type = {
    AW_TYPE_OF(aw_io, "pass"),
    .flags = AW_OUT_ERRNO,
    .poll = pass_poll,
};

static ssize_t send_some(aw_sendfile_future *f, int to) {
    size_t left = f->size - f->done;
    ssize_t n;
    aw__quiet quiet;
    aw__quiet_begin(&quiet);
    do
        n = sendfile(to, f->fd, &f->offset, left < AT_ONCE ? left : AT_ONCE);
    while (n < 0 && errno == EINTR);
    aw__quiet_end(&quiet, n < 0 ? errno : 0);
    return n < 0 ? -errno : n;
}

static bool sendfile_next(aw__calls *op, int n) {
    aw_sendfile_future *f = (aw_sendfile_future *)op;
    if (n < 0 && n != AW__CALLS_FIRST) return aw__calls_over(op, n);
    int to = aw__raw_fd(f->conn);
    if (to < 0) return aw__calls_over(op, to);
    if (f->done == f->size) return aw__calls_over(op, (ssize_t)f->done);
    ssize_t sent = send_some(f, to);
    if (sent == -EAGAIN) {
        op->io = aw_writable(f->conn);
        return true;
    }
    if (sent <= 0) return aw__calls_over(op, sent ? sent : (ssize_t)f->done);
    f->done += (size_t)sent;
    return aw__calls_pass(op);
}

AW__CALLS_TYPE(aw_sendfile_future, aw_sendfile_type, "sendfile", sendfile_next);
