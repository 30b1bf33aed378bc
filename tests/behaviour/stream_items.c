/* SPDX-License-Identifier: MIT
 *
 * Streams: their items, in which order, and the owner of an item at each moment. Arrays,
 * intervals, adapters, and the futures that take items. */
#include "support/by_hand.h"
#include "support/workers.h"

static int numbers[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

typedef AW_ARRAY_STREAM(int) ints;

static ints ints_of(int *array, size_t n) {
    ints s;
    aw_stream_array(&s, array, n);
    return s;
}

/* The next item of a stream that never waits. */
static int next_of(aw_stream *s) {
    aw_flag flag = {0};
    aw_stream_next_future next = aw_stream_next_of(s);
    CHECK_EQ(POLL(&next, &flag), AW_READY);
    return next.out;
}
#define NEXT(s) next_of(&(s)->stream)

/* Dropped items, by their value. */
static int dropped, dropped_sum;
static void count_drop(void *item) {
    dropped++;
    dropped_sum += *(int *)item;
}

AW_MAP(long, times, int, long by;) {
    return *item * self->by;
}
AW_FILTER(even, int) {
    return *item % 2 == 0;
}
AW_TAKE_WHILE(below, int, int limit;) {
    return *item < self->limit;
}
AW_FOLD(long, sum, int) {
    self->out += *item;
}

/* Fails once, after `fails_after` items. */
struct faulty {
    AW_STREAM_HEAD(int);
    int value, calls, fails_after;
    bool closed;
};
static aw_poll faulty_next(aw_stream *s, aw_cx *cx, int *out) {
    struct faulty *f = (struct faulty *)s;
    (void)cx;
    f->value = f->calls;
    f->item = &f->value;
    *out = f->calls++ == f->fails_after ? -EIO : 1;
    return AW_READY;
}
static aw_poll faulty_close(aw_stream *s, aw_cx *cx) {
    (void)cx;
    ((struct faulty *)s)->closed = true;
    return AW_READY;
}
static const aw_stream_type faulty_type = {
    .self_size = sizeof(aw_stream_type),
    .name = "faulty",
    .next = faulty_next,
    .close = faulty_close,
};
static struct faulty faulty(int fails_after) {
    return (struct faulty){.stream = AW_STREAM_INIT(&faulty_type), .fails_after = fails_after};
}

/* ---- Items ----------------------------------------------------------------------------------- */

TEST(an_array_gives_its_items_where_they_lie) {
    ints s = ints_of(numbers, 3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(NEXT(&s), 1);
        CHECK_EQ(s.item, &numbers[i]);
    }
    CHECK_EQ(NEXT(&s), 0);
}

TEST(after_its_end_a_stream_stays_at_its_end) {
    ints s = ints_of(numbers, 0);
    struct even e = AW_ADAPTER(even, &s);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(NEXT(&e), 0);
}

TEST(a_map_gives_what_its_function_makes_of_each_item) {
    ints s = ints_of(numbers, 3);
    struct times t = AW_ADAPTER(times, &s, .by = 1000000000000);
    for (long i = 1; i <= 3; i++) {
        CHECK_EQ(NEXT(&t), 1);
        CHECK_EQ(*t.item, i * 1000000000000);
    }
    CHECK_EQ(NEXT(&t), 0);
}

TEST(a_filter_drops_what_it_leaves_out_and_nothing_else) {
    ints s = ints_of(numbers, 5);
    aw_stream_drop_with(&s, count_drop);
    struct even e = AW_ADAPTER(even, &s);
    CHECK_EQ(NEXT(&e), 1);
    CHECK_EQ(e.item, &numbers[1]);
    CHECK_EQ(NEXT(&e), 1);
    CHECK_EQ(e.item, &numbers[3]);
    CHECK_EQ(NEXT(&e), 0);
    CHECK_EQ(dropped, 3);
    CHECK_EQ(dropped_sum, 1 + 3 + 5);
}

TEST(take_leaves_the_source_where_it_is) {
    ints s = ints_of(numbers, 4);
    AW_TAKE(int) t;
    aw_stream_take(&t, &s, 2);
    CHECK_EQ(NEXT(&t), 1);
    CHECK_EQ(NEXT(&t), 1);
    CHECK_EQ(*t.item, 2);
    CHECK_EQ(NEXT(&t), 0);
    CHECK_EQ(NEXT(&s), 1);
    CHECK_EQ(*s.item, 3);
    aw_stream_take(&t, &s, 9);
    CHECK_EQ(NEXT(&t), 1);
    CHECK_EQ(NEXT(&t), 0);
}

TEST(the_item_that_ends_a_take_while_stays_in_the_source) {
    ints s = ints_of(numbers, 4);
    struct below b = AW_ADAPTER(below, &s, .limit = 3);
    CHECK_EQ(NEXT(&b), 1);
    CHECK_EQ(NEXT(&b), 1);
    CHECK_EQ(NEXT(&b), 0);
    CHECK_EQ(NEXT(&b), 0);
    CHECK_EQ(NEXT(&s), 1);
    CHECK_EQ(*s.item, 3);
}

TEST(skip_drops_the_first_items) {
    ints s = ints_of(numbers, 4);
    aw_stream_drop_with(&s, count_drop);
    AW_SKIP(int) k;
    aw_stream_skip(&k, &s, 3);
    CHECK_EQ(NEXT(&k), 1);
    CHECK_EQ(*k.item, 4);
    CHECK_EQ(NEXT(&k), 0);
    CHECK_EQ(dropped_sum, 1 + 2 + 3);
}

TEST(an_error_passes_through_and_is_reported_once) {
    struct faulty s = faulty(1);
    struct even e = AW_ADAPTER(even, &s);
    struct times t = AW_ADAPTER(times, &e, .by = 1);
    AW_TAKE(long) k;
    aw_stream_take(&k, &t, 2);
    CHECK_EQ(NEXT(&k), 1);
    CHECK_EQ(*k.item, 0);
    CHECK_EQ(NEXT(&k), -EIO);
    CHECK_EQ(NEXT(&k), 1); /* an error is not counted */
    CHECK_EQ(*k.item, 2);
    CHECK_EQ(NEXT(&k), 0);
}

/* ---- Putting back ---------------------------------------------------------------------------- */

#define PUTS_BACK(s)                                                                               \
    do {                                                                                           \
        aw_flag flag_ = {0};                                                                       \
        aw_stream_next_future lost_ = aw_stream_next(s);                                           \
        CHECK_EQ(POLL(&lost_, &flag_), AW_READY);                                                  \
        CHECK_EQ(lost_.out, 1);                                                                    \
        void *item_ = (s)->item;                                                                   \
        aw_future_discard(&lost_.future);                                                          \
        CHECK_EQ(NEXT(s), 1);                                                                      \
        CHECK_EQ((s)->item, item_);                                                                \
    } while (0)

TEST(an_item_of_a_discarded_next_comes_again) {
    ints s = ints_of(numbers, 10);
    PUTS_BACK(&s);
    CHECK_EQ(*s.item, 1);
    struct even e = AW_ADAPTER(even, &s);
    PUTS_BACK(&e);
    CHECK_EQ(*e.item, 2);
    struct times t = AW_ADAPTER(times, &e, .by = 3);
    PUTS_BACK(&t);
    CHECK_EQ(*t.item, 12);
    AW_TAKE(long) k;
    aw_stream_take(&k, &t, 1);
    PUTS_BACK(&k);
    CHECK_EQ(*k.item, 18);
    CHECK_EQ(NEXT(&k), 0);
}

TEST(an_error_of_a_discarded_next_is_reported_again_and_is_no_item) {
    struct faulty s = faulty(0);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&s);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, -EIO);
    aw_future_discard(&f.future);
    CHECK_EQ(NEXT(&s), -EIO);
    CHECK_EQ(NEXT(&s), 1);
    CHECK_EQ(*s.item, 1);
}

TEST(a_next_that_was_never_polled_is_cancelled_and_has_taken_nothing) {
    ints s = ints_of(numbers, 1);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&s);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    CHECK_EQ(NEXT(&s), 1);
}

TEST(an_item_that_was_put_back_is_dropped_when_the_stream_is_closed) {
    ints s = ints_of(numbers, 2);
    aw_stream_drop_with(&s, count_drop);
    struct even e = AW_ADAPTER(even, &s);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&e);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    aw_future_discard(&f.future);
    CHECK_EQ(dropped, 1);
    aw_stream_close_future c = aw_stream_close(&e);
    CHECK_EQ(POLL(&c, &flag), AW_READY);
    CHECK_EQ(dropped_sum, 1 + 2);
    CHECK_EQ(NEXT(&e), 0);
    CHECK_EQ(NEXT(&s), 0);
    c = aw_stream_close(&e); /* a second close */
    CHECK_EQ(POLL(&c, &flag), AW_READY);
    CHECK_EQ(dropped, 2);
}

TEST(a_close_that_was_never_polled_closes_nothing) {
    struct faulty s = faulty(9);
    aw_flag flag = {0};
    aw_stream_close_future c = aw_stream_close(&s);
    CHECK_EQ(CANCEL(&c, &flag), AW_CANCELLED);
    CHECK(!s.closed);
    CHECK_EQ(NEXT(&s), 1);
}

/* ---- Taking many ----------------------------------------------------------------------------- */

TEST(a_fold_begins_with_its_initial_output) {
    aw_flag flag = {0};
    ints s = ints_of(numbers, 10);
    struct sum f = AW_FOLD_OF(sum, &s, .out = 1000);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 1055);
    CHECK_EQ(f.error, 0);
}

TEST(a_fold_ends_with_the_first_error) {
    aw_flag flag = {0};
    struct faulty s = faulty(3);
    struct sum f = AW_FOLD_OF(sum, &s);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.error, -EIO);
    CHECK_EQ(f.out, 0 + 1 + 2);
}

TEST(collect_moves_items_until_the_array_is_full_or_the_stream_ends) {
    aw_flag flag = {0};
    ints s = ints_of(numbers, 5);
    int to[3] = {0};
    aw_stream_collect_future c = aw_stream_collect(&s, to, 3);
    CHECK_EQ(POLL(&c, &flag), AW_READY);
    CHECK_EQ(c.out, 3);
    CHECK_EQ(to[2], 3);
    c = aw_stream_collect(&s, to, 3);
    CHECK_EQ(POLL(&c, &flag), AW_READY);
    CHECK_EQ(c.out, 2);
    CHECK_EQ(to[1], 5);
    c = aw_stream_collect(&s, to, 3);
    CHECK_EQ(POLL(&c, &flag), AW_READY);
    CHECK_EQ(c.out, 0);
}

TEST(collect_says_how_many_there_are_before_an_error) {
    aw_flag flag = {0};
    struct faulty s = faulty(2);
    int to[5];
    aw_stream_collect_future c = aw_stream_collect(&s, to, 5);
    CHECK_EQ(POLL(&c, &flag), AW_READY);
    CHECK_EQ(c.out, -EIO);
    CHECK_EQ(c.count, 2);
}

TEST(drain_drops_everything_and_closes) {
    aw_flag flag = {0};
    ints s = ints_of(numbers, 4);
    aw_stream_drop_with(&s, count_drop);
    aw_stream_drain_future d = aw_stream_drain(&s);
    CHECK_EQ(POLL(&d, &flag), AW_READY);
    CHECK_EQ(d.out, 0);
    CHECK_EQ(dropped_sum, 10);
    struct faulty f = faulty(2);
    d = aw_stream_drain(&f);
    CHECK_EQ(POLL(&d, &flag), AW_READY);
    CHECK_EQ(d.out, -EIO);
    CHECK(f.closed);
    f = faulty(2);
    d = aw_stream_drain(&f);
    CHECK_EQ(CANCEL(&d, &flag),
             AW_CANCELLED); /* the stream is closed even if the drain never began */
    CHECK(f.closed);
}

/* ---- In functions and fibers ----------------------------------------------------------------- */

AW_ASYNC(int, loops, ints s; struct times t; aw_stream_next_future next; int iterations;
         aw_yield pause;) {
    AW_BEGIN;
    self->s = ints_of(numbers, 10);
    self->t = AW_ADAPTER(times, &self->s, .by = 10);
    AW_STREAM_EACH(self->next, &self->t) {
        if (*self->t.item == 20) continue;
        AW_AWAIT(self->pause, aw_yield_now());
        CHECK_EQ(*self->t.item, (self->iterations + (self->iterations > 0)) * 10 +
                                    10); /* the item is still there */
        if (++self->iterations == 4) break;
    }
    CHECK_EQ(*self->t.item, 50);
    AW_STREAM_EACH(self->next, &self->t)
        self->iterations += 100;
    CHECK_EQ(self->next.out, 0);
    AW_RETURN(self->iterations);
    AW_END;
}
ON_BOTH(each_in_a_function_is_a_loop_like_any_other) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(loops)), 504);
    workers_end(rt, NULL);
}

AW_FIBER(int, loops_in_a_fiber) {
    ints s = ints_of(numbers, 10);
    struct even e = AW_ADAPTER(even, &s);
    int total = 0, n;
    while ((n = aw_await(aw_stream_next(&e))) > 0)
        total += *e.item;
    return n ? n : total;
}
ON_BOTH(a_fiber_takes_items_in_a_plain_loop) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(loops_in_a_fiber)), 2 + 4 + 6 + 8 + 10);
    workers_end(rt, NULL);
}

/* ---- Budget ---------------------------------------------------------------------------------- */

static uint32_t stop;

AW_ASYNC(int, stops) {
    AW_BEGIN;
    STORE(stop, 1);
    AW_RETURN(0);
    AW_END;
}

AW_GENERATOR(int, endless) {
    AW_BEGIN;
    while (!LOAD(stop))
        AW_YIELD_VALUE(1);
    AW_END;
}
AW_FIBER_GENERATOR(int, endless_fiber) {
    int error = 0;
    while (!LOAD(stop) && !error)
        error = aw_yield_value(self, 1);
    return error;
}
AW_FILTER(none, int) {
    return false;
}
AW_MAP_ASYNC(aw_ready, at_once, int) {
    return aw_ready_now(*item);
}
AW_CONCURRENT(aw_ready, several_at_once, int) {
    return aw_ready_now(*item);
}

/* Ends only when another task has run. */
AW_ASYNC(int, busy, int kind; struct endless e, e2; struct endless_fiber f; struct none none;
         struct at_once one; struct several_at_once many; AW_MERGE(int, 2) merge;
         AW_CHUNKS(int, 7) chunks; struct stops * other; aw_task_join_future join; aw_stream * end;
         aw_stream_drain_future drain;) {
    AW_BEGIN;
    self->e = AW_GENERATE(endless);
    self->e2 = AW_GENERATE(endless);
    self->f = AW_GENERATE(endless_fiber);
    self->none = AW_ADAPTER(none, &self->e);
    self->one = AW_ADAPTER(at_once, &self->e);
    self->many = AW_UNORDERED(several_at_once, &self->e, 1000);
    aw_stream_merge(&self->merge, &self->e, &self->e2);
    aw_stream_chunks(&self->chunks, &self->merge, AW_SEC(1));
    self->end = ((aw_stream *[]){&self->e.stream, &self->f.stream, &self->none.stream,
                                 &self->one.stream, &self->many.stream, &self->merge.stream,
                                 &self->chunks.stream})[self->kind];
    STORE(stop, 0);
    self->other = aw_spawn(AW_CALL(stops));
    AW_AWAIT(self->drain, aw_stream_drain_of(self->end));
    CHECK_EQ(self->drain.out, 0);
    AW_AWAIT(self->join, aw_task_join(self->other));
    aw_task_drop(self->other);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_stream_that_always_has_an_item_lets_other_tasks_run) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    for (int kind = 0; kind < 7; kind++)
        CHECK_EQ(RUN(rt, AW_CALL(busy, .kind = kind)), 0);
    workers_end(rt, &m);
}

/* ---- Interval -------------------------------------------------------------------------------- */

typedef AW_TIMEOUT(aw_stream_next_future) next_timeout;

AW_ASYNC(int, ticks, aw_interval_stream s; uint64_t begin; int i, late; next_timeout next;
         aw_stream_close_future close;) {
    AW_BEGIN;
    CHECK_EQ(aw_stream_interval(&self->s, 0, AW_BURST), -EINVAL);
    CHECK_EQ(aw_stream_interval(&self->s, AW_MSEC(100), AW_BURST), 0);
    self->begin = aw_now(NULL);
    for (self->i = 0; self->i < 5;) {
        AW_AWAIT_FOR(self->next, AW_MSEC(30), aw_stream_next(&self->s));
        if (self->next.out == -ETIMEDOUT) {
            self->late++;
            continue;
        }
        CHECK_EQ(self->next.inner.out, 1);
        CHECK_EQ(*self->s.item, self->begin + AW_MSEC(100) * (uint64_t)self->i);
        self->i++;
    }
    AW_AWAIT(self->close, aw_stream_close(&self->s));
    AW_RETURN(self->late);
    AW_END;
}
ON_BOTH(an_interval_loses_no_tick_when_its_next_is_given_up) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(aw_clock_pause(rt), 0);
    CHECK_EQ(RUN(rt, AW_CALL(ticks)), 4 * 3);
    workers_end(rt, NULL);
}

TEST(an_interval_without_a_runtime_says_so) {
    aw_interval_stream s;
    CHECK_EQ(aw_stream_interval(&s, AW_SEC(1), AW_BURST), 0);
    CHECK_EQ(NEXT(&s), -ENXIO);
}
