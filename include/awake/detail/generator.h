/* SPDX-License-Identifier: MIT
 *
 * awake/detail/generator.h: private. The macros behind generators: an async function or a fiber,
 * and a stream over it. */
#ifndef AWAKE_DETAIL_GENERATOR_H
#define AWAKE_DETAIL_GENERATOR_H

#include <awake/fiber.h>
#include <awake/stream.h>

AW_C_BEGIN

/* What a generator adds to the frame of an async function or a fiber. */
#define AW__GENERATOR_MEMBERS(T)                                                                   \
    AW_STREAM_HEAD(T);                                                                             \
    aw__pending_item aw_pending;                                                                   \
    aw__borrow aw_borrow;                                                                          \
    uint32_t aw_phase;                                                                             \
    T value

/* Values of aw_phase. */
enum {
    AW__GENERATOR_IDLE,    /* waits for a request for the next value */
    AW__GENERATOR_WAITING, /* awaits something itself */
    AW__GENERATOR_YIELDED, /* has a value */
    AW__GENERATOR_ENDED,   /* has returned; the consumer does not know yet */
    AW__GENERATOR_REPORTED,
    AW__GENERATOR_CLOSED
};

struct __attribute__((may_alias)) aw__generator {
    AW_STREAM_HEAD(void);
    aw__pending_item aw_pending;
    aw__borrow aw_borrow;
    uint32_t aw_phase;
};

AW_API aw_poll aw__generator_next(aw_stream *s, aw_cx *cx, int *out);
AW_API bool aw__generator_disarm(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw__generator_close(aw_stream *s, aw_cx *cx);
AW_API const aw_future *aw__generator_child(const aw_stream *s, size_t i);

/* `item` is set. An async function returns AW_PENDING after this. */
AW_API void aw__generator_yield(aw_stream *s, const char *file, int line);
/* Suspend the fiber until the next value is requested: 0 or -ECANCELED. */
AW_API int aw__generator_yield_fiber(aw_stream *s, const char *file, int line);

#define AW__YIELD_FROM_FIBER(generator, ...)                                                       \
    __extension__({                                                                                \
        __typeof__(generator) aw__to = (generator);                                                \
        aw__to->value = (__VA_ARGS__);                                                             \
        aw__to->item = &aw__to->value;                                                             \
        aw__generator_yield_fiber(&aw__to->stream, __FILE__, __LINE__);                            \
    })

#ifdef __cplusplus

#define AW__GENERATOR_DECL(fn)                                                                     \
    extern "C" const aw_future_type aw_type_##fn;                                                  \
    extern "C" const aw_stream_type aw_stream_type_##fn
#define AW__GENERATOR(...)       static_assert(false, "AW_GENERATOR is written in C, not C++")
#define AW__GENERATOR_DEF(...)   static_assert(false, "AW_GENERATOR is written in C, not C++")
#define AW__FIBER_GENERATOR(...) static_assert(false, "AW_FIBER_GENERATOR is written in C, not C++")
#define AW__FIBER_GENERATOR_DEF(...)                                                               \
    static_assert(false, "AW_FIBER_GENERATOR is written in C, not C++")
#define AW__GENERATE(...) static_assert(false, "AW_GENERATE needs C's designated initialisers")

#else

#define AW__GENERATE(fn, ...)                                                                      \
    ((struct fn){.future = AW_FUTURE_INIT(&aw_type_##fn),                                          \
                 .stream = AW_STREAM_INIT(&aw_stream_type_##fn),                                   \
                 __VA_ARGS__})

#define AW__GENERATOR_DECL(fn)                                                                     \
    extern const aw_future_type aw_type_##fn;                                                      \
    extern const aw_stream_type aw_stream_type_##fn

#define AW__GENERATOR(T, ...)                                                                      \
    AW__IF_TWO(AW__GENERATOR_BARE, AW__GENERATOR_FULL, T, __VA_ARGS__)                             \
    (T, __VA_ARGS__)
#define AW__GENERATOR_BARE(T, fn)                                                                  \
    struct fn {                                                                                    \
        AW_GENERATOR_FRAME(T);                                                                     \
    };                                                                                             \
    AW__GENERATOR_DEFINE(static, fn)
#define AW__GENERATOR_FULL(T, fn, ...)                                                             \
    struct fn {                                                                                    \
        AW_GENERATOR_FRAME(T);                                                                     \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    AW__GENERATOR_DEFINE(static, fn)
#define AW__GENERATOR_DEF(fn) AW__GENERATOR_DEFINE(, fn)
#define AW__GENERATOR_DEFINE(linkage, fn)                                                          \
    AW__GENERATOR_TYPE(linkage, fn)                                                                \
    AW__ASYNC_DEFINE(linkage, fn, )

#define AW__FIBER_GENERATOR(T, ...)                                                                \
    AW__IF_TWO(AW__FIBER_GENERATOR_BARE, AW__FIBER_GENERATOR_FULL, T, __VA_ARGS__)                 \
    (T, __VA_ARGS__)
#define AW__FIBER_GENERATOR_BARE(T, fn)                                                            \
    struct fn {                                                                                    \
        AW_FIBER_GENERATOR_FRAME(T);                                                               \
    };                                                                                             \
    AW__FIBER_GENERATOR_DEFINE(static, fn)
#define AW__FIBER_GENERATOR_FULL(T, fn, ...)                                                       \
    struct fn {                                                                                    \
        AW_FIBER_GENERATOR_FRAME(T);                                                               \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    AW__FIBER_GENERATOR_DEFINE(static, fn)
#define AW__FIBER_GENERATOR_DEF(fn) AW__FIBER_GENERATOR_DEFINE(, fn)
#define AW__FIBER_GENERATOR_DEFINE(linkage, fn)                                                    \
    AW__GENERATOR_TYPE(linkage, fn)                                                                \
    AW__FIBER_DEFINE(linkage, fn, )

/* `extra` is the offset of the stream in the frame. */
#define AW__GENERATOR_TYPE(linkage, fn)                                                            \
    AW__UNUSED linkage const aw_stream_type aw_stream_type_##fn = {                                \
        .self_size = sizeof(aw_stream_type),                                                       \
        .name = #fn,                                                                               \
        .next = aw__generator_next,                                                                \
        .disarm = aw__generator_disarm,                                                            \
        .close = aw__generator_close,                                                              \
        .child = aw__generator_child,                                                              \
        .extra = (const void *)offsetof(struct fn, stream)};

#define AW__YIELD_VALUE(...)                                                                       \
    do {                                                                                           \
        _Static_assert(aw__may_return,                                                             \
                       "AW_YIELD_VALUE inside AW_FINALLY: no consumer would take it");             \
        if (!aw__async_cut_here(&self->future)) {                                                  \
            self->value AW__SET(__VA_ARGS__);                                                      \
            self->item = &self->value;                                                             \
            aw__generator_yield(&self->stream, __FILE__, __LINE__);                                \
        }                                                                                          \
        AW__WAIT_HERE((void)0, (void)0);                                                           \
    } while (0)

#endif

AW_C_END

#endif
