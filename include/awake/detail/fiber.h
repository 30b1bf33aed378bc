/* SPDX-License-Identifier: MIT
 *
 * awake/detail/fiber.h: private. The macros behind fibers. */
#ifndef AWAKE_DETAIL_FIBER_H
#define AWAKE_DETAIL_FIBER_H

#include <awake/detail/for_each.h>
#include <awake/detail/forms.h>
#include <awake/fiber.h>

AW_C_BEGIN

typedef struct aw__fiber aw__fiber;

/* ---- Awaiting ------------------------------------------------------------------------------ */

#define AW__FIBER_AWAIT aw_fiber_await(&aw__awaited.future, __FILE__, __LINE__)

/* With a timeout. The output is that of the inner future. */
#define AW__AWAIT_TIMED(sleep, ...)                                                                \
    __extension__({                                                                                \
        AW__DECLARE_TIMED(sleep, __VA_ARGS__);                                                     \
        AW__VALUE_OF(aw__timed.inner, AW__FIBER_TIMED);                                            \
    })
#define AW__AWAIT_INTO_TIMED(sleep, result, ...)                                                   \
    __extension__({                                                                                \
        AW__DECLARE_TIMED(sleep, __VA_ARGS__);                                                     \
        AW__INTO_OF(aw__timed.inner, result, AW__FIBER_TIMED);                                     \
    })
#define AW__DECLARE_TIMED(sleep, ...)                                                              \
    typedef __typeof__(__VA_ARGS__) aw__timed_inner; /* clang: not inside the struct */            \
    typedef AW_TIMEOUT(aw__timed_inner) aw__timed_type;                                            \
    aw__timed_type aw__timed = {AW_FUTURE_INIT(&aw_timeout_type), 0,                               \
                                offsetof(aw__timed_type, inner), sleep, __VA_ARGS__}
#define AW__FIBER_TIMED aw_fiber_await(&aw__timed.future, __FILE__, __LINE__) ?: aw__timed.out

/* ---- Shields ------------------------------------------------------------------------------- */

/* The loop tests the pointer, so that the compiler sees that the block is entered. */
#define AW__SHIELD(name, once)                                                                     \
    for (aw__shield name                                                                           \
         __attribute__((cleanup(aw__shield_end))) = aw__shield_begin(__FILE__, __LINE__),          \
         *once = &name;                                                                            \
         once; once = NULL)

typedef struct aw__shield {
    aw__fiber *fiber;
} aw__shield;
AW_API aw__shield aw__shield_begin(const char *file, int line);
AW_API void aw__shield_end(aw__shield *shield);

/* ---- Definitions --------------------------------------------------------------------------- */

/* What a definition adds to its type. */
typedef struct aw__fiber_info {
    void (*drop)(aw_future *self);
    size_t high_water;
} aw__fiber_info;

typedef struct aw__fiber_def {
    void (*run)(aw_future *self);
    aw__fiber_info *info;
} aw__fiber_def;

AW_API aw_poll aw__fiber_poll(aw_future *self, aw_cx *cx);
AW_API aw_poll aw__fiber_cancel(aw_future *self, aw_cx *cx);
AW_API const aw_future *aw__fiber_child(const aw_future *self, size_t i);
AW_API void aw__fiber_describe(const aw_future *self, char *buf, size_t size);

#ifdef __cplusplus

#define AW__FIBER_DECL(fn)    extern "C" const aw_future_type aw_type_##fn
#define AW__FIBER(...)        static_assert(false, "in C++ use aw_fiber_of: AW_FIBER is for C")
#define AW__FIBER_DEF(...)    static_assert(false, "in C++ use aw_fiber_of: AW_FIBER is for C")
#define AW__FIBER_STATIC(...) static_assert(false, "in C++ use aw_fiber_of: AW_FIBER is for C")
#define AW__FIBER_DROP(...)   static_assert(false, "in C++ use aw_fiber_of: AW_FIBER is for C")

#else

#define AW__FIBER(...) AW__IF_TWO(AW__FIBER_BARE, AW__FIBER_FULL, __VA_ARGS__)(__VA_ARGS__)
#define AW__FIBER_BARE(T, fn)                                                                      \
    struct fn {                                                                                    \
        AW_FIBER_FRAME(T);                                                                         \
    };                                                                                             \
    AW__FIBER_DEFINE(static, fn, )
#define AW__FIBER_FULL(T, fn, ...)                                                                 \
    struct fn {                                                                                    \
        AW_FIBER_FRAME(T);                                                                         \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    AW__FIBER_DEFINE(static, fn, )

#define AW__FIBER_STATIC(fn, ...) AW__FIBER_DEFINE(static, fn, __VA_ARGS__)
#define AW__FIBER_DEF(fn, ...)    AW__FIBER_DEFINE(, fn, __VA_ARGS__)
#define AW__FIBER_DECL(fn)        extern const aw_future_type aw_type_##fn

/* What the body returns: void if there is no output. */
#define AW__FIBER_RETURNS(fn)                                                                      \
    __typeof__(_Generic(&((struct fn *)0)->out, aw_unit *                                          \
                        : (void)0, default                                                         \
                        : ((struct fn *)0)->out))

/* `info` is only declared here, so that AW_FIBER_DROP after the body can define it. Otherwise it is
 * all zero. */
#define AW__FIBER_DEFINE(linkage, fn, ...)                                                         \
    static AW__FIBER_RETURNS(fn) aw__body_##fn(struct fn *self);                                   \
    static void aw__run_##fn(aw_future *future) {                                                  \
        struct fn *self = (struct fn *)future;                                                     \
        self->out = _Generic(&self->out, aw_unit *                                                 \
                             : (aw__body_##fn(self), (aw_unit){0}), default                        \
                             : aw__body_##fn(self));                                               \
    }                                                                                              \
    static aw__fiber_info aw__info_##fn;                                                           \
    static const aw__fiber_def aw__def_##fn = {aw__run_##fn, &aw__info_##fn};                      \
    AW__UNUSED linkage const aw_future_type aw_type_##fn = {                                       \
        .self_size = sizeof(aw_future_type),                                                       \
        .name = #fn,                                                                               \
        .size = sizeof(struct fn),                                                                 \
        .out_offset = offsetof(struct fn, out),                                                    \
        .out_size = sizeof(((struct fn *)0)->out),                                                 \
        .flags = AW__PINNED | (AW__IS_ERRNO(((struct fn *)0)->out) ? AW_OUT_ERRNO : 0),            \
        .poll = aw__fiber_poll,                                                                    \
        .cancel = aw__fiber_cancel,                                                                \
        .child = aw__fiber_child,                                                                  \
        .describe = aw__fiber_describe,                                                            \
        .extra = &aw__def_##fn,                                                                    \
        __VA_ARGS__};                                                                              \
    static AW__FIBER_RETURNS(fn) aw__body_##fn(AW__UNUSED struct fn *self)

#define AW__FIBER_DROP(fn)                                                                         \
    static void aw__drop_##fn(struct fn *self);                                                    \
    static void aw__dropped_##fn(aw_future *self) {                                                \
        aw__drop_##fn((struct fn *)self);                                                          \
    }                                                                                              \
    static aw__fiber_info aw__info_##fn = {aw__dropped_##fn, 0};                                   \
    static void aw__drop_##fn(struct fn *self)

#endif

AW_C_END

#endif
