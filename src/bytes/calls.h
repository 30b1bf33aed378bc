/* SPDX-License-Identifier: MIT
 *
 * A future that makes several calls on a connection, one after the other (AW__CALLS of
 * awake/bytes.h). Each future type supplies one function:
 *
 *   next(op, n)   `n` is the result of the last call, or AW__CALLS_FIRST. The function accounts for
 *                 it. Then it sets `io` to the next call and returns true, or sets `out` and
 *                 returns false: finished.
 *
 * All state is up to date when `next` returns, so cancelling needs no code of its own. The call in
 * `io` is cancelled; if it completed all the same, `next` accounts for it, and a further call is
 * not made. After a wait (aw_readable, aw_writable) there is nothing to account for, and `next` is
 * not called. */
#ifndef AW_BYTES_CALLS_H
#define AW_BYTES_CALLS_H

#include <limits.h>
#include <stdio.h>

#include <awake/bytes.h>

enum { AW__CALLS_FIRST = INT_MIN };

/* Limit of one call: its result is an int. */
enum { AW__CALL_MAX = 0x7ffff000 };

typedef struct __attribute__((may_alias)) aw__calls {
    AW__CALLS;
} aw__calls;

typedef bool aw__calls_next(aw__calls *op, int n);

static inline size_t aw__call_size(size_t size) {
    return size < AW__CALL_MAX ? size : AW__CALL_MAX;
}

/* Return values of `next`. */
static inline bool aw__calls_finish(aw__calls *op, ssize_t out) {
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

/* `state` is 1 while there is a call in `io`. Then the future has its own reference to the
 * connection: between two calls nothing else would keep it from being closed. */
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

/* The result of the call. A connection type that reports more bytes than were asked for would make
 * the caller read past its buffer. */
void aw__calls_bad_result(const aw_io *io) __attribute__((noreturn, cold));
static inline int aw__calls_result(const aw__calls *op) {
    const aw_io *io = &op->io;
    if (AW_CHECKS && io->out > 0 && io->wants <= AW_IO_WRITE && io->conn &&
        AW__UNLIKELY((size_t)io->out > io->size))
        aw__calls_bad_result(io);
    return io->out;
}

/* A future that needs no call spends one unit of budget. Calls spend their own. */
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
    } while (next(op, aw__calls_result(op)));
    return aw__calls_end(op, AW_READY);
}

static inline bool aw__calls_is_wait(const aw__calls *op) {
    return op->io.wants == AW_IO_READABLE || op->io.wants == AW_IO_WRITABLE;
}

static inline aw_poll aw__calls_cancel(aw_future *self, aw_cx *cx, aw__calls_next *next) {
    aw__calls *op = (aw__calls *)self;
    if (!self->state) return AW_CANCELLED;
    aw_poll r = aw_future_cancel(&op->io.future, cx);
    if (r == AW_PENDING) return r;
    if (r == AW_READY && (aw__calls_is_wait(op) || next(op, aw__calls_result(op))))
        r = AW_CANCELLED;
    return aw__calls_end(op, r);
}

static inline const aw_future *aw__calls_child(const aw_future *self, size_t i) {
    return i == 0 && self->state ? &((const aw__calls *)self)->io.future : NULL;
}

static inline void aw__calls_describe(const aw_future *self, char *buf, size_t size) {
    snprintf(buf, size, "%zu bytes so far", ((const aw__calls *)self)->done);
}

/* Defines the type of a future that needs no more than `next`. */
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
