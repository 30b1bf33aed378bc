/* SPDX-License-Identifier: MIT
 *
 * Many connections at once, which tasks and threads open, use, cancel and close. Each stream has
 * its own bytes: a byte of another stream would mean that an operation outlived its descriptor. The
 * bytes received are a prefix of the bytes sent; all of them, if both ends were closed in order. */
#define _GNU_SOURCE
#include "support/io_ends.h"

#include "support/faults.h"

typedef AW_TIMEOUT(aw_io) io_timeout;

/* ---- Close and open again -------------------------------------------------------------------- */

/* Reads to the end, or until the connection is closed. */
AW_ASYNC(int, read_own, aw_conn *conn; uint32_t stream; uint32_t * ended; uint64_t at;
         unsigned char in[24]; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, self->in, sizeof self->in));
        if (self->io.out <= 0) break;
        pattern_check(self->stream, self->at, self->in, (size_t)self->io.out);
        self->at += (uint64_t)self->io.out;
    }
    CHECK(self->io.out == 0 || self->io.out == -EBADF || self->io.out == -ECONNRESET);
    AW_RETURN(0);
    AW_FINALLY;
    aw_conn_drop(self->conn);
    if (self->ended) ADD(*self->ended, 1);
    AW_END;
}

enum { EARLY = 6, LATER = 10 };

/* Descriptor numbers are reused at once: a late operation would use another connection. */
AW_ASYNC(int, reopen, uint32_t lane; int rounds; int i; uint32_t stream; uint64_t random;
         aw_conn * ends[2]; struct read_own * reader; struct read_own * before;
         unsigned char bytes[EARLY + LATER]; aw_io io; AW_TIMEOUT(aw_io) t;
         aw_task_join_future join;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->rounds; self->i++) {
        self->stream = self->lane * 1000003u + (uint32_t)self->i;
        io_pair(self->ends);
        /* A plain write, without a ring: these bytes precede those of a late operation. */
        pattern_fill(self->stream, 0, self->bytes, sizeof self->bytes);
        CHECK_EQ(write(aw_conn_fd(self->ends[0]), self->bytes, EARLY), EARLY);
        aw_conn_keep(self->ends[1]);
        self->reader = aw_spawn(AW_CALL(read_own, .conn = self->ends[1], .stream = self->stream));
        if (self->before) {
            AW_AWAIT(self->join, aw__task_join(&self->before->future));
            CHECK_EQ(self->join.out, 0);
            aw_task_drop(self->before);
        }
        self->before = self->reader;
        if (chance(&self->random, 4) == 0) {
            AW_AWAIT(self->io, aw_write(self->ends[0], self->bytes + EARLY, LATER));
            CHECK_EQ(self->io.out, LATER);
        }
        if (chance(&self->random, 2)) { /* there is nothing to read */
            AW_AWAIT_FOR(self->t, test_random(&self->random) % 10000,
                         aw_read(self->ends[0], self->bytes, sizeof self->bytes));
            CHECK_EQ(self->t.out, -ETIMEDOUT);
        }
        if (chance(&self->random, 2)) { /* the reader waits, or is about to */
            aw_close(self->ends[1]);
            aw_close(self->ends[0]);
        } else {
            aw_close(self->ends[0]);
            aw_conn_drop(self->ends[1]);
        }
    }
    AW_AWAIT(self->join, aw__task_join(&self->before->future));
    aw_task_drop(self->before);
    AW_RETURN(0);
    AW_END;
}

/* The same from a plain thread. It may close the connection after the thread that runs the reader
 * has loaded the descriptor and before it makes the call, or while the operation is queued. */
struct reopens {
    aw_runtime *rt;
    uint32_t lane, begun, ended; /* ended: atomic */
    uint64_t random;
    pthread_t thread;
    uint32_t done; /* atomic */
};

static void reopen_once(struct reopens *r) {
    uint32_t stream = r->lane * 1000003u + r->begun++;
    unsigned char bytes[EARLY];
    aw_conn *ends[2];
    pattern_fill(stream, 0, bytes, EARLY);
    io_pair(ends);
    CHECK_EQ(write(aw_conn_fd(ends[0]), bytes, EARLY), EARLY);
    aw_conn_keep(ends[1]);
    aw_task_drop(aw_spawn_on(
        r->rt, AW_CALL(read_own, .conn = ends[1], .stream = stream, .ended = &r->ended)));
    jitter(&r->random);
    aw_close(ends[1]);
    aw_close(ends[0]);
}

static void *reopen_on_a_thread(void *arg) {
    enum { AT_ONCE = 8 };
    struct reopens *r = arg;
    for (int i = stress_rounds(600); i > 0; i--) {
        WAIT_UNTIL(r->begun - LOAD(r->ended) < AT_ONCE);
        reopen_once(r);
    }
    STORE(r->done, 1);
    return NULL;
}

AW_ASYNC(int, until_reopened, const struct reopens *by; aw_yield pause;) {
    AW_BEGIN;
    while (!LOAD(self->by->done) || LOAD(self->by->ended) < self->by->begun)
        AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_END;
}

enum { LANES = 4, THREADS = 2 };

ON_DRIVERS(no_byte_of_another_connection_arrives) {
    memory m;
    uint64_t random = test_seed();
    size_t fds = entries("/proc/self/fd");
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct reopen *lanes[LANES];
    struct reopens threads[THREADS];
    STORE(fault_yield_every, 3);
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = (struct reopens){.rt = rt, .lane = LANES + i, .random = test_random(&random)};
        threads[i].thread = thread_start(reopen_on_a_thread, &threads[i]);
    }
    for (uint32_t i = 0; i < LANES; i++)
        lanes[i] = aw_spawn_on(rt, AW_CALL(reopen, .lane = i, .rounds = stress_rounds(600),
                                           .random = test_random(&random)));
    for (uint32_t i = 0; i < LANES; i++) {
        CHECK_EQ(join_status(rt, &lanes[i]->future), 0);
        aw_task_drop(lanes[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK_EQ(aw_block_on(rt, AW_CALL(until_reopened, .by = &threads[i])), 0);
        thread_end(threads[i].thread);
    }
    workers_end(rt, &m);
    CHECK_EQ(entries("/proc/self/fd"), fds);
}

/* ---- Ends that are closed from outside ------------------------------------------------------- */

/* One connection of the storm. Each of its tasks holds a reference. */
struct line {
    uint32_t stream;
    aw_conn *ends[2];
    uint64_t sent, received;
    /* 0, 1: this end is closed from outside. 2, 3: the sender or receiver is aborted. */
    int disturbance;
    bool disturbed;
};

AW_ASYNC(int, send_line, struct line *line; uint64_t random; uint64_t total; unsigned char *buf;
         size_t size; io_timeout t;) {
    AW_BEGIN;
    while (self->line->sent < self->total) {
        self->size = 1 + test_random(&self->random) % 2000;
        pattern_fill(self->line->stream, self->line->sent, self->buf, self->size);
        AW_AWAIT_FOR(self->t, test_random(&self->random) % 100000,
                     aw_write(self->line->ends[0], self->buf, self->size));
        if (self->t.out) continue;
        if (self->t.inner.out < 0) break;
        self->line->sent += (uint64_t)self->t.inner.out;
    }
    if (self->t.out == 0 && self->t.inner.out < 0) {
        CHECK(self->t.inner.out == -EBADF || self->t.inner.out == -EPIPE ||
              self->t.inner.out == -ECONNRESET);
        CHECK(self->line->disturbed);
    }
    AW_RETURN(0);
    AW_FINALLY;
    aw_conn_drop(self->line->ends[0]);
    free(self->buf);
    AW_END;
}

AW_ASYNC(int, receive_line, struct line *line; uint64_t random; unsigned char *buf; io_timeout t;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT_FOR(
            self->t, test_random(&self->random) % 100000,
            aw_read(self->line->ends[1], self->buf, 1 + test_random(&self->random) % 3000));
        if (self->t.out) continue;
        if (self->t.inner.out <= 0) break;
        pattern_check(self->line->stream, self->line->received, self->buf,
                      (size_t)self->t.inner.out);
        self->line->received += (uint64_t)self->t.inner.out;
    }
    if (self->t.inner.out < 0) {
        CHECK(self->t.inner.out == -EBADF || self->t.inner.out == -ECONNRESET);
        CHECK(self->line->disturbed);
    }
    AW_RETURN(0);
    AW_FINALLY;
    aw_conn_drop(self->line->ends[1]);
    free(self->buf);
    AW_END;
}

/* Dropping the last reference closes an end. Then the other end sees the end of the stream. */
static void one_line(aw_runtime *rt, uint64_t *random, uint32_t stream, struct line *l,
                     struct send_line **s, struct receive_line **r) {
    *l = (struct line){.stream = stream, .disturbance = (int)(test_random(random) % 10)};
    l->disturbed = l->disturbance < 4;
    if (chance(random, 4))
        tcp_pair(l->ends);
    else
        io_pair(l->ends);
    /* For the close. The first references belong to the tasks. */
    if (l->disturbance < 2) aw_conn_keep(l->ends[l->disturbance]);
    *s = aw_spawn_on(rt, AW_CALL(send_line, .line = l, .random = test_random(random),
                                 .total = test_random(random) % 30000, .buf = malloc(2000)));
    *r = aw_spawn_on(
        rt, AW_CALL(receive_line, .line = l, .random = test_random(random), .buf = malloc(3000)));
}

enum { LINES = 12 };

ON_DRIVERS(received_bytes_match_sent_bytes_under_random_closes_and_cancels) {
    memory m;
    uint64_t random = test_seed();
    size_t fds = entries("/proc/self/fd");
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int round = 0; round < stress_rounds(15); round++) {
        struct line lines[LINES];
        struct send_line *s[LINES];
        struct receive_line *r[LINES];
        for (uint32_t i = 0; i < LINES; i++)
            one_line(rt, &random, (uint32_t)round * LINES + i, &lines[i], &s[i], &r[i]);
        for (uint32_t i = 0; i < LINES; i++) {
            if (!how.workers && chance(&random, 3)) CHECK_EQ(aw_block_on(rt, yields(5)), 0);
            jitter(&random);
            if (lines[i].disturbance < 2) aw_close(lines[i].ends[lines[i].disturbance]);
            if (lines[i].disturbance == 2) aw_task_abort(s[i]);
            if (lines[i].disturbance == 3) aw_task_abort(r[i]);
        }
        for (uint32_t i = 0; i < LINES; i++) {
            int sent = join_status(rt, &s[i]->future), received = join_status(rt, &r[i]->future);
            CHECK(sent == 0 || lines[i].disturbed);
            CHECK(received == 0 || lines[i].disturbed);
            CHECK_LE(lines[i].received, lines[i].sent);
            if (!lines[i].disturbed) CHECK_EQ(lines[i].received, lines[i].sent);
            aw_task_drop(s[i]);
            aw_task_drop(r[i]);
        }
    }
    workers_end(rt, &m);
    CHECK_EQ(entries("/proc/self/fd"), fds);
}
