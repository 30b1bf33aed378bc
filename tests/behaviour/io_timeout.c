/* SPDX-License-Identifier: MIT
 *
 * Timeouts of reads and writes: data or space that the kernel has when the time is up still
 * counts. */
#include "support/io_ends.h"

ALL_ON_THIS_THREAD("each test chooses its flavour itself");

typedef AW_TIMEOUT(aw_io) timed_io;

/* Returns when the data has arrived. The thread is blocked meanwhile, so it does not poll its
 * driver. */
static void send_and_see(int from, aw_conn *to) {
    struct pollfd p = {aw_conn_fd(to), POLLIN, 0};
    CHECK_EQ(send(from, "b", 1, MSG_NOSIGNAL), 1);
    CHECK_EQ(poll(&p, 1, 10000), 1);
}

struct tcp_ends {
    aw_conn *c;
    int peer;
};

static struct tcp_ends tcp_ends(void) {
    int fds[2];
    struct tcp_ends ends;
    tcp_pair_fds(fds);
    CHECK_EQ(aw_conn_of_fd(&ends.c, fds[0]), 0);
    ends.peer = fds[1];
    return ends;
}

static void close_ends(struct tcp_ends ends) {
    aw_close(ends.c);
    close(ends.peer);
}

/* ---- The time is up when the read begins -------------------------------------------------------- */

/* The first read gets less than requested, so the connection counts as empty. */
AW_ASYNC(int, read_twice, struct tcp_ends ends; bool by; char buf[16]; aw_io io; timed_io t;) {
    AW_BEGIN;
    send_and_see(self->ends.peer, self->ends.c);
    AW_AWAIT(self->io, aw_read(self->ends.c, self->buf, sizeof self->buf));
    CHECK_EQ(self->io.out, 1);
    send_and_see(self->ends.peer, self->ends.c);
    if (self->by)
        AW_AWAIT_BY(self->t, aw_now(NULL), aw_read(self->ends.c, self->buf, sizeof self->buf));
    else
        AW_AWAIT_FOR(self->t, 0, aw_read(self->ends.c, self->buf, sizeof self->buf));
    AW_RETURN(self->t.out ? self->t.out : self->t.inner.out);
    AW_END;
}

ON_DRIVERS(a_read_that_has_data_is_not_given_up_after_no_time) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int by = 0; by < 2; by++) {
        struct tcp_ends ends = tcp_ends();
        CHECK_EQ(aw_block_on(rt, AW_CALL(read_twice, .ends = ends, .by = by)), 1);
        CHECK_EQ(RUN(rt, AW_CALL(read_twice, .ends = ends, .by = by)), 1);
        close_ends(ends);
    }
    workers_end(rt, &m);
}

ON_DRIVERS(a_plain_thread_gets_what_is_there_after_no_time) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    for (int by = 0; by < 2; by++) {
        struct tcp_ends ends = tcp_ends();
        CHECK_EQ(aw_wait(AW_CALL(read_twice, .ends = ends, .by = by)), 1);
        close_ends(ends);
    }
    aw_leave(before);
    workers_end(rt, &m);
}

ON_DRIVERS(a_plain_thread_that_waits_for_no_time_gets_what_is_there) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    struct tcp_ends ends = tcp_ends();
    char bytes[16];
    send_and_see(ends.peer, ends.c);
    CHECK_EQ(aw_wait(aw_read(ends.c, bytes, sizeof bytes)), 1);
    send_and_see(ends.peer, ends.c);
    CHECK_EQ(aw_wait_for(0, aw_read(ends.c, bytes, sizeof bytes)), 1);
    CHECK_EQ(aw_wait_for(0, aw_read(ends.c, bytes, sizeof bytes)), -ETIMEDOUT);
    CHECK_EQ(io_waiting(ends.c, 0), 0);
    close_ends(ends);
    aw_leave(before);
    workers_end(rt, &m);
}

/* After a write that would block, the next one is not tried at once either. */
AW_ASYNC(int, write_twice, aw_conn *c; aw_conn * peer; timed_io t;) {
    AW_BEGIN;
    fill(self->c);
    AW_AWAIT_FOR(self->t, 0, aw_write(self->c, "x", 1));
    CHECK_EQ(self->t.out, -ETIMEDOUT);
    drain_fd(aw_conn_fd(self->peer));
    AW_AWAIT_FOR(self->t, 0, aw_write(self->c, "x", 1));
    AW_RETURN(self->t.out ? self->t.out : self->t.inner.out);
    AW_END;
}

ON_DRIVERS(a_write_that_has_space_is_not_given_up_after_no_time) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    CHECK_EQ(RUN(rt, AW_CALL(write_twice, .c = ends[0], .peer = ends[1])), 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

ON_DRIVERS(a_read_that_has_nothing_is_given_up_after_no_time) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct tcp_ends ends = tcp_ends();
    char byte;
    for (int i = 0; i < 3; i++) {
        timed_io t = AW_TIMEOUT_OF(timed_io, 0, aw_read(ends.c, &byte, 1));
        CHECK_EQ(aw_block_on_future(rt, &t.future), 0);
        CHECK_EQ(t.out, -ETIMEDOUT);
    }
    CHECK_EQ(io_waiting(ends.c, 0), 0);
    close_ends(ends);
    workers_end(rt, &m);
}

/* ---- The time is up while the read waits --------------------------------------------------------- */

/* Timers fire, but the driver is not polled: as when another thread polls it, and is busy. */
ON_EACH_READINESS_DRIVER(a_read_that_has_data_when_its_time_is_up_is_not_given_up) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    struct tcp_ends ends = tcp_ends();
    char bytes[16];
    CHECK_EQ(aw_clock_pause(rt), 0);
    for (int has_data = 1; has_data >= 0; has_data--) {
        aw_flag flag = {0};
        timed_io t = AW_TIMEOUT_OF(timed_io, AW_SEC(1), aw_read(ends.c, bytes, sizeof bytes));
        CHECK_EQ(POLL(&t, &flag), AW_PENDING);
        CHECK_EQ(io_waiting(ends.c, 0), 1);
        CHECK_EQ(aw_clock_advance(rt, AW_SEC(1)), 0);
        if (has_data) send_and_see(ends.peer, ends.c);
        CHECK_EQ(POLL(&t, &flag), AW_PENDING);
        aw__wheel_advance(&rt->wheel, aw_now(rt));
        CHECK_EQ(POLL(&t, &flag), AW_READY);
        CHECK_EQ(t.out, has_data ? 0 : -ETIMEDOUT);
        if (has_data) CHECK_EQ(t.inner.out, 1);
        CHECK_EQ(io_waiting(ends.c, 0), 0);
    }
    aw_leave(before);
    close_ends(ends);
    workers_end(rt, &m);
}

/* The kernel reports a full socket as writable only when much of its buffer is free, but a write
 * succeeds earlier. A few bytes that become free must not extend the time that a peer has to
 * read. */
ON_EACH_READINESS_DRIVER(
    a_write_is_given_up_in_time_when_the_kernel_does_not_report_it_as_possible) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    int fds[2];
    aw_conn *c;
    char bytes[1024] = {0};
    aw_flag flag = {0};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    while (send(fds[0], bytes, sizeof bytes, 0) > 0) {
    }
    struct pollfd writable = {.fd = fds[0], .events = POLLOUT};
    CHECK_EQ(aw_conn_of_fd(&c, fds[0]), 0);
    CHECK_EQ(aw_clock_pause(rt), 0);
    timed_io t = AW_TIMEOUT_OF(timed_io, AW_SEC(1), aw_write(c, bytes, sizeof bytes));
    CHECK_EQ(POLL(&t, &flag), AW_PENDING);
    CHECK_EQ(recv(fds[1], bytes, sizeof bytes, 0), (ssize_t)sizeof bytes);
    CHECK_EQ(poll(&writable, 1, 0), 0);
    CHECK_EQ(aw_clock_advance(rt, AW_SEC(1)), 0);
    aw__wheel_advance(&rt->wheel, aw_now(rt));
    CHECK_EQ(POLL(&t, &flag), AW_READY);
    CHECK_EQ(t.out, -ETIMEDOUT);
    /* It would have succeeded. */
    CHECK_EQ(send(fds[0], bytes, sizeof bytes, 0), (ssize_t)sizeof bytes);
    aw_close(c);
    close(fds[1]);
    aw_leave(before);
    workers_end(rt, &m);
}
