/* SPDX-License-Identifier: MIT
 *
 * Unix sockets: pairs, datagrams, who is at the other end; and pipes. */
#define _GNU_SOURCE
#include <awake/unix.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <awake/net.h>

#include "net/socket.h"

/* Two descriptors become two connections, or are closed. */
static int both(aw_conn **a, aw_conn **b, const int fds[2]) {
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
    return both(&ends[0], &ends[1], fds);
}

int aw_pipe(aw_conn **reader, aw_conn **writer) {
    int fds[2];
    if (!reader || !writer) return -EINVAL;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK)) return -errno;
    return both(reader, writer, fds);
}

int aw_unix_datagram(aw_conn **c, const aw_addr *local) {
    if (!c || (local && aw_addr_family(local) != AF_UNIX)) return -EINVAL;
    int fd = aw__socket(AF_UNIX, SOCK_DGRAM);
    if (fd < 0) return fd;
    aw_conn *made; /* first: what is bound to a path would leave it behind */
    int error = aw__socket_conn(&made, fd);
    if (error) {
        close(fd);
        return error;
    }
    if (local && bind(fd, &local->u.any, local->size)) error = -errno;
    if (error)
        aw_close(made);
    else
        *c = made;
    return error;
}

int aw_unix_remove_stale(const aw_addr *addr) {
    return addr ? aw__socket_remove_stale(addr) : -EINVAL;
}

int aw_conn_credentials(const aw_conn *c, aw_unix_peer *peer) {
    struct ucred who;
    socklen_t size = sizeof who;
    aw_addr local;
    int error = peer ? aw_conn_local(c, &local) : -EINVAL;
    if (error) return error;
    if (aw_addr_family(&local) != AF_UNIX) return -EOPNOTSUPP;
    if (getsockopt(aw_conn_fd(c), SOL_SOCKET, SO_PEERCRED, &who, &size)) return -errno;
    if (who.uid == (uid_t)-1) return -ENOTCONN; /* nobody */
    *peer = (aw_unix_peer){who.pid, who.uid, who.gid};
    return 0;
}
