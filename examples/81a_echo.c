/* SPDX-License-Identifier: MIT
 *
 * An echo server for any number of clients. It closes the connection of a client that sends
 * nothing, or does not read.
 *
 *     81a_echo 7000          serves that port until it is killed: nc 127.0.0.1 7000
 *     81a_echo 7000 5        the same, with a timeout of 5 seconds instead of 30
 *     81a_echo               serves four clients of its own
 *
 * The timeout for silent clients is a timeout around the read. When it expires the read is
 * cancelled, and the await ends only after the kernel has released the buffer. So the buffer may be
 * a member of the frame. Data that arrives at the same moment is not lost: it counts as read.
 *
 * The write needs a timeout as well. A client that sends and never reads fills the kernel's
 * buffers. Without a timeout the write would wait as long as that client lives. The send buffer is
 * limited, because the kernel wakes a writer only when a third of it is free: of 4 MB a slow client
 * may not read a third in time.
 *
 * Notice that the eager client writes and reads at the same time. If it wrote everything first,
 * each end would soon wait for the other to read. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

#include "listening.h"

/* ---- The server ------------------------------------------------------------------------------ */

struct echo {
    AW_FRAME(int);
    aw_conn *conn;
    uint64_t timeout;
    char buf[4096];
    AW_TIMEOUT(aw_io) read;
    AW_TIMEOUT(aw_transfer) write;
};
AW_ASYNC_STATIC(echo) {
    AW_BEGIN;
    aw_conn_buffers(self->conn, 0, 65536);
    for (;;) {
        AW_AWAIT_FOR(self->read, self->timeout, aw_read(self->conn, self->buf, sizeof self->buf));
        if (self->read.out < 0) AW_RETURN(self->read.out); /* -ETIMEDOUT */
        if (self->read.inner.out <= 0) AW_RETURN(self->read.inner.out);
        AW_AWAIT_FOR(self->write, self->timeout,
                     aw_write_all(self->conn, self->buf, (size_t)self->read.inner.out));
        if (self->write.out < 0) { /* the peer does not read: drop what it was sent */
            aw_conn_reset_on_close(self->conn, true);
            AW_RETURN(self->write.out);
        }
        if (self->write.inner.out < 0) AW_RETURN((int)self->write.inner.out);
    }
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

struct server {
    AW_FRAME(int);
    aw_listener *listener;
    uint64_t timeout;
    aw_conn *conn;
    aw_accept_future accept;
};
AW_ASYNC_STATIC(server) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->accept, aw_accept(self->listener, &self->conn));
        if (self->accept.out < 0) AW_RETURN(self->accept.out);
        aw_task_detach(aw_spawn(AW_CALL(echo, .conn = self->conn, .timeout = self->timeout)));
    }
    AW_FINALLY;
    aw_listener_close(self->listener);
    AW_END;
}

/* ---- Clients --------------------------------------------------------------------------------- */

/* Sends a text, reads the answer, shuts down its sending side, and reads the end of the stream. */
struct polite_client {
    AW_FRAME(int);
    aw_addr to;
    aw_conn *conn;
    char answer[64];
    AW_SHARE(aw_connect_future connect; aw_transfer transfer; aw_io io;);
};
AW_ASYNC_STATIC(polite_client) {
    AW_BEGIN;
    AW_AWAIT(self->connect, aw_connect(&self->conn, &self->to));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    AW_AWAIT(self->transfer, aw_write_all(self->conn, "hello, echo", 11));
    AW_AWAIT(self->transfer, aw_read_exact(self->conn, self->answer, 11));
    printf("polite client: %.*s\n", (int)self->transfer.done, self->answer);
    AW_AWAIT(self->io, aw_shutdown(self->conn));
    AW_AWAIT(self->io, aw_read(self->conn, self->answer, sizeof self->answer));
    printf("polite client: %s\n", self->io.out == 0 ? "end of stream" : "unexpected data");
    AW_RETURN(0);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

enum { TOTAL = 1000000 };
static unsigned char sent[TOTAL], received[TOTAL];

/* Sends and reads a lot of data at the same time. */
struct eager_client {
    AW_FRAME(int);
    aw_addr to;
    aw_conn *conn;
    aw_connect_future connect;
    AW_TRY_JOIN(aw_transfer, aw_transfer) both;
};
AW_ASYNC_STATIC(eager_client) {
    AW_BEGIN;
    AW_AWAIT(self->connect, aw_connect(&self->conn, &self->to));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    for (size_t i = 0; i < TOTAL; i++)
        sent[i] = (unsigned char)(i * i >> 7);
    AW_AWAIT_TRY_JOIN(self->both, aw_write_all(self->conn, sent, TOTAL),
                      aw_read_exact(self->conn, received, TOTAL));
    printf("eager client: %d bytes came back %s\n", (int)self->both.f1.done,
           memcmp(sent, received, TOTAL) ? "changed" : "unchanged");
    AW_RETURN(self->both.out);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

/* Sends nothing. */
struct silent_client {
    AW_FRAME(int);
    aw_addr to;
    aw_conn *conn;
    uint64_t begin;
    char answer[64];
    AW_SHARE(aw_connect_future connect; aw_io io;);
};
AW_ASYNC_STATIC(silent_client) {
    AW_BEGIN;
    self->begin = aw_now(NULL);
    AW_AWAIT(self->connect, aw_connect(&self->conn, &self->to));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    AW_AWAIT(self->io, aw_read(self->conn, self->answer, sizeof self->answer));
    printf("silent client: the server closed the connection%s\n",
           aw_now(NULL) - self->begin < AW_MSEC(100) ? " too early" : "");
    AW_RETURN(0);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

/* Sends and never reads. */
struct deaf_client {
    AW_FRAME(int);
    aw_addr to;
    aw_conn *conn;
    aw_connect_future connect;
    aw_transfer write;
};
AW_ASYNC_STATIC(deaf_client) {
    AW_BEGIN;
    AW_AWAIT(self->connect, aw_connect(&self->conn, &self->to));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    aw_conn_buffers(self->conn, 4096, 0);
    do
        AW_AWAIT(self->write, aw_write_all(self->conn, sent, TOTAL));
    while (self->write.out > 0);
    printf("deaf client: the server closed the connection\n");
    AW_RETURN(0);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

struct demo {
    AW_FRAME(int);
    aw_addr at;
    aw_listener *listener;
    AW_SHARE(struct polite_client polite; struct eager_client eager; struct silent_client silent;
             struct deaf_client deaf;);
};
AW_ASYNC_STATIC(demo) {
    AW_BEGIN;
    self->out = listen_at(&self->listener, "0", NULL, &self->at);
    if (self->out < 0) AW_RETURN(self->out);
    aw_task_detach(aw_spawn(AW_CALL(server, .listener = self->listener, .timeout = AW_MSEC(100))));
    AW_AWAIT(self->polite, AW_CALL(polite_client, .to = self->at));
    if (self->polite.out) AW_RETURN(self->polite.out);
    AW_AWAIT(self->eager, AW_CALL(eager_client, .to = self->at));
    if (self->eager.out) AW_RETURN(self->eager.out);
    AW_AWAIT(self->silent, AW_CALL(silent_client, .to = self->at));
    if (self->silent.out) AW_RETURN(self->silent.out);
    AW_AWAIT(self->deaf, AW_CALL(deaf_client, .to = self->at));
    AW_RETURN(self->deaf.out);
    AW_END;
}

int main(int argc, char **argv) {
    if (argc < 2) return aw_run(AW_CALL(demo)) != 0;
    aw_listener *listener;
    if (listen_at(&listener, argv[1], NULL, NULL)) return 1;
    return aw_run(AW_CALL(server, .listener = listener, .timeout = parse_timeout(argv[2]))) != 0;
}
