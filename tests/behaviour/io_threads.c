/* SPDX-License-Identifier: MIT
 *
 * I/O of a runtime that is run by one thread after the other, or used by a thread that does not
 * run it. */
#include <pthread.h>
#include <sys/resource.h>

#include "io/fd.h"
#include "support/io.h"

ALL_ON_THIS_THREAD("workers are always the same threads");

AW_ASYNC(int, read_bytes, aw_conn *conn; int count; char byte; int got; aw_io io;) {
    AW_BEGIN;
    for (self->got = 0; self->got < self->count; self->got++) {
        AW_AWAIT(self->io, aw_read(self->conn, &self->byte, 1));
        if (self->io.out <= 0) break;
        CHECK_EQ(self->byte, (char)('a' + self->got % 26));
    }
    AW_RETURN(self->got);
    AW_END;
}

AW_ASYNC(int, nap, aw_sleep sleep;) {
    AW_BEGIN;
    AW_AWAIT(self->sleep, aw_sleep_for(AW_MSEC(1)));
    AW_RETURN(0);
    AW_END;
}

static void *run_for_a_moment(void *rt) {
    CHECK_EQ(aw_block_on((aw_runtime *)rt, AW_CALL(nap)), 0);
    return NULL;
}

static void in_another_thread(void *(*fn)(void *), void *arg) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void send_byte(aw_conn *c, int i) {
    char byte = (char)('a' + i % 26);
    CHECK_EQ(write(aw_conn_fd(c), &byte, 1), 1);
}

ON_EACH_DRIVER(a_read_goes_on_whichever_thread_runs_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    enum { ROUNDS = 8 };
    struct read_bytes *t = aw_spawn_on(rt, AW_CALL(read_bytes, .conn = ends[1], .count = ROUNDS));
    run_for_a_moment(rt);
    for (int i = 0; i < ROUNDS; i++) {
        send_byte(ends[0], i);
        if (i % 3 == 0)
            run_for_a_moment(rt);
        else
            in_another_thread(run_for_a_moment, rt);
        if (i + 1 < ROUNDS) CHECK_EQ(t->got, i + 1);
    }
    CHECK(aw_task_is_finished(t));
    CHECK_EQ(aw_task_take(t), ROUNDS);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

static void *free_runtime(void *rt) {
    aw_runtime_free(rt);
    return NULL;
}

ON_EACH_DRIVER(another_thread_may_free_a_runtime_with_reads) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    struct read_bytes *t = aw_spawn_on(rt, AW_CALL(read_bytes, .conn = ends[1], .count = 1));
    run_for_a_moment(rt);
    in_another_thread(free_runtime, rt);
    CHECK(aw_task_is_finished(t));
    aw_task_drop(t);
    aw_close(ends[0]);
    aw_close(ends[1]);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- Followers --------------------------------------------------------------------------------- */

struct follower {
    aw_runtime *rt;
    aw_conn *conn;
    uint32_t begun;
    int result;
};

static void *follower_read(void *arg) {
    struct follower *b = arg;
    char byte;
    ADD(b->begun, 1);
    b->result = aw_block_on(b->rt, aw_read(b->conn, &byte, 1));
    return NULL;
}

static uint32_t waiting_for(aw_conn *c) {
    aw__fd *f = (aw__fd *)c;
    aw__lock(&f->lock);
    uint32_t n = f->waiters != NULL;
    aw__unlock(&f->lock);
    return n;
}

AW_ASYNC(int, until_follower_waits, struct follower *b; aw_yield pause;) {
    AW_BEGIN;
    while (!waiting_for(self->b->conn))
        AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, until_it_is_read, struct follower *b; pthread_t thread; aw_yield pause;
         aw_sleep sleep;) {
    AW_BEGIN;
    while (waiting_for(self->b->conn))
        AW_AWAIT(self->sleep, aw_sleep_for(AW_MSEC(1)));
    AW_RETURN(0);
    AW_END;
}

ON_EACH_DRIVER(a_follower_reads_while_another_thread_runs_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < 20; i++) {
        aw_conn *ends[2];
        pthread_t thread;
        io_pair(ends);
        struct follower b = {rt, ends[1], 0, 0};
        aw_runtime *before = aw_enter(rt);
        CHECK_EQ(pthread_create(&thread, NULL, follower_read, &b), 0);
        CHECK_EQ(aw_block_on(rt, AW_CALL(until_follower_waits, .b = &b)), 0);
        bool closes = i % 2;
        if (closes)
            aw_close(ends[1]); /* whichever thread runs it now, if any */
        else
            send_byte(ends[0], 0);
        if (i % 4 < 2) run_for_a_moment(rt);
        pthread_join(thread, NULL);
        CHECK_EQ(b.result, closes ? -EBADF : 1);
        aw_leave(before);
        aw_close(ends[0]);
        if (!closes) aw_close(ends[1]);
    }
    workers_end(rt, &m);
}

enum { MANY = 400 }; /* more than a ring holds */

static void *follower_read_many(void *arg) {
    struct follower *b = arg;
    static aw_io reads[MANY];
    static char to[MANY];
    WAIT_UNTIL(LOAD(b->begun));
    for (int i = 0; i < MANY; i++)
        reads[i] = aw_read(b->conn, &to[i], 1);
    int n = aw_block_on(b->rt, aw_join_all(reads, MANY));
    for (int i = 0; i < MANY && n >= 0; i++)
        b->result += reads[i].out;
    return NULL;
}

/* Does not poll its driver meanwhile, and then leaves. */
AW_ASYNC(int, be_busy_until_follower_waits, struct follower *b;) {
    AW_BEGIN;
    STORE(self->b->begun, 1);
    while (!waiting_for(self->b->conn))
        sched_yield();
    AW_RETURN(0);
    AW_END;
}

ON_EACH_DRIVER(a_follower_reads_more_than_a_ring_holds_until_it_runs_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    pthread_t thread;
    char bytes[MANY] = {0};
    io_pair(ends);
    struct follower b = {rt, ends[1], 0, 0};
    CHECK_EQ(pthread_create(&thread, NULL, follower_read_many, &b), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(be_busy_until_follower_waits, .b = &b)), 0);
    CHECK_EQ(write(aw_conn_fd(ends[0]), bytes, sizeof bytes), MANY);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(b.result, MANY);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- No descriptors left ----------------------------------------------------------------------- */

/* A ring belongs to one thread: another thread needs its own, and cannot open it. */
TEST(without_descriptors_another_thread_waits_until_there_are_some_by_uring) {
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 0, false}, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    struct read_bytes *t = aw_spawn_on(rt, AW_CALL(read_bytes, .conn = ends[1], .count = 2));
    run_for_a_moment(rt);
    send_byte(ends[0], 0);
    struct rlimit limit, none;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    in_another_thread(run_for_a_moment, rt); /* the timer works all the same */
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    in_another_thread(run_for_a_moment, rt);
    CHECK_EQ(t->got, 1);
    send_byte(ends[0], 1);
    in_another_thread(run_for_a_moment, rt);
    CHECK_EQ(aw_task_take(t), 2);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
