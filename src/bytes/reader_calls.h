/* SPDX-License-Identifier: MIT
 *
 * The buffer of a reader, for the futures that fill it and take from it. One future at a time. */
#ifndef AW_BYTES_READER_CALLS_H
#define AW_BYTES_READER_CALLS_H

#include <errno.h>
#include <string.h>

#include <awake/reader.h>

#include "bytes/calls.h"

static inline size_t aw__reader_size(const aw_reader *r) {
    return r->end - r->start;
}

/* The next call reads into the buffer. The data moves to the front if `need` contiguous bytes would
 * not fit otherwise, or if little space is left behind it. */
static inline bool aw__reader_read_more(aw__calls *op, aw_reader *r, size_t need) {
    size_t size = aw__reader_size(r), space = r->capacity - r->end;
    if (r->start && (!size || r->capacity - r->start < need || space <= r->capacity / 4)) {
        memmove(r->buf, r->buf + r->start, size);
        r->start = 0;
        r->end = size;
    }
    /* A read of 0 bytes would look like the end. */
    if (r->end == r->capacity) return aw__calls_finish(op, -EMSGSIZE);
    return aw__calls_read(op, r->conn, r->buf + r->end, r->capacity - r->end);
}

/* Accounts for such a call: 0 or a negative errno. */
static inline int aw__reader_filled(aw_reader *r, int n) {
    if (n == 0) r->ended = true;
    if (n > 0) r->end += (size_t)n;
    return n < 0 && n != AW__CALLS_FIRST ? n : 0;
}

static inline void aw__reader_take(aw_reader_future *f, size_t size) {
    f->reader->start += size;
    f->done += size;
}
/* Takes the last bytes and finishes. A discard returns them, unless the reader was used since. */
static inline bool aw__reader_deliver(aw_reader_future *f, size_t size, ssize_t out) {
    aw__reader_take(f, size);
    f->back = size;
    f->epoch = f->reader->epoch;
    return aw__calls_finish((aw__calls *)f, out);
}

/* Before each poll: `user` becomes the future that reads. False: another future reads. */
static inline bool aw__reader_enter(aw_reader *r, const void *user) {
    if (r->user == user) return true;
    if (r->user) return false;
    r->user = user;
    r->epoch++;
    return true;
}
/* After each poll and cancel: `user` does not read any more once it has ended. */
static inline aw_poll aw__reader_leave(aw_poll answer, aw_reader *r, const void *user) {
    if (answer != AW_PENDING && r->user == user) r->user = NULL;
    return answer;
}

aw_poll aw__reader_poll(aw_future *self, aw_cx *cx, aw__calls_next *next);
aw_poll aw__reader_cancel(aw_future *self, aw_cx *cx, aw__calls_next *next);
void aw__reader_discard(aw_future *self);

#define AW__READER_TYPE(kind, type_name, title)                                                    \
    static aw_poll kind##_poll(aw_future *self, aw_cx *cx) {                                       \
        return aw__reader_poll(self, cx, kind##_next);                                             \
    }                                                                                              \
    static aw_poll kind##_cancel(aw_future *self, aw_cx *cx) {                                     \
        return aw__reader_cancel(self, cx, kind##_next);                                           \
    }                                                                                              \
    const aw_future_type type_name = {AW_TYPE_OF(aw_reader_future, title),                         \
                                      .flags = AW_OUT_ERRNO,                                       \
                                      .poll = kind##_poll,                                         \
                                      .cancel = kind##_cancel,                                     \
                                      .discard = aw__reader_discard,                               \
                                      .child = aw__calls_child,                                    \
                                      .describe = aw__calls_describe}

#endif
