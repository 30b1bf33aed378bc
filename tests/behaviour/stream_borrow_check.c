/* SPDX-License-Identifier: MIT
 *
 * A stream that is left without a close while it holds something is caught: an unfinished
 * generator, a pending future for an item, futures in flight. A stream that was closed, has
 * ended, or was never polled is not reported. */
#include "support/by_hand.h"
#include "support/workers.h"

ALL_ON_THIS_THREAD("a death test forks, and its child has only the thread that forked");

#define STILL_OPEN "while something in its frame was open"

/* In a task of a new runtime. */
#define RUN_ON_NEW(workers, ...)                                                                   \
    do {                                                                                           \
        aw_runtime *rt_ = new_runtime(workers, NULL, NULL);                                        \
        (void)RUN(rt_, __VA_ARGS__);                                                               \
    } while (0)

AW_GENERATOR(int, numbers, int to; int i;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->to; self->i++)
        AW_YIELD_VALUE(self->i);
    AW_END;
}
AW_FIBER_GENERATOR(int, fiber_numbers, int to;) {
    int error = 0;
    for (int i = 0; i < self->to && !error; i++)
        error = aw_yield_value(self, i);
    return error;
}

AW_ASYNC(int, naps, int n; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(10)));
    AW_RETURN(self->n);
    AW_END;
}
AW_CONCURRENT(struct naps, at_once, int) {
    return AW_CALL(naps, .n = *item);
}
AW_MAP_ASYNC(struct naps, one_by_one, int) {
    return AW_CALL(naps, .n = *item);
}

enum kind { FUNCTION, FIBER, BUFFERED, MAPPED };

struct streams {
    struct numbers function;
    struct fiber_numbers fiber;
    struct at_once buffered;
    struct one_by_one mapped;
};
static aw_stream *choose(struct streams *s, enum kind kind) {
    s->function = AW_GENERATE(numbers, .to = 3);
    s->fiber = AW_GENERATE(fiber_numbers, .to = 3);
    s->buffered = AW_UNORDERED(at_once, &s->function, 2);
    s->mapped = AW_ADAPTER(one_by_one, &s->function);
    return kind == FUNCTION   ? &s->function.stream
           : kind == FIBER    ? &s->fiber.stream
           : kind == BUFFERED ? &s->buffered.stream
                              : &s->mapped.stream;
}

/* Takes `items` items, and then closes the stream or leaves it. */
AW_ASYNC(int, takes, enum kind kind; int items; bool closes; struct streams s; aw_stream * stream;
         AW_SHARE(aw_stream_next_future next; aw_stream_close_future close;);) {
    AW_BEGIN;
    self->stream = choose(&self->s, self->kind);
    for (; self->items > 0; self->items--)
        AW_AWAIT(self->next, aw_stream_next_of(self->stream));
    if (self->closes) AW_AWAIT(self->close, aw_stream_close_of(self->stream));
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(a_function_that_leaves_a_generator_half_way_is_caught) {
    const char *text = "async function 'takes' has ended " STILL_OPEN;
    DIES(RUN_ON_NEW(workers, AW_CALL(takes, .kind = FUNCTION, .items = 1)), text);
    DIES(RUN_ON_NEW(workers, AW_CALL(takes, .kind = FIBER, .items = 1)), text);
    DIES(RUN_ON_NEW(workers, AW_CALL(takes, .kind = FUNCTION, .items = 1)), "numbers at ");
}

ON_BOTH(a_function_that_leaves_futures_in_flight_is_caught) {
    const char *text = "async function 'takes' has ended " STILL_OPEN;
    DIES(RUN_ON_NEW(workers, AW_CALL(takes, .kind = BUFFERED, .items = 1)), text);
}

/* The one future of a map, in a task that ends while it is pending. */
AW_ASYNC(int, stops, struct numbers source; struct one_by_one mapped; int got;) {
    AW_BEGIN;
    self->source = AW_GENERATE(numbers, .to = 3);
    self->mapped = AW_ADAPTER(one_by_one, &self->source);
    CHECK_EQ(aw_stream_poll_next(&self->mapped.stream, cx, &self->got), AW_PENDING);
    self->source.aw_borrow.mark = 0; /* this test is about the map only */
    AW_RETURN(0);
    AW_END;
}
ON_BOTH(a_function_that_leaves_the_future_of_a_map_is_caught) {
    DIES(RUN_ON_NEW(workers, AW_CALL(stops)), "async function 'stops' has ended " STILL_OPEN);
    DIES(RUN_ON_NEW(workers, AW_CALL(stops)), "naps at ");
}

AW_FIBER(int, fiber_takes, enum kind kind; int items; bool closes;) {
    struct streams s;
    aw_stream *stream = choose(&s, self->kind);
    for (; self->items > 0; self->items--)
        CHECK_GE(aw_await(aw_stream_next_of(stream)), 0);
    if (self->closes) aw_await(aw_stream_close_of(stream));
    return 0;
}
ON_BOTH(a_fiber_that_leaves_a_stream_of_its_locals_is_caught) {
    const char *text =
        "fiber 'fiber_takes' has returned, after this await, while a scope or stream";
    for (enum kind kind = FUNCTION; kind <= BUFFERED; kind++)
        DIES(RUN_ON_NEW(workers, AW_CALL(fiber_takes, .kind = kind, .items = 1)), text);
}

ON_BOTH(a_stream_that_is_closed_or_at_its_end_is_not_reported) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (enum kind kind = FUNCTION; kind <= MAPPED; kind++) {
        for (int items = 0; items < 4; items++) {
            CHECK_EQ(RUN(rt, AW_CALL(takes, .kind = kind, .items = items, .closes = true)), 0);
            CHECK_EQ(RUN(rt, AW_CALL(fiber_takes, .kind = kind, .items = items, .closes = true)),
                     0);
        }
        CHECK_EQ(RUN(rt, AW_CALL(takes, .kind = kind, .items = 4)), 0);
        CHECK_EQ(RUN(rt, AW_CALL(fiber_takes, .kind = kind, .items = 4)), 0);
        CHECK_EQ(RUN(rt, AW_CALL(takes, .kind = kind)), 0);
        CHECK_EQ(RUN(rt, AW_CALL(fiber_takes, .kind = kind)), 0);
    }
    workers_end(rt, NULL);
}
