/* SPDX-License-Identifier: MIT
 *
 * awake/detail/stream.h: private. The inline functions and macros behind streams, adapters and
 * folds. */
#ifndef AWAKE_DETAIL_STREAM_H
#define AWAKE_DETAIL_STREAM_H

#include <awake/detail/for_each.h>
#include <awake/stream.h>

AW_C_BEGIN

/* ---- Streams ------------------------------------------------------------------------------- */

/* `state` of a stream. */
enum {
    AW__STREAM_PUT_BACK = 1, /* there is an item, not delivered */
    AW__STREAM_ENDED = 2,    /* the end was reported */
    AW__STREAM_FAILED = 4,   /* there is an error, in the bits from AW__STREAM_ERROR on */
    AW__STREAM_ERROR = 8
};

static inline void aw__stream_init(aw_stream *s, const aw_stream_type *type) {
    aw_stream fresh = AW_STREAM_INIT(type);
    *s = fresh;
}

/* `item` of any stream. */
typedef void *__attribute__((may_alias)) aw__any_item;
static inline aw__any_item *aw__stream_item(const aw_stream *s) {
    return (aw__any_item *)(void *)(uintptr_t)(s + 1);
}

AW_API aw_poll aw__stream_again(aw_stream *s, int *out);

static inline aw_poll aw_stream_poll_next(aw_stream *s, aw_cx *cx, int *out) {
    if (AW__UNLIKELY(s->state)) return aw__stream_again(s, out);
    aw_poll r = s->type->next(s, cx, out);
    if (r == AW_READY && AW__UNLIKELY(*out == 0)) s->state = AW__STREAM_ENDED;
    return r;
}

static inline void aw_stream_put_back(aw_stream *s) {
    if (s->type->put_back)
        s->type->put_back(s);
    else
        s->state |= AW__STREAM_PUT_BACK;
}

/* For a stream with a future that lives on from one `next` to another. */
typedef struct aw__pending_item {
    aw__child_waits child_waits;
    aw_waker parent; /* only compared */
} aw__pending_item;
AW_API aw_poll aw__pending_item_poll(aw__pending_item *h, aw_future *f, aw_cx *cx);
AW_API aw_poll aw__pending_item_cancel(aw__pending_item *h, aw_future *f, aw_cx *cx);
/* The future waits, but no `next` does. True: it has finished all the same. */
AW_API bool aw__pending_item_disarm(aw__pending_item *h, aw_future *f, aw_cx *cx);
/* The future does not wait. */
AW_API void aw__pending_item_idle(aw__pending_item *h, aw_cx *cx);

/* ---- Futures over streams ------------------------------------------------------------------ */

/* Pointers to different types do not compile. */
#ifdef __cplusplus
#define AW__SAME_ITEMS(a, b) ((void)sizeof((a) == (b)))
#else
#define AW__SAME_ITEMS(a, b)                                                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(*(a)), __typeof__(*(b))),               \
                   "these streams have items of different types")
#endif

#define AW__STREAM_COLLECT(s, array, capacity)                                                     \
    __extension__({                                                                                \
        AW__SAME_ITEMS(&(array)[0], (s)->item);                                                    \
        aw_stream_collect_of(&(s)->stream, (array), sizeof(array)[0], (capacity));                 \
    })

#define AW__STREAM_EACH(next, s)                                                                   \
    for (;;)                                                                                       \
        if (1) {                                                                                   \
            AW_AWAIT(next, aw_stream_next(s));                                                     \
            if ((next).out > 0) goto AW__CAT(aw__each_, __LINE__);                                 \
            break;                                                                                 \
        } else                                                                                     \
            AW__CAT(aw__each_, __LINE__) :

/* ---- Sources ------------------------------------------------------------------------------- */

#define AW__STREAM_ARRAY(s, array, n)                                                              \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        AW__SAME_ITEMS(&(array)[0], aw__s->item);                                                  \
        aw__stream_init(&aw__s->stream, &aw_array_stream_type);                                    \
        aw__s->left = (n);                                                                         \
        aw__s->size = sizeof *aw__s->item;                                                         \
        aw__s->next = (char *)(uintptr_t)(array);                                                  \
    })

#define AW__STREAM_CHANNEL(s, from)                                                                \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        AW__SAME_ITEMS((from)->item, aw__s->item);                                                 \
        aw__stream_init(&aw__s->stream, &aw_channel_stream_type);                                  \
        aw__s->recv = aw_channel_recv((from), &aw__s->value);                                      \
    })

/* ---- Adapters ------------------------------------------------------------------------------ */

/* First members of an adapter with one source. */
#define AW__ADAPTER_HEAD(T)                                                                        \
    AW_STREAM_HEAD(T);                                                                             \
    aw_stream *source

struct __attribute__((may_alias)) aw__adapter {
    AW__ADAPTER_HEAD(void);
};

AW_API bool aw__adapter_disarm(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw__adapter_close(aw_stream *s, aw_cx *cx);
AW_API const aw_future *aw__adapter_child(const aw_stream *s, size_t i);
/* For adapters that deliver the items of their source. */
AW_API void aw__adapter_drop(aw_stream *s, void *item);

#define AW__COUNTED_ADAPTER(s, from, n, kind)                                                      \
    __extension__({                                                                                \
        __typeof__(s) aw__s = (s);                                                                 \
        AW__SAME_ITEMS((from)->item, aw__s->item);                                                 \
        aw__stream_init(&aw__s->stream, &kind);                                                    \
        aw__s->source = &(from)->stream;                                                           \
        aw__s->count = (n);                                                                        \
    })

#define AW__FOLD_HEAD                                                                              \
    aw_future future;                                                                              \
    int error;                                                                                     \
    aw_stream *source

struct __attribute__((may_alias)) aw__fold {
    AW__FOLD_HEAD;
};
AW_API aw_poll aw__fold_cancel(aw_future *self, aw_cx *cx);
AW_API const aw_future *aw__fold_child(const aw_future *self, size_t i);

#ifdef __cplusplus

#define AW__MAP(...)        static_assert(false, "AW_MAP is written in C, not C++")
#define AW__FILTER(...)     static_assert(false, "AW_FILTER is written in C, not C++")
#define AW__TAKE_WHILE(...) static_assert(false, "AW_TAKE_WHILE is written in C, not C++")
#define AW__FOLD(...)       static_assert(false, "AW_FOLD is written in C, not C++")
#define AW__ADAPTER(...)    static_assert(false, "AW_ADAPTER needs C's designated initialisers")
#define AW__FOLD_OF(...)    static_assert(false, "AW_FOLD_OF needs C's designated initialisers")

#else

#define AW__ADAPTER(fn, over, ...)                                                                 \
    ((struct fn){.stream = AW_STREAM_INIT(&aw_stream_type_##fn),                                   \
                 .source = &(over)->stream,                                                        \
                 .from = AW__FROM(fn, over),                                                       \
                 __VA_ARGS__})
/* A source with another item type does not compile. */
#define AW__FROM(fn, over)                                                                         \
    _Generic(&(over)->item, __typeof__(((struct fn *)0)->from) : &(over)->item)

#define AW__MAP(R, ...)                                                                            \
    AW__IF_TWO(AW__MAP_BARE, AW__MAP_FULL, __VA_ARGS__)                                            \
    (R, __VA_ARGS__)
#define AW__MAP_BARE(R, fn, T)      AW__MAP_DEFINE(R, fn, T, )
#define AW__MAP_FULL(R, fn, T, ...) AW__MAP_DEFINE(R, fn, T, __VA_ARGS__)
#define AW__MAP_DEFINE(R, fn, T, ...)                                                              \
    struct fn {                                                                                    \
        AW__ADAPTER_HEAD(R);                                                                       \
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
    AW__ADAPTER_TYPE(fn, NULL)                                                                     \
    static R aw__body_##fn(AW__UNUSED struct fn *self, AW__UNUSED T *item)

#define AW__FILTER(...)                                                                            \
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
    AW__ADAPTER_TYPE(fn, aw__adapter_drop)                                                         \
    static bool aw__body_##fn(AW__UNUSED struct fn *self, AW__UNUSED T *item)

#define AW__TAKE_WHILE(...)                                                                        \
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
        aw_stream_put_back(self->source);                                                          \
        *out = 0;                                                                                  \
        return AW_READY;                                                                           \
    }                                                                                              \
    AW__ADAPTER_TYPE(fn, aw__adapter_drop)                                                         \
    static bool aw__body_##fn(AW__UNUSED struct fn *self, AW__UNUSED T *item)

#define AW__CHOOSER(fn, T, ...)                                                                    \
    struct fn {                                                                                    \
        AW__ADAPTER_HEAD(T);                                                                       \
        T **from;                                                                                  \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    static bool aw__body_##fn(struct fn *self, T *item);
#define AW__ADAPTER_TYPE(fn, how)                                                                  \
    AW__UNUSED static const aw_stream_type aw_stream_type_##fn = {                                 \
        .self_size = sizeof(aw_stream_type),                                                       \
        .name = #fn,                                                                               \
        .next = aw__next_##fn,                                                                     \
        .disarm = aw__adapter_disarm,                                                              \
        .close = aw__adapter_close,                                                                \
        .drop = how,                                                                               \
        .child = aw__adapter_child};

#define AW__FOLD(A, ...)                                                                           \
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

#define AW__FOLD_OF(fn, over, ...)                                                                 \
    ((struct fn){.future = AW_FUTURE_INIT(&aw_type_##fn),                                          \
                 .source = &(over)->stream,                                                        \
                 .from = AW__FROM(fn, over),                                                       \
                 __VA_ARGS__})

#endif

AW_C_END

#endif
