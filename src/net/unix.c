/* SPDX-License-Identifier: MIT
 *
 * Unix sockets: pairs, datagrams, peer credentials; and pipes. */
#define _GNU_SOURCE
#include <awake/unix.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <awake/net.h>

#include "net/socket.h"

/* Makes two connections of two descriptors. On failure both are closed. */
static int conn_pair(aw_conn **a, aw_conn **b, const int fds[2]) {
    int error = aw__socket_conn(a, fds[0]);
    if (error) {
        close(fds[0]);
        close(fds[1]);
        return error;
    }
    error = aw__socket_conn(b, fds[1]);
    if (error) {
        aw_close(*a);
        close(fds[1]);
    }
    return error;
}

int aw_unix_pair(aw_conn *ends[2], int kind) {
    int fds[2];
    if (!ends || (kind != SOCK_STREAM && kind != SOCK_DGRAM && kind != SOCK_SEQPACKET))
        return -EINVAL;
    if (socketpair(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds)) return -errno;
    return conn_pair(&ends[0], &ends[1], fds);
}

int aw_pipe(aw_conn **reader, aw_conn **writer) {
    int fds[2];
    if (!reader || !writer) return -EINVAL;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK)) return -errno;
    return conn_pair(reader, writer, fds);
}

int aw_unix_datagram(aw_conn **c, const aw_addr *local) {
    if (!c || (local && aw_addr_family(local) != AF_UNIX)) return -EINVAL;
    int fd = aw__socket(AF_UNIX, SOCK_DGRAM);
    if (fd < 0) return fd;
    /* Allocate before bind: a failure after it would leave the path behind. */
    aw_conn *conn;
    int error = aw__socket_conn(&conn, fd);
    if (error) {
        close(fd);
        return error;
    }
    if (local && bind(fd, &local->u.any, local->size)) error = -errno;
    if (error)
        aw_close(conn);
    else
        *c = conn;
    return error;
}

int aw_unix_remove_stale(const aw_addr *addr) {
    return addr ? aw__socket_remove_stale(addr) : -EINVAL;
}

int aw_conn_credentials(const aw_conn *c, aw_unix_peer *peer) {
    struct ucred cred;
    socklen_t size = sizeof cred;
    aw_addr local;
    int error = peer ? aw_conn_local(c, &local) : -EINVAL;
    if (error) return error;
    if (aw_addr_family(&local) != AF_UNIX) return -EOPNOTSUPP;
    if (getsockopt(aw_conn_fd(c), SOL_SOCKET, SO_PEERCRED, &cred, &size)) return -errno;
    if (cred.uid == (uid_t)-1) return -ENOTCONN; /* no peer */
    *peer = (aw_unix_peer){cred.pid, cred.uid, cred.gid};
    return 0;
}
