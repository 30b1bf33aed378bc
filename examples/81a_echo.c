/* SPDX-License-Identifier: MIT
 *
 * An echo server: it sends back what it gets, to any number of clients, and hangs up on those that say nothing.
 *
 *     81a_echo 7000          serves at that port until it is killed: nc 127.0.0.1 7000
 *     81a_echo               serves three clients of its own
 *
 * The patience with silence is a timeout around the read, and that is all: when it is over the read is cancelled, and only
 * when it is gone, out of the kernel too, the await ends; so the buffer may be a member of the frame. What
 * came in the same moment is not lost: it counts as read.
 *
 * Notice how the client that sends much reads at the same time: if it would write everything first, both ends would
 * soon be waiting for the other one to read. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

#include "listening.h"

/* ---- The server ----------------------------------------------------------------------------------- */

AW_ASYNC(int, echo, aw_conn *conn; uint64_t patience; char buf[4096]; AW_TIMEOUT(aw_io) read;
         aw_transfer write;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT_FOR(self->read, self->patience, aw_read(self->conn, self->buf, sizeof self->buf));
        if (self->read.out < 0) AW_RETURN(self->read.out); /* -ETIMEDOUT */
        if (self->read.inner.out <= 0) AW_RETURN(self->read.inner.out);
        AW_AWAIT(self->write, aw_write_all(self->conn, self->buf, (size_t)self->read.inner.out));
        if (self->write.out < 0) AW_RETURN((int)self->write.out);
    }
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

AW_ASYNC(int, server, aw_listener *listener; uint64_t patience; aw_conn * conn;
         aw_accept_future accept;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->accept, aw_accept(self->listener, &self->conn));
        if (self->accept.out < 0) AW_RETURN(self->accept.out);
        aw_task_detach(aw_spawn(AW_CALL(echo, .conn = self->conn, .patience = self->patience)));
    }
    AW_FINALLY;
    aw_listener_close(self->listener);
    AW_END;
}

/* ---- Clients -------------------------------------------------------------------------------------- */

/* Says something, reads the answer, says that it is done, and sees that the server is done too. */
AW_ASYNC(int, polite_client, aw_addr to; aw_conn * conn; char answer[64];
         AW_SHARE(aw_connect_future connect; aw_transfer whole; aw_io io;);) {
    AW_BEGIN;
    AW_AWAIT(self->connect, aw_connect(&self->conn, &self->to));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    AW_AWAIT(self->whole, aw_write_all(self->conn, "hello, echo", 11));
    AW_AWAIT(self->whole, aw_read_exact(self->conn, self->answer, 11));
    printf("polite client: %.*s\n", (int)self->whole.done, self->answer);
    AW_AWAIT(self->io, aw_shutdown(self->conn));
    AW_AWAIT(self->io, aw_read(self->conn, self->answer, sizeof self->answer));
    printf("polite client: %s\n", self->io.out == 0 ? "the end" : "what is this?");
    AW_RETURN(0);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

enum { MUCH = 1000000 };
static unsigned char sent[MUCH], received[MUCH];

AW_ASYNC(int, eager_client, aw_addr to; aw_conn * conn; aw_connect_future connect;
         AW_TRY_JOIN(aw_transfer, aw_transfer) both;) {
    AW_BEGIN;
    AW_AWAIT(self->connect, aw_connect(&self->conn, &self->to));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    for (size_t i = 0; i < MUCH; i++)
        sent[i] = (unsigned char)(i * i >> 7);
    AW_AWAIT_TRY_JOIN(self->both, aw_write_all(self->conn, sent, MUCH),
                      aw_read_exact(self->conn, received, MUCH));
    printf("eager client: %d bytes came back %s\n", (int)self->both.f1.done,
           memcmp(sent, received, MUCH) ? "changed" : "as they were");
    AW_RETURN(self->both.out);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

AW_ASYNC(int, silent_client, aw_addr to; aw_conn * conn; uint64_t begin; char answer[64];
         AW_SHARE(aw_connect_future connect; aw_io io;);) {
    AW_BEGIN;
    self->begin = aw_now(NULL);
    AW_AWAIT(self->connect, aw_connect(&self->conn, &self->to));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    AW_AWAIT(self->io, aw_read(self->conn, self->answer, sizeof self->answer));
    printf("silent client: the server has hung up%s\n",
           aw_now(NULL) - self->begin < AW_MSEC(100) ? " too early" : "");
    AW_RETURN(0);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

AW_ASYNC(int, demo, aw_addr at; aw_listener * listener;
         AW_SHARE(struct polite_client polite; struct eager_client eager;
                  struct silent_client silent;);) {
    AW_BEGIN;
    self->out = listen_at(&self->listener, "0", NULL, &self->at);
    if (self->out < 0) AW_RETURN(self->out);
    aw_task_detach(aw_spawn(AW_CALL(server, .listener = self->listener, .patience = AW_MSEC(100))));
    AW_AWAIT(self->polite, AW_CALL(polite_client, .to = self->at));
    if (self->polite.out) AW_RETURN(self->polite.out);
    AW_AWAIT(self->eager, AW_CALL(eager_client, .to = self->at));
    if (self->eager.out) AW_RETURN(self->eager.out);
    AW_AWAIT(self->silent, AW_CALL(silent_client, .to = self->at));
    AW_RETURN(self->silent.out);
    AW_END;
}

int main(int argc, char **argv) {
    if (argc < 2) return aw_run(AW_CALL(demo)) != 0;
    aw_listener *listener;
    if (listen_at(&listener, argv[1], NULL, NULL)) return 1;
    return aw_run(AW_CALL(server, .listener = listener, .patience = AW_SEC(30))) != 0;
}
