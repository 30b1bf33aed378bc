/* SPDX-License-Identifier: MIT
 *
 * Readiness: aw_readable and aw_writable report it for as long as it lasts, and what one
 * direction finds does not change the other. */
#include "support/io_ends.h"

/* ---- Level-triggered ---------------------------------------------------------------------------- */

ON_DRIVERS(a_borrowed_descriptor_is_ready_for_as_long_as_there_is_something) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    int fds[2];
    char bytes[2];
    aw_conn *c;
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(aw_conn_borrow(&c, fds[0]), 0);
    CHECK_EQ(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
    struct io_task *t = io_spawn(rt, aw_readable(c));
    run_a_while(rt);
    CHECK_EQ(aw_task_is_finished(t), false);
    CHECK_EQ(write(fds[1], "ab", 2), 2);
    CHECK_EQ(io_join(rt, t), 0);
    CHECK_EQ(aw_block_on(rt, aw_readable(c)), 0);
    CHECK_EQ(read(fds[0], bytes, 1), 1);
    CHECK_EQ(aw_block_on(rt, aw_readable(c)), 0);
    CHECK_EQ(aw_block_on(rt, aw_read(c, bytes, 1)), -EOPNOTSUPP);
    CHECK_EQ(read(fds[0], bytes, 1), 1);
    close(fds[1]);
    CHECK_EQ(aw_block_on(rt, aw_readable(c)), 0); /* end of file */
    aw_conn_drop(c);
    CHECK_EQ(close(fds[0]), 0);
    CHECK_EQ(aw_conn_borrow(&c, fds[0]), -EBADF);
    workers_end(rt, &m);
}

ON_DRIVERS(a_borrowed_descriptor_is_ready_for_as_long_as_there_is_space) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    int fds[2];
    aw_conn *c;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_EQ(aw_conn_borrow(&c, fds[0]), 0);
    CHECK_EQ(aw_block_on(rt, aw_writable(c)), 0);
    for (int i = 0; i < 3; i++) {
        fill(c);
        struct io_task *t = io_spawn(rt, aw_writable(c));
        run_a_while(rt);
        CHECK_EQ(aw_task_is_finished(t), false);
        drain_fd(fds[1]);
        CHECK_EQ(io_join(rt, t), 0);
        for (int again = 0; again < 2; again++) /* without another event */
            CHECK_EQ(aw_block_on(rt, aw_writable(c)), 0);
    }
    CHECK_EQ(aw_block_on(rt, aw_write(c, "x", 1)), -EOPNOTSUPP);
    aw_conn_drop(c);
    close(fds[0]);
    close(fds[1]);
    workers_end(rt, &m);
}

/* ---- Two directions ----------------------------------------------------------------------------- */

/* An operation that need not wait. With io_uring its completion may take a while; otherwise it
 * is done in this poll. */
static int done_at_once(aw_runtime *rt, struct io_setup how, aw_io op) {
    static aw_flag flag; /* static: a worker may set it a moment later */
    aw_poll p = POLL(&op, &flag);
    if (strcmp(how.driver, "uring") == 0)
        for (; p == AW_PENDING; p = POLL(&op, &flag))
            run_a_while(rt);
    CHECK_EQ(p, AW_READY);
    return op.out;
}

ON_DRIVERS(a_read_that_waits_does_not_hide_that_a_write_is_possible) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    struct io_task *r = io_spawn(rt, aw_read(ends[1], &to, 1));
    io_wait_for(rt, ends[1], 0, 1);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1); /* the event reports both directions */
    CHECK_EQ(io_join(rt, r), 1);
    r = io_spawn(rt, aw_read(ends[1], &to, 1));
    io_wait_for(rt, ends[1], 0, 1);
    CHECK_EQ(done_at_once(rt, how, aw_write(ends[1], "y", 1)), 1);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "z", 1), 1);
    CHECK_EQ(io_join(rt, r), 1);
    CHECK_EQ(to, 'z');
    aw_leave(before);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

ON_DRIVERS(a_write_that_waits_does_not_hide_that_a_read_is_possible) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    struct io_task *r = io_spawn(rt, aw_read(ends[1], &to, 1));
    io_wait_for(rt, ends[1], 0, 1);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "xy", 2), 2);
    CHECK_EQ(io_join(rt, r), 1);
    fill(ends[1]);
    struct io_task *w = io_spawn(rt, aw_write(ends[1], "x", 1));
    io_wait_for(rt, ends[1], 1, 1);
    CHECK_EQ(done_at_once(rt, how, aw_read(ends[1], &to, 1)), 1);
    CHECK_EQ(to, 'y');
    drain_fd(aw_conn_fd(ends[0]));
    CHECK_EQ(io_join(rt, w), 1);
    aw_leave(before);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
