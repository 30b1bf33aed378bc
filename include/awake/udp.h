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
 * A datagram socket is an aw_conn: close, keep and drop it like one. If it has a peer
 * (aw_udp_connect), you can also read and write it, one datagram per call. But a read of an empty
 * datagram gives 0, which readers, copies and aw_linger take for the end of a stream. If peers may
 * send empty datagrams, use aw_recv_from. Unix datagrams are sent and received the same way
 * (awake/unix.h). */
#ifndef AWAKE_UDP_H
#define AWAKE_UDP_H

#include <awake/addr.h>
#include <awake/io.h>
#include <awake/time.h>

AW_C_BEGIN

/* 0 means the default. Write AW_UDP(.reuse_addr = true), or start with AW_UDP_OPTIONS. */
typedef struct aw_udp_options {
    size_t self_size; /* sizeof(aw_udp_options): the struct may grow */
    bool reuse_addr;  /* several sockets may share the port: each receives datagrams to a group */
    bool reuse_port;  /* several sockets share the port: the kernel distributes senders */
    bool v6_only;     /* an IPv6 address does not receive IPv4 */
} aw_udp_options;

#define AW_UDP_OPTIONS                                                                             \
    { sizeof(aw_udp_options), false, false, false }
#define AW_UDP(...) (&(aw_udp_options){.self_size = sizeof(aw_udp_options), __VA_ARGS__})

/* A socket that receives at an address; aw_conn_local gives the port if it was 0. `options` may be
 * NULL. Does not wait. 0 or a negative errno: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EAFNOSUPPORT
 * (not IPv4 or IPv6), -EINVAL (no address, or invalid options), -EMFILE, -ENFILE, -ENOMEM. */
AW_API int aw_udp_bind(aw_conn **c, const aw_addr *local, const aw_udp_options *options);
/* A socket with a peer: it sends to the peer, and receives only from it. If a datagram is refused,
 * one of the next operations fails with -ECONNREFUSED. */
AW_API int aw_udp_connect(aw_conn **c, const aw_addr *peer);
/* Set or replace the peer of a socket. Unix datagrams too. */
AW_API int aw_datagram_connect(aw_conn *c, const aw_addr *peer);

/* ---- Sending and receiving ------------------------------------------------------------------- */

/* A send or a receive, with or without an address. */
/* aw-future: aw_datagram */
typedef struct aw_datagram {
    aw_future future;
    int out;
    bool *truncated;
    aw_addr *from;
    aw_io io; /* private, like all below */
    struct iovec part;
    struct msghdr message;
    aw_addr to;
    aw_sleep nap;
    uint64_t pause;
} aw_datagram;

AW_API extern const aw_future_type aw_datagram_type;

/* Receive a datagram. `from` and `truncated` may be NULL; *truncated is set if the datagram was
 * longer than `size`, and the rest is lost. `out` is the number of bytes, which may be 0, or a
 * negative errno. If cancelled, nothing was received. */
AW_API aw_datagram aw_recv_from(aw_conn *c, void *buf, size_t size, aw_addr *from, bool *truncated);
/* Send a datagram to an address, which is copied; NULL, or no address: to the peer. `out` is
 * `size`, or a negative errno: -EMSGSIZE, -EACCES (see aw_udp_broadcast), -EDESTADDRREQ (neither
 * address nor peer), and the errors in awake/io.h.
 *
 * On a socket with a peer an address applies to this datagram only. (So on Linux; other systems
 * fail with EISCONN.) You do not receive the answer here: it does not come from the peer. */
AW_API aw_datagram aw_send_to(aw_conn *c, const void *buf, size_t size, const aw_addr *to);

/* ---- Multicast groups ------------------------------------------------------------------------
 * 0 or a negative errno. `interface` is an index (if_nametoindex); 0: the kernel chooses. */

/* Join or leave a group. A socket receives only from groups that it joined itself, not from those
 * that other sockets of the machine joined (the kernel's default). -EINVAL: not of the socket's
 * family; -EADDRINUSE, -EADDRNOTAVAIL. */
AW_API int aw_udp_join(aw_conn *c, const aw_addr *group, unsigned interface);
AW_API int aw_udp_leave(aw_conn *c, const aw_addr *group, unsigned interface);
/* The interface for datagrams to groups. */
AW_API int aw_udp_group_interface(aw_conn *c, unsigned interface);
/* Whether this machine receives its own datagrams to a group (default: yes). */
AW_API int aw_udp_group_loop(aw_conn *c, bool on);
/* Reach of datagrams to groups: 0 this machine, 1 this network (the default), up to 255. */
AW_API int aw_udp_group_ttl(aw_conn *c, int ttl);
/* Reach of other datagrams, 1 to 255. */
AW_API int aw_udp_ttl(aw_conn *c, int ttl);
/* Allow datagrams to broadcast addresses. IPv4. */
AW_API int aw_udp_broadcast(aw_conn *c, bool on);

AW_C_END

#endif
