/* SPDX-License-Identifier: MIT
 *
 * Several threads at one runtime: some that run it, some beside it, some that leave or give it up while the system has
 * their operations. */
#include "support/io_ends.h"

/* ---- Side by side -------------------------------------------------------------------------------- */

struct beside {
    aw_runtime *rt;
    aw_conn *conn;
    int out;
    char to;
};

static void *block_on_read(void *arg) {
    struct beside *b = arg;
    b->out = aw_block_on(b->rt, aw_read(b->conn, &b->to, 1));
    return NULL;
}

/* The first one runs it, unless there are workers; who is left takes over, with what it has begun. */
static void read_beside(struct io_setup how, int first) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2][2];
    struct beside b[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        io_pair(ends[i]);
        b[i] = (struct beside){.rt = rt, .conn = ends[i][1]};
        threads[i] = thread_start(block_on_read, &b[i]);
        WAIT_UNTIL(io_waiting(ends[i][1], 0) == 1);
    }
    for (int k = 0; k < 2; k++) {
        int i = k ? !first : first;
        CHECK_EQ(write(aw_conn_fd(ends[i][0]), i ? "b" : "a", 1), 1);
        thread_end(threads[i]);
        CHECK_EQ(b[i].out, 1);
        CHECK_EQ(b[i].to, i ? 'b' : 'a');
    }
    for (int i = 0; i < 2; i++) {
        aw_close(ends[i][0]);
        aw_close(ends[i][1]);
    }
    workers_end(rt, &m);
}

ON_DRIVERS(who_is_beside_is_told_by_who_runs) {
    for (int i = 0; i < 5; i++)
        read_beside(how, 1);
}
ON_DRIVERS(who_was_beside_goes_on_alone) {
    for (int i = 0; i < 5; i++)
        read_beside(how, 0);
}

/* A plain thread waits while tasks cancel and are told on the same driver: no wake is lost between them. */
struct plain {
    aw_runtime *rt;
    aw_conn *conn;
    uint32_t rounds, done;
};

static void *wait_in_rounds(void *arg) {
    struct plain *p = arg;
    aw_runtime *before = aw_enter(p->rt);
    for (uint32_t i = 0; i < p->rounds; i++) {
        char to;
        int n = aw_wait_for(i % 3 ? 1000 : 50000, aw_read(p->conn, &to, 1));
        CHECK_EQ(n, -ETIMEDOUT);
    }
    aw_leave(before);
    STORE(p->done, 1);
    return NULL;
}

AW_ASYNC(int, bounce, aw_conn *conn; const uint32_t *done; bool begins; char byte; uint32_t n;
         aw_io io;) {
    AW_BEGIN;
    if (self->begins) {
        AW_AWAIT(self->io, aw_write(self->conn, "x", 1));
    }
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, &self->byte, 1));
        if (self->io.out <= 0) break;
        if (self->begins && LOAD(*self->done)) break;
        self->n++;
        AW_AWAIT(self->io, aw_write(self->conn, &self->byte, 1));
        if (self->io.out < 0) break;
    }
    aw_close(self->conn);
    AW_RETURN(0);
    AW_END;
}

ON_DRIVERS(nobody_oversleeps_beside_threads_that_cancel) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2], *quiet[2];
    io_pair(ends);
    io_pair(quiet);
    struct plain p = {.rt = rt, .conn = quiet[1], .rounds = (uint32_t)storm_rounds(300)};
    struct bounce *a = aw_spawn_on(
                      rt, AW_CALL(bounce, .conn = ends[0], .done = &p.done, .begins = true)),
                  *b = aw_spawn_on(rt, AW_CALL(bounce, .conn = ends[1], .done = &p.done));
    pthread_t thread = thread_start(wait_in_rounds, &p);
    CHECK_EQ(join_status(rt, &a->future), 0);
    CHECK_EQ(join_status(rt, &b->future), 0);
    thread_end(thread);
    aw_task_drop(a);
    aw_task_drop(b);
    aw_close(quiet[0]);
    aw_close(quiet[1]);
    workers_end(rt, &m);
}

/* One thread after the other runs it, while others come and cancel. */
static void *run_a_turn(void *arg) {
    struct plain *p = arg;
    CHECK_EQ(aw_block_on(p->rt, aw_sleep_for(200000)), 0);
    return NULL;
}

ON_DRIVERS(threads_may_take_turns_beside_threads_that_cancel) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2], *quiet[2];
    char to = 0;
    io_pair(ends);
    io_pair(quiet);
    struct plain p = {.rt = rt, .conn = quiet[1], .rounds = (uint32_t)storm_rounds(150)};
    struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
    pthread_t thread = thread_start(wait_in_rounds, &p);
    while (!LOAD(p.done))
        on_a_thread(run_a_turn, &p);
    thread_end(thread);
    CHECK_EQ(aw_task_is_finished(t), false);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(io_join(rt, t), 1);
    CHECK_EQ(to, 'x');
    for (int i = 0; i < 2; i++) {
        aw_close(ends[i]);
        aw_close(quiet[i]);
    }
    workers_end(rt, &m);
}

/* ---- Ends ---------------------------------------------------------------------------------------- */

enum { PENDING = 50 };

ON_DRIVERS(a_shutdown_takes_back_what_the_system_has) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct io_task *tasks[PENDING];
    aw_conn *ends[PENDING][2];
    static char to[PENDING];
    for (int i = 0; i < PENDING; i++) {
        io_pair(ends[i]);
        tasks[i] = io_spawn(rt, aw_read(ends[i][1], &to[i], 1));
        io_wait_for(rt, ends[i][1], 0, 1);
    }
    CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(10)), 0u);
    for (int i = 0; i < PENDING; i++) {
        CHECK_EQ(aw_task_is_finished(tasks[i]), true);
        aw_task_drop(tasks[i]);
        CHECK_EQ(write(aw_conn_fd(ends[i][0]), "x", 1), 1);
        CHECK_EQ(to[i], 0);
        aw_close(ends[i][0]);
        aw_close(ends[i][1]);
    }
    workers_end(rt, &m);
}

/* Nobody waits for it: it ends by itself, when all has come back. */
static void abandon(const char *driver) {
    static memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, 2, false}, &m, NULL);
    aw_conn *ends[PENDING][2];
    char *to = calloc(PENDING, 1);
    for (int i = 0; i < PENDING; i++) {
        io_pair(ends[i]);
        aw_task_drop(io_spawn(rt, aw_read(ends[i][1], &to[i], 1)));
        io_wait_for(rt, ends[i][1], 0, 1);
    }
    aw_runtime_abandon(rt);
    WAIT_UNTIL(memory_in_use(&m) == 0);
    for (int i = 0; i < PENDING; i++) {
        CHECK_EQ(write(aw_conn_fd(ends[i][0]), "x", 1), 1);
        CHECK_EQ(to[i], 0);
        aw_close(ends[i][0]);
        aw_close(ends[i][1]);
    }
    free(to);
}

TEST(a_runtime_that_is_abandoned_takes_back_what_the_system_has_by_uring) {
    abandon("uring");
}
TEST(a_runtime_that_is_abandoned_takes_back_what_the_system_has_by_epoll) {
    abandon("epoll");
}
TEST(a_runtime_that_is_abandoned_takes_back_what_the_system_has_by_poll) {
    abandon("poll");
}
