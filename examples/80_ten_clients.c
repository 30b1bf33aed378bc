/* SPDX-License-Identifier: MIT
 *
 * A server and its ten clients, in one program on one thread.
 *
 * The server sends "start n" to each client, sleeps for one second, and sends "end n". It spawns a
 * task for each connection and accepts the next one, so no client waits for another: ten clients
 * are served in one second.
 *
 * Notice the end: main returns when its clients are done, while the server is still listening. A
 * background task does not keep the program alive. It is cancelled where it waits, in accept, and
 * closes its listener. */
#include <awake.h>
#include <stdio.h>

enum { CLIENTS = 10 };

/* ---- The server ------------------------------------------------------------------------------ */

struct serve {
    AW_FRAME(int);
    aw_conn *conn;
    int n;
    char text[32];
    aw_transfer write;
    aw_sleep nap;
};
AW_ASYNC_STATIC(serve) {
    AW_BEGIN;
    AW_AWAIT(self->write, aw_write_all(self->conn, self->text,
                                       (size_t)sprintf(self->text, "start %d\n", self->n)));
    if (self->write.out < 0) AW_RETURN((int)self->write.out);
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
    AW_AWAIT(self->write, aw_write_all(self->conn, self->text,
                                       (size_t)sprintf(self->text, "end %d\n", self->n)));
    AW_RETURN(0);
    AW_FINALLY;
    aw_close(self->conn); /* on every way out, even if the body never ran */
    AW_END;
}

struct server {
    AW_FRAME(int);
    aw_listener *listener;
    aw_conn *conn;
    int n;
    aw_accept_future accept;
};
AW_ASYNC_STATIC(server) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->accept, aw_accept(self->listener, &self->conn));
        if (self->accept.out < 0) AW_RETURN(self->accept.out);
        aw_task_detach(aw_spawn(AW_CALL(serve, .conn = self->conn, .n = ++self->n)));
    }
    AW_FINALLY;
    aw_listener_close(self->listener);
    printf("the server has closed its listener\n");
    AW_END;
}

/* ---- The clients ----------------------------------------------------------------------------- */

/* Prints each line that it receives. Its output is the number in these lines. */
struct client {
    AW_FRAME(int);
    aw_addr to;
    int n;
    aw_conn *conn;
    aw_connect_future connect;
    aw_reader reader;
    char buf[64];
    aw_reader_future line;
};
AW_ASYNC_STATIC(client) {
    AW_BEGIN;
    AW_AWAIT(self->connect, aw_connect(&self->conn, &self->to));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    self->reader = aw_reader_of(self->conn, self->buf, sizeof self->buf);
    for (;;) {
        AW_AWAIT(self->line, aw_reader_line(&self->reader));
        if (self->line.out < 0) AW_RETURN((int)self->line.out);
        if (self->line.out == 0) AW_RETURN(self->n); /* the server has closed */
        {
            char text[64]; /* reader.item is not zero-terminated */
            snprintf(text, sizeof text, "%.*s", (int)self->reader.item.size,
                     self->reader.item.data);
            printf("%s\n", text);
            sscanf(text, "%*s %d", &self->n);
        }
    }
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

struct start {
    AW_FRAME(int);
    aw_addr addr;
    aw_listener *listener;
    struct client clients[CLIENTS];
    aw_all all;
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    self->addr = aw_addr_loopback(AF_INET, 0); /* any free port */
    self->out = aw_listen(&self->listener, &self->addr, NULL);
    if (self->out < 0) AW_RETURN(self->out);
    aw_listener_addr(self->listener, &self->addr); /* the port that was chosen */
    aw_task_detach(aw_spawn(AW_CALL(server, .listener = self->listener)));

    for (int i = 0; i < CLIENTS; i++)
        self->clients[i] = AW_CALL(client, .to = self->addr);
    AW_AWAIT(self->all, aw_try_join_all(self->clients, CLIENTS));
    if (self->all.out < 0) AW_RETURN(self->all.out);
    {
        int sum = 0;
        for (int i = 0; i < CLIENTS; i++)
            sum += self->clients[i].out;
        printf("the clients are done, and their numbers add up to %d\n", sum);
    }
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start)) != 0;
}
