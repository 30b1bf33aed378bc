/* SPDX-License-Identifier: MIT
 *
 * Several threads use one runtime: some run it, some are followers, some are plain threads, and
 * some leave or abandon it while their operations are in flight. */
#include "support/io_ends.h"

/* ---- Followers ----------------------------------------------------------------------------------- */

/* Without workers the first thread runs the runtime, and the second is a follower. The one that
 * remains takes over, with the read that it has begun. */
static void read_with_follower(struct io_setup how, int first) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2][2];
    struct io_reader r[2];
    for (int i = 0; i < 2; i++) {
        io_pair(ends[i]);
        io_reader_start(&r[i], rt, ends[i][1], true);
    }
    for (int k = 0; k < 2; k++) {
        int i = k ? !first : first;
        CHECK_EQ(write(aw_conn_fd(ends[i][0]), i ? "b" : "a", 1), 1);
        CHECK_EQ(io_reader_end(&r[i]), 1);
        CHECK_EQ(r[i].to, i ? 'b' : 'a');
    }
    for (int i = 0; i < 2; i++) {
        aw_close(ends[i][0]);
        aw_close(ends[i][1]);
    }
    workers_end(rt, &m);
}

ON_DRIVERS(a_follower_is_woken_by_the_thread_that_runs_the_runtime) {
    for (int i = 0; i < 5; i++)
        read_with_follower(how, 1);
}
ON_DRIVERS(a_follower_takes_over_when_the_other_thread_leaves) {
    for (int i = 0; i < 5; i++)
        read_with_follower(how, 0);
}

/* A plain thread waits and times out while tasks are woken by the same driver: no wake is lost. */
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

ON_DRIVERS(no_wake_is_lost_while_another_thread_cancels) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2], *idle[2];
    io_pair(ends);
    io_pair(idle);
    struct plain p = {.rt = rt, .conn = idle[1], .rounds = (uint32_t)stress_rounds(300)};
    struct bounce *a = aw_spawn_on(
                      rt, AW_CALL(bounce, .conn = ends[0], .done = &p.done, .begins = true)),
                  *b = aw_spawn_on(rt, AW_CALL(bounce, .conn = ends[1], .done = &p.done));
    pthread_t thread = thread_start(wait_in_rounds, &p);
    CHECK_EQ(join_status(rt, &a->future), 0);
    CHECK_EQ(join_status(rt, &b->future), 0);
    thread_end(thread);
    aw_task_drop(a);
    aw_task_drop(b);
    aw_close(idle[0]);
    aw_close(idle[1]);
    workers_end(rt, &m);
}

/* One thread after the other runs the runtime, while a plain thread waits and times out. */
static void *run_for_a_moment(void *arg) {
    struct plain *p = arg;
    CHECK_EQ(aw_block_on(p->rt, aw_sleep_for(200000)), 0);
    return NULL;
}

ON_DRIVERS(threads_may_run_a_runtime_one_after_the_other_while_another_cancels) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2], *idle[2];
    char to = 0;
    io_pair(ends);
    io_pair(idle);
    struct plain p = {.rt = rt, .conn = idle[1], .rounds = (uint32_t)stress_rounds(150)};
    struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
    pthread_t thread = thread_start(wait_in_rounds, &p);
    while (!LOAD(p.done))
        on_a_thread(run_for_a_moment, &p);
    thread_end(thread);
    CHECK_EQ(aw_task_is_finished(t), false);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(io_join(rt, t), 1);
    CHECK_EQ(to, 'x');
    for (int i = 0; i < 2; i++) {
        aw_close(ends[i]);
        aw_close(idle[i]);
    }
    workers_end(rt, &m);
}

/* ---- Plain threads ------------------------------------------------------------------------------- */

/* Nothing arrives; and what arrives later does not go to the read that timed out. */
static void time_out(aw_runtime *rt) {
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    aw_runtime *before = aw_enter(rt);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(aw_wait_for(AW_MSEC(1), aw_read(ends[1], &to, 1)), -ETIMEDOUT);
    aw_leave(before);
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(to, 0);
    CHECK_EQ(read(aw_conn_fd(ends[1]), &to, 1), 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
}

ON_DRIVERS(a_plain_thread_times_out_though_no_thread_runs_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    time_out(rt);
    workers_end(rt, &m);
}

ON_DRIVERS(a_plain_thread_does_what_can_be_done_though_no_thread_runs_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    aw_runtime *before = aw_enter(rt);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(aw_wait(aw_write(ends[0], "x", 1)), 1);
        CHECK_EQ(aw_wait(aw_read(ends[1], &to, 1)), 1);
    }
    aw_leave(before);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

ON_DRIVERS(a_plain_thread_is_told_of_a_close_though_no_thread_runs_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < 20; i++) {
        aw_conn *ends[2];
        struct io_reader r;
        io_pair(ends);
        io_reader_start(&r, rt, ends[1], false);
        aw_close(ends[1]);
        CHECK_EQ(io_reader_end(&r), -EBADF);
        aw_close(ends[0]);
    }
    workers_end(rt, &m);
}

/* All threads that run the runtime are in a poll that does not return. */
struct stuck {
    aw_runtime *rt;
    uint32_t begun, stop;
    pthread_t thread;
};

AW_ASYNC(int, be_stuck, struct stuck *s;) {
    AW_BEGIN;
    ADD(self->s->begun, 1);
    while (!LOAD(self->s->stop))
        sched_yield();
    AW_RETURN(0);
    AW_END;
}

static void *run_stuck(void *arg) {
    struct stuck *s = arg;
    CHECK_EQ(aw_block_on(s->rt, AW_CALL(be_stuck, .s = s)), 0);
    return NULL;
}

static void stuck_begin(struct stuck *s, aw_runtime *rt) {
    uint32_t workers = aw_runtime_workers(rt);
    *s = (struct stuck){.rt = rt};
    for (uint32_t i = 0; i < workers; i++)
        aw_task_detach(aw_spawn_at(rt, i, AW_CALL(be_stuck, .s = s)));
    if (!workers) s->thread = thread_start(run_stuck, s);
    WAIT_UNTIL(LOAD(s->begun) == (workers ? workers : 1));
}

static void stuck_end(struct stuck *s) {
    STORE(s->stop, 1);
    if (!aw_runtime_workers(s->rt)) thread_end(s->thread);
}

ON_DRIVERS(a_plain_thread_times_out_though_the_thread_that_runs_the_runtime_is_stuck) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct stuck s;
    stuck_begin(&s, rt);
    time_out(rt);
    stuck_end(&s);
    workers_end(rt, &m);
}

/* The thread that runs the runtime is idle, and has no driver yet. */
struct sleeper_in {
    aw_runtime *rt;
    gate gate;
};

static void *sleep_in(void *arg) {
    struct sleeper_in *s = arg;
    struct through t = through(&s->gate);
    CHECK_EQ(aw_block_on_future(s->rt, &t.future), 0);
    return NULL;
}

ON_DRIVERS(a_plain_thread_is_woken_by_the_thread_that_sleeps_in_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct sleeper_in s = {.rt = rt, .gate = GATE};
    pthread_t owner = thread_start(sleep_in, &s);
    gate_wait(&s.gate, 1);
    for (int i = 0; i < 20; i++) {
        aw_conn *ends[2];
        io_pair(ends);
        struct io_reader r;
        io_reader_start(&r, rt, ends[1], false);
        CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
        CHECK_EQ(io_reader_end(&r), 1);
        CHECK_EQ(r.to, 'x');
        aw_close(ends[0]);
        aw_close(ends[1]);
    }
    gate_open(&s.gate);
    thread_end(owner);
    workers_end(rt, &m);
}

/* More than a driver collects in one call. */
enum { READS = 4 * AW__EVENTS };

struct many_reads {
    aw_runtime *rt;
    aw_conn *conn;
    aw_io io[READS];
    char to[READS];
};

static void *wait_for_many(void *arg) {
    struct many_reads *r = arg;
    aw_runtime *before = aw_enter(r->rt);
    for (int i = 0; i < READS; i++)
        r->io[i] = aw_read(r->conn, &r->to[i], 1);
    CHECK_EQ(aw_wait(aw_join_all(r->io, READS)), 0);
    aw_leave(before);
    return NULL;
}

ON_DRIVERS(a_plain_thread_is_told_of_all_that_comes_at_once) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct sleeper_in s = {.rt = rt, .gate = GATE};
    static struct many_reads r;
    static const char bytes[READS];
    aw_conn *ends[2];
    io_pair(ends);
    r.rt = rt;
    r.conn = ends[1];
    pthread_t owner = thread_start(sleep_in, &s), thread = thread_start(wait_for_many, &r);
    WAIT_UNTIL(io_waiting(ends[1], 0) == READS);
    CHECK_EQ(write(aw_conn_fd(ends[0]), bytes, READS), READS);
    thread_end(thread);
    gate_open(&s.gate);
    thread_end(owner);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* Each thread has a connection of its own, sends bytes to itself and reads them, or times out
 * before or after they have come. All threads use the same driver, and submit and reap
 * operations of each other. */
struct crowd {
    aw_runtime *rt;
    uint32_t remaining; /* threads; the last one releases the thread that runs the runtime */
    gate gate;
};

static void read_or_time_out(void *arg, int index, uint64_t *random) {
    struct crowd *c = arg;
    aw_conn *ends[2];
    uint64_t sent = 0, had = 0;
    io_pair(ends);
    aw_runtime *before = aw_enter(c->rt);
    for (int i = stress_rounds(150); i > 0 || had < sent; i--) {
        bool send = i > 0 && chance(random, 2);
        unsigned char byte = pattern_at((uint32_t)index, sent), to = 0;
        if (send) {
            CHECK_EQ(write(aw_conn_fd(ends[0]), &byte, 1), 1);
            sent++;
        }
        jitter(random);
        uint64_t limit = had < sent && chance(random, 2) ? AW_FOREVER
                                                         : test_random(random) % 100000;
        int n = aw_wait_for(limit, aw_read(ends[1], &to, 1));
        if (n == -ETIMEDOUT && limit != AW_FOREVER) continue;
        CHECK_EQ(n, 1);
        CHECK_LT(had, sent);
        pattern_check((uint32_t)index, had++, &to, 1);
    }
    aw_leave(before);
    aw_close(ends[0]);
    aw_close(ends[1]);
    if (ADD(c->remaining, -1u) == 1) gate_open(&c->gate);
}

ON_DRIVERS(threads_that_read_and_give_up_lose_nothing) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    enum { THREADS = 6 };
    uint64_t random = test_seed();
    struct crowd c = {.rt = rt, .remaining = THREADS, .gate = GATE};
    struct through t = through(&c.gate);
    thread_group s;
    thread_group_create(&s, THREADS, &random, read_or_time_out, &c);
    thread_group_go(&s);
    CHECK_EQ(aw_block_on_future(rt, &t.future), 0);
    thread_group_join(&s);
    workers_end(rt, &m);
}

/* One thread submits the operation that another one cancels. */
static void time_out_often(void *arg, int index, uint64_t *random) {
    aw_conn *ends[2];
    char to;
    (void)index;
    io_pair(ends);
    aw_runtime *before = aw_enter(arg);
    for (int i = stress_rounds(500); i > 0; i--)
        CHECK_EQ(aw_wait_for(test_random(random) % 20000, aw_read(ends[1], &to, 1)), -ETIMEDOUT);
    aw_leave(before);
    aw_close(ends[0]);
    aw_close(ends[1]);
}

ON_DRIVERS(many_threads_time_out_though_no_thread_runs_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    uint64_t random = test_seed();
    thread_group s;
    thread_group_create(&s, 6, &random, time_out_often, rt);
    thread_group_go(&s);
    thread_group_join(&s);
    workers_end(rt, &m);
}

/* A read that a thread has begun before it does something else. */
struct begun {
    aw_runtime *rt;
    aw_io io;
    aw_flag flag;
    event waits, over;
};

static void *begin_read(void *arg) {
    struct begun *b = arg;
    aw_runtime *before = aw_enter(b->rt);
    CHECK_EQ(POLL(&b->io, &b->flag), AW_PENDING);
    event_post(&b->waits);
    event_wait(&b->over);
    aw_leave(before);
    return NULL;
}

ON_DRIVERS(what_one_plain_thread_began_another_cancels_though_no_thread_runs_the_runtime) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    aw_conn *ends[2];
    char to;
    io_pair(ends);
    for (int i = 0; i < 20; i++) {
        struct begun b = {.rt = rt, .io = aw_read(ends[1], &to, 1)};
        event_init(&b.waits);
        event_init(&b.over);
        pthread_t thread = thread_start(begin_read, &b);
        event_wait(&b.waits);
        CHECK_EQ(aw_wait_future(&b.io.future, 1), -ETIMEDOUT);
        event_post(&b.over);
        thread_end(thread);
    }
    aw_leave(before);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Ends ---------------------------------------------------------------------------------------- */

ON_DRIVERS(the_end_of_a_runtime_ends_the_reads_of_plain_threads) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    enum { THREADS = 4 };
    aw_conn *ends[THREADS][2];
    struct io_reader r[THREADS];
    for (int i = 0; i < THREADS; i++) {
        io_pair(ends[i]);
        io_reader_start(&r[i], rt, ends[i][1], false);
    }
    aw_runtime_free(rt);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(io_reader_end(&r[i]), -ESHUTDOWN);
        aw_close(ends[i][0]);
        aw_close(ends[i][1]);
    }
    CHECK_EQ(memory_in_use(&m), 0);
}

enum { PENDING = 50 };

ON_DRIVERS(a_shutdown_cancels_the_operations_in_flight) {
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

/* No thread waits for its end: it ends by itself when all operations are complete. */
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

TEST(an_abandoned_runtime_cancels_the_operations_in_flight_by_uring) {
    abandon("uring");
}
TEST(an_abandoned_runtime_cancels_the_operations_in_flight_by_epoll) {
    abandon("epoll");
}
TEST(an_abandoned_runtime_cancels_the_operations_in_flight_by_poll) {
    abandon("poll");
}
