/* SPDX-License-Identifier: MIT
 *
 * awake/copy.h: copy from a connection or a file to a connection.
 *
 *     aw_reader r = aw_reader_of(from, buf, sizeof buf);
 *     AW_AWAIT(self->copy, aw_copy(&r, to));             `out`: bytes, or a negative errno
 *
 *     AW_AWAIT(self->both, aw_copy_bidirectional(&client, &server));    a proxy
 *
 * The copy uses the reader's buffer, and starts with what is in it. After a cancel or an error,
 * input that was not written is still in the buffer: another copy continues without loss. `done`
 * counts the bytes written (of a proxy, both.there.done and both.back.done).
 *
 * Between descriptors (stream sockets or pipes) large amounts are moved within the kernel (splice),
 * as long as that is faster: after the first 256 KiB, with a buffer of at least 32 KiB, and with
 * two extra descriptors for a pipe meanwhile. Messages are copied one by one, cut to the size of
 * the buffer. */
#ifndef AWAKE_COPY_H
#define AWAKE_COPY_H

#include <awake/group.h>
#include <awake/reader.h>

AW_C_BEGIN

/* ---- One direction --------------------------------------------------------------------------- */

/* aw-future: aw_copy_future */
typedef struct aw_copy_future {
    AW__CALLS; /* `done`: bytes written */
    aw_reader *reader;
    aw_conn *to;
    bool at_source; /* the error came from reading */
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

/* ---- Both directions ------------------------------------------------------------------------- */

/* aw-future: aw_copy_bidirectional_future */
typedef struct aw_copy_bidirectional_future {
    AW__GROUP_HEAD;
    uint32_t at[2];
    aw_copy_future there, back;
} aw_copy_bidirectional_future;

/* From each reader to the connection of the other. The end of one direction is passed on
 * (aw_shutdown), and the other continues. An error ends both. `out`: 0 at the end of both, or the
 * first error. Neither connection is closed. */
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

/* ---- From a file ----------------------------------------------------------------------------- */

/* aw-future: aw_sendfile_future */
typedef struct aw_sendfile_future {
    AW__CALLS;
    int fd;
    off_t offset;
    size_t size;
} aw_sendfile_future;

AW_API extern const aw_future_type aw_sendfile_type;

/* Send a file from `offset` on to a descriptor's connection, without copying it through your
 * program. `out`: bytes, fewer than `size` if the file ends before; -EOPNOTSUPP: `to` is not a
 * descriptor; -EINVAL: the file does not support it; or another negative errno. The file is
 * borrowed, and its position is not used. If data is not in memory, the thread waits for the disk,
 * 128 KiB at a time. */
static inline aw_sendfile_future aw_sendfile(aw_conn *to, int fd, off_t offset, size_t size) {
    aw_sendfile_future f = {AW__CALLS_INIT(&aw_sendfile_type, to), fd, offset, size};
    return f;
}

AW_C_END

#endif
