/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: streams. Some items of a pipeline are awaited inside the chains of
 * support/cancel_every_await.h, and the pipeline is cut at each step. The cleanup awaits the other items, which
 * shows that nothing was lost, and closes the pipeline. An item is a token of the ledger. */
#include <errno.h>

#include "support/cancel_every_await.h"

enum { ITEMS = 3 };

/* The number shows which items arrive, and in which order. */
struct item {
    int token, number;
};

static struct {
    int made, seen; /* numbers start at 1 */
    bool got[64];
    bool ordered;
    int last;
    int dropped;
} book;

static struct item make_item(void) {
    return (struct item){ownership_token(), ++book.made};
}

static void release(void *item) {
    ownership_release(((struct item *)item)->token);
    book.dropped++;
}

static void take_item(const struct item *i) {
    ownership_release(i->token);
    CHECK(i->number > 0 && !book.got[i->number]);
    book.got[i->number] = true;
    if (book.ordered) CHECK_GT(i->number, book.last);
    book.last = i->number;
    book.seen++;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Awaits before each item. Holds a token until its end, which awaits as well. */
AW_GENERATOR(struct item, feed, int remaining; int held; struct leaf wait;) {
    AW_BEGIN;
    self->held = ownership_token();
    while (self->remaining-- > 0) {
        AW_AWAIT(self->wait, chain_leaf(1, 0));
        ownership_release(self->wait.out);
        AW_YIELD_VALUE(make_item());
    }
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->wait, chain_leaf(1, 0));
        ownership_release(self->wait.out);
        ownership_release(self->held);
    }
    AW_END;
}

AW_FIBER_GENERATOR(struct item, fiber_feed, int remaining;) {
    int held = ownership_token(), error = 0;
    while (self->remaining-- > 0 && !error) {
        int token = aw_await(chain_leaf(1, 0));
        if (token < 0) {
            error = token;
            break;
        }
        ownership_release(token);
        error = aw_yield_value(self, make_item());
    }
    AW_SHIELD {
        ownership_release(aw_await(chain_leaf(1, 0)));
    }
    ownership_release(held);
    return error;
}

AW_MAP(struct item, same, struct item) {
    return *item;
}
AW_FILTER(odd, struct item) {
    return item->number % 2;
}
AW_TAKE_WHILE(all, struct item) {
    return item->number < 100;
}

/* Takes an item as its argument, and returns it or releases it. */
struct carry_item {
    AW_FRAME(struct item);
    struct item item;
    struct leaf wait;
};
static void carry_item_discard(aw_future *self) {
    release(&((struct carry_item *)self)->out);
}
AW_ASYNC_STATIC(carry_item, .discard = carry_item_discard) {
    AW_BEGIN;
    AW_AWAIT(self->wait, chain_leaf(1 + self->item.number % 2, 0));
    ownership_release(self->wait.out);
    AW_RETURN(self->item);
    AW_FINALLY;
    if (self->future.state & AW__CUT) release(&self->item);
    AW_END;
}
AW_MAP_ASYNC(struct carry_item, one_by_one, struct item) {
    return AW_CALL(carry_item, .item = *item);
}
AW_CONCURRENT(struct carry_item, several, struct item) {
    return AW_CALL(carry_item, .item = *item);
}

/* ---- Pipelines ------------------------------------------------------------------------------- */

static struct {
    struct feed a, b;
    struct fiber_feed c;
    struct same map;
    struct odd filter;
    struct all while_all;
    AW_TAKE(struct item) take;
    AW_SKIP(struct item) skip;
    AW_MERGE(struct item, 3) merge;
    AW_CHUNKS(struct item, 2) chunks;
    struct one_by_one one_by_one;
    struct several several;
    aw_stream *end; /* the last stream */
} line;

static bool is_chunked(void) {
    return line.end == &line.chunks.stream;
}

static void make_feeds(void) {
    memset(&book, 0, sizeof book);
    line.a = AW_GENERATE(feed, .remaining = ITEMS);
    line.b = AW_GENERATE(feed, .remaining = ITEMS);
    line.c = AW_GENERATE(fiber_feed, .remaining = ITEMS);
    aw_stream_drop_with(&line.a, release);
    aw_stream_drop_with(&line.b, release);
    aw_stream_drop_with(&line.c, release);
    book.ordered = true;
}

static aw_stream *make_generator(void) {
    return &line.a.stream;
}
static aw_stream *make_fiber_generator(void) {
    return &line.c.stream;
}
static aw_stream *make_functions(void) {
    line.map = AW_ADAPTER(same, &line.a);
    aw_stream_drop_with(&line.map, release);
    line.filter = AW_ADAPTER(odd, &line.map);
    line.while_all = AW_ADAPTER(all, &line.filter);
    aw_stream_take(&line.take, &line.while_all, 5);
    aw_stream_skip(&line.skip, &line.take, 1);
    return &line.skip.stream;
}
static aw_stream *make_merge(void) {
    book.ordered = false;
    line.map = AW_ADAPTER(same, &line.b);
    aw_stream_drop_with(&line.map, release);
    aw_stream_merge(&line.merge, &line.a, &line.map, &line.c);
    return &line.merge.stream;
}
static aw_stream *make_chunks(void) {
    aw_stream_chunks(&line.chunks, &line.a, chain.style & 1 ? AW_USEC(300) : AW_FOREVER);
    return &line.chunks.stream;
}
static aw_stream *make_one_by_one(void) {
    line.one_by_one = AW_ADAPTER(one_by_one, &line.a);
    return &line.one_by_one.stream;
}
static aw_stream *make_buffered(void) {
    line.several = AW_BUFFERED(several, &line.a, 2);
    return &line.several.stream;
}
static aw_stream *make_unordered(void) {
    book.ordered = false;
    line.several = AW_UNORDERED(several, &line.c, 3);
    return &line.several.stream;
}
/* All of them, stacked. */
static aw_stream *make_tower(void) {
    book.ordered = false;
    aw_stream_merge(&line.merge, &line.a, &line.b, &line.c);
    line.several = AW_UNORDERED(several, &line.merge, 2);
    line.one_by_one = AW_ADAPTER(one_by_one, &line.several);
    line.filter = AW_ADAPTER(odd, &line.one_by_one);
    aw_stream_chunks(&line.chunks, &line.filter, AW_USEC(300));
    aw_stream_drop_with(&line.chunks, NULL);
    /* In a chunk, items are not released by their futures any more. */
    aw_stream_drop_with(&line.filter, release);
    return &line.chunks.stream;
}

static aw_stream *(*make_line)(void);
static aw_stream_next_future next;
static aw_stream_close_future close_future;

static void take_next(aw_future *f) {
    (void)f;
    CHECK(next.out == 0 || next.out == 1);
    if (next.out == 0) return;
    if (is_chunked()) {
        CHECK_GT(line.chunks.item->count, 0);
        for (size_t i = 0; i < line.chunks.item->count; i++)
            take_item(&line.chunks.item->items[i]);
    } else {
        take_item(*aw__stream_item(line.end));
    }
}

/* ---- next: some items in the body, which may be cut; the others in the cleanup --------------- */

struct consume {
    AW_FRAME(int);
    int limit;
    struct chain_via via;
};
AW_ASYNC_STATIC(consume) {
    AW_BEGIN;
    while (self->limit-- > 0) {
        next = aw_stream_next_of(line.end);
        AW_AWAIT(self->via, chain_via(&next.future));
        take_next(NULL);
        if (next.out == 0) break;
    }
    AW_RETURN(0);
    AW_END;
}
static struct consume first, rest;
static struct finish {
    AW_FRAME(int);
    struct chain_via via;
} finish;
static int half; /* close before the end */

/* In the cleanup: consumes all other items or none, then closes. */
AW_ASYNC_STATIC(finish) {
    AW_BEGIN;
    if (!half) {
        rest = AW_CALL(consume, .limit = 100);
        AW_AWAIT(self->via, chain_via(&rest.future));
    }
    close_future = aw_stream_close_of(line.end);
    AW_AWAIT(self->via, chain_via(&close_future.future));
    CHECK_EQ(close_future.out, 0);
    AW_RETURN(0);
    AW_END;
}

static bool is_made;

static aw_future *make_consume(void) {
    make_feeds();
    line.end = make_line();
    is_made = true;
    first = AW_CALL(consume, .limit = 2);
    return &first.future;
}
static aw_future *make_finish(void) {
    static aw_ready nothing;
    if (!is_made) {
        nothing = aw_ready_now(0);
        return &nothing.future;
    }
    finish = AW_CALL(finish);
    return &finish.future;
}
static void check_book(void) {
    if (is_made && !half) CHECK_EQ(book.seen + book.dropped, book.made);
    if (is_made && half) CHECK_LE(book.seen + book.dropped, book.made);
    is_made = false;
}

/* cancel-at-every-await: aw_stream_next */
/* cancel-at-every-await: aw_stream_close */
#define LINE_TEST(name)                                                                            \
    TEST(name##_to_the_end) {                                                                      \
        make_line = make_##name;                                                                   \
        half = 0;                                                                                  \
        cancel_everywhere((struct specimen){make_consume, NULL, make_finish, NULL, check_book});   \
    }                                                                                              \
    TEST(name##_closed_half_way) {                                                                 \
        make_line = make_##name;                                                                   \
        half = 1;                                                                                  \
        cancel_everywhere((struct specimen){make_consume, NULL, make_finish, NULL, check_book});   \
    }
LINE_TEST(generator)
LINE_TEST(fiber_generator)
LINE_TEST(functions)
LINE_TEST(merge)
LINE_TEST(chunks)
LINE_TEST(one_by_one)
LINE_TEST(buffered)
LINE_TEST(unordered)
LINE_TEST(tower)

/* ---- The other futures over streams ---------------------------------------------------------- */

/* Closes the stream, cancelled or not. */
/* cancel-at-every-await: aw_stream_drain */
static aw_stream_drain_future drain;
static aw_future *make_drain(void) {
    make_feeds();
    line.end = make_line();
    drain = aw_stream_drain_of(line.end);
    return &drain.future;
}
static void take_drain(aw_future *f) {
    (void)f;
    CHECK_EQ(drain.out, 0);
    CHECK_EQ(book.dropped, book.made);
}
TEST(drain_of_a_generator) {
    make_line = make_generator;
    cancel_everywhere((struct specimen){make_drain, take_drain, NULL, NULL, NULL});
}
TEST(drain_of_many_at_once) {
    make_line = make_unordered;
    cancel_everywhere((struct specimen){make_drain, take_drain, NULL, NULL, NULL});
}
TEST(drain_of_a_tower) {
    make_line = make_tower;
    cancel_everywhere((struct specimen){make_drain, take_drain, NULL, NULL, NULL});
}

/* cancel-at-every-await: aw_stream_collect */
static aw_stream_collect_future collect;
static struct item collected[ITEMS + 1];
static aw_future *make_collect(void) {
    make_feeds();
    line.end = make_line();
    is_made = true;
    collect = aw_stream_collect_of(line.end, collected, sizeof collected[0], ITEMS + 1);
    return &collect.future;
}
static void take_collect(aw_future *f) {
    (void)f;
    CHECK_EQ(collect.out, ITEMS);
    CHECK_EQ(collect.count, ITEMS);
}
/* The items collected so far are valid, however it ended. */
static aw_future *finish_collect(void) {
    for (size_t i = 0; is_made && i < collect.count; i++)
        take_item(&collected[i]);
    return make_finish();
}
TEST(collect) {
    make_line = make_buffered;
    half = 0;
    cancel_everywhere(
        (struct specimen){make_collect, take_collect, finish_collect, NULL, check_book});
}

/* cancel-at-every-await: AW_FOLD */
AW_FOLD(int, count, struct item) {
    take_item(item);
    self->out++;
}
static struct count count;
static aw_future *make_count(void) {
    make_feeds();
    line.end = make_line();
    is_made = true;
    count = AW_FOLD_OF(count, &line.one_by_one);
    return &count.future;
}
static void take_count(aw_future *f) {
    (void)f;
    CHECK_EQ(count.out, ITEMS);
    CHECK_EQ(count.error, 0);
}
TEST(fold) {
    make_line = make_one_by_one;
    half = 0;
    cancel_everywhere((struct specimen){make_count, take_count, make_finish, NULL, check_book});
}
