/* SPDX-License-Identifier: MIT
 *
 * awake/stream.h: a sequence of values, each delivered as soon as it is there.
 *
 *     AW_MAP(double, half, int) { return *item / 2.0; }
 *
 *     struct show {
 *         AW_FRAME(int);
 *         AW_ARRAY_STREAM(int) numbers;
 *         struct half halves;
 *         aw_stream_next_future next;
 *     };
 *     AW_ASYNC_STATIC(show) {
 *         AW_BEGIN;
 *         aw_stream_array(&self->numbers, some_numbers, 10);
 *         self->halves = AW_ADAPTER(half, &self->numbers);
 *         AW_STREAM_EACH(self->next, &self->halves) printf("%f\n", *self->halves.item);
 *         AW_RETURN(self->next.out);
 *         AW_END;
 *     }
 *
 * In a fiber: while ((n = aw_await(aw_stream_next(&halves))) > 0) printf("%f\n", *halves.item);
 *
 * A stream is a struct with a member `stream` and, directly after it, `item`: a typed pointer to
 * the latest item, valid until the next call for this stream. Items stay where they are (in the
 * array, or in the future that made them) and are passed on by address. Streams point to each
 * other: do not move them once they are connected. One task at a time.
 *
 *   aw_stream_next   a future. `out` is 1: there is an item, now yours; 0: the end; negative: an
 *                    error, reported once. After an error, a generator and a reader (awake/lines.h)
 *                    have ended; a merge continues with its other streams; AW_BUFFERED and
 *                    AW_UNORDERED continue with their other futures; an adapter passes the error on
 *                    and then behaves like its source. A cancel or discard loses nothing: the next
 *                    call gets the item or the error.
 *   aw_stream_close  a future that releases what the stream and its sources hold: a half-run
 *                    generator, futures in flight. Not needed after the end, nor if they hold
 *                    nothing (arrays, functions over arrays). If a frame or fiber ends while such a
 *                    stream of its own is open, the program aborts with a message (AW_CHECKS). A
 *                    close is cleanup: a cancel does not cut it short. A closed stream is at its
 *                    end.
 *
 * If items own something, set a function that drops one: aw_stream_drop_with(&s, fn). It is called
 * for items that a filter leaves out, and for those left in a stream that is closed. */
#ifndef AWAKE_STREAM_H
#define AWAKE_STREAM_H

#include <awake/async.h>
#include <awake/channel.h>
#include <awake/future.h>
#include <awake/group.h>
#include <awake/time.h>

AW_C_BEGIN

/* ---- Streams --------------------------------------------------------------------------------- */

typedef struct aw_stream aw_stream;

typedef struct aw_stream_type {
    size_t self_size; /* of this struct, which may grow */
    const char *name;
    /* Like the poll of a future. AW_READY: *out is as for aw_stream_next, and `item` is set; the
     * stream holds no waker. AW_PENDING: this waker, no other, will be woken. Not called again
     * after *out was 0. */
    aw_poll (*next)(aw_stream *self, aw_cx *cx, int *out);
    /* No `next` waits any more: keep no waker. True: something has just arrived, and `next` is
     * called. NULL: it never keeps a waker. */
    bool (*disarm)(aw_stream *self, aw_cx *cx);
    /* Release what it holds. AW_READY: all is released. NULL: it holds nothing. */
    aw_poll (*close)(aw_stream *self, aw_cx *cx);
    /* Release an item of this stream, which may have been moved. NULL: only aw_stream_drop_with
     * applies. */
    void (*drop)(aw_stream *self, void *item);
    /* Take the latest item back. NULL: it stays in place and is delivered again. */
    void (*put_back)(aw_stream *self);
    /* For backtraces: the i-th future that it waits for now. May be NULL. */
    const aw_future *(*child)(const aw_stream *self, size_t i);
    const void *extra; /* data of this kind of stream */
} aw_stream_type;

struct aw_stream {
    const aw_stream_type *type;
    void (*drop)(void *item);
    uintptr_t state; /* private */
};

/* First members of every stream. A stream of your own is such a struct, and a type:
 *     struct mine { AW_STREAM_HEAD(int); ... };
 *     struct mine m = {.stream = AW_STREAM_INIT(&mine_type)}; */
#define AW_STREAM_HEAD(T)                                                                          \
    aw_stream stream;                                                                              \
    T *item

#define AW_STREAM_INIT(type_ptr)                                                                   \
    { (type_ptr), NULL, 0 }

/* Poll for the next item: for streams with a source, and for futures over streams. */
static inline aw_poll aw_stream_poll_next(aw_stream *s, aw_cx *cx, int *out);

/* Put the latest item back: it is delivered again. */
static inline void aw_stream_put_back(aw_stream *s);

/* Call this if a poll was pending and will not be repeated, for whatever reason. True: an item, an
 * error or the end is there, for the next call. */
AW_API bool aw_stream_disarm(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw_stream_poll_close(aw_stream *s, aw_cx *cx);
/* Drop an item that is not wanted. */
AW_API void aw_stream_drop_item(aw_stream *s, void *item);
AW_API const aw_future *aw_stream_child(const aw_stream *s, size_t i);

/* Call it before the first item. */
#define aw_stream_drop_with(s, fn) ((void)((s)->stream.drop = (fn)))

/* ---- Futures over streams -------------------------------------------------------------------- */

/* aw-future: aw_stream_next */
typedef struct aw_stream_next_future {
    aw_future future;
    int out;
    aw_stream *stream;
} aw_stream_next_future;

/* aw-future: aw_stream_close */
typedef struct aw_stream_close_future {
    aw_future future;
    int out; /* 0 */
    aw_stream *stream;
} aw_stream_close_future;

/* Drop all items up to the end or the first error, then close. `out` is 0 or the error. A cancel
 * also closes, and ends when that is done. With AW_UNORDERED (awake/map_concurrent.h) this is a
 * for-each with a limit of futures at once. */
/* aw-future: aw_stream_drain */
typedef struct aw_stream_drain_future {
    aw_future future;
    int out;
    aw_stream *stream;
} aw_stream_drain_future;

/* Move items into an array until it is full or the stream ends. `out` is the number, or an error;
 * `count` is the number in any case, also after a cancel. The items are yours. */
/* aw-future: aw_stream_collect */
typedef struct aw_stream_collect_future {
    aw_future future;
    int out;
    aw_stream *stream;
    char *to;
    size_t size, count, capacity;
} aw_stream_collect_future;

AW_API extern const aw_future_type aw_stream_next_type;
AW_API extern const aw_future_type aw_stream_close_type;
AW_API extern const aw_future_type aw_stream_drain_type;
AW_API extern const aw_future_type aw_stream_collect_type;

static inline aw_stream_next_future aw_stream_next_of(aw_stream *s) {
    aw_stream_next_future f = {AW_FUTURE_INIT(&aw_stream_next_type), 0, s};
    return f;
}
static inline aw_stream_close_future aw_stream_close_of(aw_stream *s) {
    aw_stream_close_future f = {AW_FUTURE_INIT(&aw_stream_close_type), 0, s};
    return f;
}
static inline aw_stream_drain_future aw_stream_drain_of(aw_stream *s) {
    aw_stream_drain_future f = {AW_FUTURE_INIT(&aw_stream_drain_type), 0, s};
    return f;
}
static inline aw_stream_collect_future aw_stream_collect_of(aw_stream *s, void *to, size_t size,
                                                            size_t capacity) {
    aw_stream_collect_future f = {
        AW_FUTURE_INIT(&aw_stream_collect_type), 0, s, (char *)to, size, 0, capacity};
    return f;
}

#define aw_stream_next(s) aw_stream_next_of(&(s)->stream)
/* Without waiting: 1, 0 or an error as above; -EAGAIN: nothing is there now. One task at a time,
 * too. */
#define aw_stream_try_next(s) aw_stream_try_next_of(&(s)->stream)
AW_API int aw_stream_try_next_of(aw_stream *s);
#define aw_stream_close(s)                    aw_stream_close_of(&(s)->stream)
#define aw_stream_drain(s)                    aw_stream_drain_of(&(s)->stream)
#define aw_stream_collect(s, array, capacity) AW__STREAM_COLLECT(s, array, capacity)

/* In an async function: for each item. `next` is an aw_stream_next_future of the frame. After the
 * loop next.out is 0 or an error. */
#define AW_STREAM_EACH(next, s) AW__STREAM_EACH(next, s)

/* ---- Sources --------------------------------------------------------------------------------- */

AW_API extern const aw_stream_type aw_array_stream_type;

/* The items of an array, in place. */
#define AW_ARRAY_STREAM(T)                                                                         \
    struct {                                                                                       \
        AW_STREAM_HEAD(T);                                                                         \
        size_t left, size;                                                                         \
        char *next;                                                                                \
    }
#define aw_stream_array(s, array, n) AW__STREAM_ARRAY(s, array, n)

/* The due time of each tick of an interval: see awake/time.h. It never ends, except by an error of
 * the clock. */
typedef struct aw_interval_stream {
    AW_STREAM_HEAD(uint64_t);
    aw_interval interval;
    aw_tick tick;
    uint64_t at;
} aw_interval_stream;

/* 0, or -EINVAL: the period is zero. */
AW_API int aw_stream_interval(aw_interval_stream *s, uint64_t period, aw_missed missed);
AW_API int aw_stream_interval_from(aw_interval_stream *s, uint64_t start, uint64_t period,
                                   aw_missed missed);

/* Messages of a channel, until it is closed and empty. An item that is put back goes to the front
 * of the channel, for any receiver. A dropped item is released as the channel says. The channel
 * must outlive the stream, and is not closed with it. */
#define AW_CHANNEL_STREAM(T)                                                                       \
    struct {                                                                                       \
        AW_STREAM_HEAD(T);                                                                         \
        aw_channel_future recv;                                                                    \
        T value;                                                                                   \
    }
#define aw_stream_channel(s, from) AW__STREAM_CHANNEL(s, from)
AW_API extern const aw_stream_type aw_channel_stream_type;

/* ---- Adapters: streams over a stream ---------------------------------------------------------
 * Closing an adapter closes its source. */

AW_API extern const aw_stream_type aw_take_type;
AW_API extern const aw_stream_type aw_skip_type;

/* The first n items, after which you can use the source again; or all but the first n. */
#define AW_TAKE(T)                                                                                 \
    struct {                                                                                       \
        AW__ADAPTER_HEAD(T);                                                                       \
        size_t count;                                                                              \
    }
#define AW_SKIP(T)                 AW_TAKE(T)
#define aw_stream_take(s, from, n) AW__COUNTED_ADAPTER(s, from, n, aw_take_type)
#define aw_stream_skip(s, from, n) AW__COUNTED_ADAPTER(s, from, n, aw_skip_type)

/* Functions over items. In the body `item` points to the item, and `self` has the members that
 * follow the types, for arguments or state:
 *
 *     AW_MAP(double, scale, int, double factor;) { return *item * self->factor; }
 *     AW_FILTER(above, int, int limit;) { return *item > self->limit; }
 *     AW_TAKE_WHILE(small, int) { return *item < 100; }
 *
 *     self->big = AW_ADAPTER(above, &self->numbers, .limit = 7);          of type `struct above`
 *     self->scaled = AW_ADAPTER(scale, &self->big, .factor = 0.5);
 *
 * The item that ends a take_while stays in the source. */
#define AW_MAP(R, ...)     AW__MAP(R, __VA_ARGS__)
#define AW_FILTER(...)     AW__FILTER(__VA_ARGS__)
#define AW_TAKE_WHILE(...) AW__TAKE_WHILE(__VA_ARGS__)
#define AW_ADAPTER(...)    AW__ADAPTER(__VA_ARGS__, )

/* A future that folds all items into one value. `out` may have an initial value. `error` is 0, or
 * the error that ended the stream. After a cancel `out` has the result so far.
 *
 *     AW_FOLD(long, sum, int) { self->out += *item; }
 *     AW_AWAIT(self->sum, AW_FOLD_OF(sum, &self->numbers, .out = 100)); */
/* aw-future: AW_FOLD */
#define AW_FOLD(A, ...) AW__FOLD(A, __VA_ARGS__)
#define AW_FOLD_OF(...) AW__FOLD_OF(__VA_ARGS__, )

AW_C_END

#include <awake/detail/stream.h>

#endif
