/* SPDX-License-Identifier: MIT
 *
 * A discarded line goes back into the reader only if nothing else was read since: later, its
 * bytes in the buffer may have been overwritten. */
#include "support/io_ends.h"

struct scene {
    aw_runtime *rt;
    aw_conn *ends[2];
    char buffer[16];
    aw_reader reader;
};

static struct scene *scene_new(struct io_setup how, memory *m) {
    static struct scene s;
    s.rt = io_runtime(how, m, NULL);
    io_pair(s.ends);
    s.reader = aw_reader_of(s.ends[1], s.buffer, sizeof s.buffer);
    return &s;
}

static void scene_end(struct scene *s, memory *m) {
    aw_close(s->ends[0]);
    aw_close(s->ends[1]);
    workers_end(s->rt, m);
}

static void say(struct scene *s, const char *text) {
    ssize_t size = (ssize_t)strlen(text);
    CHECK_EQ(aw_block_on(s->rt, aw_write_all(s->ends[0], text, (size_t)size)), size);
}

/* Returns with all of `text` in the reader's buffer. */
static void say_and_fill(struct scene *s, const char *text) {
    say(s, text);
    CHECK_EQ(aw_block_on(s->rt, aw_reader_fill(&s->reader, strlen(text))), (ssize_t)strlen(text));
}

static void check_item(const struct scene *s, const char *line) {
    CHECK(s->reader.item.data >= s->buffer);
    CHECK(s->reader.item.data + s->reader.item.size <= s->buffer + sizeof s->buffer);
    CHECK_EQ(s->reader.item.size, strlen(line));
    CHECK_EQ(memcmp(s->reader.item.data, line, strlen(line)), 0);
}

static void hear(struct scene *s, const char *line) {
    CHECK_EQ(aw_block_on(s->rt, aw_reader_line(&s->reader)), 1);
    check_item(s, line);
}

/* ---- While another read waits ------------------------------------------------------------------- */

typedef AW_JOIN(aw_reader_future, aw_reader_future) two_lines;

AW_ASYNC(int, cut_two_lines, aw_reader *r; AW_TIMEOUT(two_lines) both;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->both, AW_MSEC(1),
                 AW_JOIN_OF(two_lines, aw_reader_line(self->r), aw_reader_line(self->r)));
    AW_RETURN(self->both.out);
    AW_END;
}

ON_DRIVERS(a_line_does_not_go_back_where_another_one_reads) {
    memory m;
    struct scene *s = scene_new(how, &m);
    say_and_fill(s, "first..\n");
    CHECK_EQ(aw_block_on(s->rt, AW_CALL(cut_two_lines, .r = &s->reader)), -ETIMEDOUT);
    CHECK_EQ(aw_reader_peek(&s->reader).size, 0);
    say(s, "x\n");
    hear(s, "x");
    scene_end(s, &m);
}

/* ---- Late --------------------------------------------------------------------------------------- */

/* A task that has read its line; the output is not taken. */
static aw_reader_future *line_in_a_task(struct scene *s) {
    aw_reader_future *task = aw_spawn_on(s->rt, aw_reader_line(&s->reader));
    while (!aw_task_is_finished(task))
        aw_block_on_status(s->rt, aw_yield_now());
    return task;
}

/* Without workers the output is discarded while the runtime runs, so run it. */
static void drop(struct scene *s, aw_reader_future *task) {
    aw_task_drop(task);
    for (int i = 0; i < 3; i++)
        aw_block_on_status(s->rt, aw_yield_now());
}

ON_DRIVERS(a_line_goes_back_when_its_task_is_dropped) {
    memory m;
    struct scene *s = scene_new(how, &m);
    say_and_fill(s, "one\ntwo\n");
    drop(s, line_in_a_task(s));
    hear(s, "one");
    hear(s, "two");
    scene_end(s, &m);
}

ON_DRIVERS(a_line_does_not_go_back_behind_one_that_was_taken) {
    memory m;
    struct scene *s = scene_new(how, &m);
    say_and_fill(s, "one\n2\n3\n");
    aw_reader_future *task = line_in_a_task(s);
    hear(s, "2");
    drop(s, task);
    check_item(s, "2");
    hear(s, "3");
    scene_end(s, &m);
}

ON_DRIVERS(a_line_does_not_go_back_behind_what_was_consumed) {
    memory m;
    struct scene *s = scene_new(how, &m);
    say_and_fill(s, "one\n2\n3\n");
    aw_reader_future *task = line_in_a_task(s);
    aw_reader_consume(&s->reader, 2);
    drop(s, task);
    hear(s, "3");
    scene_end(s, &m);
}
