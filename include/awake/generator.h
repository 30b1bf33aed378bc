/* SPDX-License-Identifier: MIT
 *
 * awake/generator.h: a function that gives values one by one, and may wait in between: a stream.
 *
 *     AW_GENERATOR(int, countdown, int from; aw_sleep nap;) {
 *         AW_BEGIN;
 *         for (; self->from > 0; self->from--) {
 *             AW_YIELD_VALUE(self->from);
 *             AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
 *         }
 *         AW_END;
 *     }
 *
 *     self->down = AW_GENERATE(countdown, .from = 3);              of type `struct countdown`
 *     AW_STREAM_EACH(self->next, &self->down) printf("%d\n", *self->down.item);
 *
 * Everything that awake/async.h says about a function is true of it: it runs only when the next value is wanted, and its
 * AW_FINALLY, which may await, releases what it holds: at its end, and when it is closed half-way (aw_stream_close) or
 * before its first value. AW_RETURN(error) ends the stream with an error; AW_RETURN(0) is the end.
 *
 * With a stack, at any call depth, in the fiber itself or in what it calls:
 *
 *     AW_FIBER_GENERATOR(int, visit, const struct tree *tree;) { return walk(self, self->tree); }
 *     static int walk(struct visit *to, const struct tree *tree) {
 *         ...
 *         int error = aw_yield_value(to, tree->value);             -ECANCELED: nobody wants more
 *
 * Closed, its yields and awaits are refused with -ECANCELED; it cleans up and returns. What it returns is 0, or an error
 * that the stream ends with. A generator is closed, or has ended, before its frame goes away. */
#ifndef AWAKE_GENERATOR_H
#define AWAKE_GENERATOR_H

#include <awake/fiber.h>
#include <awake/stream.h>

AW_C_BEGIN

/* In a header, write the struct and declare it; define it in one source file with AW_GENERATOR_DEF(name) { ... }:
 *     struct countdown { AW_GENERATOR_FRAME(int); int from; aw_sleep nap; };
 *     AW_GENERATOR_DECL(countdown); */
#define AW_GENERATOR_FRAME(T)                                                                      \
    AW_FRAME(int);                                                                                 \
    AW__GENERATOR(T)
#define AW_FIBER_GENERATOR_FRAME(T)                                                                \
    AW_FIBER_FRAME(int);                                                                           \
    AW__GENERATOR(T)
#define AW__GENERATOR(T)                                                                           \
    AW_STREAM_HEAD(T);                                                                             \
    aw__held aw_held;                                                                              \
    aw__open aw_opened;                                                                            \
    uint32_t aw_phase;                                                                             \
    T value

/* aw_phase */
enum {
    AW__GENERATOR_IDLE,    /* it waits for somebody to want more */
    AW__GENERATOR_WAITING, /* it waits for something itself */
    AW__GENERATOR_YIELDED, /* there is a value */
    AW__GENERATOR_ENDED,   /* it has returned, and nobody has been told */
    AW__GENERATOR_TOLD,
    AW__GENERATOR_CLOSED
};

struct __attribute__((may_alias)) aw__generator {
    AW_STREAM_HEAD(void);
    aw__held aw_held;
    aw__open aw_opened;
    uint32_t aw_phase;
};

AW_API aw_poll aw__generator_next(aw_stream *s, aw_cx *cx, int *out);
AW_API bool aw__generator_rest(aw_stream *s, aw_cx *cx);
AW_API aw_poll aw__generator_close(aw_stream *s, aw_cx *cx);
AW_API const aw_future *aw__generator_child(const aw_stream *s, size_t i);

/* `item` is set; an async function that yields is pending after this. */
AW_API void aw__generator_yield(aw_stream *s, const char *file, int line);
/* A fiber waits here until the next one is wanted: 0 or -ECANCELED. */
AW_API int aw__generator_yield_fiber(aw_stream *s, const char *file, int line);

/* In a fiber: 0; -ECANCELED: it is being closed. The value is the stream's in any case: if nobody can take it any
 * more it is dropped (aw_stream_drop_with). */
#define aw_yield_value(generator, ...)                                                             \
    __extension__({                                                                                \
        __typeof__(generator) aw__to = (generator);                                                \
        aw__to->value = (__VA_ARGS__);                                                             \
        aw__to->item = &aw__to->value;                                                             \
        aw__generator_yield_fiber(&aw__to->stream, __FILE__, __LINE__);                            \
    })

#ifdef __cplusplus

#define AW_GENERATOR_DECL(fn)                                                                      \
    extern "C" const aw_future_type aw_type_##fn;                                                  \
    extern "C" const aw_stream_type aw_stream_type_##fn
#define AW_GENERATOR(...)       static_assert(false, "AW_GENERATOR is written in C, not C++")
#define AW_FIBER_GENERATOR(...) static_assert(false, "AW_FIBER_GENERATOR is written in C, not C++")
#define AW_GENERATE(...)        static_assert(false, "AW_GENERATE needs C's designated initialisers")

#else

#define AW_GENERATE(...) AW__GENERATE(__VA_ARGS__, )
#define AW__GENERATE(fn, ...)                                                                      \
    ((struct fn){.future = AW_FUTURE_INIT(&aw_type_##fn),                                          \
                 .stream = AW_STREAM_INIT(&aw_stream_type_##fn),                                   \
                 __VA_ARGS__})

#define AW_GENERATOR_DECL(fn)                                                                      \
    extern const aw_future_type aw_type_##fn;                                                      \
    extern const aw_stream_type aw_stream_type_##fn

#define AW_GENERATOR(T, ...)                                                                       \
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
#define AW_GENERATOR_DEF(fn) AW__GENERATOR_DEFINE(, fn)
#define AW__GENERATOR_DEFINE(linkage, fn)                                                          \
    AW__GENERATOR_TYPE(linkage, fn)                                                                \
    AW__ASYNC_DEFINE(linkage, fn, )

#define AW_FIBER_GENERATOR(T, ...)                                                                 \
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
#define AW_FIBER_GENERATOR_DEF(fn) AW__FIBER_GENERATOR_DEFINE(, fn)
#define AW__FIBER_GENERATOR_DEFINE(linkage, fn)                                                    \
    AW__GENERATOR_TYPE(linkage, fn)                                                                \
    AW__FIBER_DEFINE(linkage, fn, )

/* Where the future is, from the stream, is in `extra`. */
#define AW__GENERATOR_TYPE(linkage, fn)                                                            \
    AW__UNUSED linkage const aw_stream_type aw_stream_type_##fn = {                                \
        .self_size = sizeof(aw_stream_type),                                                       \
        .name = #fn,                                                                               \
        .next = aw__generator_next,                                                                \
        .rest = aw__generator_rest,                                                                \
        .close = aw__generator_close,                                                              \
        .child = aw__generator_child,                                                              \
        .extra = (const void *)offsetof(struct fn, stream)};

/* Give a value, and go on here when the next one is wanted. Not in AW_FINALLY: nobody would take it. When the generator is
 * being closed the value is not even looked at, and control goes to AW_FINALLY. */
#define AW_YIELD_VALUE(...)                                                                        \
    do {                                                                                           \
        _Static_assert(aw__may_return, "AW_YIELD_VALUE inside AW_FINALLY: nobody would take it");  \
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
