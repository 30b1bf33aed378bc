/* SPDX-License-Identifier: MIT
 *
 * awake/socket_activation.h: inherit listening sockets, or pass them to the next program.
 *
 * *Socket activation*: the process that starts your program listens, and passes the sockets on
 * (systemd, by LISTEN_FDS):
 *
 *     aw_inherited found[4];
 *     int n = aw_inherited_fds(found, 4);
 *     for (int i = 0; i < n; i++) aw_listener_of_fd(&l[i], found[i].fd, NULL);
 *
 * *Upgrade without a refused connection*: the new program gets the sockets of the old one. Both
 * accept, also connections that were pending before, until the old one closes its listener. There
 * are two ways:
 *   - The new program asks over a Unix socket. The old one answers with fd = aw_listener_fd(l) and
 *     aw_send_fds(c, "l", 1, &fd, 1); the new one calls aw_recv_fds and aw_listener_of_fd.
 *   - The old program starts the new one. fd = aw_listener_for_exec(l) is a number that exec does
 *     not close. Pass it as an argument or in the environment, to aw_listener_of_fd in the new
 *     program. */
#ifndef AWAKE_SOCKET_ACTIVATION_H
#define AWAKE_SOCKET_ACTIVATION_H

#include <awake/net.h>

AW_C_BEGIN

typedef struct aw_inherited {
    int fd;
    char name[256]; /* from LISTEN_FDNAMES, or "unknown" */
} aw_inherited;

/* The number of sockets; the first `max` are stored. 0: none, or they are for another process
 * (LISTEN_PID); -EINVAL: invalid variables. From now on all are close-on-exec. Each is yours, once:
 * a later call gives the same numbers. They may be of any kind: take them over with
 * aw_listener_of_fd or aw_conn_of_fd. The environment is only read, and not in a program that runs
 * with more privileges than its caller. */
AW_API int aw_inherited_fds(aw_inherited *found, int max);

/* A duplicate of the listener's descriptor, yours, that stays open across exec. Or a negative
 * errno. */
AW_API int aw_listener_for_exec(const aw_listener *l);

AW_C_END

#endif
