/* SPDX-License-Identifier: MIT
 *
 * As many connections at once as a process may have, from a second process. Each connection gets
 * its own bytes back, and nothing remains open. */
#include "support/net.h"
#include "support/pattern.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { MAX_CONNECTIONS = 19000, MESSAGE = 16 };

/* For this process and the one that it forks: `connections` descriptors, and some more. */
static void raise_fd_limit_for(int connections) {
    enum { EXTRA = 500 };
    static char reason[100];
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < (rlim_t)connections + EXTRA) {
        snprintf(reason, sizeof reason, "a process may have %llu descriptors here, not %d",
                 (unsigned long long)limit.rlim_max, connections + EXTRA);
        SKIP(reason);
    }
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* ---- The client process ---------------------------------------------------------------------- */

static void exchange(int fd, uint32_t i, bool sends) {
    unsigned char bytes[MESSAGE];
    if (sends) {
        pattern_fill(i, 0, bytes, sizeof bytes);
        CHECK_EQ(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), (ssize_t)sizeof bytes);
    } else {
        CHECK_EQ(recv(fd, bytes, sizeof bytes, MSG_WAITALL), (ssize_t)sizeof bytes);
        pattern_check(i, 0, bytes, sizeof bytes);
    }
}

/* Connects from several addresses: the more ports of an address are in use, the longer the kernel
 * searches for a free one. */
static void run_clients(const aw_addr *at, int count) {
    int *fds = calloc((size_t)count, sizeof *fds), on = 1;
    for (int i = 0; i < count; i++) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)i / 1000);
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_GE(fds[i], 0);
        CHECK_EQ(setsockopt(fds[i], IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on), 0);
        CHECK_EQ(bind(fds[i], (struct sockaddr *)&from, sizeof from), 0);
        CHECK_EQ(connect(fds[i], &at->u.any, at->size), 0);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < count; i++)
            exchange(fds[i], (uint32_t)i, true);
        for (int i = 0; i < count; i++)
            exchange(fds[i], (uint32_t)i, false);
    }
    for (int i = 0; i < count; i++)
        close(fds[i]);
    free(fds);
}

/* ---- The server ------------------------------------------------------------------------------ */

struct served {
    uint32_t connections, bytes; /* atomic */
};

AW_ASYNC(int, echo, aw_conn *conn; struct served * served; unsigned char bytes[MESSAGE]; int got;
         int sent; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, self->bytes, sizeof self->bytes));
        if (self->io.out <= 0) break;
        self->got = self->io.out;
        ADD(self->served->bytes, (uint32_t)self->got);
        for (self->sent = 0; self->sent < self->got; self->sent += self->io.out) {
            AW_AWAIT(self->io, aw_write(self->conn, self->bytes + self->sent,
                                        (size_t)(self->got - self->sent)));
            CHECK_GT(self->io.out, 0);
        }
    }
    CHECK_EQ(self->io.out, 0);
    ADD(self->served->connections, 1);
    AW_RETURN(0);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

AW_ASYNC(int, serve, aw_listener *listener; int count; int i; struct served * served;
         aw_conn * conn; aw_accept_future accept;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->count; self->i++) {
        AW_AWAIT(self->accept, aw_accept(self->listener, &self->conn));
        CHECK_EQ(self->accept.out, 0);
        aw_task_drop(aw_spawn(AW_CALL(echo, .conn = self->conn, .served = self->served)));
    }
    AW_RETURN(0);
    AW_END;
}

static void serve_many(const char *driver, uint32_t workers) {
    memory m;
    struct served served = {0, 0};
    int count = test_scale(MAX_CONNECTIONS), status;
    raise_fd_limit_for(count);
    io_needs(driver);
    size_t fds = open_fds();
    aw_addr at;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    pid_t client = fork();
    if (client == 0) {
        close(aw_listener_fd(l));
        run_clients(&at, count);
        _exit(0);
    }
    aw_runtime *rt = io_runtime((struct io_setup){driver, workers, false}, &m, NULL);
    struct serve *s = aw_spawn_on(rt,
                                  AW_CALL(serve, .listener = l, .count = count, .served = &served));
    CHECK_EQ(join_status(rt, &s->future), 0);
    aw_task_drop(s);
    CHECK_EQ(aw_block_on(
                 rt, AW_CALL(until_counted, .count = &served.connections, .want = (uint32_t)count)),
             0);
    CHECK_EQ(waitpid(client, &status, 0), client);
    CHECK_EQ(status, 0);
    CHECK_EQ(LOAD(served.bytes), (uint32_t)count * 2 * MESSAGE);
    aw_listener_close(l);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), fds);
}

#define AS_MANY_AS_THERE_CAN_BE(driver)                                                            \
    TEST_LIMIT(as_many_connections_as_there_can_be_by_##driver, 60) {                              \
        serve_many(#driver, 0);                                                                    \
    }                                                                                              \
    TEST_LIMIT(as_many_connections_as_there_can_be_by_##driver##_on_2_workers, 60) {               \
        serve_many(#driver, 2);                                                                    \
    }
AS_MANY_AS_THERE_CAN_BE(uring)
AS_MANY_AS_THERE_CAN_BE(epoll)
AS_MANY_AS_THERE_CAN_BE(poll)
