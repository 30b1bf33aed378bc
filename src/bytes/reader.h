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

/* Who reads now. Before the first poll, and when it is over. */
static inline bool aw__reader_enter(aw_reader *r, const void *user) {
    if (r->user && r->user != user) return false;
    r->user = user;
    return true;
}
static inline void aw__reader_leave(aw_reader *r, const void *user) {
    if (r->user == user) r->user = NULL;
}

#endif
