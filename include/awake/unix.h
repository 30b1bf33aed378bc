/* SPDX-License-Identifier: MIT
 *
 * awake/unix.h: Unix sockets, descriptors that go through them, and pipes.
 *
 * Streams listen and connect as TCP does (awake/net.h): aw_listen, aw_accept, aw_connect with an address "unix:...";
 * so do sockets of messages (SOCK_SEQPACKET), by the option `seqpacket` and aw_connect_seqpacket: each read of those
 * is one message, cut to the room there is. Datagrams are sent and received as awake/udp.h says. All are aw_conn.
 *
 * A message may be empty: aw_read then answers 0, which elsewhere is the end, and so readers, copies and aw_linger take
 * it for one. Of datagrams aw_recv_from knows no end. */
#ifndef AWAKE_UNIX_H
#define AWAKE_UNIX_H

#include <awake/addr.h>
#include <awake/io.h>

AW_C_BEGIN

/* Two ends of SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET that are connected. 0 or a negative errno. */
AW_API int aw_unix_pair(aw_conn *ends[2], int kind);
/* A datagram socket. `local` NULL: without an address, so it can be answered only by its peer. */
AW_API int aw_unix_datagram(aw_conn **c, const aw_addr *local);
/* Remove a path that is left from a program that has ended: 0; -EADDRINUSE: somebody is bound to it; -ENOENT: there
 * is none; -ENOTSOCK: something else, which stays. aw_listen does it by itself with `replace_stale`. Who starts two
 * servers for one path at the same moment needs a lock of his own. */
AW_API int aw_unix_remove_stale(const aw_addr *addr);

/* Who is at the other end: as it was when it connected, listened, or made the pair. 0 or a negative errno: -ENOTCONN:
 * nobody. */
typedef struct aw_unix_peer {
    int pid; /* 0: it is out of sight here (another PID namespace) */
    unsigned uid, gid;
} aw_unix_peer;
AW_API int aw_conn_credentials(const aw_conn *c, aw_unix_peer *peer);

/* ---- Descriptors as messages ------------------------------------------------------------------ */

enum { AW_FDS_MOST = 28 }; /* at a time */

/* aw-future: aw_fds */
typedef struct aw_fds {
    aw_future future;
    int out;
    int max; /* private, as all that follows */
    int *fds, *count;
    aw_io io;
    struct iovec part;
    struct msghdr message;
    char control[184] __attribute__((aligned(8))); /* AW_FDS_MOST of them, and who sends */
} aw_fds;

AW_API extern const aw_future_type aw_send_fds_type, aw_recv_fds_type;

/* Send bytes, at least one, and descriptors with the first of them. `out` is how many bytes, as of aw_write, or a
 * negative errno: -EINVAL: no byte, or more than AW_FDS_MOST. The descriptors stay the caller's, who may close them
 * when this has ended; both arrays are borrowed. */
AW_API aw_fds aw_send_fds(aw_conn *c, const void *buf, size_t size, const int *fds, int count);
/* Read bytes, and the descriptors that came with them: *count in `fds`. They are the caller's, and close-on-exec;
 * discarded, they are closed. `out` as of aw_read. When more came than `max` (or there is no room for more in this
 * process) all are closed, and it is -EMSGSIZE: the bytes have been read, and are lost too. What a plain aw_read reads
 * loses its descriptors. */
AW_API aw_fds aw_recv_fds(aw_conn *c, void *buf, size_t size, int *fds, int max, int *count);

/* ---- Pipes ------------------------------------------------------------------------------------ */

/* What is written to one can be read from the other. 0 or a negative errno. */
AW_API int aw_pipe(aw_conn **reader, aw_conn **writer);

AW_C_END

#endif
