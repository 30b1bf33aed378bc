/* SPDX-License-Identifier: MIT
 *
 * write_all and read_exact: all bytes, in order and once, however little a connection moves in
 * one call, across cancels and errors. */
#include "support/io.h"

#include "support/slow_conn.h"

enum { SIZE = 3000 };

/* ---- On a connection that moves few bytes at a time --------------------------------------------- */

TEST(a_whole_write_writes_everything_across_cancels) {
    uint64_t random = test_seed();
    char from[SIZE], to[SIZE];
    for (int round = 0; round < test_scale(500); round++) {
        size_t size = test_random(&random) % SIZE, done = 0;
        fill_random(from, size, &random);
        struct slow_conn t = slow_conn(&random, NULL, 0, to, SIZE);
        unsigned cut = round % 4 ? 2 + (unsigned)(test_random(&random) % 50) : 0;
        for (;;) {
            aw_transfer w = aw_write_all(&t.conn, from + done, size - done);
            aw_poll r = DRIVE(&w, &random, cut);
            done += w.done;
            CHECK_EQ(done, t.out_size);
            CHECK_EQ(t.in_flight + t.refs, 0);
            if (r == AW_CANCELLED) continue;
            CHECK_EQ(w.out, (ssize_t)w.done);
            break;
        }
        CHECK_EQ(done, size);
        CHECK_EQ(memcmp(from, to, size), 0);
    }
}

static int make_parts(struct iovec *parts, int max_parts, char *data, size_t size,
                      uint64_t *random) {
    int count = 0;
    for (size_t at = 0; at < size && count < max_parts - 1;) {
        size_t n = test_random(random) % 4 ? test_random(random) % 60 : 0;
        if (n > size - at) n = size - at;
        parts[count++] = (struct iovec){data + at, n};
        at += n;
        if (count == max_parts - 1) parts[count++] = (struct iovec){data + at, size - at};
    }
    return count;
}

static void skip_parts(struct iovec *parts, int *count, size_t done, struct iovec **first) {
    while (*count && done >= (*first)->iov_len)
        done -= (*first)++->iov_len, --*count;
    if (*count) {
        (*first)->iov_base = (char *)(*first)->iov_base + done;
        (*first)->iov_len -= done;
    }
    (void)parts;
}

TEST(a_whole_write_of_parts_writes_everything_across_cancels) {
    enum { PARTS = 40 };
    uint64_t random = test_seed();
    char from[SIZE], to[SIZE];
    for (int round = 0; round < test_scale(500); round++) {
        size_t size = 1 + test_random(&random) % (SIZE - 1);
        struct iovec parts[PARTS], before[PARTS], *first = parts;
        fill_random(from, size, &random);
        int count = make_parts(parts, 1 + (int)(test_random(&random) % PARTS), from, size, &random);
        if (!count) continue;
        struct slow_conn t = slow_conn(&random, NULL, 0, to, SIZE);
        unsigned cut = round % 4 ? 2 + (unsigned)(test_random(&random) % 50) : 0;
        size_t sum = 0;
        for (int i = 0; i < count; i++)
            sum += parts[i].iov_len;
        for (;;) {
            memcpy(before, first, (size_t)count * sizeof *parts);
            aw_transferv w = aw_writev_all(&t.conn, first, count);
            aw_poll r = DRIVE(&w, &random, cut);
            CHECK_EQ(memcmp(before, first, (size_t)count * sizeof *parts), 0);
            if (r == AW_READY) CHECK_EQ(w.out, (ssize_t)w.done);
            skip_parts(parts, &count, w.done, &first);
            if (r == AW_READY) break;
        }
        CHECK_EQ(count, 0);
        CHECK_EQ(t.out_size, sum);
        CHECK_EQ(memcmp(from, to, sum), 0);
    }
}

TEST(an_exact_read_reads_everything_across_cancels) {
    uint64_t random = test_seed();
    char from[SIZE], to[SIZE];
    for (int round = 0; round < test_scale(500); round++) {
        size_t size = test_random(&random) % SIZE, extra = test_random(&random) % 3, done = 0;
        if (size + extra > SIZE) extra = 0;
        fill_random(from, size + extra, &random);
        struct slow_conn t = slow_conn(&random, from, size + extra, NULL, 0);
        unsigned cut = round % 4 ? 2 + (unsigned)(test_random(&random) % 50) : 0;
        for (aw_poll r = AW_CANCELLED; r == AW_CANCELLED;) {
            aw_transfer x = aw_read_exact(&t.conn, to + done, size - done);
            r = DRIVE(&x, &random, cut);
            done += x.done;
            CHECK_EQ(done, t.in_at);
            CHECK_EQ(t.in_flight + t.refs, 0);
            if (r == AW_READY) CHECK_EQ(x.out, (ssize_t)x.done);
        }
        CHECK_EQ(done, size);
        CHECK_EQ(memcmp(from, to, size), 0);
    }
}

/* ---- Errors and ends ---------------------------------------------------------------------------- */

TEST(after_an_error_the_count_says_how_far_it_came) {
    uint64_t random = test_seed();
    char from[100], to[100];
    fill_random(from, sizeof from, &random);
    for (size_t at = 1; at <= 100; at++) {
        struct slow_conn t = slow_conn(&random, from, at - 1, to, at);
        t.out_error = -ECONNRESET;
        t.in_error = -ETIMEDOUT;
        if (at < 100) {
            aw_transfer w = aw_write_all(&t.conn, from, 100);
            CHECK_EQ(DRIVE(&w, &random, 0), AW_READY);
            CHECK_EQ(w.out, -ECONNRESET);
            CHECK_EQ(w.done, at);
        }
        aw_transfer x = aw_read_exact(&t.conn, to, 100);
        CHECK_EQ(DRIVE(&x, &random, 0), AW_READY);
        CHECK_EQ(x.out, -ETIMEDOUT);
        CHECK_EQ(x.done, at - 1);
    }
}

TEST(an_exact_read_says_that_it_ended_before) {
    uint64_t random = test_seed();
    char to[10];
    struct slow_conn t = slow_conn(&random, "abcdef", 6, NULL, 0);
    aw_transfer x = aw_read_exact(&t.conn, to, 10), again = aw_read_exact(&t.conn, to, 1),
                nothing = aw_read_exact(&t.conn, to, 0);
    CHECK_EQ(DRIVE(&x, &random, 0), AW_READY);
    CHECK_EQ(x.out, -ENODATA);
    CHECK_EQ(x.done, 6);
    CHECK_EQ(memcmp(to, "abcdef", 6), 0);
    CHECK_EQ(DRIVE(&again, &random, 0), AW_READY);
    CHECK_EQ(again.out, -ENODATA);
    CHECK_EQ(again.done, 0);
    CHECK_EQ(DRIVE(&nothing, &random, 0), AW_READY);
    CHECK_EQ(nothing.out, 0);
}

static aw_poll writes_nothing(aw_io *op, aw_cx *cx) {
    (void)cx;
    op->out = 0;
    return AW_READY;
}

TEST(a_connection_that_writes_nothing_is_an_error_and_no_loop) {
    aw_conn_type type = slow_conn_type;
    struct slow_conn c = {.conn = {&type}};
    type.poll = writes_nothing;
    uint64_t random = 1;
    aw_transfer w = aw_write_all(&c.conn, "x", 1);
    struct iovec part = {(char *)(uintptr_t) "x", 1};
    aw_transferv v = aw_writev_all(&c.conn, &part, 1), bad = aw_writev_all(&c.conn, &part, -1);
    CHECK_EQ(DRIVE(&w, &random, 0), AW_READY);
    CHECK_EQ(w.out, -EIO);
    CHECK_EQ(DRIVE(&v, &random, 0), AW_READY);
    CHECK_EQ(v.out, -EIO);
    CHECK_EQ(DRIVE(&bad, &random, 0), AW_READY);
    CHECK_EQ(bad.out, -EINVAL);
}

static aw_poll writes_too_much(aw_io *op, aw_cx *cx) {
    (void)cx;
    op->out = (int)op->size + 1;
    return AW_READY;
}

TEST(a_connection_that_does_more_than_it_was_asked_for_is_caught) {
    aw_conn_type type = slow_conn_type;
    struct slow_conn c = {.conn = {&type}};
    uint64_t random = 1;
    type.poll = writes_too_much;
    aw_transfer w = aw_write_all(&c.conn, "x", 1);
    DIES(DRIVE(&w, &random, 0), "a connection of kind 'slow_conn' says that it wrote 2 bytes of 1");
}

TEST(a_write_that_never_waits_yields_after_its_budget) {
    uint64_t random = test_seed();
    char from[1000], to[1000];
    fill_random(from, sizeof from, &random);
    struct slow_conn t = slow_conn(&random, NULL, 0, to, sizeof to);
    t.max_bytes = 1;
    t.pends = 0;
    aw_transfer w = aw_write_all(&t.conn, from, sizeof from);
    aw_flag flag = {0};
    aw_waker waker = aw_flag_waker(&flag);
    int polls = 0;
    for (aw_poll r = AW_PENDING; r == AW_PENDING; polls++) {
        aw__meter meter = {.budget = 128};
        aw_cx cx = {&waker, NULL, &meter};
        size_t before = w.done;
        r = aw_future_poll(&w.future, &cx);
        CHECK_LE(w.done - before, 128);
        if (r == AW_PENDING) CHECK(aw_flag_take(&flag));
    }
    CHECK_EQ(polls, 8);
}

/* ---- On descriptors ----------------------------------------------------------------------------- */

enum { MUCH = 700000 };

static char *pattern(size_t size) {
    char *p = malloc(size);
    uint64_t random = 7;
    CHECK(p != NULL);
    fill_random(p, size, &random);
    return p;
}

AW_ASYNC(ssize_t, put, aw_conn *conn; const char *data; size_t size; aw_transfer io;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_write_all(self->conn, self->data, self->size));
    AW_RETURN(self->io.out);
    AW_END;
}

AW_FIBER(ssize_t, get, aw_conn *conn; char *data; size_t size;) {
    return aw_await(aw_read_exact(self->conn, self->data, self->size));
}

ON_DRIVERS(a_task_and_a_fiber_pass_much_on) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char *from = pattern(MUCH), *to = malloc(MUCH);
    io_pair(ends);
    struct put *p = aw_spawn_on(rt, AW_CALL(put, .conn = ends[0], .data = from, .size = MUCH));
    struct get *g = aw_spawn_on(rt, AW_CALL(get, .conn = ends[1], .data = to, .size = MUCH));
    CHECK_EQ(join_status(rt, &p->future), 0);
    CHECK_EQ(join_status(rt, &g->future), 0);
    CHECK_EQ(aw_task_take(p), MUCH);
    CHECK_EQ(aw_task_take(g), MUCH);
    CHECK_EQ(memcmp(from, to, MUCH), 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    free(from);
    free(to);
    workers_end(rt, &m);
}

/* Both time out again and again, and continue from their counts. */
AW_ASYNC(int, put_in_time, aw_conn *conn; const char *data; size_t size, done;
         AW_TIMEOUT(aw_transfer) io; int cuts;) {
    AW_BEGIN;
    while (self->done < self->size) {
        AW_AWAIT_FOR(self->io, AW_USEC(50),
                     aw_write_all(self->conn, self->data + self->done, self->size - self->done));
        self->done += self->io.inner.done;
        if (self->io.out == -ETIMEDOUT) self->cuts++;
    }
    AW_RETURN(self->cuts);
    AW_END;
}

AW_ASYNC(int, get_in_time, aw_conn *conn; char *data; size_t size, done; AW_TIMEOUT(aw_transfer) io;
         int cuts;) {
    AW_BEGIN;
    while (self->done < self->size) {
        AW_AWAIT_FOR(self->io, AW_USEC(30),
                     aw_read_exact(self->conn, self->data + self->done, self->size - self->done));
        self->done += self->io.inner.done;
        if (self->io.out == -ETIMEDOUT) self->cuts++;
    }
    AW_RETURN(self->cuts);
    AW_END;
}

ON_DRIVERS(cut_off_again_and_again_nothing_is_lost) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char *from = pattern(MUCH), *to = malloc(MUCH);
    io_pair(ends);
    struct put_in_time *p = aw_spawn_on(
        rt, AW_CALL(put_in_time, .conn = ends[0], .data = from, .size = MUCH));
    struct get_in_time *g = aw_spawn_on(
        rt, AW_CALL(get_in_time, .conn = ends[1], .data = to, .size = MUCH));
    CHECK_EQ(join_status(rt, &p->future), 0);
    CHECK_EQ(join_status(rt, &g->future), 0);
    aw_task_drop(p);
    aw_task_drop(g);
    CHECK_EQ(memcmp(from, to, MUCH), 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    free(from);
    free(to);
    workers_end(rt, &m);
}

TEST(a_chain_says_how_far_it_is) {
    aw_conn *a, *b;
    char text[300];
    aw_flag flag = {0};
    CHECK_EQ(aw_duplex(&a, &b, 100), 0);
    aw_transfer w = aw_write_all(a, text, sizeof text);
    CHECK_EQ(POLL(&w, &flag), AW_PENDING);
    aw_future_describe(&w.future, text, sizeof text);
    CHECK_CONTAINS(text, "write_all: 100 bytes so far");
    CHECK_EQ(CANCEL(&w, &flag), AW_CANCELLED);
    aw_close(a);
    aw_close(b);
}

/* ---- A close in between ------------------------------------------------------------------------- */

/* With its budget used up the write is between two calls: no operation is pending, but the
 * transfer still holds a reference to the connection. */
TEST(a_close_between_two_calls_is_an_error) {
    aw_conn *a, *b;
    memory m;
    aw_flag flag = {0};
    aw_waker waker = aw_flag_waker(&flag);
    aw__meter meter = {.budget = 1};
    aw_cx cx = {&waker, NULL, &meter};
    static char data[40000];
    aw_set_allocator(memory_init(&m));
    CHECK_EQ(aw_duplex(&a, &b, sizeof data), 0);
    aw_transfer w = aw_write_all(a, data, sizeof data);
    CHECK_EQ(aw_future_poll(&w.future, &cx), AW_PENDING);
    CHECK(aw_flag_take(&flag));
    CHECK_GT(w.done, 0);
    aw_close(a);
    aw_close(b);
    meter.budget = 128;
    CHECK_EQ(aw_future_poll(&w.future, &cx), AW_READY);
    CHECK_EQ(w.out, -EBADF);
    CHECK_EQ(memory_in_use(&m), 0);
    aw_set_allocator(NULL);
}
