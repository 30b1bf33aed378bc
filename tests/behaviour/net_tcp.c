/* SPDX-License-Identifier: MIT
 *
 * TCP: clients and servers exchange data over both address families; socket options; and invalid
 * arguments are refused. */
#include "support/net.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

/* ---- Exchange -------------------------------------------------------------------------------- */

enum { CLIENTS = 10, ROUNDS = 20 };

AW_ASYNC(int, echo, aw_conn *conn; char buf[64]; int at, n; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, self->buf, sizeof self->buf));
        self->n = self->io.out;
        if (self->n <= 0) break;
        for (self->at = 0; self->at < self->n; self->at += self->io.out) {
            AW_AWAIT(self->io,
                     aw_write(self->conn, self->buf + self->at, (size_t)(self->n - self->at)));
            CHECK_GT(self->io.out, 0);
        }
    }
    AW_RETURN(self->n);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

AW_ASYNC(int, serve, aw_listener *l; uint32_t * served; aw_conn * conn; aw_accept_future a;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->a, aw_accept(self->l, &self->conn));
        if (self->a.out < 0) break;
        ADD(*self->served, 1);
        aw_task_drop(aw_spawn(AW_CALL(echo, .conn = self->conn)));
    }
    AW_RETURN(self->a.out);
    AW_END;
}

AW_ASYNC(int, ask, aw_addr at; int i; char said[32], heard[32]; aw_conn * conn; int got;
         aw_connect_future c; aw_io io;) {
    AW_BEGIN;
    AW_AWAIT(self->c, aw_connect(&self->conn, &self->at));
    CHECK_EQ(self->c.out, 0);
    for (self->i = 0; self->i < ROUNDS; self->i++) {
        snprintf(self->said, sizeof self->said, "round %d", self->i);
        AW_AWAIT(self->io, aw_write(self->conn, self->said, sizeof self->said));
        CHECK_EQ(self->io.out, sizeof self->said);
        for (self->got = 0; self->got < (int)sizeof self->heard; self->got += self->io.out) {
            AW_AWAIT(self->io, aw_read(self->conn, self->heard + self->got,
                                       sizeof self->heard - (size_t)self->got));
            CHECK_GT(self->io.out, 0);
        }
        CHECK_STR(self->heard, self->said);
    }
    AW_AWAIT(self->io, aw_shutdown(self->conn));
    AW_AWAIT(self->io,
             aw_read(self->conn, self->heard, 1)); /* the server has seen the end and closed */
    CHECK_EQ(self->io.out, 0);
    aw_close(self->conn);
    AW_RETURN(0);
    AW_END;
}

ON_DRIVERS(many_clients_talk_to_a_server_over_both_families) {
    for (int f = 0; f < INET_FAMILIES; f++) {
        size_t before = open_fds();
        memory m;
        aw_runtime *rt = io_runtime(how, &m, NULL);
        uint32_t served = 0;
        aw_addr at;
        aw_listener *l = listen_loopback(inet_families[f], NULL, &at);
        struct serve *s = aw_spawn_on(rt, AW_CALL(serve, .l = l, .served = &served));
        struct ask *tasks[CLIENTS];
        for (int i = 0; i < CLIENTS; i++)
            tasks[i] = aw_spawn_on(rt, AW_CALL(ask, .at = at));
        for (int i = 0; i < CLIENTS; i++) {
            CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
            aw_task_drop(tasks[i]);
        }
        CHECK_EQ(LOAD(served), CLIENTS);
        aw_listener_close(l);
        CHECK_EQ(join_status(rt, &s->future), 0);
        CHECK_EQ(aw_task_take(s), -EBADF);
        workers_end(rt, &m);
        CHECK_EQ(open_fds(), before);
    }
}

ON_DRIVERS(both_ends_know_each_others_address) {
    for (int f = 0; f < INET_FAMILIES; f++) {
        aw_runtime *rt = io_runtime(how, NULL, NULL);
        aw_addr at, peer, local, other;
        aw_conn *client, *server;
        aw_listener *l = listen_loopback(inet_families[f], NULL, &at);
        CHECK_EQ(aw_block_on(rt, aw_connect(&client, &at)), 0);
        CHECK_EQ(aw_block_on(rt, aw_accept_from(l, &server, &peer)), 0);
        CHECK_EQ(aw_conn_local(client, &local), 0);
        CHECK(aw_addr_equal(&peer, &local));
        CHECK_EQ(aw_conn_peer(server, &other), 0);
        CHECK(aw_addr_equal(&other, &peer));
        CHECK_EQ(aw_conn_peer(client, &other), 0);
        CHECK(aw_addr_equal(&other, &at));
        CHECK_EQ(aw_conn_local(server, &other), 0);
        CHECK(aw_addr_equal(&other, &at));
        aw_close(client);
        aw_close(server);
        aw_listener_close(l);
        workers_end(rt, NULL);
    }
}

ON_DRIVERS(an_ipv6_listener_takes_ipv4_unless_it_is_told_not_to) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    for (int only = 0; only < 2; only++) {
        aw_addr any = aw_addr_any(AF_INET6, 0), at, peer;
        aw_conn *client, *server;
        aw_listener *l;
        int error = aw_listen(&l, &any, AW_LISTEN(.v6_only = only));
        CHECK_EQ(error, 0);
        CHECK_EQ(aw_listener_addr(l, &at), 0);
        aw_addr four = aw_addr_loopback(AF_INET, aw_addr_port(&at));
        int out = aw_block_on(rt, aw_connect(&client, &four));
        CHECK_EQ(out, only ? -ECONNREFUSED : 0);
        if (!only) {
            CHECK_EQ(aw_block_on(rt, aw_accept_from(l, &server, &peer)), 0);
            CHECK_EQ(aw_addr_family(&peer), AF_INET6);
            aw_addr_unmap(&peer);
            CHECK_EQ(aw_addr_family(&peer), AF_INET);
            aw_close(client);
            aw_close(server);
        }
        aw_listener_close(l);
    }
    workers_end(rt, NULL);
}

/* ---- Halves of a connection ------------------------------------------------------------------ */

enum { BYTES = 300000 };

AW_ASYNC(int, write_half, aw_conn *conn; int remaining; char bytes[4000]; aw_io io;) {
    AW_BEGIN;
    memset(self->bytes, 'z', sizeof self->bytes);
    for (self->remaining = BYTES; self->remaining > 0; self->remaining -= self->io.out) {
        AW_AWAIT(self->io, aw_write(self->conn, self->bytes,
                                    self->remaining < 4000 ? (size_t)self->remaining : 4000));
        CHECK_GT(self->io.out, 0);
    }
    AW_AWAIT(self->io, aw_shutdown(self->conn));
    AW_RETURN(self->io.out);
    AW_FINALLY;
    aw_conn_drop(self->conn);
    AW_END;
}

AW_ASYNC(int, read_half, aw_conn *conn; int got; char bytes[3000]; aw_io io;) {
    AW_BEGIN;
    do {
        AW_AWAIT(self->io, aw_read(self->conn, self->bytes, sizeof self->bytes));
        CHECK_GE(self->io.out, 0);
        self->got += self->io.out;
    } while (self->io.out);
    AW_RETURN(self->got);
    AW_FINALLY;
    aw_conn_drop(self->conn);
    AW_END;
}

ON_DRIVERS(a_reader_and_a_writer_share_a_connection) {
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    struct write_half *writers[2];
    struct read_half *readers[2];
    connected_pair(rt, ends);
    for (int i = 0; i < 2; i++) {
        aw_conn_keep(ends[i]);
        writers[i] = aw_spawn_on(rt, AW_CALL(write_half, .conn = ends[i]));
        readers[i] = aw_spawn_on(rt, AW_CALL(read_half, .conn = ends[i]));
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(join_status(rt, &writers[i]->future), 0);
        CHECK_EQ(aw_task_take(writers[i]), 0);
        CHECK_EQ(join_status(rt, &readers[i]->future), 0);
        CHECK_EQ(aw_task_take(readers[i]), BYTES);
    }
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before); /* the last reference closed it */
}

/* ---- Socket options -------------------------------------------------------------------------- */

ON_DRIVERS(small_writes_are_sent_at_once_unless_nagle_is_set) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    for (int delay = 0; delay < 2; delay++) {
        aw_addr at;
        aw_conn *client, *server;
        aw_listener *l = listen_loopback(AF_INET6, AW_LISTEN(.nagle = delay), &at);
        CHECK_EQ(aw_block_on(rt, aw_connect(&client, &at)), 0);
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &server)), 0);
        CHECK_EQ(socket_option(aw_conn_fd(client), IPPROTO_TCP, TCP_NODELAY) != 0, 1);
        CHECK_EQ(socket_option(aw_conn_fd(server), IPPROTO_TCP, TCP_NODELAY) != 0, !delay);
        CHECK_EQ(aw_conn_nodelay(client, false), 0);
        CHECK_EQ(socket_option(aw_conn_fd(client), IPPROTO_TCP, TCP_NODELAY), 0);
        CHECK_EQ(aw_conn_nodelay(client, true), 0);
        CHECK_NE(socket_option(aw_conn_fd(client), IPPROTO_TCP, TCP_NODELAY), 0);
        aw_close(client);
        aw_close(server);
        aw_listener_close(l);
    }
    workers_end(rt, NULL);
}

ON_DRIVERS(keepalive_and_buffers_are_set) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    connected_pair(rt, ends);
    int fd = aw_conn_fd(ends[0]);
    CHECK_EQ(aw_conn_keepalive(ends[0], 30, 5, 3), 0);
    CHECK_EQ(socket_option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    CHECK_EQ(socket_option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 30);
    CHECK_EQ(socket_option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
    CHECK_EQ(socket_option(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
    CHECK_EQ(aw_conn_keepalive(ends[0], 0, 0, 0), 0);
    CHECK_EQ(socket_option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    CHECK_EQ(aw_conn_keepalive(ends[0], -1, 1, 1), -EINVAL);
    CHECK_EQ(aw_conn_keepalive(ends[0], 1, 0, 1), -EINVAL);
    CHECK_EQ(aw_conn_keepalive(ends[0], 1, 1, 0), -EINVAL);
    int send = socket_option(fd, SOL_SOCKET, SO_SNDBUF);
    CHECK_EQ(aw_conn_buffers(ends[0], 20000, 0), 0);
    CHECK_EQ(socket_option(fd, SOL_SOCKET, SO_RCVBUF), 40000); /* the kernel doubles it */
    CHECK_EQ(socket_option(fd, SOL_SOCKET, SO_SNDBUF), send);
    CHECK_EQ(aw_conn_buffers(ends[0], 0, 30000), 0);
    CHECK_EQ(socket_option(fd, SOL_SOCKET, SO_SNDBUF), 60000);
    CHECK_EQ(aw_conn_buffers(ends[0], -1, 0), -EINVAL);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

TEST(what_is_no_socket_has_nothing_to_set) {
    aw_conn *reader, *writer;
    aw_addr a;
    CHECK_EQ(aw_pipe(&reader, &writer), 0);
    CHECK_EQ(aw_conn_local(reader, &a), -ENOTSOCK);
    CHECK_EQ(aw_conn_peer(reader, &a), -ENOTSOCK);
    CHECK_EQ(aw_conn_nodelay(reader, true), -ENOTSOCK);
    CHECK_EQ(aw_conn_reset_on_close(writer, true), -ENOTSOCK);
    CHECK_EQ(aw_conn_keepalive(writer, 0, 0, 0), -ENOTSOCK);
    aw_close(reader);
    aw_close(writer);
    aw_conn_abort(NULL);
    aw_listener_close(NULL);
    aw_listener_drop(NULL);
}

AW_ASYNC(int, linger_on, aw_conn *conn; uint64_t max; aw_linger_future linger;) {
    AW_BEGIN;
    AW_AWAIT(self->linger, aw_linger(self->conn, self->max));
    AW_RETURN(self->linger.out);
    AW_END;
}

AW_ASYNC(int, talk, aw_conn *conn; aw_io io;) {
    AW_BEGIN;
    do
        AW_AWAIT(self->io, aw_write(self->conn, "talk", 4));
    while (self->io.out > 0);
    AW_RETURN(self->io.out);
    AW_END;
}

ON_DRIVERS(an_aborted_connection_is_reset) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    char byte;
    connected_pair(rt, ends);
    aw_conn_abort(ends[0]);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], &byte, 1)), -ECONNRESET);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[1], "x", 1)), -EPIPE); /* without SIGPIPE */
    aw_close(ends[1]);
    connected_pair(rt, ends);
    CHECK_EQ(aw_conn_reset_on_close(ends[0], true), 0);
    CHECK_EQ(aw_conn_reset_on_close(ends[0], false), 0);
    aw_close(ends[0]);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], &byte, 1)), 0);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

ON_DRIVERS(a_shutdown_after_a_reset_succeeds) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    char byte;
    connected_pair(rt, ends);
    aw_conn_abort(ends[0]);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], &byte, 1)), -ECONNRESET);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(aw_block_on(rt, aw_shutdown(ends[1])), 0);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[1], "x", 1)), -EPIPE);
    CHECK_EQ(aw_block_on(rt, aw_writable(ends[1])), 0);
    CHECK_EQ(aw_block_on(rt, aw_linger(ends[1], AW_SEC(60))), 0);
    connected_pair(rt, ends);
    aw_conn_abort(ends[0]);
    CHECK_EQ(aw_block_on(rt, aw_linger(ends[1], AW_SEC(60))), -ECONNRESET);
    workers_end(rt, NULL);
}

ON_DRIVERS(a_shutdown_after_both_ends_were_shut_down_succeeds) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    char byte;
    connected_pair(rt, ends);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(aw_block_on(rt, aw_shutdown(ends[i])), 0);
        CHECK_EQ(aw_block_on(rt, aw_read(ends[!i], &byte, 1)), 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(aw_block_on(rt, aw_shutdown(ends[i % 2])), 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

/* This end has unread input, so a plain close would reset the other end. */
ON_DRIVERS(lingering_lets_the_other_end_read_everything) {
    memory m;
    size_t before = open_fds();
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char bytes[8];
    connected_pair(rt, ends);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[1], "ignored", 7)), 7);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "answer", 6)), 6);
    struct linger_on *t = aw_spawn_on(rt, AW_CALL(linger_on, .conn = ends[0], .max = AW_SEC(60)));
    CHECK_EQ(aw_block_on(rt, aw_read_exact(ends[1], bytes, 6)), 6);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], bytes, 1)), 0);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[1], "ignored", 7)), 7);
    CHECK_EQ(aw_task_is_finished(t), false);
    aw_close(ends[1]);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 0);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

ON_DRIVERS(lingering_does_not_wait_for_ever) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    char byte;
    connected_pair(rt, ends);
    uint64_t begin = aw_now(rt);
    CHECK_EQ(aw_block_on(rt, aw_linger(ends[0], AW_MSEC(20))), -ETIMEDOUT);
    CHECK_GE(aw_now(rt) - begin, AW_MSEC(20));
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], &byte, 1)), 0);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

TEST(lingering_without_a_peer_is_refused) {
    aw_conn *c;
    size_t before = open_fds();
    CHECK_EQ(aw_conn_of_fd(&c, socket(AF_INET, SOCK_DGRAM, 0)), 0);
    CHECK_EQ(aw_wait(aw_shutdown(c)), -ENOTCONN);
    aw_close(c);
    CHECK_EQ(aw_conn_of_fd(&c, socket(AF_INET, SOCK_STREAM, 0)), 0);
    CHECK_EQ(aw_wait(aw_shutdown(c)), -ENOTCONN);
    CHECK_EQ(aw_wait(aw_linger(c, AW_SEC(60))), -ENOTCONN);
    CHECK_EQ(aw_wait(aw_linger(NULL, AW_SEC(60))), -EBADF);
    CHECK_EQ(open_fds(), before);
}

ON_DRIVERS(lingering_ends_although_the_other_end_keeps_sending) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    connected_pair(rt, ends);
    struct talk *t = aw_spawn_on(rt, AW_CALL(talk, .conn = ends[1]));
    CHECK_EQ(aw_block_on(rt, aw_linger(ends[0], AW_MSEC(20))), -ETIMEDOUT);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_LT(aw_task_take(t), 0);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

ON_DRIVERS(descriptors_neither_block_nor_survive_an_exec) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *client, *server;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    check_flags(aw_listener_fd(l));
    CHECK_EQ(aw_block_on(rt, aw_connect(&client, &at)), 0);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &server)), 0);
    check_flags(aw_conn_fd(client));
    check_flags(aw_conn_fd(server));
    aw_close(client);
    aw_close(server);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

/* ---- Sharing a port -------------------------------------------------------------------------- */

TEST(a_port_that_is_taken_is_refused) {
    size_t before = open_fds();
    aw_addr at;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at), *other = NULL;
    CHECK_EQ(aw_listen(&other, &at, NULL), -EADDRINUSE);
    CHECK_EQ(aw_listen(&other, &at, AW_LISTEN(.reuse_port = true)), -EADDRINUSE);
    CHECK(other == NULL);
    aw_listener_close(l);
    CHECK_EQ(aw_listen(&other, &at, NULL), 0);
    aw_listener_close(other);
    CHECK_EQ(open_fds(), before);
}

/* While a connection of the old listener is still open. */
ON_DRIVERS(a_port_can_be_had_again_at_once_unless_exclusively) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *client, *server;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    CHECK_EQ(aw_block_on(rt, aw_connect(&client, &at)), 0);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &server)), 0);
    aw_listener_close(l);
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.no_reuse_addr = true)), -EADDRINUSE);
    CHECK_EQ(aw_listen(&l, &at, NULL), 0);
    aw_listener_close(l);
    aw_close(server);
    aw_close(client);
    workers_end(rt, NULL);
}

AW_ASYNC(int, count_accepted, aw_listener *l; uint32_t * own; uint32_t * all; aw_conn * conn;
         aw_accept_future a;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->a, aw_accept(self->l, &self->conn));
        if (self->a.out < 0) break;
        aw_close(self->conn);
        ADD(*self->own, 1);
        ADD(*self->all, 1);
    }
    AW_RETURN(self->a.out);
    AW_END;
}

AW_ASYNC(int, until_count, uint32_t *count; uint32_t want; aw_yield pause;) {
    AW_BEGIN;
    while (LOAD(*self->count) < self->want)
        AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

/* There is always a task to run, so the thread never sleeps. */
ON_DRIVERS(a_task_that_only_yields_lets_others_accept) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    uint32_t own = 0, all = 0;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    struct count_accepted *t = aw_spawn_on(
        rt, AW_CALL(count_accepted, .l = l, .own = &own, .all = &all));
    run_a_while(rt);
    for (uint32_t i = 1; i < 4; i++) {
        int client = plain_client(&at);
        CHECK_EQ(aw_block_on(rt, AW_CALL(until_count, .count = &all, .want = i)), 0);
        close(client);
    }
    aw_listener_close(l);
    CHECK_EQ(join_status(rt, &t->future), 0);
    aw_task_drop(t);
    workers_end(rt, NULL);
}

ON_DRIVERS(several_listeners_share_a_port_and_its_connections) {
    enum { LISTENERS = 3, COME = 100 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr any = aw_addr_loopback(AF_INET6, 0), at, same;
    aw_listener *ls[LISTENERS];
    struct count_accepted *tasks[LISTENERS];
    uint32_t own[LISTENERS] = {0}, all = 0;
    CHECK_EQ(aw_listen_each(ls, LISTENERS, &any, NULL), 0);
    CHECK_EQ(aw_listener_addr(ls[0], &at), 0);
    for (int i = 0; i < LISTENERS; i++) {
        CHECK_EQ(aw_listener_addr(ls[i], &same), 0);
        CHECK(aw_addr_equal(&same, &at));
        tasks[i] = aw_spawn_on(rt,
                               AW_CALL(count_accepted, .l = ls[i], .own = &own[i], .all = &all));
    }
    for (int i = 0; i < COME; i++)
        close(plain_client(&at));
    CHECK_EQ(aw_block_on(rt, AW_CALL(until_count, .count = &all, .want = COME)), 0);
    for (int i = 0; i < LISTENERS; i++) {
        CHECK_GT(LOAD(own[i]), 0);
        aw_listener_close(ls[i]);
    }
    for (int i = 0; i < LISTENERS; i++) {
        CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
        CHECK_EQ(aw_task_take(tasks[i]), -EBADF);
    }
    workers_end(rt, &m);
}

/* One listener and one pinned task for each worker. */
static void each_worker_accepts_for_itself(const char *driver) {
    enum { WORKERS = 2, COME = 60 };
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, WORKERS, true}, &m, NULL);
    aw_addr any = aw_addr_loopback(AF_INET, 0), at;
    aw_listener *ls[WORKERS];
    struct count_accepted *tasks[WORKERS];
    uint32_t own[WORKERS] = {0}, all = 0;
    CHECK_EQ(aw_listen_each(ls, WORKERS, &any, NULL), 0);
    CHECK_EQ(aw_listener_addr(ls[0], &at), 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        tasks[i] = aw_spawn_at(rt, i,
                               AW_CALL(count_accepted, .l = ls[i], .own = &own[i], .all = &all));
    for (int i = 0; i < COME; i++)
        close(plain_client(&at));
    CHECK_EQ(aw_block_on(rt, AW_CALL(until_count, .count = &all, .want = COME)), 0);
    for (int i = 0; i < WORKERS; i++) {
        CHECK_GT(LOAD(own[i]), 0);
        aw_listener_close(ls[i]);
        CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
        CHECK_EQ(aw_task_take(tasks[i]), -EBADF);
    }
    workers_end(rt, &m);
}
TEST(each_worker_accepts_for_itself_by_epoll) {
    each_worker_accepts_for_itself("epoll");
}
TEST(each_worker_accepts_for_itself_by_poll) {
    each_worker_accepts_for_itself("poll");
}
TEST(each_worker_accepts_for_itself_by_uring) {
    each_worker_accepts_for_itself("uring");
}

/* ---- Sharing the work ------------------------------------------------------------------------ */

enum { SPREAD = 64, TALKS = 25, ATTEMPTS = 8 };

/* All clients send, then all receive, TALKS times. */
static void talk_to_all(const int clients[SPREAD]) {
    char byte;
    for (int t = 0; t < TALKS; t++) {
        for (int i = 0; i < SPREAD; i++)
            CHECK_EQ(send(clients[i], "x", 1, MSG_NOSIGNAL), 1);
        for (int i = 0; i < SPREAD; i++)
            CHECK_EQ(recv(clients[i], &byte, 1, 0), 1);
    }
}

/* How many polls each of the two workers had meanwhile. */
static void share(aw_runtime *rt, const int clients[SPREAD], uint64_t polls[2]) {
    uint64_t before[2];
    for (uint32_t w = 0; w < 2; w++)
        before[w] = counters_of(rt, w).polls;
    talk_to_all(clients);
    for (uint32_t w = 0; w < 2; w++)
        polls[w] = counters_of(rt, w).polls - before[w];
}

static bool has_one_part_in(uint64_t n, const uint64_t polls[2]) {
    return n * polls[0] >= polls[0] + polls[1] && n * polls[1] >= polls[0] + polls[1];
}

/* One task accepts all connections. With io_uring a connection waits on the ring of the worker
 * that runs its task, so the load is rebalanced constantly. With epoll and poll a descriptor
 * stays with the driver of the worker that waited first: its events are found there, and the
 * other worker gets only what it steals, which depends on the load of the machine. Over all
 * attempts both workers do some of the work. */
ON_EACH_DRIVER(connections_that_were_accepted_on_one_worker_spread) {
    how.workers = 2;
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    uint32_t served = 0;
    int clients[SPREAD], even = 0;
    uint64_t polls[2], all[2] = {0};
    aw_addr at;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    aw_listener_keep(l); /* the task may still be about to accept */
    struct serve *s = aw_spawn_on(rt, AW_CALL(serve, .l = l, .served = &served));
    for (int i = 0; i < SPREAD; i++)
        clients[i] = plain_client(&at);
    for (int i = 0; i < ATTEMPTS; i++) {
        share(rt, clients, polls);
        even += has_one_part_in(4, polls);
        all[0] += polls[0];
        all[1] += polls[1];
    }
    CHECK(has_one_part_in(16, all));
    if (strcmp(how.driver, "uring") == 0) CHECK_GT(even, ATTEMPTS / 2);
    CHECK_EQ(LOAD(served), SPREAD);
    for (int i = 0; i < SPREAD; i++)
        close(clients[i]);
    aw_listener_close(l);
    CHECK_EQ(join_status(rt, &s->future), 0);
    aw_task_drop(s);
    aw_listener_drop(l);
    workers_end(rt, &m);
}

TEST(when_one_of_several_cannot_listen_none_does) {
    size_t before = open_fds();
    aw_addr at;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at), *ls[3];
    CHECK_EQ(aw_listen_each(ls, 3, &at, NULL), -EADDRINUSE);
    aw_listener_close(l);
    struct rlimit old = limit_descriptors(2);
    CHECK_EQ(aw_listen_each(ls, 3, &at, NULL), -EMFILE);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    CHECK_EQ(open_fds(), before);
}

/* ---- Invalid arguments ----------------------------------------------------------------------- */

ON_DRIVERS(what_makes_no_sense_is_refused) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    size_t before = open_fds();
    aw_addr at = aw_addr_loopback(AF_INET, 0), none = {0}, local, odd = at;
    aw_addr unknown = aw_addr_loopback(12345, 0);
    aw_listener *l = NULL;
    aw_conn *c = NULL;
    int fds[2];
    CHECK_EQ(aw_addr_of_abstract(&local, "awake-none", 10), 0);
    odd.u.any.sa_family = AF_NETLINK;
    CHECK_EQ(aw_listen(NULL, &at, NULL), -EINVAL);
    CHECK_EQ(aw_listen(&l, NULL, NULL), -EINVAL);
    CHECK_EQ(aw_listen(&l, &none, NULL), -EINVAL);
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.backlog = -1)), -EINVAL);
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.seqpacket = true)), -EINVAL);
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.max_connections = UINT32_MAX)), -EINVAL);
    CHECK_EQ(aw_listen(&l, &local, AW_LISTEN(.reuse_port = true)), -EINVAL);
    CHECK_EQ(aw_listen(&l, &at, &(aw_listen_options){.self_size = 1}), -EINVAL);
    CHECK_EQ(aw_listen(&l, &odd, NULL), -EAFNOSUPPORT);
    CHECK_EQ(aw_listen(&l, &unknown, NULL), -EINVAL);
    CHECK_EQ(aw_listen_each(&l, 1, &odd, NULL), -EAFNOSUPPORT);
    CHECK_EQ(aw_listen_each(&l, 0, &at, NULL), -EINVAL);
    CHECK_EQ(aw_listen_each(&l, 1, &local, NULL), -EINVAL);
    CHECK_EQ(aw_listener_of_fd(&l, -1, NULL), -EBADF);
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(aw_listener_of_fd(&l, fds[0], NULL), -ENOTSOCK);
    close(fds[0]);
    close(fds[1]);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(aw_listener_of_fd(&l, fd, NULL), -EINVAL); /* it is not listening */
    close(fd);
    aw_addr elsewhere;
    CHECK_EQ(aw_addr_parse(&elsewhere, "192.0.2.1:0"), 0);
    CHECK_EQ(aw_listen(&l, &elsewhere, NULL), -EADDRNOTAVAIL);
    CHECK_EQ(aw_block_on(rt, aw_accept(NULL, &c)), -EBADF);
    CHECK_EQ(aw_block_on(rt, aw_accept_from(NULL, &c, &at)), -EBADF);
    l = listen_loopback(AF_INET, NULL, &at);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, NULL)), -EINVAL);
    aw_listener_close(l);
    l = NULL;
    CHECK_EQ(aw_block_on(rt, aw_connect(&c, NULL)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect(&c, &none)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect(&c, &unknown)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect(&c, &odd)), -EAFNOSUPPORT);
    CHECK_EQ(aw_block_on(rt, aw_connect_any(&c, &odd, 1)), -EAFNOSUPPORT);
    CHECK_EQ(aw_block_on(rt, aw_connect(NULL, &at)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect_seqpacket(&c, &at)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect_any(&c, &at, 0)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect_any(&c, &at, -1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect_any(&c, NULL, 1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect_any(NULL, &at, 1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect_host(&c, "", 1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_connect_host(&c, NULL, 1)), -EINVAL);
    CHECK(l == NULL && c == NULL);
    CHECK_EQ(open_fds(), before);
    workers_end(rt, NULL);
}
