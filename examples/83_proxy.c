/* SPDX-License-Identifier: MIT
 *
 * A TCP proxy: each connection to it is connected to a server elsewhere.
 *
 *     83_proxy 8080 example.org 80      serves port 8080 until it is killed
 *     83_proxy 8080 example.org 80 5    the same, with a timeout of 5 seconds instead of 30
 *     83_proxy                          runs a server and six clients of its own
 *
 * The server is given by name. All its addresses are tried, IPv6 and IPv4 in turn, and the first
 * that answers is used.
 *
 * aw_copy_bidirectional copies in both directions at once. When one end shuts down its sending
 * side, the proxy passes that on, and the other direction continues: here the server answers only
 * after the end of the request. Large transfers do not pass through this program: the kernel moves
 * the data from socket to socket.
 *
 * The copy runs in rounds, each with a timeout. A timeout cancels the copy and loses nothing: the
 * readers keep data that was read and not yet written, and the next round continues with it. A
 * round that moved no byte is the last one: both ends are silent, or one of them does not read.
 * Otherwise dead peers would use up the limit on connections. The send buffers are limited, because
 * the kernel accepts more data only when a third is free: of 4 MB a slow peer may not read a third
 * in one round.
 *
 * Notice the limit on connections: it is one option. Further clients wait in the kernel's backlog,
 * and are accepted when a connection is closed. */
#include <awake.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include "listening.h"

struct target {
    const char *name;
    uint16_t port;
};

/* ---- The proxy ------------------------------------------------------------------------------- */

struct forward {
    AW_FRAME(int);
    const struct target *target;
    uint64_t timeout;
    aw_conn *client, *server;
    aw_reader from_client, from_server;
    AW_SHARE(AW_TIMEOUT(aw_connect_host_future) connect;
             AW_TIMEOUT(aw_copy_bidirectional_future) both;);
};
AW_ASYNC_STATIC(forward) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->connect, self->timeout,
                 aw_connect_host(&self->server, self->target->name, self->target->port));
    if (!self->connect.out) self->connect.out = self->connect.inner.out;
    if (self->connect.out < 0) {
        fprintf(stderr, "%s: %s\n", self->target->name, strerror(-self->connect.out));
        AW_RETURN(self->connect.out);
    }
    self->out = aw_reader_init(&self->from_client, self->client, 65536);
    if (!self->out) self->out = aw_reader_init(&self->from_server, self->server, 65536);
    if (self->out) AW_RETURN(self->out);
    aw_conn_buffers(self->client, 0, 200000);
    aw_conn_buffers(self->server, 0, 200000);
    do
        AW_AWAIT_FOR(self->both, self->timeout,
                     aw_copy_bidirectional(&self->from_client, &self->from_server));
    while (self->both.out == -ETIMEDOUT &&
           (self->both.inner.there.done || self->both.inner.back.done));
    if (self->both.out == -ETIMEDOUT) { /* nothing moves: drop what was not sent */
        aw_conn_reset_on_close(self->client, true);
        aw_conn_reset_on_close(self->server, true);
    }
    AW_RETURN(self->both.out ? self->both.out : self->both.inner.out);
    AW_FINALLY;
    aw_reader_free(&self->from_client);
    aw_reader_free(&self->from_server);
    aw_close(self->server);
    aw_close(self->client);
    AW_END;
}

struct proxy {
    AW_FRAME(int);
    aw_listener *listener;
    struct target target;
    uint64_t timeout;
    aw_conn *client;
    aw_accept_future accept;
};
AW_ASYNC_STATIC(proxy) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->accept, aw_accept(self->listener, &self->client));
        if (self->accept.out < 0) AW_RETURN(self->accept.out);
        aw_task_detach(aw_spawn(AW_CALL(forward, .target = &self->target, .client = self->client,
                                        .timeout = self->timeout)));
    }
    AW_FINALLY;
    aw_listener_close(self->listener);
    AW_END;
}

/* ---- The server behind it -------------------------------------------------------------------- */

static atomic_int active, max_active;

/* Reads a request to its end, and answers with its size. */
AW_FIBER(int, count_bytes, aw_conn *conn;) {
    char buf[1000], answer[32];
    ssize_t n;
    long size = 0;
    int now = ++active, max = max_active;
    while (now > max && !atomic_compare_exchange_weak(&max_active, &max, now)) {
    }
    while ((n = aw_await(aw_read(self->conn, buf, sizeof buf))) > 0)
        size += n;
    if (n == 0) n = aw_await(aw_sleep_for(AW_MSEC(20)));
    active--;
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

/* ---- The clients in front of it -------------------------------------------------------------- */

static char zeros[1000000];

struct client {
    AW_FIBER_FRAME(int);
    aw_addr to;
    size_t size;
    char answer[32];
};
AW_FIBER_STATIC(client) {
    aw_conn *conn;
    int error = aw_await(aw_connect(&conn, &self->to));
    if (error) return error;
    ssize_t n = aw_await(aw_write_all(conn, zeros, self->size));
    if (n >= 0) n = aw_await(aw_shutdown(conn)); /* the end of the request */
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
    aw_task_detach(aw_spawn(
        AW_CALL(proxy, .listener = front, .target = target, .timeout = parse_timeout(NULL))));

    struct client clients[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++)
        clients[i] = AW_CALL(client, .to = proxy_at, .size = i * 200000);
    error = aw_await(aw_try_join_all(clients, CLIENTS));
    for (int i = 0; i < CLIENTS && !error; i++)
        printf("%s", clients[i].answer);
    if (!error) printf("%s\n", max_active <= LIMIT ? "two at a time" : "more than two at a time");
    return error;
}

int main(int argc, char **argv) {
    if (argc < 4) return aw_run(AW_CALL(demo)) != 0;
    struct target target = {argv[2], (uint16_t)atoi(argv[3])};
    aw_listener *listener;
    if (listen_at(&listener, argv[1], AW_LISTEN(.max_connections = 1000), NULL)) return 1;
    return aw_run(AW_CALL(proxy, .listener = listener, .target = target,
                          .timeout = parse_timeout(argv[4]))) != 0;
}
