/* SPDX-License-Identifier: MIT
 *
 * Datagrams: a ping that measures round-trip times.
 *
 *     85_udp_ping serve 7000      answers on that port until it is killed
 *     85_udp_ping 127.0.0.1:7000  sends ten pings, and prints the average
 *     85_udp_ping                 both, with a server that loses one datagram and delays another
 *
 * A datagram may be lost without an error, so the client needs a timeout. A late answer may arrive
 * after that timeout, and must not be taken for the answer to the next ping. So each ping has a
 * number, and all reads for one ping have the same deadline (aw_await_by, not aw_await_for).
 *
 * Notice the last ping. The server is gone, and the kernel reports it: the next call on the socket
 * returns the error. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

#include "listening.h"

/* ---- The server ------------------------------------------------------------------------------ */

struct server {
    AW_FRAME(int);
    aw_conn *conn;
    int lose, delay; /* the numbers of these datagrams */
    char buf[512];
    aw_addr from;
    int n, size;
    AW_SHARE(aw_datagram io; aw_sleep nap;);
};
AW_ASYNC_STATIC(server) {
    AW_BEGIN;
    for (self->n = 1;; self->n++) {
        AW_AWAIT(self->io,
                 aw_recv_from(self->conn, self->buf, sizeof self->buf, &self->from, NULL));
        if (self->io.out < 0) AW_RETURN(self->io.out);
        if (self->n == self->lose) continue;
        self->size = self->io.out;
        if (self->n == self->delay) AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(300)));
        AW_AWAIT(self->io, aw_send_to(self->conn, self->buf, (size_t)self->size, &self->from));
    }
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

/* ---- The client ------------------------------------------------------------------------------ */

struct ping {
    AW_FIBER_FRAME(int);
    aw_addr to;
    int count;
    uint64_t timeout;
};
AW_FIBER_STATIC(ping) {
    aw_conn *conn;
    int error = aw_udp_connect(&conn, &self->to), answered = 0, sent = 0;
    if (error) return error;
    uint64_t total = 0;
    ssize_t n = 0;
    while (sent < self->count && !aw_cancelled()) {
        char question[32], answer[32];
        size_t size = (size_t)snprintf(question, sizeof question, "ping %d", ++sent);
        uint64_t begin = aw_now(NULL), took;
        n = aw_await(aw_write(conn, question, size));
        while (n >= 0) {
            n = aw_await_by(begin + self->timeout, aw_read(conn, answer, sizeof answer));
            if (n == (ssize_t)size && memcmp(answer, question, size) == 0) break;
            if (n >= 0) printf("  (%.*s, too late)\n", (int)n, answer);
        }
        took = aw_now(NULL) - begin;
        if (n > 0) {
            printf("%s: %.3f ms\n", question, (double)took / 1e6);
            answered++;
            total += took;
        } else {
            printf("%s: %s\n", question, n == -ETIMEDOUT ? "no answer" : strerror((int)-n));
        }
    }
    printf("%d sent, %d answered, %d%% lost", sent, answered, 100 * (sent - answered) / sent);
    if (answered) printf(", %.3f ms on average", (double)total / answered / 1e6);
    printf("\n");
    aw_close(conn);
    return answered ? 0 : (int)n;
}

AW_FIBER(int, demo) {
    aw_addr at = aw_addr_loopback(AF_INET, 0);
    aw_conn *conn;
    int error = aw_udp_bind(&conn, &at, NULL);
    if (error) return error;
    aw_conn_local(conn, &at);
    struct server *task = aw_spawn(AW_CALL(server, .conn = conn, .lose = 2, .delay = 4));
    error = aw_await(AW_CALL(ping, .to = at, .count = 5, .timeout = AW_MSEC(200)));

    aw_task_abort(task);
    aw_await(aw_task_join(task));
    aw_task_drop(task);
    if (!error) aw_await(AW_CALL(ping, .to = at, .count = 1, .timeout = AW_SEC(5)));
    return error;
}

int main(int argc, char **argv) {
    aw_addr at;
    aw_conn *conn;
    char name[AW_ADDR_TEXT];
    if (argc < 2) return aw_run(AW_CALL(demo)) != 0;
    int error = parse_address(&at, argv[argc - 1]);
    if (!error && argc == 2) {
        error = aw_run(AW_CALL(ping, .to = at, .count = 10, .timeout = AW_SEC(1)));
    } else if (!error && !(error = aw_udp_bind(&conn, &at, NULL))) {
        aw_conn_local(conn, &at);
        aw_addr_print(&at, name, sizeof name);
        printf("listening at %s\n", name);
        fflush(stdout);
        error = aw_run(AW_CALL(server, .conn = conn));
    }
    if (error) fprintf(stderr, "%s: %s\n", argv[argc - 1], strerror(-error));
    return error != 0;
}
