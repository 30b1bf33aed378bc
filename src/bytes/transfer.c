/* SPDX-License-Identifier: MIT
 *
 * Complete writes and exact reads. */
#include <errno.h>

#include "base/misuse.h"
#include "bytes/calls.h"

void aw__calls_bad_result(const aw_io *io) {
    aw__misuse("a connection of kind '%s' says that it %s %d bytes of %zu", io->conn->type->name,
               io->wants == AW_IO_READ ? "read" : "wrote", io->out, io->size);
}

static bool transfer_write_next(aw__calls *op, int n) {
    aw_transfer *t = (aw_transfer *)op;
    if (n == 0 || (n < 0 && n != AW__CALLS_FIRST)) return aw__calls_finish(op, n ? n : -EIO);
    if (n > 0) t->done += (size_t)n;
    if (t->done >= t->size) return aw__calls_finish(op, (ssize_t)t->done);
    return aw__calls_write(op, t->conn, t->data + t->done, t->size - t->done);
}

static bool transfer_read_next(aw__calls *op, int n) {
    aw_transfer *t = (aw_transfer *)op;
    if (n == 0 || (n < 0 && n != AW__CALLS_FIRST)) return aw__calls_finish(op, n ? n : -ENODATA);
    if (n > 0) t->done += (size_t)n;
    if (t->done >= t->size) return aw__calls_finish(op, (ssize_t)t->done);
    return aw__calls_read(op, t->conn, t->data + t->done, t->size - t->done);
}

/* ---- Several buffers ------------------------------------------------------------------------- */

enum {
    WINDOW = sizeof((aw_transferv){.count = 0}.window) / sizeof(struct iovec),
    WRITEV_MAX_PARTS = 1024
};

static void transferv_advance(aw_transferv *t, size_t n) {
    t->done += n;
    t->offset += n;
    while (t->count && t->offset >= t->parts->iov_len) {
        t->offset -= t->parts->iov_len;
        t->parts++;
        t->count--;
    }
}

/* Passes the caller's array while its first part is untouched. Otherwise passes a copy of some
 * parts, the first of them shortened. The kernel cuts a total short that exceeds one call. */
static bool transfer_writev_next(aw__calls *op, int n) {
    aw_transferv *t = (aw_transferv *)op;
    if (n == AW__CALLS_FIRST && t->count > INT_MAX) return aw__calls_finish(op, -EINVAL);
    if (n == 0 || (n < 0 && n != AW__CALLS_FIRST)) return aw__calls_finish(op, n ? n : -EIO);
    transferv_advance(t, n > 0 ? (size_t)n : 0);
    if (!t->count) return aw__calls_finish(op, (ssize_t)t->done);
    const struct iovec *parts = t->parts;
    size_t count = t->count < WRITEV_MAX_PARTS ? t->count : WRITEV_MAX_PARTS;
    if (t->offset) {
        if (count > WINDOW) count = WINDOW;
        for (size_t i = 0; i < count; i++)
            t->window[i] = t->parts[i];
        t->window[0].iov_base = (char *)t->window[0].iov_base + t->offset;
        t->window[0].iov_len -= t->offset;
        parts = t->window;
    }
    op->io = aw_writev(t->conn, parts, (int)count);
    return true;
}

AW__CALLS_TYPE(aw_transfer, aw_write_all_type, "write_all", transfer_write_next);
AW__CALLS_TYPE(aw_transfer, aw_read_exact_type, "read_exact", transfer_read_next);
AW__CALLS_TYPE(aw_transferv, aw_writev_all_type, "writev_all", transfer_writev_next);
