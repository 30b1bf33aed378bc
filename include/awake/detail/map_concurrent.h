/* SPDX-License-Identifier: MIT
 *
 * awake/detail/map_concurrent.h: private. The layout of streams that make a future of each item,
 * and the macros that define them. */
#ifndef AWAKE_DETAIL_MAP_CONCURRENT_H
#define AWAKE_DETAIL_MAP_CONCURRENT_H

#include <awake/detail/for_each.h>
#include <awake/detail/forms.h>
#include <awake/stream.h>

AW_C_BEGIN

/* How to start a future, and its size. */
struct aw__starts {
    void (*start)(aw_stream *self, void *storage);
    size_t size, out_at;
    size_t storage_at; /* one at a time: offset of the future in the stream */
};

struct aw__flight;

struct __attribute__((may_alias)) aw__async_map {
    AW__ADAPTER_HEAD(void);
    aw__pending_item pending;
    uint32_t phase;
    aw__borrow borrow; /* while a future waits */
};

struct __attribute__((may_alias)) aw__concurrent {
    AW__ADAPTER_HEAD(void);
    uint32_t limit;
    bool ordered;
    bool errors; /* negative outputs are errors */
    bool waiting;
    struct aw__flight *flight;
    aw__borrow borrow; /* while `flight` exists */
};

AW_API aw_poll aw__async_map_next(aw_stream *s, aw_cx *cx, int *out);
AW_API bool aw__async_map_disarm(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw__async_map_close(aw_stream *s, aw_cx *cx);
AW_API void aw__async_map_drop(aw_stream *s, void *item);
AW_API const aw_future *aw__async_map_child(const aw_stream *s, size_t i);

AW_API aw_poll aw__concurrent_next(aw_stream *s, aw_cx *cx, int *out);
AW_API bool aw__concurrent_disarm(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw__concurrent_close(aw_stream *s, aw_cx *cx);
AW_API void aw__concurrent_drop(aw_stream *s, void *item);
AW_API const aw_future *aw__concurrent_child(const aw_stream *s, size_t i);

#ifdef __cplusplus

#define AW__MAP_ASYNC(...)  static_assert(false, "AW_MAP_ASYNC is written in C, not C++")
#define AW__CONCURRENT(...) static_assert(false, "AW_CONCURRENT is written in C, not C++")

#else

#define AW__MAP_ASYNC(F, ...)                                                                      \
    AW__IF_TWO(AW__MAP_ASYNC_BARE, AW__MAP_ASYNC_FULL, __VA_ARGS__)                                \
    (F, __VA_ARGS__)
#define AW__MAP_ASYNC_BARE(F, fn, T)      AW__MAP_ASYNC_DEFINE(F, fn, T, )
#define AW__MAP_ASYNC_FULL(F, fn, T, ...) AW__MAP_ASYNC_DEFINE(F, fn, T, __VA_ARGS__)
#define AW__MAP_ASYNC_DEFINE(F, fn, T, ...)                                                        \
    typedef F aw__future_##fn;                                                                     \
    struct fn {                                                                                    \
        AW__ADAPTER_HEAD(__typeof__(((aw__future_##fn *)0)->out));                                 \
        aw__pending_item pending;                                                                  \
        uint32_t phase;                                                                            \
        aw__borrow borrow;                                                                         \
        T **from;                                                                                  \
        aw__future_##fn inner;                                                                     \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    AW__STARTS(fn, T, offsetof(struct fn, inner), async_map)

#define AW__CONCURRENT(F, ...)                                                                     \
    AW__IF_TWO(AW__CONCURRENT_BARE, AW__CONCURRENT_FULL, __VA_ARGS__)                              \
    (F, __VA_ARGS__)
#define AW__CONCURRENT_BARE(F, fn, T)      AW__CONCURRENT_DEFINE(F, fn, T, )
#define AW__CONCURRENT_FULL(F, fn, T, ...) AW__CONCURRENT_DEFINE(F, fn, T, __VA_ARGS__)
#define AW__CONCURRENT_DEFINE(F, fn, T, ...)                                                       \
    typedef F aw__future_##fn;                                                                     \
    AW__ASSERT_ALIGNED(aw__future_##fn);                                                           \
    struct fn {                                                                                    \
        AW__ADAPTER_HEAD(__typeof__(((aw__future_##fn *)0)->out));                                 \
        uint32_t limit;                                                                            \
        bool ordered, errors, waiting;                                                             \
        struct aw__flight *flight;                                                                 \
        aw__borrow borrow;                                                                         \
        T **from;                                                                                  \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    AW__STARTS(fn, T, 0, concurrent)

#define AW__STARTS(fn, T, at, kind)                                                                \
    static aw__future_##fn aw__body_##fn(struct fn *self, T *item);                                \
    static void aw__start_##fn(aw_stream *s, void *storage) {                                      \
        struct fn *self = (struct fn *)s;                                                          \
        *(aw__future_##fn *)storage = aw__body_##fn(self, *self->from);                            \
    }                                                                                              \
    static const struct aw__starts aw__starts_##fn = {aw__start_##fn, sizeof(aw__future_##fn),     \
                                                      offsetof(aw__future_##fn, out), at};         \
    AW__UNUSED static const aw_stream_type aw_stream_type_##fn = {                                 \
        .self_size = sizeof(aw_stream_type),                                                       \
        .name = #fn,                                                                               \
        .next = aw__##kind##_next,                                                                 \
        .disarm = aw__##kind##_disarm,                                                             \
        .close = aw__##kind##_close,                                                               \
        .drop = aw__##kind##_drop,                                                                 \
        .child = aw__##kind##_child,                                                               \
        .extra = &aw__starts_##fn};                                                                \
    static aw__future_##fn aw__body_##fn(AW__UNUSED struct fn *self, AW__UNUSED T *item)

#endif

#define AW__CONCURRENTLY(fn, over, n, ...) AW__ADAPTER(fn, over, .limit = n, __VA_ARGS__)

AW_C_END

#endif
