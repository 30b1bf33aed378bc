/* SPDX-License-Identifier: MIT
 *
 * A server with a connection limit, or with accept_ahead and tasks that time out; and clients that
 * connect, talk, reset, vanish and time out at random moments. On one thread and on workers. No
 * client gets bytes of another or is forgotten, the limit is never exceeded, and nothing remains
 * open. */
#include "support/net.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

enum { LIMIT = 5, CLIENTS = 12, SIZE = 100, SERVERS = 4 };

static struct {
    uint32_t open, max_open, served; /* atomic */
    uint64_t random;
} seen;

static uint32_t pick(uint32_t n) {
    return (uint32_t)(test_random_shared(&seen.random) >> 33) % n;
}

/* ---- The server ------------------------------------------------------------------------------ */

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

AW_ASYNC(int, serve, aw_listener *l; bool impatient; aw_conn * conn; aw_addr from;
         AW_TIMEOUT(aw_accept_future) a;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT_FOR(self->a, self->impatient && pick(2) ? AW_USEC(pick(100)) : AW_SEC(100),
                     aw_accept_from(self->l, &self->conn, &self->from));
        if (self->a.out == -ETIMEDOUT) continue;
        if (self->a.inner.out < 0) break;
        {
            uint32_t now = ADD(seen.open, 1) + 1, max = LOAD(seen.max_open);
            while (now > max && !__atomic_compare_exchange_n(&seen.max_open, &max, now, false,
                                                             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                ;
        }
        ADD(seen.served, 1);
        aw_task_drop(aw_spawn(AW_CALL(echo, .conn = self->conn)));
    }
    AW_RETURN(self->a.inner.out);
    AW_FINALLY;
    aw_listener_drop(self->l);
    AW_END;
}

/* ---- The clients ----------------------------------------------------------------------------- */

/* Sends its own pattern, and reads it back. */
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

static void many_come_and_go(const char *driver, uint32_t workers, int family,
                             const aw_listen_options *options) {
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, workers, false}, &m, NULL);
    aw_addr at;
    struct client *clients[CLIENTS];
    struct serve *servers[SERVERS];
    int whole = 0;
    seen.random = test_seed();
    aw_listener *l = listen_loopback(family, options, &at);
    for (int i = 0; i < SERVERS; i++) {
        aw_listener_keep(l);
        servers[i] = aw_spawn_on(rt, AW_CALL(serve, .l = l, .impatient = options->accept_ahead));
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
    for (int i = 0; i < SERVERS; i++) {
        CHECK_EQ(join_status(rt, &servers[i]->future), 0);
        CHECK_EQ(aw_task_take(servers[i]), -EBADF);
    }
    aw_runtime_free(rt);
    CHECK_EQ(LOAD(seen.open), 0);
    if (options->max_connections) CHECK_LE(LOAD(seen.max_open), options->max_connections);
    CHECK_GE(LOAD(seen.served), whole);
    CHECK_EQ(memory_in_use(&m), 0);
    CHECK_EQ(open_fds(), before);
}

#define STORM(driver, name, ...)                                                                   \
    TEST_LIMIT(name##_by_##driver, 60) {                                                           \
        many_come_and_go(#driver, 0, AF_INET, AW_LISTEN(__VA_ARGS__));                             \
    }                                                                                              \
    TEST_LIMIT(name##_by_##driver##_on_8_workers, 60) {                                            \
        many_come_and_go(#driver, 8, AF_INET6, AW_LISTEN(__VA_ARGS__));                            \
    }
STORM(epoll, many_come_and_go, .max_connections = LIMIT)
STORM(poll, many_come_and_go, .max_connections = LIMIT)
STORM(uring, many_come_and_go, .max_connections = LIMIT)
STORM(epoll, many_are_accepted_ahead, .accept_ahead = 3)
STORM(poll, many_are_accepted_ahead, .accept_ahead = 3)
STORM(uring, many_are_accepted_ahead, .accept_ahead = 3)

/* ---- Ends at any moment ---------------------------------------------------------------------- */

enum { TASKS = 4, BURST = 6 };

/* Greets each client, until accept fails. */
AW_ASYNC(int, greet, aw_listener *l; aw_conn * conn; aw_accept_future a; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->a, aw_accept(self->l, &self->conn));
        if (self->a.out < 0) break;
        AW_AWAIT(self->io, aw_write(self->conn, "!", 1));
        aw_close(self->conn);
        self->conn = NULL;
    }
    AW_RETURN(self->a.out);
    AW_FINALLY;
    aw_close(self->conn);
    aw_listener_drop(self->l);
    AW_END;
}

static void spawn_greeters(aw_runtime *rt, aw_listener *l, struct greet **tasks) {
    for (int i = 0; i < TASKS; i++) {
        aw_listener_keep(l);
        tasks[i] = aw_spawn_on(rt, AW_CALL(greet, .l = l));
    }
}

/* Without workers, the caller has to run the runtime. */
static void wait_a_moment(aw_runtime *rt, uint32_t workers) {
    if (!workers) CHECK_EQ(aw_block_on(rt, yields((int)pick(8))), 0);
    for (uint32_t i = pick(300); i > 0; i--)
        __asm__ volatile("" ::: "memory");
    if (pick(3) == 0) sched_yield();
}

static void listeners_close_at_any_moment(const char *driver, uint32_t workers,
                                          uint32_t accept_ahead) {
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, workers, false}, &m, NULL);
    seen.random = test_seed();
    for (int round = 0; round < test_scale(300); round++) {
        aw_addr at;
        int clients[BURST], count = (int)pick(BURST);
        struct greet *tasks[TASKS];
        aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = accept_ahead), &at);
        spawn_greeters(rt, l, tasks);
        wait_a_moment(rt, workers);
        for (int i = 0; i < count; i++)
            clients[i] = plain_client(&at);
        wait_a_moment(rt, workers);
        aw_listener_close(l);
        for (int i = 0; i < TASKS; i++) {
            CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
            CHECK_EQ(aw_task_take(tasks[i]), -EBADF);
        }
        for (int i = 0; i < count; i++)
            close(clients[i]);
    }
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
    CHECK_EQ(open_fds(), before);
}

/* Clients that the ending runtime accepts may be closed. Those that connect later are greeted by
 * the other runtime. */
static void runtimes_end_at_any_moment(const char *driver, uint32_t workers,
                                       uint32_t accept_ahead) {
    size_t before = open_fds();
    seen.random = test_seed();
    struct io_setup how = {driver, workers, false};
    aw_runtime *stays = io_runtime((struct io_setup){driver, 2, false}, NULL, NULL);
    aw_addr at;
    struct greet *tasks[TASKS], *greeters[TASKS];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = accept_ahead), &at);
    spawn_greeters(stays, l, greeters);
    for (int round = 0; round < test_scale(100); round++) {
        aw_runtime *rt = io_runtime(how, NULL, NULL);
        int clients[2 * BURST];
        char byte = 0;
        spawn_greeters(rt, l, tasks);
        for (int i = 0; i < BURST; i++)
            clients[i] = plain_client(&at);
        if (!workers) run_a_while(rt);
        wait_a_moment(rt, workers);
        aw_runtime_free(rt);
        for (int i = 0; i < TASKS; i++)
            aw_task_drop(tasks[i]);
        for (int i = BURST; i < 2 * BURST; i++)
            clients[i] = plain_client(&at);
        for (int i = 0; i < 2 * BURST; i++) {
            ssize_t n = recv(clients[i], &byte, 1, 0);
            if (i >= BURST) CHECK_EQ(n, 1);
            close(clients[i]);
        }
    }
    aw_listener_close(l);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(join_status(stays, &greeters[i]->future), 0);
        CHECK_EQ(aw_task_take(greeters[i]), -EBADF);
    }
    aw_runtime_free(stays);
    CHECK_EQ(open_fds(), before);
}

#define CLOSING(driver, name, accept_ahead)                                                        \
    TEST_LIMIT(name##_by_##driver, 60) {                                                           \
        listeners_close_at_any_moment(#driver, 0, accept_ahead);                                   \
    }                                                                                              \
    TEST_LIMIT(name##_by_##driver##_on_8_workers, 60) {                                            \
        listeners_close_at_any_moment(#driver, 8, accept_ahead);                                   \
    }
CLOSING(epoll, listeners_close_at_any_moment, 0)
CLOSING(poll, listeners_close_at_any_moment, 0)
CLOSING(uring, listeners_close_at_any_moment, 0)
CLOSING(uring, listeners_that_accept_ahead_close_at_any_moment, 2)

/* On io_uring only. */
TEST_LIMIT(a_listener_outlives_a_runtime_that_ends_at_any_moment_by_uring, 60) {
    runtimes_end_at_any_moment("uring", 0, 0);
}
TEST_LIMIT(a_listener_that_accepts_ahead_outlives_a_runtime_that_ends_at_any_moment_by_uring, 60) {
    runtimes_end_at_any_moment("uring", 0, 2);
}
TEST_LIMIT(a_listener_that_accepts_ahead_outlives_workers_that_end_at_any_moment_by_uring, 60) {
    runtimes_end_at_any_moment("uring", 4, 2);
}
