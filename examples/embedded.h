/* SPDX-License-Identifier: MIT
 *
 * A runtime that runs inside a foreign event loop, and tasks for it. Used by 87a and 87b. */
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include <awake.h>
#include <stdio.h>
#include <string.h>

/* Makes a runtime without threads. Returns the descriptor to watch, or a negative errno. */
static inline int embedded_runtime(aw_runtime **rt) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.flavour = AW_CURRENT_THREAD;
    int fd = aw_runtime_new(rt, &options);
    if (fd == 0) fd = aw_runtime_fd(*rt);
    if (fd < 0) fprintf(stderr, "cannot embed a runtime: %s\n", strerror(-fd));
    return fd;
}

/* Answers each number with its square, one client at a time. */
AW_FIBER(int, squares, aw_listener *listener;) {
    aw_conn *conn;
    int error, n;
    while ((error = aw_await(aw_accept(self->listener, &conn))) == 0) {
        while (aw_await(aw_read_exact(conn, &n, sizeof n)) > 0) {
            n *= n;
            if (aw_await(aw_write_all(conn, &n, sizeof n)) < 0) break;
        }
        aw_close(conn);
    }
    aw_listener_close(self->listener);
    printf("awake: the server has ended\n");
    return error;
}
AW_FIBER_DROP(squares) {
    aw_listener_close(self->listener);
}

/* Spawns the server. Its task starts in the first aw_runtime_run_once. */
static inline int serve_squares(aw_runtime *rt, aw_addr *at) {
    aw_listener *listener;
    *at = aw_addr_loopback(AF_INET, 0);
    int error = aw_listen(&listener, at, NULL);
    if (error) return error;
    aw_listener_addr(listener, at);
    aw_task_detach(aw_spawn_on(rt, AW_CALL(squares, .listener = listener)));
    return 0;
}

/* Sleeps for 20 ms, asks the server for the square of n, and calls `then`. */
struct ask {
    AW_FIBER_FRAME(int);
    aw_addr to;
    int n;
    void (*then)(int n);
};
AW_FIBER_STATIC(ask) {
    aw_conn *conn = NULL;
    int square = 0;
    ssize_t error = aw_await(aw_sleep_for(AW_MSEC(20)));
    if (!error) error = aw_await(aw_connect(&conn, &self->to));
    if (!error) error = aw_await(aw_write_all(conn, &self->n, sizeof self->n));
    if (error > 0) error = aw_await(aw_read_exact(conn, &square, sizeof square));
    aw_close(conn);
    if (error > 0)
        printf("awake: the server answers: %d * %d = %d\n", self->n, self->n, square);
    else
        printf("awake: %s\n", strerror((int)-error));
    self->then(self->n);
    return error < 0 ? (int)error : 0;
}

#endif
