/* SPDX-License-Identifier: MIT
 *
 * A TCP proxy: whoever connects here is connected to a server elsewhere.
 *
 *     83_proxy 8080 example.org 80      serves at port 8080 until it is killed
 *     83_proxy                          has a server and six clients of its own
 *
 * The server is given by name. All its addresses are tried, IPv6 and IPv4 in turn, and the first that answers is taken.
 *
 * aw_copy_bidirectional copies both ways at once. When one end says that it has no more to send, that is passed on, and the other
 * direction goes on: here the server answers only when it has seen the end of the request. Much data does
 * not pass through this program at all, but from socket to socket within the kernel.
 *
 * Notice the limit on connections: it is the one option. Who comes when there are as many waits in the queue of the system,
 * and is accepted when a connection is closed. */
#include <awake.h>
#include <stdatomic.h>
#include <stdio.h>

#include "listening.h"

struct target {
    const char *name;
    uint16_t port;
};

/* ---- The proxy ------------------------------------------------------------------------------------ */

AW_ASYNC(int, forward, const struct target *target; aw_conn * client; aw_conn * server;
         aw_reader there; aw_reader back; AW_SHARE(AW_TIMEOUT(aw_connect_host_future) connect;
                                                   aw_copy_bidirectional_future both;);) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->connect, AW_SEC(10),
                 aw_connect_host(&self->server, self->target->name, self->target->port));
    if (!self->connect.out) self->connect.out = self->connect.inner.out;
    if (self->connect.out < 0) {
        fprintf(stderr, "%s: %s\n", self->target->name, strerror(-self->connect.out));
        AW_RETURN(self->connect.out);
    }
    self->out = aw_reader_init(&self->there, self->client, 65536);
    if (!self->out) self->out = aw_reader_init(&self->back, self->server, 65536);
    if (self->out) AW_RETURN(self->out);
    AW_AWAIT(self->both, aw_copy_bidirectional(&self->there, &self->back));
    AW_RETURN(self->both.out);
    AW_FINALLY;
    aw_reader_free(&self->there);
    aw_reader_free(&self->back);
    aw_close(self->server);
    aw_close(self->client);
    AW_END;
}

AW_ASYNC(int, proxy, aw_listener *listener; struct target target; aw_conn * client;
         aw_accept_future accept;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->accept, aw_accept(self->listener, &self->client));
        if (self->accept.out < 0) AW_RETURN(self->accept.out);
        aw_task_detach(aw_spawn(AW_CALL(forward, .target = &self->target, .client = self->client)));
    }
    AW_FINALLY;
    aw_listener_close(self->listener);
    AW_END;
}

/* ---- A server behind it --------------------------------------------------------------------------- */

static atomic_int present, most_present;

/* Says how many bytes the request had. */
AW_FIBER(int, count_bytes, aw_conn *conn;) {
    char buf[1000], answer[32];
    ssize_t n;
    long size = 0;
    int now = ++present, most = most_present;
    while (now > most && !atomic_compare_exchange_weak(&most_present, &most, now)) {
    }
    while ((n = aw_await(aw_read(self->conn, buf, sizeof buf))) > 0)
        size += n;
    if (n == 0) n = aw_await(aw_sleep_for(AW_MSEC(20)));
    present--;
    if (n == 0)
        n = aw_await(aw_write_all(self->conn, answer,
                                  (size_t)snprintf(answer, sizeof answer, "%ld bytes\n", size)));
    aw_close(self->conn);
    return (int)n;
}
AW_FIBER_DROP(count_bytes) {
    aw_close(self->conn);
}

AW_FIBER(int, server, aw_listener *listener;) {
    aw_conn *conn;
    int error;
    while ((error = aw_await(aw_accept(self->listener, &conn))) == 0)
        aw_task_detach(aw_spawn(AW_CALL(count_bytes, .conn = conn)));
    aw_listener_close(self->listener);
    return error;
}
AW_FIBER_DROP(server) {
    aw_listener_close(self->listener);
}

/* ---- And clients in front of it ------------------------------------------------------------------- */

static char zeros[1000000];

AW_FIBER(int, client, aw_addr to; size_t size; char answer[32];) {
    aw_conn *conn;
    int error = aw_await(aw_connect(&conn, &self->to));
    if (error) return error;
    ssize_t n = aw_await(aw_write_all(conn, zeros, self->size));
    if (n >= 0) n = aw_await(aw_shutdown(conn)); /* that was all */
    if (n >= 0) {
        aw_reader r = aw_reader_of(conn, self->answer, sizeof self->answer - 1);
        n = aw_await(aw_reader_line(&r));
    }
    aw_close(conn);
    return n < 0 ? (int)n : 0;
}

AW_FIBER(int, demo) {
    enum { CLIENTS = 6, LIMIT = 2 };
    aw_listener *front, *behind;
    aw_addr server_at, proxy_at;
    int error = listen_at(&behind, "0", NULL, &server_at);
    if (error) return error;
    aw_task_detach(aw_spawn(AW_CALL(server, .listener = behind)));

    struct target target = {"localhost", aw_addr_port(&server_at)};
    error = listen_at(&front, "0", AW_LISTEN(.max_connections = LIMIT), &proxy_at);
    if (error) return error;
    aw_task_detach(aw_spawn(AW_CALL(proxy, .listener = front, .target = target)));

    struct client clients[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++)
        clients[i] = AW_CALL(client, .to = proxy_at, .size = i * 200000);
    error = aw_await(aw_try_join_all(clients, CLIENTS));
    for (int i = 0; i < CLIENTS && !error; i++)
        printf("%s", clients[i].answer);
    if (!error) printf("%s\n", most_present <= LIMIT ? "two at a time" : "more than two at a time");
    return error;
}

int main(int argc, char **argv) {
    if (argc < 4) return aw_run(AW_CALL(demo)) != 0;
    struct target target = {argv[2], (uint16_t)atoi(argv[3])};
    aw_listener *listener;
    if (listen_at(&listener, argv[1], AW_LISTEN(.max_connections = 1000), NULL)) return 1;
    return aw_run(AW_CALL(proxy, .listener = listener, .target = target)) != 0;
}
