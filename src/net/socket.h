/* SPDX-License-Identifier: MIT
 *
 * What the files of this folder share: sockets that do not block and are closed on exec from birth. */
#ifndef AW_NET_SOCKET_H
#define AW_NET_SOCKET_H

#include <awake/addr.h>
#include <awake/io.h>

/* A descriptor, or a negative errno. */
int aw__socket(int family, int kind);
/* 0 or a negative errno. */
int aw__socket_set(int fd, int level, int option, int value);
/* As it comes from getsockname or getpeername. */
int aw__socket_name(int fd, int (*get)(int, struct sockaddr *, socklen_t *), aw_addr *addr);
/* Its descriptor is the caller's until this has succeeded. */
int aw__socket_conn(aw_conn **c, int fd);

/* A path that is a socket to which nobody is bound is removed: 0; -EADDRINUSE: somebody is; -ENOENT, -ENOTSOCK. */
int aw__socket_remove_stale(const aw_addr *addr);

#endif
