/* SPDX-License-Identifier: MIT
 *
 * The echo server once more, as fibers: plain loops and plain locals.
 *
 *     81b_echo_fiber 7000    serves that port until it is killed
 *     81b_echo_fiber 7000 5  the same, with a timeout of 5 seconds instead of 30
 *     81b_echo_fiber         serves three clients of its own
 *
 * Each await returns what a blocking call would return, -ETIMEDOUT after the timeout, or -ECANCELED
 * when the fiber is cancelled. The fiber handles all errors in the same way.
 *
 * Notice AW_FIBER_DROP. A fiber that is cancelled before it starts is never entered, but it owns a
 * connection, which must be closed. */
#include <awake.h>
#include <stdio.h>

#include "listening.h"

/* ---- The server ------------------------------------------------------------------------------ */

AW_FIBER(int, echo, aw_conn *conn; uint64_t timeout;) {
    char buf[4096];
    ssize_t n;
    aw_conn_buffers(self->conn, 0, 65536); /* small: see 81a */
    while ((n = aw_await_for(self->timeout, aw_read(self->conn, buf, sizeof buf))) > 0)
        if ((n = aw_await_for(self->timeout, aw_write_all(self->conn, buf, (size_t)n))) < 0) {
            aw_conn_abort(self->conn); /* the peer does not read: drop what it was sent */
            return (int)n;
        }
    aw_close(self->conn);
    return (int)n;
}
AW_FIBER_DROP(echo) {
    aw_close(self->conn);
}

AW_FIBER(int, server, aw_listener *listener; uint64_t timeout;) {
    aw_conn *conn;
    int error;
    while ((error = aw_await(aw_accept(self->listener, &conn))) == 0)
        aw_task_detach(aw_spawn(AW_CALL(echo, .conn = conn, .timeout = self->timeout)));
    aw_listener_close(self->listener);
    return error;
}
AW_FIBER_DROP(server) {
    aw_listener_close(self->listener);
}

/* ---- A client -------------------------------------------------------------------------------- */

/* Sends a text `times` times and counts the echoes. Then it waits until the server closes. */
struct client {
    AW_FIBER_FRAME(int);
    aw_addr to;
    const char *name;
    int times;
    int echoes;
};
AW_FIBER_STATIC(client) {
    aw_conn *conn;
    char buf[16];
    int error = aw_await(aw_connect(&conn, &self->to));
    if (error) return error;
    ssize_t n = 0;
    for (int i = 0; i < self->times && n >= 0; i++) {
        n = aw_await(aw_write_all(conn, self->name, strlen(self->name)));
        if (n > 0) n = aw_await(aw_read_exact(conn, buf, strlen(self->name)));
        if (n > 0 && memcmp(buf, self->name, strlen(self->name)) == 0) self->echoes++;
    }
    if (n >= 0) n = aw_await(aw_read(conn, buf, sizeof buf)); /* 0: closed by the server */
    aw_close(conn);
    return (int)n;
}

AW_FIBER(int, demo) {
    aw_addr at;
    aw_listener *listener;
    int error = listen_at(&listener, "0", NULL, &at);
    if (error) return error;
    aw_task_detach(aw_spawn(AW_CALL(server, .listener = listener, .timeout = AW_MSEC(100))));

    struct client clients[] = {AW_CALL(client, .to = at, .name = "Ann", .times = 1),
                               AW_CALL(client, .to = at, .name = "Bob", .times = 100),
                               AW_CALL(client, .to = at, .name = "Eve")};
    error = aw_await(aw_try_join_all(clients, 3));
    for (int i = 0; i < 3 && !error; i++)
        printf("%s: %d of %d came back, then the server closed the connection\n", clients[i].name,
               clients[i].echoes, clients[i].times);
    return error;
}

int main(int argc, char **argv) {
    if (argc < 2) return aw_run(AW_CALL(demo)) != 0;
    aw_listener *listener;
    if (listen_at(&listener, argv[1], NULL, NULL)) return 1;
    return aw_run(AW_CALL(server, .listener = listener, .timeout = parse_timeout(argv[2]))) != 0;
}
