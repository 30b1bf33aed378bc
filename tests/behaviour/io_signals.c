/* SPDX-License-Identifier: MIT
 *
 * Signals without end, 13,000 a second and more, while bytes are exchanged: each call may be cut short at any moment. */
#include "support/io_ends.h"

#include <signal.h>
#include <sys/prctl.h>

static uint32_t signals; /* atomic: that came */
static void count_signal(int number) {
    (void)number;
    __atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
}

struct rain {
    pthread_t target, thread;
    uint32_t stop, sent;
};

/* As many as arrive, in gusts: the thread must come to something else. */
static void *rain_body(void *arg) {
    struct rain *r = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    struct timespec pause = {0, 20000};
    prctl(PR_SET_TIMERSLACK, 1);
    while (!LOAD(r->stop)) {
        pthread_kill(r->target, SIGALRM);
        if (r->sent++ % 4 == 0) nanosleep(&pause, NULL);
    }
    return NULL;
}

static void rain_begin(struct rain *r) {
    struct sigaction how = {.sa_handler = count_signal}; /* no SA_RESTART */
    CHECK_EQ(sigaction(SIGALRM, &how, NULL), 0);
    *r = (struct rain){.target = pthread_self()};
    r->thread = thread_start(rain_body, r);
    WAIT_UNTIL(LOAD(signals) > 0);
}

static void rain_end(struct rain *r) {
    STORE(r->stop, 1);
    thread_end(r->thread);
}

AW_ASYNC(int, send_stream, aw_conn *conn; uint32_t stream; uint64_t at; uint64_t total;
         unsigned char bytes[700]; size_t size; aw_io io;) {
    AW_BEGIN;
    while (self->at < self->total) {
        self->size = sizeof self->bytes;
        if (self->size > self->total - self->at) self->size = self->total - self->at;
        pattern_fill(self->stream, self->at, self->bytes, self->size);
        AW_AWAIT(self->io, aw_write(self->conn, self->bytes, self->size));
        CHECK_GT(self->io.out, 0);
        self->at += (uint64_t)self->io.out;
    }
    aw_close(self->conn);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, receive_stream, aw_conn *conn; uint32_t stream; uint64_t at; unsigned char bytes[500];
         aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, self->bytes, sizeof self->bytes));
        if (self->io.out <= 0) break;
        pattern_check(self->stream, self->at, self->bytes, (size_t)self->io.out);
        self->at += (uint64_t)self->io.out;
    }
    CHECK_EQ(self->io.out, 0);
    aw_close(self->conn);
    AW_RETURN((int)self->at);
    AW_END;
}

enum { STREAMS = 3, BYTES = 50000, SIGNALS = 2000 };

/* Until so many have come; how many that were in a second. */
static uint64_t exchange_in_the_rain(struct io_setup how, uint32_t count) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct rain rain;
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    rain_begin(&rain);
    uint32_t before = LOAD(signals);
    uint64_t begun = test_now_ns();
    do {
        struct send_stream *s[STREAMS];
        struct receive_stream *r[STREAMS];
        void (*const pairs[STREAMS])(aw_conn * ends[2]) = {io_pair, tcp_pair, pipe_pair};
        for (uint32_t i = 0; i < STREAMS; i++) {
            aw_conn *ends[2];
            pthread_sigmask(SIG_BLOCK, &alarm,
                            NULL); /* what the test itself calls is not its subject */
            pairs[i](ends);
            pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
            s[i] = aw_spawn_on(rt,
                               AW_CALL(send_stream, .conn = ends[0], .stream = i, .total = BYTES));
            r[i] = aw_spawn_on(rt, AW_CALL(receive_stream, .conn = ends[1], .stream = i));
        }
        for (uint32_t i = 0; i < STREAMS; i++) {
            CHECK_EQ(join_status(rt, &s[i]->future), 0);
            CHECK_EQ(join_status(rt, &r[i]->future), 0);
            CHECK_EQ(r[i]->out, BYTES);
            aw_task_drop(s[i]);
            aw_task_drop(r[i]);
        }
    } while (LOAD(signals) - before < count);
    uint64_t rate = (LOAD(signals) - before) * (uint64_t)AW_SEC(1) / (test_now_ns() - begun);
    rain_end(&rain);
    workers_end(rt, &m);
    return rate;
}

ON_DRIVERS(bytes_arrive_in_a_rain_of_signals) {
    exchange_in_the_rain(how, (uint32_t)test_scale(SIGNALS));
}

/* The best of some: how often a thread is interrupted is also up to what else the machine does. */
static void rain_as_heavily_as_it_should(const char *driver) {
    uint64_t best = 0;
    for (int i = 0; i < 20 && best < 13000; i++) {
        uint64_t rate = exchange_in_the_rain((struct io_setup){driver, 0, false}, 2000);
        if (rate > best) best = rate;
    }
    if (best < (uint64_t)test_scale(13000)) SKIP("the machine is too busy for so many signals");
}
TEST(bytes_arrive_in_13000_signals_a_second_timing_by_uring) {
    rain_as_heavily_as_it_should("uring");
}
TEST(bytes_arrive_in_13000_signals_a_second_timing_by_epoll) {
    rain_as_heavily_as_it_should("epoll");
}
TEST(bytes_arrive_in_13000_signals_a_second_timing_by_poll) {
    rain_as_heavily_as_it_should("poll");
}

/* A plain thread that waits, and one that only sleeps. */
ON_DRIVERS(who_waits_is_told_in_a_rain_of_signals) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct rain rain;
    aw_conn *ends[2];
    char to;
    io_pair(ends);
    rain_begin(&rain);
    for (int i = 0; i < 20; i++) {
        struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
        uint64_t begun = test_now_ns();
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
        CHECK_GE(test_now_ns() - begun, AW_MSEC(1)); /* never early */
        CHECK_EQ(aw_task_is_finished(t), false);
        while (write(aw_conn_fd(ends[0]), "x", 1) != 1)
            ;
        CHECK_EQ(io_join(rt, t), 1);
    }
    rain_end(&rain);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
