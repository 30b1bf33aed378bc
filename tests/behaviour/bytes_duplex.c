/* SPDX-License-Identifier: MIT
 *
 * A pair of connections in memory: bounded, in order, shut down and closed like sockets, between
 * tasks, threads and runtimes. */
#include "support/workers.h"

#include "support/slow_conn.h"

static void make(aw_conn *ends[2], size_t capacity) {
    CHECK_EQ(aw_duplex(&ends[0], &ends[1], capacity), 0);
}

static void close_both(aw_conn *ends[2]) {
    aw_close(ends[0]);
    aw_close(ends[1]);
}

/* The result of an operation that is ready at its first poll. */
static int now(aw_io op) {
    aw_flag flag = {0};
    CHECK_EQ(POLL(&op, &flag), AW_READY);
    return op.out;
}

/* ---- One thread, polled directly ---------------------------------------------------------------- */

TEST(what_one_end_writes_the_other_end_reads) {
    aw_conn *e[2];
    char to[10];
    make(e, 4);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(now(aw_write(e[i], "abcdef", 6)), 4); /* what fits */
        CHECK_EQ(now(aw_read(e[1 - i], to, 3)), 3);
        CHECK_EQ(now(aw_write(e[i], "ef", 2)), 2);
        CHECK_EQ(now(aw_read(e[1 - i], to + 3, 7)), 3);
        CHECK_EQ(memcmp(to, "abcdef", 6), 0);
        CHECK_EQ(now(aw_write(e[i], "", 0)), 0);
        CHECK_EQ(now(aw_read(e[1 - i], to, 0)), 0);
    }
    close_both(e);
}

TEST(a_read_waits_for_bytes_and_a_write_for_space) {
    aw_conn *e[2];
    char to[4];
    aw_flag reads = {0}, writes = {0};
    make(e, 2);
    aw_io read = aw_read(e[0], to, 4), write = aw_write(e[1], "cd", 2);
    CHECK_EQ(POLL(&read, &reads), AW_PENDING);
    CHECK(!aw_flag_take(&reads));
    CHECK_EQ(now(aw_write(e[1], "ab", 2)), 2);
    CHECK(aw_flag_take(&reads));
    CHECK_EQ(POLL(&write, &writes), AW_PENDING);
    CHECK_EQ(POLL(&read, &reads), AW_READY);
    CHECK_EQ(read.out, 2);
    CHECK(aw_flag_take(&writes));
    CHECK_EQ(POLL(&write, &writes), AW_READY);
    CHECK_EQ(write.out, 2);
    close_both(e);
}

TEST(parts_are_gathered_and_scattered) {
    aw_conn *e[2];
    char a[3], b[5];
    struct iovec from[] = {{(char *)(uintptr_t) "ab", 2},
                           {NULL, 0},
                           {(char *)(uintptr_t) "cdefg", 5}},
                 to[] = {{a, 3}, {NULL, 0}, {b, 5}};
    make(e, 100);
    CHECK_EQ(now(aw_writev(e[0], from, 3)), 7);
    CHECK_EQ(now(aw_readv(e[1], to, 3)), 7);
    CHECK_EQ(memcmp(a, "abc", 3), 0);
    CHECK_EQ(memcmp(b, "defg", 4), 0);
    CHECK_EQ(now(aw_writev(e[0], from + 1, 1)), 0);
    CHECK_EQ(now(aw_readv(e[1], to, -1)), -EINVAL);
    CHECK_EQ(now(aw_readable(e[0])), -EOPNOTSUPP);
    CHECK_EQ(aw_conn_fd(e[0]), -EBADF);
    close_both(e);
}

TEST(a_shutdown_ends_one_direction_only) {
    aw_conn *e[2];
    char to[4];
    aw_flag full = {0}, waits = {0};
    make(e, 2);
    CHECK_EQ(now(aw_write(e[0], "ab", 2)), 2);
    aw_io more = aw_write(e[0], "c", 1), other = aw_read(e[0], to, 1);
    CHECK_EQ(POLL(&more, &full), AW_PENDING);
    CHECK_EQ(POLL(&other, &waits), AW_PENDING);
    CHECK_EQ(now(aw_shutdown(e[0])), 0);
    CHECK(aw_flag_take(&full));
    CHECK(!aw_flag_take(&waits));
    CHECK_EQ(POLL(&more, &full), AW_READY);
    CHECK_EQ(more.out, -EPIPE);
    CHECK_EQ(now(aw_write(e[0], "c", 1)), -EPIPE);
    CHECK_EQ(now(aw_read(e[1], to, 4)), 2);
    CHECK_EQ(now(aw_read(e[1], to, 4)), 0);
    CHECK_EQ(now(aw_write(e[1], "x", 1)), 1);
    CHECK(aw_flag_take(&waits));
    CHECK_EQ(POLL(&other, &waits), AW_READY);
    CHECK_EQ(to[0], 'x');
    close_both(e);
}

TEST(a_close_ends_both_sides) {
    aw_conn *e[2];
    char to[4];
    aw_flag closed = {0}, there = {0}, writer = {0};
    make(e, 2);
    CHECK_EQ(now(aw_write(e[1], "ab", 2)), 2); /* is never read */
    CHECK_EQ(now(aw_write(e[0], "cd", 2)), 2); /* is read below */
    aw_io mine = aw_write(e[0], "e", 1), full = aw_write(e[1], "e", 1);
    CHECK_EQ(POLL(&mine, &closed), AW_PENDING);
    CHECK_EQ(POLL(&full, &writer), AW_PENDING);
    aw_conn_keep(e[0]);
    aw_close(e[0]);
    CHECK(aw_flag_take(&closed) && aw_flag_take(&writer));
    CHECK_EQ(POLL(&mine, &closed), AW_READY);
    CHECK_EQ(mine.out, -EBADF);
    CHECK_EQ(POLL(&full, &writer), AW_READY);
    CHECK_EQ(full.out, -EPIPE);
    CHECK_EQ(now(aw_read(e[0], to, 1)), -EBADF);
    CHECK_EQ(now(aw_shutdown(e[0])), -EBADF);
    CHECK_EQ(now(aw_read(e[1], to, 4)), 2);
    aw_io last = aw_read(e[1], to, 4);
    CHECK_EQ(POLL(&last, &there), AW_READY);
    CHECK_EQ(last.out, 0);
    aw_conn_drop(e[0]);
    CHECK_EQ(now(aw_write(e[1], "x", 1)), -EPIPE);
    aw_close(e[1]);
}

TEST(the_last_reference_closes_and_an_operation_is_one) {
    memory m;
    aw_conn *e[2];
    char to[4];
    aw_flag flag = {0};
    aw_set_allocator(memory_init(&m));
    make(e, 2);
    aw_io read = aw_read(e[1], to, 4);
    CHECK_EQ(POLL(&read, &flag), AW_PENDING);
    aw_conn_drop(e[1]);
    CHECK_EQ(now(aw_write(e[0], "a", 1)), 1); /* the pending read holds a reference */
    CHECK_EQ(POLL(&read, &flag), AW_READY);
    CHECK_EQ(read.out, 1);
    CHECK_EQ(now(aw_write(e[0], "a", 1)), -EPIPE);
    aw_conn_drop(e[0]);
    CHECK_EQ(memory_in_use(&m), 0);
    CHECK_EQ(aw_duplex(&e[0], &e[1], 0), -EINVAL);
    CHECK_EQ(aw_duplex(&e[0], &e[1], SIZE_MAX / 2), -ENOMEM);
    STORE(m.refuse, 1);
    CHECK_EQ(aw_duplex(&e[0], &e[1], 1), -ENOMEM);
    aw_set_allocator(NULL);
}

TEST(cancelled_at_any_point_it_has_moved_nothing) {
    aw_conn *e[2];
    char to[4] = "";
    aw_flag flag = {0}, other = {0};
    make(e, 2);
    aw_io fresh = aw_read(e[0], to, 4), waits = fresh, woken = fresh, again = fresh;
    CHECK_EQ(CANCEL(&fresh, &flag), AW_CANCELLED);
    CHECK_EQ(POLL(&waits, &flag), AW_PENDING);
    CHECK_EQ(POLL(&waits, &other), AW_PENDING);
    CHECK_EQ(POLL(&woken, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&waits, &flag), AW_CANCELLED);
    CHECK_EQ(now(aw_write(e[1], "a", 1)), 1);
    CHECK(aw_flag_take(&flag) && !aw_flag_take(&other));
    CHECK_EQ(CANCEL(&woken, &flag), AW_CANCELLED);
    CHECK_EQ(to[0], 0);
    CHECK_EQ(POLL(&again, &flag), AW_READY);
    CHECK_EQ(to[0], 'a');
    close_both(e);
}

/* A read and a write at each end, polled and cancelled in random order: what is read is what was
 * written. */
TEST(any_order_of_operations_is_a_queue_of_bytes) {
    uint64_t random = test_seed();
    for (int round = 0; round < test_scale(300); round++) {
        enum { BYTES = 500 };
        size_t capacity = 1 + test_random(&random) % 20, sent[2] = {0}, got[2] = {0};
        char from[2][BYTES], to[2][BYTES];
        aw_conn *e[2];
        aw_io ops[2][2];
        bool in_flight[2][2] = {{false}};
        aw_flag flag = {0};
        make(e, capacity);
        fill_random(from[0], BYTES, &random);
        fill_random(from[1], BYTES, &random);
        while (got[0] < BYTES || got[1] < BYTES) {
            int side = (int)(test_random(&random) % 2), reads = (int)(test_random(&random) % 2);
            aw_io *op = &ops[side][reads];
            size_t *count = reads ? &got[1 - side] : &sent[side]; /* of the sending side */
            if (!in_flight[side][reads]) {
                size_t n = 1 + test_random(&random) % 30;
                if (*count == BYTES) continue;
                if (n > BYTES - *count) n = BYTES - *count;
                *op = reads ? aw_read(e[side], to[1 - side] + *count, n)
                            : aw_write(e[side], from[side] + *count, n);
                in_flight[side][reads] = true;
            }
            aw_poll r = chance(&random, 6) ? CANCEL(op, &flag) : POLL(op, &flag);
            if (r == AW_READY) *count += (size_t)op->out;
            in_flight[side][reads] = r == AW_PENDING;
            CHECK_LE(sent[0] - got[0], capacity);
            CHECK_LE(sent[1] - got[1], capacity);
        }
        CHECK_EQ(memcmp(from[0], to[0], BYTES), 0);
        CHECK_EQ(memcmp(from[1], to[1], BYTES), 0);
        close_both(e);
    }
}

/* ---- Tasks, threads, runtimes -------------------------------------------------------------------- */

enum { MUCH = 300000 };

AW_ASYNC(int, send, aw_conn *conn; uint32_t i, k; unsigned char bytes[1000]; aw_transfer io;) {
    AW_BEGIN;
    for (self->i = 0; self->i < MUCH; self->i += sizeof self->bytes) {
        for (self->k = 0; self->k < sizeof self->bytes; self->k++)
            self->bytes[self->k] = (unsigned char)((self->i + self->k) * 7 >> 3);
        AW_AWAIT(self->io, aw_write_all(self->conn, self->bytes, sizeof self->bytes));
        CHECK_EQ(self->io.out, (ssize_t)sizeof self->bytes);
    }
    aw_close(self->conn);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, receive, aw_conn *conn; uint32_t at; unsigned char bytes[700]; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io, aw_read(self->conn, self->bytes, sizeof self->bytes));
        if (self->io.out <= 0) break;
        for (int i = 0; i < self->io.out; i++, self->at++)
            CHECK_EQ(self->bytes[i], (unsigned char)(self->at * 7 >> 3));
    }
    CHECK_EQ(self->io.out, 0);
    aw_close(self->conn);
    AW_RETURN((int)self->at);
    AW_END;
}

ON_BOTH(two_tasks_pass_much_on) {
    memory m;
    aw_runtime_options o = workers_options(workers, &m, NULL);
    aw_runtime *rt;
    aw_conn *e[2];
    memory_init(&m);
    o.flavour = workers ? AW_MULTI_THREAD : AW_CURRENT_THREAD;
    o.keep_tasks = !workers;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    make(e, 3000);
    struct send *s = aw_spawn_on(rt, AW_CALL(send, .conn = e[0]));
    struct receive *r = aw_spawn_on(rt, AW_CALL(receive, .conn = e[1]));
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(join_status(rt, &r->future), 0);
    CHECK_EQ(aw_task_take(s), 0);
    CHECK_EQ(aw_task_take(r), MUCH);
    workers_end(rt, &m);
}

static void *send_on_another_runtime(void *conn) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(send, .conn = conn)), 0);
    aw_runtime_free(rt);
    return NULL;
}

TEST(two_runtimes_pass_much_on) {
    aw_conn *e[2];
    aw_runtime *rt;
    make(e, 1500);
    pthread_t t = thread_start(send_on_another_runtime, e[0]);
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(receive, .conn = e[1])), MUCH);
    aw_runtime_free(rt);
    thread_end(t);
}

static void *send_without_a_runtime(void *conn) {
    CHECK_EQ(aw_wait(AW_CALL(send, .conn = conn)), 0);
    return NULL;
}

TEST(two_plain_threads_pass_much_on) {
    aw_conn *e[2];
    make(e, 800);
    pthread_t t = thread_start(send_without_a_runtime, e[0]);
    CHECK_EQ(aw_wait(AW_CALL(receive, .conn = e[1])), MUCH);
    thread_end(t);
}

/* Each times out again and again, and continues where it stopped. */
AW_ASYNC(int, send_in_time, aw_conn *conn; const char *data; size_t done;
         AW_TIMEOUT(aw_transfer) io;) {
    AW_BEGIN;
    while (self->done < MUCH) {
        AW_AWAIT_FOR(self->io, AW_USEC(20),
                     aw_write_all(self->conn, self->data + self->done, MUCH - self->done));
        self->done += self->io.inner.done;
    }
    AW_RETURN(0);
    AW_END;
}
AW_ASYNC(int, receive_in_time, aw_conn *conn; char *data; size_t done;
         AW_TIMEOUT(aw_transfer) io;) {
    AW_BEGIN;
    while (self->done < MUCH) {
        AW_AWAIT_FOR(self->io, AW_USEC(20),
                     aw_read_exact(self->conn, self->data + self->done, MUCH - self->done));
        self->done += self->io.inner.done;
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(cut_off_again_and_again_nothing_is_lost) {
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    aw_conn *e[2];
    char *from = malloc(MUCH), *to = malloc(MUCH);
    uint64_t random = test_seed();
    fill_random(from, MUCH, &random);
    make(e, 5000);
    struct send_in_time *s = aw_spawn_on(rt, AW_CALL(send_in_time, .conn = e[0], .data = from));
    struct receive_in_time *r = aw_spawn_on(rt, AW_CALL(receive_in_time, .conn = e[1], .data = to));
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(join_status(rt, &r->future), 0);
    aw_task_drop(s);
    aw_task_drop(r);
    CHECK_EQ(memcmp(from, to, MUCH), 0);
    close_both(e);
    free(from);
    free(to);
    workers_end(rt, &m);
}

/* A close while many read and write: each operation ends, and the memory is freed. */
AW_ASYNC(int, read_until_error, aw_conn *conn; char to[10]; aw_io io;) {
    AW_BEGIN;
    do
        AW_AWAIT(self->io, aw_read(self->conn, self->to, sizeof self->to));
    while (self->io.out > 0);
    aw_conn_drop(self->conn);
    AW_RETURN(self->io.out);
    AW_END;
}
AW_ASYNC(int, write_until_error, aw_conn *conn; aw_io io;) {
    AW_BEGIN;
    do
        AW_AWAIT(self->io, aw_write(self->conn, "0123456789abcdef", 16));
    while (self->io.out > 0);
    aw_conn_drop(self->conn);
    AW_RETURN(self->io.out);
    AW_END;
}

ON_WORKERS(a_close_among_many_ends_all_of_them) {
    enum { EACH = 12 };
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int round = 0; round < stress_rounds(30); round++) {
        aw_conn *e[2];
        struct read_until_error *r[2][EACH];
        struct write_until_error *w[2][EACH];
        make(e, 64);
        for (int side = 0; side < 2; side++)
            for (int i = 0; i < EACH; i++) {
                aw_conn_keep(e[side]);
                aw_conn_keep(e[side]);
                r[side][i] = aw_spawn_on(rt, AW_CALL(read_until_error, .conn = e[side]));
                w[side][i] = aw_spawn_on(rt, AW_CALL(write_until_error, .conn = e[side]));
            }
        if (round % 2) sched_yield();
        aw_close(e[round % 3 == 0]);
        for (int side = 0; side < 2; side++)
            for (int i = 0; i < EACH; i++) {
                bool closed = side == (round % 3 == 0);
                CHECK_EQ(join_status(rt, &r[side][i]->future), 0);
                CHECK_EQ(join_status(rt, &w[side][i]->future), 0);
                CHECK_EQ(aw_task_take(r[side][i]), closed ? -EBADF : 0);
                CHECK_EQ(aw_task_take(w[side][i]), closed ? -EBADF : -EPIPE);
            }
        aw_close(e[round % 3 != 0]);
    }
    workers_end(rt, &m);
}
