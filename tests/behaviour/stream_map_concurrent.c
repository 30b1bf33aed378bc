/* SPDX-License-Identifier: MIT
 *
 * A future for each item: one at a time, several in order, several as they finish. Time is
 * virtual. */
#include "support/by_hand.h"
#include "support/workers.h"

static aw_runtime *paused(uint32_t workers, memory *m) {
    aw_runtime *rt = new_runtime(workers, m, NULL);
    CHECK_EQ(aw_clock_pause(rt), 0);
    return rt;
}

static struct { uint32_t running, max, started, ended, discarded, polls; /* atomic */ } book;

/* Takes as many milliseconds as its item says, and returns ten times as much. Negative: fails
 * with it. */
struct job {
    AW_FRAME(int);
    int n;
    bool counted;
    aw_sleep nap;
};
static void job_discard(aw_future *self) {
    (void)self;
    ADD(book.discarded, 1);
}
AW_ASYNC_STATIC(job, .discard = job_discard) {
    AW_BEGIN;
    ADD(book.started, 1);
    {
        uint32_t now = ADD(book.running, 1) + 1;
        if (now > LOAD(book.max)) STORE(book.max, now); /* no race: one task polls them all */
    }
    if (self->n > 0) AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(self->n)));
    AW_RETURN(self->n > 0 ? self->n * 10 : self->n);
    AW_FINALLY;
    if (AW_STARTED) ADD(book.running, -1);
    ADD(book.ended, 1);
    AW_END;
}

AW_MAP_ASYNC(struct job, one, int) {
    return AW_CALL(job, .n = *item);
}
AW_CONCURRENT(struct job, many, int) {
    return AW_CALL(job, .n = *item);
}

typedef AW_ARRAY_STREAM(int) ints;

/* ---- Order and limit ------------------------------------------------------------------------- */

struct all {
    AW_FRAME(int);
    int kind; /* 0: one at a time, 1: in order, 2: as they finish */
    uint32_t limit;
    int *items;
    size_t count;
    const char *expected; /* outputs, and when they came */
    ints s;
    struct one one;
    struct many many;
    aw_stream *stream;
    aw_stream_next_future next;
    uint64_t begin;
    char got[300];
};
AW_ASYNC_STATIC(all) {
    AW_BEGIN;
    aw_stream_array(&self->s, self->items, self->count);
    self->one = AW_ADAPTER(one, &self->s);
    self->many = self->kind == 1 ? AW_BUFFERED(many, &self->s, self->limit)
                                 : AW_UNORDERED(many, &self->s, self->limit);
    self->stream = self->kind ? &self->many.stream : &self->one.stream;
    self->begin = aw_now(NULL);
    for (;;) {
        AW_AWAIT(self->next, aw_stream_next_of(self->stream));
        if (self->next.out <= 0) break;
        sprintf(self->got + strlen(self->got), "%d@%d ",
                self->kind ? *self->many.item : *self->one.item,
                (int)((aw_now(NULL) - self->begin) / AW_MSEC(1)));
    }
    CHECK_EQ(self->next.out, 0);
    CHECK_STR(self->got, self->expected);
    AW_RETURN(0);
    AW_END;
}

static int naps[6] = {5, 1, 3, 2, 2, 1};

static void check_all(uint32_t workers, struct all f, uint32_t max) {
    memory m;
    aw_runtime *rt = paused(workers, &m);
    f.items = naps;
    f.count = 6;
    CHECK_EQ(RUN(rt, f), 0);
    CHECK_EQ(book.max, max);
    CHECK_EQ(book.ended, 6);
    CHECK_EQ(book.discarded, 0);
    workers_end(rt, &m);
}

ON_BOTH(one_at_a_time_waits_for_each) {
    check_all(workers, AW_CALL(all, .kind = 0, .expected = "50@5 10@6 30@9 20@11 20@13 10@14 "), 1);
}
/* In order, a slot is free again when its output has been yielded. */
ON_BOTH(buffered_gives_the_outputs_in_the_order_of_the_items) {
    check_all(workers,
              AW_CALL(all, .kind = 1, .limit = 3, .expected = "50@5 10@5 30@5 20@7 20@7 10@7 "), 3);
}
ON_BOTH(unordered_gives_the_outputs_as_they_finish) {
    static int unlike[6] = {50, 10, 34, 25, 21, 7}; /* no two end at the same time */
    memcpy(naps, unlike, sizeof naps);
    check_all(workers,
              AW_CALL(all, .kind = 2, .limit = 3,
                      .expected = "100@10 340@34 250@35 70@42 500@50 210@55 "),
              3);
}
ON_BOTH(a_limit_of_one_is_one_at_a_time) {
    check_all(workers,
              AW_CALL(all, .kind = 2, .limit = 1, .expected = "50@5 10@6 30@9 20@11 20@13 10@14 "),
              1);
}
ON_BOTH(a_limit_may_be_larger_than_the_stream) {
    check_all(workers,
              AW_CALL(all, .kind = 1, .limit = 100, .expected = "50@5 10@5 30@5 20@5 20@5 10@5 "),
              6);
}

/* ---- For each -------------------------------------------------------------------------------- */

AW_ASYNC(int, for_each, int *items; size_t count; uint32_t limit; bool errors; ints s;
         struct many many; aw_stream_drain_future all;) {
    AW_BEGIN;
    aw_stream_array(&self->s, self->items, self->count);
    self->many = AW_UNORDERED(many, &self->s, self->limit, .errors = self->errors);
    AW_AWAIT(self->all, aw_stream_drain(&self->many));
    AW_RETURN(self->all.out);
    AW_END;
}
ON_BOTH(draining_runs_a_future_for_each_item_within_the_limit) {
    enum { JOBS = 500 };
    static int items[JOBS];
    memory m;
    aw_runtime *rt = paused(workers, &m);
    for (int i = 0; i < JOBS; i++)
        items[i] = 1 + i * 7 % 13;
    CHECK_EQ(RUN(rt, AW_CALL(for_each, .items = items, .count = JOBS, .limit = 20)), 0);
    CHECK_EQ(book.ended, JOBS);
    CHECK_EQ(book.max, 20);
    CHECK_EQ(book.discarded, JOBS); /* their outputs were dropped */
    workers_end(rt, &m);
}

ON_BOTH(an_output_that_is_an_error_ends_a_drain_and_cancels_the_others) {
    static int items[5] = {1, 50, -EPROTO, 60, 1};
    memory m;
    aw_runtime *rt = paused(workers, &m);
    CHECK_EQ(RUN(rt, AW_CALL(for_each, .items = items, .count = 5, .limit = 4, .errors = true)),
             -EPROTO);
    CHECK_EQ(book.running, 0);
    CHECK_EQ(book.started, book.ended);
    CHECK_LT(book.started, 5 + 1);
    workers_end(rt, &m);
    memset(&book, 0, sizeof book);
    rt = paused(workers, &m); /* without `errors`, errors are outputs like any other */
    CHECK_EQ(RUN(rt, AW_CALL(for_each, .items = items, .count = 5, .limit = 4)), 0);
    CHECK_EQ(book.ended, 5);
    workers_end(rt, &m);
}

ON_BOTH(an_aborted_drain_has_cancelled_everything_when_it_is_gone) {
    static int items[3] = {1000000, 1000000, 1000000};
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    struct for_each *task = aw_spawn_on(rt,
                                        AW_CALL(for_each, .items = items, .count = 3, .limit = 3));
    if (!workers) run_a_while(rt);
    WAIT_UNTIL(LOAD(book.running) == 3);
    aw_task_abort(task);
    CHECK_EQ(JOIN_STATUS(rt, task), -ECANCELED);
    CHECK_EQ(book.running, 0);
    CHECK_EQ(book.ended, 3);
    aw_task_drop(task);
    workers_end(rt, &m);
}

/* ---- Cancelled and polled again -------------------------------------------------------------- */

struct impatient {
    AW_FRAME(int);
    int kind;
    ints s;
    struct one one;
    struct many many;
    aw_stream *stream;
    AW_TIMEOUT(aw_stream_next_future) next;
    aw_stream_close_future close;
    int late, n, sum;
};
AW_ASYNC_STATIC(impatient) {
    AW_BEGIN;
    aw_stream_array(&self->s, naps, 6);
    self->one = AW_ADAPTER(one, &self->s);
    self->many = self->kind == 1 ? AW_BUFFERED(many, &self->s, 2) : AW_UNORDERED(many, &self->s, 2);
    self->stream = self->kind ? &self->many.stream : &self->one.stream;
    do {
        AW_AWAIT_FOR(self->next, AW_USEC(700), aw_stream_next_of(self->stream));
        if (self->next.out) {
            self->late++;
        } else if (self->next.inner.out > 0) {
            self->n++;
            self->sum += self->kind ? *self->many.item : *self->one.item;
        }
    } while (self->next.out || self->next.inner.out);
    CHECK_EQ(self->n, 6);
    CHECK_EQ(self->sum, 140);
    CHECK_GT(self->late, 3);
    CHECK_EQ(book.started, 6);                               /* none was started again */
    AW_AWAIT(self->close, aw_stream_close_of(self->stream)); /* harmless after the end */
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(futures_in_flight_outlive_a_next_that_is_given_up) {
    memory m;
    aw_runtime *rt = paused(workers, &m);
    for (int kind = 0; kind < 3; kind++) {
        memset(&book, 0, sizeof book);
        CHECK_EQ(RUN(rt, AW_CALL(impatient, .kind = kind)), 0);
        CHECK_EQ(book.ended, 6);
    }
    workers_end(rt, &m);
}

AW_ASYNC(int, closes, int kind; ints s; struct one one; struct many many; aw_stream * stream;
         aw_stream_next_future next; aw_stream_close_future close;) {
    AW_BEGIN;
    aw_stream_array(&self->s, naps, 6);
    self->one = AW_ADAPTER(one, &self->s);
    self->many = self->kind == 1 ? AW_BUFFERED(many, &self->s, 4) : AW_UNORDERED(many, &self->s, 4);
    self->stream = self->kind ? &self->many.stream : &self->one.stream;
    AW_AWAIT(self->next, aw_stream_next_of(self->stream));
    CHECK_EQ(self->next.out, 1);
    AW_AWAIT(self->close, aw_stream_close_of(self->stream));
    CHECK_EQ(book.started, book.ended);
    AW_AWAIT(self->next, aw_stream_next_of(self->stream));
    CHECK_EQ(self->next.out, 0);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(closing_cancels_what_is_in_flight_and_discards_what_has_finished) {
    static const uint32_t discarded[3] = {0, 3,
                                          0}; /* in order, three had finished behind the first */
    memory m;
    aw_runtime *rt = paused(workers, &m);
    for (int kind = 0; kind < 3; kind++) {
        memset(&book, 0, sizeof book);
        CHECK_EQ(RUN(rt, AW_CALL(closes, .kind = kind)), 0);
        CHECK_EQ(book.discarded, discarded[kind]);
        CHECK_EQ(book.running, 0);
    }
    workers_end(rt, &m);
}

/* ---- Polls ----------------------------------------------------------------------------------- */

static aw_waker wakers[64];

static aw_poll stand(void *arg, aw_cx *cx, int *out) {
    (void)out;
    ADD(book.polls, 1);
    aw_waker_set(arg, aw_cx_waker(cx));
    return AW_PENDING;
}
static aw_poll stand_down(void *arg, aw_cx *cx, int *out) {
    (void)cx;
    (void)out;
    aw_waker_clear(arg);
    return AW_CANCELLED;
}
AW_CONCURRENT(aw_poll_fn, stands, int) {
    return aw_poll_fn_with(stand, stand_down, &wakers[*item]);
}

TEST(only_the_woken_futures_are_polled) {
    static int items[64];
    for (int i = 0; i < 64; i++)
        items[i] = i;
    ints s;
    aw_stream_array(&s, items, 64);
    struct stands many = AW_UNORDERED(stands, &s, 64);
    aw_flag flag = {0}, other = {0};
    aw_stream_next_future f = aw_stream_next(&many);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(book.polls, 64);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(book.polls, 64);
    aw_waker_wake_by_ref(&wakers[7]);
    aw_waker_wake_by_ref(&wakers[9]);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(book.polls, 66);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    aw_waker_wake_by_ref(&wakers[1]); /* remembered, but there is no task to wake */
    CHECK(!aw_flag_take(&flag));
    f = aw_stream_next(&many);
    CHECK_EQ(POLL(&f, &other), AW_PENDING);
    CHECK_EQ(book.polls, 67);
    aw_waker_wake_by_ref(&wakers[2]);
    CHECK(aw_flag_take(&other) && !aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&f, &other), AW_CANCELLED);
    aw_stream_close_future c = aw_stream_close(&many);
    CHECK_EQ(POLL(&c, &flag), AW_READY);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

AW_ASYNC(int, without_memory, memory *m; bool ordered; ints s; struct many many;
         aw_stream_next_future next; aw_stream_close_future close; int n;) {
    AW_BEGIN;
    aw_stream_array(&self->s, naps, 6);
    self->many = AW_UNORDERED(many, &self->s, 3);
    self->many.ordered = self->ordered;
    STORE(self->m->refuse, 1);
    AW_AWAIT(self->next, aw_stream_next(&self->many));
    CHECK_EQ(self->next.out, -ENOMEM);
    STORE(self->m->refuse, 0);
    AW_STREAM_EACH(self->next, &self->many)
        self->n++;
    CHECK_EQ(self->n, 6); /* no item had been taken */
    self->many = AW_BUFFERED(many, &self->s, 0);
    AW_AWAIT(self->next, aw_stream_next(&self->many));
    CHECK_EQ(self->next.out, -EINVAL);
    self->many = AW_BUFFERED(many, &self->s, UINT32_MAX);
    AW_AWAIT(self->next, aw_stream_next(&self->many));
    CHECK_EQ(self->next.out, -ENOMEM);
    AW_AWAIT(self->close, aw_stream_close(&self->many));
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(without_memory_it_says_so_and_has_taken_nothing) {
    memory m;
    aw_runtime *rt = paused(workers, &m);
    for (int ordered = 0; ordered < 2; ordered++)
        CHECK_EQ(RUN(rt, AW_CALL(without_memory, .m = &m, .ordered = ordered)), 0);
    workers_end(rt, &m);
}

AW_ASYNC(int, counts_memory, memory *m; ints s; struct many many; aw_stream_next_future next;
         size_t before;) {
    AW_BEGIN;
    aw_stream_array(&self->s, naps, 6);
    self->many = AW_BUFFERED(many, &self->s, 3);
    self->before = LOAD(self->m->taken);
    AW_STREAM_EACH(self->next, &self->many) {
    }
    CHECK_EQ(LOAD(self->m->taken) - self->before, 1);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(it_allocates_once) {
    memory m;
    aw_runtime *rt = paused(workers, &m);
    CHECK_EQ(RUN(rt, AW_CALL(counts_memory, .m = &m)), 0);
    workers_end(rt, &m);
}
