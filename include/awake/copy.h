/* SPDX-License-Identifier: MIT
 *
 * awake/copy.h: from one connection to another, or from a file to a connection.
 *
 *     aw_reader r = aw_reader_of(from, room, sizeof room);
 *     AW_AWAIT(self->copy, aw_copy(&r, to));                 `out`: bytes, all until the end, or a negative errno
 *
 *     AW_AWAIT(self->both, aw_copy_bidirectional(&client, &server));    a proxy: both.there.done, both.back.done
 *
 * The reader has the buffer, and what it has already is copied first. Cancelled, or after an error, what was read and
 * not written is still in it: nothing is lost, and another copy goes on. `done` counts what was written.
 *
 * Between two descriptors of the system, stream sockets or pipes, much is moved within the kernel (splice), as long as it
 * is faster: after the first 256 KiB, with a buffer of at least 32 KiB, and with two descriptors more for a pipe while it
 * lasts. Messages are read and written one by one, cut to the size of the buffer. */
#ifndef AWAKE_COPY_H
#define AWAKE_COPY_H

#include <awake/group.h>
#include <awake/reader.h>

AW_C_BEGIN

/* ---- Until the end ---------------------------------------------------------------------------- */

/* aw-future: aw_copy_future */
typedef struct aw_copy_future {
    AW__CALLS; /* `done`: bytes that were written */
    aw_reader *reader;
    aw_conn *to;
    bool at_source; /* an error is that of reading */
    /* Private. */
    bool half_close, kept;
    uint8_t doing;
    int pipe[2];
    size_t piped; /* bytes in the pipe */
} aw_copy_future;

AW_API extern const aw_future_type aw_copy_type;

static inline aw_copy_future aw__copy(aw_reader *from, aw_conn *to, bool half_close) {
    aw_copy_future f = {AW__CALLS_INIT(&aw_copy_type, from->conn),
                        from,
                        to,
                        false,
                        half_close,
                        false,
                        0,
                        {-1, -1},
                        0};
    return f;
}

/* `to` is not shut down at the end. */
static inline aw_copy_future aw_copy(aw_reader *from, aw_conn *to) {
    return aw__copy(from, to, false);
}

/* ---- Both ways -------------------------------------------------------------------------------- */

/* aw-future: aw_copy_bidirectional_future */
typedef struct aw_copy_bidirectional_future {
    AW__GROUP_HEAD;
    uint32_t at[2];
    aw_copy_future there, back;
} aw_copy_bidirectional_future;

/* From each of the two to the connection of the other. The end of one is passed on (aw_shutdown) and the other goes
 * on; an error ends both. `out`: 0 when both have ended, or the first error. Neither connection is closed. */
static inline aw_copy_bidirectional_future aw_copy_bidirectional(aw_reader *a, aw_reader *b) {
    aw_copy_bidirectional_future f = {AW_FUTURE_INIT(&aw_try_join_type),
                                      0,
                                      0,
                                      2,
                                      0,
                                      0,
                                      0,
                                      {offsetof(aw_copy_bidirectional_future, there),
                                       offsetof(aw_copy_bidirectional_future, back)},
                                      aw__copy(a, b->conn, true),
                                      aw__copy(b, a->conn, true)};
    return f;
}

/* ---- From a file ------------------------------------------------------------------------------ */

/* aw-future: aw_sendfile_future */
typedef struct aw_sendfile_future {
    AW__CALLS;
    int fd;
    off_t offset;
    size_t size;
} aw_sendfile_future;

AW_API extern const aw_future_type aw_sendfile_type;

/* Bytes of a file, from `offset` on, to a descriptor's connection, without copying them here. `out`: how many, which
 * are fewer than `size` when the file ends before; -EOPNOTSUPP when `to` is no descriptor of the system; -EINVAL when
 * the file cannot do that; or another negative errno. The file's own position is not used. It is borrowed. What the
 * disk does not have in memory the thread waits for, 128 KiB at a time. */
static inline aw_sendfile_future aw_sendfile(aw_conn *to, int fd, off_t offset, size_t size) {
    aw_sendfile_future f = {AW__CALLS_INIT(&aw_sendfile_type, to), fd, offset, size};
    return f;
}

AW_C_END

#endif
