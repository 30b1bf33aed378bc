/* SPDX-License-Identifier: MIT
 *
 * Cancel requests, from a cancel or a close, on rings that other threads use too, or that no
 * thread polls: the operation completes once, and the caller waits for no other thread. Also:
 * waits on one descriptor in two runtimes. */
#define _GNU_SOURCE
#include "support/io_ends.h"
#include "support/net.h"

#include "support/faults.h"

#ifdef AW_URING
/* ---- An accept is two submissions ---------------------------------------------------------------- */

static struct {
    aw_runtime *rt;
    aw_conn *conn;
    uint32_t counted, go, back, done;
} slow; /* a thread that enters the ring late */

static void be_slow(void) {
    STORE(slow.counted, 1);
    WAIT_UNTIL(LOAD(slow.go));
}

static void *submit_slowly(void *arg) {
    (void)arg;
    aw_runtime *before = aw_enter(slow.rt);
    aw_flag flag = {0};
    char to;
    aw_io op = aw_read(slow.conn, &to, 1);
    fault_before_enter = be_slow;
    CHECK_EQ(POLL(&op, &flag), AW_PENDING);
    STORE(slow.back, 1);
    WAIT_UNTIL(LOAD(slow.done));
    CHECK_EQ(CANCEL_TO_ITS_END(&op, &flag), AW_CANCELLED);
    aw_leave(before);
    return NULL;
}

/* An accept that, once it is pending, lets the slow thread enter the ring with its outdated
 * count. */
struct watched {
    aw_future future;
    int out;
    aw_accept_future accept;
    bool waits;
};
static aw_poll watched_poll(aw_future *self, aw_cx *cx) {
    struct watched *w = (struct watched *)self;
    aw_poll p = aw_future_poll(&w->accept.future, cx);
    if (p == AW_READY) w->out = w->accept.out;
    if (p == AW_PENDING && !w->waits) {
        w->waits = true;
        STORE(slow.go, 1);
        WAIT_UNTIL(LOAD(slow.back));
    }
    return p;
}
static aw_poll watched_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_cancel(&((struct watched *)self)->accept.future, cx);
}
static const aw_future_type watched_type = {AW_TYPE_OF(struct watched, "watched"),
                                            .flags = AW_OUT_ERRNO, .poll = watched_poll,
                                            .cancel = watched_cancel};

/* The sleep submits the entries that the slow thread has counted. */
AW_ASYNC(int, accept_after_sleep, aw_listener *l; aw_conn * conn; aw_sleep nap; struct watched w;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(5)));
    AW_AWAIT(self->w, ((struct watched){.future = AW_FUTURE_INIT(&watched_type),
                                        .accept = aw_accept(self->l, &self->conn)}));
    AW_RETURN(self->w.out);
    AW_END;
}

/* Submitted alone, the poll that precedes the accept would stay in the kernel: it holds the
 * listener, and its completion would be taken for that of another operation. */
TEST(both_entries_of_an_accept_are_submitted_together_by_uring) {
    memory m;
    aw_addr at;
    aw_conn *ends[2];
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 1, false}, &m, NULL);
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    io_pair(ends);
    slow.rt = rt;
    slow.conn = ends[1];
    pthread_t thread = thread_start(submit_slowly, NULL);
    WAIT_UNTIL(LOAD(slow.counted));
    struct accept_after_sleep *a = aw_spawn_on(rt, AW_CALL(accept_after_sleep, .l = l));
    WAIT_UNTIL(LOAD(slow.back));
    run_a_while(rt);
    aw_listener_close(l);
    CHECK_EQ(join_status(rt, &a->future), 0);
    CHECK_EQ(aw_task_take(a), -EBADF);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fd, &at.u.any, at.size), -1);
    CHECK_EQ(errno, ECONNREFUSED);
    close(fd);
    STORE(slow.done, 1);
    thread_end(thread);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
#endif

/* ---- Cancels that the kernel does not find ------------------------------------------------------- */

/* A socket that is readable but has nothing to read: the kernel retries the read again and
 * again. */
static aw_conn *with_an_error_in_its_queue(void) {
    struct sockaddr_in at;
    int listener = tcp_listen(&at, 1), on = 1; /* its UDP port receives no datagrams */
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    char to;
    aw_conn *c;
    CHECK_EQ(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on), 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(send(fd, "x", 1, 0), 1);
    struct pollfd error = {fd, 0, 0};
    CHECK_EQ(poll(&error, 1, 5000), 1);
    CHECK_EQ(recv(fd, &to, 1, 0), -1);
    CHECK_EQ(errno, ECONNREFUSED);
    close(listener);
    CHECK_EQ(aw_conn_of_fd(&c, fd), 0);
    return c;
}

AW_ASYNC(int, give_up_at_once, aw_conn *conn; char to; AW_TIMEOUT(aw_io) read;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->read, 0, aw_read(self->conn, &self->to, 1));
    AW_RETURN(self->read.out);
    AW_END;
}

ON_DRIVERS(a_cancel_finds_an_operation_that_the_kernel_is_about_to_retry) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < 20; i++) {
        aw_conn *c = with_an_error_in_its_queue();
        struct give_up_at_once *t = aw_spawn_on(rt, AW_CALL(give_up_at_once, .conn = c));
        CHECK_EQ(join_status(rt, &t->future), 0);
        CHECK_EQ(aw_task_take(t), -ETIMEDOUT);
        aw_close(c);
    }
    workers_end(rt, &m);
}

/* ---- A full queue -------------------------------------------------------------------------------- */

enum { MANY = 600 }; /* more than twice the queue's capacity */
static aw_conn *many[MANY][2];
static uint32_t held, closed;

AW_ASYNC(int, read_all, aw_runtime *rt; int i; char to; struct io_task * tasks[MANY]; aw_sleep nap;
         aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < MANY; i++)
        self->tasks[i] = io_spawn(self->rt, aw_read(many[i][1], &self->to, 1));
    for (self->i = 0; self->i < MANY; self->i++)
        while (io_waiting(many[self->i][1], 0) == 0)
            AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    STORE(held, 1);
    WAIT_UNTIL(LOAD(closed)); /* meanwhile this thread does not poll its driver */
    for (self->i = 0; self->i < MANY; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        CHECK_EQ(self->join.out, 0);
        CHECK_EQ(aw_task_take(self->tasks[self->i]), -EBADF);
    }
    AW_RETURN(0);
    AW_END;
}

static void *close_all(void *arg) {
    (void)arg;
    WAIT_UNTIL(LOAD(held));
    for (int i = 0; i < MANY; i++)
        aw_close(many[i][1]);
    STORE(closed, 1);
    return NULL;
}

ON_DRIVERS(a_close_does_not_wait_for_the_thread_that_submitted_the_operations) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < MANY; i++)
        io_pair(many[i]);
    pthread_t thread = thread_start(close_all, NULL);
    struct read_all *r = aw_spawn_on(rt, AW_CALL(read_all, .rt = rt));
    CHECK_EQ(join_status(rt, &r->future), 0);
    CHECK_EQ(aw_task_take(r), 0);
    thread_end(thread);
    for (int i = 0; i < MANY; i++)
        aw_close(many[i][0]);
    workers_end(rt, &m);
}

/* ---- After a shutdown ---------------------------------------------------------------------------- */

/* Full, and still writable, because a write fails without waiting. */
ON_DRIVERS(a_connection_that_was_shut_down_is_writable) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    fill(ends[1]);
    struct io_task *before = io_spawn(rt, aw_writable(ends[1]));
    io_wait_for(rt, ends[1], 1, 1);
    CHECK_EQ(aw_block_on(rt, aw_shutdown(ends[1])), 0);
    CHECK_EQ(io_join(rt, before), 0);
    CHECK_EQ(aw_block_on(rt, aw_writable(ends[1])), 0);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[1], "x", 1)), -EPIPE);
    aw_close(ends[1]);
    aw_close(ends[0]);
    workers_end(rt, &m);
}

/* ---- Two runtimes -------------------------------------------------------------------------------- */

static aw_poll poll_in(aw_runtime *rt, aw_io *op, aw_flag *flag) {
    aw_runtime *before = aw_enter(rt);
    aw_poll p = POLL(op, flag);
    aw_leave(before);
    return p;
}

static void cancel_in(aw_runtime *rt, aw_io *op, aw_flag *flag) {
    aw_runtime *before = aw_enter(rt);
    CHECK_EQ(CANCEL_TO_ITS_END(op, flag), AW_CANCELLED);
    aw_leave(before);
}

static void must_be_woken(aw_runtime *rt, aw_io *op, aw_flag *flag) {
    while (poll_in(rt, op, flag) == AW_PENDING)
        while (!aw_flag_take(flag))
            run_a_while(rt);
    CHECK_EQ(op->out, 1);
}

ON_DRIVERS(the_end_of_one_runtime_does_not_end_waits_in_another) {
    memory m, other;
    aw_runtime *rt = io_runtime(how, &m, NULL), *ends_first = io_runtime(how, &other, NULL);
    aw_conn *ends[2];
    aw_flag reads = {0}, writes = {0};
    char to;
    io_pair(ends);
    fill(ends[1]);
    aw_io r = aw_read(ends[1], &to, 1), w = aw_write(ends[1], "x", 1);
    CHECK_EQ(poll_in(ends_first, &r, &reads), AW_PENDING);
    CHECK_EQ(poll_in(rt, &w, &writes), AW_PENDING);
    workers_end(ends_first, &other);
    CHECK_EQ(poll_in(rt, &w, &writes), AW_PENDING);
    drain_fd(aw_conn_fd(ends[0]));
    must_be_woken(rt, &w, &writes);
    aw_poll p = CANCEL_TO_ITS_END(&r, &reads); /* it may have ended with its runtime */
    CHECK(p == AW_CANCELLED || r.out == -ESHUTDOWN);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* A wait in a runtime with epoll or poll is cancelled. The operation that the other runtime has
 * in flight must not be counted as a wait there. */
static void pass_by(struct io_setup passing, struct io_setup staying) {
    memory m, other;
    aw_runtime *rt = io_runtime(staying, &m, NULL), *passes = io_runtime(passing, &other, NULL);
    aw_conn *ends[2];
    aw_flag reads = {0}, writes = {0};
    char to;
    io_pair(ends);
    fill(ends[1]);
    aw_io r = aw_read(ends[1], &to, 1), w = aw_write(ends[1], "x", 1), again = w;
    CHECK_EQ(poll_in(rt, &r, &reads), AW_PENDING);
    CHECK_EQ(poll_in(passes, &w, &writes), AW_PENDING);
    cancel_in(passes, &w, &writes);
    CHECK_EQ(poll_in(rt, &again, &writes), AW_PENDING);
    drain_fd(aw_conn_fd(ends[0]));
    must_be_woken(rt, &again, &writes);
    cancel_in(rt, &r, &reads);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(passes, &other);
    workers_end(rt, &m);
}
TEST(a_wait_cancelled_in_one_runtime_does_not_hold_up_another) {
    if (getenv("AWAKE_DRIVER")) SKIP("it needs two drivers");
    pass_by((struct io_setup){"epoll", 0, false}, (struct io_setup){"uring", 0, false});
    pass_by((struct io_setup){"poll", 0, false}, (struct io_setup){"uring", 8, false});
    pass_by((struct io_setup){"poll", 0, false}, (struct io_setup){"epoll", 0, false});
}
