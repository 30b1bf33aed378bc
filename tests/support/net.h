/* SPDX-License-Identifier: MIT
 *
 * Helpers for tests of sockets: listeners on loopback, plain blocking clients, connected pairs,
 * and an address that never answers. */
#ifndef AWAKE_TEST_NET_H
#define AWAKE_TEST_NET_H

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "support/io.h"

#define INET_FAMILIES 2
__attribute__((unused)) static const int inet_families[INET_FAMILIES] = {AF_INET, AF_INET6};

HELPER size_t open_fds(void) {
    return entries("/proc/self/fd");
}

/* Counts the open descriptors of one kind ("socket:", "pipe:"). Drivers open descriptors of
 * other kinds. */
HELPER size_t open_of(const char *kind) {
    DIR *d = opendir("/proc/self/fd");
    char path[64], to[64];
    size_t n = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "/proc/self/fd/%.20s", e->d_name);
        ssize_t length = readlink(path, to, sizeof to);
        n += length > (ssize_t)strlen(kind) && memcmp(to, kind, strlen(kind)) == 0;
    }
    closedir(d);
    return n;
}
HELPER size_t open_sockets(void) {
    return open_of("socket:");
}

/* A listener on a free port. `at` receives its address. */
HELPER aw_listener *listen_loopback(int family, const aw_listen_options *o, aw_addr *at) {
    aw_listener *l;
    aw_addr any_port = aw_addr_loopback(family, 0);
    CHECK_EQ(aw_listen(&l, &any_port, o), 0);
    CHECK_EQ(aw_listener_addr(l, at), 0);
    CHECK_NE(aw_addr_port(at), 0);
    return l;
}

/* A client that is connected by the kernel alone: no accept is needed. */
HELPER int plain_client(const aw_addr *at) {
    int fd = socket(aw_addr_family(at), SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_GE(fd, 0);
    CHECK_EQ(connect(fd, &at->u.any, at->size), 0);
    return fd;
}

/* A port that refuses connections. It is bound, so that no other process can listen there. */
HELPER int refusing_port(int family, aw_addr *at) {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    *at = aw_addr_loopback(family, 0);
    CHECK_EQ(bind(fd, &at->u.any, at->size), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    CHECK_EQ(aw_addr_of_sockaddr(at, (struct sockaddr *)&name, size), 0);
    return fd;
}

/* A listener with a full queue: further connects get no answer. */
enum { BLACK_HOLE_FDS = 9 };
typedef struct black_hole {
    aw_addr at;
    int fds[BLACK_HOLE_FDS];
} black_hole;

HELPER void black_hole_open(black_hole *b, const char *where) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    CHECK_EQ(aw_addr_parse(&b->at, where), 0);
    b->fds[0] = socket(aw_addr_family(&b->at), SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(b->fds[0], &b->at.u.any, b->at.size), 0);
    CHECK_EQ(listen(b->fds[0], 0), 0);
    CHECK_EQ(getsockname(b->fds[0], (struct sockaddr *)&name, &size), 0);
    CHECK_EQ(aw_addr_of_sockaddr(&b->at, (struct sockaddr *)&name, size), 0);
    for (int i = 1; i < BLACK_HOLE_FDS; i++) {
        b->fds[i] = socket(aw_addr_family(&b->at), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(b->fds[i], &b->at.u.any, b->at.size)) CHECK_EQ(errno, EINPROGRESS);
    }
    struct pollfd last = {b->fds[BLACK_HOLE_FDS - 1], POLLOUT, 0};
    CHECK_EQ(poll(&last, 1, 20), 0); /* no answer */
}

HELPER void black_hole_close(black_hole *b) {
    for (int i = 0; i < BLACK_HOLE_FDS; i++)
        close(b->fds[i]);
}

/* The two ends of a TCP connection: [0] connected, [1] accepted. */
HELPER void connected_pair(aw_runtime *rt, aw_conn *ends[2]) {
    aw_addr at;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    CHECK_EQ(aw_block_on(rt, aw_connect(&ends[0], &at)), 0);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &ends[1])), 0);
    aw_listener_close(l);
}

/* The flags of each socket and pipe that the library makes. */
HELPER void check_flags(int fd) {
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

HELPER int socket_option(int fd, int level, int option) {
    int value = -1;
    socklen_t size = sizeof value;
    CHECK_EQ(getsockopt(fd, level, option, &value, &size), 0);
    return value;
}

/* One accept as a task. */
AW_ASYNC(int, accept_one, aw_listener *l; aw_conn * *conn; uint32_t * begun; aw_accept_future a;) {
    AW_BEGIN;
    if (self->begun) ADD(*self->begun, 1);
    AW_AWAIT(self->a, aw_accept(self->l, self->conn));
    AW_RETURN(self->a.out);
    AW_END;
}

/* Waits until another task or process has counted up to `want`. */
AW_ASYNC(int, until_counted, const uint32_t *count; uint32_t want; aw_sleep nap;) {
    AW_BEGIN;
    while (LOAD(*self->count) < self->want)
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    AW_RETURN(0);
    AW_END;
}

#endif
