/* SPDX-License-Identifier: MIT
 *
 * A stuck worker: other threads soon complete the operations that it has begun, and those of
 * threads in block_on. */
#include "support/io_ends.h"

typedef AW_TIMEOUT(aw_io) io_timeout;

AW_ASYNC(int, spin, uint32_t *begun; const uint32_t *stop;) {
    AW_BEGIN;
    STORE(*self->begun, 1);
    while (!LOAD(*self->stop))
        aw__spin_hint();
    AW_RETURN(0);
    AW_END;
}

/* The worker with the driver that has registered the descriptor, or has the read in flight. */
static uint32_t worker_of(aw_runtime *rt, aw_conn *c) {
    aw__fd *f = (aw__fd *)c;
    aw__lock(&f->lock);
    aw__driver *d = f->driver ? f->driver : ((aw_io *)f->waiters)->driver;
    aw__unlock(&f->lock);
    for (uint32_t i = 0; i < rt->pool->count; i++)
        if (LOAD(rt->pool->workers[i].thread_io.driver) == d) return i;
    FAIL("no worker has it");
    return 0;
}

static void others_serve_what_a_stuck_worker_waits_for(const char *driver) {
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, 2, false}, &m, NULL);
    aw_conn *ends[2];
    uint32_t begun = 0, stop = 0;
    char to = 0;
    io_pair(ends);
    struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
    io_wait_for(rt, ends[1], 0, 1);
    uint32_t stuck = worker_of(rt, ends[1]);
    struct spin *s = aw_spawn_at(rt, stuck, AW_CALL(spin, .begun = &begun, .stop = &stop));
    WAIT_UNTIL(LOAD(begun));
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(io_join(rt, t), 1);
    STORE(stop, 1);
    CHECK_EQ(join_status(rt, &s->future), 0);
    aw_task_drop(s);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

TEST(others_serve_what_a_stuck_worker_waits_for_by_uring) {
    others_serve_what_a_stuck_worker_waits_for("uring");
}
TEST(others_serve_what_a_stuck_worker_waits_for_by_epoll) {
    others_serve_what_a_stuck_worker_waits_for("epoll");
}
TEST(others_serve_what_a_stuck_worker_waits_for_by_poll) {
    others_serve_what_a_stuck_worker_waits_for("poll");
}

enum { TRIES = 5, LIMIT_NS = 20000000 };

/* How long it takes to cancel a read that was begun by a worker which is now busy. The best of
 * several runs, because the machine may be busy too. */
static uint64_t cancel_time(const char *driver, bool by_close) {
    memory m;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        aw_runtime *rt = io_runtime((struct io_setup){driver, 2, false}, &m, NULL);
        aw_conn *ends[2];
        uint32_t begun = 0, stop = 0;
        char to;
        io_pair(ends);
        struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
        io_wait_for(rt, ends[1], 0, 1);
        WAIT_UNTIL(workers_sleep(rt->pool)); /* the read is submitted */
        struct spin *s = aw_spawn_at(rt, worker_of(rt, ends[1]),
                                     AW_CALL(spin, .begun = &begun, .stop = &stop));
        WAIT_UNTIL(LOAD(begun));
        uint64_t from = test_now_ns();
        if (by_close)
            aw_close(ends[1]);
        else
            aw_task_abort(t);
        int status = join_status(rt, &t->future);
        uint64_t took = test_now_ns() - from;
        CHECK_EQ(status, by_close ? 0 : -ECANCELED);
        if (took < best) best = took;
        STORE(stop, 1);
        CHECK_EQ(join_status(rt, &s->future), 0);
        aw_task_drop(s);
        aw_task_drop(t);
        aw_close(ends[0]);
        if (!by_close) aw_close(ends[1]);
        workers_end(rt, &m);
    }
    return best;
}

#define STUCK(driver)                                                                              \
    TEST(a_cancel_does_not_wait_for_a_stuck_worker_timing_by_##driver) {                           \
        CHECK_LT(cancel_time(#driver, false), LIMIT_NS);                                           \
    }                                                                                              \
    TEST(a_close_does_not_wait_for_a_stuck_worker_timing_by_##driver) {                            \
        CHECK_LT(cancel_time(#driver, true), LIMIT_NS);                                            \
    }
STUCK(uring)
STUCK(epoll)
STUCK(poll)

/* ---- Threads in block_on ----------------------------------------------------------------------------- */

#define WITH_STUCK_WORKERS(name)                                                                   \
    static void name(struct io_setup how);                                                         \
    WITH_STUCK_WORKERS_BY(name, uring)                                                             \
    WITH_STUCK_WORKERS_BY(name, epoll)                                                             \
    WITH_STUCK_WORKERS_BY(name, poll)                                                              \
    static void name(struct io_setup how)
#define WITH_STUCK_WORKERS_BY(name, driver)                                                        \
    TEST(name##_by_##driver) {                                                                     \
        name((struct io_setup){#driver, 2, false});                                                \
    }                                                                                              \
    TEST(name##_by_##driver##_with_a_thread_per_core) {                                            \
        name((struct io_setup){#driver, 2, true});                                                 \
    }

/* The first `count` workers spin. */
struct spinning {
    aw_runtime *rt;
    uint32_t count, stop, begun[2];
    struct spin *tasks[2];
};

static void spin_begin(struct spinning *s, aw_runtime *rt, uint32_t count) {
    *s = (struct spinning){.rt = rt, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        s->tasks[i] = aw_spawn_at(rt, i, AW_CALL(spin, .begun = &s->begun[i], .stop = &s->stop));
        WAIT_UNTIL(LOAD(s->begun[i]));
    }
}

static void spin_end(struct spinning *s) {
    STORE(s->stop, 1);
    for (uint32_t i = 0; i < s->count; i++) {
        CHECK_EQ(join_status(s->rt, &s->tasks[i]->future), 0);
        aw_task_drop(s->tasks[i]);
    }
}

static uint64_t timeout_time(struct io_setup how) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    struct spinning s;
    char to;
    io_pair(ends);
    spin_begin(&s, rt, how.workers);
    uint64_t from = test_now_ns();
    int n = aw_block_on(rt, AW_TIMEOUT_OF(io_timeout, AW_MSEC(1), aw_read(ends[1], &to, 1)));
    uint64_t took = test_now_ns() - from;
    CHECK_EQ(n, -ETIMEDOUT);
    spin_end(&s);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
    return took;
}

WITH_STUCK_WORKERS(a_timeout_in_block_on_is_kept_though_the_workers_are_stuck_timing) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t took = timeout_time(how);
        if (took < best) best = took;
    }
    CHECK_LT(best, LIMIT_NS);
}

WITH_STUCK_WORKERS(a_read_in_block_on_gets_its_bytes_though_a_worker_is_stuck) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    struct spinning s;
    io_pair(ends);
    struct io_reader r;
    spin_begin(&s, rt, 1);
    io_reader_start(&r, rt, ends[1], true);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(io_reader_end(&r), 1);
    CHECK_EQ(r.to, 'x');
    spin_end(&s);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Queued operations ------------------------------------------------------------------------------ */

/* A task begins a read and then blocks its worker: the queued read must be submitted all the
 * same. */
AW_ASYNC(int, begin_and_spin, aw_conn *conn; uint32_t * begun; const uint32_t *stop; char to;
         aw_io io;) {
    AW_BEGIN;
    self->io = aw_read(self->conn, &self->to, 1);
    CHECK_EQ(aw_future_poll(&self->io.future, cx), AW_PENDING);
    STORE(*self->begun, 1);
    while (!LOAD(*self->stop))
        aw__spin_hint();
    AW_AWAIT_FUTURE(self->io);
    AW_RETURN(self->io.out);
    AW_END;
}

/* The read completes although the worker does not poll its driver. */
static void begin_and_be_stuck(const char *driver) {
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, 2, false}, &m, NULL);
    aw_conn *ends[2];
    uint32_t begun = 0, stop = 0;
    io_pair(ends);
    struct begin_and_spin *t = aw_spawn_on(
        rt, AW_CALL(begin_and_spin, .conn = ends[1], .begun = &begun, .stop = &stop));
    WAIT_UNTIL(LOAD(begun));
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    WAIT_UNTIL(io_waiting(ends[1], 0) == 0); /* completed */
    STORE(stop, 1);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

TEST(what_a_stuck_worker_has_queued_is_submitted_by_uring) {
    begin_and_be_stuck("uring");
}
TEST(what_a_stuck_worker_has_queued_is_submitted_by_epoll) {
    begin_and_be_stuck("epoll");
}
TEST(what_a_stuck_worker_has_queued_is_submitted_by_poll) {
    begin_and_be_stuck("poll");
}
