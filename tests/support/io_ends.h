/* SPDX-License-Identifier: MIT
 *
 * Pairs of connections for hostile tests: over TCP, reset, full; and their waiters. */
#ifndef AWAKE_TEST_IO_ENDS_H
#define AWAKE_TEST_IO_ENDS_H

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

#include "io/fd.h"
#include "support/by_hand.h"
#include "support/io.h"
#include "support/pattern.h"

/* ---- Connections ----------------------------------------------------------------------------- */

HELPER int tcp_listen(struct sockaddr_in *at, int backlog) {
    socklen_t size = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_GE(fd, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    CHECK_EQ(bind(fd, (struct sockaddr *)at, size), 0);
    CHECK_EQ(listen(fd, backlog), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)at, &size), 0);
    return fd;
}

HELPER void tcp_pair_fds(int fds[2]) {
    struct sockaddr_in at;
    int listener = tcp_listen(&at, 1);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fds[0], (struct sockaddr *)&at, sizeof at), 0);
    fds[1] = accept(listener, NULL, NULL);
    CHECK_GE(fds[1], 0);
    close(listener);
}

HELPER void tcp_pair(aw_conn *ends[2]) {
    int fds[2];
    tcp_pair_fds(fds);
    CHECK_EQ(aw_conn_of_fd(&ends[0], fds[0]), 0);
    CHECK_EQ(aw_conn_of_fd(&ends[1], fds[1]), 0);
}

HELPER void pipe_pair(aw_conn *ends[2]) {
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(aw_conn_of_fd(&ends[0], fds[1]), 0);
    CHECK_EQ(aw_conn_of_fd(&ends[1], fds[0]), 0);
}

/* Makes the close of the connection a reset. */
HELPER void reset_on_close(aw_conn *c) {
    struct linger now = {1, 0};
    CHECK_EQ(setsockopt(aw_conn_fd(c), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
}

/* Writes until the kernel takes no more bytes. Returns their number. */
HELPER size_t fill(aw_conn *c) {
    static const char zeros[4096];
    int fd = aw_conn_fd(c);
    size_t total = 0;
    for (size_t size = sizeof zeros; size; size /= 2)
        for (ssize_t n; (n = send(fd, zeros, size, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;)
            total += (size_t)n;
    return total;
}

/* Reads and drops what is available. Returns the number of bytes. */
HELPER size_t drain_fd(int fd) {
    char bytes[4096];
    size_t total = 0;
    for (ssize_t n; (n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
        total += (size_t)n;
    return total;
}

/* ---- Waiters --------------------------------------------------------------------------------- */

HELPER uint32_t io_waiting(aw_conn *c, int direction) {
    aw__fd *f = (aw__fd *)c;
    uint32_t n = 0;
    aw__lock(&f->lock);
    for (const aw__waiter *w = f->waiters; w; w = w->next)
        n += aw__io_direction((const aw_io *)w) == (direction ? AW__WRITABLE : AW__READABLE);
    aw__unlock(&f->lock);
    return n;
}

struct io_until_waiting {
    AW_FRAME(int);
    aw_conn *conn;
    int direction;
    uint32_t count;
    aw_yield pause;
};
AW_ASYNC_STATIC(io_until_waiting) {
    AW_BEGIN;
    while (io_waiting(self->conn, self->direction) < self->count)
        AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

/* Waits until `count` operations wait in a direction (0: read, 1: write). Without workers, tasks
 * run meanwhile. */
HELPER void io_wait_for(aw_runtime *rt, aw_conn *c, int direction, uint32_t count) {
    CHECK_EQ(aw_block_on(
                 rt, AW_CALL(io_until_waiting, .conn = c, .direction = direction, .count = count)),
             0);
}

/* ---- One operation as a task ----------------------------------------------------------------- */

struct io_task {
    AW_FRAME(int);
    aw_io io;
};
AW_ASYNC_STATIC(io_task) {
    AW_BEGIN;
    AW_AWAIT_FUTURE(self->io);
    AW_RETURN(self->io.out);
    AW_END;
}

HELPER struct io_task *io_spawn(aw_runtime *rt, aw_io io) {
    return aw_spawn_on(rt, AW_CALL(io_task, .io = io));
}

HELPER int io_join(aw_runtime *rt, struct io_task *t) {
    CHECK_EQ(join_status(rt, &t->future), 0);
    return aw_task_take(t);
}

/* ---- One read on another thread -------------------------------------------------------------- */

struct io_reader {
    aw_runtime *rt;
    aw_conn *conn;
    bool in_block_on; /* false: a plain thread, in aw_wait */
    pthread_t thread;
    uint32_t done;
    int out;
    char to;
};

HELPER void *io_reader_body(void *arg) {
    struct io_reader *r = arg;
    aw_runtime *before = aw_enter(r->rt);
    aw_io io = aw_read(r->conn, &r->to, 1);
    r->out = r->in_block_on ? aw_block_on(r->rt, io) : aw_wait(io);
    aw_leave(before);
    STORE(r->done, 1);
    return NULL;
}

/* The read waits when this returns. */
HELPER void io_reader_start(struct io_reader *r, aw_runtime *rt, aw_conn *c, bool in_block_on) {
    *r = (struct io_reader){.rt = rt, .conn = c, .in_block_on = in_block_on};
    r->thread = thread_start(io_reader_body, r);
    WAIT_UNTIL(io_waiting(c, 0) == 1);
}

/* Returns the result of the read. */
HELPER int io_reader_end(struct io_reader *r) {
    thread_end(r->thread);
    return r->out;
}

#endif
