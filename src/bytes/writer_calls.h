/* SPDX-License-Identifier: MIT
 *
 * The buffer of a writer, for the futures that add to it and empty it. One future at a time. */
#ifndef AW_BYTES_WRITER_CALLS_H
#define AW_BYTES_WRITER_CALLS_H

#include <errno.h>

#include <awake/writer.h>

#include "bytes/calls.h"

static inline bool aw__writer_is_high(const aw_writer *w) {
    return aw_writer_size(w) > w->high || aw_writer_size(w) == w->capacity;
}

/* The next call writes from the buffer. */
static inline bool aw__writer_write_out(aw__calls *op, aw_writer *w) {
    return aw__calls_write(op, w->conn, w->buf + w->start, aw_writer_size(w));
}

/* Accounts for such a call: 0 or a negative errno. */
static inline int aw__writer_wrote(aw_writer *w, int n) {
    if (n == AW__CALLS_FIRST) return 0;
    if (n <= 0) return n ? n : -EIO;
    w->start += (size_t)n;
    if (w->start == w->end) w->start = w->end = 0;
    return 0;
}

/* Copies as much as fits, and returns how much that is. */
size_t aw__writer_add(aw_writer *w, const void *data, size_t size);

/* One future at a time: -EBUSY for another. */
aw_poll aw__writer_poll(aw_future *self, aw_cx *cx, aw__calls_next *next);
aw_poll aw__writer_cancel(aw_future *self, aw_cx *cx, aw__calls_next *next);

#define AW__WRITER_TYPE(kind, type_name, title)                                                    \
    static aw_poll kind##_poll(aw_future *self, aw_cx *cx) {                                       \
        return aw__writer_poll(self, cx, kind##_next);                                             \
    }                                                                                              \
    static aw_poll kind##_cancel(aw_future *self, aw_cx *cx) {                                     \
        return aw__writer_cancel(self, cx, kind##_next);                                           \
    }                                                                                              \
    const aw_future_type type_name = {AW_TYPE_OF(aw_writer_future, title),                         \
                                      .flags = AW_OUT_ERRNO,                                       \
                                      .poll = kind##_poll,                                         \
                                      .cancel = kind##_cancel,                                     \
                                      .child = aw__calls_child,                                    \
                                      .describe = aw__calls_describe}

#endif
