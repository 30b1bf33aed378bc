/* SPDX-License-Identifier: MIT
 *
 * Writers and frames: what was accepted is written, in order and once, across cancels and
 * errors. A write that finds more than `high` bytes in the buffer waits until at most `low` are
 * left. */
#include "support/io.h"

#include "support/slow_conn.h"

enum { SIZE = 4000 };

static unsigned some_cuts(uint64_t *random) {
    return test_random(random) % 4 ? 2 + (unsigned)(test_random(random) % 30) : 0;
}

/* Repeats a cancelled flush until it is complete. */
static void flush_all(aw_writer *w, uint64_t *random, unsigned cut) {
    for (aw_poll how = AW_CANCELLED; how == AW_CANCELLED;) {
        aw_writer_future f = aw_writer_flush(w);
        how = DRIVE(&f, random, cut);
        if (how == AW_READY) CHECK_EQ(f.out, 0);
    }
    CHECK_EQ(aw_writer_size(w), 0);
}

/* ---- Bytes -------------------------------------------------------------------------------------- */

TEST(what_is_accepted_is_written_once_across_cancels) {
    uint64_t random = test_seed();
    char from[SIZE], to[SIZE], buffer[300];
    for (int round = 0; round < test_scale(1000); round++) {
        size_t size = test_random(&random) % SIZE, at = 0;
        fill_random(from, size, &random);
        struct slow_conn t = slow_conn(&random, NULL, 0, to, SIZE);
        aw_writer w = aw_writer_of(&t.conn, buffer, 1 + test_random(&random) % sizeof buffer);
        if (chance(&random, 2)) w.high = test_random(&random) % (w.capacity + 1);
        if (chance(&random, 2)) w.low = test_random(&random) % (w.capacity + 1);
        unsigned cut = some_cuts(&random);
        while (at < size) {
            size_t n = test_random(&random) % (chance(&random, 4) ? 1000 : 30);
            if (n > size - at) n = size - at;
            unsigned kind = (unsigned)(test_random(&random) % 6);
            if (kind == 0) {
                if (aw_writer_put(&w, from + at, n) == 0) at += n;
            } else {
                aw_writer_future f = kind == 1   ? aw_writer_flush(&w)
                                     : kind == 2 ? aw_writer_drain(&w)
                                                 : aw_writer_write(&w, from + at, n);
                aw_poll how = DRIVE(&f, &random, cut);
                at += f.done;
                if (how == AW_READY) CHECK_EQ(f.out, kind < 3 ? 0 : (ssize_t)n);
                if (how == AW_READY && kind == 1) CHECK_EQ(aw_writer_size(&w), 0);
                if (how == AW_CANCELLED && kind >= 3 && n) CHECK_LT(f.done, n);
            }
            CHECK_EQ(t.in_flight + t.refs, 0);
            CHECK_EQ(t.out_size + aw_writer_size(&w), at);
        }
        flush_all(&w, &random, cut);
        CHECK_EQ(t.out_size, size);
        CHECK_EQ(memcmp(from, to, size), 0);
    }
}

TEST(after_an_error_the_rest_is_still_there) {
    uint64_t random = test_seed();
    char from[200], to[800], buffer[50];
    fill_random(from, sizeof from, &random);
    for (size_t at = 1; at < 200; at++) {
        struct slow_conn t = slow_conn(&random, NULL, 0, to, at);
        t.out_error = -ENOBUFS;
        aw_writer w = aw_writer_of(&t.conn, buffer, sizeof buffer);
        size_t done = 0;
        int errors = 0;
        while (done < sizeof from) {
            size_t n = 1 + test_random(&random) % 70;
            if (n > sizeof from - done) n = sizeof from - done;
            aw_writer_future f = aw_writer_write(&w, from + done, n);
            CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
            done += f.done;
            errors += f.out < 0;
            CHECK(f.out == (ssize_t)n || f.out == -ENOBUFS);
        }
        while (aw_writer_size(&w)) {
            aw_writer_future f = aw_writer_flush(&w);
            CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
            errors += f.out < 0;
        }
        CHECK_GE(errors, 1);
        CHECK_EQ(t.out_size, sizeof from);
        CHECK_EQ(memcmp(from, to, sizeof from), 0);
    }
}

TEST(small_writes_become_few_calls) {
    uint64_t random = test_seed();
    char from[1000], to[1000], buffer[100];
    fill_random(from, sizeof from, &random);
    struct slow_conn t = slow_conn(&random, NULL, 0, to, sizeof to);
    t.max_bytes = 1;
    t.pends = 0;
    aw_writer w = aw_writer_of(&t.conn, buffer, sizeof buffer);
    for (int i = 0; i < 100; i++) {
        aw_writer_future f = aw_writer_write(&w, from + i, 1);
        CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
    }
    CHECK_EQ(t.calls, 0); /* all of it is in the buffer */
    CHECK_EQ(aw_writer_size(&w), 100);
    aw_writer_future f = aw_writer_write(&w, from + 100, 1);
    CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
    CHECK_EQ(t.calls, 100); /* this connection writes one byte per call: the buffer was emptied */
    CHECK_EQ(aw_writer_size(&w), 1);
}

TEST(much_goes_in_one_call_with_what_is_in_the_buffer) {
    uint64_t random = test_seed();
    char from[1000], to[1000], buffer[100];
    fill_random(from, sizeof from, &random);
    struct slow_conn t = slow_conn(&random, NULL, 0, to, sizeof to);
    t.pends = t.max_bytes = 0;
    aw_writer w = aw_writer_of(&t.conn, buffer, sizeof buffer);
    CHECK_EQ(aw_writer_put(&w, from, 20), 0);
    aw_writer_future f = aw_writer_write(&w, from + 20, 980);
    CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
    CHECK_EQ(f.out, 980);
    CHECK_EQ(t.calls, 1);
    CHECK_EQ(t.out_size, sizeof from);
    CHECK_EQ(memcmp(from, to, sizeof from), 0);
}

TEST(above_high_a_writer_waits_until_below_low) {
    uint64_t random = test_seed();
    char to[100], buffer[50];
    struct slow_conn t = slow_conn(&random, NULL, 0, to, sizeof to);
    t.max_bytes = 1;
    t.pends = 0;
    aw_writer w = aw_writer_of(&t.conn, buffer, sizeof buffer);
    w.high = 20;
    w.low = 5;
    aw_writer_future drain = aw_writer_drain(&w), write = aw_writer_write(&w, "12345", 5);
    CHECK_EQ(aw_writer_put(&w, "abcdefghijklmnopqrst", 20), 0);
    CHECK_EQ(DRIVE(&drain, &random, 0), AW_READY);
    CHECK_EQ(aw_writer_size(&w), 20); /* not above */
    CHECK_EQ(aw_writer_put(&w, "u", 1), 0);
    CHECK_EQ(aw_writer_put(&w, "v", 1), -EAGAIN);
    CHECK_EQ(DRIVE(&write, &random, 0), AW_READY);
    CHECK_EQ(aw_writer_size(&w), 10); /* it continued when five were left */
    CHECK_EQ(t.out_size, 16);
    w.high = 8;
    drain = aw_writer_drain(&w);
    CHECK_EQ(DRIVE(&drain, &random, 0), AW_READY);
    CHECK_EQ(aw_writer_size(&w), 5);
    CHECK_EQ(memcmp(to, "abcdefghijklmnopqrstu", 21), 0);
}

TEST(a_shutdown_comes_after_all_that_was_written) {
    uint64_t random = test_seed();
    char to[300], buffer[64];
    for (int round = 0; round < 200; round++) {
        struct slow_conn t = slow_conn(&random, NULL, 0, to, sizeof to);
        t.max_bytes = 10;
        aw_writer w = aw_writer_of(&t.conn, buffer, sizeof buffer);
        CHECK_EQ(aw_writer_put(&w, "the last words", 14), 0);
        for (aw_poll how = AW_CANCELLED; how == AW_CANCELLED;) {
            aw_writer_future f = aw_writer_shutdown(&w);
            how = DRIVE(&f, &random, round % 2 ? 6 : 0);
            if (t.shut) CHECK_EQ(t.out_size, 14);
            if (how == AW_READY) CHECK_EQ(f.out, 0);
        }
        CHECK(t.shut);
        CHECK_EQ(memcmp(to, "the last words", 14), 0);
    }
}

TEST(two_at_once_are_refused_but_more_may_be_put) {
    uint64_t random = test_seed();
    char to[100], buffer[8];
    aw_flag flag = {0};
    struct slow_conn t = slow_conn(&random, NULL, 0, to, sizeof to);
    aw_writer w = aw_writer_of(&t.conn, buffer, sizeof buffer),
              empty = aw_writer_of(&t.conn, NULL, 0);
    CHECK_EQ(aw_writer_put(&w, "abc", 3), 0);
    t.pends = 1;
    aw_writer_future one = aw_writer_flush(&w), two = aw_writer_write(&w, "x", 1),
                     none = aw_writer_flush(&empty);
    CHECK_EQ(POLL(&one, &flag), AW_PENDING);
    CHECK_EQ(POLL(&two, &flag), AW_READY);
    CHECK_EQ(two.out, -EBUSY);
    CHECK_EQ(aw_writer_put(&w, "defgh", 5), 0);
    CHECK_EQ(aw_writer_put(&w, "i", 1), -EAGAIN);
    t.pends = 0;
    CHECK_EQ(POLL(&one, &flag), AW_READY);
    CHECK_EQ(one.out, 0);
    CHECK_EQ(memcmp(to, "abcdefgh", 8), 0);
    CHECK_EQ(POLL(&none, &flag), AW_READY);
    CHECK_EQ(none.out, -EINVAL);
    /* A put does not get between the bytes of a write in progress. */
    t.pends = 1;
    two = aw_writer_write(&w, "0123456789", 10);
    CHECK_EQ(POLL(&two, &flag), AW_PENDING);
    CHECK_EQ(aw_writer_put(&w, "i", 1), -EBUSY);
    t.pends = 0;
    CHECK_EQ(POLL(&two, &flag), AW_READY);
    CHECK_EQ(t.out_size + aw_writer_size(&w), 18);
}

TEST(without_memory_there_is_no_writer) {
    memory m;
    aw_writer w;
    uint64_t random = 1;
    struct slow_conn t = slow_conn(&random, NULL, 0, NULL, 0);
    aw_set_allocator(memory_init(&m));
    STORE(m.refuse, 1);
    CHECK_EQ(aw_writer_init(&w, &t.conn, 100), -ENOMEM);
    aw_writer_free(&w);
    STORE(m.refuse, 0);
    CHECK_EQ(aw_writer_init(&w, &t.conn, 100), 0);
    CHECK_EQ(aw_writer_put(&w, "abc", 3), 0);
    aw_writer_free(&w);
    aw_set_allocator(NULL);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- Frames ------------------------------------------------------------------------------------- */

static const aw_frame formats[] = {{1, false, 0},
                                   {2, false, 0},
                                   {2, true, 0},
                                   {3, false, 0},
                                   {4, true, 5000},
                                   {4, false, 1000},
                                   {AW_FRAME_VARINT, false, 0}};
enum { FORMATS = sizeof formats / sizeof formats[0], FRAMES = 20, MAX_FRAME = 255 };

TEST(frames_are_the_same_however_they_travel) {
    uint64_t random = test_seed();
    char from[FRAMES * MAX_FRAME], wire[FRAMES * (MAX_FRAME + 4)], buffer[MAX_FRAME + 4];
    for (int round = 0; round < test_scale(700); round++) {
        aw_frame format = formats[test_random(&random) % FORMATS];
        size_t sizes[FRAMES], at = 0;
        unsigned cut = some_cuts(&random);
        struct slow_conn out = slow_conn(&random, NULL, 0, wire, sizeof wire);
        aw_writer w = aw_writer_of(&out.conn, buffer, sizeof buffer);
        if (chance(&random, 2)) w.high = test_random(&random) % sizeof buffer;
        for (int i = 0; i < FRAMES; i++) {
            sizes[i] = test_random(&random) % (chance(&random, 2) ? 10 : MAX_FRAME + 1);
            fill_random(from + at, sizes[i], &random);
            for (aw_poll how = AW_CANCELLED; how == AW_CANCELLED;) {
                aw_writer_future f = aw_writer_frame(&w, format, from + at, sizes[i]);
                how = DRIVE(&f, &random, cut);
                CHECK_EQ(f.done, how == AW_READY ? sizes[i] : 0);
                if (how == AW_READY) CHECK_EQ(f.out, (ssize_t)sizes[i]);
            }
            at += sizes[i];
        }
        flush_all(&w, &random, cut);

        struct slow_conn in = slow_conn(&random, wire, out.out_size, NULL, 0);
        aw_reader r = aw_reader_of(&in.conn, buffer, sizeof buffer);
        at = 0;
        for (int i = 0; i <= FRAMES;) {
            aw_reader_future f = aw_reader_frame(&r, format);
            aw_poll how = DRIVE(&f, &random, cut);
            if (how == AW_CANCELLED) {
                CHECK_EQ(f.done, 0);
                continue;
            }
            CHECK_EQ(f.out, i < FRAMES);
            if (i < FRAMES) {
                CHECK_EQ(r.item.size, sizes[i]);
                CHECK_EQ(memcmp(r.item.data, from + at, sizes[i]), 0);
                if (chance(&random, 8)) {
                    aw_future_discard(&f.future);
                    continue;
                }
                at += sizes[i];
            }
            i++;
        }
    }
}

static ssize_t frame_of(const void *wire, size_t size, aw_frame format, size_t buffer_size) {
    uint64_t random = test_seed();
    char buffer[64];
    struct slow_conn t = slow_conn(&random, wire, size, NULL, 0);
    aw_reader r = aw_reader_of(&t.conn, buffer, buffer_size);
    aw_reader_future f = aw_reader_frame(&r, format);
    CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
    if (f.out != 1) CHECK_EQ(f.done, 0);
    return f.out;
}

TEST(frames_that_are_not_right_are_errors) {
    CHECK_EQ(frame_of("", 0, (aw_frame){2, false, 0}, 64), 0);
    CHECK_EQ(frame_of("\0", 1, (aw_frame){2, false, 0}, 64), -ENODATA);
    CHECK_EQ(frame_of("\0\3ab", 4, (aw_frame){2, false, 0}, 64), -ENODATA);
    CHECK_EQ(frame_of("\0\3abc", 5, (aw_frame){2, false, 0}, 64), 1);
    CHECK_EQ(frame_of("\0\3abc", 5, (aw_frame){2, false, 0}, 5), 1);
    CHECK_EQ(frame_of("\0\3abc", 5, (aw_frame){2, false, 0}, 4), -EMSGSIZE);
    CHECK_EQ(frame_of("\0\3abc", 5, (aw_frame){2, false, 2}, 64), -EMSGSIZE);
    CHECK_EQ(frame_of("\3\0abc", 5, (aw_frame){2, true, 0}, 64), 1);
    CHECK_EQ(frame_of("\xff\xff\xff\xff", 4, (aw_frame){4, false, 0}, 64), -EMSGSIZE);
    CHECK_EQ(frame_of("\x83\x80\x80\x80", 4, (aw_frame){AW_FRAME_VARINT, false, 0}, 64), -EBADMSG);
    CHECK_EQ(frame_of("\0\3abc", 5, (aw_frame){0, false, 0}, 64), -EINVAL);
    CHECK_EQ(frame_of("\0\3abc", 5, (aw_frame){5, false, 0}, 64), -EINVAL);
}

TEST(frames_that_do_not_fit_are_not_begun) {
    uint64_t random = test_seed();
    char to[64], buffer[16];
    static const char data[300] = {0};
    struct slow_conn t = slow_conn(&random, NULL, 0, to, sizeof to);
    aw_writer w = aw_writer_of(&t.conn, buffer, sizeof buffer);
    static const struct {
        aw_frame format;
        size_t size;
        ssize_t out;
    } cases[] = {
        {{1, false, 0}, 256, -EMSGSIZE}, {{2, false, 10}, 11, -EMSGSIZE},
        {{2, false, 10}, 10, 10},        {{2, false, 0}, 15, -EMSGSIZE},
        {{2, false, 0}, 14, 14},         {{0, false, 0}, 1, -EINVAL},
        {{9, false, 0}, 1, -EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        aw_writer_future f = aw_writer_frame(&w, cases[i].format, data, cases[i].size);
        size_t before = t.out_size + aw_writer_size(&w);
        CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
        CHECK_EQ(f.out, cases[i].out);
        if (f.out < 0) CHECK_EQ(t.out_size + aw_writer_size(&w), before);
    }
}

/* ---- On descriptors ----------------------------------------------------------------------------- */

enum { MESSAGES = 1000 };
static const aw_frame wire_format = {2, false, 0};

AW_FIBER(int, send_frames, aw_conn *conn;) {
    char buffer[500], data[200];
    aw_writer w = aw_writer_of(self->conn, buffer, sizeof buffer);
    w.high = 300;
    w.low = 100;
    for (int i = 0; i < MESSAGES; i++) {
        memset(data, i, sizeof data);
        if (aw_await(aw_writer_frame(&w, wire_format, data, (size_t)(i % 200))) != i % 200)
            return -EIO;
    }
    return (int)aw_await(aw_writer_shutdown(&w));
}

AW_ASYNC(int, take_frames, aw_conn *conn; aw_reader reader; int i; aw_reader_future frame;) {
    AW_BEGIN;
    CHECK_EQ(aw_reader_init(&self->reader, self->conn, 300), 0);
    for (;; self->i++) {
        AW_AWAIT(self->frame, aw_reader_frame(&self->reader, wire_format));
        if (self->frame.out <= 0) break;
        CHECK_EQ(self->reader.item.size, (size_t)self->i % 200);
        for (size_t k = 0; k < self->reader.item.size; k++)
            CHECK_EQ(self->reader.item.data[k], (char)self->i);
    }
    CHECK_EQ(self->frame.out, 0);
    AW_RETURN(self->i);
    AW_FINALLY;
    if (AW_STARTED) aw_reader_free(&self->reader);
    AW_END;
}

ON_DRIVERS(a_fiber_sends_frames_to_a_task) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    struct take_frames *t = aw_spawn_on(rt, AW_CALL(take_frames, .conn = ends[1]));
    struct send_frames *s = aw_spawn_on(rt, AW_CALL(send_frames, .conn = ends[0]));
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(s), 0);
    CHECK_EQ(aw_task_take(t), MESSAGES);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
