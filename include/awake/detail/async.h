/* SPDX-License-Identifier: MIT
 *
 * awake/detail/async.h: private. The macros behind async functions: a frame, a type object, and a
 * body that is one large switch over the lines where it waits. */
#ifndef AWAKE_DETAIL_ASYNC_H
#define AWAKE_DETAIL_ASYNC_H

#include <awake/async.h>
#include <awake/detail/for_each.h>
#include <awake/detail/forms.h>

#ifdef __cplusplus

extern "C++" {
template <typename T> struct aw__out { typedef T type; };
template <> struct aw__out<void> { typedef aw_unit type; };
}
#define AW__OUT_TYPE(T)    typename aw__out<T>::type
#define AW__ASYNC_DECL(fn) extern "C" const aw_future_type aw_type_##fn

#define AW__ASYNC(...)        static_assert(false, "AW_ASYNC functions are written in C, not C++")
#define AW__ASYNC_DEF(...)    static_assert(false, "AW_ASYNC functions are written in C, not C++")
#define AW__ASYNC_STATIC(...) static_assert(false, "AW_ASYNC functions are written in C, not C++")
#define AW__CALL(...)         static_assert(false, "AW_CALL needs C's designated initialisers")

#else

#include <awake/detail/async_case.h>

#define AW__OUT_TYPE(T) __typeof__(*_Generic((T *)0, void * : (aw_unit *)0, default : (T *)0))

/* ---- State and checks ---------------------------------------------------------------------- */

/* The return type of a body, so that a plain `return` of a value does not compile. */
typedef struct aw__step {
    aw_poll poll;
} aw__step;

/* `state` of an async function: the line where it waits, and these flags. */
#define AW__LINE_MASK   0xffffffu
#define AW__IN_FINALLY  0x1000000u
#define AW__CUT         0x2000000u /* an await was cancelled: so is the function */
#define AW__NO_AWAIT    0x4000000u /* cancelled before the start: AW_FINALLY must not await */
/* Case labels are wider than any int or enum. Each await has two that differ only in bits that a
 * narrower type loses. In a switch on an int or enum they are duplicates, which does not compile.
 * The second label is never switched to and costs nothing in an optimised build. */
#define AW__KEY(line)   ((1ULL << 40) | (line))
#define AW__KEY2(line)  ((1ULL << 41) | (line))
/* clang-format off */
#define AW__RESUME     AW__CASE AW__KEY(__LINE__): case AW__KEY2(__LINE__):
/* clang-format on */

AW_API const aw_future *aw__async_child(const aw_future *self, size_t i);
AW_API void aw__async_bad_state(const aw_future *self, const char *file)
    __attribute__((noreturn, cold));
AW_API void aw__async_bad_await(const aw_future *self, const char *file, int line, bool outside)
    __attribute__((noreturn, cold));
AW_API void aw__async_bad_storage(const aw_future *child, const char *file, int line)
    __attribute__((noreturn, cold));
AW_API void aw__async_bad_fail(const aw_future *self, const char *file, int line)
    __attribute__((noreturn, cold));
/* Called when a function ends in a task with open borrows: aborts if one is in this frame. */
AW_API void aw__async_borrow_check(const aw_future *self, size_t size, const char *file, int line);
/* An await in a function that is being cancelled. */
AW_API aw_poll aw__await_cancelling(aw_future *self, aw_future *child, aw_cx *cx, const char *file,
                                    int line);
/* End the current task with an error: see AW_FAIL. */
AW_API void aw__fail(aw_cx *cx, int code, const char *file, int line);

static inline void aw__await_begin(aw_future *self, uint32_t *child_at, aw_future *child,
                                   size_t size, const char *file, int line) {
    size_t at = (size_t)((char *)child - (char *)self);
    if (AW_CHECKS && AW__UNLIKELY(at >= size)) aw__async_bad_await(self, file, line, true);
    *child_at = (uint32_t)at;
    self->state = (self->state & ~AW__LINE_MASK) | (uint32_t)line;
}

/* Being cancelled, and not in AW_FINALLY. */
static inline bool aw__async_cut_here(const aw_future *self) {
    return aw_future_cancelling(self) && !(self->state & AW__IN_FINALLY);
}

/* An await must not overwrite a running future. Only a future that has not ended has an address in
 * its `life`. */
static inline void aw__check_storage(const aw_future *child, const char *file, int line) {
    unsigned life = aw__life(child);
    if (AW_CHECKS && AW__UNLIKELY(child->life > AW__LIFE_MASK) && life - AW__POLLED < 3u &&
        child->life == (aw__pin(child) | life))
        aw__async_bad_storage(child, file, line);
}

static inline aw_poll aw__await(aw_future *self, aw_future *child, aw_cx *cx, const char *file,
                                int line) {
    if (AW__LIKELY(!aw_future_cancelling(self))) return aw__poll_at(child, cx, file, line);
    return aw__await_cancelling(self, child, cx, file, line);
}

static inline bool aw__async_unstarted(aw_future *self) {
    if (AW__LIKELY(!aw_future_cancelling(self)) || aw__life(self) != AW__CANCELLING_FRESH)
        return false;
    self->state |= AW__CUT | AW__NO_AWAIT;
    return true;
}

/* Reports locals that a resume would skip: gcc at the jump, clang at the use. clang needs the
 * pragma before the function begins. gcc's -Wpedantic rejects the label declaration in AW_BEGIN. */
#if defined(AW_NO_LOCAL_CHECK)
#define AW__ERROR_LOCALS
#elif defined(__clang__)
#define AW__ERROR_LOCALS                                                                           \
    _Pragma("GCC diagnostic error \"-Wconditional-uninitialized\"")                                \
        _Pragma("GCC diagnostic error \"-Wsometimes-uninitialized\"")
#else
#define AW__ERROR_LOCALS _Pragma("GCC diagnostic error \"-Wjump-misses-init\"")
#endif
#define AW__PUSH         _Pragma("GCC diagnostic push")
#define AW__POP          _Pragma("GCC diagnostic pop")
/* Without this, `return;` would return an arbitrary value. */
#define AW__ERROR_RETURN _Pragma("GCC diagnostic error \"-Wreturn-type\"")
#if defined(__clang__)
#define AW__ALLOW_LABEL
#define AW__HEAD AW__PUSH AW__ERROR_RETURN AW__ERROR_LOCALS
#define AW__HEAD_END
#else
#define AW__ALLOW_LABEL _Pragma("GCC diagnostic ignored \"-Wpedantic\"")
#define AW__HEAD        AW__PUSH AW__ALLOW_LABEL
#define AW__HEAD_END    AW__POP AW__PUSH AW__ERROR_RETURN AW__ERROR_LOCALS
#endif

/* ---- Definitions --------------------------------------------------------------------------- */

#define AW__ASYNC(...) AW__IF_TWO(AW__ASYNC_BARE, AW__ASYNC_FULL, __VA_ARGS__)(__VA_ARGS__)
#define AW__ASYNC_BARE(T, fn)                                                                      \
    struct fn {                                                                                    \
        AW_FRAME(T);                                                                               \
    };                                                                                             \
    AW__ASYNC_DEFINE(static, fn, )
#define AW__ASYNC_FULL(T, fn, ...)                                                                 \
    struct fn {                                                                                    \
        AW_FRAME(T);                                                                               \
        __VA_ARGS__                                                                                \
    };                                                                                             \
    AW__ASYNC_DEFINE(static, fn, )

#define AW__ASYNC_STATIC(fn, ...) AW__ASYNC_DEFINE(static, fn, __VA_ARGS__)
#define AW__ASYNC_DEF(fn, ...)    AW__ASYNC_DEFINE(, fn, __VA_ARGS__)
#define AW__ASYNC_DECL(fn)        extern const aw_future_type aw_type_##fn

/* One function serves as poll and cancel: `life` tells which it is. */
#define AW__ASYNC_DEFINE(linkage, fn, ...)                                                         \
    static aw__step aw__body_##fn(struct fn *self, aw_cx *cx);                                     \
    static aw_poll aw__poll_##fn(aw_future *self, aw_cx *cx) {                                     \
        return aw__body_##fn((struct fn *)self, cx).poll;                                          \
    }                                                                                              \
    AW__UNUSED linkage const aw_future_type aw_type_##fn = {                                       \
        .self_size = sizeof(aw_future_type),                                                       \
        .name = #fn,                                                                               \
        .file = __FILE__,                                                                          \
        .size = sizeof(struct fn),                                                                 \
        .out_offset = offsetof(struct fn, out),                                                    \
        .out_size = sizeof(((struct fn *)0)->out),                                                 \
        .flags = AW__IS_ERRNO(((struct fn *)0)->out) ? AW_OUT_ERRNO : 0,                           \
        .poll = aw__poll_##fn,                                                                     \
        .cancel = aw__poll_##fn,                                                                   \
        .child = aw__async_child,                                                                  \
        __VA_ARGS__};                                                                              \
    AW__HEAD static aw__step aw__body_##fn(struct fn *self, AW__UNUSED aw_cx *cx)

#define AW__CALL(fn, ...) ((struct fn){.future = AW_FUTURE_INIT(&aw_type_##fn), __VA_ARGS__})

/* ---- Bodies -------------------------------------------------------------------------------- */

/* A __label__ must come first in its block, so a local before AW_BEGIN is a syntax error.
 * AW_FINALLY opens a block with a label of the same name: AW_END works with or without it. */
#define AW__BEGIN                                                                                  \
    __label__ aw__finish;                                                                          \
    AW__HEAD_END switch (AW__KEY(self->future.state & AW__LINE_MASK)) {                            \
    default: aw__async_bad_state(&self->future, __FILE__);                                         \
    case AW__KEY(0):                                                                               \
        if (aw__async_unstarted(&self->future)) goto aw__finish;                                   \
        {                                                                                          \
            {                                                                                      \
                enum { aw__may_return = 1 };                                                       \
                (void)0

#define AW__FINALLY                                                                                \
    }                                                                                              \
    }                                                                                              \
aw__finish:                                                                                        \
    __attribute__((unused));                                                                       \
    self->future.state |= AW__IN_FINALLY;                                                          \
    self->aw_child = 0;                                                                            \
    AW__PUSH AW__ALLOW_LABEL {                                                                     \
        __label__ aw__finish;                                                                      \
        AW__POP {                                                                                  \
            enum { aw__may_return = 0 };                                                           \
            (void)0

#define AW__END                                                                                    \
    }                                                                                              \
aw__finish:                                                                                        \
    __attribute__((unused));                                                                       \
    }                                                                                              \
    }                                                                                              \
    if (AW_CHECKS && cx->meter && AW__UNLIKELY(cx->meter->borrows))                                \
        aw__async_borrow_check(&self->future, sizeof *self, __FILE__, __LINE__);                   \
    return (aw__step){self->future.state & AW__CUT ? AW_CANCELLED : AW_READY};                     \
    AW__POP(void) 0

/* Store a future in its member. */
#define AW__STORE(child, ...)                                                                      \
    aw__check_storage(&(child).future, __FILE__, __LINE__);                                        \
    (child) = (__VA_ARGS__)

/* Await a member after `store`. The first poll is separate from the resumed ones: there the
 * compiler knows the callee. */
#define AW__AWAIT(child, store)                                                                    \
    do {                                                                                           \
        aw_poll aw__r;                                                                             \
        store;                                                                                     \
        aw__await_begin(&self->future, &self->aw_child, &(child).future, sizeof *self, __FILE__,   \
                        __LINE__);                                                                 \
        aw__r = aw__await(&self->future, &(child).future, cx, __FILE__, __LINE__);                 \
        if (0) {                                                                                   \
            AW__RESUME                                                                             \
            aw__r = aw__await(&self->future, &(child).future, cx, __FILE__, __LINE__);             \
        }                                                                                          \
        if (aw__r == AW_PENDING) return (aw__step){AW_PENDING};                                    \
        if (aw__r == AW_CANCELLED) goto aw__finish;                                                \
        self->aw_child = 0;                                                                        \
    } while (0)

/* Wait at this line without a child: once (AW_YIELD), or until cancelled (AW_FAIL). */
#define AW__WAIT_HERE(before, again)                                                               \
    do {                                                                                           \
        aw__await_begin(&self->future, &self->aw_child, &self->future, sizeof *self, __FILE__,     \
                        __LINE__);                                                                 \
        if (AW_CHECKS && AW__UNLIKELY(self->future.state & AW__NO_AWAIT))                          \
            aw__async_bad_await(&self->future, __FILE__, __LINE__, false);                         \
        before;                                                                                    \
        if (!aw__async_cut_here(&self->future)) return (aw__step){AW_PENDING};                     \
        __attribute__((fallthrough));                                                              \
        AW__RESUME                                                                                 \
        if (aw__async_cut_here(&self->future)) {                                                   \
            self->future.state |= AW__CUT;                                                         \
            goto aw__finish;                                                                       \
        }                                                                                          \
        again;                                                                                     \
    } while (0)

#define AW__FAIL(code)                                                                             \
    do {                                                                                           \
        _Static_assert(aw__may_return, "AW_FAIL inside AW_FINALLY: cleanup cannot fail the task"); \
        AW__WAIT_HERE(aw__fail(cx, (code), __FILE__, __LINE__),                                    \
                      if (cx->meter && cx->meter->fail) return (aw__step){AW_PENDING};             \
                      aw__async_bad_fail(&self->future, __FILE__, __LINE__));                      \
    } while (0)

#define AW__RETURN(...)                                                                            \
    do {                                                                                           \
        _Static_assert(aw__may_return, "AW_RETURN inside AW_FINALLY: the output is decided");      \
        self->out AW__SET(__VA_ARGS__);                                                            \
        goto aw__finish;                                                                           \
    } while (0)
#define AW__RETURN_VOID                                                                            \
    do {                                                                                           \
        _Static_assert(aw__may_return, "AW_RETURN inside AW_FINALLY: the output is decided");      \
        goto aw__finish;                                                                           \
    } while (0)

#endif

#endif
