/* SPDX-License-Identifier: MIT
 *
 * Readers: the same lines, parts and bytes however they arrive. Nothing is lost or read twice
 * when futures are cancelled, discarded or fail halfway. */
#include "support/io.h"

#include "support/slow_conn.h"

enum { SIZE = 2000 };

/* Lines of all lengths; some end with \r\n, some contain a \r, the last may have no terminator. */
static size_t make_text(char *text, size_t max_size, uint64_t *random) {
    size_t size = test_random(random) % max_size;
    unsigned line = 1 + (unsigned)(test_random(random) % 40);
    for (size_t i = 0; i < size; i++) {
        uint64_t r = test_random(random);
        text[i] = r % line == 0 ? '\n' : r % 7 == 0 ? '\r' : (char)('a' + r % 20);
    }
    return size;
}

static unsigned some_cuts(uint64_t *random) {
    return test_random(random) % 4 ? 2 + (unsigned)(test_random(random) % 30) : 0;
}

/* ---- What is expected --------------------------------------------------------------------------- */

struct expected {
    int out;
    size_t size, taken;
    bool terminated;
};

static struct expected expect_line(const char *text, size_t left, size_t limit, size_t capacity) {
    const char *found = left ? memchr(text, '\n', left) : NULL;
    size_t size = found ? (size_t)(found - text) : left;
    bool cr = found && size && text[size - 1] == '\r';
    if (!left) return (struct expected){0, 0, 0, false};
    if (size >= capacity || size - cr > limit) return (struct expected){-EMSGSIZE, 0, 0, false};
    return (struct expected){1, size - cr, size + (found ? 1 : 0), found};
}

/* ---- Lines -------------------------------------------------------------------------------------- */

TEST(lines_are_the_same_however_they_arrive) {
    uint64_t random = test_seed();
    char text[SIZE], buffer[SIZE];
    for (int round = 0; round < test_scale(1500); round++) {
        size_t size = make_text(text, SIZE, &random), at = 0;
        size_t capacity = 1 + test_random(&random) % (chance(&random, 2) ? 80 : SIZE),
               limit = chance(&random, 2) ? SIZE_MAX : test_random(&random) % 60;
        struct slow_conn t = slow_conn(&random, text, size, NULL, 0);
        aw_reader r = aw_reader_of(&t.conn, buffer, capacity);
        unsigned cut = some_cuts(&random);
        for (;;) {
            aw_reader_future f = aw_reader_line_max(&r, limit);
            aw_poll how = DRIVE(&f, &random, cut);
            CHECK_EQ(t.in_flight + t.refs, 0);
            if (how == AW_CANCELLED) {
                CHECK_EQ(f.done, 0);
                continue;
            }
            struct expected e = expect_line(text + at, size - at, limit, capacity);
            CHECK_EQ(f.out, e.out);
            CHECK_EQ(f.done, e.taken);
            if (e.out == 1) {
                CHECK_EQ(r.item.size, e.size);
                CHECK_EQ(memcmp(r.item.data, text + at, e.size), 0);
                CHECK_EQ(r.terminated, e.terminated);
            }
            if (e.out == 1 && chance(&random, 5)) {
                aw_future_discard(&f.future); /* the next call returns it again */
                continue;
            }
            at += e.taken;
            if (e.out == 0) break;
            if (e.out < 0) aw_reader_consume(&r, 1), at++;
        }
        CHECK_EQ(at, size);
        CHECK(r.ended);
    }
}

TEST(gathered_lines_are_the_same_and_may_be_longer_than_the_buffer) {
    uint64_t random = test_seed();
    char text[SIZE], buffer[64];
    memory m;
    aw_set_allocator(memory_init(&m));
    for (int round = 0; round < test_scale(1500); round++) {
        size_t size = make_text(text, SIZE, &random), at = 0;
        size_t capacity = 2 + test_random(&random) % 62,
               limit = chance(&random, 2) ? SIZE_MAX : test_random(&random) % 100;
        struct slow_conn t = slow_conn(&random, text, size, NULL, 0);
        aw_reader r = aw_reader_of(&t.conn, buffer, capacity);
        aw_bytes line = AW_BYTES_INIT;
        unsigned cut = some_cuts(&random);
        size_t taken = 0;
        for (;;) {
            aw_reader_future f = aw_reader_line_into(&r, &line, limit);
            aw_poll how = DRIVE(&f, &random, cut);
            taken += f.done;
            if (how == AW_CANCELLED) continue;
            struct expected e = expect_line(text + at, size - at, limit, SIZE + 1);
            CHECK_EQ(f.out, e.out);
            if (e.out < 0) break; /* what was consumed is in `line` */
            CHECK_EQ(taken, e.taken);
            CHECK_EQ(line.size, e.size);
            CHECK_EQ(r.terminated, e.terminated);
            if (e.size) CHECK_EQ(memcmp(line.data, text + at, e.size), 0);
            at += taken;
            taken = line.size = 0;
            if (e.out == 0) break;
        }
        CHECK(line.size <= limit);
        if (taken) CHECK_EQ(memcmp(line.data, text + at, taken), 0);
        aw_bytes_free(&line);
    }
    aw_set_allocator(NULL);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(parts_end_with_any_byte_and_keep_their_carriage_returns) {
    uint64_t random = test_seed();
    char buffer[16];
    struct slow_conn t = slow_conn(&random, "one\r;;three\n;4", 14, NULL, 0);
    aw_reader r = aw_reader_of(&t.conn, buffer, sizeof buffer);
    static const char *const parts[] = {"one\r", "", "three\n", "4"};
    for (int i = 0; i < 4; i++) {
        aw_reader_future f = aw_reader_until(&r, ';', 6);
        CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
        CHECK_EQ(f.out, 1);
        CHECK_EQ(r.item.size, strlen(parts[i]));
        CHECK_EQ(memcmp(r.item.data, parts[i], r.item.size), 0);
        CHECK_EQ(r.terminated, i < 3);
    }
    aw_reader_future end = aw_reader_until(&r, ';', 6);
    CHECK_EQ(DRIVE(&end, &random, 0), AW_READY);
    CHECK_EQ(end.out, 0);
}

/* ---- Bytes -------------------------------------------------------------------------------------- */

/* The results of any sequence of calls, concatenated, are what was sent. */
TEST(all_ways_to_read_can_be_mixed) {
    uint64_t random = test_seed();
    char text[SIZE], buffer[200], to[SIZE];
    for (int round = 0; round < test_scale(1500); round++) {
        size_t size = make_text(text, SIZE, &random), at = 0;
        struct slow_conn t = slow_conn(&random, text, size, NULL, 0);
        aw_reader r = aw_reader_of(&t.conn, buffer, 1 + test_random(&random) % sizeof buffer);
        unsigned cut = some_cuts(&random);
        for (bool over = false; !over;) {
            size_t want = test_random(&random) % (chance(&random, 2) ? 20 : 300);
            unsigned kind = (unsigned)(test_random(&random) % 4);
            aw_reader_future f = kind == 0   ? aw_reader_read(&r, to, want)
                                 : kind == 1 ? aw_reader_read_exact(&r, to, want)
                                 : kind == 2 ? aw_reader_fill(&r, want)
                                             : aw_reader_line(&r);
            aw_poll how = DRIVE(&f, &random, cut);
            if (how == AW_READY && chance(&random, 8)) {
                aw_future_discard(&f.future);
                if (f.done == 0) continue;
            }
            if (kind < 2) CHECK_EQ(memcmp(to, text + at, f.done), 0);
            if (kind == 1 && how == AW_CANCELLED && want <= r.capacity) CHECK_EQ(f.done, 0);
            at += f.done;
            CHECK_LE(at, t.in_at);
            if (how == AW_CANCELLED) continue;
            if (kind == 0) CHECK_EQ(f.out, (ssize_t)f.done);
            if (kind == 0 && want && f.out == 0) CHECK_EQ(at, size);
            if (kind == 1) CHECK_EQ(f.out, f.done == want ? (ssize_t)want : -ENODATA);
            if (kind == 1 && f.out < 0 && want > r.capacity) CHECK_EQ(at, size);
            if (kind == 2 && want > r.capacity) CHECK_EQ(f.out, -EMSGSIZE);
            if (kind == 2 && f.out >= 0) {
                aw_slice s = aw_reader_peek(&r);
                CHECK_EQ(f.out, (ssize_t)s.size);
                CHECK(s.size >= want || at + s.size == size);
                CHECK_EQ(memcmp(s.data, text + at, s.size), 0);
                size_t n = test_random(&random) % (s.size + 1);
                aw_reader_consume(&r, n);
                at += n;
            }
            if (kind == 3 && f.out == -EMSGSIZE) aw_reader_consume(&r, 1), at++;
            over = kind == 3 && f.out == 0;
        }
        CHECK_EQ(at, size);
    }
}

TEST(an_error_in_the_middle_leaves_what_came_before) {
    uint64_t random = test_seed();
    char buffer[32], to[32];
    struct slow_conn t = slow_conn(&random, "abc\nde", 6, NULL, 0);
    t.in_error = -ECONNRESET;
    aw_reader r = aw_reader_of(&t.conn, buffer, sizeof buffer);
    aw_reader_future line = aw_reader_line(&r), broken = line, exact, rest;
    CHECK_EQ(DRIVE(&line, &random, 0), AW_READY);
    CHECK_EQ(line.out, 1);
    CHECK_EQ(DRIVE(&broken, &random, 0), AW_READY);
    CHECK_EQ(broken.out, -ECONNRESET);
    CHECK_EQ(aw_reader_peek(&r).size, 2);
    exact = aw_reader_read_exact(&r, to, 3);
    CHECK_EQ(DRIVE(&exact, &random, 0), AW_READY);
    CHECK_EQ(exact.out, -ENODATA);
    CHECK_EQ(exact.done, 0);
    rest = aw_reader_read(&r, to, sizeof to);
    CHECK_EQ(DRIVE(&rest, &random, 0), AW_READY);
    CHECK_EQ(rest.out, 2);
    CHECK_EQ(memcmp(to, "de", 2), 0);
}

/* ---- Everything to the end ---------------------------------------------------------------------- */

TEST(all_to_the_end_with_a_limit_across_cancels) {
    uint64_t random = test_seed();
    static char text[20000];
    char buffer[300];
    memory m;
    aw_set_allocator(memory_init(&m));
    fill_random(text, sizeof text, &random);
    for (int round = 0; round < test_scale(400); round++) {
        size_t size = test_random(&random) % sizeof text, sum = 0,
               limit = chance(&random, 2) ? SIZE_MAX : test_random(&random) % sizeof text;
        struct slow_conn t = slow_conn(&random, text, size, NULL, 0);
        t.max_bytes = 1u << test_random(&random) % 14;
        if (t.max_bytes < 64) t.max_bytes = 64;
        aw_reader r = aw_reader_of(&t.conn, buffer, 1 + test_random(&random) % sizeof buffer);
        aw_bytes all = AW_BYTES_INIT;
        unsigned cut = some_cuts(&random);
        for (aw_poll how = AW_CANCELLED; how == AW_CANCELLED;) {
            aw_reader_future f = aw_reader_read_to_end(&r, &all, limit);
            how = DRIVE(&f, &random, cut);
            sum += f.done;
            if (how == AW_READY) CHECK_EQ(f.out, size > limit ? -EMSGSIZE : (ssize_t)f.done);
        }
        CHECK_EQ(sum, all.size);
        CHECK(all.size <= limit);
        if (all.size) CHECK_EQ(memcmp(all.data, text, all.size), 0);
        if (size <= limit) CHECK_EQ(all.size, size);
        aw_slice left = aw_reader_peek(&r); /* what is beyond the limit stays in the reader */
        CHECK_EQ(memcmp(left.data, text + all.size, left.size), 0);
        CHECK_EQ(all.size + left.size, t.in_at);
        aw_bytes_free(&all);
    }
    aw_set_allocator(NULL);
    CHECK_EQ(memory_in_use(&m), 0);
}

static void *alloc_nothing(void *data, size_t size) {
    (void)data, (void)size;
    return NULL;
}
static void free_nothing(void *data, void *at, size_t size) {
    (void)data, (void)at, (void)size;
}

/* As with an allocator that puts blocks side by side, without headers. */
TEST(a_buffer_may_begin_where_the_bytes_end) {
    uint64_t random = test_seed();
    static const aw_allocator none = {alloc_nothing, free_nothing, NULL};
    char area[128], text[100];
    memset(text, 'x', sizeof text);
    for (int lines = 0; lines < 2; lines++) {
        struct slow_conn t = slow_conn(&random, text, sizeof text, NULL, 0);
        aw_bytes all = {area, 0, 64, &none};
        aw_reader r = aw_reader_of(&t.conn, area + 64, 64);
        t.max_bytes = 64;
        aw_reader_future f = lines ? aw_reader_line_into(&r, &all, 64)
                                   : aw_reader_read_to_end(&r, &all, 64);
        CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
        CHECK_EQ(f.out, -EMSGSIZE);
        CHECK_LE(all.size, all.capacity);
        CHECK_EQ(all.size + aw_reader_peek(&r).size, t.in_at);
    }
}

TEST(without_memory_nothing_is_lost) {
    uint64_t random = test_seed();
    char buffer[300];
    static char text[5000];
    memory m;
    fill_random(text, sizeof text, &random);
    aw_set_allocator(memory_init(&m));
    struct slow_conn t = slow_conn(&random, text, sizeof text, NULL, 0);
    aw_reader r = aw_reader_of(&t.conn, buffer, sizeof buffer), none;
    aw_bytes all = AW_BYTES_INIT;
    t.max_bytes = 100;
    for (int i = 0;; i++) {
        STORE(m.refuse, i % 2 == 0);
        aw_reader_future f = aw_reader_read_to_end(&r, &all, SIZE_MAX);
        CHECK_EQ(DRIVE(&f, &random, 0), AW_READY);
        if (f.out >= 0) break;
        CHECK_EQ(f.out, -ENOMEM);
        CHECK_EQ(all.size + aw_reader_peek(&r).size, t.in_at);
    }
    CHECK_EQ(all.size, sizeof text);
    CHECK_EQ(memcmp(all.data, text, sizeof text), 0);
    STORE(m.refuse, 1);
    CHECK_EQ(aw_reader_init(&none, &t.conn, 100), -ENOMEM);
    aw_reader_free(&none);
    STORE(m.refuse, 0);
    CHECK_EQ(aw_bytes_reserve(&all, SIZE_MAX), -ENOMEM);
    CHECK_EQ(aw_reader_init(&none, &t.conn, 100), 0);
    aw_reader_free(&none);
    aw_bytes_free(&all);
    aw_set_allocator(NULL);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- Misuse ------------------------------------------------------------------------------------- */

TEST(two_at_once_are_refused) {
    uint64_t random = test_seed();
    char buffer[16];
    struct slow_conn t = slow_conn(&random, "a\nb\n", 4, NULL, 0);
    aw_flag flag = {0};
    t.pends = 1; /* always */
    aw_reader r = aw_reader_of(&t.conn, buffer, sizeof buffer),
              empty = aw_reader_of(&t.conn, NULL, 0);
    aw_reader_future one = aw_reader_line(&r), two = one, three = one,
                     none = aw_reader_line(&empty);
    CHECK_EQ(POLL(&one, &flag), AW_PENDING);
    CHECK_EQ(POLL(&two, &flag), AW_READY);
    CHECK_EQ(two.out, -EBUSY);
    t.pends = 0;
    CHECK_EQ(CANCEL(&one, &flag), AW_CANCELLED);
    CHECK_EQ(POLL(&three, &flag), AW_READY);
    CHECK_EQ(three.out, 1);
    CHECK_EQ(POLL(&none, &flag), AW_READY);
    CHECK_EQ(none.out, -EINVAL);
}

TEST(lines_that_are_there_already_cost_budget) {
    char buffer[600];
    uint64_t random = 1;
    memset(buffer, '\n', sizeof buffer);
    struct slow_conn t = slow_conn(&random, "", 0, NULL, 0);
    aw_reader r = aw_reader_of(&t.conn, buffer, sizeof buffer);
    r.end = sizeof buffer;
    aw_flag flag = {0};
    aw_waker waker = aw_flag_waker(&flag);
    aw__meter meter = {.budget = 128};
    aw_cx cx = {&waker, NULL, &meter};
    for (int i = 0; i < 128; i++) {
        aw_reader_future f = aw_reader_line(&r);
        CHECK_EQ(aw_future_poll(&f.future, &cx), AW_READY);
    }
    aw_reader_future f = aw_reader_line(&r);
    CHECK_EQ(aw_future_poll(&f.future, &cx), AW_PENDING);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(aw_future_cancel(&f.future, &cx), AW_CANCELLED);
}

/* ---- On descriptors ----------------------------------------------------------------------------- */

enum { LINES = 2000 };

AW_ASYNC(int, say_lines, aw_conn *conn; int i; char line[40]; aw_transfer io;) {
    AW_BEGIN;
    for (self->i = 0; self->i < LINES; self->i++) {
        snprintf(self->line, sizeof self->line, "%0*d%s", 1 + self->i % 20, self->i,
                 self->i % 3 ? "\n" : "\r\n");
        AW_AWAIT(self->io, aw_write_all(self->conn, self->line, strlen(self->line)));
        CHECK_GT(self->io.out, 0);
    }
    aw_close(self->conn);
    AW_RETURN(0);
    AW_END;
}

static void check_line(const aw_reader *r, int i) {
    char line[40];
    snprintf(line, sizeof line, "%0*d", 1 + i % 20, i);
    CHECK_EQ(r->item.size, strlen(line));
    CHECK_EQ(memcmp(r->item.data, line, r->item.size), 0);
}

AW_ASYNC(int, hear_lines, aw_reader reader; int i; aw_reader_future line;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->line, aw_reader_line(&self->reader));
        if (self->line.out <= 0) break;
        check_line(&self->reader, self->i++);
    }
    CHECK_EQ(self->line.out, 0);
    AW_RETURN(self->i);
    AW_END;
}

AW_FIBER(int, hear_lines_in_a_fiber, aw_conn *conn;) {
    char buffer[100];
    aw_reader r = aw_reader_of(self->conn, buffer, sizeof buffer);
    int i = 0;
    ssize_t n;
    while ((n = aw_await(aw_reader_line(&r))) > 0)
        check_line(&r, i++);
    CHECK_EQ(n, 0);
    return i;
}

ON_DRIVERS(lines_come_to_a_task_and_to_a_fiber) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *a[2], *b[2];
    char buffer[64];
    io_pair(a);
    io_pair(b);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(say_lines, .conn = a[0])));
    aw_task_drop(aw_spawn_on(rt, AW_CALL(say_lines, .conn = b[0])));
    struct hear_lines *t = aw_spawn_on(
        rt, AW_CALL(hear_lines, .reader = aw_reader_of(a[1], buffer, sizeof buffer)));
    struct hear_lines_in_a_fiber *f = aw_spawn_on(rt, AW_CALL(hear_lines_in_a_fiber, .conn = b[1]));
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(join_status(rt, &f->future), 0);
    CHECK_EQ(aw_task_take(t), LINES);
    CHECK_EQ(aw_task_take(f), LINES);
    aw_close(a[1]);
    aw_close(b[1]);
    workers_end(rt, &m);
}
