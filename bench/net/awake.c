/* SPDX-License-Identifier: MIT
 *
 * Awake's server, as users would write it. One loop accepts all connections and spawns a task for
 * each.
 *
 *     echo      an async function with a buffer in its frame
 *     fiber     the same as a fiber
 *     lean      an async function that waits until there is data, and has a buffer only while it
 *               serves it: for many idle connections
 *     sink      reads a transfer to its end, and answers with its checksum
 *     proxy     forwards everything to the port that follows THREADS, and back
 *     buffered  the same without aw_copy_bidirectional: read into a buffer, write from it
 *
 * THREADS is the number of workers; 0: the current thread. "per-core" after it: workers do not
 * steal, and each has its own listener. "ahead": connections are accepted ahead (accept_ahead).
 * AWAKE_DRIVER selects the driver. */
#include <awake.h>

#include "server.h"

static aw_notify stop = AW_NOTIFY_INIT;
static aw_runtime *rt;
static aw_addr behind; /* where a proxy forwards to */

enum { PROXY_BUFFER = 65536 };

/* ---- Connections ----------------------------------------------------------------------------- */

AW_ASYNC(int, echo, aw_conn *conn; int size, done; aw_io io; char buffer[NET_BUFFER];) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, self->buffer, sizeof self->buffer));
        if (self->io.out <= 0) break;
        self->size = self->io.out;
        for (self->done = 0; self->done < self->size; self->done += self->io.out) {
            AW_AWAIT(self->io, aw_write(self->conn, self->buffer + self->done,
                                        (size_t)(self->size - self->done)));
            if (self->io.out < 0) AW_RETURN(self->io.out);
        }
    }
    AW_RETURN(self->io.out);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

AW_FIBER(int, echo_fiber, aw_conn *conn;) {
    char buffer[NET_BUFFER];
    int n;
    while ((n = aw_await(aw_read(self->conn, buffer, sizeof buffer))) > 0)
        for (int done = 0; done < n;) {
            int m = aw_await(aw_write(self->conn, buffer + done, (size_t)(n - done)));
            if (m < 0) break;
            done += m;
        }
    aw_close(self->conn);
    return n;
}

/* Echoes what is there, with a buffer on the stack. Returns the number of bytes that could not be
 * written at once, with a copy in *rest; 0 at the end of the stream; -EAGAIN: all is written; or
 * another negative errno. */
static int echo_at_once(int fd, char **rest) {
    char buffer[NET_BUFFER];
    ssize_t n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n <= 0) return n < 0 ? -errno : 0;
    ssize_t m = send(fd, buffer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (m == n) return -EAGAIN;
    if (m < 0 && errno != EAGAIN) return -errno;
    if (m < 0) m = 0;
    *rest = malloc((size_t)(n - m));
    if (!*rest) return -ENOMEM;
    memcpy(*rest, buffer + m, (size_t)(n - m));
    return (int)(n - m);
}

AW_ASYNC(int, echo_lean, aw_conn *conn; char *rest; int size, done; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_readable(self->conn));
        if (self->io.out < 0) AW_RETURN(self->io.out);
        self->size = echo_at_once(aw_conn_fd(self->conn), &self->rest);
        if (self->size == -EAGAIN) continue;
        if (self->size <= 0) AW_RETURN(self->size);
        for (self->done = 0; self->done < self->size; self->done += self->io.out) {
            AW_AWAIT(self->io, aw_write(self->conn, self->rest + self->done,
                                        (size_t)(self->size - self->done)));
            if (self->io.out < 0) AW_RETURN(self->io.out);
        }
        free(self->rest);
        self->rest = NULL;
    }
    AW_FINALLY;
    free(self->rest);
    aw_close(self->conn);
    AW_END;
}

AW_ASYNC(int, sink, aw_conn *conn; char *buffer; net_sum sum; net_receipt receipt; aw_io io;) {
    AW_BEGIN;
    self->buffer = malloc(NET_SINK);
    if (!self->buffer) AW_RETURN(-ENOMEM);
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, self->buffer, NET_SINK));
        if (self->io.out <= 0) break;
        net_sum_add(&self->sum, self->buffer, (size_t)self->io.out);
    }
    self->receipt = net_sum_end(&self->sum);
    AW_AWAIT(self->io, aw_write(self->conn, &self->receipt, sizeof self->receipt));
    AW_RETURN(self->io.out);
    AW_FINALLY;
    free(self->buffer);
    aw_close(self->conn);
    AW_END;
}

AW_ASYNC(int, proxy, aw_conn *conn; aw_conn * server; aw_reader there; aw_reader back;
         aw_connect_future connect; aw_copy_bidirectional_future both;) {
    AW_BEGIN;
    AW_AWAIT(self->connect, aw_connect(&self->server, &behind));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    net_check(aw_reader_init(&self->there, self->conn, PROXY_BUFFER) == 0 &&
                  aw_reader_init(&self->back, self->server, PROXY_BUFFER) == 0,
              "buffers");
    AW_AWAIT(self->both, aw_copy_bidirectional(&self->there, &self->back));
    AW_RETURN(self->both.out);
    AW_FINALLY;
    aw_reader_free(&self->there);
    aw_reader_free(&self->back);
    aw_close(self->server);
    aw_close(self->conn);
    AW_END;
}

/* One direction of the proxy below. At the end it shuts down the other side. */
AW_ASYNC(int, pass_on, aw_conn *from; aw_conn * to; char *buffer; aw_io io; aw_transfer all;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->from, self->buffer, PROXY_BUFFER));
        if (self->io.out <= 0) break;
        AW_AWAIT(self->all, aw_write_all(self->to, self->buffer, (size_t)self->io.out));
        if (self->all.out < 0) AW_RETURN((int)self->all.out);
    }
    if (self->io.out < 0) AW_RETURN(self->io.out);
    AW_AWAIT(self->io, aw_shutdown(self->to));
    AW_RETURN(self->io.out == -ENOTCONN ? 0 : self->io.out); /* closed already */
    AW_END;
}

AW_ASYNC(int, buffered, aw_conn *conn; aw_conn * server; char *there; char *back;
         aw_connect_future connect; AW_TRY_JOIN(struct pass_on, struct pass_on) both;) {
    AW_BEGIN;
    AW_AWAIT(self->connect, aw_connect(&self->server, &behind));
    if (self->connect.out < 0) AW_RETURN(self->connect.out);
    self->there = malloc(PROXY_BUFFER);
    self->back = malloc(PROXY_BUFFER);
    net_check(self->there && self->back, "buffers");
    AW_AWAIT_TRY_JOIN(
        self->both, AW_CALL(pass_on, .from = self->conn, .to = self->server, .buffer = self->there),
        AW_CALL(pass_on, .from = self->server, .to = self->conn, .buffer = self->back));
    AW_RETURN(self->both.out);
    AW_FINALLY;
    free(self->there);
    free(self->back);
    aw_close(self->server);
    aw_close(self->conn);
    AW_END;
}

static void spawn_for(aw_conn *conn) {
    if (server_mode("fiber"))
        aw_task_drop(aw_spawn(AW_CALL(echo_fiber, .conn = conn)));
    else if (server_mode("lean"))
        aw_task_drop(aw_spawn(AW_CALL(echo_lean, .conn = conn)));
    else if (server_mode("proxy"))
        aw_task_drop(aw_spawn(AW_CALL(proxy, .conn = conn)));
    else if (server_mode("buffered"))
        aw_task_drop(aw_spawn(AW_CALL(buffered, .conn = conn)));
    else if (server_mode("sink"))
        aw_task_drop(aw_spawn(AW_CALL(sink, .conn = conn)));
    else
        aw_task_drop(aw_spawn(AW_CALL(echo, .conn = conn)));
}

/* ---- Server ---------------------------------------------------------------------------------- */

AW_ASYNC(int, accept_loop, aw_listener *listener; aw_conn * conn; aw_accept_future accept;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->accept, aw_accept(self->listener, &self->conn));
        if (self->accept.out < 0) AW_RETURN(self->accept.out);
        spawn_for(self->conn);
    }
    AW_END;
}

AW_ASYNC(int, until_stopped, aw_notified wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, aw_notify_wait(&stop));
    AW_RETURN(0);
    AW_END;
}

static void notify_stop(void) {
    aw_notify_one(&stop);
}

static void counters(void) {
    for (uint32_t i = 0; i < aw_runtime_workers(rt); i++) {
        aw_worker_counters c;
        if (aw_runtime_counters(rt, i, &c)) continue;
        printf("%llu %llu %llu %llu\n", (unsigned long long)c.polls, (unsigned long long)c.steals,
               (unsigned long long)c.parks, (unsigned long long)c.wakes);
    }
}

static void driver(void) {
    aw_io_counters c;
    aw_runtime_io(rt, &c);
    printf("%s\n", c.driver);
}

/* One accept loop for all workers; or one per worker, if tasks do not move. */
static void listen_on(aw_listener **listeners, uint32_t count, uint32_t ahead) {
    net_check(aw_listener_of_fd(&listeners[0], server.listener, AW_LISTEN(.accept_ahead = ahead)) ==
                  0,
              "the listener");
    aw_addr here;
    net_check(aw_listener_addr(listeners[0], &here) == 0, "listener address");
    for (uint32_t i = 1; i < count; i++)
        net_check(aw_listen(&listeners[i], &here, AW_LISTEN(.reuse_port = true)) == 0, "listeners");
    for (uint32_t i = 0; i < count; i++)
        if (count > 1)
            aw_task_drop(aw_spawn_at(rt, i, AW_CALL(accept_loop, .listener = listeners[i])));
        else
            aw_task_drop(aw_spawn_on(rt, AW_CALL(accept_loop, .listener = listeners[i])));
}

int main(int argc, char **argv) {
    server.counters = counters;
    server.driver = driver;
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.workers = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    options.flavour = options.workers ? AW_MULTI_THREAD : AW_CURRENT_THREAD;
    if (argc > 3 && strcmp(argv[3], "per-core") == 0) options.flavour = AW_THREAD_PER_CORE;
    if (argc > 3 && (strcmp(argv[1], "proxy") == 0 || strcmp(argv[1], "buffered") == 0)) {
        char text[32];
        snprintf(text, sizeof text, "127.0.0.1:%s", argv[3]);
        net_check(aw_addr_parse(&behind, text) == 0, "a port");
    }
    net_check(aw_runtime_new(&rt, &options) == 0, "a runtime");
    server_begin(argc, argv, notify_stop);
    aw_listener *listeners[16];
    uint32_t count = options.flavour == AW_THREAD_PER_CORE ? options.workers : 1;
    net_check(count <= 16, "at most 16 workers");
    listen_on(listeners, count, argc > 3 && strcmp(argv[3], "ahead") == 0 ? 64 : 0);
    int result = aw_block_on(rt, AW_CALL(until_stopped));
    aw_runtime_free(rt);
    for (uint32_t i = 0; i < count; i++)
        aw_listener_close(listeners[i]);
    return result != 0;
}
