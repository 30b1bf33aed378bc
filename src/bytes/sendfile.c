/* SPDX-License-Identifier: MIT
 *
 * From a file to a descriptor, within the kernel (sendfile). */
#define _GNU_SOURCE
#include <awake/copy.h>

#include <sys/sendfile.h>

#include "bytes/conn_fd.h"
#include "os/sigpipe.h"

enum { SENDFILE_MAX = 128 * 1024 }; /* per call: reading from disk blocks the thread */

static ssize_t send_some(aw_sendfile_future *f, int to) {
    size_t remaining = f->size - f->done;
    ssize_t n;
    aw__sigpipe_guard guard;
    aw__sigpipe_block(&guard);
    do
        n = sendfile(to, f->fd, &f->offset, remaining < SENDFILE_MAX ? remaining : SENDFILE_MAX);
    while (n < 0 && errno == EINTR);
    aw__sigpipe_restore(&guard, n < 0 ? errno : 0);
    return n < 0 ? -errno : n;
}

static bool sendfile_next(aw__calls *op, int n) {
    aw_sendfile_future *f = (aw_sendfile_future *)op;
    if (n < 0 && n != AW__CALLS_FIRST) return aw__calls_finish(op, n);
    int to = aw__raw_fd(f->conn);
    if (to < 0) return aw__calls_finish(op, to);
    if (f->done == f->size) return aw__calls_finish(op, (ssize_t)f->done);
    ssize_t sent = send_some(f, to);
    if (sent == -EAGAIN) {
        op->io = aw_writable(f->conn);
        return true;
    }
    if (sent <= 0) return aw__calls_finish(op, sent ? sent : (ssize_t)f->done);
    f->done += (size_t)sent;
    return aw__calls_nop(op);
}

AW__CALLS_TYPE(aw_sendfile_future, aw_sendfile_type, "sendfile", sendfile_next);
