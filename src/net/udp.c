/* SPDX-License-Identifier: MIT
 *
 * UDP sockets and multicast groups. */
#define _GNU_SOURCE
#include <awake/udp.h>

#include <errno.h>
#include <unistd.h>

#include "base/sized_copy.h"
#include "net/socket.h"

static bool is_inet(const aw_addr *a) {
    int family = a ? aw_addr_family(a) : AF_UNSPEC;
    return family == AF_INET || family == AF_INET6;
}

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* By default Linux also delivers datagrams for groups that other sockets of the machine have
 * joined. A kernel without the option keeps that default. */
static void disable_multicast_all(int fd, int family) {
    if (family == AF_INET)
        aw__socket_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    else
        aw__socket_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
}

static int udp_bind_socket(int fd, const aw_addr *local, const aw_udp_options *o) {
    int error = o->reuse_addr ? aw__socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1) : 0;
    if (!error && o->reuse_port) error = aw__socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (!error && aw_addr_family(local) == AF_INET6)
        error = aw__socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, o->v6_only);
    if (!error) disable_multicast_all(fd, aw_addr_family(local));
    if (!error && bind(fd, &local->u.any, local->size)) error = -errno;
    return error;
}

/* 0, or why this is no address for a UDP socket. */
static int udp_check_addr(const aw_addr *a) {
    if (!a || aw_addr_family(a) == AF_UNSPEC) return -EINVAL;
    return is_inet(a) ? 0 : -EAFNOSUPPORT;
}

static int udp_connect_socket(int fd, const aw_addr *peer) {
    return connect(fd, &peer->u.any, peer->size) ? -errno : 0;
}

int aw_udp_bind(aw_conn **c, const aw_addr *local, const aw_udp_options *options) {
    aw_udp_options o = AW_UDP_OPTIONS;
    int error = c ? udp_check_addr(local) : -EINVAL;
    if (error) return error;
    if (options && !aw__copy_sized(&o, sizeof o, options)) return -EINVAL;
    int fd = aw__socket(aw_addr_family(local), SOCK_DGRAM);
    if (fd < 0) return fd;
    error = udp_bind_socket(fd, local, &o);
    if (!error) error = aw__socket_conn(c, fd);
    if (error) close(fd);
    return error;
}

int aw_udp_connect(aw_conn **c, const aw_addr *peer) {
    int error = c ? udp_check_addr(peer) : -EINVAL;
    if (error) return error;
    int fd = aw__socket(aw_addr_family(peer), SOCK_DGRAM);
    if (fd < 0) return fd;
    error = udp_connect_socket(fd, peer);
    if (!error) error = aw__socket_conn(c, fd);
    if (error) close(fd);
    return error;
}

int aw_datagram_connect(aw_conn *c, const aw_addr *peer) {
    int fd = aw_conn_fd(c), kind;
    socklen_t size = sizeof kind;
    if (fd < 0) return fd;
    if (!peer || !peer->size) return -EINVAL;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size)) return -errno;
    /* Other socket types would have to wait. */
    return kind == SOCK_DGRAM ? udp_connect_socket(fd, peer) : -EPROTOTYPE;
}

/* ---- Multicast groups ------------------------------------------------------------------------ */

static int socket_family(int fd) {
    int family;
    socklen_t size = sizeof family;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) ? -errno : family;
}

/* Sets the IPv4 or the IPv6 option, by the family of the socket. */
static int udp_set(aw_conn *c, int option4, int option6, int value) {
    int fd = aw_conn_fd(c), family = fd < 0 ? fd : socket_family(fd);
    if (family == AF_INET) return aw__socket_set(fd, IPPROTO_IP, option4, value);
    if (family == AF_INET6) return aw__socket_set(fd, IPPROTO_IPV6, option6, value);
    return family < 0 ? family : -EOPNOTSUPP;
}

static int change_membership(aw_conn *c, const aw_addr *group, unsigned interface, int option4,
                             int option6) {
    int fd = aw_conn_fd(c), family = fd < 0 ? fd : socket_family(fd), result;
    if (family < 0) return family;
    if (!is_inet(group) || aw_addr_family(group) != family) return -EINVAL;
    if (family == AF_INET) {
        struct ip_mreqn four = {group->u.v4.sin_addr, {0}, (int)interface};
        result = setsockopt(fd, IPPROTO_IP, option4, &four, sizeof four);
    } else {
        struct ipv6_mreq six = {group->u.v6.sin6_addr, interface};
        result = setsockopt(fd, IPPROTO_IPV6, option6, &six, sizeof six);
    }
    return result ? -errno : 0;
}

int aw_udp_join(aw_conn *c, const aw_addr *group, unsigned interface) {
    return change_membership(c, group, interface, IP_ADD_MEMBERSHIP, IPV6_JOIN_GROUP);
}

int aw_udp_leave(aw_conn *c, const aw_addr *group, unsigned interface) {
    return change_membership(c, group, interface, IP_DROP_MEMBERSHIP, IPV6_LEAVE_GROUP);
}

int aw_udp_group_interface(aw_conn *c, unsigned interface) {
    int fd = aw_conn_fd(c), family = fd < 0 ? fd : socket_family(fd);
    struct ip_mreqn four = {{0}, {0}, (int)interface};
    if (family != AF_INET) return udp_set(c, 0, IPV6_MULTICAST_IF, (int)interface);
    return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &four, sizeof four) ? -errno : 0;
}

int aw_udp_group_loop(aw_conn *c, bool on) {
    return udp_set(c, IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP, on);
}

int aw_udp_group_ttl(aw_conn *c, int ttl) {
    return ttl < 0 || ttl > 255 ? -EINVAL : udp_set(c, IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS, ttl);
}

int aw_udp_ttl(aw_conn *c, int ttl) {
    return ttl < 1 || ttl > 255 ? -EINVAL : udp_set(c, IP_TTL, IPV6_UNICAST_HOPS, ttl);
}

int aw_udp_broadcast(aw_conn *c, bool on) {
    int fd = aw_conn_fd(c);
    return fd < 0 ? fd : aw__socket_set(fd, SOL_SOCKET, SO_BROADCAST, on);
}
