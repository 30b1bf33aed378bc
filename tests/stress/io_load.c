/* SPDX-License-Identifier: MIT
 *
 * As many connections at once as a process may have, from a second process: all are answered, each with its own bytes, and
 * nothing is left. */
#include "support/io_ends.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { MOST = 19000, MESSAGE = 16 };

/* How many this process may have, some aside. */
static int room_for(int wanted) {
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int most = limit.rlim_max > 1000000 ? 1000000 : (int)limit.rlim_max - 500;
    return most < wanted ? most : wanted;
}

/* ---- The other process --------------------------------------------------------------------------- */

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

/* From some addresses: the more of an address's ports are in use, the longer the system looks for one. */
static void be_many(const struct sockaddr_in *at, int count) {
    int *fds = calloc((size_t)count, sizeof *fds), late = 1;
    for (int i = 0; i < count; i++) {
        struct sockaddr_in from = *at;
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)i / 1000);
        from.sin_port = 0;
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_GE(fds[i], 0);
        CHECK_EQ(setsockopt(fds[i], IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof late), 0);
        CHECK_EQ(bind(fds[i], (struct sockaddr *)&from, sizeof from), 0);
        CHECK_EQ(connect(fds[i], (const struct sockaddr *)at, sizeof *at), 0);
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

/* ---- The server ------------------------------------------------------------------------------------ */

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

AW_ASYNC(int, serve, aw_conn *listener; int count; int i; struct served * served; aw_io io;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->count; self->i++) {
        AW_AWAIT(self->io, aw__io(self->listener, AW_IO_ACCEPT, NULL, 0));
        CHECK_GE(self->io.out, 0);
        aw_conn *c;
        CHECK_EQ(aw_conn_of_fd(&c, self->io.out), 0);
        aw_task_drop(aw_spawn(AW_CALL(echo, .conn = c, .served = self->served)));
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, until_served, const struct served *served; uint32_t count; aw_sleep nap;) {
    AW_BEGIN;
    while (LOAD(self->served->connections) < self->count)
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    AW_RETURN(0);
    AW_END;
}

static void serve_many(struct io_setup how, int wanted) {
    memory m;
    struct served served = {0, 0};
    int count = room_for(test_scale(wanted)), status;
    size_t fds = entries("/proc/self/fd");
    struct sockaddr_in at;
    int fd = tcp_listen(&at, 4096);
    pid_t client = fork();
    if (client == 0) {
        close(fd);
        be_many(&at, count);
        _exit(0);
    }
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *listener;
    CHECK_EQ(aw_conn_of_fd(&listener, fd), 0);
    struct serve *s = aw_spawn_on(
        rt, AW_CALL(serve, .listener = listener, .count = count, .served = &served));
    CHECK_EQ(join_status(rt, &s->future), 0);
    aw_task_drop(s);
    CHECK_EQ(aw_block_on(rt, AW_CALL(until_served, .served = &served, .count = (uint32_t)count)),
             0);
    CHECK_EQ(waitpid(client, &status, 0), client);
    CHECK_EQ(status, 0);
    CHECK_EQ(LOAD(served.bytes), (uint32_t)count * 2 * MESSAGE);
    aw_close(listener);
    workers_end(rt, &m);
    CHECK_EQ(entries("/proc/self/fd"), fds);
}

TEST_LIMIT(as_many_connections_as_there_can_be_by_uring_on_2_workers, 60) {
    serve_many((struct io_setup){"uring", 2, false}, MOST);
}
TEST_LIMIT(as_many_connections_as_there_can_be_by_epoll, 60) {
    serve_many((struct io_setup){"epoll", 0, false}, MOST);
}
TEST_LIMIT(many_connections_by_poll_on_2_workers, 60) {
    serve_many((struct io_setup){"poll", 2, false}, 1000);
}
