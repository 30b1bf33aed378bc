/* SPDX-License-Identifier: MIT
 *
 * awake/stream.h: many values, one after the other, each as soon as it is there.
 *
 *     AW_MAP(double, half, int) { return *item / 2.0; }
 *
 *     AW_ASYNC(int, show, AW_ARRAY_STREAM(int) numbers; struct half halves; aw_stream_next_future next;) {
 *         AW_BEGIN;
 *         aw_stream_array(&self->numbers, some_numbers, 10);
 *         self->halves = AW_OVER(half, &self->numbers);
 *         AW_STREAM_EACH(self->next, &self->halves) printf("%f\n", *self->halves.item);
 *         AW_RETURN(self->next.out);
 *         AW_END;
 *     }
 *
 * and in a fiber: while ((n = aw_await(aw_stream_next(&halves))) > 0) printf("%f\n", *halves.item);
 *
 * A stream is a struct with a member `stream` and, directly behind it, `item`: a typed pointer to the item that
 * came last, good until the next call for this stream. Items stay where they are (an array's in the array, a
 * future's output in the future) and are passed along by their address. Streams lie side by side in a frame and
 * point to each other: they are moved no more once they are connected. One task at a time.
 *
 *   aw_stream_next   a future: `out` is 1: there is an item, now the caller's; 0: the end; negative: an error, told once;
 *                    what comes after it is up to the stream (most have ended; a merge goes on with the others).
 *                    Cancelled, or discarded, it loses nothing: the item is there for the next one.
 *   aw_stream_close  a future that gives up whatever the stream and its sources hold: a generator half-way, futures in
 *                    flight. Not needed after the end, nor for what holds nothing (arrays, functions over them).
 *                    A frame or fiber that ends while such a stream of its own is open is caught.
 *                    Cleanup: it is not cut short by a cancel. A closed stream is at its end.
 *
 * An item that owns something needs a way to be dropped: aw_stream_drop_with(&s, fn). It is called for items that
 * a filter leaves out, and for those that a closed stream still has. */
#ifndef AWAKE_STREAM_H
#define AWAKE_STREAM_H

#include <awake/async.h>
#include <awake/channel.h>
#include <awake/future.h>
#include <awake/group.h>
#include <awake/time.h>

AW_C_BEGIN

/* ---- What a stream is ------------------------------------------------------------------------- */

typedef struct aw_stream aw_stream;

typedef struct aw_stream_type {
    size_t self_size; /* of this struct: it may grow */
    const char *name;
    /* As the poll of a future: AW_READY with *out as above, and then `item` is set; or AW_PENDING, and this
     * waker, no other, is woken. Once it has answered 0 it is not called again. Ready, it holds no waker. */
    aw_poll (*next)(aw_stream *self, aw_cx *cx, int *out);
    /* Nobody waits any more: keep no waker. True when something came in this moment: `next` is asked then.
     * NULL: it never keeps one. */
    bool (*rest)(aw_stream *self, aw_cx *cx);
    /* Give up what it holds: AW_READY when all of it is gone. NULL: it holds nothing. */
    aw_poll (*close)(aw_stream *self, aw_cx *cx);
    /* Release an item that came from here, and may have been moved. NULL: only aw_stream_drop_with says how. */
    void (*drop)(aw_stream *self, void *item);
    /* The item that came last is given back. NULL: it stays here and comes again. */
    void (*keep)(aw_stream *self);
    /* For backtraces: the i-th future that it waits on now. May be NULL. */
    const aw_future *(*child)(const aw_stream *self, size_t i);
    const void *extra; /* what a kind of stream keeps beside */
} aw_stream_type;

struct aw_stream {
    const aw_stream_type *type;
    void (*drop)(void *item);
    uintptr_t state; /* private */
};

enum {
    AW__STREAM_KEPT = 1,   /* the item is there, and nobody has it */
    AW__STREAM_ENDED = 2,  /* it has told the end */
    AW__STREAM_FAILED = 4, /* there is an error, in the bits from AW__STREAM_ERROR on */
    AW__STREAM_ERROR = 8
};

/* What every stream has; more follows. A stream of one's own is such a struct and a type:
 *     struct mine { AW_STREAM_HEAD(int); ... };
 *     struct mine m = {.stream = AW_STREAM_INIT(&mine_type)}; */
#define AW_STREAM_HEAD(T)                                                                          \
    aw_stream stream;                                                                              \
    T *item

#define AW_STREAM_INIT(type_ptr)                                                                   \
    { (type_ptr), NULL, 0 }

static inline void aw__stream_init(aw_stream *s, const aw_stream_type *type) {
    aw_stream fresh = AW_STREAM_INIT(type);
    *s = fresh;
}

/* `item` of any stream. */
typedef void *__attribute__((may_alias)) aw__any_item;
static inline aw__any_item *aw__stream_item(const aw_stream *s) {
    return (aw__any_item *)(void *)(uintptr_t)(s + 1);
}

AW_API aw_poll aw__stream_kept(aw_stream *s, int *out);

/* Ask for the next item, from a poll: for streams that have a source, and futures over streams. */
static inline aw_poll aw_stream_poll_next(aw_stream *s, aw_cx *cx, int *out) {
    if (AW__UNLIKELY(s->state)) return aw__stream_kept(s, out);
    aw_poll r = s->type->next(s, cx, out);
    if (r == AW_READY && AW__UNLIKELY(*out == 0)) s->state = AW__STREAM_ENDED;
    return r;
}

/* The item that was just given is given back: it comes again. */
static inline void aw_stream_keep(aw_stream *s) {
    if (s->type->keep)
        s->type->keep(s);
    else
        s->state |= AW__STREAM_KEPT;
}

/* From a poll that was pending before and will not be called again, for whatever reason. True: an item, an error or the
 * end is there, for the next one who asks. */
AW_API bool aw_stream_rest(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw_stream_poll_close(aw_stream *s, aw_cx *cx);
/* Nobody wants this item. */
AW_API void aw_stream_drop_item(aw_stream *s, void *item);
AW_API const aw_future *aw_stream_child(const aw_stream *s, size_t i);

/* What a stream keeps that has a future in it which goes on from one `next` to another. */
typedef struct aw__held {
    aw__carry carry;
    aw_waker parent; /* only to be compared */
} aw__held;
AW_API aw_poll aw__held_poll(aw__held *h, aw_future *f, aw_cx *cx);
AW_API aw_poll aw__held_cancel(aw__held *h, aw_future *f, aw_cx *cx);
/* It waits, and nobody waits for it: true when it has finished all the same. */
AW_API bool aw__held_rest(aw__held *h, aw_future *f, aw_cx *cx);
/* It waits for nothing. */
AW_API void aw__held_idle(aw__held *h, aw_cx *cx);

/* Before its first item. */
#define aw_stream_drop_with(s, fn) ((void)((s)->stream.drop = (fn)))

/* ---- Futures over streams --------------------------------------------------------------------- */

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

/* Drop all items up to the end or the first error, which is `out`, or 0; then close. Cancelled, it closes, and is gone
 * when that is done. With AW_UNORDERED (awake/buffered.h) this is for-each with so many at once. */
/* aw-future: aw_stream_drain */
typedef struct aw_stream_drain_future {
    aw_future future;
    int out;
    aw_stream *stream;
} aw_stream_drain_future;

/* Move items into an array, until it is full or the stream ends: `out` is how many, or an error, and `count` how many
 * there are in any case: also when it was cancelled. They are the caller's. */
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
/* Without waiting: 1, 0 or an error, as above; -EAGAIN: nothing is there now. By one task at a time, too. */
#define aw_stream_try_next(s) aw_stream_try_next_of(&(s)->stream)
AW_API int aw_stream_try_next_of(aw_stream *s);
#define aw_stream_close(s) aw_stream_close_of(&(s)->stream)
#define aw_stream_drain(s) aw_stream_drain_of(&(s)->stream)
#define aw_stream_collect(s, array, capacity)                                                      \
    __extension__({                                                                                \
        AW__SAME_ITEMS(&(array)[0], (s)->item);                                                    \
        aw_stream_collect_of(&(s)->stream, (array), sizeof(array)[0], (capacity));                 \
    })

/* Two pointers are to the same type, or it does not compile. */
#ifdef __cplusplus
#define AW__SAME_ITEMS(a, b) ((void)sizeof((a) == (b)))
#else
#define AW__SAME_ITEMS(a, b)                                                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(*(a)), __typeof__(*(b))),               \
                   "these streams have items of different types")
#endif

/* In an async function: for each item, `next` being an aw_stream_next_future of the frame. After the loop next.out is 0, or
 * an error. */
#define AW_STREAM_EACH(next, s)                                                                    \
    for (;;)                                                                                       \
        if (1) {                                                                                   \
            AW_AWAIT(next, aw_stream_next(s));                                                     \
            if ((next).out > 0) goto AW__CAT(aw__each_, __LINE__);                                 \
            break;                                                                                 \
        } else                                                                                     \
            AW__CAT(aw__each_, __LINE__) :

/* ---- Sources ---------------------------------------------------------------------------------- */

AW_API extern const aw_stream_type aw_array_stream_type;

/* The items of an array, where they lie. */
#define AW_ARRAY_STREAM(T)                                                                         \
    struct {                                                                                       \
        AW_STREAM_HEAD(T);                                                                         \
        size_t left, size;                                                                         \
        char *next;                                                                                \
    }
#define aw_stream_array(s, array, n)                                                               \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        AW__SAME_ITEMS(&(array)[0], aw__s->item);                                                  \
        aw__stream_init(&aw__s->stream, &aw_array_stream_type);                                    \
        aw__s->left = (n);                                                                         \
        aw__s->size = sizeof *aw__s->item;                                                         \
        aw__s->next = (char *)(uintptr_t)(array);                                                  \
    })

/* When each tick of an interval was due: see awake/time.h. It never ends, but for an error of the clock. */
typedef struct aw_interval_stream {
    AW_STREAM_HEAD(uint64_t);
    aw_interval interval;
    aw_tick tick;
    uint64_t at;
} aw_interval_stream;

/* -EINVAL when the period is zero. */
AW_API int aw_stream_interval(aw_interval_stream *s, uint64_t period, aw_missed missed);
AW_API int aw_stream_interval_from(aw_interval_stream *s, uint64_t start, uint64_t period,
                                   aw_missed missed);

/* What is received from a channel, until it is closed and empty. An item that is given back goes back to the front of the
 * channel, also for other receivers; one that is dropped is released as the channel says. The channel outlives the
 * stream, and is not closed with it. */
#define AW_CHANNEL_STREAM(T)                                                                       \
    struct {                                                                                       \
        AW_STREAM_HEAD(T);                                                                         \
        aw_channel_future recv;                                                                    \
        T value;                                                                                   \
    }
#define aw_stream_channel(s, from)                                                                 \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        AW__SAME_ITEMS((from)->item, aw__s->item);                                                 \
        aw__stream_init(&aw__s->stream, &aw_channel_stream_type);                                  \
        aw__s->recv = aw_channel_recv((from), &aw__s->value);                                      \
    })
AW_API extern const aw_stream_type aw_channel_stream_type;

/* ---- Streams over a stream --------------------------------------------------------------------
 * Closing one closes its source. */

/* What those with one source begin with. */
#define AW__OVER_HEAD(T)                                                                           \
    AW_STREAM_HEAD(T);                                                                             \
    aw_stream *source

struct __attribute__((may_alias)) aw__over {
    AW__OVER_HEAD(void);
};

AW_API bool aw__over_rest(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw__over_close(aw_stream *s, aw_cx *cx);
AW_API const aw_future *aw__over_child(const aw_stream *s, size_t i);
AW_API void aw__over_drop(aw_stream *s, void *item); /* where its items are those of the source */

AW_API extern const aw_stream_type aw_take_type;
AW_API extern const aw_stream_type aw_skip_type;

/* The first so many items: the source can be used on afterwards. Or all but the first. */
#define AW_TAKE(T)                                                                                 \
    struct {                                                                                       \
        AW__OVER_HEAD(T);                                                                          \
        size_t count;                                                                              \
    }
#define AW_SKIP(T)                 AW_TAKE(T)
#define aw_stream_take(s, from, n) AW__COUNTED_OVER(s, from, n, aw_take_type)
#define aw_stream_skip(s, from, n) AW__COUNTED_OVER(s, from, n, aw_skip_type)
#define AW__COUNTED_OVER(s, from, n, kind)                                                         \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        AW__SAME_ITEMS((from)->item, aw__s->item);                                                 \
        aw__stream_init(&aw__s->stream, &kind);                                                    \
        aw__s->source = &(from)->stream;                                                           \
        aw__s->count = (n);                                                                        \
    })

#ifdef __cplusplus

#define AW_MAP(...)        static_assert(false, "AW_MAP is written in C, not C++")
#define AW_FILTER(...)     static_assert(false, "AW_FILTER is written in C, not C++")
#define AW_TAKE_WHILE(...) static_assert(false, "AW_TAKE_WHILE is written in C, not C++")
#define AW_FOLD(...)       static_assert(false, "AW_FOLD is written in C, not C++")

#else

/* Functions over the items of a stream. In their bodies `item` is a pointer to the item, and `self` has the members that
 * follow the types, as arguments or to remember something in:
 *
 *     AW_MAP(double, scale, int, double factor;) { return *item * self->factor; }
 *     AW_FILTER(above, int, int limit;) { return *item > self->limit; }
 *     AW_TAKE_WHILE(small, int) { return *item < 100; }
 *
 *     self->big = AW_OVER(above, &self->numbers, .limit = 7);          of type `struct above`
 *     self->scaled = AW_OVER(scale, &self->big, .factor = 0.5);
 *
 * The item that ends a take_while stays in the source. */
#define AW_OVER(...) AW__OVER(__VA_ARGS__, )
#define AW__OVER(fn, over, ...)                                                                    \
    ((struct fn){.stream = AW_STREAM_INIT(&aw_stream_type_##fn),                                   \
                 .source = &(over)->stream,                                                        \
                 .from = AW__FROM(fn, over),                                                       \
                 __VA_ARGS__})
/* Of another type it does not compile. */
#define AW__FROM(fn, over)                                                                         \
    _Generic(&(over)->item, __typeof__(((struct fn *)0)->from) : &(over)->item)

#define AW_MAP(R, ...)                                                                             \
    AW__IF_TWO(AW__MAP_BARE, AW__MAP_FULL, __VA_ARGS__)                                            \
    (R, __VA_ARGS__)
#define AW__MAP_BARE(R, fn, T)      AW__MAP_DEFINE(R, fn, T, )
#define AW__MAP_FULL(R, fn, T, ...) AW__MAP_DEFINE(R, fn, T, __VA_ARGS__)
#define AW__MAP_DEFINE(R, fn, T, ...)                                                              \
    struct fn {                                                                                    \
        AW__OVER_HEAD(R);                                                                          \
        T **from;                                                                                  \
        R value;                                                                                   \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    static R aw__body_##fn(struct fn *self, T *item);                                              \
    static aw_poll aw__next_##fn(aw_stream *s, aw_cx *cx, int *out) {                              \
        struct fn *self = (struct fn *)s;                                                          \
        if (aw_stream_poll_next(self->source, cx, out) == AW_PENDING) return AW_PENDING;           \
        if (*out > 0) {                                                                            \
            self->value = aw__body_##fn(self, *self->from);                                        \
            self->item = &self->value;                                                             \
        }                                                                                          \
        return AW_READY;                                                                           \
    }                                                                                              \
    AW__OVER_TYPE(fn, NULL)                                                                        \
    static R aw__body_##fn(AW__UNUSED struct fn *self, AW__UNUSED T *item)

#define AW_FILTER(...)                                                                             \
    AW__IF_TWO(AW__FILTER_BARE, AW__FILTER_FULL, __VA_ARGS__)                                      \
    (__VA_ARGS__)
#define AW__FILTER_BARE(fn, T)      AW__FILTER_DEFINE(fn, T, )
#define AW__FILTER_FULL(fn, T, ...) AW__FILTER_DEFINE(fn, T, __VA_ARGS__)
#define AW__FILTER_DEFINE(fn, T, ...)                                                              \
    AW__CHOOSER(fn, T, __VA_ARGS__)                                                                \
    static aw_poll aw__next_##fn(aw_stream *s, aw_cx *cx, int *out) {                              \
        struct fn *self = (struct fn *)s;                                                          \
        for (;;) {                                                                                 \
            if (aw_stream_poll_next(self->source, cx, out) == AW_PENDING) return AW_PENDING;       \
            self->item = *self->from;                                                              \
            if (*out <= 0 || aw__body_##fn(self, self->item)) return AW_READY;                     \
            aw_stream_drop_item(self->source, self->item);                                         \
        }                                                                                          \
    }                                                                                              \
    AW__OVER_TYPE(fn, aw__over_drop)                                                               \
    static bool aw__body_##fn(AW__UNUSED struct fn *self, AW__UNUSED T *item)

#define AW_TAKE_WHILE(...)                                                                         \
    AW__IF_TWO(AW__TAKE_WHILE_BARE, AW__TAKE_WHILE_FULL, __VA_ARGS__)                              \
    (__VA_ARGS__)
#define AW__TAKE_WHILE_BARE(fn, T)      AW__TAKE_WHILE_DEFINE(fn, T, )
#define AW__TAKE_WHILE_FULL(fn, T, ...) AW__TAKE_WHILE_DEFINE(fn, T, __VA_ARGS__)
#define AW__TAKE_WHILE_DEFINE(fn, T, ...)                                                          \
    AW__CHOOSER(fn, T, __VA_ARGS__)                                                                \
    static aw_poll aw__next_##fn(aw_stream *s, aw_cx *cx, int *out) {                              \
        struct fn *self = (struct fn *)s;                                                          \
        if (aw_stream_poll_next(self->source, cx, out) == AW_PENDING) return AW_PENDING;           \
        self->item = *self->from;                                                                  \
        if (*out <= 0 || aw__body_##fn(self, self->item)) return AW_READY;                         \
        aw_stream_keep(self->source);                                                              \
        *out = 0;                                                                                  \
        return AW_READY;                                                                           \
    }                                                                                              \
    AW__OVER_TYPE(fn, aw__over_drop)                                                               \
    static bool aw__body_##fn(AW__UNUSED struct fn *self, AW__UNUSED T *item)

#define AW__CHOOSER(fn, T, ...)                                                                    \
    struct fn {                                                                                    \
        AW__OVER_HEAD(T);                                                                          \
        T **from;                                                                                  \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    static bool aw__body_##fn(struct fn *self, T *item);
#define AW__OVER_TYPE(fn, how)                                                                     \
    AW__UNUSED static const aw_stream_type aw_stream_type_##fn = {                                 \
        .self_size = sizeof(aw_stream_type),                                                       \
        .name = #fn,                                                                               \
        .next = aw__next_##fn,                                                                     \
        .rest = aw__over_rest,                                                                     \
        .close = aw__over_close,                                                                   \
        .drop = how,                                                                               \
        .child = aw__over_child};

/* One value out of all items: a future. Its output may have a value to begin with. `error` is 0, or what ended the
 * stream; cancelled, `out` has what was taken by then.
 *
 *     AW_FOLD(long, sum, int) { self->out += *item; }
 *     AW_AWAIT(self->sum, AW_FOLD_OF(sum, &self->numbers, .out = 100)); */
/* aw-future: AW_FOLD */
#define AW_FOLD(A, ...)                                                                            \
    AW__IF_TWO(AW__FOLD_BARE, AW__FOLD_FULL, __VA_ARGS__)                                          \
    (A, __VA_ARGS__)
#define AW__FOLD_BARE(A, fn, T)      AW__FOLD_DEFINE(A, fn, T, )
#define AW__FOLD_FULL(A, fn, T, ...) AW__FOLD_DEFINE(A, fn, T, __VA_ARGS__)
#define AW__FOLD_DEFINE(A, fn, T, ...)                                                             \
    struct fn {                                                                                    \
        AW__FOLD_HEAD;                                                                             \
        T **from;                                                                                  \
        A out;                                                                                     \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    static void aw__body_##fn(struct fn *self, T *item);                                           \
    static aw_poll aw__poll_##fn(aw_future *future, aw_cx *cx) {                                   \
        struct fn *self = (struct fn *)future;                                                     \
        int n;                                                                                     \
        while (aw_stream_poll_next(self->source, cx, &n) == AW_READY) {                            \
            if (n <= 0) {                                                                          \
                self->error = n;                                                                   \
                return AW_READY;                                                                   \
            }                                                                                      \
            aw__body_##fn(self, *self->from);                                                      \
        }                                                                                          \
        return AW_PENDING;                                                                         \
    }                                                                                              \
    AW__UNUSED static const aw_future_type aw_type_##fn = {                                        \
        AW_TYPE_OF(struct fn, #fn), .poll = aw__poll_##fn, .cancel = aw__fold_cancel,              \
        .child = aw__fold_child};                                                                  \
    static void aw__body_##fn(struct fn *self, AW__UNUSED T *item)

#define AW_FOLD_OF(...) AW__FOLD_OF(__VA_ARGS__, )
#define AW__FOLD_OF(fn, over, ...)                                                                 \
    ((struct fn){.future = AW_FUTURE_INIT(&aw_type_##fn),                                          \
                 .source = &(over)->stream,                                                        \
                 .from = AW__FROM(fn, over),                                                       \
                 __VA_ARGS__})

#endif

#define AW__FOLD_HEAD                                                                              \
    aw_future future;                                                                              \
    int error;                                                                                     \
    aw_stream *source

struct __attribute__((may_alias)) aw__fold {
    AW__FOLD_HEAD;
};
AW_API aw_poll aw__fold_cancel(aw_future *self, aw_cx *cx);
AW_API const aw_future *aw__fold_child(const aw_future *self, size_t i);

AW_C_END

#endif
