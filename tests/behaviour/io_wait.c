/* SPDX-License-Identifier: MIT
 *
 * Waiting for descriptors: no readiness is missed, nothing waits for a closed descriptor, and a
 * cancelled operation has moved nothing. */
#include "support/io_ends.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- Reading and writing ----------------------------------------------------------------------- */

AW_ASYNC(int, read_one, aw_conn *conn; char *to; uint32_t * begun; aw_io io;) {
    AW_BEGIN;
    if (self->begun) ADD(*self->begun, 1);
    AW_AWAIT(self->io, aw_read(self->conn, self->to, 1));
    AW_RETURN(self->io.out);
    AW_END;
}

AW_ASYNC(int, write_one, aw_conn *conn; char byte; aw_io io;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_write(self->conn, &self->byte, 1));
    AW_RETURN(self->io.out);
    AW_END;
}

enum { ROUNDS = 500 };

AW_ASYNC(int, ask, aw_conn *conn; int i; char byte; aw_io io;) {
    AW_BEGIN;
    for (self->i = 0; self->i < ROUNDS; self->i++) {
        self->byte = (char)self->i;
        AW_AWAIT(self->io, aw_write(self->conn, &self->byte, 1));
        CHECK_EQ(self->io.out, 1);
        AW_AWAIT(self->io, aw_read(self->conn, &self->byte, 1));
        CHECK_EQ(self->io.out, 1);
        CHECK_EQ(self->byte, (char)(self->i + 1));
    }
    AW_RETURN(0);
    AW_END;
}

/* Until the peer is closed. */
AW_ASYNC(int, answer, aw_conn *conn; char byte; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, &self->byte, 1));
        if (self->io.out <= 0) break;
        self->byte++;
        AW_AWAIT(self->io, aw_write(self->conn, &self->byte, 1));
        CHECK_EQ(self->io.out, 1);
    }
    AW_RETURN(self->io.out);
    AW_END;
}

ON_DRIVERS(two_tasks_exchange_bytes) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    struct answer *b = aw_spawn_on(rt, AW_CALL(answer, .conn = ends[1]));
    struct ask *a = aw_spawn_on(rt, AW_CALL(ask, .conn = ends[0]));
    CHECK_EQ(join_status(rt, &a->future), 0);
    aw_close(ends[0]);
    CHECK_EQ(join_status(rt, &b->future), 0);
    CHECK_EQ(b->out, 0);
    aw_task_drop(a);
    aw_task_drop(b);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Many waiters ------------------------------------------------------------------------------ */

enum { MANY = 100 };

static uint32_t reads_pending(aw_conn *c) {
    aw__fd *f = (aw__fd *)c;
    uint32_t n = 0;
    aw__lock(&f->lock);
    for (const aw__waiter *w = f->waiters; w; w = w->next)
        n++;
    aw__unlock(&f->lock);
    return n;
}

/* On workers the tasks run by themselves; otherwise only while a thread is in block_on. */
AW_ASYNC(int, until_they_wait, aw_conn *conn; uint32_t count; aw_yield pause;) {
    AW_BEGIN;
    while (reads_pending(self->conn) < self->count)
        AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

static void wait_until_they_wait(aw_runtime *rt, aw_conn *c, uint32_t count) {
    CHECK_EQ(aw_block_on(rt, AW_CALL(until_they_wait, .conn = c, .count = count)), 0);
}

ON_DRIVERS(all_waiters_of_one_descriptor_are_woken) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    struct read_one *tasks[MANY];
    char to[MANY] = {0}, from[MANY];
    memset(from, 'x', sizeof from);
    io_pair(ends);
    for (int i = 0; i < MANY; i++)
        tasks[i] = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to[i]));
    wait_until_they_wait(rt, ends[1], MANY);
    CHECK_EQ(write(aw_conn_fd(ends[0]), from, MANY), MANY);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
        CHECK_EQ(aw_task_take(tasks[i]), 1);
    }
    CHECK_EQ(memcmp(to, from, MANY), 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

ON_DRIVERS(a_close_ends_all_waits) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    struct read_one *tasks[MANY];
    char to;
    io_pair(ends);
    for (int i = 0; i < MANY; i++)
        tasks[i] = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to));
    wait_until_they_wait(rt, ends[1], MANY);
    aw_conn_keep(ends[1]);
    aw_close(ends[1]);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
        CHECK_EQ(aw_task_take(tasks[i]), -EBADF);
    }
    /* Through a reference that was kept. */
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], &to, 1)), -EBADF);
    aw_conn_drop(ends[1]);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[0], &to, 1)), 0); /* now the descriptor is closed */
    aw_close(ends[0]);
    workers_end(rt, &m);
}

ON_DRIVERS(a_cancelled_read_has_read_nothing) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to = 0, other = 0;
    io_pair(ends);
    struct read_one *t = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to));
    wait_until_they_wait(rt, ends[1], 1);
    aw_task_abort(t);
    CHECK_EQ(join_status(rt, &t->future), -ECANCELED);
    aw_task_drop(t);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], &other, 1)), 1);
    CHECK_EQ(other, 'x');
    CHECK_EQ(to, 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Ends -------------------------------------------------------------------------------------- */

ON_DRIVERS(a_connection_may_outlive_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to;
    io_pair(ends);
    struct read_one *t = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to));
    wait_until_they_wait(rt, ends[1], 1);
    aw_runtime_free(rt);
    CHECK_EQ(aw_task_is_finished(t), true);
    aw_task_drop(t);
    CHECK_EQ(aw_wait(aw_read(ends[1], &to, 1)), -ENXIO);
    CHECK_EQ(memory_in_use(&m), 0);
    rt = io_runtime(how, &m, NULL); /* it works with another runtime */
    t = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to));
    wait_until_they_wait(rt, ends[1], 1);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

struct closing {
    aw_conn *conns[8];
    uint32_t go;
};

static void *close_all(void *arg) {
    struct closing *c = arg;
    while (!LOAD(c->go))
        sched_yield();
    for (int i = 0; i < 8; i++)
        aw_close(c->conns[i]);
    return NULL;
}

/* A close requests cancels from the driver while the driver is closed. */
ON_DRIVERS(connections_may_be_closed_while_the_runtime_ends) {
    for (int round = 0; round < test_scale(40); round++) {
        memory m;
        aw_runtime *rt = io_runtime(how, &m, NULL);
        struct closing c = {.go = 0};
        struct read_one *tasks[8];
        aw_conn *others[8];
        char to[8];
        pthread_t thread;
        for (int i = 0; i < 8; i++) {
            aw_conn *ends[2];
            io_pair(ends);
            others[i] = ends[0];
            c.conns[i] = ends[1];
            aw_conn_keep(ends[1]);
            tasks[i] = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to[i]));
            wait_until_they_wait(rt, ends[1], 1);
        }
        CHECK_EQ(pthread_create(&thread, NULL, close_all, &c), 0);
        STORE(c.go, 1);
        if (round % 2) sched_yield();
        aw_runtime_free(rt);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        for (int i = 0; i < 8; i++) {
            aw_task_drop(tasks[i]);
            aw_close(others[i]);
            aw_conn_drop(c.conns[i]);
        }
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* Polled outside of a task, by means of a runtime that has ended since. */
ON_DRIVERS(an_operation_may_outlive_the_runtime) {
    memory m;
    aw_conn *ends[2];
    char to;
    io_pair(ends);
    for (int i = 0; i < 2; i++) {
        aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
        aw_flag flag = {0};
        aw_io op = aw_read(ends[1], &to, 1);
        CHECK_EQ(POLL(&op, &flag), AW_PENDING);
        aw_leave(before);
        workers_end(rt, &m);
        CHECK(aw_flag_take(&flag));
        if (i)
            CHECK_EQ(POLL(&op, &flag), AW_READY);
        else
            CHECK_NE(CANCEL(&op, &flag), AW_PENDING);
        if (aw_future_finished(&op.future)) CHECK_LT(op.out, 0);
    }
    aw_close(ends[0]);
    aw_close(ends[1]);
}

AW_ASYNC(int, read_for, uint64_t time; aw_conn * conn; char *to; AW_TIMEOUT(aw_io) io;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->io, self->time, aw_read(self->conn, self->to, 1));
    AW_RETURN(self->io.out < 0 ? self->io.out : self->io.inner.out);
    AW_END;
}

/* The other runtime still exists, but no thread runs it. */
ON_DRIVERS(a_connection_goes_from_one_runtime_to_another) {
    memory m[2];
    aw_runtime *rts[2] = {io_runtime(how, &m[0], NULL), io_runtime(how, &m[1], NULL)};
    aw_conn *ends[2];
    char to;
    io_pair(ends);
    for (int i = 0; i < 6; i++) {
        aw_runtime *rt = rts[i % 2];
        CHECK_EQ(aw_block_on(rts[!(i % 2)],
                             AW_CALL(read_for, .time = AW_USEC(100), .conn = ends[1], .to = &to)),
                 -ETIMEDOUT);
        struct read_for *t = aw_spawn_on(
            rt, AW_CALL(read_for, .time = AW_SEC(5), .conn = ends[1], .to = &to));
        wait_until_they_wait(rt, ends[1], 1);
        CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
        CHECK_EQ(join_status(rt, &t->future), 0);
        CHECK_EQ(aw_task_take(t), 1);
    }
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rts[0], &m[0]);
    workers_end(rts[1], &m[1]);
}

/* Without a close, and while an event is pending. */
ON_DRIVERS(dropping_the_last_reference_closes_a_connection) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < 100; i++) {
        aw_conn *ends[2];
        char to;
        io_pair(ends);
        struct read_one *t = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to));
        wait_until_they_wait(rt, ends[1], 1);
        aw_task_abort(t);
        CHECK_EQ(join_status(rt, &t->future), -ECANCELED);
        aw_task_drop(t);
        CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
        aw_conn_drop(ends[1]);
        int n = aw_block_on(rt, aw_read(ends[0], &to, 1));
        CHECK(n == 0 || n == -ECONNRESET); /* the peer had an unread byte */
        aw_conn_drop(ends[0]);
    }
    workers_end(rt, &m);
}

ON_DRIVERS(a_write_without_a_reader_is_an_error_and_no_signal) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    int fds[2];
    io_pair(ends);
    aw_close(ends[0]);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[1], "x", 1)), -EPIPE);
    aw_close(ends[1]);
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(aw_conn_of_fd(&ends[1], fds[1]), 0);
    close(fds[0]);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[1], "x", 1)), -EPIPE);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

TEST(without_a_runtime_a_read_does_not_wait) {
    aw_conn *ends[2];
    char to;
    io_pair(ends);
    CHECK_EQ(aw_wait(aw_read(ends[0], &to, 1)), -ENXIO);
    CHECK_EQ(write(aw_conn_fd(ends[1]), "x", 1), 1);
    CHECK_EQ(aw_wait(aw_read(ends[0], &to, 1)), 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
}

/* ---- Many readers and writers ------------------------------------------------------------------- */

enum { BYTES = 200000, WRITERS = 4 };

AW_ASYNC(int, write_many, aw_conn *conn; int remaining; char bytes[1000]; aw_io io;) {
    AW_BEGIN;
    memset(self->bytes, 'y', sizeof self->bytes);
    while (self->remaining > 0) {
        AW_AWAIT(self->io, aw_write(self->conn, self->bytes,
                                    self->remaining < 1000 ? (size_t)self->remaining : 1000));
        CHECK_GT(self->io.out, 0);
        self->remaining -= self->io.out;
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, read_many, aw_conn *conn; int got; char bytes[700]; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, self->bytes, sizeof self->bytes));
        if (self->io.out <= 0) break;
        self->got += self->io.out;
    }
    CHECK_EQ(self->io.out, 0);
    AW_RETURN(self->got);
    AW_END;
}

ON_DRIVERS(no_byte_is_lost_between_many_readers_and_writers) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    struct write_many *writers[WRITERS];
    struct read_many *readers[WRITERS];
    int got = 0;
    io_pair(ends);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = aw_spawn_on(rt, AW_CALL(write_many, .conn = ends[0], .remaining = BYTES));
        readers[i] = aw_spawn_on(rt, AW_CALL(read_many, .conn = ends[1]));
    }
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQ(join_status(rt, &writers[i]->future), 0);
    for (int i = 0; i < WRITERS; i++)
        aw_task_drop(writers[i]);
    aw_close(ends[0]);
    for (int i = 0; i < WRITERS; i++) {
        CHECK_EQ(join_status(rt, &readers[i]->future), 0);
        got += aw_task_take(readers[i]);
    }
    CHECK_EQ(got, WRITERS * BYTES);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Cancelling --------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_io */
ON_EACH_READINESS_DRIVER(a_read_may_be_cancelled_at_any_point) {
    how.workers = 1;
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_runtime *before = aw_enter(rt);
    static aw_flag flag, other; /* static: a worker may set them a moment later */
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    aw_io unstarted = aw_read(ends[1], &to, 1), waits = unstarted, woken = unstarted, again;
    CHECK_EQ(CANCEL(&unstarted, &flag), AW_CANCELLED);
    CHECK_EQ(POLL(&waits, &flag), AW_PENDING);
    CHECK_EQ(POLL(&woken, &flag), AW_PENDING);
    CHECK_EQ(POLL(&waits, &other), AW_PENDING); /* another waker */
    CHECK_EQ(CANCEL(&waits, &other), AW_CANCELLED);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    WAIT_UNTIL(aw_flag_take(&flag));
    CHECK(!aw_flag_take(&other));
    CHECK_EQ(CANCEL(&woken, &flag), AW_CANCELLED); /* woken, but it has read nothing */
    CHECK_EQ(to, 0);
    again = aw_read(ends[1], &to, 1);
    CHECK_EQ(POLL(&again, &flag), AW_READY);
    CHECK_EQ(to, 'x');
    aw_close(ends[0]);
    aw_close(ends[1]);
    aw_leave(before);
    workers_end(rt, NULL);
}

/* ---- Choosing ----------------------------------------------------------------------------------- */

TEST(a_driver_that_does_not_exist_is_refused) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.driver = "kqueue";
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
}

TEST(the_environment_chooses_unless_the_program_does) {
    kept_log log = KEPT_LOG;
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.log = keep_log;
    o.log_data = &log;
    setenv("AWAKE_DRIVER", "poll", 1);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK(rt->base.driver_type == &aw__poll_driver);
    aw_runtime_free(rt);
    o.driver = "epoll";
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK(rt->base.driver_type == &aw__epoll_driver);
    aw_runtime_free(rt);
    o.driver = NULL;
    setenv("AWAKE_DRIVER", "nonsense", 1);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK(rt->base.driver_type == &aw__uring_driver);
    CHECK_EQ(log_count(&log, "AWAKE_DRIVER is 'nonsense'"), 1);
    aw_runtime_free(rt);
}

ON_DRIVERS(operations_are_submitted_to_the_kernel_where_the_driver_can) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    aw_io_counters before, after;
    io_pair(ends);
    aw_runtime_io(rt, &before);
    struct answer *b = aw_spawn_on(rt, AW_CALL(answer, .conn = ends[1]));
    struct ask *a = aw_spawn_on(rt, AW_CALL(ask, .conn = ends[0]));
    CHECK_EQ(join_status(rt, &a->future), 0);
    aw_runtime_io(rt, &after);
    CHECK_STR(after.driver, how.driver);
    CHECK_EQ(after.fallback, how.driver == io_fallback ? -EPERM : 0);
    if (strcmp(how.driver, "uring") == 0) {
        CHECK_GE(after.operations - before.operations, 4u * ROUNDS); /* each read and each write */
        CHECK_EQ(after.waits, 0u);                                   /* and never for readiness */
    } else {
        CHECK_EQ(after.operations, 0u);
    }
    CHECK_GT(after.events, 0u);
    CHECK_GT(after.calls, 0u);
    aw_task_drop(a);
    aw_close(ends[0]);
    CHECK_EQ(join_status(rt, &b->future), 0);
    aw_task_drop(b);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

ON_DRIVERS(what_other_threads_wait_for_is_counted) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    aw_io_counters counters;
    char to;
    io_pair(ends);
    aw_runtime *before = aw_enter(rt);
    CHECK_EQ(aw_wait_for(1, aw_read(ends[1], &to, 1)), -ETIMEDOUT);
    aw_leave(before);
    aw_runtime_io(rt, &counters);
    bool submits = strcmp(how.driver, "uring") == 0;
    CHECK_EQ(counters.operations, submits ? 1u : 0u);
    if (submits) CHECK_EQ(counters.events, 1u);
    if (submits) CHECK_GT(counters.calls, 0u);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

/* ---- The child of a fork ------------------------------------------------------------------------ */

ON_DRIVERS(a_child_that_closes_takes_nothing_from_its_parent) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    struct read_one *t = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to));
    wait_until_they_wait(rt, ends[1], 1);
    if (how.workers) WAIT_UNTIL(workers_sleep(rt->pool));
    pid_t child = fork();
    if (child == 0) {
        aw_close(ends[1]);
        aw_close(ends[0]);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

ON_DRIVERS(a_child_that_ends_a_runtime_takes_nothing_from_a_thread_of_its_parent) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    struct io_reader r;
    io_reader_start(&r, rt, ends[1], false);
    pid_t child = fork();
    if (child == 0) {
        aw_runtime_free(rt);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    while (!LOAD(r.done))
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
    CHECK_EQ(io_reader_end(&r), 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

/* ---- Shutting down ------------------------------------------------------------------------------ */

ON_DRIVERS(after_a_shutdown_the_other_end_reads_to_its_end_and_still_answers) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char byte = 0;
    io_pair(ends);
    CHECK_EQ(aw_block_on(rt, aw_shutdown(ends[0])), 0);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], &byte, 1)), 0);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "x", 1)), -EPIPE);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[1], "y", 1)), 1);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[0], &byte, 1)), 1);
    CHECK_EQ(byte, 'y');
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Tasks that always yield -------------------------------------------------------------------- */

AW_ASYNC(int, yield_until_done, struct read_one *task; aw_yield pause;) {
    AW_BEGIN;
    while (!aw_task_is_finished(self->task))
        AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

ON_DRIVERS(a_task_that_only_yields_lets_input_through) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    struct read_one *t = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to));
    wait_until_they_wait(rt, ends[1], 1);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    struct yield_until_done *y = aw_spawn_on(rt, AW_CALL(yield_until_done, .task = t));
    CHECK_EQ(join_status(rt, &y->future), 0);
    aw_task_drop(y);
    CHECK_EQ(aw_task_take(t), 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Descriptions ------------------------------------------------------------------------------- */

ON_DRIVERS(a_task_that_reads_says_which_call_and_descriptor_it_waits_for) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to, text[1000], expected[40];
    io_pair(ends);
    struct read_one *t = aw_spawn_on(rt, AW_CALL(read_one, .conn = ends[1], .to = &to));
    wait_until_they_wait(rt, ends[1], 1);
    if (how.workers) WAIT_UNTIL(workers_sleep(rt->pool));
    aw_future_describe(&t->future, text, sizeof text);
    snprintf(expected, sizeof expected, "read of descriptor %d", aw_conn_fd(ends[1]));
    CHECK_CONTAINS(text, expected);
    aw_task_abort(t);
    CHECK_EQ(join_status(rt, &t->future), -ECANCELED);
    aw_task_drop(t);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- What is refused ---------------------------------------------------------------------------- */

ON_EACH_DRIVER(a_descriptor_that_is_not_taken_over_stays_as_it_was) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before;
    int fds[2];
    aw_conn *c;
    CHECK_EQ(pipe(fds), 0);
    before = aw_enter(rt);
    STORE(m.refuse, 1);
    CHECK_EQ(aw_conn_of_fd(&c, fds[0]), -ENOMEM);
    STORE(m.refuse, 0);
    CHECK_EQ(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(fcntl(fds[0], F_GETFD) & FD_CLOEXEC, 0);
    CHECK_EQ(aw_conn_of_fd(&c, fds[0]), 0);
    CHECK_EQ(fcntl(fds[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK_EQ(fcntl(fds[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    aw_close(c);
    close(fds[1]);
    aw_leave(before);
    workers_end(rt, &m);
}
