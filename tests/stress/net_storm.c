/* SPDX-License-Identifier: MIT
 *
 * A server with a limit, and clients that come, talk, reset, vanish and give up at any moment, on workers: nobody gets another's
 * bytes, never are there more connections than allowed, and nothing is left. */
#include "support/net.h"

ALL_ON_THIS_THREAD("each test says itself on what it runs");

enum { LIMIT = 5, CLIENTS = 12, SIZE = 100 };

static struct {
    uint32_t open, most, served; /* atomic */
    uint64_t random;
} seen;

static uint32_t pick(uint32_t n) {
    return (uint32_t)(test_random_shared(&seen.random) >> 33) % n;
}

/* ---- The server -------------------------------------------------------------------------------- */

AW_ASYNC(int, echo, aw_conn *conn; char buf[64]; int at, n; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, self->buf, sizeof self->buf));
        self->n = self->io.out;
        for (self->at = 0; self->at < self->n; self->at += self->io.out) {
            AW_AWAIT(self->io,
                     aw_write(self->conn, self->buf + self->at, (size_t)(self->n - self->at)));
            if (self->io.out < 0) self->n = self->io.out;
            if (self->io.out < 0) break;
        }
        if (self->n <= 0) break;
    }
    AW_RETURN(0);
    AW_FINALLY;
    ADD(seen.open, -1u);
    aw_close(self->conn);
    AW_END;
}

AW_ASYNC(int, serve, aw_listener *l; aw_conn * conn; aw_addr from; aw_accept_future a;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->a, aw_accept_from(self->l, &self->conn, &self->from));
        if (self->a.out < 0) break;
        {
            uint32_t now = ADD(seen.open, 1) + 1, most = LOAD(seen.most);
            while (now > most && !__atomic_compare_exchange_n(&seen.most, &most, now, false,
                                                              __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                ;
        }
        ADD(seen.served, 1);
        aw_task_drop(aw_spawn(AW_CALL(echo, .conn = self->conn)));
    }
    AW_RETURN(self->a.out);
    AW_FINALLY;
    aw_listener_drop(self->l);
    AW_END;
}

/* ---- The clients ------------------------------------------------------------------------------- */

/* Its own pattern there and back. */
AW_ASYNC(int, talk, aw_conn *conn; char mark; int sent, got; char buf[SIZE]; aw_io io;) {
    AW_BEGIN;
    while (self->sent < SIZE) {
        memset(self->buf, self->mark, SIZE);
        AW_AWAIT(self->io, aw_write(self->conn, self->buf, (size_t)(SIZE - self->sent)));
        if (self->io.out < 0) AW_RETURN(self->io.out);
        self->sent += self->io.out;
    }
    while (self->got < SIZE) {
        AW_AWAIT(self->io, aw_read(self->conn, self->buf, SIZE));
        if (self->io.out <= 0) AW_RETURN(self->io.out < 0 ? self->io.out : -EPIPE);
        for (int i = 0; i < self->io.out; i++)
            CHECK_EQ(self->buf[i], self->mark);
        self->got += self->io.out;
    }
    AW_RETURN(self->got);
    AW_END;
}

AW_ASYNC(int, client, aw_addr at; char mark; int rounds, whole; aw_conn * conn;
         AW_TIMEOUT(aw_connect_future) c; AW_TIMEOUT(struct talk) t;) {
    AW_BEGIN;
    for (; self->rounds > 0; self->rounds--) {
        AW_AWAIT_FOR(self->c, pick(3) ? AW_SEC(100) : AW_USEC(pick(100)),
                     aw_connect(&self->conn, &self->at));
        if (self->c.out == -ETIMEDOUT) continue;
        CHECK_EQ(self->c.inner.out, 0);
        AW_AWAIT_FOR(self->t, pick(3) ? AW_SEC(100) : AW_USEC(pick(200)),
                     AW_CALL(talk, .conn = self->conn, .mark = self->mark));
        if (self->t.out == 0) CHECK_EQ(self->t.inner.out, SIZE);
        self->whole += self->t.out == 0;
        if (pick(2))
            aw_close(self->conn);
        else
            aw_conn_abort(self->conn);
    }
    AW_RETURN(self->whole);
    AW_END;
}

static void many_come_and_go(const char *driver, uint32_t workers, int family) {
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, workers, false}, &m, NULL);
    aw_addr at;
    struct client *clients[CLIENTS];
    struct serve *servers[2];
    int whole = 0;
    seen.random = test_seed();
    aw_listener *l = listen_here(family, AW_LISTEN(.max_connections = LIMIT), &at);
    for (int i = 0; i < 2; i++) {
        aw_listener_keep(l);
        servers[i] = aw_spawn_on(rt, AW_CALL(serve, .l = l));
    }
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = aw_spawn_on(
            rt, AW_CALL(client, .at = at, .mark = (char)('A' + i), .rounds = test_scale(60)));
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(join_status(rt, &clients[i]->future), 0);
        whole += aw_task_take(clients[i]);
    }
    CHECK_GT(whole, 0);
    aw_listener_close(l);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(join_status(rt, &servers[i]->future), 0);
        CHECK_EQ(aw_task_take(servers[i]), -EBADF);
    }
    aw_runtime_free(rt);
    CHECK_EQ(LOAD(seen.open), 0);
    CHECK_LE(LOAD(seen.most), LIMIT);
    CHECK_GE(LOAD(seen.served), whole);
    CHECK_EQ(memory_in_use(&m), 0);
    CHECK_EQ(open_fds(), before);
}

#define STORM(driver)                                                                              \
    TEST_LIMIT(many_come_and_go_by_##driver, 60) {                                                 \
        many_come_and_go(#driver, 0, AF_INET);                                                     \
    }                                                                                              \
    TEST_LIMIT(many_come_and_go_by_##driver##_on_8_workers, 60) {                                  \
        many_come_and_go(#driver, 8, AF_INET6);                                                    \
    }
STORM(epoll)
STORM(poll)
STORM(uring)
