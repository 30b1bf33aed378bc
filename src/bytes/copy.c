/* SPDX-License-Identifier: MIT
 *
 * Copying: read into the reader's buffer, write from it, until the end.
 *
 * When much has been copied from a descriptor to a descriptor, it goes on through a pipe: what splice takes from the
 * one it gives to the other, and the bytes never come here. There is never more in the pipe than the buffer can hold,
 * which is empty meanwhile: so what is in the pipe at the end, or when something goes wrong, is read into the buffer,
 * and nothing is lost. Where a descriptor cannot be spliced, or has messages, it goes on with the buffer.
 *
 * Splice does not pass the mark of an urgent byte, and then says that there is nothing, or that it was all. So one that
 * finds nothing although the source is readable, or the end, is followed by a read into the buffer: that one passes the
 * mark, and only it tells the end. */
#define _GNU_SOURCE
#include <awake/copy.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes/raw.h"
#include "bytes/reader.h"
#include "io/quiet.h"

enum { SPLICE_AFTER = 256 * 1024, SPLICE_LEAST = 32 * 1024 };

/* `doing`: what the last call was. ASKING: a read, as splice did not tell enough. */
enum { BEGINNING, READING, WRITING, SHUTTING, SPLICING_IN, SPLICING_OUT, ASKING };

/* ---- The pipe --------------------------------------------------------------------------------- */

static bool has_pipe(const aw_copy_future *f) {
    return f->pipe[0] >= 0;
}

/* What is in it goes into the buffer. It is not made again. */
static void end_pipe(aw_copy_future *f) {
    aw_reader *r = f->reader;
    if (!has_pipe(f)) return;
    if (f->piped) r->start = r->end = 0;
    while (f->piped) {
        ssize_t n = read(f->pipe[0], r->buf + r->end, f->piped);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break; /* not with a pipe that nobody else knows */
        r->end += (size_t)n;
        f->piped -= (size_t)n;
    }
    close(f->pipe[0]);
    close(f->pipe[1]);
    f->pipe[0] = f->pipe[1] = -1;
}

/* Messages would be cut: a pipe keeps only pages of bytes. */
static bool is_stream(const aw_conn *c) {
    int fd = aw__raw_fd(c), kind = 0;
    socklen_t size = sizeof kind;
    if (fd < 0) return false;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0) return kind == SOCK_STREAM;
    return fcntl(fd, F_GETPIPE_SZ) > 0;
}

/* With an empty buffer: from now on without it? */
static bool begin_pipe(aw_copy_future *f) {
    if (has_pipe(f)) return true;
    if (f->done < SPLICE_AFTER || f->reader->capacity < SPLICE_LEAST || f->pipe[1] != -1)
        return false;
    if (!is_stream(f->conn) || !is_stream(f->to) || pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK))
        f->pipe[0] = -1;
    f->pipe[1] = has_pipe(f) ? f->pipe[1] : -2; /* once */
    return has_pipe(f);
}

static void give_up_pipe(aw_copy_future *f) {
    end_pipe(f);
    f->pipe[1] = -2;
}

/* Bytes; 0 at the end, or at a mark; or a negative errno. */
static ssize_t splice_in(aw_copy_future *f) {
    ssize_t n;
    int from = aw__raw_fd(f->conn);
    if (from < 0) return from;
    do
        n = splice(from, NULL, f->pipe[1], NULL, f->reader->capacity,
                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static ssize_t splice_out(aw_copy_future *f) {
    ssize_t n;
    aw__quiet quiet;
    int to = aw__raw_fd(f->to);
    if (to < 0) return to;
    aw__quiet_begin(&quiet);
    do
        n = splice(f->pipe[0], NULL, to, NULL, f->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    while (n < 0 && errno == EINTR);
    aw__quiet_end(&quiet, n < 0 ? errno : 0);
    return n < 0 ? -errno : n;
}

/* ---- What comes next -------------------------------------------------------------------------- */

static bool over(aw_copy_future *f, ssize_t out, bool at_source) {
    f->at_source = out < 0 && at_source;
    return aw__calls_over((aw__calls *)f, out);
}

static bool at_end(aw_copy_future *f) {
    if (!f->half_close) return over(f, (ssize_t)f->done, false);
    f->doing = SHUTTING;
    f->io = aw_shutdown(f->to);
    return true;
}

/* What has no end of its own, or is at its end altogether, need not be told. */
static bool after_shutdown(aw_copy_future *f, int n) {
    bool fine = n == 0 || n == -ENOTCONN || n == -ENOTSOCK || n == -EOPNOTSUPP;
    return over(f, fine ? (ssize_t)f->done : n, false);
}

/* It is not known, not for these, or forbidden by a policy. An error of a descriptor's own comes again without it. */
static bool cannot_splice(ssize_t error) {
    switch (-error) {
    case EINVAL:
    case EPERM:
    case EACCES:
    case ENOSYS:
    case EOPNOTSUPP: return true;
    default: return false;
    }
}

static bool read_next(aw_copy_future *f, uint8_t doing) {
    f->doing = doing;
    return aw__reader_more((aw__calls *)f, f->reader, 0);
}

/* One splice, and then it passes; or waits for a descriptor. */
static bool splice_next(aw_copy_future *f) {
    bool out = f->piped, readable = f->io.wants == AW_IO_READABLE;
    ssize_t n = out ? splice_out(f) : splice_in(f);
    if (!out && (n == 0 || (n == -EAGAIN && readable))) return read_next(f, ASKING);
    f->doing = out ? SPLICING_OUT : SPLICING_IN;
    if (n == -EAGAIN) {
        f->io = out ? aw_writable(f->to) : aw_readable(f->conn);
        return true;
    }
    if (cannot_splice(n)) {
        give_up_pipe(f);
        return aw__calls_pass((aw__calls *)f);
    }
    if (n <= 0) return over(f, n ? n : -EIO, !out);
    f->piped = out ? f->piped - (size_t)n : (size_t)n;
    if (out) f->done += (size_t)n;
    return aw__calls_pass((aw__calls *)f);
}

static bool copy_next(aw__calls *op, int n) {
    aw_copy_future *f = (aw_copy_future *)op;
    aw_reader *r = f->reader;
    bool read = f->doing == READING || f->doing == ASKING;
    int error = 0;
    if (f->doing == SHUTTING) return after_shutdown(f, n);
    if (read) error = aw__reader_filled(r, n);
    if (f->doing == WRITING) error = n > 0 ? 0 : n ? n : -EIO;
    if (f->doing >= SPLICING_IN && n < 0) error = n;
    if (error) return over(f, error, read || f->doing == SPLICING_IN);
    if (f->doing == WRITING) {
        r->start += (size_t)n;
        f->done += (size_t)n;
    }
    if (aw__reader_size(r)) {
        f->doing = WRITING;
        return aw__calls_write(op, f->to, r->buf + r->start, aw__reader_size(r));
    }
    if (f->piped || (!r->ended && begin_pipe(f))) return splice_next(f);
    return r->ended ? at_end(f) : read_next(f, READING);
}

/* ---- Poll and cancel -------------------------------------------------------------------------- */

static aw_poll leave(aw_copy_future *f, aw_poll answer) {
    if (answer == AW_PENDING) return answer;
    end_pipe(f);
    if (f->kept) aw_conn_drop(f->to);
    f->kept = false;
    return aw__reader_leave(answer, f->reader, f);
}

static aw_poll copy_poll(aw_future *self, aw_cx *cx) {
    aw_copy_future *f = (aw_copy_future *)self;
    if (!f->reader->capacity || !aw__reader_enter(f->reader, f)) {
        f->out = f->reader->capacity ? -EBUSY : -EINVAL;
        aw_cx_spend(cx);
        return AW_READY;
    }
    if (!f->kept) aw_conn_keep(f->to);
    f->kept = true;
    return leave(f, aw__calls_poll(self, cx, copy_next));
}

static aw_poll copy_cancel(aw_future *self, aw_cx *cx) {
    return leave((aw_copy_future *)self, aw__calls_cancel(self, cx, copy_next));
}

const aw_future_type aw_copy_type = {
    AW_TYPE_OF(aw_copy_future, "copy"),
    .flags = AW_OUT_ERRNO,
    .poll = copy_poll,
    .cancel = copy_cancel,
    .child = aw__calls_child,
    .describe = aw__calls_describe,
};
