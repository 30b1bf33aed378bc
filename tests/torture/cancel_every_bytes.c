/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: byte streams, in the chains of support/cancel_every_await.h. Each future works on a
 * connection that pends; its calls may finish although they are cancelled. After a cut, a second
 * future in the cleanup continues where the first one stopped. This shows that nothing was lost or
 * done twice. */
#include <errno.h>

#include "support/cancel_every_await.h"
#include "support/slow_conn.h"

static const char text[] = "alpha\nbeta\r\ngamma, delta and epsilon\nomega";
enum { SIZE = sizeof text - 1, MUCH = 200 };

static struct {
    uint64_t random;
    struct slow_conn t, u;
    char to[MUCH], buffer[48];
    size_t done; /* bytes read or written so far */
    bool made;
} scene;

static void make_scene(void) {
    uint64_t random = 1 + chain.style * 77;
    scene.random = random;
    scene.done = 0;
    scene.made = true;
    memset(scene.to, 0, sizeof scene.to);
    scene.t = slow_conn(&scene.random, text, SIZE, scene.to, MUCH);
    scene.u = slow_conn(&scene.random, text, SIZE, scene.to, MUCH);
    scene.t.max_bytes = scene.u.max_bytes = 20;
    scene.t.pends = scene.u.pends = 2;
}

static void check_scene(void) {
    CHECK_EQ(scene.t.in_flight + scene.t.refs, 0);
    CHECK_EQ(scene.u.in_flight + scene.u.refs, 0);
    if (scene.made) CHECK_EQ(memcmp(scene.to, text, SIZE), 0);
    scene.made = false;
}

/* Nothing to continue: the first future was never made. */
static aw_future *nothing(void) {
    static aw_ready ready;
    ready = aw_ready_now(0);
    return &ready.future;
}

/* ---- Whole transfers ------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_transfer */
static aw_transfer transfer, transfer_rest;
static aw_future *make_write_all(void) {
    make_scene();
    transfer = aw_write_all(&scene.t.conn, text, SIZE);
    return &transfer.future;
}
static aw_future *rest_of_write_all(void) {
    if (!scene.made) return nothing();
    transfer_rest = aw_write_all(&scene.t.conn, text + transfer.done, SIZE - transfer.done);
    return &transfer_rest.future;
}
static aw_future *make_read_exact(void) {
    make_scene();
    transfer = aw_read_exact(&scene.t.conn, scene.to, SIZE);
    return &transfer.future;
}
static aw_future *rest_of_read_exact(void) {
    if (!scene.made) return nothing();
    transfer_rest = aw_read_exact(&scene.t.conn, scene.to + transfer.done, SIZE - transfer.done);
    return &transfer_rest.future;
}
static void take_transfer(aw_future *f) {
    (void)f;
    CHECK_EQ(transfer.out, SIZE);
    CHECK_EQ(transfer.done, SIZE);
}
TEST(write_all) {
    cancel_everywhere(
        (struct specimen){make_write_all, take_transfer, rest_of_write_all, NULL, check_scene});
}
TEST(read_exact) {
    cancel_everywhere(
        (struct specimen){make_read_exact, take_transfer, rest_of_read_exact, NULL, check_scene});
}

/* cancel-at-every-await: aw_transferv */
static aw_transferv transferv;
static struct iovec parts[3];
static aw_future *make_writev_all(void) {
    make_scene();
    for (size_t i = 0; i < 3; i++)
        parts[i] = (struct iovec){(char *)(uintptr_t)text + 10 * i, i < 2 ? 10 : SIZE - 20};
    transferv = aw_writev_all(&scene.t.conn, parts, 3);
    return &transferv.future;
}
static aw_future *rest_of_writev_all(void) {
    if (!scene.made) return nothing();
    transfer_rest = aw_write_all(&scene.t.conn, text + transferv.done, SIZE - transferv.done);
    return &transfer_rest.future;
}
TEST(writev_all) {
    cancel_everywhere(
        (struct specimen){make_writev_all, NULL, rest_of_writev_all, NULL, check_scene});
}

/* ---- Readers --------------------------------------------------------------------------------- */

static aw_reader reader;
static aw_reader_future reading, reading_rest;
static aw_bytes gathered;

static void make_reader(void) {
    make_scene();
    reader = aw_reader_of(&scene.t.conn, scene.buffer, sizeof scene.buffer);
}

/* Records what was taken. The cleanup reads the rest. */
static void note(const void *data, size_t size) {
    CHECK_LE(scene.done + size, SIZE);
    if (size) memcpy(scene.to + scene.done, data, size);
    scene.done += size;
}
static aw_future *rest_of_reader(void) {
    if (!scene.made) return nothing();
    if (reader.user) FAIL("the reader is still in use");
    reading_rest = aw_reader_read_exact(&reader, scene.to + scene.done, SIZE - scene.done);
    return &reading_rest.future;
}
static void check_reader(void) {
    if (scene.made) CHECK_EQ(reading_rest.out, (ssize_t)(SIZE - scene.done));
    check_scene();
}

static aw_future *make_line(void) {
    make_reader();
    reading = aw_reader_line(&reader);
    return &reading.future;
}
static void take_line(aw_future *f) {
    (void)f;
    CHECK_EQ(reading.out, 1);
    CHECK_EQ(reader.item.size, 5);
    note(reader.item.data, 6); /* with its newline */
}
static aw_future *make_fill(void) {
    make_reader();
    reading = aw_reader_fill(&reader, 30);
    return &reading.future;
}
static void take_fill(aw_future *f) {
    (void)f;
    CHECK_GE(reading.out, 30);
    aw_slice s = aw_reader_peek(&reader);
    note(s.data, 7);
    aw_reader_consume(&reader, 7);
}
static char aside[SIZE];
static size_t aside_size;
static aw_future *make_reader_read_exact(void) {
    make_reader();
    aside_size = chain.style & 1 ? 20 : 30;
    if (!(chain.style & 1)) reader.capacity = 16; /* bypasses the buffer */
    reading = aw_reader_read_exact(&reader, aside, aside_size);
    return &reading.future;
}
static void take_reader_read_exact(aw_future *f) {
    (void)f;
    CHECK_EQ(reading.out, (ssize_t)aside_size);
}
static aw_future *rest_after_aside(void) {
    if (scene.made) note(aside, reading.done);
    return rest_of_reader();
}
static aw_future *make_read_to_end(void) {
    make_reader();
    reader.capacity = 16;
    reading = aw_reader_read_to_end(&reader, &gathered, 30);
    return &reading.future;
}
static void take_read_to_end(aw_future *f) {
    (void)f;
    CHECK_EQ(reading.out, -EMSGSIZE);
    CHECK_EQ(gathered.size, 30);
}
static aw_future *make_line_into(void) {
    make_reader();
    reader.capacity = 4;
    reading = aw_reader_line_into(&reader, &gathered, SIZE);
    return &reading.future;
}
static void take_line_into(aw_future *f) {
    (void)f;
    CHECK_EQ(reading.out, 1);
    CHECK_EQ(gathered.size, 5);
    CHECK_EQ(aw_bytes_append(&gathered, "\n", 1), 0);
}
static aw_future *rest_after_gathering(void) {
    if (scene.made) note(gathered.data, gathered.size);
    aw_bytes_free(&gathered);
    return rest_of_reader();
}

/* cancel-at-every-await: aw_reader_future */
TEST(reader_line) {
    cancel_everywhere((struct specimen){make_line, take_line, rest_of_reader, NULL, check_reader});
}
TEST(reader_fill) {
    cancel_everywhere((struct specimen){make_fill, take_fill, rest_of_reader, NULL, check_reader});
}
TEST(reader_read_exact) {
    cancel_everywhere((struct specimen){make_reader_read_exact, take_reader_read_exact,
                                        rest_after_aside, NULL, check_reader});
}
TEST(reader_read_to_end) {
    cancel_everywhere((struct specimen){make_read_to_end, take_read_to_end, rest_after_gathering,
                                        NULL, check_reader});
}
TEST(reader_line_into) {
    cancel_everywhere((struct specimen){make_line_into, take_line_into, rest_after_gathering, NULL,
                                        check_reader});
}

/* ---- Writers --------------------------------------------------------------------------------- */

static aw_writer writer;
static aw_writer_future writing, writing_rest;
static const aw_frame frame_format = {1, false, 0};

static void make_writer(size_t capacity) {
    make_scene();
    writer = aw_writer_of(&scene.t.conn, scene.buffer, capacity);
}

/* The buffer holds what was accepted. Writes the rest of the text, and flushes. */
static struct write_rest {
    AW_FRAME(int);
    size_t at;
    struct chain_via via;
} write_rest;
AW_ASYNC_STATIC(write_rest) {
    AW_BEGIN;
    if (writer.user) FAIL("the writer is still in use");
    writing_rest = aw_writer_write(&writer, text + self->at, SIZE - self->at);
    AW_AWAIT(self->via, chain_via(&writing_rest.future));
    CHECK_EQ(writing_rest.out, (ssize_t)(SIZE - self->at));
    writing_rest = aw_writer_flush(&writer);
    AW_AWAIT(self->via, chain_via(&writing_rest.future));
    CHECK_EQ(writing_rest.out, 0);
    AW_RETURN(0);
    AW_END;
}
static aw_future *write_rest_from(size_t at) {
    if (!scene.made) return nothing();
    write_rest = AW_CALL(write_rest, .at = at);
    return &write_rest.future;
}

static aw_future *make_writing(void) {
    make_writer(16);
    writer.high = 12;
    writer.low = 4;
    writing = aw_writer_write(&writer, text, chain.style & 1 ? SIZE : 30);
    return &writing.future;
}
static aw_future *rest_of_writing(void) {
    return write_rest_from(writing.done);
}
static aw_future *make_flush(void) {
    make_writer(48);
    CHECK_EQ(aw_writer_put(&writer, text, 20), 0);
    writer.high = 15;
    writing = chain.style & 1 ? aw_writer_drain(&writer) : aw_writer_flush(&writer);
    return &writing.future;
}
static aw_future *rest_after_20(void) {
    return write_rest_from(20);
}
static aw_future *make_shutdown(void) {
    make_writer(48);
    CHECK_EQ(aw_writer_put(&writer, text, SIZE), 0);
    writing = aw_writer_shutdown(&writer);
    return &writing.future;
}
static void take_zero(aw_future *f) {
    (void)f;
    CHECK_EQ(writing.out, 0);
}
static aw_future *shutdown_again(void) {
    if (!scene.made) return nothing();
    writing_rest = aw_writer_shutdown(&writer);
    return &writing_rest.future;
}
static void check_shutdown(void) {
    if (scene.made) CHECK(scene.t.shut);
    check_scene();
}
/* The length byte of the frame is replaced by text[10], so that the output is the text. */
static aw_future *make_frame(void) {
    make_writer(16);
    CHECK_EQ(aw_writer_put(&writer, text, 10), 0);
    writing = aw_writer_frame(&writer, frame_format, text + 11, text[10]);
    writing.size = 8;
    writing.head[0] = text[10];
    return &writing.future;
}
static aw_future *rest_of_frame(void) {
    return write_rest_from(writing.done ? 19 : 10);
}
static aw_future *make_frame_in(void) {
    make_reader();
    scene.t.in = "\6alpha\n\44beta\r\ngamma, delta and epsilon\nomega";
    scene.t.in_size = SIZE + 2;
    reading = aw_reader_frame(&reader, frame_format);
    return &reading.future;
}
static aw_future *rest_after_frame(void) {
    if (!scene.made) return nothing();
    reading_rest = aw_reader_frame(&reader, frame_format);
    return &reading_rest.future;
}
static void take_frame_in(aw_future *f) {
    (void)f;
    CHECK_EQ(reading.out, 1);
    note(reader.item.data, reader.item.size);
}
static void check_frame_in(void) {
    if (scene.made) {
        CHECK_EQ(reading_rest.out, 1);
        note(reader.item.data, reader.item.size);
        CHECK(scene.done == SIZE || scene.done == 6); /* both frames, or the first one only */
        CHECK_EQ(memcmp(scene.to, text, scene.done), 0);
        scene.made = false;
    }
    check_scene();
}

/* cancel-at-every-await: aw_writer_future */
TEST(writer_write) {
    cancel_everywhere((struct specimen){make_writing, NULL, rest_of_writing, NULL, check_scene});
}
TEST(writer_flush_and_drain) {
    cancel_everywhere((struct specimen){make_flush, take_zero, rest_after_20, NULL, check_scene});
}
TEST(writer_shutdown) {
    cancel_everywhere(
        (struct specimen){make_shutdown, take_zero, shutdown_again, NULL, check_shutdown});
}
TEST(writer_frame) {
    cancel_everywhere((struct specimen){make_frame, NULL, rest_of_frame, NULL, check_scene});
}
TEST(reader_frame) {
    cancel_everywhere(
        (struct specimen){make_frame_in, take_frame_in, rest_after_frame, NULL, check_frame_in});
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_copy_future */
static aw_copy_future copy, copy_rest;
static aw_future *make_copy(void) {
    make_reader();
    copy = aw_copy(&reader, &scene.u.conn);
    return &copy.future;
}
static void take_copy(aw_future *f) {
    (void)f;
    CHECK_EQ(copy.out, SIZE);
}
static aw_future *rest_of_copy(void) {
    if (!scene.made) return nothing();
    copy_rest = aw_copy(&reader, &scene.u.conn);
    return &copy_rest.future;
}
static void check_copy(void) {
    if (scene.made) CHECK_EQ(copy.done + copy_rest.done, SIZE);
    check_scene();
}
TEST(copy_to_the_end) {
    cancel_everywhere((struct specimen){make_copy, take_copy, rest_of_copy, NULL, check_copy});
}

/* cancel-at-every-await: aw_copy_bidirectional_future */
static aw_copy_bidirectional_future both, both_rest;
static aw_reader other_reader;
static char other_buffer[20], other_to[MUCH];
static aw_future *make_both(void) {
    make_reader();
    other_reader = aw_reader_of(&scene.u.conn, other_buffer, sizeof other_buffer);
    scene.u.out = other_to;
    both = aw_copy_bidirectional(&reader, &other_reader);
    return &both.future;
}
static void take_both(aw_future *f) {
    (void)f;
    CHECK_EQ(both.out, 0);
}
static aw_future *rest_of_both(void) {
    if (!scene.made) return nothing();
    both_rest = aw_copy_bidirectional(&reader, &other_reader);
    return &both_rest.future;
}
static void check_both(void) {
    if (scene.made) {
        CHECK_EQ(both.there.done + both_rest.there.done, SIZE);
        CHECK_EQ(both.back.done + both_rest.back.done, SIZE);
        CHECK_EQ(memcmp(other_to, text, SIZE), 0);
        CHECK(scene.t.shut && scene.u.shut);
    }
    check_scene();
}
TEST(copy_both) {
    cancel_everywhere((struct specimen){make_both, take_both, rest_of_both, NULL, check_both});
}
