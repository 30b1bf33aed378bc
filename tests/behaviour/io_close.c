/* SPDX-License-Identifier: MIT
 *
 * Connections that end: closed with operations pending, inside a wake, or behind the driver's
 * back; reset by the peer; or with operations of a runtime or a thread that has ended. */
#include <awake.h>

#include "support/io_ends.h"

#include <signal.h>
#include <sys/syscall.h>

#include "support/callback_waker.h"

/* ---- Closing ----------------------------------------------------------------------------------- */

ON_DRIVERS(a_connection_that_was_never_opened_is_bad) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    char buf[8];
    aw_addr to = aw_addr_loopback(AF_INET, 1), local;
    int fds[1] = {0};
    aw_reader r = aw_reader_of(NULL, buf, sizeof buf);
    CHECK_EQ(aw_block_on(rt, aw_read(NULL, buf, 1)), -EBADF);
    CHECK_EQ(aw_block_on(rt, aw_write_all(NULL, "x", 1)), -EBADF);
    CHECK_EQ(aw_block_on(rt, aw_readable(NULL)), -EBADF);
    CHECK_EQ(aw_block_on(rt, aw_copy(&r, NULL)), -EBADF);
    CHECK_EQ(aw_block_on(rt, aw_send_to(NULL, "x", 1, &to)), -EBADF);
    CHECK_EQ(aw_block_on(rt, aw_recv_from(NULL, buf, 1, &to, NULL)), -EBADF);
    CHECK_EQ(aw_block_on(rt, aw_send_fds(NULL, "x", 1, fds, 1)), -EBADF);
    CHECK_EQ(aw_conn_fd(NULL), -EBADF);
    CHECK_EQ(aw_conn_local(NULL, &local), -EBADF);
    CHECK_EQ(aw_conn_nodelay(NULL, true), -EBADF);
    aw_conn_keep(NULL);
    aw_conn_drop(NULL);
    aw_close(NULL);
    workers_end(rt, NULL);
}

ON_DRIVERS(a_close_ends_both_directions) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to;
    io_pair(ends);
    fill(ends[1]);
    struct io_task *r = io_spawn(rt, aw_read(ends[1], &to, 1)),
                   *w = io_spawn(rt, aw_write(ends[1], "x", 1));
    io_wait_for(rt, ends[1], 0, 1);
    io_wait_for(rt, ends[1], 1, 1);
    aw_close(ends[1]);
    CHECK_EQ(io_join(rt, r), -EBADF);
    CHECK_EQ(io_join(rt, w), -EBADF);
    aw_close(ends[0]);
    workers_end(rt, &m);
}

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

/* Otherwise an operation that has not seen the close yet would make its call on an unrelated
 * descriptor. */
ON_DRIVERS(a_number_is_free_when_the_last_operation_and_reference_are_gone) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int kept = 0; kept < 2; kept++) {
        aw_runtime *before = aw_enter(rt);
        aw_conn *ends[2];
        aw_flag flag = {0};
        char to;
        io_pair(ends);
        int fd = aw_conn_fd(ends[1]);
        aw_io op = aw_read(ends[1], &to, 1);
        CHECK_EQ(POLL(&op, &flag), AW_PENDING);
        if (kept) aw_conn_keep(ends[1]);
        aw_close(ends[1]);
        CHECK(is_open(fd)); /* the operation has not seen the close */
        int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_NE(other, fd);
        aw_leave(before);
        while (!aw_flag_take(&flag))
            run_a_while(rt);
        CHECK(is_open(fd));
        CHECK_EQ(POLL(&op, &flag), AW_READY);
        CHECK_EQ(op.out, -EBADF);
        CHECK_EQ(is_open(fd), kept);
        if (kept) aw_conn_drop(ends[1]);
        CHECK(!is_open(fd));
        close(other);
        aw_close(ends[0]);
    }
    workers_end(rt, &m);
}

static aw_conn *closed_in_a_wake;
static void close_once(callback_waker *self) {
    (void)self;
    aw_conn *c = __atomic_exchange_n(&closed_in_a_wake, NULL, __ATOMIC_ACQ_REL);
    if (c) aw_close(c);
}

/* The waker of a pending operation closes the connection. With `by_close` it is woken by a
 * close, and closes a second time, through a reference that was kept. */
static void close_in_a_wake(struct io_setup how, bool by_close) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    aw_conn *ends[2];
    callback_waker a, other;
    char to[2];
    callback_waker_init(&a, close_once);
    callback_waker_init(&other, close_once); /* the byte is for one of them */
    io_pair(ends);
    aw_io first = aw_read(ends[1], &to[0], 1), second = aw_read(ends[1], &to[1], 1);
    CHECK_EQ(POLL_WITH(&first, &a), AW_PENDING);
    CHECK_EQ(POLL_WITH(&second, &other), AW_PENDING);
    aw_leave(before);
    if (by_close) aw_conn_keep(ends[1]);
    STORE(closed_in_a_wake, ends[1]);
    if (by_close) {
        aw_close(ends[1]);
    } else {
        CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    }
    while (LOAD(a.wakes) == 0 || LOAD(other.wakes) == 0)
        run_a_while(rt);
    CHECK(LOAD(closed_in_a_wake) == NULL);
    before = aw_enter(rt);
    CHECK_EQ(POLL_WITH(&first, &a), AW_READY);
    CHECK_EQ(POLL_WITH(&second, &other), AW_READY);
    CHECK(first.out == -EBADF || (first.out == 1 && !by_close));
    CHECK(second.out == -EBADF || (second.out == 1 && !by_close && first.out != 1));
    aw_leave(before);
    aw_close(ends[0]);
    workers_end(rt, &m);
}

ON_DRIVERS(a_connection_may_be_closed_in_its_own_wake) {
    close_in_a_wake(how, false);
}
ON_DRIVERS(a_close_wakes_without_a_lock) {
    close_in_a_wake(how, true);
}

/* The descriptor is replaced by another one (dup2) without the driver's knowledge. */
ON_DRIVERS(a_descriptor_closed_behind_the_drivers_back_leaks_nothing) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    int others[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
    close(others[1]);
    size_t fds = 0, blocks = 0;
    char to;
    for (int i = 0; i < test_scale(2000); i++) {
        aw_conn *ends[2];
        io_pair(ends);
        struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
        io_wait_for(rt, ends[1], 0, 1);
        CHECK_EQ(syscall(SYS_dup2, others[0], aw_conn_fd(ends[1])), aw_conn_fd(ends[1]));
        aw_close(ends[1]);
        int n = io_join(rt, t);
        CHECK(n == -EBADF || n == 0); /* the other descriptor is at its end */
        aw_close(ends[0]);
        if (i == 20) fds = entries("/proc/self/fd"), blocks = memory_in_use(&m);
    }
    close(others[0]);
    /* Except for workers that have opened their driver meanwhile. */
    CHECK_LE(entries("/proc/self/fd"), fds + 2 * (size_t)how.workers);
    if (!how.workers) CHECK_LE(memory_in_use(&m), blocks);
    workers_end(rt, &m);
}

/* ---- Two directions ----------------------------------------------------------------------------- */

ON_DRIVERS(one_direction_does_not_hold_up_the_other) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to[1];
    io_pair(ends);
    fill(ends[1]);
    struct io_task *w = io_spawn(rt, aw_write(ends[1], "x", 1));
    io_wait_for(rt, ends[1], 1, 1);
    for (int i = 0; i < 5; i++) { /* reads while the write waits */
        struct io_task *r = io_spawn(rt, aw_read(ends[1], to, 1));
        io_wait_for(rt, ends[1], 0, 1);
        CHECK_EQ(write(aw_conn_fd(ends[0]), "y", 1), 1);
        CHECK_EQ(io_join(rt, r), 1);
    }
    io_wait_for(rt, ends[1], 1, 1);
    struct io_task *r = io_spawn(rt, aw_read(ends[1], to, 1));
    io_wait_for(rt, ends[1], 0, 1);
    drain_fd(aw_conn_fd(ends[0]));
    CHECK_EQ(io_join(rt, w), 1); /* writes while the read waits */
    io_wait_for(rt, ends[1], 0, 1);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "z", 1), 1);
    CHECK_EQ(io_join(rt, r), 1);
    CHECK_EQ(to[0], 'z');
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

ON_DRIVERS(a_shutdown_does_not_wait_for_what_is_in_the_way) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    fill(ends[1]);
    struct io_task *w = io_spawn(rt, aw_write(ends[1], "x", 1));
    io_wait_for(rt, ends[1], 1, 1);
    CHECK_EQ(aw_block_on(rt, aw_shutdown(ends[1])), 0);
    CHECK_EQ(io_join(rt, w), -EPIPE);
    drain_fd(aw_conn_fd(ends[0]));
    char to;
    CHECK_EQ(aw_block_on(rt, aw_read(ends[0], &to, 1)), 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* Two independent users of one descriptor, for example two libraries. */
ON_DRIVERS(a_descriptor_may_be_waited_for_in_two_connections) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    int fds[2];
    aw_conn *first, *second;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(aw_conn_borrow(&first, fds[1]), 0);
    CHECK_EQ(aw_conn_borrow(&second, fds[1]), 0);
    struct io_task *a = io_spawn(rt, aw_readable(first)), *b = io_spawn(rt, aw_readable(second));
    io_wait_for(rt, first, 0, 1);
    io_wait_for(rt, second, 0, 1);
    aw_conn_drop(first); /* its task still has a reference */
    CHECK_EQ(write(fds[0], "x", 1), 1);
    CHECK_EQ(io_join(rt, a), 0);
    CHECK_EQ(io_join(rt, b), 0);
    aw_conn_drop(second);
    close(fds[0]);
    close(fds[1]);
    workers_end(rt, &m);
}

/* While this task yields, the runtime never sleeps. */
AW_ASYNC(int, yield_until, const uint32_t *done; aw_yield pause;) {
    AW_BEGIN;
    while (!LOAD(*self->done))
        AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}
AW_ASYNC(int, read_and_signal, aw_conn *conn; uint32_t * done; char to; aw_io io;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_read(self->conn, &self->to, 1));
    STORE(*self->done, 1);
    AW_RETURN(self->io.out);
    AW_END;
}

ON_DRIVERS(a_task_that_only_yields_lets_bytes_through) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    uint32_t done = 0;
    io_pair(ends);
    struct read_and_signal *t = aw_spawn_on(
        rt, AW_CALL(read_and_signal, .conn = ends[1], .done = &done));
    io_wait_for(rt, ends[1], 0, 1);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    struct yield_until *y = aw_spawn_on(rt, AW_CALL(yield_until, .done = &done));
    CHECK_EQ(join_status(rt, &y->future), 0);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 1);
    aw_task_drop(y);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- The peer ends ------------------------------------------------------------------------------ */

static char large[1 << 16];

AW_ASYNC(int, write_on, aw_conn *conn; aw_io io;) {
    AW_BEGIN;
    do
        AW_AWAIT(self->io, aw_write(self->conn, large, sizeof large));
    while (self->io.out > 0);
    AW_RETURN(self->io.out);
    AW_END;
}

ON_DRIVERS(a_reset_ends_what_waits) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to;
    tcp_pair(ends);
    struct io_task *r = io_spawn(rt, aw_read(ends[1], &to, 1));
    struct write_on *w = aw_spawn_on(rt, AW_CALL(write_on, .conn = ends[1]));
    io_wait_for(rt, ends[1], 0, 1);
    io_wait_for(rt, ends[1], 1, 1);
    reset_on_close(ends[0]);
    aw_close(ends[0]);
    int first = io_join(rt, r);
    CHECK_EQ(join_status(rt, &w->future), 0);
    int second = aw_task_take(w);
    /* The kernel reports the error once. */
    CHECK(first == -ECONNRESET || first == 0);
    CHECK(second == -ECONNRESET || second == -EPIPE);
    CHECK(first == -ECONNRESET || second == -ECONNRESET);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[1], "x", 1)), -EPIPE);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

AW_ASYNC(int, talk, aw_conn *conn; int i; char bytes[512]; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_write(self->conn, self->bytes, sizeof self->bytes));
        if (self->io.out < 0) break;
        AW_AWAIT(self->io, aw_read(self->conn, self->bytes, sizeof self->bytes));
        if (self->io.out <= 0) break;
    }
    AW_RETURN(self->io.out);
    AW_FINALLY;
    aw_conn_drop(self->conn);
    AW_END;
}

ON_DRIVERS(a_reset_may_come_at_any_moment) {
    memory m;
    uint64_t random = test_seed();
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < stress_rounds(40); i++) {
        aw_conn *ends[2];
        tcp_pair(ends);
        aw_conn_keep(ends[0]); /* for the tasks, which drop it at their end */
        aw_conn_keep(ends[1]);
        struct talk *a = aw_spawn_on(rt, AW_CALL(talk, .conn = ends[0])),
                    *b = aw_spawn_on(rt, AW_CALL(talk, .conn = ends[1]));
        int rounds = (int)(test_random(&random) % 8);
        if (how.workers)
            for (int n = 0; n < rounds; n++)
                jitter(&random);
        else
            CHECK_EQ(aw_block_on(rt, yields(rounds)), 0);
        int which = (int)(test_random(&random) % 2);
        reset_on_close(ends[which]);
        aw_close(ends[which]);
        CHECK_EQ(join_status(rt, &a->future), 0);
        CHECK_EQ(join_status(rt, &b->future), 0);
        int near = aw_task_take(which ? b : a), far = aw_task_take(which ? a : b);
        CHECK(near == -EBADF || near == -EPIPE || near == -ECONNRESET);
        CHECK(far == -ECONNRESET || far == -EPIPE || far == 0);
        aw_close(ends[!which]);
    }
    workers_end(rt, &m);
}

ON_DRIVERS(nothing_raises_a_signal) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    struct iovec parts[2] = {{"ab", 2}, {"cd", 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    void (*const pairs[])(aw_conn * ends[2]) = {io_pair, tcp_pair, pipe_pair};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        aw_conn *ends[2];
        pairs[i](ends);
        if (pairs[i] == tcp_pair) reset_on_close(ends[1]);
        aw_close(ends[1]);
        int n = aw_block_on(rt, aw_writev(ends[0], parts, 2));
        CHECK(n == -EPIPE || n == -ECONNRESET);
        CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "x", 1)), -EPIPE);
        if (pairs[i] != pipe_pair)
            CHECK_EQ(aw_block_on(rt, aw__io(ends[0], AW_IO_SENDMSG, &message, 0)), -EPIPE);
        aw_close(ends[0]);
    }
    workers_end(rt, NULL);
}

/* Also when the peer closes while the write waits. */
ON_DRIVERS(a_write_that_waits_raises_no_signal) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    void (*const pairs[])(aw_conn * ends[2]) = {io_pair, pipe_pair};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        aw_conn *ends[2];
        char bytes[4096] = {0};
        pairs[i](ends);
        while (write(aw_conn_fd(ends[0]), bytes, sizeof bytes) > 0)
            ;
        fill(ends[0]);
        struct io_task *w = io_spawn(rt, aw_write(ends[0], bytes, sizeof bytes));
        io_wait_for(rt, ends[0], 1, 1);
        aw_close(ends[1]);
        CHECK_EQ(io_join(rt, w), -EPIPE);
        aw_close(ends[0]);
    }
    workers_end(rt, NULL);
}

/* ---- The runtime or the thread ends ------------------------------------------------------------- */

struct waits {
    aw_runtime *rt;
    aw_conn *conn;
    uint32_t done;
    int out;
};

static void *wait_on_a_thread(void *arg) {
    struct waits *w = arg;
    char to;
    aw_runtime *before = aw_enter(w->rt);
    w->out = aw_wait(aw_read(w->conn, &to, 1));
    aw_leave(before);
    return NULL;
}

ON_DRIVERS(a_thread_that_waits_is_told_that_the_runtime_ends) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    struct waits w = {.rt = rt, .conn = ends[1]};
    pthread_t thread = thread_start(wait_on_a_thread, &w);
    WAIT_UNTIL(io_waiting(ends[1], 0) == 1);
    workers_end(rt, NULL);
    thread_end(thread);
    CHECK_EQ(w.out, -ESHUTDOWN);
    aw_close(ends[0]);
    aw_close(ends[1]);
    CHECK_EQ(memory_in_use(&m), 0);
}

AW_ASYNC(int, read_impatiently, aw_conn *conn; const uint32_t *stop; AW_TIMEOUT(aw_io) t;
         char to;) {
    AW_BEGIN;
    while (!LOAD(*self->stop)) {
        AW_AWAIT_FOR(self->t, 20000, aw_read(self->conn, &self->to, 1));
        /* It waited on the driver of the other runtime, which has ended. */
        CHECK(self->t.out == -ETIMEDOUT || self->t.inner.out == -ESHUTDOWN);
    }
    AW_RETURN(0);
    AW_END;
}

/* All waits on a connection use the driver of the first, until the runtime of that driver ends. */
ON_DRIVERS(a_connection_goes_on_when_the_runtime_of_its_driver_ends) {
    memory m, other;
    enum { READERS = 3 };
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < stress_rounds(20); i++) {
        aw_runtime *first = io_runtime((struct io_setup){how.driver, 1, false}, &other, NULL);
        struct read_impatiently *readers[READERS];
        aw_conn *ends[2];
        uint32_t stop = 0;
        char to;
        io_pair(ends);
        aw_task_drop(io_spawn(first, aw_read(ends[1], &to, 1)));
        io_wait_for(first, ends[1], 0, 1);
        for (int k = 0; k < READERS; k++)
            readers[k] = aw_spawn_on(rt, AW_CALL(read_impatiently, .conn = ends[1], .stop = &stop));
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(200000)), 0);
        workers_end(first, &other);
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(200000)), 0);
        STORE(stop, 1);
        for (int k = 0; k < READERS; k++) {
            CHECK_EQ(join_status(rt, &readers[k]->future), 0);
            aw_task_drop(readers[k]);
        }
        aw_close(ends[0]);
        aw_close(ends[1]);
    }
    workers_end(rt, &m);
}

static void *run_on_a_thread(void *arg) {
    struct waits *w = arg;
    io_wait_for(w->rt, w->conn, 0, 1);
    return NULL;
}

/* Operations submitted by a thread that has ended complete as cancelled, and are submitted
 * again. */
ON_DRIVERS(the_thread_that_ran_the_runtime_may_end) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
    struct waits w = {.rt = rt, .conn = ends[1]};
    on_a_thread(run_on_a_thread, &w);
    CHECK_EQ(aw_task_is_finished(t), false);
    on_a_thread(run_on_a_thread, &w);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(io_join(rt, t), 1);
    CHECK_EQ(to, 'x');
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* A plain thread waits for a while, times out and ends: what it submitted for other waiters goes
 * on. */
static void *give_up_on_a_thread(void *arg) {
    struct waits *w = arg;
    char to;
    aw_runtime *before = aw_enter(w->rt);
    w->out = aw_wait_for(1000, aw_read(w->conn, &to, 1));
    aw_leave(before);
    STORE(w->done, 1);
    return NULL;
}

AW_ASYNC(int, until, const uint32_t *done; aw_yield pause;) {
    AW_BEGIN;
    while (!LOAD(*self->done))
        AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

ON_DRIVERS(threads_that_give_up_take_nothing_with_them) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2], *others[2];
    char to = 0;
    io_pair(ends);
    io_pair(others);
    for (int i = 0; i < stress_rounds(50); i++) {
        struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
        if (i % 2) io_wait_for(rt, ends[1], 0, 1);
        struct waits w = {.rt = rt, .conn = others[1]};
        pthread_t thread = thread_start(give_up_on_a_thread, &w);
        CHECK_EQ(aw_block_on(rt, AW_CALL(until, .done = &w.done)), 0); /* drives the runtime */
        thread_end(thread);
        CHECK_EQ(w.out, -ETIMEDOUT);
        CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
        CHECK_EQ(io_join(rt, t), 1);
    }
    aw_close(ends[0]);
    aw_close(ends[1]);
    aw_close(others[0]);
    aw_close(others[1]);
    workers_end(rt, &m);
}

/* ---- Connecting --------------------------------------------------------------------------------- */

/* A listener with a full backlog: the next connect has to wait. */
struct crowd {
    int listener, fds[8], count;
    struct sockaddr_in at;
};

static bool crowd_begin(struct crowd *c) {
    c->listener = tcp_listen(&c->at, 0);
    for (c->count = 0; c->count < 8; c->count++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct pollfd p = {fd, POLLOUT, 0};
        CHECK(connect(fd, (struct sockaddr *)&c->at, sizeof c->at) == 0 || errno == EINPROGRESS);
        c->fds[c->count] = fd;
        if (poll(&p, 1, 20) == 1) continue;
        close(fd); /* it waits: so will the next connect */
        return true;
    }
    return false;
}

static void crowd_end(struct crowd *c) {
    for (int i = 0; i < c->count; i++)
        close(c->fds[i]);
    close(c->listener);
}

struct connects {
    aw_runtime *rt;
    aw_conn *conn;
};
static void *connect_for_a_while(void *arg) {
    struct connects *c = arg;
    io_wait_for(c->rt, c->conn, 1, 1);
    CHECK_EQ(aw_block_on(c->rt, rounds(3)), 0); /* it is submitted */
    return NULL;
}

/* A connect that is in progress already is submitted again. The kernel retransmits after a
 * second. */
static void connect_while_a_thread_ends(const char *driver) {
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, 0, false}, &m, NULL);
    struct crowd crowd;
    if (!crowd_begin(&crowd)) SKIP("the listener's queue has no end");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    aw_conn *c;
    CHECK_EQ(aw_conn_of_fd(&c, fd), 0);
    aw_io io = aw__io(c, AW_IO_CONNECT, &crowd.at, sizeof crowd.at);
    struct io_task *t = io_spawn(rt, io);
    struct connects connects = {rt, c};
    on_a_thread(connect_for_a_while, &connects);
    CHECK_EQ(aw_block_on(rt, rounds(3)), 0);
    CHECK_EQ(aw_task_is_finished(t), false);
    for (int i = 0; i < crowd.count; i++)
        close(accept(crowd.listener, NULL, NULL));
    CHECK_EQ(io_join(rt, t), 0);
    aw_close(c);
    crowd_end(&crowd);
    workers_end(rt, &m);
}

TEST(connecting_goes_on_when_the_thread_that_began_ends_by_uring) {
    connect_while_a_thread_ends("uring");
}
TEST(connecting_goes_on_when_the_thread_that_began_ends_by_epoll) {
    connect_while_a_thread_ends("epoll");
}
TEST(connecting_goes_on_when_the_thread_that_began_ends_by_poll) {
    connect_while_a_thread_ends("poll");
}
