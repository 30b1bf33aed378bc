/* SPDX-License-Identifier: MIT
 *
 * Copy: read into the reader's buffer, write from it, until the end.
 *
 * After SPLICE_AFTER bytes between two descriptors, the copy continues through a pipe: splice moves
 * data into it and out of it, and the bytes stay in the kernel. The pipe never holds more than the
 * buffer, which is empty meanwhile. So what is left in the pipe at the end, or after an error, is
 * read into the buffer, and nothing is lost. Descriptors that cannot be spliced, or that carry
 * messages, are copied through the buffer.
 *
 * Splice does not pass the urgent mark of TCP: it then returns EAGAIN, or 0 as at the end. So a
 * splice that finds nothing although the source is readable, or returns 0, is followed by a read
 * into the buffer. The read passes the mark, and only a read decides that the source has ended. */
#define _GNU_SOURCE
#include <awake/copy.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes/conn_fd.h"
#include "bytes/reader_calls.h"
#include "os/sigpipe.h"

enum { SPLICE_AFTER = 256 * 1024, SPLICE_MIN_BUFFER = 32 * 1024 };

/* `doing`: the last call. PROBING: a read, because splice could not tell a mark from the end. */
enum { STARTING, READING, WRITING, SHUTTING_DOWN, SPLICING_IN, SPLICING_OUT, PROBING };

/* ---- Pipe ------------------------------------------------------------------------------------ */

static bool has_pipe(const aw_copy_future *f) {
    return f->pipe[0] >= 0;
}

/* Moves the contents of the pipe to the buffer. */
static void drain_and_close_pipe(aw_copy_future *f) {
    aw_reader *r = f->reader;
    if (!has_pipe(f)) return;
    if (f->piped) r->start = r->end = 0;
    while (f->piped) {
        ssize_t n = read(f->pipe[0], r->buf + r->end, f->piped);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break; /* cannot happen: the pipe is private */
        r->end += (size_t)n;
        f->piped -= (size_t)n;
    }
    close(f->pipe[0]);
    close(f->pipe[1]);
    f->pipe[0] = f->pipe[1] = -1;
}

/* A pipe does not keep message boundaries. */
static bool is_stream(const aw_conn *c) {
    int fd = aw__raw_fd(c), kind = 0;
    socklen_t size = sizeof kind;
    if (fd < 0) return false;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0) return kind == SOCK_STREAM;
    return fcntl(fd, F_GETPIPE_SZ) > 0;
}

/* The buffer is empty. True: go on with splice. */
static bool can_use_pipe(aw_copy_future *f) {
    if (has_pipe(f)) return true;
    if (f->done < SPLICE_AFTER || f->reader->capacity < SPLICE_MIN_BUFFER || f->pipe[1] != -1)
        return false;
    if (!is_stream(f->conn) || !is_stream(f->to) || pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK))
        f->pipe[0] = -1;
    f->pipe[1] = has_pipe(f) ? f->pipe[1] : -2; /* try once */
    return has_pipe(f);
}

static void disable_pipe(aw_copy_future *f) {
    drain_and_close_pipe(f);
    f->pipe[1] = -2;
}

/* Bytes; 0 at the end or at an urgent mark; or a negative errno. */
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
    aw__sigpipe_guard guard;
    int to = aw__raw_fd(f->to);
    if (to < 0) return to;
    aw__sigpipe_block(&guard);
    do
        n = splice(f->pipe[0], NULL, to, NULL, f->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    while (n < 0 && errno == EINTR);
    aw__sigpipe_restore(&guard, n < 0 ? errno : 0);
    return n < 0 ? -errno : n;
}

/* ---- Next call ------------------------------------------------------------------------------- */

static bool copy_finish(aw_copy_future *f, ssize_t out, bool at_source) {
    f->at_source = out < 0 && at_source;
    return aw__calls_finish((aw__calls *)f, out);
}

static bool copy_at_end(aw_copy_future *f) {
    if (!f->half_close) return copy_finish(f, (ssize_t)f->done, false);
    f->doing = SHUTTING_DOWN;
    f->io = aw_shutdown(f->to);
    return true;
}

/* Not errors: a destination without half-close (-ENOTSOCK, -EOPNOTSUPP), and one that is closed in
 * both directions (-ENOTCONN). */
static bool after_shutdown(aw_copy_future *f, int n) {
    bool ok = n == 0 || n == -ENOTCONN || n == -ENOTSOCK || n == -EOPNOTSUPP;
    return copy_finish(f, ok ? (ssize_t)f->done : n, false);
}

/* Splice is unknown, unsupported for these descriptors, or forbidden by a policy. An error of a
 * descriptor itself will also occur without splice. */
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

static bool copy_read(aw_copy_future *f, uint8_t doing) {
    f->doing = doing;
    return aw__reader_read_more((aw__calls *)f, f->reader, 0);
}

/* One splice; then a no-op call, or a wait for a descriptor. */
static bool splice_next(aw_copy_future *f) {
    bool out = f->piped, readable = f->io.wants == AW_IO_READABLE;
    ssize_t n = out ? splice_out(f) : splice_in(f);
    if (!out && (n == 0 || (n == -EAGAIN && readable))) return copy_read(f, PROBING);
    f->doing = out ? SPLICING_OUT : SPLICING_IN;
    if (n == -EAGAIN) {
        f->io = out ? aw_writable(f->to) : aw_readable(f->conn);
        return true;
    }
    if (cannot_splice(n)) {
        disable_pipe(f);
        return aw__calls_nop((aw__calls *)f);
    }
    if (n <= 0) return copy_finish(f, n ? n : -EIO, !out);
    f->piped = out ? f->piped - (size_t)n : (size_t)n;
    if (out) f->done += (size_t)n;
    return aw__calls_nop((aw__calls *)f);
}

static bool copy_next(aw__calls *op, int n) {
    aw_copy_future *f = (aw_copy_future *)op;
    aw_reader *r = f->reader;
    bool read = f->doing == READING || f->doing == PROBING;
    int error = 0;
    if (f->doing == SHUTTING_DOWN) return after_shutdown(f, n);
    if (read) error = aw__reader_filled(r, n);
    if (f->doing == WRITING) error = n > 0 ? 0 : n ? n : -EIO;
    if (f->doing >= SPLICING_IN && n < 0) error = n;
    if (error) return copy_finish(f, error, read || f->doing == SPLICING_IN);
    if (f->doing == WRITING) {
        r->start += (size_t)n;
        f->done += (size_t)n;
    }
    if (aw__reader_size(r)) {
        f->doing = WRITING;
        return aw__calls_write(op, f->to, r->buf + r->start, aw__reader_size(r));
    }
    if (f->piped || (!r->ended && can_use_pipe(f))) return splice_next(f);
    return r->ended ? copy_at_end(f) : copy_read(f, READING);
}

/* ---- Poll and cancel ------------------------------------------------------------------------- */

static aw_poll copy_leave(aw_copy_future *f, aw_poll answer) {
    if (answer == AW_PENDING) return answer;
    drain_and_close_pipe(f);
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
    return copy_leave(f, aw__calls_poll(self, cx, copy_next));
}

static aw_poll copy_cancel(aw_future *self, aw_cx *cx) {
    return copy_leave((aw_copy_future *)self, aw__calls_cancel(self, cx, copy_next));
}

const aw_future_type aw_copy_type = {
    AW_TYPE_OF(aw_copy_future, "copy"),
    .flags = AW_OUT_ERRNO,
    .poll = copy_poll,
    .cancel = copy_cancel,
    .child = aw__calls_child,
    .describe = aw__calls_describe,
};
