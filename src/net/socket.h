/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of this folder. All sockets are created non-blocking and close-on-exec. */
#ifndef AW_NET_SOCKET_H
#define AW_NET_SOCKET_H

#include <awake/addr.h>
#include <awake/io.h>

/* A descriptor, or a negative errno. */
int aw__socket(int family, int kind);
int aw__socket_set(int fd, int level, int option, int value);
/* `get` is getsockname or getpeername. 0 or a negative errno. */
int aw__socket_name(int fd, int (*get)(int, struct sockaddr *, socklen_t *), aw_addr *addr);
/* On failure `fd` still belongs to the caller. */
int aw__socket_conn(aw_conn **c, int fd);

/* Removes a path if no socket is bound to it: 0. -EADDRINUSE: one is. -ENOENT, -ENOTSOCK. */
int aw__socket_remove_stale(const aw_addr *addr);

#endif
