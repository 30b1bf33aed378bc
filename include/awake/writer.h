/* SPDX-License-Identifier: MIT
 *
 * awake/writer.h: buffered writing: many small writes, few calls.
 *
 *     char buf[4096];
 *     aw_writer w = aw_writer_of(conn, buf, sizeof buf);
 *     AW_AWAIT(self->write, aw_writer_write(&w, text, length));
 *     AW_AWAIT(self->write, aw_writer_flush(&w));                 otherwise it stays in the buffer
 *
 * Accepted data stays in the buffer until it is written, also when a future is cancelled or fails:
 * the next one goes on. One task at a time; a second future gets -EBUSY. The connection is
 * borrowed.
 *
 * Watermarks: if the buffer holds more than `high` bytes, a write first waits until it holds at
 * most `low`. You may change them at any time; a full buffer always counts as above `high`. By
 * default the buffer is filled completely and then emptied. */
#ifndef AWAKE_WRITER_H
#define AWAKE_WRITER_H

#include <awake/bytes.h>

AW_C_BEGIN

typedef struct aw_writer {
    aw_conn *conn;
    size_t high, low;
    /* Private. */
    char *buf;
    size_t capacity, start, end; /* not written yet: buf[start] to buf[end] */
    const void *user;            /* the future that writes now */
    const aw_allocator *allocator;
} aw_writer;

/* With your buffer. */
static inline aw_writer aw_writer_of(aw_conn *c, void *buf, size_t size) {
    aw_writer w = {c, size, 0, (char *)buf, size, 0, 0, NULL, NULL};
    return w;
}
/* With an allocated buffer. 0 or -ENOMEM. aw_writer_free works for any writer; it writes nothing,
 * and does not touch the connection. */
AW_API int aw_writer_init(aw_writer *w, aw_conn *c, size_t size);
AW_API void aw_writer_free(aw_writer *w);

/* Bytes in the buffer. */
static inline size_t aw_writer_size(const aw_writer *w) {
    return w->end - w->start;
}
/* Add to the buffer without waiting, for code that cannot await. 0; -EAGAIN: no space, or already
 * more than `high` bytes, and nothing is taken (aw_writer_drain waits for space); -EBUSY: during a
 * write or a shutdown. Allowed during a flush or drain of the same task. */
AW_API int aw_writer_put(aw_writer *w, const void *data, size_t size);

/* aw-future: aw_writer_future */
typedef struct aw_writer_future {
    AW__CALLS; /* `done`: bytes accepted */
    aw_writer *writer;
    const char *data;
    size_t size;
    /* Private. */
    struct iovec parts[2]; /* the buffer, and data that bypasses it */
    uint32_t head_size;    /* length prefix of a frame */
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

/* `out`: `size`: all of it is in the buffer or written. Data at least as large as the buffer
 * bypasses it, in one call with the buffer's contents. After a cancel or an error the first `done`
 * bytes were accepted. */
static inline aw_writer_future aw_writer_write(aw_writer *w, const void *data, size_t size) {
    return aw__writer(&aw_writer_write_type, w, data, size);
}
/* Empty the buffer. `out`: 0 or a negative errno. */
static inline aw_writer_future aw_writer_flush(aw_writer *w) {
    return aw__writer(&aw_writer_flush_type, w, NULL, 0);
}
/* If there are more than `high` bytes, wait until there are at most `low`. `out`: 0 or a negative
 * errno. */
static inline aw_writer_future aw_writer_drain(aw_writer *w) {
    return aw__writer(&aw_writer_drain_type, w, NULL, 0);
}
/* Flush, then aw_shutdown the connection. */
static inline aw_writer_future aw_writer_shutdown(aw_writer *w) {
    return aw__writer(&aw_writer_shutdown_type, w, NULL, 0);
}

AW_C_END

#endif
