/* SPDX-License-Identifier: MIT
 *
 * A stream of signals, 13,000 a second and more, while bytes are exchanged: each call may be
 * interrupted at any moment. */
#define _GNU_SOURCE
#include "support/io_ends.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static uint32_t signals; /* atomic: received */
static void count_signal(int number) {
    (void)number;
    __atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
}

/* Signals to this thread from a kernel timer, so that no other thread needs a processor. The
 * next signal does not come before the last was handled. A thread that does not run gets one,
 * however many were due. */
struct rain {
    timer_t timer;
};

static void rain_begin(struct rain *r) {
    struct sigaction how = {.sa_handler = count_signal}; /* no SA_RESTART */
    CHECK_EQ(sigaction(SIGALRM, &how, NULL), 0);
    struct sigevent to = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    to.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &to, &r->timer), 0);
    /* 40,000 a second; fewer where a handler takes long, because the thread must do other work
     * too. */
    long pause = 1000000000 / test_scale(40000);
    struct itimerspec often = {{0, pause}, {0, pause}};
    CHECK_EQ(timer_settime(r->timer, 0, &often, NULL), 0);
    WAIT_UNTIL(LOAD(signals) > 0);
}

static void rain_end(struct rain *r) {
    CHECK_EQ(timer_delete(r->timer), 0);
}

/* How long this thread has waited for a processor; 0 where the kernel does not tell. */
static uint64_t waited_to_run(void) {
    char text[100] = "";
    unsigned long long ran, waited = 0;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0) sscanf(text, "%llu %llu", &ran, &waited);
    if (fd >= 0) close(fd);
    return waited;
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

/* Exchanges bytes until `count` signals have come. Returns the signals per second, without the
 * time in which the thread waited for a processor. */
static uint64_t exchange_in_the_rain(struct io_setup how, uint32_t count) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct rain rain;
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    rain_begin(&rain);
    uint32_t before = LOAD(signals);
    uint64_t begun = test_now_ns() - waited_to_run();
    do {
        struct send_stream *s[STREAMS];
        struct receive_stream *r[STREAMS];
        void (*const pairs[STREAMS])(aw_conn * ends[2]) = {io_pair, tcp_pair, pipe_pair};
        for (uint32_t i = 0; i < STREAMS; i++) {
            aw_conn *ends[2];
            pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* not in the calls of the test itself */
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
    uint64_t took = test_now_ns() - waited_to_run() - begun;
    uint64_t rate = (LOAD(signals) - before) * (uint64_t)AW_SEC(1) / took;
    rain_end(&rain);
    workers_end(rt, &m);
    return rate;
}

ON_DRIVERS(bytes_arrive_in_a_rain_of_signals) {
    exchange_in_the_rain(how, (uint32_t)test_scale(SIGNALS));
}

/* The best of several runs, because the machine may be busy. */
ON_EACH_DRIVER(bytes_arrive_in_13000_signals_a_second_timing) {
    uint64_t wanted = (uint64_t)test_scale(13000), best = 0;
    for (int i = 0; i < 20 && best < wanted; i++) {
        uint64_t rate = exchange_in_the_rain(how, (uint32_t)test_scale(SIGNALS));
        if (rate > best) best = rate;
    }
    CHECK_GE(best, wanted);
}

/* A read that waits, and a block_on that only sleeps. */
ON_DRIVERS(a_read_that_waits_completes_in_a_rain_of_signals) {
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
