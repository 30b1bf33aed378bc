/* SPDX-License-Identifier: MIT
 *
 * UDP: each datagram as it was sent, with its sender; with and without a peer; multicast groups. */
#include "support/net.h"

#include <ifaddrs.h>
#include <net/if.h>

ALL_ON_THIS_THREAD("each test chooses its own runtime");

static aw_conn *bind_here(int family, aw_addr *at) {
    aw_conn *c;
    aw_addr any_port = aw_addr_loopback(family, 0);
    CHECK_EQ(aw_udp_bind(&c, &any_port, NULL), 0);
    CHECK_EQ(aw_conn_local(c, at), 0);
    return c;
}

/* ---- Sending and receiving ------------------------------------------------------------------- */

ON_DRIVERS(datagrams_come_whole_and_with_their_senders) {
    for (int f = 0; f < INET_FAMILIES; f++) {
        memory m;
        aw_runtime *rt = io_runtime(how, &m, NULL);
        aw_addr a_at, b_at, from;
        aw_conn *a = bind_here(inet_families[f], &a_at), *b = bind_here(inet_families[f], &b_at);
        char buf[32] = "";
        bool cut = true;
        check_flags(aw_conn_fd(a));
        CHECK_EQ(aw_block_on(rt, aw_send_to(a, "first", 5, &b_at)), 5);
        CHECK_EQ(aw_block_on(rt, aw_send_to(a, "", 0, &b_at)), 0);
        CHECK_EQ(aw_block_on(rt, aw_send_to(a, "a third one", 11, &b_at)), 11);
        CHECK_EQ(aw_block_on(rt, aw_recv_from(b, buf, sizeof buf, &from, &cut)), 5);
        CHECK_EQ(memcmp(buf, "first", 5), 0);
        CHECK(aw_addr_equal(&from, &a_at));
        CHECK_EQ(cut, false);
        CHECK_EQ(aw_block_on(rt, aw_recv_from(b, buf, sizeof buf, &from, &cut)), 0);
        CHECK_EQ(aw_block_on(rt, aw_recv_from(b, buf, 7, NULL, &cut)), 7);
        CHECK_EQ(memcmp(buf, "a third", 7), 0);
        CHECK_EQ(cut, true); /* the remainder is lost */
        CHECK_EQ(aw_block_on(rt, aw_send_to(b, "back", 4, &from)), 4);
        CHECK_EQ(aw_block_on(rt, aw_recv_from(a, buf, sizeof buf, &from, &cut)), 4);
        CHECK(aw_addr_equal(&from, &b_at));
        CHECK_EQ(cut, false);
        aw_close(a);
        aw_close(b);
        workers_end(rt, &m);
    }
}

enum { PINGS = 200 };

AW_ASYNC(int, pong, aw_conn *c; int i; char byte; aw_addr from; aw_datagram d;) {
    AW_BEGIN;
    for (self->i = 0; self->i < PINGS; self->i++) {
        AW_AWAIT(self->d, aw_recv_from(self->c, &self->byte, 1, &self->from, NULL));
        CHECK_EQ(self->d.out, 1);
        self->byte++;
        AW_AWAIT(self->d, aw_send_to(self->c, &self->byte, 1, &self->from));
        CHECK_EQ(self->d.out, 1);
    }
    AW_RETURN(0);
    AW_END;
}

/* With a peer: read and written like any connection. */
AW_ASYNC(int, ping, aw_conn *c; int i; char byte; aw_io io;) {
    AW_BEGIN;
    for (self->i = 0; self->i < PINGS; self->i++) {
        self->byte = (char)self->i;
        AW_AWAIT(self->io, aw_write(self->c, &self->byte, 1));
        CHECK_EQ(self->io.out, 1);
        AW_AWAIT(self->io, aw_read(self->c, &self->byte, 1));
        CHECK_EQ(self->io.out, 1);
        CHECK_EQ(self->byte, (char)(self->i + 1));
    }
    AW_RETURN(0);
    AW_END;
}

ON_DRIVERS(a_socket_with_a_peer_is_read_and_written) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at, peer;
    aw_conn *server = bind_here(AF_INET6, &at), *client;
    CHECK_EQ(aw_udp_connect(&client, &at), 0);
    check_flags(aw_conn_fd(client));
    CHECK_EQ(aw_conn_peer(client, &peer), 0);
    CHECK(aw_addr_equal(&peer, &at));
    struct pong *b = aw_spawn_on(rt, AW_CALL(pong, .c = server));
    struct ping *a = aw_spawn_on(rt, AW_CALL(ping, .c = client));
    CHECK_EQ(join_status(rt, &a->future), 0);
    CHECK_EQ(join_status(rt, &b->future), 0);
    aw_task_drop(a);
    aw_task_drop(b);
    aw_close(client);
    aw_close(server);
    workers_end(rt, &m);
}

ON_DRIVERS(a_missing_peer_is_reported) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *gone = bind_here(AF_INET, &at), *client;
    char byte;
    CHECK_EQ(aw_udp_connect(&client, &at), 0);
    aw_close(gone);
    CHECK_EQ(aw_block_on(rt, aw_write(client, "x", 1)), 1);
    CHECK_EQ(aw_block_on(rt, aw_read(client, &byte, 1)), -ECONNREFUSED);
    aw_close(client);
    workers_end(rt, NULL);
}

/* Linux allows this; other systems refuse it with EISCONN. */
ON_DRIVERS(a_socket_with_a_peer_can_send_to_another_address) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr peer_at, other_at, at, from, none = {0};
    aw_conn *peer = bind_here(AF_INET, &peer_at), *other = bind_here(AF_INET, &other_at), *c;
    char byte;
    CHECK_EQ(aw_udp_connect(&c, &peer_at), 0);
    CHECK_EQ(aw_conn_local(c, &at), 0);
    CHECK_EQ(aw_block_on(rt, aw_send_to(c, "o", 1, &other_at)), 1);
    CHECK_EQ(aw_block_on(rt, aw_send_to(c, "p", 1, NULL)), 1);
    CHECK_EQ(aw_block_on(rt, aw_send_to(c, "q", 1, &none)), 1);
    CHECK_EQ(aw_block_on(rt, aw_recv_from(other, &byte, 1, &from, NULL)), 1);
    CHECK_EQ(byte, 'o');
    CHECK(aw_addr_equal(&from, &at));
    for (char want = 'p'; want <= 'q'; want++) {
        CHECK_EQ(aw_block_on(rt, aw_read(peer, &byte, 1)), 1);
        CHECK_EQ(byte, want);
    }
    /* But it receives only from its peer. */
    CHECK_EQ(aw_block_on(rt, aw_send_to(other, "o", 1, &at)), 1);
    CHECK_EQ(aw_block_on(rt, aw_send_to(peer, "p", 1, &at)), 1);
    CHECK_EQ(aw_block_on(rt, aw_recv_from(c, &byte, 1, &from, NULL)), 1);
    CHECK_EQ(byte, 'p');
    CHECK(aw_addr_equal(&from, &peer_at));
    aw_close(c);
    aw_close(peer);
    aw_close(other);
    workers_end(rt, NULL);
}

ON_DRIVERS(a_peer_can_be_set_later) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr a_at, b_at;
    aw_conn *a = bind_here(AF_INET, &a_at), *b = bind_here(AF_INET, &b_at), *ends[2];
    char byte;
    CHECK_EQ(aw_block_on(rt, aw_write(a, "x", 1)), -EDESTADDRREQ);
    CHECK_EQ(aw_block_on(rt, aw_send_to(a, "x", 1, NULL)), -EDESTADDRREQ);
    CHECK_EQ(aw_datagram_connect(a, &b_at), 0);
    CHECK_EQ(aw_block_on(rt, aw_send_to(a, "y", 1, NULL)), 1);
    CHECK_EQ(aw_block_on(rt, aw_read(b, &byte, 1)), 1);
    CHECK_EQ(byte, 'y');
    connected_pair(rt, ends);
    CHECK_EQ(aw_datagram_connect(ends[0], &b_at), -EPROTOTYPE);
    aw_close(ends[0]);
    aw_close(ends[1]);
    aw_close(a);
    aw_close(b);
    workers_end(rt, NULL);
}

ON_DRIVERS(what_is_too_long_or_makes_no_sense_is_refused) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    size_t before = open_sockets();
    static char big[70000];
    aw_addr at, none = {0}, local, odd;
    aw_conn *c = bind_here(AF_INET, &at), *other = NULL;
    CHECK_EQ(aw_addr_of_abstract(&local, "x", 1), 0);
    odd = at;
    odd.u.any.sa_family = AF_NETLINK;
    CHECK_EQ(aw_block_on(rt, aw_send_to(c, big, sizeof big, &at)), -EMSGSIZE);
    CHECK_EQ(aw_udp_bind(&other, &at, NULL), -EADDRINUSE);
    CHECK_EQ(aw_udp_bind(&other, &none, NULL), -EINVAL);
    CHECK_EQ(aw_udp_bind(&other, &local, NULL), -EAFNOSUPPORT);
    CHECK_EQ(aw_udp_bind(&other, &odd, NULL), -EAFNOSUPPORT);
    CHECK_EQ(aw_udp_bind(&other, NULL, NULL), -EINVAL);
    CHECK_EQ(aw_udp_bind(NULL, &at, NULL), -EINVAL);
    CHECK_EQ(aw_udp_bind(&other, &at, &(aw_udp_options){.self_size = 2}), -EINVAL);
    CHECK_EQ(aw_udp_connect(&other, &none), -EINVAL);
    CHECK_EQ(aw_udp_connect(&other, &local), -EAFNOSUPPORT);
    CHECK_EQ(aw_udp_connect(&other, &odd), -EAFNOSUPPORT);
    CHECK_EQ(aw_datagram_connect(c, NULL), -EINVAL);
    CHECK_EQ(aw_datagram_connect(c, &none), -EINVAL);
    CHECK(other == NULL);
    aw_close(c);
    CHECK_EQ(open_sockets(), before);
    workers_end(rt, NULL);
}

/* ---- Options --------------------------------------------------------------------------------- */

TEST(several_may_have_a_port_if_all_agree) {
    aw_addr at = aw_addr_loopback(AF_INET, 0);
    aw_conn *a, *b, *c;
    CHECK_EQ(aw_udp_bind(&a, &at, AW_UDP(.reuse_port = true)), 0);
    CHECK_EQ(aw_conn_local(a, &at), 0);
    CHECK_EQ(aw_udp_bind(&b, &at, AW_UDP(.reuse_port = true)), 0);
    CHECK_EQ(aw_udp_bind(&c, &at, NULL), -EADDRINUSE);
    aw_close(a);
    aw_close(b);
}

TEST(how_far_datagrams_go_is_set) {
    for (int f = 0; f < INET_FAMILIES; f++) {
        aw_addr at;
        bool four = inet_families[f] == AF_INET;
        aw_conn *c = bind_here(inet_families[f], &at);
        int fd = aw_conn_fd(c), level = four ? IPPROTO_IP : IPPROTO_IPV6;
        CHECK_EQ(aw_udp_ttl(c, 17), 0);
        CHECK_EQ(socket_option(fd, level, four ? IP_TTL : IPV6_UNICAST_HOPS), 17);
        CHECK_EQ(aw_udp_group_ttl(c, 0), 0);
        CHECK_EQ(socket_option(fd, level, four ? IP_MULTICAST_TTL : IPV6_MULTICAST_HOPS), 0);
        CHECK_EQ(aw_udp_group_ttl(c, 9), 0);
        CHECK_EQ(socket_option(fd, level, four ? IP_MULTICAST_TTL : IPV6_MULTICAST_HOPS), 9);
        CHECK_EQ(aw_udp_group_loop(c, false), 0);
        CHECK_EQ(socket_option(fd, level, four ? IP_MULTICAST_LOOP : IPV6_MULTICAST_LOOP), 0);
        CHECK_EQ(aw_udp_ttl(c, 0), -EINVAL);
        CHECK_EQ(aw_udp_ttl(c, 256), -EINVAL);
        CHECK_EQ(aw_udp_group_ttl(c, -1), -EINVAL);
        CHECK_EQ(aw_udp_group_ttl(c, 256), -EINVAL);
        aw_close(c);
    }
    aw_conn *ends[2];
    CHECK_EQ(aw_unix_pair(ends, SOCK_DGRAM), 0);
    CHECK_EQ(aw_udp_ttl(ends[0], 3), -EOPNOTSUPP);
    aw_close(ends[0]);
    aw_close(ends[1]);
}

ON_DRIVERS(broadcasting_has_to_be_allowed) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at, all;
    aw_conn *c = bind_here(AF_INET, &at);
    CHECK_EQ(aw_addr_parse(&all, "127.255.255.255:9"), 0);
    CHECK_EQ(aw_block_on(rt, aw_send_to(c, "x", 1, &all)), -EACCES);
    CHECK_EQ(aw_udp_broadcast(c, true), 0);
    CHECK_EQ(aw_block_on(rt, aw_send_to(c, "x", 1, &all)), 1);
    CHECK_EQ(aw_udp_broadcast(c, false), 0);
    CHECK_EQ(aw_block_on(rt, aw_send_to(c, "x", 1, &all)), -EACCES);
    aw_close(c);
    workers_end(rt, NULL);
}

/* ---- Multicast groups ------------------------------------------------------------------------ */

/* An interface with multicast, other than lo, which often has no route to IPv6 groups. 0: none. */
static unsigned group_interface(void) {
    struct ifaddrs *all;
    unsigned found = 0;
    CHECK_EQ(getifaddrs(&all), 0);
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        bool fits = i->ifa_flags & IFF_UP && i->ifa_flags & IFF_MULTICAST &&
                    !(i->ifa_flags & IFF_LOOPBACK);
        if (fits && i->ifa_addr && i->ifa_addr->sa_family == AF_INET6)
            found = if_nametoindex(i->ifa_name);
    }
    freeifaddrs(all);
    return found;
}

static void join_and_leave(struct io_setup how, unsigned interface, const char *any,
                           const char *group) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at, to, from;
    aw_conn *in[2], *out;
    char byte = 0;
    CHECK_EQ(aw_addr_parse(&at, any), 0);
    CHECK_EQ(aw_addr_parse(&to, group), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(aw_udp_bind(&in[i], &at, AW_UDP(.reuse_addr = true)), 0);
        CHECK_EQ(aw_conn_local(in[i], &at), 0);
        CHECK_EQ(aw_udp_join(in[i], &to, interface), 0);
        CHECK_EQ(aw_udp_join(in[i], &to, interface), -EADDRINUSE);
    }
    aw_addr_set_port(&to, aw_addr_port(&at));
    aw_addr here = aw_addr_any(aw_addr_family(&to), 0);
    CHECK_EQ(aw_udp_bind(&out, &here, NULL), 0);
    CHECK_EQ(aw_udp_group_interface(out, interface), 0);
    CHECK_EQ(aw_block_on(rt, aw_send_to(out, "g", 1, &to)), 1);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(aw_block_on(rt, aw_recv_from(in[i], &byte, 1, &from, NULL)), 1);
        CHECK_EQ(byte, 'g');
    }
    /* The socket that left the group receives no more; the other one does. */
    CHECK_EQ(aw_udp_leave(in[0], &to, interface), 0);
    CHECK_EQ(aw_udp_leave(in[0], &to, interface), -EADDRNOTAVAIL);
    CHECK_EQ(aw_block_on(rt, aw_send_to(out, "h", 1, &to)), 1);
    CHECK_EQ(aw_block_on(rt, aw_recv_from(in[1], &byte, 1, &from, NULL)), 1);
    CHECK_EQ(byte, 'h');
    CHECK_EQ(recv(aw_conn_fd(in[0]), &byte, 1, MSG_DONTWAIT), -1);
    aw_addr wrong = aw_addr_loopback(aw_addr_family(&to) == AF_INET ? AF_INET6 : AF_INET, 0);
    CHECK_EQ(aw_udp_join(in[0], &wrong, interface), -EINVAL);
    aw_close(in[0]);
    aw_close(in[1]);
    aw_close(out);
    workers_end(rt, &m);
}

ON_DRIVERS(a_member_of_a_group_receives_what_is_sent_to_it) {
    join_and_leave(how, if_nametoindex("lo"), "0.0.0.0:0", "239.255.77.77:0");
}

ON_DRIVERS(a_member_of_a_group_receives_what_is_sent_to_it_over_ipv6) {
    unsigned interface = group_interface();
    if (!interface) SKIP("no interface for groups of IPv6 here");
    join_and_leave(how, interface, "[::]:0", "[ff01::7777]:0");
}
