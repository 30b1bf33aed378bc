/* SPDX-License-Identifier: MIT
 *
 * A task that never has to wait does not monopolize its thread: after 128 operations other tasks
 * run. */
#include "support/poll_counter.h"
#include "support/io_ends.h"

enum { OPERATIONS = 1000 };

/* Wakes itself at each poll until `done` is set; counts its polls. */
struct spin {
    aw_future future;
    int out;
    const uint32_t *done;
    uint32_t *runs;
};

static aw_poll spin_poll(aw_future *self, aw_cx *cx) {
    struct spin *t = (struct spin *)self;
    if (LOAD(*t->done)) return AW_READY;
    ADD(*t->runs, 1);
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

static const aw_future_type spin_type = {
    AW_TYPE_OF(struct spin, "spin"),
    .poll = spin_poll,
};

static struct spin spin(const uint32_t *done, uint32_t *runs) {
    return (struct spin){AW_FUTURE_INIT(&spin_type), 0, done, runs};
}

/* The number of polls that a future needs as a task. */
static int polls_of(aw_runtime *rt, aw_future *f) {
    int polls = 0;
    CHECK_EQ(RUN(rt, ((struct counter){AW_FUTURE_INIT(&counter_type), 0, f, &polls})), 0);
    return polls;
}

/* ---- One after the other ------------------------------------------------------------------------ */

AW_ASYNC(int, do_in_a_loop, aw_conn *conn; uint32_t what; const uint32_t *runs; uint32_t had; int i;
         char byte; aw_io io;) {
    AW_BEGIN;
    self->had = LOAD(*self->runs);
    for (; self->i < OPERATIONS; self->i++) {
        AW_AWAIT(self->io, aw__io(self->conn, self->what, &self->byte, 1));
        CHECK_GE(self->io.out, 0);
    }
    self->had = LOAD(*self->runs) - self->had;
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, until_run, const uint32_t *runs; aw_yield pause;) {
    AW_BEGIN;
    while (!LOAD(*self->runs))
        AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

/* On one thread in each flavour. No operation has to wait for the peer. */
static void loop_with_another_task(struct io_setup how, aw_conn *ends[2], uint32_t what,
                                   bool submitted) {
    memory m;
    how.workers = how.workers != 0;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    uint32_t done = 0, runs = 0;
    struct spin *other = aw_spawn_on(rt, spin(&done, &runs));
    CHECK_EQ(aw_block_on(rt, AW_CALL(until_run, .runs = &runs)), 0);
    struct do_in_a_loop f = AW_CALL(do_in_a_loop, .conn = ends[0], .what = what, .runs = &runs);
    int polls = polls_of(rt, &f.future);
    /* The task waits for each operation that is submitted to the kernel. */
    if (submitted && strcmp(how.driver, "uring") == 0)
        CHECK_GT(polls, OPERATIONS);
    else
        CHECK_EQ(polls, expected_polls(OPERATIONS, 128));
    /* The other task ran in between. Not on workers: it may be in a queue that a worker checks
     * less often. */
    if (!how.workers) CHECK_GE(f.had, (uint32_t)expected_polls(OPERATIONS, 128) - 1);
    STORE(done, 1);
    CHECK_EQ(join_status(rt, &other->future), 0);
    aw_task_drop(other);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

static void tcp_pair_with_bytes(aw_conn *ends[2]) {
    static const char zeros[OPERATIONS];
    tcp_pair(ends);
    CHECK_EQ(write(aw_conn_fd(ends[1]), zeros, sizeof zeros), sizeof zeros);
}

ON_DRIVERS(a_task_that_reads_what_is_there_lets_others_run) {
    aw_conn *ends[2];
    tcp_pair_with_bytes(ends);
    loop_with_another_task(how, ends, AW_IO_READ, true);
}
ON_DRIVERS(a_task_that_writes_where_there_is_space_lets_others_run) {
    aw_conn *ends[2];
    tcp_pair(ends);
    loop_with_another_task(how, ends, AW_IO_WRITE, true);
}
/* No driver submits operations on pipes. */
ON_DRIVERS(a_task_that_writes_to_a_pipe_lets_others_run) {
    aw_conn *ends[2];
    pipe_pair(ends);
    loop_with_another_task(how, ends, AW_IO_WRITE, false);
}
ON_DRIVERS(a_task_that_awaits_readable_again_and_again_lets_others_run) {
    aw_conn *ends[2];
    tcp_pair_with_bytes(ends);
    loop_with_another_task(how, ends, AW_IO_READABLE, true);
}

/* ---- Inside select and join --------------------------------------------------------------------- */

typedef AW_SELECT(aw_io, aw_never) written_or_never;
typedef AW_JOIN(aw_io, aw_io) written_twice;

AW_ASYNC(int, select_in_a_loop, aw_conn *conn; int i; written_or_never s;) {
    AW_BEGIN;
    for (; self->i < OPERATIONS; self->i++) {
        AW_AWAIT_SELECT(self->s, aw_write(self->conn, "x", 1), aw_never_ready());
        CHECK_EQ(aw_select_winner(&self->s), 0);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, join_in_a_loop, aw_conn *conn; int i; written_twice j;) {
    AW_BEGIN;
    for (; self->i < OPERATIONS; self->i += 2)
        AW_AWAIT_JOIN(self->j, aw_write(self->conn, "x", 1), aw_write(self->conn, "y", 1));
    AW_RETURN(0);
    AW_END;
}

/* To a pipe, so that the task never waits, whatever the driver. */
ON_DRIVERS(a_task_that_writes_inside_a_select_or_a_join_lets_others_run) {
    memory m;
    how.workers = how.workers != 0;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    pipe_pair(ends);
    struct select_in_a_loop s = AW_CALL(select_in_a_loop, .conn = ends[0]);
    struct join_in_a_loop j = AW_CALL(join_in_a_loop, .conn = ends[0]);
    CHECK_EQ(polls_of(rt, &s.future), expected_polls(OPERATIONS, 128));
    CHECK_EQ(polls_of(rt, &j.future), expected_polls(OPERATIONS, 128));
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
