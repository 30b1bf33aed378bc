/* SPDX-License-Identifier: MIT
 *
 * awake/unix.h: Unix sockets, descriptor passing, and pipes.
 *
 * Streams work like TCP (awake/net.h): aw_listen, aw_accept and aw_connect with an address
 * "unix:...". So do SOCK_SEQPACKET sockets, with the option `seqpacket` and aw_connect_seqpacket:
 * each read returns one message, cut to the size of your buffer. For datagrams see awake/udp.h. All
 * are aw_conn.
 *
 * A message may be empty. aw_read then gives 0, which readers, copies and aw_linger take for the
 * end of a stream. aw_recv_from has no end: for datagrams 0 is an empty datagram. */
#ifndef AWAKE_UNIX_H
#define AWAKE_UNIX_H

#include <awake/addr.h>
#include <awake/io.h>

AW_C_BEGIN

/* Two connected sockets of type SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET. 0 or a negative
 * errno. */
AW_API int aw_unix_pair(aw_conn *ends[2], int kind);
/* A datagram socket. `local` NULL: no address, so only its peer can answer. */
AW_API int aw_unix_datagram(aw_conn **c, const aw_addr *local);
/* Remove the path of a program that has ended: 0; -EADDRINUSE: a socket is bound to it; -ENOENT: no
 * such path; -ENOTSOCK: not a socket, and it stays. aw_listen does this with `replace_stale`. If
 * two servers may start on one path at the same time, you need a lock of your own. */
AW_API int aw_unix_remove_stale(const aw_addr *addr);

/* The process at the other end, as of its connect, listen or pair call. 0 or a negative errno:
 * -ENOTCONN: no peer. */
typedef struct aw_unix_peer {
    int pid; /* 0: not visible from here (another PID namespace) */
    unsigned uid, gid;
} aw_unix_peer;
AW_API int aw_conn_credentials(const aw_conn *c, aw_unix_peer *peer);

/* ---- Descriptor passing ---------------------------------------------------------------------- */

enum { AW_FDS_MAX = 28 }; /* per message */

/* aw-future: aw_fds */
typedef struct aw_fds {
    aw_future future;
    int out;
    int max; /* private, like all below */
    int *fds, *count;
    aw_io io;
    struct iovec part;
    struct msghdr message;
    /* AW_FDS_MAX descriptors, and the credentials of the sender. */
    char control[184] __attribute__((aligned(8)));
} aw_fds;

AW_API extern const aw_future_type aw_send_fds_type, aw_recv_fds_type;

/* Send bytes, at least one, and descriptors with the first of them. `out` is the number of bytes,
 * as of aw_write, or a negative errno: -EINVAL: no byte, or more than AW_FDS_MAX descriptors. They
 * stay yours; you may close them when this has ended. Both arrays are borrowed. */
AW_API aw_fds aw_send_fds(aw_conn *c, const void *buf, size_t size, const int *fds, int count);
/* Read bytes, and the descriptors sent with them: *count in `fds`. They are yours, and
 * close-on-exec; if discarded, they are closed. `out` as of aw_read. If more than `max` came, or
 * more than this process can open, all are closed and `out` is -EMSGSIZE: the bytes have been read,
 * and are lost too. A plain aw_read drops descriptors. */
AW_API aw_fds aw_recv_fds(aw_conn *c, void *buf, size_t size, int *fds, int max, int *count);

/* ---- Pipes ----------------------------------------------------------------------------------- */

/* What you write to `writer` can be read from `reader`. 0 or a negative errno. */
AW_API int aw_pipe(aw_conn **reader, aw_conn **writer);

AW_C_END

#endif
