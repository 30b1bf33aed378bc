/* SPDX-License-Identifier: MIT
 *
 * awake/reader.h: buffered reading: lines, parts with a delimiter, everything to the end.
 *
 *     char buf[4096];
 *     aw_reader r = aw_reader_of(conn, buf, sizeof buf);
 *     while ((n = aw_await(aw_reader_line(&r))) > 0)             in a fiber; otherwise AW_AWAIT
 *         printf("%.*s\n", (int)r.item.size, r.item.data);
 *     n is 0 at the end, or a negative errno
 *
 * Input that is not taken stays in the buffer, also when a future is cancelled or fails. If you
 * discard a finished future before you use the reader again, its input is put back. (Later it is
 * lost: it cannot go behind newer input.) One task at a time; a second future gets -EBUSY. The
 * connection is borrowed. You can still write to it. */
#ifndef AWAKE_READER_H
#define AWAKE_READER_H

#include <awake/bytes.h>

AW_C_BEGIN

typedef struct aw_reader {
    aw_conn *conn;
    /* The last line, part or frame. It is in the buffer, until the next call for this reader. */
    aw_slice item;
    bool terminated; /* `item` had a delimiter; only the last one may have none */
    bool ended;      /* the connection is at its end */
    /* Private. */
    char *buf;
    size_t capacity, start, end; /* unread input: buf[start] to buf[end] */
    const void *user;            /* the future that reads now */
    size_t epoch;                /* changes with each use; until then a discard puts back */
    const aw_allocator *allocator;
} aw_reader;

/* With your buffer. It must hold the longest line or part with its delimiter. Without a buffer (all
 * zero) every future gives -EINVAL. */
static inline aw_reader aw_reader_of(aw_conn *c, void *buf, size_t size) {
    aw_reader r = {c, {NULL, 0}, false, false, (char *)buf, size, 0, 0, NULL, 0, NULL};
    return r;
}
/* With an allocated buffer. 0 or -ENOMEM. aw_reader_free works for any reader, and does not touch
 * the connection. */
AW_API int aw_reader_init(aw_reader *r, aw_conn *c, size_t size);
AW_API void aw_reader_free(aw_reader *r);

/* Peek: the bytes in the buffer, without waiting. Consume: take `size` of them. */
static inline aw_slice aw_reader_peek(const aw_reader *r) {
    aw_slice s = {r->buf + r->start, r->end - r->start};
    return s;
}
AW_API void aw_reader_consume(aw_reader *r, size_t size);

/* aw-future: aw_reader_future */
typedef struct aw_reader_future {
    AW__CALLS; /* `done`: bytes taken from the reader */
    aw_reader *reader;
    char *data;
    size_t size; /* of `data`, or the limit */
    aw_bytes *into;
    size_t seen;  /* private: bytes searched without a delimiter */
    size_t back;  /* private: bytes that a discard puts back, */
    size_t epoch; /* private: if the reader is still in this epoch */
    int delimiter;
    bool strip; /* private: a line, which may end in \r\n */
} aw_reader_future;

AW_API extern const aw_future_type aw_reader_fill_type;
AW_API extern const aw_future_type aw_reader_read_type;
AW_API extern const aw_future_type aw_reader_read_exact_type;
AW_API extern const aw_future_type aw_reader_until_type;
AW_API extern const aw_future_type aw_reader_gather_type;

/* Private. */
static inline aw_reader_future aw__reader(const aw_future_type *type, aw_reader *r, void *data,
                                          size_t size, aw_bytes *into, int delimiter, bool strip) {
    aw_reader_future f = {
        AW__CALLS_INIT(type, r->conn), r, (char *)data, size, into, 0, 0, 0, delimiter, strip};
    return f;
}

/* Waits until at least `min` bytes can be peeked at. `out` is the number, less than `min` only at
 * the end. -EMSGSIZE: the buffer is smaller. */
static inline aw_reader_future aw_reader_fill(aw_reader *r, size_t min) {
    return aw__reader(&aw_reader_fill_type, r, NULL, min, NULL, 0, false);
}
/* As aw_read: some bytes, 0 at the end. If `size` is at least that of the buffer, it reads directly
 * into `data`; a discard then does not put the bytes back. */
static inline aw_reader_future aw_reader_read(aw_reader *r, void *data, size_t size) {
    return aw__reader(&aw_reader_read_type, r, data, size, NULL, 0, false);
}
/* As aw_read_exact. If `size` fits into the buffer, it takes all or nothing (`done` is `size` or
 * 0). */
static inline aw_reader_future aw_reader_read_exact(aw_reader *r, void *data, size_t size) {
    return aw__reader(&aw_reader_read_exact_type, r, data, size, NULL, 0, false);
}

/* The bytes before the next `delimiter`, as r->item; the delimiter is taken too. `out`: 1; 0 at the
 * end; -EMSGSIZE: more than `limit`, or than the buffer holds; nothing is taken, and you must
 * consume some to go on. Bytes between the last delimiter and the end are an item too. */
static inline aw_reader_future aw_reader_until(aw_reader *r, char delimiter, size_t limit) {
    return aw__reader(&aw_reader_until_type, r, NULL, limit, NULL, (unsigned char)delimiter, false);
}
/* A line, without its \n or \r\n. */
static inline aw_reader_future aw_reader_line_max(aw_reader *r, size_t limit) {
    return aw__reader(&aw_reader_until_type, r, NULL, limit, NULL, '\n', true);
}
static inline aw_reader_future aw_reader_line(aw_reader *r) {
    return aw_reader_line_max(r, SIZE_MAX);
}

/* The same, appended to `into`, which must be empty at first. So an item may be longer than the
 * buffer. `out`: 1; 0 at the end; -EMSGSIZE: `into` would exceed `limit`; -ENOMEM. After a cancel
 * or an error `into` has what was taken: call again to go on. */
static inline aw_reader_future aw_reader_until_into(aw_reader *r, char delimiter, aw_bytes *into,
                                                    size_t limit) {
    return aw__reader(&aw_reader_gather_type, r, NULL, limit, into, (unsigned char)delimiter,
                      false);
}
static inline aw_reader_future aw_reader_line_into(aw_reader *r, aw_bytes *into, size_t limit) {
    return aw__reader(&aw_reader_gather_type, r, NULL, limit, into, '\n', true);
}
/* Everything up to the end, appended. `out`: bytes that this call appended. -EMSGSIZE: `into`, with
 * what it had before, would exceed `limit`; -ENOMEM. */
static inline aw_reader_future aw_reader_read_to_end(aw_reader *r, aw_bytes *into, size_t limit) {
    return aw__reader(&aw_reader_gather_type, r, NULL, limit, into, -1, false);
}

AW_C_END

#endif
