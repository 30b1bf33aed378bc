/* SPDX-License-Identifier: MIT
 *
 * awake/net.h: listening, accepting and connecting.
 *
 *     aw_listener *l;
 *     int error = aw_listen(&l, &addr, NULL);
 *     for (;;) {
 *         AW_AWAIT(self->accept, aw_accept(l, &self->conn));
 *         if (self->accept.out < 0) break;                          it was closed
 *         aw_task_drop(aw_spawn(AW_CALL(serve, .conn = self->conn)));
 *     }
 *
 *     AW_AWAIT(self->connect, aw_connect_host(&self->conn, "example.org", 80));
 *
 * What is accepted or connected is an aw_conn, and read and written as awake/io.h says. TCP (IPv4, IPv6) and Unix
 * streams are the same here: the address says which. For reader and writer as two tasks each has a reference: one
 * aw_conn_keep, two aw_conn_drop.
 *
 * All descriptors are close-on-exec from birth, and nothing raises SIGPIPE. TCP sends small writes at once
 * (TCP_NODELAY), other than the system's default: who writes in small pieces gathers them first (aw_writev, a buffered
 * writer), or asks for the delay. */
#ifndef AWAKE_NET_H
#define AWAKE_NET_H

#include <awake/addr.h>
#include <awake/io.h>
#include <awake/resolve.h>
#include <awake/semaphore.h>
#include <awake/time.h>
#include <awake/timeout.h>

AW_C_BEGIN

/* ---- Listening -------------------------------------------------------------------------------- */

/* Not a connection: there is nothing to read from it. */
typedef struct aw_listener aw_listener;

/* Zero means the default, everywhere. Begin with AW_LISTEN_OPTIONS, or in C write the options where they are needed:
 *     aw_listen(&l, &addr, AW_LISTEN(.max_connections = 100)) */
typedef struct aw_listen_options {
    size_t self_size;         /* sizeof(aw_listen_options): it may grow */
    int backlog;              /* how many may wait to be accepted; as many as the system allows */
    uint32_t max_connections; /* accepted and not yet closed, by all their owners; no limit */
    bool
        exclusive; /* -EADDRINUSE also while old connections of the address linger (no SO_REUSEADDR) */
    bool reuse_port;    /* several listeners share the port: see aw_listen_each */
    bool v6_only;       /* an IPv6 address does not take IPv4 too */
    bool delay;         /* connections gather small writes (no TCP_NODELAY) */
    bool seqpacket;     /* Unix: messages with their boundaries, not a stream */
    bool replace_stale; /* Unix: a path that nobody listens on any more is taken over */
    /* So many are accepted before somebody asks for them: see below. Not together with max_connections: -EINVAL. */
    uint32_t ahead;
} aw_listen_options;

#define AW_LISTEN_OPTIONS                                                                          \
    { sizeof(aw_listen_options), 0, 0, false, false, false, false, false, false, 0 }
#define AW_LISTEN(...) (&(aw_listen_options){.self_size = sizeof(aw_listen_options), __VA_ARGS__})

/* Accepting ahead, with io_uring: one operation accepts all who come, until so many wait in the program. That takes less
 * processor time where many come and go. But they count as accepted for who connects, wait here and not in the
 * system, and end with the listener; max_connections could not hold them off.
 *   - They may become more: the system hands over at once all who have come since the thread last looked, and only
 *     then hears that it is enough.
 *   - Who shares the listener gets them by way of one thread that accepts for all, and waits while that one is busy.
 *     Where another runtime does not use io_uring, each accepts by himself from then on.
 *   - After a close the port is free when the operation has come back, a moment later. */

/* Listen. `options` may be NULL. 0 or a negative errno: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EAFNOSUPPORT, -EINVAL for
 * what makes no sense, -EMFILE, -ENOMEM. Port 0 takes a free one: aw_listener_addr tells which. Any thread, no runtime.
 *
 * When a program was killed while it accepted by io_uring, the kernel lets go of its listener only after it is gone
 * (5 to 25 ms were measured): who starts it again at once may get -EADDRINUSE, for a Unix path too, and tries again. */
AW_API int aw_listen(aw_listener **l, const aw_addr *addr, const aw_listen_options *options);

/* `count` listeners on one address, among which the system shares out who comes: one for each worker, each accepted from
 * by a task of that worker (aw_spawn_at). All or none. TCP only. */
AW_API int aw_listen_each(aw_listener **ls, int count, const aw_addr *addr,
                          const aw_listen_options *options);

/* Take over a socket that listens already: inherited (awake/inherit.h), or received (aw_recv_fds). Of the options
 * max_connections, delay and ahead count, for connections that come from now on. 0, or a negative errno, and it is still the
 * caller's: -EINVAL: it does not listen. */
AW_API int aw_listener_of_fd(aw_listener **l, int fd, const aw_listen_options *options);

/* Still the listener's. -EBADF of NULL, as what follows. */
AW_API int aw_listener_fd(const aw_listener *l);
/* Where it listens. 0 or a negative errno. */
AW_API int aw_listener_addr(const aw_listener *l, aw_addr *addr);

/* Who waits to accept ends with -EBADF, and so does who comes later with a reference of his own. Connections stay.
 * One reference less: see aw_conn_keep; with the last one new connections are refused. NULL is nothing to close. A
 * Unix path stays: see replace_stale. */
AW_API void aw_listener_close(aw_listener *l);
AW_API void aw_listener_keep(aw_listener *l);
AW_API void aw_listener_drop(aw_listener *l);

typedef AW_TIMEOUT(aw_acquire) aw__pause; /* private */

/* Private: the next one of a listener that accepts ahead. */
typedef struct aw__ahead_future {
    AW__WAITER; /* `out`: a descriptor, or a negative errno */
    struct aw__ahead *ahead;
    bool elsewhere, alone;
} aw__ahead_future;

/* The next connection. `out` is 0, and the connection is in *conn; or a negative errno, -EBADF when the listener was
 * closed. Discarded, it is closed. Any number of tasks may accept from one listener.
 *
 * Connections that failed before they were accepted are passed over. When descriptors or memory are used up, or one
 * after the other fails, it says so once in the log, waits (5 ms, doubling up to 1 s) and tries again. While there
 * are max_connections it waits until one of them is closed; who comes meanwhile waits in the system (backlog). */
/* aw-future: aw_accept */
typedef struct aw_accept_future {
    AW_FRAME(int);
    aw_listener *listener;
    aw_conn **conn;
    aw_addr *peer;
    bool kept;       /* private: it has a reference, */
    bool permit;     /* and one of max_connections */
    uint32_t failed; /* private: in a row */
    int got;
    uint64_t pause;
    AW_SHARE(aw_io io; aw__ahead_future next; aw_acquire acquire; aw__pause nap;);
} aw_accept_future;

AW_API extern const aw_future_type aw_type_aw_accept_future;

AW_API aw_accept_future aw_accept(aw_listener *l, aw_conn **conn);
/* And where it comes from; no address (all zero), when it has none that aw_addr could hold. */
AW_API aw_accept_future aw_accept_from(aw_listener *l, aw_conn **conn, aw_addr *peer);

/* ---- Connecting ------------------------------------------------------------------------------- */

/* Connect to an address (which is copied). `out` is 0, and the connection is in *conn; or a negative errno:
 * -ECONNREFUSED, -ENETUNREACH, -ETIMEDOUT (after minutes, by the system: see AW_TIMEOUT), -ENOENT (a Unix path),
 * -EAFNOSUPPORT, -EMFILE, -ENOMEM. Discarded, it is closed. Cancelled, nothing is left of it. While a Unix listener
 * has no room for more who wait, this waits too. */
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
/* A Unix socket of messages: see awake/unix.h. */
AW_API aw_connect_future aw_connect_seqpacket(aw_conn **conn, const aw_addr *addr);

/* Connect to any of several addresses, as RFC 8305 ("happy eyeballs") has it: families take turns, beginning with
 * that of the first address; a new attempt begins when the last one has failed, or 250 ms after it began; the first
 * to succeed is taken, and the others are cancelled and given up before this ends. `out` as that of aw_connect; when
 * all have failed, the error of the first. The array is borrowed until the end. Takes one allocation. */
/* aw-future: aw_connect_any */
typedef struct aw_connect_any_future {
    aw_future future;
    int out;
    uint32_t count, begun, running; /* private, as all that follows */
    aw_conn **conn;
    const aw_addr *addrs;
    struct aw__attempt *attempts;
    const struct aw_allocator *allocator;
    uint64_t stagger; /* between attempts; may be changed before the first poll */
    aw_sleep timer;
} aw_connect_any_future;

AW_API extern const aw_future_type aw_connect_any_type;

AW_API aw_connect_any_future aw_connect_any(aw_conn **conn, const aw_addr *addrs, int count);

/* Look a name up (aw_resolve), and connect to any of its addresses. The name is borrowed until the end. The errors of
 * both. */
/* aw-future: aw_connect_host */
typedef struct aw_connect_host_future {
    AW_FRAME(int);
    aw_conn **conn;
    const char *name;
    uint16_t port;
    aw_addr *found; /* private, as all that follows */
    int room;
    const struct aw_allocator *allocator;
    AW_SHARE(aw_resolve_future resolve; aw_connect_any_future any;);
} aw_connect_host_future;

AW_API extern const aw_future_type aw_type_aw_connect_host_future;

AW_API aw_connect_host_future aw_connect_host(aw_conn **conn, const char *name, uint16_t port);

/* ---- Connections ------------------------------------------------------------------------------ Of sockets; 0 or a
 * negative errno: -EBADF when it is not a descriptor, -ENOTSOCK, -EOPNOTSUPP or -ENOPROTOOPT when its protocol has no
 * such thing. Any thread, while somebody holds the connection. */

AW_API int aw_conn_local(const aw_conn *c, aw_addr *addr);
AW_API int aw_conn_peer(const aw_conn *c, aw_addr *addr);

/* Send small writes at once (as by default), or gather them. */
AW_API int aw_conn_nodelay(aw_conn *c, bool on);
/* Ask the other end, after `idle` seconds of silence and every `interval` seconds, whether it is there; after `count` asks
 * without an answer the connection fails with -ETIMEDOUT. idle 0: do not ask. */
AW_API int aw_conn_keepalive(aw_conn *c, int idle, int interval, int count);
/* Of the system's buffers, in bytes; 0 leaves one as it is. The system may give more or less. */
AW_API int aw_conn_buffers(aw_conn *c, int receive, int send);
/* Whether a close drops what has not been sent, and tells the other end by a reset. (A close that waits until all is sent
 * would block the thread: see aw_linger.) */
AW_API int aw_conn_reset_on_close(aw_conn *c, bool on);
/* Both in one: the other end is reset. For all, as aw_close. */
AW_API void aw_conn_abort(aw_conn *c);

typedef AW_TIMEOUT(aw_io) aw__timed_read; /* private */

/* Close, but first let the other end have everything: a close while it still sends is a reset, which may cost it what it
 * has not read yet. So no more is written, what comes is dropped, and when the other end has closed too, or after
 * `most` nanoseconds, this one is. `out` is 0; -ETIMEDOUT; or why that failed: -ENOTCONN when the other end has
 * reset it before. It is closed in any case, also when this is cancelled. Any kind of connection that can be shut down. */
/* aw-future: aw_linger */
typedef struct aw_linger_future {
    AW_FRAME(int);
    aw_conn *conn;
    uint64_t most, until; /* `until` is private, as all that follows */
    char dropped[256];
    AW_SHARE(aw_io shutdown; aw__timed_read read;);
} aw_linger_future;

AW_API extern const aw_future_type aw_type_aw_linger_future;

AW_API aw_linger_future aw_linger(aw_conn *c, uint64_t most);

AW_C_END

#endif
