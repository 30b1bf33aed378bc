/* SPDX-License-Identifier: MIT
 *
 * The buffer of a reader, for futures over one: fill it, take from it, one at a time. */
#ifndef AW_BYTES_READER_H
#define AW_BYTES_READER_H

#include <errno.h>
#include <string.h>

#include <awake/reader.h>

#include "bytes/calls.h"

static inline size_t aw__reader_size(const aw_reader *r) {
    return r->end - r->start;
}

/* The next call reads into the buffer, in which `need` bytes in all can lie one behind the other then; 0: whatever fits. */
static inline bool aw__reader_more(aw__calls *op, aw_reader *r, size_t need) {
    size_t size = aw__reader_size(r), room = r->capacity - r->end;
    if (r->start && (!size || r->capacity - r->start < need || room <= r->capacity / 4)) {
        memmove(r->buf, r->buf + r->start, size);
        r->start = 0;
        r->end = size;
    }
    if (r->end == r->capacity) return aw__calls_over(op, -EMSGSIZE); /* not the end */
    return aw__calls_read(op, r->conn, r->buf + r->end, r->capacity - r->end);
}

/* The result of such a call; 0 or an error. */
static inline int aw__reader_filled(aw_reader *r, int n) {
    if (n == 0) r->ended = true;
    if (n > 0) r->end += (size_t)n;
    return n < 0 && n != AW__CALLS_FIRST ? n : 0;
}

static inline void aw__reader_take(aw_reader_future *f, size_t size) {
    f->reader->start += size;
    f->done += size;
}
/* The last thing that it does: discarded, it gives them back, unless their place has been used since. */
static inline bool aw__reader_give(aw_reader_future *f, size_t size, ssize_t out) {
    aw__reader_take(f, size);
    f->back = size;
    f->turn = f->reader->turn;
    return aw__calls_over((aw__calls *)f, out);
}

/* Who reads now: before each poll, and with what it or a cancel answered. */
static inline bool aw__reader_enter(aw_reader *r, const void *user) {
    if (r->user == user) return true;
    if (r->user) return false;
    r->user = user;
    r->turn++;
    return true;
}
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
