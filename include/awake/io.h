/* SPDX-License-Identifier: MIT
 *
 * awake/io.h: read and write without blocking a thread.
 *
 *     AW_AWAIT(self->io, aw_read(conn, buf, sizeof buf));   `out`: bytes; 0 at the end; or an error
 *     AW_AWAIT(self->io, aw_write(conn, buf, n));           may write fewer than n
 *     aw_close(conn);
 *
 * An aw_conn is anything that you can read bytes from and write bytes to: a socket, a pipe, or a
 * type of your own. Any thread may use it. Any number of operations may wait at once, in no order.
 * Buffers are borrowed until the operation has ended. */
#ifndef AWAKE_IO_H
#define AWAKE_IO_H

#include <sys/uio.h>

#include <awake/detail/waiter.h>
#include <awake/wait.h>

AW_C_BEGIN

typedef struct aw_conn aw_conn;
struct aw_io;

/* ---- Descriptors ----------------------------------------------------------------------------- */

/* Take over a descriptor that can be waited for: a socket, pipe, terminal, device, eventfd and so
 * on. It is made close-on-exec and non-blocking, and is closed with the connection. 0, or a
 * negative errno and the descriptor is still yours.
 *
 * -EPERM: a regular file, a directory or a disk. They cannot be waited for (epoll refuses them
 * too), and a read blocks the thread. Standard input may be one: `program < file`. Read such files
 * on another thread (awake/blocking.h); to send one, see aw_sendfile.
 *
 * O_NONBLOCK belongs to the open file, not to the descriptor. So while the connection is open,
 * other processes that share the file (a terminal, a shell's pipe) and other descriptors (dup) do
 * not block either. If this call had to set the flag, it is cleared when the last connection of
 * this process to the file is closed, unless the process ends before, or is the child of a fork.
 * Sockets keep the flag: processes that share them do not block either. */
AW_API int aw_conn_of_fd(aw_conn **c, int fd);
/* Wait for a descriptor that you do not own, with aw_readable and aw_writable. Its flags stay as
 * they are. It is not closed here; its owner may close it only after the last aw_conn_drop. */
AW_API int aw_conn_borrow(aw_conn **c, int fd);
/* The descriptor, still owned by the connection; -EBADF if it is not a descriptor. */
AW_API int aw_conn_fd(const aw_conn *c);

/* Close for all: operations that wait end with -EBADF, and so do later ones. Also drops one
 * reference. The descriptor is closed, and the peer notified, when the last operation and the last
 * reference are gone. NULL is allowed. */
AW_API void aw_close(aw_conn *c);

/* Take a reference. Release it with aw_conn_drop; the last release closes the connection. */
AW_API void aw_conn_keep(aw_conn *c);
AW_API void aw_conn_drop(aw_conn *c);

/* ---- Operations ------------------------------------------------------------------------------ */

/* aw-future: aw_io */
typedef struct aw_io {
    AW__WAITER; /* `out`: result of the call, or a negative errno; `wants`: which call */
    aw_conn *conn;
    void *data;
    size_t size;    /* in bytes, or number of buffers */
    void *driver;   /* private: the driver that it is submitted to */
    uint32_t flags; /* private: what it holds, and its progress */
    uint32_t index; /* private: its slot in the driver */
} aw_io;

AW_API extern const aw_future_type aw_io_type;

/* Values of `wants`. A type of your own handles the first five; the rest is for descriptors. */
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

/* `out` is the number of bytes, which may be fewer than asked for; 0 at the end of the data; or a
 * negative errno. If cancelled, nothing was read or written.
 *
 * Errors of all operations on descriptors, including accepts, connects and datagrams (awake/net.h,
 * awake/udp.h). From the library:
 *   -EBADF       the connection was closed, before or meanwhile (a reference keeps its memory:
 *                aw_conn_keep); or it is NULL
 *   -EOPNOTSUPP  this type of connection has no such call; a read or write of a borrowed descriptor
 *   -EINVAL      more than 1024 buffers
 *   -ESHUTDOWN   the runtime ended during the wait; you can use the connection with another runtime
 * Only when the operation has to wait:
 *   -ENXIO       no runtime: the thread is not in one, and has not entered one (aw_enter)
 *   -ENOTSUP     the runtime has its own way to sleep (awake/seam.h)
 *   -EACCES      the program may no longer use io_uring (see aw_io_counters)
 *   -EOWNERDEAD  in the child of a fork, the runtime is the parent's
 *   -ENOMEM, -EMFILE, -ENFILE, -ENOSPC
 *                no memory; no descriptor for the runtime to wait with; too many watches
 *                (/proc/sys/fs/epoll/max_user_watches)
 * From the kernel, all errors of recv(2), send(2), read(2) and write(2). Often:
 *   -ECONNRESET  the peer reset the connection; reported once, then reads are at the end
 *   -EPIPE       a write after the peer closed, or after aw_shutdown; no signal is raised
 *   -ETIMEDOUT   the peer does not answer (see aw_conn_keepalive); AW_TIMEOUT reports in its own
 *                `out`
 *   -EHOSTUNREACH, -ENETUNREACH, -ENETDOWN, -ENOBUFS, -EIO */
static inline aw_io aw_read(aw_conn *c, void *buf, size_t size) {
    return aw__io(c, AW_IO_READ, buf, size);
}
static inline aw_io aw_write(aw_conn *c, const void *buf, size_t size) {
    return aw__io(c, AW_IO_WRITE, buf, size);
}
/* Several buffers in one call; for descriptors at most 1024 (-EINVAL). The array is borrowed
 * too. */
static inline aw_io aw_readv(aw_conn *c, const struct iovec *parts, int count) {
    return aw__io(c, AW_IO_READV, parts, (size_t)count);
}
static inline aw_io aw_writev(aw_conn *c, const struct iovec *parts, int count) {
    return aw__io(c, AW_IO_WRITEV, parts, (size_t)count);
}

/* Stop writing: the peer reads to the end. You can still read. `out` is 0, also if nothing is left
 * to shut down: it was shut down before, or the peer reset the connection. Otherwise a negative
 * errno: -EBADF: closed, or NULL; -ENOTCONN: a socket that was never connected; -ENOTSOCK: not a
 * socket (a pipe); -EOPNOTSUPP: a borrowed descriptor. It never waits, and needs no runtime. */
static inline aw_io aw_shutdown(aw_conn *c) {
    return aw__io(c, AW_IO_SHUTDOWN, NULL, 0);
}

/* Wait until a read (or write) would not block; it may fail. `out` is 0. For libraries that make
 * the call themselves. You need not take all data: the next wait ends at once while there is more.
 * Descriptors only. */
static inline aw_io aw_readable(aw_conn *c) {
    return aw__io(c, AW_IO_READABLE, NULL, 0);
}
static inline aw_io aw_writable(aw_conn *c) {
    return aw__io(c, AW_IO_WRITABLE, NULL, 0);
}

/* ---- A connection type of your own ----------------------------------------------------------- */

typedef struct aw_conn_type {
    size_t self_size; /* of this struct, which may grow */
    const char *name;
    /* Like poll and cancel of a future; `out` is the result. -EOPNOTSUPP for unsupported calls. */
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
