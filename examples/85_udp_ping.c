/* SPDX-License-Identifier: MIT
 *
 * Datagrams: is it there, and how long does it take?
 *
 *     85_udp_ping serve 7000             answers at that port until it is killed
 *     85_udp_ping 127.0.0.1:7000         asks ten times, and adds up
 *     85_udp_ping                        both, with a server that loses one datagram and is slow with another
 *
 * A datagram may be lost, and nobody says so: who asks has to give up after a while. And an answer may come after that: then
 * it must not be taken for the answer to the next question. So each question has a number, and the time of all
 * attempts to read its answer ends at the same point (aw_await_by, not aw_await_for).
 *
 * Notice the last one. There is nobody at all any more, and the system says so: the next call on the socket has the error. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

#include "listening.h"

/* ---- Who answers ---------------------------------------------------------------------------------- */

AW_ASYNC(int, server, aw_conn *conn; int lose; int slow; char buf[512]; aw_addr from; int n;
         AW_SHARE(aw_datagram io; aw_sleep nap;); int size;) {
    AW_BEGIN;
    for (self->n = 1;; self->n++) {
        AW_AWAIT(self->io,
                 aw_recv_from(self->conn, self->buf, sizeof self->buf, &self->from, NULL));
        if (self->io.out < 0) AW_RETURN(self->io.out);
        if (self->n == self->lose) continue;
        self->size = self->io.out;
        if (self->n == self->slow) AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(300)));
        AW_AWAIT(self->io, aw_send_to(self->conn, self->buf, (size_t)self->size, &self->from));
    }
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

/* ---- Who asks ------------------------------------------------------------------------------------- */

AW_FIBER(int, ping, aw_addr to; int count; uint64_t patience;) {
    aw_conn *conn;
    int error = aw_udp_connect(&conn, &self->to), answered = 0, sent = 0;
    if (error) return error;
    uint64_t all = 0;
    ssize_t n = 0;
    while (sent < self->count && !aw_cancelled()) {
        char question[32], answer[32];
        size_t size = (size_t)snprintf(question, sizeof question, "ping %d", ++sent);
        uint64_t begin = aw_now(NULL), took;
        n = aw_await(aw_write(conn, question, size));
        while (n >= 0) {
            n = aw_await_by(begin + self->patience, aw_read(conn, answer, sizeof answer));
            if (n == (ssize_t)size && memcmp(answer, question, size) == 0) break;
            if (n >= 0) printf("  (%.*s, too late)\n", (int)n, answer);
        }
        took = aw_now(NULL) - begin;
        if (n > 0) {
            printf("%s: %.3f ms\n", question, (double)took / 1e6);
            answered++;
            all += took;
        } else {
            printf("%s: %s\n", question, n == -ETIMEDOUT ? "no answer" : strerror((int)-n));
        }
    }
    printf("%d sent, %d answered, %d%% lost", sent, answered, 100 * (sent - answered) / sent);
    if (answered) printf(", %.3f ms on average", (double)all / answered / 1e6);
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
    struct server *task = aw_spawn(AW_CALL(server, .conn = conn, .lose = 2, .slow = 4));
    error = aw_await(AW_CALL(ping, .to = at, .count = 5, .patience = AW_MSEC(200)));

    aw_task_abort(task);
    aw_await(aw_task_join(task));
    aw_task_drop(task);
    if (!error) aw_await(AW_CALL(ping, .to = at, .count = 1, .patience = AW_SEC(5)));
    return error;
}

int main(int argc, char **argv) {
    aw_addr at;
    aw_conn *conn;
    char name[AW_ADDR_TEXT];
    if (argc < 2) return aw_run(AW_CALL(demo)) != 0;
    int error = address_of(&at, argv[argc - 1]);
    if (!error && argc == 2) {
        error = aw_run(AW_CALL(ping, .to = at, .count = 10, .patience = AW_SEC(1)));
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
