/* SPDX-License-Identifier: MIT
 *
 * awake/reader.h: reading through a buffer: lines, parts with a delimiter, everything to the end.
 *
 *     char room[4096];
 *     aw_reader r = aw_reader_of(conn, room, sizeof room);
 *     while ((n = aw_await(aw_reader_line(&r))) > 0)             in a fiber; otherwise AW_AWAIT
 *         printf("%.*s\n", (int)r.item.size, r.item.data);
 *     n is 0 at the end, or a negative errno
 *
 * What was read and not taken stays in the buffer, also when the future that read it is cancelled or fails, and when
 * it finished and is discarded before anything else is read: the next one finds it. (Discarded later, it is lost: it
 * cannot come behind what followed it.) One task at a time; two at once get -EBUSY. The connection is borrowed; it is
 * written to as before. */
#ifndef AWAKE_READER_H
#define AWAKE_READER_H

#include <awake/bytes.h>

AW_C_BEGIN

typedef struct aw_reader {
    aw_conn *conn;
    aw_slice
        item; /* what the last line, part or frame was: it lies in the buffer, until the next call for this reader */
    bool terminated; /* its delimiter was there: only the last one may have none */
    bool ended;      /* nothing more comes from the connection */
    /* Private. */
    char *buf;
    size_t capacity, start, end; /* what is there is buf[start] to buf[end] */
    const void *user;            /* the future that reads now */
    size_t turn;                 /* counts who took from it: only the last one may give back */
    const aw_allocator *allocator;
} aw_reader;

/* With a buffer of the caller's, which is at least as long as the longest line or part, its delimiter included. Without any
 * (all zero) everything is -EINVAL. */
static inline aw_reader aw_reader_of(aw_conn *c, void *buf, size_t size) {
    aw_reader r = {c, {NULL, 0}, false, false, (char *)buf, size, 0, 0, NULL, 0, NULL};
    return r;
}
/* With a buffer of its own. 0 or -ENOMEM. aw_reader_free does not touch the connection, and may be called for any. */
AW_API int aw_reader_init(aw_reader *r, aw_conn *c, size_t size);
AW_API void aw_reader_free(aw_reader *r);

/* What is in the buffer now, without waiting; and: so many of it are taken. */
static inline aw_slice aw_reader_peek(const aw_reader *r) {
    aw_slice s = {r->buf + r->start, r->end - r->start};
    return s;
}
AW_API void aw_reader_consume(aw_reader *r, size_t size);

/* aw-future: aw_reader_future */
typedef struct aw_reader_future {
    AW__CALLS; /* `done`: bytes that were taken out of the reader */
    aw_reader *reader;
    char *data;
    size_t size; /* of data; or the limit */
    aw_bytes *into;
    size_t seen; /* private: so many bytes of the buffer have no delimiter */
    size_t back; /* private: what goes back into the buffer if nobody takes the output, */
    size_t turn; /* and it is still its turn */
    int delimiter;
    bool strip; /* private: a line: \r\n ends it, too */
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

/* Until at least so many bytes are there to be peeked at: `out` is how many are, fewer only at the end. -EMSGSIZE:
 * the buffer is smaller than that. */
static inline aw_reader_future aw_reader_fill(aw_reader *r, size_t least) {
    return aw__reader(&aw_reader_fill_type, r, NULL, least, NULL, 0, false);
}
/* As aw_read: some bytes, 0 at the end. What is at least as large as the buffer is read without it: then only `data`
 * has it, also when nobody takes the output. */
static inline aw_reader_future aw_reader_read(aw_reader *r, void *data, size_t size) {
    return aw__reader(&aw_reader_read_type, r, data, size, NULL, 0, false);
}
/* As aw_read_exact. What fits into the buffer is taken whole or not at all (`done` is `size` or 0). */
static inline aw_reader_future aw_reader_read_exact(aw_reader *r, void *data, size_t size) {
    return aw__reader(&aw_reader_read_exact_type, r, data, size, NULL, 0, false);
}

/* The bytes before the next `delimiter`, as r->item; the delimiter is taken too. `out`: 1; 0 at the end; -EMSGSIZE:
 * more than `limit`, or than the buffer can hold: nothing is taken then, and who wants to go on consumes some. What
 * comes before the end without a delimiter is an item as well. */
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

/* The same, appended to `into`, which is empty in the beginning: so an item may be longer than the buffer. `out`: 1;
 * 0 at the end; -EMSGSIZE when `into` would have more than `limit`; -ENOMEM. Cancelled, or after an error, what has
 * been taken is there: another one goes on with it. */
static inline aw_reader_future aw_reader_until_into(aw_reader *r, char delimiter, aw_bytes *into,
                                                    size_t limit) {
    return aw__reader(&aw_reader_gather_type, r, NULL, limit, into, (unsigned char)delimiter,
                      false);
}
static inline aw_reader_future aw_reader_line_into(aw_reader *r, aw_bytes *into, size_t limit) {
    return aw__reader(&aw_reader_gather_type, r, NULL, limit, into, '\n', true);
}
/* All that comes, appended. `out`: how many bytes this one has appended. -EMSGSIZE when there is more than fits
 * into `limit`, counted with what was in `into` before; -ENOMEM. */
static inline aw_reader_future aw_reader_read_to_end(aw_reader *r, aw_bytes *into, size_t limit) {
    return aw__reader(&aw_reader_gather_type, r, NULL, limit, into, -1, false);
}

AW_C_END

#endif
