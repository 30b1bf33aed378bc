/* SPDX-License-Identifier: MIT
 *
 * Streams: the cost of an item through a pipeline, from a generator, and through concurrent
 * futures. */
#include "bench.h"

enum { ITEMS = 1000, ROUNDS = 1000, TOTAL = ITEMS * ROUNDS };

static int numbers[ITEMS];

AW_MAP(long, twice, int) {
    return *item * 2L;
}
AW_FILTER(even, long) {
    return *item % 4 == 0;
}
AW_FOLD(long, sum, long) {
    self->out += *item;
}
AW_FOLD(long, sum_ints, int) {
    self->out += *item;
}

static long expected_even(void) {
    long n = 0;
    for (int i = 0; i < ITEMS; i++)
        n += i * 2L % 4 == 0 ? i * 2L : 0;
    return n * ROUNDS;
}

/* Array, map, filter and fold. */
AW_ASYNC(long, pipeline, AW_ARRAY_STREAM(int) s; struct twice map; struct even filter;
         struct sum sum; int i; long total;) {
    AW_BEGIN;
    for (self->i = 0; self->i < ROUNDS; self->i++) {
        aw_stream_array(&self->s, numbers, ITEMS);
        self->map = AW_ADAPTER(twice, &self->s);
        self->filter = AW_ADAPTER(even, &self->map);
        AW_AWAIT(self->sum, AW_FOLD_OF(sum, &self->filter));
        self->total += self->sum.out;
    }
    AW_RETURN(self->total);
    AW_END;
}

/* One `next` per item. */
AW_ASYNC(long, each, AW_ARRAY_STREAM(int) s; aw_stream_next_future next; int i; long total;) {
    AW_BEGIN;
    for (self->i = 0; self->i < ROUNDS; self->i++) {
        aw_stream_array(&self->s, numbers, ITEMS);
        AW_STREAM_EACH(self->next, &self->s)
            self->total += *self->s.item;
    }
    AW_RETURN(self->total);
    AW_END;
}

AW_GENERATOR(int, count, int i;) {
    AW_BEGIN;
    for (; self->i < TOTAL; self->i++)
        AW_YIELD_VALUE(1);
    AW_END;
}
AW_FIBER_GENERATOR(int, count_fiber) {
    int error = 0;
    for (int i = 0; i < TOTAL && !error; i++)
        error = aw_yield_value(self, 1);
    return error;
}
AW_ASYNC(long, generator, struct count g; struct sum_ints sum;) {
    AW_BEGIN;
    self->g = AW_GENERATE(count);
    AW_AWAIT(self->sum, AW_FOLD_OF(sum_ints, &self->g));
    AW_RETURN(self->sum.out);
    AW_END;
}
AW_ASYNC(long, fiber_generator, struct count_fiber g; struct sum_ints sum;) {
    AW_BEGIN;
    self->g = AW_GENERATE(count_fiber);
    AW_AWAIT(self->sum, AW_FOLD_OF(sum_ints, &self->g));
    AW_RETURN(self->sum.out);
    AW_END;
}

AW_ASYNC(int, job, int n;) {
    AW_BEGIN;
    AW_YIELD;
    AW_RETURN(self->n);
    AW_END;
}
AW_MAP_ASYNC(struct job, one, int) {
    return AW_CALL(job, .n = *item);
}
AW_CONCURRENT(struct job, many, int) {
    return AW_CALL(job, .n = *item);
}
AW_ASYNC(long, one_by_one, struct count g; struct one one; struct sum_ints sum;) {
    AW_BEGIN;
    self->g = AW_GENERATE(count);
    self->one = AW_ADAPTER(one, &self->g);
    AW_AWAIT(self->sum, AW_FOLD_OF(sum_ints, &self->one));
    AW_RETURN(self->sum.out);
    AW_END;
}
AW_ASYNC(long, at_once, bool ordered; struct count g; struct many many; struct sum_ints sum;) {
    AW_BEGIN;
    self->g = AW_GENERATE(count);
    self->many = AW_UNORDERED(many, &self->g, 64);
    self->many.ordered = self->ordered;
    AW_AWAIT(self->sum, AW_FOLD_OF(sum_ints, &self->many));
    AW_RETURN(self->sum.out);
    AW_END;
}

#define MEASURE(name, expected, ...)                                                               \
    do {                                                                                           \
        uint64_t start = bench_now();                                                              \
        bench_check(bench_run(__VA_ARGS__) == (expected), "every item comes out once");            \
        bench_report_each(name, start, TOTAL);                                                     \
    } while (0)

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    for (int i = 0; i < ITEMS; i++)
        numbers[i] = i;
    MEASURE("pipeline", expected_even(), AW_CALL(pipeline));
    MEASURE("each", (long)ITEMS * (ITEMS - 1) / 2 * ROUNDS, AW_CALL(each));
    MEASURE("generator", TOTAL, AW_CALL(generator));
    MEASURE("fiber-generator", TOTAL, AW_CALL(fiber_generator));
    MEASURE("one-by-one", TOTAL, AW_CALL(one_by_one));
    MEASURE("buffered", TOTAL, AW_CALL(at_once, .ordered = true));
    MEASURE("unordered", TOTAL, AW_CALL(at_once));
}
