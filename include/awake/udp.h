/* SPDX-License-Identifier: MIT
 *
 * awake/udp.h: datagrams.
 *
 *     aw_conn *c;
 *     aw_addr any = aw_addr_any(AF_INET6, 5353), from;
 *     int error = aw_udp_bind(&c, &any, NULL);
 *     AW_AWAIT(self->in, aw_recv_from(c, buf, sizeof buf, &self->from, NULL));     `out`: bytes
 *     AW_AWAIT(self->send, aw_send_to(c, buf, n, &self->from));
 *
 * A datagram socket is an aw_conn: closed, kept and dropped as one. One that has a peer (aw_udp_connect) is also read
 * and written as one, a datagram at a time. But an empty datagram is then 0, as is the end of a stream, for which
 * readers, copies and aw_linger take it: aw_recv_from is for those who may be sent one. Sending and receiving this way
 * work for Unix datagrams as well (awake/unix.h). */
#ifndef AWAKE_UDP_H
#define AWAKE_UDP_H

#include <awake/addr.h>
#include <awake/io.h>
#include <awake/time.h>

AW_C_BEGIN

/* Zero means the default. Write AW_UDP(.reuse_addr = true), or begin with AW_UDP_OPTIONS. */
typedef struct aw_udp_options {
    size_t self_size; /* sizeof(aw_udp_options): it may grow */
    bool reuse_addr;  /* several sockets may have the port: each gets what is sent to a group */
    bool reuse_port;  /* the system shares out among them who sends */
    bool v6_only;     /* an IPv6 address does not take IPv4 too */
} aw_udp_options;

#define AW_UDP_OPTIONS                                                                             \
    { sizeof(aw_udp_options), false, false, false }
#define AW_UDP(...) (&(aw_udp_options){.self_size = sizeof(aw_udp_options), __VA_ARGS__})

/* A socket that receives at an address (aw_conn_local tells the port, if it was 0). `options` may be NULL. 0 or a negative
 * errno: -EADDRINUSE, -EADDRNOTAVAIL, -EINVAL, ... Nothing waits. */
AW_API int aw_udp_bind(aw_conn **c, const aw_addr *local, const aw_udp_options *options);
/* A socket with a peer: it sends there, and receives from there only. A refused datagram is told by -ECONNREFUSED, from
 * one of the next operations. */
AW_API int aw_udp_connect(aw_conn **c, const aw_addr *peer);
/* Give a peer to a socket that has none, or another one. Unix datagrams too. */
AW_API int aw_datagram_connect(aw_conn *c, const aw_addr *peer);

/* ---- Sending and receiving -------------------------------------------------------------------- */

/* Both directions, with and without addresses. */
/* aw-future: aw_datagram */
typedef struct aw_datagram {
    aw_future future;
    int out;
    bool *truncated;
    aw_addr *from;
    aw_io io; /* private, as all that follows */
    struct iovec part;
    struct msghdr message;
    aw_addr to;
    aw_sleep nap;
    uint64_t pause;
} aw_datagram;

AW_API extern const aw_future_type aw_datagram_type;

/* The next datagram, from whom (may be NULL), and whether it was longer than there is room for (may be NULL): then
 * the rest of it is lost. `out` is how many bytes are in `buf`, which may be none; or a negative errno. Cancelled, it
 * has received nothing. */
AW_API aw_datagram aw_recv_from(aw_conn *c, void *buf, size_t size, aw_addr *from, bool *truncated);
/* One datagram to an address (which is copied; NULL: to the peer). `out` is `size`, or a negative errno: -EMSGSIZE, -EACCES
 * (see aw_udp_broadcast), -EDESTADDRREQ, ... */
AW_API aw_datagram aw_send_to(aw_conn *c, const void *buf, size_t size, const aw_addr *to);

/* ---- Groups -----------------------------------------------------------------------------------
 * 0 or a negative errno. `interface` is the index of one (if_nametoindex); 0 lets the system choose. */

/* Receive what is sent to a group; and no more. A socket gets what is sent to groups that it has joined itself, not
 * others on the machine (which the system would give it too). -EINVAL: not of the socket's family; -EADDRINUSE,
 * -EADDRNOTAVAIL. */
AW_API int aw_udp_join(aw_conn *c, const aw_addr *group, unsigned interface);
AW_API int aw_udp_leave(aw_conn *c, const aw_addr *group, unsigned interface);
/* Through which interface it sends to groups. */
AW_API int aw_udp_group_interface(aw_conn *c, unsigned interface);
/* Whether this machine receives what it sends to a group (yes, if nothing is said). */
AW_API int aw_udp_group_loop(aw_conn *c, bool on);
/* How far it goes: 0 this machine, 1 this network (if nothing is said), up to 255. */
AW_API int aw_udp_group_ttl(aw_conn *c, int ttl);
/* How far other datagrams go, 1 to 255. */
AW_API int aw_udp_ttl(aw_conn *c, int ttl);
/* Allow sending to broadcast addresses. IPv4. */
AW_API int aw_udp_broadcast(aw_conn *c, bool on);

AW_C_END

#endif
