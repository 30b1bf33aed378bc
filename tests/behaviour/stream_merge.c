/* SPDX-License-Identifier: MIT
 *
 * Several streams as one, and items in groups. Time is virtual. */
#include "support/workers.h"

static aw_runtime *paused(uint32_t workers, memory *m) {
    aw_runtime *rt = new_runtime(workers, m, NULL);
    CHECK_EQ(aw_clock_pause(rt), 0);
    return rt;
}

/* `count` values from `from` on, one each `period` after the first; at once when it is 0. */
AW_GENERATOR(int, every, int from; int count; uint64_t period; int error; int i; aw_sleep nap;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->count; self->i++) {
        if (self->period && self->i) AW_AWAIT(self->nap, aw_sleep_for(self->period));
        AW_YIELD_VALUE(self->from + self->i);
    }
    AW_RETURN(self->error);
    AW_END;
}

static uint32_t dropped;
static void count_drop(void *item) {
    (void)item;
    ADD(dropped, 1);
}

/* ---- Merge ----------------------------------------------------------------------------------- */

AW_ASYNC(int, merges, struct every a, b, c; AW_MERGE(int, 3) m; aw_stream_next_future next;
         int seen[30]; int n;) {
    AW_BEGIN;
    self->a = AW_GENERATE(every, .from = 0, .count = 10, .period = AW_MSEC(3));
    self->b = AW_GENERATE(every, .from = 10, .count = 10, .period = AW_MSEC(5));
    self->c = AW_GENERATE(every, .from = 20, .count = 10);
    aw_stream_merge(&self->m, &self->a, &self->b, &self->c);
    AW_STREAM_EACH(self->next, &self->m) {
        int v = *self->m.item;
        CHECK(v % 10 == 0 || self->seen[v - 1]); /* each source in its own order */
        CHECK_EQ(self->seen[v]++, 0);
        self->n++;
    }
    CHECK_EQ(self->next.out, 0);
    CHECK_EQ(self->n, 30);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_merge_loses_and_duplicates_nothing_and_keeps_the_order_of_each) {
    aw_runtime *rt = paused(workers, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(merges)), 0);
    workers_end(rt, NULL);
}

AW_ASYNC(int, alternates, struct every a, b, c; AW_MERGE(int, 3) m; aw_stream_next_future next;
         int n;) {
    AW_BEGIN;
    self->a = AW_GENERATE(every, .from = 0, .count = 5);
    self->b = AW_GENERATE(every, .from = 100, .count = 5);
    self->c = AW_GENERATE(every, .from = 200, .count = 5);
    aw_stream_merge(&self->m, &self->a, &self->b, &self->c);
    AW_STREAM_EACH(self->next, &self->m) {
        CHECK_EQ(*self->m.item / 100, self->n % 3);
        self->n++;
    }
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(streams_that_all_have_items_alternate) {
    aw_runtime *rt = paused(workers, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(alternates)), 0);
    workers_end(rt, NULL);
}

AW_ASYNC(int, one_fails, struct every a, b; AW_MERGE(int, 2) m; aw_stream_next_future next;
         int n, errors;) {
    AW_BEGIN;
    self->a = AW_GENERATE(every, .count = 1, .error = -EIO);
    self->b = AW_GENERATE(every, .count = 5, .period = AW_MSEC(1));
    aw_stream_merge(&self->m, &self->a, &self->b);
    do {
        AW_AWAIT(self->next, aw_stream_next(&self->m));
        self->n += self->next.out > 0;
        self->errors += self->next.out == -EIO;
    } while (self->next.out);
    CHECK_EQ(self->n, 6);
    CHECK_EQ(self->errors, 1);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(an_error_of_one_does_not_end_the_others) {
    aw_runtime *rt = paused(workers, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(one_fails)), 0);
    workers_end(rt, NULL);
}

TEST(a_merge_of_more_than_eight_is_refused) {
    struct every g = AW_GENERATE(every);
    aw_stream *sources[9] = {&g.stream};
    AW_MERGE(int, 9) m;
    DIES(aw_stream_merge_of(&m.stream, sources, 9), "a merge of 9 streams: at most 8");
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

typedef AW_CHUNKS(int, 4) by_four;

/* How many items are in each chunk, and when it came. */
AW_ASYNC(int, chunks, struct every g; uint64_t timeout; const char *expected; by_four c;
         uint64_t begin; aw_stream_next_future next; int v; char got[200];) {
    AW_BEGIN;
    aw_stream_chunks(&self->c, &self->g, self->timeout);
    self->begin = aw_now(NULL);
    do {
        AW_AWAIT(self->next, aw_stream_next(&self->c));
        {
            char *end = self->got + strlen(self->got);
            int ms = (int)((aw_now(NULL) - self->begin) / AW_MSEC(1));
            if (self->next.out > 0) {
                for (size_t i = 0; i < self->c.item->count; i++)
                    CHECK_EQ(self->c.item->items[i], self->v++);
                sprintf(end, "%d@%d ", (int)self->c.item->count, ms);
            } else if (self->next.out) {
                sprintf(end, "error@%d ", ms);
            }
        }
    } while (self->next.out);
    CHECK_STR(self->got, self->expected);
    AW_RETURN(0);
    AW_END;
}
static void check_chunks(uint32_t workers, struct every g, uint64_t timeout, const char *expected) {
    aw_runtime *rt = paused(workers, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(chunks, .g = g, .timeout = timeout, .expected = expected)), 0);
    workers_end(rt, NULL);
}

ON_BOTH(chunks_are_full_and_the_last_one_has_the_rest) {
    check_chunks(workers, AW_GENERATE(every, .count = 10), AW_SEC(1), "4@0 4@0 2@0 ");
    check_chunks(workers, AW_GENERATE(every, .count = 0), AW_SEC(1), "");
}

/* The timeout runs from the first item of a chunk, not from the chunk before. */
ON_BOTH(a_chunk_is_yielded_when_its_time_is_up) {
    check_chunks(workers, AW_GENERATE(every, .count = 5, .period = AW_MSEC(10)), AW_MSEC(25),
                 "3@25 2@40 ");
    check_chunks(workers, AW_GENERATE(every, .count = 2, .period = AW_SEC(5)), AW_MSEC(25),
                 "1@25 1@5000 ");
    check_chunks(workers, AW_GENERATE(every, .count = 6, .period = AW_SEC(5)), AW_FOREVER,
                 "4@15000 2@25000 ");
}

/* Two timers at the same moment: whichever fires first, the item is in the chunk. */
ON_BOTH(an_item_that_comes_at_the_deadline_is_in_the_chunk) {
    check_chunks(workers, AW_GENERATE(every, .count = 4, .period = AW_MSEC(10)), AW_MSEC(20),
                 "3@20 1@30 ");
}

ON_BOTH(an_error_comes_after_what_was_gathered) {
    check_chunks(workers, AW_GENERATE(every, .count = 6, .error = -EIO), AW_SEC(1),
                 "4@0 2@0 error@0 ");
}

/* Cancelled again and again, it keeps its gathered items and its deadline. */
AW_ASYNC(int, impatient, struct every g; by_four c; AW_TIMEOUT(aw_stream_next_future) next;
         int late; uint64_t begin; aw_stream_close_future close;) {
    AW_BEGIN;
    self->g = AW_GENERATE(every, .count = 100, .period = AW_MSEC(10));
    aw_stream_drop_with(&self->g, count_drop);
    aw_stream_chunks(&self->c, &self->g, AW_MSEC(25));
    self->begin = aw_now(NULL);
    do {
        AW_AWAIT_FOR(self->next, AW_MSEC(3), aw_stream_next(&self->c));
        if (self->next.out) self->late++;
    } while (self->next.out);
    CHECK_EQ(aw_now(NULL) - self->begin, AW_MSEC(25));
    CHECK_EQ(self->c.item->count, 3);
    CHECK_EQ(self->late, 8);
    AW_AWAIT_FOR(self->next, AW_MSEC(17), aw_stream_next(&self->c)); /* items at 30 and 40 */
    CHECK_EQ(self->next.out, -ETIMEDOUT);
    AW_AWAIT(self->close, aw_stream_close(&self->c));
    CHECK_EQ(LOAD(dropped), 2);
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(chunks_keep_what_they_have_gathered_between_two_calls_of_next) {
    aw_runtime *rt = paused(workers, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(impatient)), 0);
    workers_end(rt, NULL);
}

/* A spent budget does not hide the deadline: the source is always busy, and never has an item. */
AW_FILTER(nothing, int) {
    return *item < 3;
}
AW_ASYNC(int, drowned, struct every g; struct nothing few; by_four c; aw_stream_next_future next;
         aw_stream_close_future close;) {
    AW_BEGIN;
    self->g = AW_GENERATE(every, .count = 2000000000);
    self->few = AW_ADAPTER(nothing, &self->g);
    aw_stream_chunks(&self->c, &self->few, AW_MSEC(1));
    AW_AWAIT(self->next, aw_stream_next(&self->c));
    CHECK_EQ(self->c.item->count, 3);
    AW_AWAIT(self->close, aw_stream_close(&self->c));
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_busy_source_does_not_hide_the_deadline) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL); /* this test needs a running clock */
    CHECK_EQ(RUN(rt, AW_CALL(drowned)), 0);
    workers_end(rt, NULL);
}
