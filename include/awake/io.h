/* SPDX-License-Identifier: MIT
 *
 * awake/io.h: bytes in and out, without blocking a thread.
 *
 *     AW_AWAIT(self->io, aw_read(conn, buf, sizeof buf));       `out`: bytes; 0 at the end; or a negative errno
 *     AW_AWAIT(self->io, aw_write(conn, buf, n));               maybe fewer than asked for
 *     aw_close(conn);
 *
 * An aw_conn is anything that bytes can be read from and written to: a socket, a pipe, whatever somebody
 * implements. Any thread; any number of operations may wait at once, in no order. Buffers are
 * borrowed until the operation has ended. */
#ifndef AWAKE_IO_H
#define AWAKE_IO_H

#include <sys/uio.h>

#include <awake/wait.h>

AW_C_BEGIN

typedef struct aw_conn aw_conn;
struct aw_io;

/* ---- Descriptors ------------------------------------------------------------------------------ */

/* Take over a descriptor that can wait (a socket, a pipe, a terminal): it is made non-blocking and close-on-exec.
 * 0 or a negative errno: then it is still the caller's. */
AW_API int aw_conn_of_fd(aw_conn **c, int fd);
/* Wait for a descriptor that is somebody else's (aw_readable, aw_writable), and whose flags stay as they are. It is
 * not closed here; its owner closes it only after the last aw_conn_drop. */
AW_API int aw_conn_borrow(aw_conn **c, int fd);
/* Its number, or -EBADF when it is not a descriptor. Still the connection's. */
AW_API int aw_conn_fd(const aw_conn *c);

/* What waits ends with -EBADF, and so does what comes later. One reference less: see aw_conn_keep. A descriptor goes
 * back to the system, and the other end is told, when the last operation on it and the last reference are gone. NULL
 * is nothing to close. */
AW_API void aw_close(aw_conn *c);

/* One more who uses it: as many aw_conn_drop follow; with the last it is closed. aw_close closes it for all. */
AW_API void aw_conn_keep(aw_conn *c);
AW_API void aw_conn_drop(aw_conn *c);

/* ---- Operations ------------------------------------------------------------------------------- */

/* aw-future: aw_io */
typedef struct aw_io {
    AW__WAITER; /* `out`: what the call returns, or a negative errno; `wants`: which call */
    aw_conn *conn;
    void *data;
    size_t size;    /* bytes, or parts */
    void *driver;   /* private: where it is in the system's hands */
    uint32_t has;   /* private: what is to be given back, and how far it is */
    uint32_t index; /* private: its place there */
} aw_io;

AW_API extern const aw_future_type aw_io_type;

/* What `wants` says. A kind of one's own answers the first five; the others are calls of descriptors. */
enum {
    AW_IO_READ,
    AW_IO_WRITE,
    AW_IO_READV,
    AW_IO_WRITEV,
    AW_IO_SHUTDOWN,
    AW_IO_READABLE,
    AW_IO_WRITABLE,
    AW_IO_ACCEPT,  /* `out`: the new descriptor */
    AW_IO_CONNECT, /* `data`, `size`: the address */
    AW_IO_RECVMSG, /* `data`: a struct msghdr; `size`: flags */
    AW_IO_SENDMSG
};

static inline aw_io aw__io(aw_conn *c, uint32_t what, const void *data, size_t size) {
    aw_io io = {AW__WAITER_INIT(&aw_io_type, what), c, (void *)(uintptr_t)data, size, NULL, 0, 0};
    return io;
}

/* `out` is how many bytes, which may be fewer than asked for; 0 at the end of what can be read; or a negative errno:
 * -EBADF when the connection is closed, or NULL; -EACCES when the program was forbidden to use io_uring any more (see
 * aw_io_counters). Cancelled, nothing was read or written. */
static inline aw_io aw_read(aw_conn *c, void *buf, size_t size) {
    return aw__io(c, AW_IO_READ, buf, size);
}
static inline aw_io aw_write(aw_conn *c, const void *buf, size_t size) {
    return aw__io(c, AW_IO_WRITE, buf, size);
}
/* Several buffers at once, of descriptors at most 1024 (-EINVAL); the array is borrowed too. */
static inline aw_io aw_readv(aw_conn *c, const struct iovec *parts, int count) {
    return aw__io(c, AW_IO_READV, parts, (size_t)count);
}
static inline aw_io aw_writev(aw_conn *c, const struct iovec *parts, int count) {
    return aw__io(c, AW_IO_WRITEV, parts, (size_t)count);
}

/* No more will be written: the other end reads to its end. Reading goes on. */
static inline aw_io aw_shutdown(aw_conn *c) {
    return aw__io(c, AW_IO_SHUTDOWN, NULL, 0);
}

/* 0 when a read, or a write, would not block just now (it may give an error); for libraries that do the call
 * themselves, and need not take all there is: the next wait is over at once while there is more. Descriptors only. */
static inline aw_io aw_readable(aw_conn *c) {
    return aw__io(c, AW_IO_READABLE, NULL, 0);
}
static inline aw_io aw_writable(aw_conn *c) {
    return aw__io(c, AW_IO_WRITABLE, NULL, 0);
}

/* ---- A kind of one's own ---------------------------------------------------------------------- */

typedef struct aw_conn_type {
    size_t self_size; /* of this struct: it may grow */
    const char *name;
    /* As poll and cancel of a future: `out` has the result. -EOPNOTSUPP for what it cannot do. */
    aw_poll (*poll)(aw_io *op, aw_cx *cx);
    aw_poll (*cancel)(aw_io *op, aw_cx *cx);
    void (*close)(aw_conn *c);
    void (*keep)(aw_conn *c);
    void (*drop)(aw_conn *c);
} aw_conn_type;

struct aw_conn {
    const aw_conn_type *type;
};

AW_C_END

#endif
