/* SPDX-License-Identifier: MIT
 *
 * The rules of cancelling, for the `next` of each kind of stream, and for close and drain. All
 * of them wait for one scripted leaf. */
#include <errno.h>

#include "support/checked_waker.h"
#include "support/script.h"

enum kind {
    a_generator,
    a_fiber_generator,
    a_map,
    a_filter,
    a_take,
    a_merge,
    a_chunk,
    one_at_a_time,
    buffered,
    unordered,
    a_tower,
    KINDS
};

/* Yields the token of its leaf, and then that of a second one, which is ready at once. */
AW_GENERATOR(int, gives, struct script *wait; struct script at_once; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->wait));
    AW_YIELD_VALUE(self->leaf.out);
    AW_AWAIT(self->leaf, leaf(&self->at_once));
    AW_YIELD_VALUE(self->leaf.out);
    AW_END;
}
AW_FIBER_GENERATOR(int, gives_fiber, struct script *wait; struct script at_once;) {
    int token = aw_await(leaf(self->wait));
    if (token > 0) token = aw_yield_value(self, token);
    if (token == 0) token = aw_await(leaf(&self->at_once));
    if (token > 0) token = aw_yield_value(self, token);
    return token;
}
/* Yields at once. */
AW_GENERATOR(int, gives_now, int left;) {
    AW_BEGIN;
    while (self->left-- > 0)
        AW_YIELD_VALUE(ownership_token());
    AW_END;
}
/* Never yields. */
AW_GENERATOR(int, gives_never, struct script never; struct leaf leaf;) {
    AW_BEGIN;
    self->never.pends = NEVER;
    AW_AWAIT(self->leaf, leaf(&self->never));
    AW_END;
}

AW_MAP(int, same, int) {
    return *item;
}
AW_FILTER(every, int) {
    return true;
}

static struct script scripts[2]; /* for the first and the second item */
static int made;

/* The future of the first item waits for the leaf. */
static struct leaf leaf_for(int token) {
    ownership_release(token);
    return leaf(&scripts[made++]);
}
AW_MAP_ASYNC(struct leaf, one, int) {
    return leaf_for(*item);
}
AW_CONCURRENT(struct leaf, many, int) {
    return leaf_for(*item);
}

static struct {
    struct gives g;
    struct gives_fiber f;
    struct gives_now now;
    struct gives_never never;
    struct same map;
    struct every filter;
    AW_TAKE(int) take;
    AW_MERGE(int, 2) merge;
    AW_CHUNKS(int, 1) chunks;
    struct one one;
    struct many many;
    aw_stream *stream;
    enum kind kind;
} line;

static void drop_token(void *item) {
    ownership_release(*(int *)item);
}

/* How many items there are in all. With futures in flight the second item could overtake the
 * first. */
static bool in_flight(enum kind kind) {
    return kind == buffered || kind == unordered;
}
static int items_of(enum kind kind) {
    return in_flight(kind) ? 1 : 2;
}

static aw_stream *make(enum kind kind, struct script s) {
    ownership_reset();
    made = 0;
    scripts[0] = s;
    scripts[1] = (struct script){0};
    line.kind = kind;
    line.g = AW_GENERATE(gives, .wait = &scripts[0]);
    line.f = AW_GENERATE(gives_fiber, .wait = &scripts[0]);
    line.now = AW_GENERATE(gives_now, .left = items_of(kind));
    line.never = AW_GENERATE(gives_never);
    aw_stream_drop_with(&line.g, drop_token);
    aw_stream_drop_with(&line.f, drop_token);
    line.map = AW_ADAPTER(same, &line.g);
    aw_stream_drop_with(&line.map, drop_token);
    line.filter = AW_ADAPTER(every, &line.g);
    aw_stream_take(&line.take, &line.f, 2);
    aw_stream_merge(&line.merge, &line.never, &line.g);
    aw_stream_chunks(&line.chunks, &line.g, AW_FOREVER);
    line.one = AW_ADAPTER(one, &line.now);
    line.many = AW_UNORDERED(many, &line.now, 2);
    line.many.ordered = kind == buffered;
    switch (kind) {
    case a_generator: return line.stream = &line.g.stream;
    case a_fiber_generator: return line.stream = &line.f.stream;
    case a_map: return line.stream = &line.map.stream;
    case a_filter: return line.stream = &line.filter.stream;
    case a_take: return line.stream = &line.take.stream;
    case a_merge: return line.stream = &line.merge.stream;
    case a_chunk: return line.stream = &line.chunks.stream;
    case one_at_a_time: return line.stream = &line.one.stream;
    case buffered:
    case unordered: return line.stream = &line.many.stream;
    default: break;
    }
    aw_stream_take(&line.take, &line.one, 2);
    aw_stream_chunks(&line.chunks, &line.take, AW_FOREVER);
    /* Items of a chunk are moved, so their futures cannot discard them. */
    aw_stream_drop_with(&line.take, drop_token);
    return line.stream = &line.chunks.stream;
}

static void take(void) {
    bool chunk = line.kind == a_chunk || line.kind == a_tower;
    ownership_release(chunk ? line.chunks.item->items[0] : *(int *)*aw__stream_item(line.stream));
}

/* `items` items come out at once. Then the stream is closed, and nothing remains. */
static void finish(int items) {
    while (items-- > 0) {
        aw_stream_next_future f = aw_stream_next_of(line.stream);
        CHECK_EQ(drive_poll(&f.future), AW_READY);
        CHECK_EQ(f.out, 1);
        take();
    }
    aw_stream_close_future c = aw_stream_close_of(line.stream);
    CHECK_EQ(drive_poll_to_end(&c.future), AW_READY);
    ownership_check_balanced();
}

#define FOR_EVERY_KIND                                                                             \
    for (enum kind kind = 0; kind < KINDS; kind++)                                                 \
        for (int borrows = 0; borrows < 2; borrows++)

#define WAITING_FOR(...) make(kind, (struct script){.borrows = borrows, __VA_ARGS__})

TEST(unstarted_it_is_cancelled_and_its_source_was_not_polled) {
    FOR_EVERY_KIND {
        WAITING_FOR(.pends = NEVER);
        aw_stream_next_future f = aw_stream_next_of(line.stream);
        CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
        CHECK_EQ(scripts[0].polls, 0);
        finish(0);
        CHECK_EQ(scripts[0].polls, 0);
    }
}

/* The drive checks that no waker is kept: an old one must not be held, nor woken. */
TEST(cancelled_it_keeps_no_waker_and_loses_no_item) {
    FOR_EVERY_KIND {
        WAITING_FOR(.pends = NEVER);
        for (int again = 0; again < 3; again++) {
            aw_stream_next_future f = aw_stream_next_of(line.stream);
            CHECK_EQ(drive_poll(&f.future), AW_PENDING);
            CHECK_EQ(drive_poll(&f.future), AW_PENDING);
            CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
            CHECK_EQ(scripts[0].cancels, 0);
            script_wake(&scripts[0]);
        }
        script_finish(&scripts[0]);
        finish(items_of(kind));
    }
}

TEST(the_latest_waker_is_woken_and_no_other) {
    FOR_EVERY_KIND {
        WAITING_FOR(.pends = NEVER);
        aw_stream_next_future f = aw_stream_next_of(line.stream);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
        f = aw_stream_next_of(line.stream);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_wakes(), 0);
        script_finish(&scripts[0]);
        CHECK_EQ(drive_wakes(), 1);
        CHECK_EQ(drive_poll(&f.future), AW_READY);
        CHECK_EQ(f.out, 1);
        take();
        finish(items_of(kind) - 1);
    }
}

/* Resume: what it waited for had finished. Futures in flight stay in flight, and are there for
 * the next call. */
TEST(an_item_that_came_first_is_the_result_of_a_cancel) {
    FOR_EVERY_KIND {
        WAITING_FOR(.pends = NEVER);
        aw_stream_next_future f = aw_stream_next_of(line.stream);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        script_finish(&scripts[0]);
        if (in_flight(kind)) {
            CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
            finish(1);
        } else {
            CHECK_EQ(drive_cancel(&f.future), AW_READY);
            CHECK_EQ(f.out, 1);
            take();
            finish(1);
        }
    }
}

TEST(an_end_that_came_first_is_the_result_of_a_cancel) {
    for (int borrows = 0; borrows < 2; borrows++) {
        make(a_generator, (struct script){.borrows = borrows});
        line.never = AW_GENERATE(gives_never);
        line.filter = AW_ADAPTER(every, &line.never);
        aw_stream_next_future f = aw_stream_next(&line.filter);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        line.never.never.error = -EIO; /* nothing to own */
        script_finish(&line.never.never);
        CHECK_EQ(drive_cancel(&f.future), AW_READY);
        CHECK_EQ(f.out, 0);
        ownership_check_balanced();
    }
}

TEST(discarded_its_item_comes_again) {
    FOR_EVERY_KIND {
        WAITING_FOR(.pends = 0);
        for (int again = 0; again < 3; again++) {
            aw_stream_next_future f = aw_stream_next_of(line.stream);
            CHECK_EQ(drive_poll(&f.future), AW_READY);
            aw_future_discard(&f.future);
        }
        finish(items_of(kind));
        WAITING_FOR(.pends = 0); /* or is dropped */
        aw_stream_next_future f = aw_stream_next_of(line.stream);
        CHECK_EQ(drive_poll(&f.future), AW_READY);
        aw_future_discard(&f.future);
        finish(0);
    }
}

/* Cleanup: slow parts are waited for, even if the close is cancelled, twice. */
TEST(a_close_ends_when_all_is_gone) {
    FOR_EVERY_KIND {
        WAITING_FOR(.pends = NEVER, .cancel_pends = 100);
        aw_stream_next_future f = aw_stream_next_of(line.stream);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
        aw_stream_close_future c = aw_stream_close_of(line.stream);
        CHECK_EQ(drive_poll(&c.future), AW_PENDING);
        CHECK_EQ(drive_cancel(&c.future), AW_PENDING);
        CHECK_EQ(drive_cancel(&c.future), AW_PENDING);
        CHECK_EQ(scripts[0].cancelled, 0);
        script_finish_cancel(&scripts[0]);
        CHECK_EQ(drive_wakes(), 1);
        CHECK_EQ(drive_cancel(&c.future), AW_READY);
        CHECK_EQ(scripts[0].cancelled, 1);
        ownership_check_balanced();
    }
}

/* Cut: parts that finish while it is being cancelled are discarded. */
TEST(a_cancelled_drain_is_gone_when_all_is) {
    for (int wins = 0; wins < 2; wins++)
        for (enum kind kind = one_at_a_time; kind <= unordered; kind++) {
            make(kind, (struct script){.pends = NEVER, .cancel_pends = 1, .wins = wins});
            aw_stream_drain_future d = aw_stream_drain_of(line.stream);
            CHECK_EQ(drive_poll(&d.future), AW_PENDING);
            CHECK_EQ(drive_cancel(&d.future), AW_PENDING);
            script_finish_cancel(&scripts[0]);
            CHECK_EQ(drive_wakes(), 1);
            CHECK_EQ(drive_cancel(&d.future), AW_CANCELLED);
            CHECK_EQ(scripts[0].discards, wins);
            ownership_check_balanced();
        }
}

/* Decided: it has its error, and only waits for the rest to end. */
TEST(a_drain_that_has_its_error_ends_with_it) {
    make(a_merge, (struct script){.pends = NEVER, .cancel_pends = 1});
    scripts[1] = (struct script){.error = -EPROTO};
    line.now = AW_GENERATE(gives_now, .left = 2);
    line.many = AW_UNORDERED(many, &line.now, 2, .errors = true);
    aw_stream_drain_future d = aw_stream_drain(&line.many);
    CHECK_EQ(drive_poll(&d.future), AW_PENDING); /* it is cancelling the other future */
    CHECK_EQ(scripts[0].cancels, 1);
    CHECK_EQ(drive_cancel(&d.future), AW_PENDING);
    script_finish_cancel(&scripts[0]);
    CHECK_EQ(drive_cancel(&d.future), AW_READY);
    CHECK_EQ(d.out, -EPROTO);
    ownership_check_balanced();
}
