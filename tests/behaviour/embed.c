/* SPDX-License-Identifier: MIT
 *
 * A runtime embedded in another event loop: one descriptor reports input, timers and wakes, and
 * running the runtime does not block the loop. */
#include <awake/embed.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include "support/io_ends.h"
#include "support/atomics.h"

ALL_ON_THIS_THREAD("workers run by themselves");

#define ON_LOOPS(name)                                                                             \
    static void name##_body(const char *driver);                                                   \
    TEST(name##_by_uring) {                                                                        \
        name##_body("uring");                                                                      \
    }                                                                                              \
    TEST(name##_by_epoll) {                                                                        \
        name##_body("epoll");                                                                      \
    }                                                                                              \
    static void name##_body(const char *driver)

static aw_runtime *embedded(const char *driver, memory *m) {
    aw_runtime *rt = io_runtime((struct io_setup){driver, 0, false}, m, NULL);
    CHECK_GE(aw_runtime_fd(rt), 0);
    CHECK_EQ(aw_runtime_fd(rt), aw_runtime_fd(rt));
    return rt;
}

static bool readable(aw_runtime *rt, int ms) {
    struct pollfd p = {aw_runtime_fd(rt), POLLIN, 0};
    int n;
    while ((n = poll(&p, 1, ms)) < 0 && errno == EINTR)
        ;
    return n == 1;
}

/* What the host loop does. */
#define LOOP_UNTIL(rt, what)                                                                       \
    do {                                                                                           \
        CHECK(readable((rt), 5000));                                                               \
        CHECK_EQ(aw_runtime_run_once(rt), 0);                                                      \
    } while (!(what))

/* Runs the runtime until its descriptor is no longer readable. */
static void settle(aw_runtime *rt) {
    for (int i = 0; readable(rt, 0); i++) {
        CHECK_LT(i, 100);
        CHECK_EQ(aw_runtime_run_once(rt), 0);
    }
}

AW_ASYNC(int, nap, uint32_t *done; uint64_t time; aw_sleep sleep;) {
    AW_BEGIN;
    AW_AWAIT(self->sleep, aw_sleep_for(self->time));
    ADD(*self->done, 1);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, echo, aw_conn *conn; uint32_t * done; char byte; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, &self->byte, 1));
        if (self->io.out <= 0) break;
        AW_AWAIT(self->io, aw_write(self->conn, &self->byte, 1));
    }
    ADD(*self->done, 1);
    AW_RETURN(self->io.out);
    AW_END;
}

AW_ASYNC(int, wait_for, aw_notify *notify; uint32_t * done; aw_notified wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, aw_notify_wait(self->notify));
    ADD(*self->done, 1);
    AW_RETURN(0);
    AW_END;
}

ON_LOOPS(it_is_not_readable_when_there_is_nothing_to_do) {
    memory m;
    aw_runtime *rt = embedded(driver, &m);
    settle(rt);
    CHECK(!readable(rt, 20));
    workers_end(rt, &m);
}

ON_LOOPS(a_spawn_from_outside_makes_it_readable) {
    memory m;
    aw_runtime *rt = embedded(driver, &m);
    uint32_t done = 0;
    settle(rt);
    struct nap *t = aw_spawn_on(rt, AW_CALL(nap, .done = &done, .time = 0));
    LOOP_UNTIL(rt, done == 1);
    aw_task_drop(t);
    workers_end(rt, &m);
}

ON_LOOPS(a_timer_makes_it_readable_and_not_early) {
    memory m;
    aw_runtime *rt = embedded(driver, &m);
    uint32_t done = 0;
    uint64_t begin = aw_now(rt);
    struct nap *t = aw_spawn_on(rt, AW_CALL(nap, .done = &done, .time = AW_MSEC(30)));
    LOOP_UNTIL(rt, done == 1);
    CHECK_GE(aw_now(rt) - begin, (uint64_t)AW_MSEC(30));
    settle(rt);
    aw_task_drop(t);
    workers_end(rt, &m);
}

ON_LOOPS(input_makes_it_readable) {
    memory m;
    aw_runtime *rt = embedded(driver, &m);
    uint32_t done = 0;
    int fds[2];
    aw_conn *conn;
    char byte;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(aw_conn_of_fd(&conn, fds[1]), 0);
    CHECK_EQ(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    struct echo *t = aw_spawn_on(rt, AW_CALL(echo, .conn = conn, .done = &done));
    settle(rt);
    for (int i = 0; i < 100; i++) {
        CHECK(!readable(rt, 0));
        CHECK_EQ(write(fds[0], "x", 1), 1);
        LOOP_UNTIL(rt, read(fds[0], &byte, 1) == 1);
        settle(rt);
    }
    close(fds[0]);
    LOOP_UNTIL(rt, done == 1);
    aw_task_drop(t);
    aw_close(conn);
    workers_end(rt, &m);
}

static void *notify_later(void *notify) {
    aw_notify_one(notify);
    return NULL;
}

ON_LOOPS(a_wake_from_another_thread_makes_it_readable) {
    memory m;
    aw_runtime *rt = embedded(driver, &m);
    for (int i = 0; i < 100; i++) {
        uint32_t done = 0;
        aw_notify notify = AW_NOTIFY_INIT;
        pthread_t thread;
        struct wait_for *t = aw_spawn_on(rt, AW_CALL(wait_for, .notify = &notify, .done = &done));
        if (i % 2) settle(rt);
        CHECK_EQ(pthread_create(&thread, NULL, notify_later, &notify), 0);
        LOOP_UNTIL(rt, done == 1);
        pthread_join(thread, NULL);
        aw_task_drop(t);
    }
    workers_end(rt, &m);
}

ON_LOOPS(what_other_threads_waited_for_before_makes_it_readable) {
    enum { THREADS = 5 };
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, 0, false}, &m, NULL);
    aw_conn *ends[THREADS][2];
    struct io_reader r[THREADS];
    for (int i = 0; i < THREADS; i++) {
        io_pair(ends[i]);
        io_reader_start(&r[i], rt, ends[i][1], false);
    }
    CHECK_GE(aw_runtime_fd(rt), 0);
    for (int i = 0; i < THREADS; i++) {
        settle(rt);
        CHECK_EQ(write(aw_conn_fd(ends[i][0]), "x", 1), 1);
        LOOP_UNTIL(rt, io_waiting(ends[i][1], 0) == 0);
        CHECK_EQ(io_reader_end(&r[i]), 1);
        aw_close(ends[i][0]);
        aw_close(ends[i][1]);
    }
    settle(rt);
    CHECK(!readable(rt, 0));
    workers_end(rt, &m);
}

AW_ASYNC(int, yield_for_ever, aw_yield pause;) {
    AW_BEGIN;
    for (;;)
        AW_AWAIT(self->pause, aw_yield_now());
    AW_END;
}

ON_LOOPS(run_once_returns_though_a_task_always_yields) {
    memory m;
    aw_runtime *rt = embedded(driver, &m);
    struct yield_for_ever *t = aw_spawn_on(rt, AW_CALL(yield_for_ever));
    uint32_t done = 0;
    struct nap *n = aw_spawn_on(rt, AW_CALL(nap, .done = &done, .time = AW_MSEC(5)));
    LOOP_UNTIL(rt, done == 1);
    CHECK(readable(rt, 0));
    aw_task_drop(t);
    aw_task_drop(n);
    workers_end(rt, &m);
}

ON_LOOPS(block_on_between_calls_of_run_once_keeps_the_tasks) {
    memory m;
    aw_runtime *rt = embedded(driver, &m);
    uint32_t done = 0, other = 0;
    struct nap *t = aw_spawn_on(rt, AW_CALL(nap, .done = &done, .time = AW_MSEC(20)));
    settle(rt);
    CHECK_EQ(aw_block_on(rt, AW_CALL(nap, .done = &other, .time = AW_MSEC(1))), 0);
    CHECK_EQ(other, 1);
    CHECK_EQ(done, 0);
    LOOP_UNTIL(rt, done == 1);
    aw_task_drop(t);
    workers_end(rt, &m);
}

/* The driver is open already and has been slept in: then only the wake makes the descriptor
 * readable. */
ON_LOOPS(the_first_wake_makes_it_readable_after_a_block_on) {
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, 0, false}, &m, NULL);
    aw_conn *ends[2];
    aw_notify notify = AW_NOTIFY_INIT;
    uint32_t done = 0;
    char byte;
    io_pair(ends);
    struct echo *e = aw_spawn_on(rt, AW_CALL(echo, .conn = ends[1], .done = &done));
    CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "x", 1)), 1);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[0], &byte, 1)), 1);
    struct wait_for *t = aw_spawn_on(rt, AW_CALL(wait_for, .notify = &notify, .done = &done));
    CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "x", 1)), 1);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[0], &byte, 1)), 1);
    CHECK_GE(aw_runtime_fd(rt), 0);
    aw_notify_one(&notify);
    LOOP_UNTIL(rt, done == 1);
    aw_close(ends[0]);
    LOOP_UNTIL(rt, done == 2);
    aw_task_drop(e);
    aw_task_drop(t);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* Daemons close the standard descriptors. */
ON_LOOPS(it_may_be_descriptor_0) {
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){driver, 0, false}, &m, NULL);
    uint32_t done = 0;
    CHECK_EQ(aw_block_on(rt, AW_CALL(nap, .done = &done, .time = 0)), 0);
    int before = dup(0);
    aw_conn *ends[2];
    char byte;
    io_pair(ends);
    struct echo *e = aw_spawn_on(rt, AW_CALL(echo, .conn = ends[1], .done = &done));
    CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "x", 1)), 1);
    /* The driver has opened its descriptors. */
    CHECK_EQ(aw_block_on(rt, aw_read(ends[0], &byte, 1)), 1);
    close(0);
    int fd = aw_runtime_fd(rt);
    CHECK_EQ(aw_runtime_fd(rt), fd);
    CHECK_EQ(aw_runtime_run_once(rt), 0);
    aw_close(ends[0]);
    LOOP_UNTIL(rt, done == 2);
    aw_task_drop(e);
    aw_close(ends[1]);
    workers_end(rt, &m);
    CHECK_EQ(fcntl(0, F_GETFD), -1);
    CHECK_EQ(dup2(before, 0), 0);
    close(before);
}

static uint64_t another_clock(void *data) {
    (void)data;
    return 1000;
}

/* Reads from a connection that is never written to. */
AW_ASYNC(int, read_for, uint64_t time; aw_conn * ends[2]; char byte; AW_TIMEOUT(aw_io) read;) {
    AW_BEGIN;
    io_pair(self->ends);
    AW_AWAIT_FOR(self->read, self->time, aw_read(self->ends[0], &self->byte, 1));
    AW_RETURN(self->read.out);
    AW_FINALLY;
    aw_close(self->ends[0]);
    aw_close(self->ends[1]);
    AW_END;
}

TEST(a_runtime_that_would_poll_is_embedded_by_epoll) {
    memory m;
    aw_runtime *rt = embedded("poll", &m);
    aw_io_counters io;
    aw_runtime_io(rt, &io);
    CHECK_STR(io.driver, "epoll");
    workers_end(rt, &m);
}

AW_ASYNC(int, run_once_inside, aw_runtime *rt;) {
    AW_BEGIN;
    CHECK_EQ(aw_runtime_run_once(self->rt), -EPERM);
    CHECK_EQ(aw_runtime_fd(self->rt), -EPERM);
    AW_RETURN(0);
    AW_END;
}

TEST(what_cannot_be_is_refused) {
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){"poll", 0, false}, &m, NULL);
    CHECK_EQ(aw_runtime_run_once(rt), -EINVAL);
    CHECK_EQ(aw_block_on(rt, AW_CALL(read_for, .time = AW_MSEC(1))), -ETIMEDOUT);
    CHECK_EQ(aw_runtime_fd(rt), -ENOTSUP); /* the poll driver is open already */
    CHECK_EQ(aw_block_on(rt, AW_CALL(run_once_inside, .rt = rt)), 0);
    workers_end(rt, &m);
    rt = io_runtime((struct io_setup){"epoll", 1, false}, &m, NULL);
    CHECK_EQ(aw_runtime_fd(rt), -ENOTSUP);
    CHECK_EQ(aw_runtime_run_once(rt), -EINVAL);
    workers_end(rt, &m);
    aw_seam seam = {.self_size = sizeof seam, .now = another_clock};
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.seam = &seam;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_runtime_fd(rt), -ENOTSUP);
    aw_runtime_free(rt);
}

/* Remaining tasks are cancelled as usual, and no descriptor leaks. */
ON_LOOPS(its_end_cancels_the_tasks) {
    memory m;
    int before = open("/dev/null", O_RDONLY), after;
    aw_runtime *rt = embedded(driver, &m);
    uint32_t done = 0;
    struct nap *t = aw_spawn_on(rt, AW_CALL(nap, .done = &done, .time = AW_SEC(1000)));
    settle(rt);
    aw_task_drop(t);
    workers_end(rt, &m);
    CHECK_EQ(done, 0);
    after = open("/dev/null", O_RDONLY);
    CHECK_EQ(after, before + 1);
}
