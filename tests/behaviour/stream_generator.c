/* SPDX-License-Identifier: MIT
 *
 * Generators: async functions and fibers that yield values, wait in between, and release what
 * they hold when they are cancelled. */
#include <sys/resource.h>

#include "support/by_hand.h"
#include "support/workers.h"

typedef AW_TIMEOUT(aw_stream_next_future) next_timeout;

enum { NEVER_NAPS = -1 };

/* What generators hold, and how far they have got. */
static struct { uint32_t held, steps, finals, dropped; /* atomic: workers run them */ } book;

/* ---- The same generator in two forms --------------------------------------------------------- */

/* 0, 1, 2, …: sleeps after the value `naps_after`; its cleanup takes a while. */
AW_GENERATOR(int, count, int to; int naps_after; int error; int i; aw_sleep nap;) {
    AW_BEGIN;
    ADD(book.held, 1);
    for (self->i = 0; self->i < self->to; self->i++) {
        ADD(book.steps, 1);
        AW_YIELD_VALUE(self->i);
        if (self->i == self->naps_after) AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
    }
    AW_RETURN(self->error);
    AW_FINALLY;
    ADD(book.finals, 1);
    if (AW_STARTED) {
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
        ADD(book.held, -1);
    }
    AW_END;
}

struct count_fiber;
static int count_deeper(struct count_fiber *g, int i);

AW_FIBER_GENERATOR(int, count_fiber, int to; int naps_after; int error;) {
    int error = 0;
    ADD(book.held, 1);
    for (int i = 0; i < self->to && !error; i++) {
        ADD(book.steps, 1);
        error = count_deeper(self, i);
    }
    ADD(book.finals, 1);
    AW_SHIELD {
        aw_await(aw_sleep_for(AW_MSEC(1)));
    }
    ADD(book.held, -1);
    return error ? error : self->error;
}
AW_FIBER_DROP(count_fiber) {
    (void)self;
    ADD(book.finals, 1);
}
static int count_deeper(struct count_fiber *g, int i) {
    int error = aw_yield_value(g, i);
    if (!error && i == g->naps_after) error = aw_await(aw_sleep_for(AW_SEC(1)));
    return error;
}

/* What each test does with both forms. */
struct both {
    struct count function;
    struct count_fiber fiber;
    aw_stream *stream;
    int **item; /* of the form in use */
};
static void choose(struct both *g, bool fiber, int to, int naps_after, int error) {
    g->function = AW_GENERATE(count, .to = to, .naps_after = naps_after, .error = error);
    g->fiber = AW_GENERATE(count_fiber, .to = to, .naps_after = naps_after, .error = error);
    g->stream = fiber ? &g->fiber.stream : &g->function.stream;
    g->item = fiber ? &g->fiber.item : &g->function.item;
}

static void nothing_is_left(uint32_t finals) {
    CHECK_EQ(LOAD(book.held), 0);
    CHECK_EQ(LOAD(book.finals), finals);
    memset(&book, 0, sizeof book);
}

#define FOR_BOTH(f)                                                                                \
    aw_runtime *rt = new_runtime(workers, NULL, NULL);                                             \
    CHECK_EQ(aw_clock_pause(rt), 0);                                                               \
    for (int fiber = 0; fiber < 2; fiber++)                                                        \
        CHECK_EQ(RUN(rt, AW_CALL(f, .fiber = fiber)), 0);                                          \
    workers_end(rt, NULL);

/* ---- Values ---------------------------------------------------------------------------------- */

AW_ASYNC(int, takes_all, bool fiber; struct both g; aw_stream_next_future next; int n;) {
    AW_BEGIN;
    choose(&self->g, self->fiber, 1000, 500, 0);
    for (;;) {
        AW_AWAIT(self->next, aw_stream_next_of(self->g.stream));
        if (self->next.out <= 0) break;
        CHECK_EQ(**self->g.item, self->n++);
    }
    CHECK_EQ(self->next.out, 0);
    CHECK_EQ(self->n, 1000);
    AW_AWAIT(self->next, aw_stream_next_of(self->g.stream));
    CHECK_EQ(self->next.out, 0);
    nothing_is_left(1);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_generator_gives_its_values_in_order_and_then_ends){FOR_BOTH(takes_all)}

AW_ASYNC(int, takes_lazily, bool fiber; struct both g; aw_stream_next_future next;
         aw_stream_close_future close;) {
    AW_BEGIN;
    choose(&self->g, self->fiber, 10, NEVER_NAPS, 0);
    CHECK_EQ(LOAD(book.steps), 0);
    AW_AWAIT(self->next, aw_stream_next_of(self->g.stream));
    CHECK_EQ(LOAD(book.steps), 1);
    AW_AWAIT(self->next, aw_stream_next_of(self->g.stream));
    CHECK_EQ(LOAD(book.steps), 2);
    AW_AWAIT(self->close, aw_stream_close_of(self->g.stream));
    nothing_is_left(1);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(it_runs_only_when_the_next_value_is_wanted){FOR_BOTH(takes_lazily)}

AW_ASYNC(int, takes_an_error, bool fiber; struct both g; aw_stream_next_future next;) {
    AW_BEGIN;
    choose(&self->g, self->fiber, 1, NEVER_NAPS, -EPROTO);
    AW_AWAIT(self->next, aw_stream_next_of(self->g.stream));
    CHECK_EQ(self->next.out, 1);
    AW_AWAIT(self->next, aw_stream_next_of(self->g.stream));
    CHECK_EQ(self->next.out, -EPROTO);
    nothing_is_left(1);
    AW_AWAIT(self->next, aw_stream_next_of(self->g.stream));
    CHECK_EQ(self->next.out, 0);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(what_it_returns_is_the_error_of_the_stream_reported_once){FOR_BOTH(takes_an_error)}

/* ---- Cancelled ------------------------------------------------------------------------------- */

/* After `values` values; at 3 it is in its nap. */
AW_ASYNC(int, closes, bool fiber; int values; struct both g; next_timeout next;
         aw_stream_close_future close; int i;) {
    AW_BEGIN;
    for (self->values = 0; self->values <= 3; self->values++) {
        choose(&self->g, self->fiber, 10, 1, 0);
        for (self->i = 0; self->i < self->values; self->i++) {
            AW_AWAIT_FOR(self->next, AW_MSEC(10), aw_stream_next_of(self->g.stream));
            CHECK_EQ(self->next.out, self->i == 2 ? -ETIMEDOUT : 0);
        }
        AW_AWAIT(self->close, aw_stream_close_of(self->g.stream));
        nothing_is_left(1);
        AW_AWAIT_FOR(self->next, AW_MSEC(10), aw_stream_next_of(self->g.stream));
        CHECK_EQ(self->next.inner.out, 0);
    }
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_generator_that_is_dropped_half_way_releases_what_it_holds){FOR_BOTH(closes)}

/* The nap lasts a second, each attempt 30 ms. */
AW_ASYNC(int, tries_again, bool fiber; struct both g; next_timeout next; int late, n;) {
    AW_BEGIN;
    choose(&self->g, self->fiber, 4, 1, 0);
    do {
        AW_AWAIT_FOR(self->next, AW_MSEC(30), aw_stream_next_of(self->g.stream));
        if (self->next.out == -ETIMEDOUT)
            self->late++;
        else if (self->next.inner.out > 0)
            CHECK_EQ(**self->g.item, self->n++);
    } while (self->next.out || self->next.inner.out);
    CHECK_EQ(self->n, 4);
    CHECK_EQ(self->late, 33);
    nothing_is_left(1);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_next_that_is_given_up_leaves_the_generator_waiting_as_it_was){FOR_BOTH(tries_again)}

/* Polled by one task, which ends, and then by another: the wait must have the waker of the
 * second. */
AW_ASYNC(int, asks, aw_stream *stream; uint64_t patience; next_timeout next;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->next, self->patience, aw_stream_next_of(self->stream));
    AW_RETURN(self->next.out ? self->next.out : self->next.inner.out);
    AW_END;
}
AW_ASYNC(int, passes_around, bool fiber; struct both g; int i; struct asks * task;
         aw_task_join_future join; aw_stream_close_future close;) {
    AW_BEGIN;
    if (self->fiber) AW_RETURN(0); /* a fiber stays on its thread */
    choose(&self->g, false, 4, 1, 0);
    for (self->i = 0; self->i < 5; self->i++) {
        self->task = aw_spawn(AW_CALL(asks, .stream = self->g.stream,
                                      .patience = self->i == 2 ? AW_MSEC(10) : AW_SEC(10)));
        AW_AWAIT(self->join, aw_task_join(self->task));
        CHECK_EQ(self->join.out, 0);
        CHECK_EQ(aw_task_take(self->task), self->i == 2 ? -ETIMEDOUT : 1);
    }
    AW_AWAIT(self->close, aw_stream_close_of(self->g.stream));
    nothing_is_left(1);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(tasks_may_poll_it_one_after_the_other){FOR_BOTH(passes_around)}

/* ---- Closing --------------------------------------------------------------------------------- */

/* A close is cleanup: it goes on when it is cancelled. */
AW_ASYNC(int, closes_under_a_timeout, bool fiber; struct both g; aw_stream_next_future next;
         AW_TIMEOUT(aw_stream_close_future) close;) {
    AW_BEGIN;
    choose(&self->g, self->fiber, 4, 1, 0);
    AW_AWAIT(self->next, aw_stream_next_of(self->g.stream));
    AW_AWAIT_FOR(self->close, AW_USEC(1), aw_stream_close_of(self->g.stream));
    CHECK_EQ(self->close.out, 0); /* it takes longer than that, and still finishes */
    nothing_is_left(1);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_close_is_not_cut_short) {
    FOR_BOTH(closes_under_a_timeout)
}

static void count_drop(void *item) {
    (void)item;
    ADD(book.dropped, 1);
}

/* A yield is refused in a shield, too, and its value is dropped. */
AW_FIBER_GENERATOR(int, stubborn) {
    int error = aw_yield_value(self, 1);
    CHECK_EQ(error, -ECANCELED);
    CHECK_EQ(aw_yield_value(self, 2), -ECANCELED);
    AW_SHIELD {
        CHECK_EQ(aw_yield_value(self, 3), -ECANCELED);
    }
    return error;
}
AW_ASYNC(int, closes_stubborn, struct stubborn g; aw_stream_next_future next;
         aw_stream_close_future close;) {
    AW_BEGIN;
    self->g = AW_GENERATE(stubborn);
    aw_stream_drop_with(&self->g, count_drop);
    AW_AWAIT(self->next, aw_stream_next(&self->g));
    CHECK_EQ(*self->g.item, 1);
    AW_AWAIT(self->close, aw_stream_close(&self->g));
    CHECK_EQ(LOAD(book.dropped), 2); /* the first one was taken */
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_value_yielded_while_it_is_closed_is_dropped) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(closes_stubborn)), 0);
    workers_end(rt, NULL);
}

/* ---- Misuse and failure ---------------------------------------------------------------------- */

AW_FIBER_GENERATOR(int, twice) {
    aw_fiber_cx();
    self->value = 1;
    self->item = &self->value;
    aw__generator_yield(&self->stream, "here.c", 7);
    return aw_yield_value(self, 2);
}
TEST(a_second_value_before_the_first_was_taken_is_caught) {
    struct twice g = AW_GENERATE(twice);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&g);
    DIES(POLL(&f, &flag), "generator 'twice' yields a value before the last one was taken");
}

AW_FIBER_GENERATOR(int, huge) {
    return aw_yield_value(self, 1);
}
TEST(a_fiber_without_a_stack_is_an_error_of_the_stream) {
    struct huge g = AW_GENERATE(huge, .stack_size = 1u << 31);
    struct rlimit none = {1u << 28, 1u << 28};
    if (test_under_sanitizer()) SKIP("it needs its address space");
    CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&g);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, -ENOMEM);
}

TEST(the_chain_of_a_next_shows_where_its_generator_waits) {
    aw_runtime *rt = new_runtime(0, NULL, NULL);
    aw_enter(rt);
    struct count g = AW_GENERATE(count, .to = 3, .naps_after = 0);
    aw_flag flag = {0};
    aw_stream_next_future f = aw_stream_next(&g);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    f = aw_stream_next(&g);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    char text[500];
    aw_future_describe(&f.future, text, sizeof text);
    CHECK_CONTAINS(text, "stream_next: of count\n  count at ");
    CHECK_CONTAINS(text, "\n    sleep: ");
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    aw_stream_close_future c = aw_stream_close(&g);
    while (POLL(&c, &flag) == AW_PENDING)
        run_a_while(rt);
    aw_leave(NULL);
    aw_runtime_free(rt);
}
