/* SPDX-License-Identifier: MIT
 *
 * Lines and frames as a stream: the same items as by hand, however often a `next` is cancelled or its item given back; closed, it
 * leaves in the reader what it has not given. */
#include "support/io.h"

#include "support/trickle.h"

enum { LINES = 60, LONGEST = 30 };

/* "0", "1a", "2bb", ... */
static size_t make_lines(char *text) {
    size_t size = 0;
    for (int i = 0; i < LINES; i++) {
        size += (size_t)sprintf(text + size, "%d", i);
        memset(text + size, 'a' + i % 26, (size_t)(i % LONGEST));
        size += (size_t)(i % LONGEST);
        text[size++] = '\n';
    }
    return size;
}

static void check_line(const aw_slice *line, int i) {
    char number[16];
    size_t digits = (size_t)sprintf(number, "%d", i);
    CHECK_EQ(line->size, digits + (size_t)(i % LONGEST));
    CHECK_EQ(memcmp(line->data, number, digits), 0);
}

TEST(a_stream_of_lines_loses_none_across_cancels_and_closes) {
    uint64_t random = test_seed();
    char text[LINES * (LONGEST + 4)], room[64];
    size_t size = make_lines(text);
    for (int round = 0; round < test_scale(500); round++) {
        struct trickle t = trickle(&random, text, size, NULL, 0);
        aw_reader r = aw_reader_of(&t.conn, room, 35 + test_random(&random) % 29);
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
            CHECK_EQ(t.flying + t.kept, 0);
            if (i < LINES && chance(&random, 2)) { /* one by hand */
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

TEST(an_error_is_told_also_when_it_came_while_nobody_asked) {
    uint64_t random = test_seed();
    for (int round = 0; round < 300; round++) {
        char room[64];
        struct trickle t = trickle(&random, "abc", 3, NULL, 0);
        aw_reader r = aw_reader_of(&t.conn, room, sizeof room);
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

/* ---- On descriptors, with other streams over it -------------------------------------------------- */

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
    self->even = AW_OVER(even, &self->lines);
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
    char room[64];
    io_pair(ends);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(say_numbers, .conn = ends[0])));
    struct even_numbers *e = aw_spawn_on(
        rt, AW_CALL(even_numbers, .reader = aw_reader_of(ends[1], room, sizeof room)));
    CHECK_EQ(join_status(rt, &e->future), 0);
    CHECK_EQ(aw_task_take(e), 250);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* Aborted while it waits for a line: the read is gone before the buffer is. */
ON_DRIVERS(a_stream_that_waits_can_be_aborted) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char *room = malloc(64), to[3];
    io_pair(ends);
    struct even_numbers *e = aw_spawn_on(
        rt, AW_CALL(even_numbers, .reader = aw_reader_of(ends[1], room, 64)));
    run_a_while(rt);
    aw_task_abort(e);
    CHECK_EQ(join_status(rt, &e->future), -ECANCELED);
    aw_task_drop(e);
    free(room);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "abc", 3)), 3);
    CHECK_EQ(aw_block_on(rt, aw_read_exact(ends[1], to, 3)), 3);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
