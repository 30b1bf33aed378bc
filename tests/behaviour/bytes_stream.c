/* SPDX-License-Identifier: MIT
 *
 * Lines and frames as a stream: the same items as from the reader itself, however often a `next`
 * is cancelled or its item discarded. A closed stream leaves in the reader what it has not
 * delivered. */
#include "support/io.h"

#include "support/slow_conn.h"

enum { LINES = 60, MAX_LETTERS = 30 };

/* "0", "1a", "2bb", ... */
static size_t make_lines(char *text) {
    size_t size = 0;
    for (int i = 0; i < LINES; i++) {
        size += (size_t)sprintf(text + size, "%d", i);
        memset(text + size, 'a' + i % 26, (size_t)(i % MAX_LETTERS));
        size += (size_t)(i % MAX_LETTERS);
        text[size++] = '\n';
    }
    return size;
}

static void check_line(const aw_slice *line, int i) {
    char number[16];
    size_t digits = (size_t)sprintf(number, "%d", i);
    CHECK_EQ(line->size, digits + (size_t)(i % MAX_LETTERS));
    CHECK_EQ(memcmp(line->data, number, digits), 0);
}

TEST(a_stream_of_lines_loses_none_across_cancels_and_closes) {
    uint64_t random = test_seed();
    char text[LINES * (MAX_LETTERS + 4)], buffer[64];
    size_t size = make_lines(text);
    for (int round = 0; round < test_scale(500); round++) {
        struct slow_conn t = slow_conn(&random, text, size, NULL, 0);
        aw_reader r = aw_reader_of(&t.conn, buffer, 35 + test_random(&random) % 29);
        aw_reader_stream s;
        unsigned cut = round % 4 ? 2 + (unsigned)(test_random(&random) % 30) : 0;
        int i = 0;
        aw_stream_reader(&s, aw_reader_line(&r));
        for (;;) {
            aw_stream_next_future next = aw_stream_next(&s);
            aw_poll how = DRIVE(&next, &random, cut);
            if (how == AW_READY && next.out == 1) {
                check_line(s.item, i);
                if (chance(&random, 6))
                    aw_future_discard(&next.future);
                else
                    i++;
            } else if (how == AW_READY) {
                CHECK_EQ(next.out, 0);
                break;
            }
            if (!chance(&random, 10)) continue;
            aw_stream_close_future close = aw_stream_close(&s);
            CHECK_EQ(DRIVE(&close, &random, 0), AW_READY);
            CHECK_EQ(t.in_flight + t.refs, 0);
            if (i < LINES && chance(&random, 2)) { /* one directly from the reader */
                aw_reader_future line = aw_reader_line(&r);
                CHECK_EQ(DRIVE(&line, &random, 0), AW_READY);
                CHECK_EQ(line.out, 1);
                check_line(&r.item, i++);
            }
            aw_stream_reader(&s, aw_reader_line(&r));
        }
        CHECK_EQ(i, LINES);
    }
}

TEST(an_error_is_reported_also_if_it_came_while_no_next_was_pending) {
    uint64_t random = test_seed();
    for (int round = 0; round < 300; round++) {
        char buffer[64];
        struct slow_conn t = slow_conn(&random, "abc", 3, NULL, 0);
        aw_reader r = aw_reader_of(&t.conn, buffer, sizeof buffer);
        aw_reader_stream s;
        t.in_error = -ECONNRESET; /* once */
        aw_stream_reader(&s, aw_reader_line(&r));
        for (;;) {
            aw_stream_next_future next = aw_stream_next(&s);
            if (DRIVE(&next, &random, round % 2 ? 3 : 0) == AW_CANCELLED) continue;
            CHECK_EQ(next.out, -ECONNRESET);
            break;
        }
        aw_stream_close_future close = aw_stream_close(&s);
        CHECK_EQ(DRIVE(&close, &random, 0), AW_READY);
    }
}

/* ---- Errors: reported once, then the stream has ended -------------------------------------------- */

static int next_of(aw_reader_stream *s) {
    uint64_t random = test_seed();
    aw_stream_next_future next = aw_stream_next(s);
    CHECK_EQ(DRIVE(&next, &random, 0), AW_READY);
    return next.out;
}

static void check_ends_after(aw_reader_stream *s, int error) {
    CHECK_EQ(next_of(s), error);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(next_of(s), 0);
}

TEST(a_line_that_is_too_long_ends_the_stream_and_stays_in_the_reader) {
    static const char text[] = "short\nthis line is longer than the buffer\nnext\n";
    uint64_t random = test_seed();
    struct slow_conn t = slow_conn(&random, text, sizeof text - 1, NULL, 0);
    char buffer[16];
    aw_reader r = aw_reader_of(&t.conn, buffer, sizeof buffer);
    aw_reader_stream s;
    aw_reader_future line;
    aw_stream_reader(&s, aw_reader_line(&r));
    CHECK_EQ(next_of(&s), 1);
    check_ends_after(&s, -EMSGSIZE);
    CHECK_EQ(memcmp(aw_reader_peek(&r).data, "this line", 9), 0);
    do { /* as awake/lines.h recommends */
        line = aw_reader_line(&r);
        CHECK_EQ(DRIVE(&line, &random, 0), AW_READY);
        if (line.out == -EMSGSIZE) aw_reader_consume(&r, aw_reader_peek(&r).size);
    } while (line.out == -EMSGSIZE);
    CHECK_EQ(line.out, 1); /* the rest of the long line */
    aw_stream_reader(&s, aw_reader_line(&r));
    CHECK_EQ(next_of(&s), 1);
    CHECK_EQ(s.item->size, 4);
    CHECK_EQ(memcmp(s.item->data, "next", 4), 0);
    CHECK_EQ(next_of(&s), 0);
}

TEST(a_frame_that_is_too_long_ends_the_stream) {
    uint64_t random = test_seed();
    struct slow_conn t = slow_conn(&random, "\1a\77b\1c", 6, NULL, 0);
    char buffer[16];
    aw_reader r = aw_reader_of(&t.conn, buffer, sizeof buffer);
    aw_reader_stream s;
    aw_stream_reader(&s, aw_reader_frame(&r, (aw_frame){.bytes = 1}));
    CHECK_EQ(next_of(&s), 1);
    check_ends_after(&s, -EMSGSIZE);
}

TEST(an_error_of_the_connection_ends_the_stream) {
    uint64_t random = test_seed();
    struct slow_conn t = slow_conn(&random, "abc\nde", 6, NULL, 0);
    char buffer[16];
    aw_reader r = aw_reader_of(&t.conn, buffer, sizeof buffer);
    aw_reader_stream s;
    t.in_error = -ECONNRESET; /* once */
    aw_stream_reader(&s, aw_reader_line(&r));
    CHECK_EQ(next_of(&s), 1);
    check_ends_after(&s, -ECONNRESET);
    CHECK_EQ(aw_reader_peek(&r).size, 2); /* "de" is not delivered as a last line */
}

/* ---- On descriptors, through an adapter ---------------------------------------------------------- */

AW_FILTER(even, aw_slice) {
    return (item->data[item->size - 1] - '0') % 2 == 0;
}

AW_ASYNC(int, say_numbers, aw_conn *conn; int i; char line[16]; aw_transfer io;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 500; self->i++) {
        AW_AWAIT(self->io, aw_write_all(self->conn, self->line,
                                        (size_t)sprintf(self->line, "%d\r\n", self->i)));
        CHECK_GT(self->io.out, 0);
    }
    aw_close(self->conn);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, even_numbers, aw_reader reader; aw_reader_stream lines; struct even even; int seen;
         aw_stream_next_future next; aw_stream_close_future close;) {
    AW_BEGIN;
    aw_stream_reader(&self->lines, aw_reader_line(&self->reader));
    self->even = AW_ADAPTER(even, &self->lines);
    AW_STREAM_EACH(self->next, &self->even) {
        CHECK_EQ(atoi(self->even.item->data), self->seen * 2);
        self->seen++;
    }
    CHECK_EQ(self->next.out, 0);
    AW_RETURN(self->seen);
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->close, aw_stream_close(&self->even));
    AW_END;
}

ON_DRIVERS(lines_go_through_other_streams) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char buffer[64];
    io_pair(ends);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(say_numbers, .conn = ends[0])));
    struct even_numbers *e = aw_spawn_on(
        rt, AW_CALL(even_numbers, .reader = aw_reader_of(ends[1], buffer, sizeof buffer)));
    CHECK_EQ(join_status(rt, &e->future), 0);
    CHECK_EQ(aw_task_take(e), 250);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* Aborted while it waits for a line: the read has ended before the buffer is freed. */
ON_DRIVERS(a_stream_that_waits_can_be_aborted) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char *buffer = malloc(64), to[3];
    io_pair(ends);
    struct even_numbers *e = aw_spawn_on(
        rt, AW_CALL(even_numbers, .reader = aw_reader_of(ends[1], buffer, 64)));
    run_a_while(rt);
    aw_task_abort(e);
    CHECK_EQ(join_status(rt, &e->future), -ECANCELED);
    aw_task_drop(e);
    free(buffer);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "abc", 3)), 3);
    CHECK_EQ(aw_block_on(rt, aw_read_exact(ends[1], to, 3)), 3);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
