/* SPDX-License-Identifier: MIT
 *
 * The echo server once more, as fibers: plain loops and plain locals.
 *
 *     81b_echo_fiber 7000    serves at that port until it is killed
 *     81b_echo_fiber         serves a few clients of its own
 *
 * Each await returns what a blocking call would have returned, or -ETIMEDOUT when the patience is over, or -ECANCELED when the
 * fiber is to end. All three are errors, and the fiber goes the way that it goes on any error.
 *
 * Notice the drop parts. A fiber that is cancelled before it begins is never entered, but it was given a
 * connection, and somebody has to close it. */
#include <awake.h>
#include <stdio.h>

#include "listening.h"

/* ---- The server ----------------------------------------------------------------------------------- */

AW_FIBER(int, echo, aw_conn *conn; uint64_t patience;) {
    char buf[4096];
    ssize_t n;
    while ((n = aw_await_for(self->patience, aw_read(self->conn, buf, sizeof buf))) > 0)
        if ((n = aw_await(aw_write_all(self->conn, buf, (size_t)n))) < 0) break;
    aw_close(self->conn);
    return (int)n;
}
AW_FIBER_DROP(echo) {
    aw_close(self->conn);
}

AW_FIBER(int, server, aw_listener *listener; uint64_t patience;) {
    aw_conn *conn;
    int error;
    while ((error = aw_await(aw_accept(self->listener, &conn))) == 0)
        aw_task_detach(aw_spawn(AW_CALL(echo, .conn = conn, .patience = self->patience)));
    aw_listener_close(self->listener);
    return error;
}
AW_FIBER_DROP(server) {
    aw_listener_close(self->listener);
}

/* ---- A client ------------------------------------------------------------------------------------- */

/* Sends a text `times` times and counts what comes back; then it stays silent until the server hangs up. */
AW_FIBER(int, client, aw_addr to; const char *name; int times; int back;) {
    aw_conn *conn;
    char buf[16];
    int error = aw_await(aw_connect(&conn, &self->to));
    if (error) return error;
    ssize_t n = 0;
    for (int i = 0; i < self->times && n >= 0; i++) {
        n = aw_await(aw_write_all(conn, self->name, strlen(self->name)));
        if (n > 0) n = aw_await(aw_read_exact(conn, buf, strlen(self->name)));
        if (n > 0 && memcmp(buf, self->name, strlen(self->name)) == 0) self->back++;
    }
    if (n >= 0) n = aw_await(aw_read(conn, buf, sizeof buf)); /* 0: it has hung up */
    aw_close(conn);
    return (int)n;
}

AW_FIBER(int, demo) {
    aw_addr at;
    aw_listener *listener;
    int error = listen_at(&listener, "0", NULL, &at);
    if (error) return error;
    aw_task_detach(aw_spawn(AW_CALL(server, .listener = listener, .patience = AW_MSEC(100))));

    struct client clients[] = {AW_CALL(client, .to = at, .name = "Ann", .times = 1),
                               AW_CALL(client, .to = at, .name = "Bob", .times = 100),
                               AW_CALL(client, .to = at, .name = "Eve")};
    error = aw_await(aw_try_join_all(clients, 3));
    for (int i = 0; i < 3 && !error; i++)
        printf("%s: %d of %d came back, and then the server hung up\n", clients[i].name,
               clients[i].back, clients[i].times);
    return error;
}

int main(int argc, char **argv) {
    if (argc < 2) return aw_run(AW_CALL(demo)) != 0;
    aw_listener *listener;
    if (listen_at(&listener, argv[1], NULL, NULL)) return 1;
    return aw_run(AW_CALL(server, .listener = listener, .patience = AW_SEC(30))) != 0;
}
