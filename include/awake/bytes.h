/* SPDX-License-Identifier: MIT
 *
 * awake/bytes.h: all the bytes, and not only some: whole writes, exact reads, a buffer that grows.
 *
 *     AW_AWAIT(self->io, aw_write_all(conn, text, length));      `out`: length, or a negative errno
 *     AW_AWAIT(self->io, aw_read_exact(conn, header, 16));       -ENODATA: it ended before
 *
 * They work on every aw_conn. How far one came is its member `done`, which is right at any time: after an error, and
 * when it was cancelled. Who goes on from there with a new one loses nothing and repeats nothing. (In a fiber: make
 * the future a variable and await it with aw_await_future; its `done` is there afterwards.) */
#ifndef AWAKE_BYTES_H
#define AWAKE_BYTES_H

#include <sys/types.h>

#include <awake/alloc.h>
#include <awake/io.h>

AW_C_BEGIN

/* ---- Some bytes ------------------------------------------------------------------------------- */

/* Bytes that are somebody else's. */
typedef struct aw_slice {
    char *data;
    size_t size;
} aw_slice;

/* Bytes that grow: all zero is an empty one. Memory comes from the runtime that is current when it is first needed.
 * One task at a time. */
typedef struct aw_bytes {
    char *data;
    size_t size, capacity;
    const aw_allocator *allocator; /* private */
} aw_bytes;

#define AW_BYTES_INIT                                                                              \
    { NULL, 0, 0, NULL }

/* Room for so many more, which follow data[size]. 0; -ENOMEM, and nothing has changed. */
AW_API int aw_bytes_reserve(aw_bytes *b, size_t more);
AW_API int aw_bytes_append(aw_bytes *b, const void *data, size_t size);
/* It is empty again, and may be used again. */
AW_API void aw_bytes_free(aw_bytes *b);

/* ---- Whole transfers -------------------------------------------------------------------------- */

/* Private: what all futures have that make one call of a connection after the other. */
#define AW__CALLS                                                                                  \
    aw_future future;                                                                              \
    ssize_t out;                                                                                   \
    size_t done;   /* bytes, at any time */                                                        \
    aw_conn *conn; /* it is kept from the first call to the end */                                 \
    aw_io io       /* the call that it waits for */

#define AW__CALLS_INIT(type, conn)                                                                 \
    AW_FUTURE_INIT(type), 0, 0, (conn), {                                                          \
        AW__WAITER_INIT(NULL, 0), NULL, NULL, 0, NULL, 0, 0                                        \
    }

/* aw-future: aw_transfer */
typedef struct aw_transfer {
    AW__CALLS;
    char *data;
    size_t size;
} aw_transfer;

/* aw-future: aw_transferv */
typedef struct aw_transferv {
    AW__CALLS;
    const struct iovec *parts;
    size_t count, offset;   /* parts that are left, and what is done of the first one */
    struct iovec window[8]; /* private: while the first part is done in part */
} aw_transferv;

AW_API extern const aw_future_type aw_write_all_type;
AW_API extern const aw_future_type aw_writev_all_type;
AW_API extern const aw_future_type aw_read_exact_type;

/* `out`: all of them, that is `size`, or a negative errno. The buffer is borrowed until it has ended. -EIO: the
 * connection says that it wrote nothing. */
static inline aw_transfer aw_write_all(aw_conn *c, const void *data, size_t size) {
    aw_transfer t = {AW__CALLS_INIT(&aw_write_all_type, c), (char *)(uintptr_t)data, size};
    return t;
}
/* The same of several buffers, one after the other. The array is borrowed too, and not changed. */
static inline aw_transferv aw_writev_all(aw_conn *c, const struct iovec *parts, int count) {
    aw_transferv t = {AW__CALLS_INIT(&aw_writev_all_type, c), parts, (size_t)count, 0, {{NULL, 0}}};
    return t;
}
/* `out`: `size`; -ENODATA when it ends before, whose first `done` bytes are there (0: it had ended already). */
static inline aw_transfer aw_read_exact(aw_conn *c, void *data, size_t size) {
    aw_transfer t = {AW__CALLS_INIT(&aw_read_exact_type, c), (char *)data, size};
    return t;
}

AW_C_END

#endif
