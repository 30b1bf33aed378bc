/* SPDX-License-Identifier: MIT
 *
 * Buffers that are lent to operations, which are cancelled at random moments. After a cancel has
 * ended, nothing touches the buffer, and no byte was read or sent that the result does not
 * report. */
#include "support/guard.h"
#include "support/io_ends.h"

enum { BUFFER = 64, STREAMS = 4, CANCELS = 4 };

static int stream_bytes(void) {
    return test_under_sanitizer() ? 20000 : 100000;
}

static uint64_t moment(uint64_t *random) {
    uint64_t r = test_random(random);
    return r % 4 == 0 ? 0 : r >> 8 & 0x7fff; /* ns: up to 33 us */
}

typedef AW_TIMEOUT(aw_io) io_timeout;

/* ---- Reading --------------------------------------------------------------------------------- */

AW_ASYNC(int, read_impatiently, aw_conn *conn; uint32_t stream; uint64_t random; uint64_t at;
         uint32_t cancelled; int pause; unsigned char *buf; io_timeout t; aw_yield yield;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT_FOR(self->t, moment(&self->random), aw_read(self->conn, self->buf, BUFFER));
        if (self->t.out == 0) {
            if (self->t.inner.out <= 0) break;
            pattern_check(self->stream, self->at, self->buf, (size_t)self->t.inner.out);
            self->at += (uint64_t)self->t.inner.out;
            continue;
        }
        CHECK_EQ(self->t.out, -ETIMEDOUT);
        ADD(self->cancelled, 1);
        guard(self->buf, BUFFER);
        for (self->pause = (int)(test_random(&self->random) % 3); self->pause; self->pause--)
            AW_AWAIT(self->yield, aw_yield_now());
        unguard(self->buf, BUFFER);
    }
    AW_RETURN(self->t.inner.out);
    AW_END;
}

struct peer {
    int fd;
    uint32_t stream;
    uint64_t random, at;
    const uint32_t *cancelled; /* counted by the task */
    uint32_t waited;
};

/* At the beginning and after half of the bytes: waits for CANCELS more cancelled operations. */
static void wait_for_cancels(struct peer *f) {
    if (f->waited == 2 || f->at < f->waited * (uint64_t)stream_bytes() / 2) return;
    f->waited++;
    WAIT_UNTIL(LOAD(*f->cancelled) >= f->waited * CANCELS);
}

static void *write_in_pieces(void *arg) {
    struct peer *f = arg;
    unsigned char bytes[3 * BUFFER];
    uint64_t total = (uint64_t)stream_bytes();
    while (f->at < total) {
        wait_for_cancels(f);
        size_t size = 1 + test_random(&f->random) % sizeof bytes;
        if (size > total - f->at) size = (size_t)(total - f->at);
        pattern_fill(f->stream, f->at, bytes, size);
        ssize_t n = send(f->fd, bytes, size, MSG_NOSIGNAL);
        CHECK_GT(n, 0);
        f->at += (uint64_t)n;
        jitter(&f->random);
        if (chance(&f->random, 8)) usleep((unsigned)(test_random(&f->random) % 60));
    }
    CHECK_EQ(shutdown(f->fd, SHUT_WR), 0);
    return NULL;
}

ON_DRIVERS(a_buffer_is_not_touched_when_the_read_is_cancelled) {
    memory m;
    uint64_t random = test_seed();
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct read_impatiently *tasks[STREAMS];
    struct peer peers[STREAMS];
    pthread_t threads[STREAMS];
    aw_conn *conns[STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++) {
        int fds[2];
        if (i % 2)
            tcp_pair_fds(fds);
        else
            CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        CHECK_EQ(aw_conn_of_fd(&conns[i], fds[1]), 0);
        tasks[i] = aw_spawn_on(rt, AW_CALL(read_impatiently, .conn = conns[i], .stream = i,
                                           .random = test_random(&random), .buf = malloc(BUFFER)));
        peers[i] = (struct peer){fds[0], i, test_random(&random), 0, &tasks[i]->cancelled, 0};
        threads[i] = thread_start(write_in_pieces, &peers[i]);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
        thread_end(threads[i]);
        CHECK_EQ(tasks[i]->out, 0);
        CHECK_EQ(tasks[i]->at, peers[i].at); /* nothing is lost */
        CHECK_GE(tasks[i]->cancelled, 2u * CANCELS);
        free(tasks[i]->buf);
        aw_task_drop(tasks[i]);
        aw_close(conns[i]);
        close(peers[i].fd);
    }
    workers_end(rt, &m);
}

/* ---- Writing --------------------------------------------------------------------------------- */

AW_ASYNC(int, write_impatiently, aw_conn *conn; uint32_t stream; uint64_t random; uint64_t at;
         uint64_t total; uint32_t cancelled; int pause; unsigned char *buf; io_timeout t;
         aw_yield yield;) {
    AW_BEGIN;
    while (self->at < self->total || LOAD(self->cancelled) < 2 * CANCELS) {
        pattern_fill(self->stream, self->at, self->buf, BUFFER);
        AW_AWAIT_FOR(self->t, moment(&self->random), aw_write(self->conn, self->buf, BUFFER));
        if (self->t.out == 0) {
            CHECK_GT(self->t.inner.out, 0);
            self->at += (uint64_t)self->t.inner.out;
            continue;
        }
        CHECK_EQ(self->t.out, -ETIMEDOUT);
        ADD(self->cancelled, 1);
        guard(self->buf, BUFFER); /* a late send would send wrong bytes */
        for (self->pause = (int)(test_random(&self->random) % 3); self->pause; self->pause--)
            AW_AWAIT(self->yield, aw_yield_now());
        unguard(self->buf, BUFFER);
    }
    AW_AWAIT(self->t.inner, aw_shutdown(self->conn));
    AW_RETURN(self->t.inner.out);
    AW_END;
}

static void *read_in_pieces(void *arg) {
    struct peer *f = arg;
    unsigned char bytes[3 * BUFFER];
    for (;;) {
        wait_for_cancels(f);
        ssize_t n = recv(f->fd, bytes, 1 + test_random(&f->random) % sizeof bytes, 0);
        CHECK_GE(n, 0);
        if (n == 0) return NULL;
        pattern_check(f->stream, f->at, bytes, (size_t)n);
        f->at += (uint64_t)n;
        jitter(&f->random);
        if (chance(&f->random, 64)) usleep((unsigned)(test_random(&f->random) % 200));
    }
}

ON_DRIVERS(nothing_is_sent_when_the_write_is_cancelled) {
    memory m;
    uint64_t random = test_seed();
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct write_impatiently *tasks[STREAMS];
    struct peer peers[STREAMS];
    pthread_t threads[STREAMS];
    aw_conn *conns[STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++) {
        int fds[2], small = 4096;
        if (i % 2)
            tcp_pair_fds(fds);
        else
            CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        CHECK_EQ(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
        CHECK_EQ(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
        CHECK_EQ(aw_conn_of_fd(&conns[i], fds[1]), 0);
        tasks[i] = aw_spawn_on(rt, AW_CALL(write_impatiently, .conn = conns[i], .stream = i,
                                           .total = (uint64_t)stream_bytes(),
                                           .random = test_random(&random), .buf = malloc(BUFFER)));
        peers[i] = (struct peer){fds[0], i, test_random(&random), 0, &tasks[i]->cancelled, 0};
        threads[i] = thread_start(read_in_pieces, &peers[i]);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
        thread_end(threads[i]);
        CHECK_EQ(tasks[i]->out, 0);
        CHECK_EQ(tasks[i]->at, peers[i].at);
        CHECK_GE(tasks[i]->cancelled, 2u * CANCELS);
        free(tasks[i]->buf);
        aw_task_drop(tasks[i]);
        aw_close(conns[i]);
        close(peers[i].fd);
    }
    workers_end(rt, &m);
}
