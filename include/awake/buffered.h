/* SPDX-License-Identifier: MIT
 *
 * awake/buffered.h: a future for each item of a stream, one at a time or several at once.
 *
 *     AW_MAP_ASYNC(struct fetch, fetch_it, const char *) { return AW_CALL(fetch, .url = *item); }
 *     self->pages = AW_OVER(fetch_it, &self->urls);                 one after the other; allocates nothing
 *
 *     AW_CONCURRENT(struct fetch, fetch_all, const char *) { return AW_CALL(fetch, .url = *item); }
 *     self->pages = AW_BUFFERED(fetch_all, &self->urls, 10);        ten at once, in the order of the source
 *     self->pages = AW_UNORDERED(fetch_all, &self->urls, 10);       as they finish
 *
 * The items are the outputs of the futures. The body makes a future of an item, as in AW_MAP, and copies what it
 * needs of it. The futures run while somebody waits for the next item; in between they stand still, and are not lost
 * when nobody does. For-each with a limit is AW_AWAIT(self->all, aw_stream_drain(&self->pages)): all of them run
 * until the last has ended.
 *
 * With `.errors = true`, as AW_UNORDERED(fetch_all, &self->urls, 10, .errors = true), a negative output is an error of the
 * stream: a drain then stops and cancels the others.
 *
 * AW_BUFFERED and AW_UNORDERED take memory once, for so many futures, when they are first asked: -ENOMEM, and nothing
 * has been taken from the source; -EINVAL for a limit of 0. Only the futures that were woken are polled. They are
 * closed, or have come to their end, before their frame goes away; closing cancels what is in flight and discards
 * what nobody took. */
#ifndef AWAKE_BUFFERED_H
#define AWAKE_BUFFERED_H

#include <awake/stream.h>

AW_C_BEGIN

/* How a future is made, and how large it is. */
struct aw__starts {
    void (*start)(aw_stream *self, void *room);
    size_t size, out_at;
    size_t room_at; /* one at a time: where it is in the stream */
};

struct aw__flight;

struct __attribute__((may_alias)) aw__async_map {
    AW__OVER_HEAD(void);
    aw__held held;
    uint32_t phase;
    aw__open opened; /* as long as a future waits */
};

struct __attribute__((may_alias)) aw__concurrent {
    AW__OVER_HEAD(void);
    uint32_t limit;
    bool ordered;
    bool errors; /* negative outputs are */
    bool waiting;
    struct aw__flight *flight;
    aw__open opened; /* as long as there is one */
};

AW_API aw_poll aw__async_map_next(aw_stream *s, aw_cx *cx, int *out);
AW_API bool aw__async_map_rest(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw__async_map_close(aw_stream *s, aw_cx *cx);
AW_API void aw__async_map_drop(aw_stream *s, void *item);
AW_API const aw_future *aw__async_map_child(const aw_stream *s, size_t i);

AW_API aw_poll aw__concurrent_next(aw_stream *s, aw_cx *cx, int *out);
AW_API bool aw__concurrent_rest(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw__concurrent_close(aw_stream *s, aw_cx *cx);
AW_API void aw__concurrent_drop(aw_stream *s, void *item);
AW_API const aw_future *aw__concurrent_child(const aw_stream *s, size_t i);

#ifdef __cplusplus

#define AW_MAP_ASYNC(...)  static_assert(false, "AW_MAP_ASYNC is written in C, not C++")
#define AW_CONCURRENT(...) static_assert(false, "AW_CONCURRENT is written in C, not C++")

#else

#define AW_MAP_ASYNC(F, ...)                                                                       \
    AW__IF_TWO(AW__MAP_ASYNC_BARE, AW__MAP_ASYNC_FULL, __VA_ARGS__)                                \
    (F, __VA_ARGS__)
#define AW__MAP_ASYNC_BARE(F, fn, T)      AW__MAP_ASYNC_DEFINE(F, fn, T, )
#define AW__MAP_ASYNC_FULL(F, fn, T, ...) AW__MAP_ASYNC_DEFINE(F, fn, T, __VA_ARGS__)
#define AW__MAP_ASYNC_DEFINE(F, fn, T, ...)                                                        \
    typedef F aw__future_##fn;                                                                     \
    struct fn {                                                                                    \
        AW__OVER_HEAD(__typeof__(((aw__future_##fn *)0)->out));                                    \
        aw__held held;                                                                             \
        uint32_t phase;                                                                            \
        aw__open opened;                                                                           \
        T **from;                                                                                  \
        aw__future_##fn inner;                                                                     \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    AW__STARTS(fn, T, offsetof(struct fn, inner), async_map)

#define AW_CONCURRENT(F, ...)                                                                      \
    AW__IF_TWO(AW__CONCURRENT_BARE, AW__CONCURRENT_FULL, __VA_ARGS__)                              \
    (F, __VA_ARGS__)
#define AW__CONCURRENT_BARE(F, fn, T)      AW__CONCURRENT_DEFINE(F, fn, T, )
#define AW__CONCURRENT_FULL(F, fn, T, ...) AW__CONCURRENT_DEFINE(F, fn, T, __VA_ARGS__)
#define AW__CONCURRENT_DEFINE(F, fn, T, ...)                                                       \
    typedef F aw__future_##fn;                                                                     \
    AW__ASSERT_ALIGNED(aw__future_##fn);                                                           \
    struct fn {                                                                                    \
        AW__OVER_HEAD(__typeof__(((aw__future_##fn *)0)->out));                                    \
        uint32_t limit;                                                                            \
        bool ordered, errors, waiting;                                                             \
        struct aw__flight *flight;                                                                 \
        aw__open opened;                                                                           \
        T **from;                                                                                  \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    AW__STARTS(fn, T, 0, concurrent)

#define AW__STARTS(fn, T, at, kind)                                                                \
    static aw__future_##fn aw__body_##fn(struct fn *self, T *item);                                \
    static void aw__start_##fn(aw_stream *s, void *room) {                                         \
        struct fn *self = (struct fn *)s;                                                          \
        *(aw__future_##fn *)room = aw__body_##fn(self, *self->from);                               \
    }                                                                                              \
    static const struct aw__starts aw__starts_##fn = {aw__start_##fn, sizeof(aw__future_##fn),     \
                                                      offsetof(aw__future_##fn, out), at};         \
    AW__UNUSED static const aw_stream_type aw_stream_type_##fn = {                                 \
        .self_size = sizeof(aw_stream_type),                                                       \
        .name = #fn,                                                                               \
        .next = aw__##kind##_next,                                                                 \
        .rest = aw__##kind##_rest,                                                                 \
        .close = aw__##kind##_close,                                                               \
        .drop = aw__##kind##_drop,                                                                 \
        .child = aw__##kind##_child,                                                               \
        .extra = &aw__starts_##fn};                                                                \
    static aw__future_##fn aw__body_##fn(AW__UNUSED struct fn *self, AW__UNUSED T *item)

#define AW_BUFFERED(...)                   AW__CONCURRENTLY(__VA_ARGS__, .ordered = true, )
#define AW_UNORDERED(...)                  AW__CONCURRENTLY(__VA_ARGS__, .ordered = false, )
#define AW__CONCURRENTLY(fn, over, n, ...) AW__OVER(fn, over, .limit = n, __VA_ARGS__)

#endif

AW_C_END

#endif
