/* SPDX-License-Identifier: MIT
 *
 * Sockets, and options of connected ones. */
#define _GNU_SOURCE
#include "net/socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <awake/net.h>

#include "io/fd.h"

/* Other families are refused here: the kernel supports more, and fails with various errors for
 * those without such a socket type. */
int aw__socket(int family, int kind) {
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX) return -EAFNOSUPPORT;
    int fd = socket(family, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : fd;
}

int aw__socket_set(int fd, int level, int option, int value) {
    return setsockopt(fd, level, option, &value, sizeof value) ? -errno : 0;
}

int aw__socket_name(int fd, int (*get)(int, struct sockaddr *, socklen_t *), aw_addr *addr) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    if (get(fd, (struct sockaddr *)&name, &size)) return -errno;
    return aw_addr_of_sockaddr(addr, (struct sockaddr *)&name, size);
}

int aw__socket_conn(aw_conn **c, int fd) {
    return aw__fd_new(c, fd);
}

/* A refused connect means that no socket is bound to the path. Any other failure (a full queue,
 * another socket type) means that one is. */
int aw__socket_remove_stale(const aw_addr *addr) {
    char path[sizeof addr->u.local.sun_path + 1] = {0}; /* sun_path may lack a NUL */
    struct stat about;
    memcpy(path, addr->u.local.sun_path, sizeof addr->u.local.sun_path);
    if (aw_addr_family(addr) != AF_UNIX || !*path) return -EINVAL;
    if (lstat(path, &about)) return -errno;
    if (!S_ISSOCK(about.st_mode)) return -ENOTSOCK;
    int fd = aw__socket(AF_UNIX, SOCK_STREAM);
    if (fd < 0) return fd;
    int error = connect(fd, &addr->u.any, addr->size) ? -errno : 0;
    close(fd);
    if (error == -ENOENT) return error;
    if (error != -ECONNREFUSED) return -EADDRINUSE;
    return unlink(path) ? -errno : 0;
}

/* ---- Connections ----------------------------------------------------------------------------- */

int aw_conn_local(const aw_conn *c, aw_addr *addr) {
    int fd = aw_conn_fd(c);
    return fd < 0 ? fd : aw__socket_name(fd, getsockname, addr);
}

int aw_conn_peer(const aw_conn *c, aw_addr *addr) {
    int fd = aw_conn_fd(c);
    return fd < 0 ? fd : aw__socket_name(fd, getpeername, addr);
}

static int conn_set(const aw_conn *c, int level, int option, int value) {
    int fd = aw_conn_fd(c);
    return fd < 0 ? fd : aw__socket_set(fd, level, option, value);
}

int aw_conn_nodelay(aw_conn *c, bool on) {
    return conn_set(c, IPPROTO_TCP, TCP_NODELAY, on);
}

int aw_conn_keepalive(aw_conn *c, int idle, int interval, int count) {
    if (idle < 0 || (idle && (interval <= 0 || count <= 0))) return -EINVAL;
    int error = 0;
    if (idle) error = conn_set(c, IPPROTO_TCP, TCP_KEEPIDLE, idle);
    if (idle && !error) error = conn_set(c, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    if (idle && !error) error = conn_set(c, IPPROTO_TCP, TCP_KEEPCNT, count);
    return error ? error : conn_set(c, SOL_SOCKET, SO_KEEPALIVE, idle > 0);
}

int aw_conn_buffers(aw_conn *c, int receive, int send) {
    if (receive < 0 || send < 0) return -EINVAL;
    int error = receive ? conn_set(c, SOL_SOCKET, SO_RCVBUF, receive) : 0;
    return error || !send ? error : conn_set(c, SOL_SOCKET, SO_SNDBUF, send);
}

int aw_conn_reset_on_close(aw_conn *c, bool on) {
    struct linger now = {on, 0};
    int fd = aw_conn_fd(c);
    if (fd < 0) return fd;
    return setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) ? -errno : 0;
}

void aw_conn_abort(aw_conn *c) {
    if (!c) return;
    aw_conn_reset_on_close(c, true);
    aw_close(c);
}
