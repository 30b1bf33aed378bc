/* SPDX-License-Identifier: MIT
 *
 * awake/inherit.h: listening sockets that this program was started with, or that the next one is to have.
 *
 * *Socket activation*: who starts the program listens for it, and hands the sockets over (systemd, by LISTEN_FDS):
 *
 *     aw_inherited found[4];
 *     int n = aw_inherited_fds(found, 4);
 *     for (int i = 0; i < n; i++) aw_listener_of_fd(&l[i], found[i].fd, NULL);
 *
 * *Upgrade without a refused connection*: the new program gets the old one's sockets, and both accept until the old one has
 * closed its listener; who waits to be accepted is accepted by either. There are two ways.
 *   - The new program asks over a Unix socket: aw_send_fds(c, "l", 1, &fd, 1) with fd = aw_listener_fd(l), and there
 *     aw_recv_fds and aw_listener_of_fd.
 *   - The old one starts it: fd = aw_listener_for_exec(l) is a number that an exec does not close; it goes along as
 *     an argument or in the environment, to aw_listener_of_fd there. */
#ifndef AWAKE_INHERIT_H
#define AWAKE_INHERIT_H

#include <awake/net.h>

AW_C_BEGIN

typedef struct aw_inherited {
    int fd;
    char name[256]; /* from LISTEN_FDNAMES, or "unknown" */
} aw_inherited;

/* How many sockets there are, of which the first `max` are stored; 0 when there are none, or they are for another
 * process (LISTEN_PID); -EINVAL when the variables make no sense. All are close-on-exec from now on. Each is the
 * caller's, once: a later call gives the same numbers. They may be of any kind: aw_listener_of_fd and aw_conn_of_fd
 * take them over. The environment is only read, and not in a program that runs with more rights than who started it. */
AW_API int aw_inherited_fds(aw_inherited *found, int max);

/* A copy of a listener's descriptor, the caller's, that stays open over an exec. Or a negative errno. */
AW_API int aw_listener_for_exec(const aw_listener *l);

AW_C_END

#endif
