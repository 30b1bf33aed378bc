/* SPDX-License-Identifier: MIT
 *
 * Many connections at once that are opened, used, given up and closed from all sides. Each has bytes of its own: a byte of
 * another one would mean that an operation outlived its descriptor. What arrives is what was sent, from the
 * beginning on; all of it, when both ends were closed in order. */
#define _GNU_SOURCE
#include "support/io_ends.h"

#include "support/faults.h"

typedef AW_TIMEOUT(aw_io) io_timeout;

/* ---- Close and open again ------------------------------------------------------------------------- */

/* To the end, or until somebody closes it. */
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

/* Numbers are used again at once: who is late reads from or writes to another's connection. */
AW_ASYNC(int, reopen, uint32_t lane; int rounds; int i; uint32_t stream; uint64_t random;
         aw_conn * ends[2]; struct read_own * reader; struct read_own * before;
         unsigned char bytes[EARLY + LATER]; aw_io io; AW_TIMEOUT(aw_io) t;
         aw_task_join_future join;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->rounds; self->i++) {
        self->stream = self->lane * 1000003u + (uint32_t)self->i;
        io_pair(self->ends);
        /* At once, and by nobody's ring: it is there before who is late. */
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
        if (chance(&self->random, 2)) { /* a read that is given up: there is nothing */
            AW_AWAIT_FOR(self->t, test_random(&self->random) % 10000,
                         aw_read(self->ends[0], self->bytes, sizeof self->bytes));
            CHECK_EQ(self->t.out, -ETIMEDOUT);
        }
        if (chance(&self->random, 2)) { /* the reader waits for it, or is about to */
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

/* The same by a plain thread: it closes while who runs the reader has looked at the descriptor and not made the call, or has it
 * in a queue. */
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
    for (int i = storm_rounds(600); i > 0; i--) {
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
    STORE(fault_hesitates, 3);
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = (struct reopens){.rt = rt, .lane = LANES + i, .random = test_random(&random)};
        threads[i].thread = thread_start(reopen_on_a_thread, &threads[i]);
    }
    for (uint32_t i = 0; i < LANES; i++)
        lanes[i] = aw_spawn_on(rt, AW_CALL(reopen, .lane = i, .rounds = storm_rounds(600),
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

/* ---- A peer that is closed by somebody else -------------------------------------------------------- */

/* What a connection of the storm has: its tasks each hold a reference. */
struct line {
    uint32_t stream;
    aw_conn *ends[2];
    uint64_t sent, received;
    int what; /* somebody closes this end (0, 1), or aborts the one task or the other (2, 3); or nothing */
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

/* Who drops the last reference closes it, and so the other end comes to its end. */
static void one_line(aw_runtime *rt, uint64_t *random, uint32_t stream, struct line *l,
                     struct send_line **s, struct receive_line **r) {
    *l = (struct line){.stream = stream, .what = (int)(test_random(random) % 10)};
    l->disturbed = l->what < 4;
    if (chance(random, 4))
        tcp_pair(l->ends);
    else
        io_pair(l->ends);
    if (l->what < 2) aw_conn_keep(l->ends[l->what]); /* for the close; the others are the tasks' */
    *s = aw_spawn_on(rt, AW_CALL(send_line, .line = l, .random = test_random(random),
                                 .total = test_random(random) % 30000, .buf = malloc(2000)));
    *r = aw_spawn_on(
        rt, AW_CALL(receive_line, .line = l, .random = test_random(random), .buf = malloc(3000)));
}

enum { LINES = 12 };

ON_DRIVERS(what_arrives_is_what_was_sent_whoever_closes_and_cancels) {
    memory m;
    uint64_t random = test_seed();
    size_t fds = entries("/proc/self/fd");
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int round = 0; round < storm_rounds(15); round++) {
        struct line lines[LINES];
        struct send_line *s[LINES];
        struct receive_line *r[LINES];
        for (uint32_t i = 0; i < LINES; i++)
            one_line(rt, &random, (uint32_t)round * LINES + i, &lines[i], &s[i], &r[i]);
        for (uint32_t i = 0; i < LINES; i++) {
            if (!how.workers && chance(&random, 3)) CHECK_EQ(aw_block_on(rt, yields(5)), 0);
            jitter(&random);
            if (lines[i].what < 2) aw_close(lines[i].ends[lines[i].what]);
            if (lines[i].what == 2) aw_task_abort(s[i]);
            if (lines[i].what == 3) aw_task_abort(r[i]);
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
