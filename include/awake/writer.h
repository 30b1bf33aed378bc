/* SPDX-License-Identifier: MIT
 *
 * awake/writer.h: writing through a buffer: many small writes, few calls.
 *
 *     char room[4096];
 *     aw_writer w = aw_writer_of(conn, room, sizeof room);
 *     AW_AWAIT(self->write, aw_writer_write(&w, text, length));
 *     AW_AWAIT(self->write, aw_writer_flush(&w));                 otherwise it stays in the buffer
 *
 * What was accepted and not written yet stays in the buffer, also when a future is cancelled or fails: the next one
 * goes on with it. One task at a time; two at once get -EBUSY. The connection is borrowed.
 *
 * Watermarks: who finds more than `high` bytes in the buffer waits, before it adds any, until `low` or fewer are
 * left. They may be changed at any time; a buffer that is full is above `high` in any case. Without a change it is
 * filled to the last byte, and then emptied. */
#ifndef AWAKE_WRITER_H
#define AWAKE_WRITER_H

#include <awake/bytes.h>

AW_C_BEGIN

typedef struct aw_writer {
    aw_conn *conn;
    size_t high, low;
    /* Private. */
    char *buf;
    size_t capacity, start, end; /* what is not written yet is buf[start] to buf[end] */
    const void *user;            /* the future that writes now */
    const aw_allocator *allocator;
} aw_writer;

/* With a buffer of the caller's. */
static inline aw_writer aw_writer_of(aw_conn *c, void *buf, size_t size) {
    aw_writer w = {c, size, 0, (char *)buf, size, 0, 0, NULL, NULL};
    return w;
}
/* With a buffer of its own. 0 or -ENOMEM. aw_writer_free writes nothing and does not touch the connection; it may be
 * called for any. */
AW_API int aw_writer_init(aw_writer *w, aw_conn *c, size_t size);
AW_API void aw_writer_free(aw_writer *w);

/* How many bytes wait in the buffer. */
static inline size_t aw_writer_size(const aw_writer *w) {
    return w->end - w->start;
}
/* Into the buffer without waiting: 0; -EAGAIN when it does not fit, or more than `high` wait already: then nothing is
 * taken. For who cannot await, also while a flush or drain of the same task is on its way (-EBUSY: a write, or a
 * shutdown, is); aw_writer_drain waits until there is room again. */
AW_API int aw_writer_put(aw_writer *w, const void *data, size_t size);

/* aw-future: aw_writer_future */
typedef struct aw_writer_future {
    AW__CALLS; /* `done`: bytes that were accepted */
    aw_writer *writer;
    const char *data;
    size_t size;
    /* Private. */
    struct iovec parts[2]; /* the buffer, and what goes around it */
    uint32_t head_size;    /* of a frame */
    char head[4];
    bool draining, shut;
} aw_writer_future;

AW_API extern const aw_future_type aw_writer_write_type;
AW_API extern const aw_future_type aw_writer_flush_type;
AW_API extern const aw_future_type aw_writer_drain_type;
AW_API extern const aw_future_type aw_writer_shutdown_type;

/* Private. */
static inline aw_writer_future aw__writer(const aw_future_type *type, aw_writer *w,
                                          const void *data, size_t size) {
    aw_writer_future f = {AW__CALLS_INIT(type, w->conn),
                          w,
                          (const char *)data,
                          size,
                          {{NULL, 0}, {NULL, 0}},
                          0,
                          {0, 0, 0, 0},
                          false,
                          false};
    return f;
}

/* `out`: `size`, all of it is in the buffer or written. What is at least as large as the buffer goes around it, in
 * one call with what is in it. Cancelled, or
 * after an error, the first `done` bytes were accepted. */
static inline aw_writer_future aw_writer_write(aw_writer *w, const void *data, size_t size) {
    return aw__writer(&aw_writer_write_type, w, data, size);
}
/* Until the buffer is empty: 0, or a negative errno. */
static inline aw_writer_future aw_writer_flush(aw_writer *w) {
    return aw__writer(&aw_writer_flush_type, w, NULL, 0);
}
/* If there are more than `high` bytes, until there are at most `low`: 0, or a negative errno. */
static inline aw_writer_future aw_writer_drain(aw_writer *w) {
    return aw__writer(&aw_writer_drain_type, w, NULL, 0);
}
/* Flush, and then aw_shutdown of the connection. */
static inline aw_writer_future aw_writer_shutdown(aw_writer *w) {
    return aw__writer(&aw_writer_shutdown_type, w, NULL, 0);
}

AW_C_END

#endif
