/* SPDX-License-Identifier: MIT
 *
 * awake/bytes.h: complete writes, exact reads, and a byte buffer that grows.
 *
 *     AW_AWAIT(self->io, aw_write_all(conn, text, length));      `out`: length, or a negative errno
 *     AW_AWAIT(self->io, aw_read_exact(conn, header, 16));       -ENODATA: the input ended before
 *
 * They work on every aw_conn. The member `done` counts the bytes so far, also after an error or a
 * cancel. Continue from there with a new future, and no byte is lost or repeated. (In a fiber keep
 * the future in a variable, await it with aw_await_future, and read its `done` afterwards.) */
#ifndef AWAKE_BYTES_H
#define AWAKE_BYTES_H

#include <sys/types.h>

#include <awake/alloc.h>
#include <awake/detail/bytes.h>
#include <awake/io.h>

AW_C_BEGIN

/* ---- Buffers --------------------------------------------------------------------------------- */

/* Borrowed bytes. */
typedef struct aw_slice {
    char *data;
    size_t size;
} aw_slice;

/* A buffer that grows; all zero is empty. Memory comes from the runtime that is current when the
 * buffer first needs some. One task at a time. */
typedef struct aw_bytes {
    char *data;
    size_t size, capacity;
    const aw_allocator *allocator; /* private */
} aw_bytes;

#define AW_BYTES_INIT                                                                              \
    { NULL, 0, 0, NULL }

/* Space for `more` bytes from data[size] on. 0, or -ENOMEM and nothing has changed. */
AW_API int aw_bytes_reserve(aw_bytes *b, size_t more);
AW_API int aw_bytes_append(aw_bytes *b, const void *data, size_t size);
/* Empties it; you may use it again. */
AW_API void aw_bytes_free(aw_bytes *b);

/* ---- Complete transfers ---------------------------------------------------------------------- */

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
    size_t count, offset;   /* parts left, and bytes done of the first */
    struct iovec window[8]; /* private: used while the first part is incomplete */
} aw_transferv;

AW_API extern const aw_future_type aw_write_all_type;
AW_API extern const aw_future_type aw_writev_all_type;
AW_API extern const aw_future_type aw_read_exact_type;

/* `out`: `size`, or a negative errno; -EIO: the connection reports that it wrote nothing. The data
 * is borrowed until this has ended. */
static inline aw_transfer aw_write_all(aw_conn *c, const void *data, size_t size) {
    aw_transfer t = {AW__CALLS_INIT(&aw_write_all_type, c), (char *)(uintptr_t)data, size};
    return t;
}
/* The same for several buffers in sequence. The array is borrowed too, and not changed. */
static inline aw_transferv aw_writev_all(aw_conn *c, const struct iovec *parts, int count) {
    aw_transferv t = {AW__CALLS_INIT(&aw_writev_all_type, c), parts, (size_t)count, 0, {{NULL, 0}}};
    return t;
}
/* `out`: `size`; -ENODATA: the input ended before, after `done` bytes (0: it was at its end
 * already). */
static inline aw_transfer aw_read_exact(aw_conn *c, void *data, size_t size) {
    aw_transfer t = {AW__CALLS_INIT(&aw_read_exact_type, c), (char *)data, size};
    return t;
}

AW_C_END

#endif
