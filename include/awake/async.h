/* SPDX-License-Identifier: MIT
 *
 * awake/async.h: async functions, stackless, written as ordinary C with awaits.
 *
 *     AW_ASYNC(int, hello, int n; aw_sleep nap;) {
 *         AW_BEGIN;
 *         printf("start %d\n", self->n);
 *         AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
 *         printf("end %d\n", self->n);
 *         AW_RETURN(self->n * 2);
 *         AW_END;
 *     }
 *
 *     AW_CALL(hello, .n = 3)      a future of type `struct hello`, not started; output in `.out`
 *
 * The frame is `struct hello`: the arguments, what must live across awaits, and the awaited
 * children, all members of `self`. A C local does not survive an await: one that is initialised
 * and in scope at an await is a compile error (give it a block of its own), and so are most uses of
 * one across an await (gcc's message begins with "no local and no switch around an await"; the place is
 * in the notes below it). A large buffer does not belong in a frame: making a call zeroes all of it.
 *
 * In a body `self` is the frame and `cx` the context of this poll. Its parts:
 *     AW_BEGIN;                    first statement
 *     AW_AWAIT(child, future);     start `future` in the member `child` and wait for it; its output
 *                                  is then in child.out. One await to a line; in any loop or
 *                                  branch, but not inside a switch of the body's own.
 *     AW_AWAIT_FUTURE(child);      wait for a member that holds a future already
 *     AW_YIELD;                    let the others run
 *     AW_RETURN(value);            end with an output; AW_RETURN_VOID; when the type is void
 *     AW_FAIL(code);               end the whole task: its join reports the negative errno
 *     AW_FINALLY;                  optional, before AW_END: what follows runs exactly once, after a
 *                                  return, after a cancel, and when cancelled before the start. Its
 *                                  awaits are polled, never cancelled. It may not AW_RETURN.
 *                                  AW_STARTED tells whether the body ever ran (if not, all members
 *                                  but the arguments are zero and it may not await).
 *     AW_END;                      last statement
 *
 * When it is cancelled the child that it waits for is cancelled. If that child is gone, control goes
 * to AW_FINALLY and the function ends cancelled. If the child finished first the body runs on with
 * its output, and the next await cancels what it would wait for; if there is none it finishes.
 * AW_CANCELLING tells the body that this is going on.
 *
 * In a header, write the struct and declare it; define it in one source file:
 *
 *     struct hello { AW_FRAME(int); int n; aw_sleep nap; };      (awake.h included)
 *     AW_ASYNC_DECL(hello);
 *     #define hello(...) AW_CALL(hello, __VA_ARGS__)              optional: hello(.n = 3)
 *     ...
 *     AW_ASYNC_DEF(hello) { AW_BEGIN; ... AW_END; }
 *
 * AW_ASYNC_DEF(name, .discard = fn) names who releases an output that nobody takes;
 * AW_ASYNC_STATIC is the same for a function that stays in its file.
 * Children that are never alive together can share their room: AW_SHARE(aw_sleep a; struct f b;);
 * Only futures go there: an await looks whether one is still alive in its room.
 * Polls nest on the C stack; a recursion through boxes is good for some 30,000 levels of 8 MiB.
 *
 * AW_NO_LOCAL_CHECK, defined before the include, turns off the compile errors about locals. */
#ifndef AWAKE_ASYNC_H
#define AWAKE_ASYNC_H

#include <awake/future.h>

/* An output of nothing. */
typedef struct aw_unit {
    char nothing;
} aw_unit;

#define AW_FRAME(T)                                                                                \
    aw_future future;                                                                              \
    uint32_t aw_child; /* offset of the awaited member, for backtraces */                          \
    AW__OUT_TYPE(T) out

/* The forms that put an error into the output need one that has room for it. */
#ifdef __cplusplus
#define AW__ASSERT_ERRNO(x)                                                                        \
    static_assert((__typeof__(x))-1 < (__typeof__(x))0 &&                                          \
                      (__typeof__(x))1 / 2 == (__typeof__(x))0,                                    \
                  "this output cannot carry an error: use the _into or the _status form")
#else
#define AW__ASSERT_ERRNO(x)                                                                        \
    _Static_assert(                                                                                \
        _Generic((x), signed char : 1, short : 1, int : 1, long : 1, long long : 1, default : 0),  \
        "this output cannot carry an error: use the _into or the _status form")
#endif

#define AW_SHARE(...)                                                                              \
    union {                                                                                        \
        __VA_ARGS__                                                                                \
    }

#ifdef __cplusplus

/* Frames and declarations are the same, so that headers can be shared. */
extern "C++" {
template <typename T> struct aw__out { typedef T type; };
template <> struct aw__out<void> { typedef aw_unit type; };
}
#define AW__OUT_TYPE(T)   typename aw__out<T>::type
#define AW_ASYNC_DECL(fn) extern "C" const aw_future_type aw_type_##fn

/* Awaiting needs C's rules for jumps and designated initialisers. Everything else works in C++. */
#define AW_ASYNC(...)        static_assert(false, "AW_ASYNC functions are written in C, not C++")
#define AW_ASYNC_DEF(...)    static_assert(false, "AW_ASYNC functions are written in C, not C++")
#define AW_ASYNC_STATIC(...) static_assert(false, "AW_ASYNC functions are written in C, not C++")
#define AW_CALL(...)         static_assert(false, "AW_CALL needs C's designated initialisers")

#else

#include <awake/async_case.h>

#define AW__OUT_TYPE(T) __typeof__(*_Generic((T *)0, void * : (aw_unit *)0, default : (T *)0))

/* Whether an output carries its error itself. */
#define AW__IS_ERRNO(x)                                                                            \
    _Generic((x), signed char : 1, short : 1, int : 1, long : 1, long long : 1, default : 0)

/* A body returns this, so that a plain `return` of a value does not compile. */
typedef struct aw__step {
    aw_poll poll;
} aw__step;

/* `state` of an async function: the line where it waits, and these. */
#define AW__LINE_MASK  0xffffffu
#define AW__IN_FINALLY 0x1000000u
#define AW__CUT        0x2000000u /* a part was cancelled: so is the whole */
#define AW__NO_AWAIT   0x4000000u /* cancelled before the start: FINALLY runs, but may not wait */
/* Case keys are wider than any int or enum. Each await has two that differ only in what a narrower
 * type loses: in a switch on an int or enum they are duplicates, which does not compile. The second
 * one is never switched on, and costs nothing in an optimised build. */
#define AW__KEY(line)  ((1ULL << 40) | (line))
#define AW__KEY2(line) ((1ULL << 41) | (line))
/* clang-format off */
#define AW__RESUME     AW__CASE AW__KEY(__LINE__): case AW__KEY2(__LINE__):
/* clang-format on */

AW_API const aw_future *aw__async_child(const aw_future *self, size_t i);
AW_API void aw__async_bad_state(const aw_future *self, const char *file)
    __attribute__((noreturn, cold));
AW_API void aw__async_bad_await(const aw_future *self, const char *file, int line, bool outside)
    __attribute__((noreturn, cold));
AW_API void aw__async_bad_room(const aw_future *child, const char *file, int line)
    __attribute__((noreturn, cold));
AW_API void aw__async_bad_fail(const aw_future *self, const char *file, int line)
    __attribute__((noreturn, cold));
/* A function has ended in a task that has something open: not in this frame. */
AW_API void aw__async_check_left(const aw_future *self, size_t size, const char *file, int line);
/* The await of a function that is being cancelled. */
AW_API aw_poll aw__await_cancelling(aw_future *self, aw_future *child, aw_cx *cx, const char *file,
                                    int line);
/* Ends the current task with an error: see AW_FAIL. */
AW_API void aw__fail(aw_cx *cx, int code, const char *file, int line);

static inline void aw__await_begin(aw_future *self, uint32_t *child_at, aw_future *child,
                                   size_t size, const char *file, int line) {
    size_t at = (size_t)((char *)child - (char *)self);
    if (AW_CHECKS && AW__UNLIKELY(at >= size)) aw__async_bad_await(self, file, line, true);
    *child_at = (uint32_t)at;
    self->state = (self->state & ~AW__LINE_MASK) | (uint32_t)line;
}

/* Being cancelled, and not in the part that is never cancelled. */
static inline bool aw__async_cut_here(const aw_future *self) {
    return aw_future_cancelling(self) && !(self->state & AW__IN_FINALLY);
}

/* What is overwritten must not be running. Only what has not ended has an address in its life. */
static inline void aw__check_room(const aw_future *child, const char *file, int line) {
    unsigned life = aw__life(child);
    if (AW_CHECKS && AW__UNLIKELY(child->life > AW__LIFE_MASK) && life - AW__POLLED < 3u &&
        child->life == (aw__pin(child) | life))
        aw__async_bad_room(child, file, line);
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

/* gcc says which local a resume would skip at the jump, clang at the use. Clang must be asked
 * before the function begins. The label declaration that AW_BEGIN starts with is pedantic in gcc. */
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
/* A `return;` would return anything. */
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

/* Exactly two arguments, or more? (Up to 32.) */
#define AW__PICK32(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,     \
                   a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, x,   \
                   ...)                                                                            \
    x
#define AW__IF_TWO(two, more, ...)                                                                 \
    AW__PICK32(__VA_ARGS__, more, more, more, more, more, more, more, more, more, more, more,      \
               more, more, more, more, more, more, more, more, more, more, more, more, more, more, \
               more, more, more, more, more, two, two, two)

#define AW_ASYNC(...) AW__IF_TWO(AW__ASYNC_BARE, AW__ASYNC_FULL, __VA_ARGS__)(__VA_ARGS__)
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

#define AW_ASYNC_DECL(fn)         extern const aw_future_type aw_type_##fn
#define AW_ASYNC_DEF(...)         AW__ASYNC_DEF(__VA_ARGS__, )
#define AW__ASYNC_DEF(fn, ...)    AW__ASYNC_DEFINE(, fn, __VA_ARGS__)
#define AW_ASYNC_STATIC(...)      AW__ASYNC_STATIC(__VA_ARGS__, )
#define AW__ASYNC_STATIC(fn, ...) AW__ASYNC_DEFINE(static, fn, __VA_ARGS__)

/* Poll and cancel are the same function: `life` says which it is. */
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

#define AW_CALL(...)      AW__CALL(__VA_ARGS__, )
#define AW__CALL(fn, ...) ((struct fn){.future = AW_FUTURE_INIT(&aw_type_##fn), __VA_ARGS__})

/* A __label__ must come first in its block, so a local before AW_BEGIN is a syntax error.
 * AW_FINALLY opens a block with a label of the same name, so that AW_END serves both. */
#define AW_BEGIN                                                                                   \
    __label__ aw__finish;                                                                          \
    AW__HEAD_END switch (AW__KEY(self->future.state & AW__LINE_MASK)) {                            \
    default: aw__async_bad_state(&self->future, __FILE__);                                         \
    case AW__KEY(0):                                                                               \
        if (aw__async_unstarted(&self->future)) goto aw__finish;                                   \
        {                                                                                          \
            {                                                                                      \
                enum { aw__may_return = 1 };                                                       \
                (void)0

#define AW_FINALLY                                                                                 \
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

#define AW_END                                                                                     \
    }                                                                                              \
aw__finish:                                                                                        \
    __attribute__((unused));                                                                       \
    }                                                                                              \
    }                                                                                              \
    if (AW_CHECKS && cx->meter && AW__UNLIKELY(cx->meter->opened))                                 \
        aw__async_check_left(&self->future, sizeof *self, __FILE__, __LINE__);                     \
    return (aw__step){self->future.state & AW__CUT ? AW_CANCELLED : AW_READY};                     \
    AW__POP(void) 0

/* The first poll stands apart from the resumed ones, so that the compiler knows what it calls. */
#define AW_AWAIT_FUTURE(child)                                                                     \
    do {                                                                                           \
        aw_poll aw__r;                                                                             \
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

#define AW_AWAIT(child, ...)                                                                       \
    do {                                                                                           \
        aw__check_room(&(child).future, __FILE__, __LINE__);                                       \
        (child) = (__VA_ARGS__);                                                                   \
        AW_AWAIT_FUTURE(child);                                                                    \
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

#define AW_YIELD AW__WAIT_HERE(aw_cx_yield(cx), (void)0)
#define AW_FAIL(code)                                                                              \
    do {                                                                                           \
        _Static_assert(aw__may_return, "AW_FAIL inside AW_FINALLY: cleanup cannot fail the task"); \
        AW__WAIT_HERE(aw__fail(cx, (code), __FILE__, __LINE__),                                    \
                      if (cx->meter && cx->meter->fail) return (aw__step){AW_PENDING};             \
                      aw__async_bad_fail(&self->future, __FILE__, __LINE__));                      \
    } while (0)

#define AW_RETURN(...)                                                                             \
    do {                                                                                           \
        _Static_assert(aw__may_return, "AW_RETURN inside AW_FINALLY: the output is decided");      \
        self->out AW__SET(__VA_ARGS__);                                                            \
        goto aw__finish;                                                                           \
    } while (0)
#define AW_RETURN_VOID                                                                             \
    do {                                                                                           \
        _Static_assert(aw__may_return, "AW_RETURN inside AW_FINALLY: the output is decided");      \
        goto aw__finish;                                                                           \
    } while (0)

#define AW_STARTED    (!(self->future.state & AW__NO_AWAIT))
#define AW_CANCELLING (aw_future_cancelling(&self->future))

#endif

#endif
