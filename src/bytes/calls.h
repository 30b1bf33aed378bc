/* SPDX-License-Identifier: MIT
 *
 * A future that makes one call of a connection after the other (AW__CALLS of awake/bytes.h). Its kind only says what
 * comes next:
 *
 *   next(op, n)   `n` is what the last call gave, or AW__CALLS_FIRST. It accounts for that, and then either sets `io` to the
 *                 next call and answers true, or sets `out` and answers false: it is over.
 *
 * All that a kind keeps is up to date when `next` returns, so a cancel needs nothing of its own: the call is cancelled,
 * and if it finished all the same `next` accounts for it, and what would be the next call is not made. Of a wait
 * (aw_readable, aw_writable) there is nothing to account for, and what `next` would do then is not done either. */
#ifndef AW_BYTES_CALLS_H
#define AW_BYTES_CALLS_H

#include <limits.h>
#include <stdio.h>

#include <awake/bytes.h>

enum { AW__CALLS_FIRST = INT_MIN };

/* What one call is asked for: its result is an int. */
enum { AW__CALL_MOST = 0x7ffff000 };

typedef struct __attribute__((may_alias)) aw__calls {
    AW__CALLS;
} aw__calls;

typedef bool aw__calls_next(aw__calls *op, int n);

static inline size_t aw__call_size(size_t size) {
    return size < AW__CALL_MOST ? size : AW__CALL_MOST;
}

/* Answers of `next`. */
static inline bool aw__calls_over(aw__calls *op, ssize_t out) {
    op->out = out;
    return false;
}
static inline bool aw__calls_read(aw__calls *op, aw_conn *c, void *data, size_t size) {
    op->io = aw_read(c, data, aw__call_size(size));
    return true;
}
static inline bool aw__calls_write(aw__calls *op, aw_conn *c, const void *data, size_t size) {
    op->io = aw_write(c, data, aw__call_size(size));
    return true;
}

/* `state`: 1 when there is a call in `io`. Between two calls nothing else would hold the connection, and somebody may
 * close it. */
static inline bool aw__calls_begin(aw__calls *op, aw__calls_next *next) {
    if (!next(op, AW__CALLS_FIRST)) return false;
    aw_conn_keep(op->conn);
    op->future.state = 1;
    return true;
}
static inline aw_poll aw__calls_end(aw__calls *op, aw_poll how) {
    aw_conn_drop(op->conn);
    op->future.state = 0;
    return how;
}

/* What a call gave. A kind of connection that says more than it was asked for would have us read beyond a buffer. */
void aw__calls_bad(const aw_io *io) __attribute__((noreturn, cold));
static inline int aw__calls_gave(const aw__calls *op) {
    const aw_io *io = &op->io;
    if (AW_CHECKS && io->out > 0 && io->wants <= AW_IO_WRITE && io->conn &&
        AW__UNLIKELY((size_t)io->out > io->size))
        aw__calls_bad(io);
    return io->out;
}

/* What needs no call costs one of the budget; calls cost by themselves. */
static inline aw_poll aw__calls_poll(aw_future *self, aw_cx *cx, aw__calls_next *next) {
    aw__calls *op = (aw__calls *)self;
    if (!self->state) {
        if (aw_cx_exhausted(cx)) {
            aw_cx_spend(cx);
            return AW_PENDING;
        }
        if (!aw__calls_begin(op, next)) {
            aw_cx_spend(cx);
            return AW_READY;
        }
    }
    do {
        if (aw_future_poll(&op->io.future, cx) == AW_PENDING) return AW_PENDING;
    } while (next(op, aw__calls_gave(op)));
    return aw__calls_end(op, AW_READY);
}

static inline bool aw__calls_only_waits(const aw__calls *op) {
    return op->io.wants == AW_IO_READABLE || op->io.wants == AW_IO_WRITABLE;
}

static inline aw_poll aw__calls_cancel(aw_future *self, aw_cx *cx, aw__calls_next *next) {
    aw__calls *op = (aw__calls *)self;
    if (!self->state) return AW_CANCELLED;
    aw_poll r = aw_future_cancel(&op->io.future, cx);
    if (r == AW_PENDING) return r;
    if (r == AW_READY && (aw__calls_only_waits(op) || next(op, aw__calls_gave(op))))
        r = AW_CANCELLED;
    return aw__calls_end(op, r);
}

static inline const aw_future *aw__calls_child(const aw_future *self, size_t i) {
    return i == 0 && self->state ? &((const aw__calls *)self)->io.future : NULL;
}

static inline void aw__calls_describe(const aw_future *self, char *buf, size_t size) {
    snprintf(buf, size, "%zu bytes so far", ((const aw__calls *)self)->done);
}

/* The type object of a kind that needs no more than `next`. */
#define AW__CALLS_TYPE(T, type_name, title, next)                                                  \
    static aw_poll next##_poll(aw_future *self, aw_cx *cx) {                                       \
        return aw__calls_poll(self, cx, next);                                                     \
    }                                                                                              \
    static aw_poll next##_cancel(aw_future *self, aw_cx *cx) {                                     \
        return aw__calls_cancel(self, cx, next);                                                   \
    }                                                                                              \
    const aw_future_type type_name = {AW_TYPE_OF(T, title),     .flags = AW_OUT_ERRNO,             \
                                      .poll = next##_poll,      .cancel = next##_cancel,           \
                                      .child = aw__calls_child, .describe = aw__calls_describe}

#endif
