/* SPDX-License-Identifier: MIT
 *
 * Copies: all bytes arrive, in order and once, through the buffer and through a kernel pipe,
 * across cancels and errors. An end of stream is passed on, an error ends both directions, and
 * no descriptor leaks. */
#define _GNU_SOURCE
#include "support/io_ends.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "support/slow_conn.h"

enum { SIZE = 3000 };

static unsigned some_cuts(uint64_t *random) {
    return test_random(random) % 4 ? 2 + (unsigned)(test_random(random) % 40) : 0;
}

static int open_descriptors(void) {
    return entries("/proc/self/fd");
}

/* ---- Through the buffer ------------------------------------------------------------------------- */

TEST(a_copy_copies_everything_across_cancels) {
    uint64_t random = test_seed();
    char from[SIZE], to[SIZE], buffer[200];
    for (int round = 0; round < test_scale(700); round++) {
        size_t size = test_random(&random) % SIZE, done = 0;
        fill_random(from, size, &random);
        struct slow_conn in = slow_conn(&random, from, size, NULL, 0),
                         out = slow_conn(&random, NULL, 0, to, SIZE);
        aw_reader r = aw_reader_of(&in.conn, buffer, 1 + test_random(&random) % sizeof buffer);
        unsigned cut = some_cuts(&random);
        for (aw_poll how = AW_CANCELLED; how == AW_CANCELLED;) {
            aw_copy_future f = aw_copy(&r, &out.conn);
            how = DRIVE(&f, &random, cut);
            done += f.done;
            CHECK_EQ(in.in_flight + out.in_flight + in.refs + out.refs, 0);
            CHECK_EQ(done, out.out_size);
            CHECK_EQ(done + aw_reader_peek(&r).size, in.in_at);
            if (how == AW_READY) CHECK_EQ(f.out, (ssize_t)f.done);
        }
        CHECK_EQ(done, size);
        CHECK_EQ(memcmp(from, to, size), 0);
        CHECK(!out.shut);
    }
}

TEST(an_error_says_which_side_it_is_of_and_loses_nothing) {
    uint64_t random = test_seed();
    char from[100], to[400], buffer[32];
    fill_random(from, sizeof from, &random);
    for (size_t at = 1; at < 100; at++) {
        struct slow_conn in = slow_conn(&random, from, at, NULL, 0),
                         out = slow_conn(&random, NULL, 0, to, chance(&random, 2) ? 200 : at);
        aw_reader r = aw_reader_of(&in.conn, buffer, sizeof buffer);
        in.in_error = -ECONNRESET;
        out.out_error = -EPIPE;
        bool wide = out.out_capacity == 200;
        if (!wide) in.in_size = 100;
        aw_copy_future f = aw_copy(&r, &out.conn), rest = f;
        CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
        CHECK_EQ(f.out, wide ? -ECONNRESET : -EPIPE);
        CHECK_EQ(f.at_source, wide);
        CHECK_EQ(f.done, at);
        in.in_size = 100;
        in.in_error = 0;
        out.out_capacity = 400;
        CHECK_EQ(DRIVE(&rest, &random, 0), AW_READY);
        CHECK_EQ(rest.out, (ssize_t)(100 - at));
        CHECK_EQ(memcmp(from, to, 100), 0);
    }
}

/* ---- Both directions ---------------------------------------------------------------------------- */

TEST(both_ways_each_end_is_passed_on_across_cancels) {
    uint64_t random = test_seed();
    char from[2][SIZE], to[2][SIZE], buffer[2][100];
    for (int round = 0; round < test_scale(500); round++) {
        size_t size[2] = {test_random(&random) % SIZE, test_random(&random) % SIZE}, done[2] = {0};
        struct slow_conn t[2];
        aw_reader r[2];
        for (int i = 0; i < 2; i++) {
            fill_random(from[i], size[i], &random);
            t[i] = slow_conn(&random, from[i], size[i], to[i], SIZE);
            r[i] = aw_reader_of(&t[i].conn, buffer[i], sizeof buffer[i]);
        }
        unsigned cut = some_cuts(&random);
        for (aw_poll how = AW_CANCELLED; how == AW_CANCELLED;) {
            aw_copy_bidirectional_future f = aw_copy_bidirectional(&r[0], &r[1]);
            how = DRIVE(&f, &random, cut);
            done[0] += f.there.done;
            done[1] += f.back.done;
            CHECK_EQ(t[0].in_flight + t[1].in_flight + t[0].refs + t[1].refs, 0);
            if (how == AW_READY) CHECK_EQ(f.out, 0);
        }
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(done[i], size[i]);
            CHECK_EQ(t[1 - i].out_size, size[i]);
            CHECK(t[i].shut);
            CHECK_EQ(memcmp(to[1 - i], from[i], size[i]), 0);
        }
    }
}

/* A client that has shut down its sending side still receives the answer. */
AW_ASYNC(int, ask, aw_conn *conn; char to[20]; aw_transfer io; aw_io shut;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_write_all(self->conn, "question", 8));
    CHECK_EQ(self->io.out, 8);
    AW_AWAIT(self->shut, aw_shutdown(self->conn));
    CHECK_EQ(self->shut.out, 0);
    AW_AWAIT(self->io, aw_read_exact(self->conn, self->to, sizeof self->to));
    CHECK_EQ(self->io.out, -ENODATA);
    CHECK_EQ(self->io.done, 6);
    CHECK_EQ(memcmp(self->to, "answer", 6), 0);
    AW_RETURN(0);
    AW_END;
}
AW_ASYNC(int, answer, aw_conn *conn; char to[20]; aw_transfer io; aw_io shut;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_read_exact(self->conn, self->to, sizeof self->to));
    CHECK_EQ(self->io.out, -ENODATA);
    CHECK_EQ(self->io.done, 8);
    AW_AWAIT(self->io, aw_write_all(self->conn, "answer", 6));
    CHECK_EQ(self->io.out, 6);
    AW_AWAIT(self->shut, aw_shutdown(self->conn));
    AW_RETURN(self->shut.out);
    AW_END;
}
AW_FIBER(int, proxy, aw_conn *a; aw_conn * b;) {
    char there[64], back[64];
    aw_reader a = aw_reader_of(self->a, there, sizeof there),
              b = aw_reader_of(self->b, back, sizeof back);
    aw_copy_bidirectional_future f = aw_copy_bidirectional(&a, &b);
    int err = aw_await_future(&f.future);
    if (err) return err;
    if (f.out == 0) CHECK(f.there.done == 8 && f.back.done == 6);
    return f.out;
}

ON_DRIVERS(a_half_closed_proxy_passes_the_answer_on) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *client[2], *server[2];
    io_pair(client);
    CHECK_EQ(aw_duplex(&server[0], &server[1], 5), 0); /* in memory; the client is a descriptor */
    struct proxy *p = aw_spawn_on(rt, AW_CALL(proxy, .a = client[1], .b = server[0]));
    struct ask *a = aw_spawn_on(rt, AW_CALL(ask, .conn = client[0]));
    struct answer *b = aw_spawn_on(rt, AW_CALL(answer, .conn = server[1]));
    CHECK_EQ(join_status(rt, &p->future), 0);
    CHECK_EQ(join_status(rt, &a->future), 0);
    CHECK_EQ(join_status(rt, &b->future), 0);
    CHECK_EQ(aw_task_take(p), 0);
    CHECK_EQ(aw_task_take(a), 0);
    CHECK_EQ(aw_task_take(b), 0);
    for (int i = 0; i < 2; i++) {
        aw_close(client[i]);
        aw_close(server[i]);
    }
    workers_end(rt, &m);
}

/* One connection is reset while the other is idle: the read that waits on the idle one ends. */
ON_DRIVERS(an_error_on_one_side_ends_both) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *client[2], *server[2];
    io_pair(client);
    tcp_pair(server);
    struct proxy *p = aw_spawn_on(rt, AW_CALL(proxy, .a = client[1], .b = server[0]));
    io_wait_for(rt, client[1], 0, 1);
    io_wait_for(rt, server[0], 0, 1);
    reset_on_close(server[1]);
    aw_close(server[1]);
    CHECK_EQ(join_status(rt, &p->future), 0);
    CHECK_EQ(aw_task_take(p), -ECONNRESET);
    CHECK_EQ(io_waiting(client[1], 0), 0);
    aw_close(client[0]);
    aw_close(client[1]);
    aw_close(server[0]);
    workers_end(rt, &m);
}

/* One direction has ended already, but bytes of the other direction can no longer be written. */
ON_DRIVERS(an_end_on_one_side_does_not_hide_the_error_of_the_other) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *client[2], *server[2];
    io_pair(client);
    io_pair(server);
    struct proxy *p = aw_spawn_on(rt, AW_CALL(proxy, .a = client[1], .b = server[0]));
    aw_close(server[1]);
    CHECK_EQ(aw_block_on(rt, aw_write(client[0], "x", 1)), 1);
    CHECK_EQ(join_status(rt, &p->future), 0);
    CHECK_EQ(aw_task_take(p), -EPIPE);
    aw_close(client[0]);
    aw_close(client[1]);
    aw_close(server[0]);
    workers_end(rt, &m);
}

/* A pipe has no half to shut down; it ends when it is closed. */
ON_DRIVERS(an_end_is_passed_on_as_far_as_that_is_possible) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *in, *out, *ends[2];
    char buffer[2][64], to[4];
    int fds[2][2];
    CHECK_EQ(pipe(fds[0]), 0);
    CHECK_EQ(pipe(fds[1]), 0);
    CHECK_EQ(aw_conn_of_fd(&in, fds[0][0]), 0);
    CHECK_EQ(aw_conn_of_fd(&out, fds[1][1]), 0);
    io_pair(ends);
    CHECK_EQ(write(fds[0][1], "abc", 3), 3);
    close(fds[0][1]);
    aw_reader r = aw_reader_of(in, buffer[0], sizeof buffer[0]),
              s = aw_reader_of(ends[1], buffer[1], 64);
    aw_copy_future there = aw__copy(&r, out, true), local;
    CHECK_EQ(aw_block_on_future(rt, &there.future), 0);
    CHECK_EQ(there.out, 3);
    CHECK_EQ(read(fds[1][0], to, 4), 3);
    CHECK_EQ(aw_block_on(rt, aw_shutdown(ends[0])), 0);
    local = aw__copy(&s, ends[0], true); /* already shut down */
    CHECK_EQ(aw_block_on_future(rt, &local.future), 0);
    CHECK_EQ(local.out, 0);
    aw_close(in);
    aw_close(out);
    aw_close(ends[0]);
    aw_close(ends[1]);
    close(fds[1][0]);
    aw_runtime_free(rt);
}

/* ---- Through a kernel pipe ---------------------------------------------------------------------- */

enum {
    MUCH = 3 << 20,
    BUFFER_SIZE = 64 << 10,
    SPLICING = 4 /* `doing` of a copy that had a pipe */
};

enum kind { LOCAL, TCP, PIPE };

static void make_pair(aw_conn *ends[2], enum kind kind) {
    int fds[2], pipes[2];
    if (kind == LOCAL) {
        io_pair(ends);
        return;
    }
    if (kind == TCP) {
        tcp_pair_fds(fds);
    } else {
        CHECK_EQ(pipe(pipes), 0);
        fds[0] = pipes[1];
        fds[1] = pipes[0];
    }
    CHECK_EQ(aw_conn_of_fd(&ends[0], fds[0]), 0);
    CHECK_EQ(aw_conn_of_fd(&ends[1], fds[1]), 0);
}

static char *pattern(void) {
    char *p = malloc(MUCH);
    uint64_t random = 9;
    CHECK(p != NULL);
    for (size_t i = 0; i < MUCH; i += 8) {
        uint64_t r = test_random(&random);
        memcpy(p + i, &r, 8);
    }
    return p;
}

AW_ASYNC(int, send_much, aw_conn *conn; const char *data; aw_transfer io;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_write_all(self->conn, self->data, MUCH));
    aw_close(self->conn);
    AW_RETURN((int)self->io.out);
    AW_END;
}
AW_ASYNC(int, receive_much, aw_conn *conn; char *data; aw_transfer io;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_read_exact(self->conn, self->data, MUCH));
    AW_RETURN((int)self->io.out);
    AW_END;
}
/* Cancels the copy after `moment`, and repeats it until it is complete. */
AW_ASYNC(int, copy_much, aw_conn *from; aw_conn * to; uint64_t moment; aw_reader reader;
         size_t done; int spliced; AW_TIMEOUT(aw_copy_future) copy;) {
    AW_BEGIN;
    CHECK_EQ(aw_reader_init(&self->reader, self->from, BUFFER_SIZE), 0);
    do {
        AW_AWAIT_FOR(self->copy, self->moment, aw_copy(&self->reader, self->to));
        self->done += self->copy.inner.done;
        if (self->copy.inner.doing >= SPLICING) self->spliced++;
        if (self->copy.out == -ETIMEDOUT && self->done > MUCH / 2) self->moment *= 2;
    } while (self->copy.out == -ETIMEDOUT);
    CHECK_EQ(self->copy.inner.out, (ssize_t)self->copy.inner.done);
    CHECK_EQ(self->done, MUCH);
    AW_RETURN(self->spliced);
    AW_FINALLY;
    if (AW_STARTED) aw_reader_free(&self->reader);
    AW_END;
}

static void copy_through(struct io_setup how, enum kind kind, uint64_t moment) {
    memory m;
    int before = open_descriptors();
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *in[2], *out[2];
    char *from = pattern(), *to = malloc(MUCH);
    make_pair(in, kind);
    make_pair(out, kind);
    struct copy_much *c = aw_spawn_on(
        rt, AW_CALL(copy_much, .from = in[1], .to = out[0], .moment = moment));
    struct send_much *s = aw_spawn_on(rt, AW_CALL(send_much, .conn = in[0], .data = from));
    struct receive_much *r = aw_spawn_on(rt, AW_CALL(receive_much, .conn = out[1], .data = to));
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(join_status(rt, &c->future), 0);
    CHECK_EQ(join_status(rt, &r->future), 0);
    CHECK_EQ(aw_task_take(s), MUCH);
    CHECK_GT(aw_task_take(c), 0);
    CHECK_EQ(aw_task_take(r), MUCH);
    CHECK_EQ(memcmp(from, to, MUCH), 0);
    aw_close(in[1]);
    aw_close(out[0]);
    aw_close(out[1]);
    free(from);
    free(to);
    workers_end(rt, &m);
    CHECK_EQ(open_descriptors(), before);
}

ON_DRIVERS(much_goes_through_a_kernel_pipe) {
    copy_through(how, LOCAL, AW_SEC(20));
}
ON_DRIVERS(much_goes_through_a_pipe_between_tcp_connections) {
    copy_through(how, TCP, AW_SEC(20));
}
ON_DRIVERS(much_goes_through_a_pipe_between_pipes) {
    copy_through(how, PIPE, AW_SEC(20));
}
ON_DRIVERS(cut_off_with_bytes_in_the_pipe_nothing_is_lost) {
    copy_through(how, LOCAL, AW_MSEC(1));
}

AW_ASYNC(int, say_much, aw_conn *conn; const char *data; aw_transfer io; aw_io shut;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_write_all(self->conn, self->data, MUCH));
    AW_AWAIT(self->shut, aw_shutdown(self->conn));
    AW_RETURN((int)self->io.out);
    AW_END;
}

ON_DRIVERS(a_copy_to_its_own_source_is_an_echo) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char *from = pattern(), *to = malloc(MUCH);
    make_pair(ends, TCP);
    struct copy_much *c = aw_spawn_on(
        rt, AW_CALL(copy_much, .from = ends[1], .to = ends[1], .moment = AW_SEC(20)));
    struct say_much *s = aw_spawn_on(rt, AW_CALL(say_much, .conn = ends[0], .data = from));
    struct receive_much *r = aw_spawn_on(rt, AW_CALL(receive_much, .conn = ends[0], .data = to));
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(join_status(rt, &c->future), 0);
    CHECK_EQ(join_status(rt, &r->future), 0);
    aw_task_drop(s);
    aw_task_drop(c);
    CHECK_EQ(aw_task_take(r), MUCH);
    CHECK_EQ(memcmp(from, to, MUCH), 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    free(from);
    free(to);
    workers_end(rt, &m);
}

/* The receiver reads until the copy has a pipe, and then stops. What is in the pipe when the
 * copy is cancelled is returned to the reader's buffer. */
ON_EACH_DRIVER(what_is_in_the_pipe_goes_into_the_buffer) {
    how.workers = 1;
    aw_runtime *rt = io_runtime(how, NULL, NULL), *before = aw_enter(rt);
    static aw_flag flag;
    static char buffer[BUFFER_SIZE];
    char *from = pattern(), *to = malloc(MUCH);
    aw_conn *in[2], *out[2];
    size_t sent = 0, got = 0;
    make_pair(in, LOCAL);
    make_pair(out, LOCAL);
    aw_reader r = aw_reader_of(in[1], buffer, sizeof buffer);
    aw_copy_future f = aw_copy(&r, out[0]);
    while (!f.piped || f.io.wants != AW_IO_WRITABLE) {
        ssize_t n = send(aw_conn_fd(in[0]), from + sent, MUCH - sent, MSG_DONTWAIT);
        if (n > 0) sent += (size_t)n;
        CHECK_EQ(POLL(&f, &flag), AW_PENDING);
        if (f.doing >= SPLICING) continue;
        n = recv(aw_conn_fd(out[1]), to + got, MUCH - got, MSG_DONTWAIT);
        if (n > 0) got += (size_t)n;
    }
    size_t piped = f.piped;
    CHECK_EQ(CANCEL_TO_ITS_END(&f, &flag), AW_CANCELLED);
    CHECK_EQ(aw_reader_peek(&r).size, piped);
    CHECK_EQ(memcmp(aw_reader_peek(&r).data, from + f.done, piped), 0);
    /* The next copy begins with these bytes. */
    CHECK_EQ(shutdown(aw_conn_fd(in[0]), SHUT_WR), 0);
    aw_copy_future rest = aw_copy(&r, out[0]);
    for (aw_poll ended = AW_PENDING; ended == AW_PENDING;) {
        ended = POLL(&rest, &flag);
        ssize_t n = recv(aw_conn_fd(out[1]), to + got, MUCH - got, MSG_DONTWAIT);
        if (n > 0) got += (size_t)n;
    }
    CHECK_EQ(rest.out, (ssize_t)rest.done);
    CHECK_EQ(f.done + rest.done, sent);
    while (got < sent) {
        ssize_t n = recv(aw_conn_fd(out[1]), to + got, MUCH - got, 0);
        if (n > 0) got += (size_t)n;
    }
    CHECK_EQ(memcmp(from, to, sent), 0);
    for (int i = 0; i < 2; i++) {
        aw_close(in[i]);
        aw_close(out[i]);
    }
    free(from);
    free(to);
    aw_leave(before);
    workers_end(rt, NULL);
}

/* Without descriptors for a pipe the copy stays with its buffer. Not on workers: they might open
 * the pipe before the limit applies, or need descriptors for their drivers. */
ON_EACH_DRIVER(without_descriptors_a_copy_uses_its_buffer) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *in[2], *out[2];
    char *from = pattern(), *to = malloc(MUCH);
    make_pair(in, LOCAL);
    make_pair(out, LOCAL);
    CHECK_EQ(aw_block_on(rt, aw_ready_now(0)), 0);
    struct copy_much *c = aw_spawn_on(
        rt, AW_CALL(copy_much, .from = in[1], .to = out[0], .moment = AW_SEC(20)));
    struct send_much *s = aw_spawn_on(rt, AW_CALL(send_much, .conn = in[0], .data = from));
    struct receive_much *r = aw_spawn_on(rt, AW_CALL(receive_much, .conn = out[1], .data = to));
    run_a_while(rt); /* opens the driver before the limit applies */
    struct rlimit old = limit_descriptors(0);
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(join_status(rt, &c->future), 0);
    CHECK_EQ(join_status(rt, &r->future), 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    aw_task_drop(s);
    CHECK_EQ(aw_task_take(c), 0);
    CHECK_EQ(aw_task_take(r), MUCH);
    CHECK_EQ(memcmp(from, to, MUCH), 0);
    aw_close(in[1]);
    aw_close(out[0]);
    aw_close(out[1]);
    free(from);
    free(to);
    aw_runtime_free(rt);
}

/* The receiver closes: an error and no signal. What was read from the source is in the buffer. */
AW_ASYNC(int, receive_some, aw_conn *conn; size_t size; char *to; aw_transfer io;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_read_exact(self->conn, self->to, self->size));
    aw_close(self->conn);
    AW_RETURN((int)self->io.out);
    AW_END;
}
AW_ASYNC(int, copy_until_error, aw_conn *from; aw_conn * to; aw_reader reader;
         aw_copy_future copy;) {
    AW_BEGIN;
    CHECK_EQ(aw_reader_init(&self->reader, self->from, BUFFER_SIZE), 0);
    AW_AWAIT(self->copy, aw_copy(&self->reader, self->to));
    CHECK(self->copy.out == -EPIPE || self->copy.out == -ECONNRESET);
    CHECK(!self->copy.at_source);
    CHECK_GE(self->copy.doing, SPLICING);
    CHECK_EQ(self->copy.piped, 0);
    AW_RETURN((int)(self->copy.done + aw_reader_peek(&self->reader).size));
    AW_FINALLY;
    if (AW_STARTED) aw_reader_free(&self->reader);
    AW_END;
}

ON_DRIVERS(a_receiver_that_goes_away_is_an_error_and_no_signal) {
    memory m;
    int before = open_descriptors();
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *in[2], *out[2];
    char *from = pattern(), *to = malloc(MUCH), *rest = malloc(MUCH);
    make_pair(in, LOCAL);
    make_pair(out, LOCAL);
    struct copy_until_error *c = aw_spawn_on(
        rt, AW_CALL(copy_until_error, .from = in[1], .to = out[0]));
    struct send_much *s = aw_spawn_on(rt, AW_CALL(send_much, .conn = in[0], .data = from));
    struct receive_some *r = aw_spawn_on(
        rt, AW_CALL(receive_some, .conn = out[1], .size = MUCH / 2, .to = to));
    CHECK_EQ(join_status(rt, &r->future), 0);
    CHECK_EQ(join_status(rt, &c->future), 0);
    size_t taken = (size_t)aw_task_take(c);
    /* The rest can still be read from the source. */
    aw_transfer last = aw_read_exact(in[1], rest, MUCH - taken);
    CHECK_EQ(aw_block_on_future(rt, &last.future), 0);
    CHECK_EQ(last.out, (ssize_t)(MUCH - taken));
    CHECK_EQ(memcmp(rest, from + taken, MUCH - taken), 0);
    CHECK_EQ(join_status(rt, &s->future), 0);
    aw_task_drop(s);
    aw_task_drop(r);
    aw_close(in[1]);
    aw_close(out[0]);
    free(from);
    free(to);
    free(rest);
    workers_end(rt, &m);
    CHECK_EQ(open_descriptors(), before);
}

/* ---- From a file -------------------------------------------------------------------------------- */

static int make_file(const char *data) {
    int fd = memfd_create("awake", MFD_CLOEXEC);
    CHECK_GE(fd, 0);
    CHECK_EQ(write(fd, data, MUCH), MUCH);
    return fd;
}

AW_ASYNC(int, send_a_file, aw_conn *conn; int fd; uint64_t moment; size_t done;
         AW_TIMEOUT(aw_sendfile_future) io;) {
    AW_BEGIN;
    do {
        AW_AWAIT_FOR(self->io, self->moment,
                     aw_sendfile(self->conn, self->fd, (off_t)self->done, SIZE_MAX));
        self->done += self->io.inner.done;
        if (self->io.out == -ETIMEDOUT) self->moment += AW_USEC(50);
    } while (self->io.out == -ETIMEDOUT);
    CHECK_EQ(self->io.inner.out, (ssize_t)self->io.inner.done);
    AW_RETURN((int)self->done);
    AW_END;
}

static void send_file(struct io_setup how, uint64_t moment) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char *from = pattern(), *to = malloc(MUCH);
    int fd = make_file(from);
    make_pair(ends, TCP);
    struct send_a_file *s = aw_spawn_on(
        rt, AW_CALL(send_a_file, .conn = ends[0], .fd = fd, .moment = moment));
    struct receive_much *r = aw_spawn_on(rt, AW_CALL(receive_much, .conn = ends[1], .data = to));
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(join_status(rt, &r->future), 0);
    CHECK_EQ(aw_task_take(s), MUCH);
    CHECK_EQ(aw_task_take(r), MUCH);
    CHECK_EQ(memcmp(from, to, MUCH), 0);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), MUCH); /* not moved */
    aw_close(ends[0]);
    aw_close(ends[1]);
    close(fd);
    free(from);
    free(to);
    workers_end(rt, &m);
}

ON_DRIVERS(a_file_is_sent) {
    send_file(how, AW_SEC(20));
}
ON_DRIVERS(a_file_is_sent_across_cancels) {
    send_file(how, AW_USEC(50));
}

ON_DRIVERS(parts_of_a_file_and_what_cannot_be_sent) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2], *a, *b, *borrowed;
    char *from = pattern(), to[100];
    int fd = make_file(from), pipes[2];
    io_pair(ends);
    CHECK_EQ(aw_duplex(&a, &b, 100), 0);
    CHECK_EQ(pipe(pipes), 0);
    CHECK_EQ(aw_conn_borrow(&borrowed, pipes[1]), 0);
    CHECK_EQ(aw_block_on(rt, aw_sendfile(ends[0], fd, 1000, 100)), 100);
    CHECK_EQ(aw_block_on(rt, aw_read_exact(ends[1], to, 100)), 100);
    CHECK_EQ(memcmp(to, from + 1000, 100), 0);
    CHECK_EQ(aw_block_on(rt, aw_sendfile(ends[0], fd, MUCH - 10, 100)), 10);
    CHECK_EQ(aw_block_on(rt, aw_sendfile(ends[0], fd, MUCH, 100)), 0);
    CHECK_EQ(aw_block_on(rt, aw_sendfile(ends[0], fd, 0, 0)), 0);
    CHECK_EQ(aw_block_on(rt, aw_sendfile(ends[0], -1, 0, 1)), -EBADF);
    CHECK_EQ(aw_block_on(rt, aw_sendfile(a, fd, 0, 1)), -EOPNOTSUPP);
    CHECK_EQ(aw_block_on(rt, aw_sendfile(borrowed, fd, 0, 1)), -EOPNOTSUPP);
    aw_close(ends[1]);
    CHECK_EQ(aw_block_on(rt, aw_sendfile(ends[0], fd, 0, 1)), -EPIPE);
    aw_conn_keep(ends[0]);
    aw_close(ends[0]);
    CHECK_EQ(aw_block_on(rt, aw_sendfile(ends[0], fd, 0, 1)), -EBADF);
    aw_conn_drop(ends[0]);
    aw_conn_drop(borrowed);
    aw_close(a);
    aw_close(b);
    close(pipes[0]);
    close(pipes[1]);
    close(fd);
    free(from);
    workers_end(rt, &m);
}

static size_t take_all(int fd, char *to) {
    size_t got = 0;
    for (ssize_t n; (n = recv(fd, to + got, MUCH - got, MSG_DONTWAIT)) > 0;)
        got += (size_t)n;
    return got;
}

/* cancel-at-every-await: aw_sendfile_future */
ON_EACH_DRIVER(a_file_that_is_sent_may_be_cancelled_at_any_point) {
    how.workers = 1;
    aw_runtime *rt = io_runtime(how, NULL, NULL), *before = aw_enter(rt);
    static aw_flag flag, other; /* static: a worker may set them a moment later */
    aw_conn *ends[2];
    char *from = pattern(), *to = malloc(MUCH);
    int fd = make_file(from);
    size_t got = 0;
    io_pair(ends);
    aw_sendfile_future fresh = aw_sendfile(ends[0], fd, 0, MUCH), waits = fresh, woken, last;
    CHECK_EQ(CANCEL(&fresh, &flag), AW_CANCELLED);
    CHECK_EQ(fresh.done, 0);
    CHECK_EQ(POLL(&waits, &flag), AW_PENDING);
    CHECK_EQ(POLL(&waits, &other), AW_PENDING); /* another waker */
    CHECK_GT(waits.done, 0);
    CHECK_EQ(CANCEL_TO_ITS_END(&waits, &other), AW_CANCELLED);
    got = take_all(aw_conn_fd(ends[1]), to);
    CHECK_EQ(got, waits.done);
    woken = aw_sendfile(ends[0], fd, (off_t)got, MUCH - got);
    CHECK_EQ(POLL(&woken, &flag), AW_PENDING);
    aw_flag_take(&flag);
    got += take_all(aw_conn_fd(ends[1]), to + got);
    WAIT_UNTIL(aw_flag_take(&flag));
    if (strcmp(how.driver, "uring"))
        CHECK(!aw_flag_take(&other)); /* no completion arrived for it */
    CHECK_EQ(CANCEL_TO_ITS_END(&woken, &flag), AW_CANCELLED);
    CHECK_EQ(waits.done + woken.done, got);
    last = aw_sendfile(ends[0], fd, (off_t)got, MUCH - got);
    while (POLL(&last, &flag) == AW_PENDING)
        got += take_all(aw_conn_fd(ends[1]), to + got);
    got += take_all(aw_conn_fd(ends[1]), to + got);
    CHECK_EQ(last.out, (ssize_t)last.done);
    CHECK_EQ(waits.done + woken.done + last.done, MUCH);
    CHECK_EQ(got, MUCH);
    CHECK_EQ(memcmp(from, to, MUCH), 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    close(fd);
    free(from);
    free(to);
    aw_leave(before);
    workers_end(rt, NULL);
}
