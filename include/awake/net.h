/* SPDX-License-Identifier: MIT
 *
 * awake/net.h: listen, accept and connect.
 *
 *     aw_listener *l;
 *     int error = aw_listen(&l, &addr, NULL);
 *     for (;;) {
 *         AW_AWAIT(self->accept, aw_accept(l, &self->conn));
 *         if (self->accept.out < 0) break;                          the listener was closed
 *         aw_task_drop(aw_spawn(AW_CALL(serve, .conn = self->conn)));
 *     }
 *
 *     AW_AWAIT(self->connect, aw_connect_host(&self->conn, "example.org", 80));
 *
 * Accepts and connects give you an aw_conn: see awake/io.h. TCP (IPv4, IPv6) and Unix streams work
 * alike: the address selects the protocol. To read and write in two tasks, give each a reference:
 * one aw_conn_keep, two aw_conn_drop.
 *
 * All descriptors are close-on-exec from creation, and no call raises SIGPIPE. Unlike the kernel's
 * default, TCP sends small writes at once (TCP_NODELAY). If you write in small pieces, gather them
 * first (aw_writev, awake/writer.h), or turn the option off.
 *
 * Drop dead peers yourself:
 *   - Put a timeout around writes as well as reads (AW_AWAIT_FOR, aw_await_for). A write waits
 *     forever for a live peer that does not read. If the peer is gone, it waits up to minutes,
 *     until the kernel retries and gets a reset. Set a small send buffer (aw_conn_buffers): the
 *     kernel wakes a writer only when a third of the buffer is free, and the buffer may grow to 4
 *     MB.
 *   - If a peer may be silent for long, turn on aw_conn_keepalive. Without it a read never learns
 *     that the peer's machine is gone.
 *   - After a timed-out write use aw_conn_abort: after aw_close the kernel tries to send the rest
 *     for minutes. To close and let the peer read everything, use aw_linger, which has a
 *     timeout. */
#ifndef AWAKE_NET_H
#define AWAKE_NET_H

#include <awake/addr.h>
#include <awake/detail/net.h>
#include <awake/io.h>
#include <awake/resolve.h>
#include <awake/semaphore.h>
#include <awake/time.h>
#include <awake/timeout.h>

AW_C_BEGIN

/* ---- Listening ------------------------------------------------------------------------------- */

/* A listening socket. It cannot be read or written. */
typedef struct aw_listener aw_listener;

/* 0 means the default, for every option. Start with AW_LISTEN_OPTIONS or, in C, write the options
 * in place:
 *     aw_listen(&l, &addr, AW_LISTEN(.max_connections = 100)) */
typedef struct aw_listen_options {
    size_t self_size; /* sizeof(aw_listen_options): the struct may grow */
    int backlog;      /* pending connections; default: the kernel's limit */
    /* Open accepted connections, until their last reference is dropped; default: no limit. */
    uint32_t max_connections;
    /* No SO_REUSEADDR: -EADDRINUSE also while old connections of the address linger. */
    bool no_reuse_addr;
    bool reuse_port;    /* several listeners share the port: see aw_listen_each */
    bool v6_only;       /* an IPv6 address does not accept IPv4 */
    bool nagle;         /* connections delay small writes (no TCP_NODELAY) */
    bool seqpacket;     /* Unix: SOCK_SEQPACKET, messages instead of a stream */
    bool replace_stale; /* Unix: take over a path that no socket listens on any more */
    /* Accept this many connections in advance: see below. With max_connections: -EINVAL. */
    uint32_t accept_ahead;
} aw_listen_options;

#define AW_LISTEN_OPTIONS                                                                          \
    { sizeof(aw_listen_options), 0, 0, false, false, false, false, false, false, 0 }
#define AW_LISTEN(...) (&(aw_listen_options){.self_size = sizeof(aw_listen_options), __VA_ARGS__})

/* Accepting ahead, with io_uring: one multishot operation accepts connections until `accept_ahead`
 * of them are queued in your program. That saves CPU time when many connections come and go. But
 * the peer sees a queued connection as accepted, it waits in your program instead of the kernel,
 * and it is closed with the listener. max_connections could not hold it back.
 *   - The limit may be exceeded by one batch: the kernel delivers all pending connections before it
 *     sees the cancel.
 *   - All acceptors of a listener get their connections through one thread. They wait while that
 *     thread is busy.
 *   - If another runtime without io_uring accepts from the listener, accepting ahead ends for good,
 *     and each acceptor accepts on its own.
 *   - After a close the port is free when the operation has completed, a moment later. */

/* Listen. Any thread, no runtime needed. `options` may be NULL. Port 0 selects a free port: see
 * aw_listener_addr. 0 or a negative errno: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EAFNOSUPPORT (not
 * IPv4, IPv6 or Unix), -EINVAL (no address, or invalid options), -EMFILE, -ENFILE, -ENOMEM.
 *
 * If a program is killed while it accepts through io_uring, the kernel closes its listener only
 * after the process is gone (5 to 25 ms measured). A restart at once may get -EADDRINUSE, for a
 * Unix path too: try again. */
AW_API int aw_listen(aw_listener **l, const aw_addr *addr, const aw_listen_options *options);

/* `count` listeners on one address; the kernel distributes connections among them. Make one for
 * each worker, and accept from it in a task of that worker (aw_spawn_at). All or none. TCP only. */
AW_API int aw_listen_each(aw_listener **ls, int count, const aw_addr *addr,
                          const aw_listen_options *options);

/* Take over a socket that listens already: inherited (awake/socket_activation.h) or received
 * (aw_recv_fds). Of the options max_connections, nagle and accept_ahead apply, to later
 * connections. On failure the descriptor is still yours. 0 or a negative errno: -EINVAL: it does
 * not listen. */
AW_API int aw_listener_of_fd(aw_listener **l, int fd, const aw_listen_options *options);

/* The descriptor, still owned by the listener. -EBADF if `l` is NULL; also of the next call. */
AW_API int aw_listener_fd(const aw_listener *l);
/* The address it listens on. 0 or a negative errno. */
AW_API int aw_listener_addr(const aw_listener *l, aw_addr *addr);

/* Close the listener: accepts that wait end with -EBADF, and so do later ones through other
 * references. Accepted connections stay open. Also drops one reference; with the last one the
 * kernel refuses connections. NULL is allowed. A Unix path stays: see replace_stale. */
AW_API void aw_listener_close(aw_listener *l);
AW_API void aw_listener_keep(aw_listener *l);
AW_API void aw_listener_drop(aw_listener *l);

/* The next connection. `out` is 0 and the connection is in *conn, or a negative errno: -EBADF: the
 * listener was closed, or is NULL; -EINVAL: `conn` is NULL; and the errors in awake/io.h. If
 * discarded, the connection is closed. Any number of tasks may accept from one listener.
 *
 * Connections that failed before they were accepted are skipped. If descriptors or memory are
 * exhausted, or many connections fail in a row, it logs that once, waits (5 ms, doubling up to 1 s)
 * and tries again. At max_connections it waits until one of them is closed; new ones wait in the
 * kernel (backlog). */
/* aw-future: aw_accept */
typedef struct aw_accept_future {
    AW_FRAME(int);
    aw_listener *listener;
    aw_conn **conn;
    aw_addr *peer;
    bool kept;       /* private: `listener` is referenced */
    bool permit;     /* private: a permit of max_connections is held */
    uint32_t failed; /* private: consecutive failures */
    int got;
    uint64_t pause;
    AW_SHARE(aw_io io; aw__accept_ahead_future next; aw_acquire acquire; aw__pause nap;);
} aw_accept_future;

AW_API extern const aw_future_type aw_type_aw_accept_future;

AW_API aw_accept_future aw_accept(aw_listener *l, aw_conn **conn);
/* Also stores the peer's address; all zero if it has none that aw_addr can hold. */
AW_API aw_accept_future aw_accept_from(aw_listener *l, aw_conn **conn, aw_addr *peer);

/* ---- Connecting ------------------------------------------------------------------------------ */

/* Connect to an address, which is copied. `out` is 0 and the connection is in *conn, or a negative
 * errno: -ECONNREFUSED, -ENETUNREACH, -EHOSTUNREACH, -EADDRNOTAVAIL (no free port), -ETIMEDOUT (by
 * the kernel, after minutes: use AW_TIMEOUT), -ENOENT and -EACCES (a Unix path), -EAFNOSUPPORT (not
 * IPv4, IPv6 or Unix), -EINVAL (no address, no `conn`), -EMFILE, -ENFILE, -ENOMEM; and the errors
 * of operations that wait, in awake/io.h: -ENXIO, -ESHUTDOWN, ... If discarded, the connection is
 * closed. If cancelled, nothing remains. While the queue of a Unix listener is full, it waits
 * too. */
/* aw-future: aw_connect */
typedef struct aw_connect_future {
    AW_FRAME(int);
    aw_conn **conn;
    aw_conn *fresh; /* private: until it is connected */
    uint64_t pause;
    int kind;
    aw_addr addr;
    AW_SHARE(aw_io io; aw_sleep nap;);
} aw_connect_future;

AW_API extern const aw_future_type aw_type_aw_connect_future;

AW_API aw_connect_future aw_connect(aw_conn **conn, const aw_addr *addr);
/* A SOCK_SEQPACKET Unix socket: see awake/unix.h. */
AW_API aw_connect_future aw_connect_seqpacket(aw_conn **conn, const aw_addr *addr);

/* Connect to any of several addresses, by RFC 8305 ("happy eyeballs"). Families alternate, starting
 * with that of the first address. A new attempt starts when one has failed, or 250 ms after the
 * last one started. The first success wins; the other attempts are cancelled and have ended when
 * this ends. `out` as of aw_connect; if all fail, the error of the first. The array is borrowed
 * until the end. Makes one allocation. */
/* aw-future: aw_connect_any */
typedef struct aw_connect_any_future {
    aw_future future;
    int out;
    uint32_t count, begun, running; /* private, like all below */
    aw_conn **conn;
    const aw_addr *addrs;
    struct aw__attempt *attempts;
    const struct aw_allocator *allocator;
    uint64_t stagger; /* between attempts; you may change it before the first poll */
    aw_sleep timer;
} aw_connect_any_future;

AW_API extern const aw_future_type aw_connect_any_type;

AW_API aw_connect_any_future aw_connect_any(aw_conn **conn, const aw_addr *addrs, int count);

/* Resolve a name (aw_resolve) and connect to any of its addresses. The name is borrowed until the
 * end. Errors of both. */
/* aw-future: aw_connect_host */
typedef struct aw_connect_host_future {
    AW_FRAME(int);
    aw_conn **conn;
    const char *name;
    uint16_t port;
    aw_addr *found; /* private, like all below */
    int found_capacity;
    const struct aw_allocator *allocator;
    AW_SHARE(aw_resolve_future resolve; aw_connect_any_future any;);
} aw_connect_host_future;

AW_API extern const aw_future_type aw_type_aw_connect_host_future;

AW_API aw_connect_host_future aw_connect_host(aw_conn **conn, const char *name, uint16_t port);

/* ---- Connections -----------------------------------------------------------------------------
 * For sockets. 0 or a negative errno: -EBADF: not a descriptor; -ENOTSOCK; -EOPNOTSUPP or
 * -ENOPROTOOPT: the protocol does not support it. Any thread, while the connection is
 * referenced. */

AW_API int aw_conn_local(const aw_conn *c, aw_addr *addr);
AW_API int aw_conn_peer(const aw_conn *c, aw_addr *addr);

/* Send small writes at once (the default), or gather them. */
AW_API int aw_conn_nodelay(aw_conn *c, bool on);
/* Probe the peer after `idle` seconds of silence, then every `interval` seconds. After `count`
 * probes without an answer the connection fails with -ETIMEDOUT. idle 0: no probes. */
AW_API int aw_conn_keepalive(aw_conn *c, int idle, int interval, int count);
/* The kernel's buffers, in bytes; 0 leaves one unchanged. The kernel may choose more or less. */
AW_API int aw_conn_buffers(aw_conn *c, int receive, int send);
/* Whether a close drops unsent data and resets the connection. (There is no close that waits until
 * all is sent: it would block the thread. See aw_linger.) */
AW_API int aw_conn_reset_on_close(aw_conn *c, bool on);
/* Reset the connection: aw_conn_reset_on_close, then aw_close. */
AW_API void aw_conn_abort(aw_conn *c);

/* Close after the peer has read everything. A plain close while the peer still sends is a reset,
 * and the peer may lose data that it has not read. So this stops writing, drops what arrives, and
 * closes when the peer has closed too, or after `timeout` nanoseconds. `out` is 0; -ETIMEDOUT; or
 * why it failed: -ECONNRESET: the peer reset the connection, and no operation has reported it yet;
 * -ENOTCONN: it was never connected. It is closed in any case, also when cancelled. Works for every
 * connection that can be shut down. */
/* aw-future: aw_linger */
typedef struct aw_linger_future {
    AW_FRAME(int);
    aw_conn *conn;
    uint64_t most, until; /* `most` is the timeout; private: `until`, and all below */
    char dropped[256];
    AW_SHARE(aw_io shutdown; aw__timed_read read;);
} aw_linger_future;

AW_API extern const aw_future_type aw_type_aw_linger_future;

AW_API aw_linger_future aw_linger(aw_conn *c, uint64_t timeout);

AW_C_END

#endif
