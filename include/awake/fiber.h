/* SPDX-License-Identifier: MIT
 *
 * awake/fiber.h: fibers: plain C with a stack of its own that can wait at any call depth.
 *
 *     AW_FIBER(int, serve, int fd;) {
 *         char buf[512];
 *         for (;;) {
 *             long n = aw_await_for(AW_SEC(30), receive(self->fd, buf, sizeof buf));
 *             if (n <= 0) return (int)n;           -ETIMEDOUT, -ECANCELED, ...
 *             handle(buf, n);                      may call aw_await as well
 *         }
 *     }
 *     AW_FIBER_DROP(serve) { close(self->fd); }    optional: it was never entered
 *
 *     aw_spawn(AW_CALL(serve, .fd = fd))
 *
 * A fiber is a future like any other: spawned, awaited by async functions and other fibers, put into
 * groups and boxes. Its frame is `struct serve`: the arguments, by name, members of `self`. What it
 * returns is its output. Its stack is taken at the first poll; when there is none the output is -ENOMEM,
 * or, when the output cannot say so, the task fails with it (see aw_fail).
 *
 * Cancelling: the await in which a fiber waits returns -ECANCELED, and so does every later one; the fiber
 * cleans up and returns, its value is discarded, and it ends cancelled. What it awaited may have finished
 * first: then that await returns its value, and if none is refused before the fiber returns, it ends
 * finished. AW_SHIELD is a block whose awaits are polled and not cancelled. A refused await still lets
 * the others run, and a fiber that ignores a thousand of them is reported by name. Cancelled before its
 * first poll it is never entered: its arguments go through AW_FIBER_DROP.
 *
 * A fiber stays on the thread that first polled it, because compilers keep addresses of thread-local
 * variables (errno is one) across calls. On workers its task stays with the worker; a current-thread
 * runtime that has run fibers is run and freed by that thread.
 * In C++, exceptions may be thrown and caught within a fiber, but a catch block may not await: the exceptions
 * that are being handled are counted by thread. */
#ifndef AWAKE_FIBER_H
#define AWAKE_FIBER_H

#include <awake/async.h>
#include <awake/timeout.h>

AW_C_BEGIN

typedef struct aw__fiber aw__fiber;

/* ---- Awaiting, in a fiber -------------------------------------------------------------------
 *
 *     T   aw_await(future)                  T is a signed integer: its output, or -ECANCELED
 *     T   aw_await_for(duration, future)    or -ETIMEDOUT
 *     T   aw_await_by(deadline, future)
 *     int aw_await_into(&out, future)       any output: 0, or an error and `out` is untouched
 *     int aw_await_into_for(duration, &out, future)
 *     int aw_await_into_by(deadline, &out, future)
 *     int aw_await_status(future)           the output is not wanted: it is discarded
 *     int aw_await_future(&f)               an aw_future that stays where it is; its output too
 *
 * Outside a fiber, and in the poll of something that a fiber awaits, they end the program with a
 * message: async functions use AW_AWAIT, plain threads aw_block_on. */
#define aw_await(...)                                                                              \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__awaited = (__VA_ARGS__);                                       \
        AW__ASSERT_ERRNO(aw__awaited.out);                                                         \
        int aw__err = aw_fiber_await(&aw__awaited.future, __FILE__, __LINE__);                     \
        (__typeof__(aw__awaited.out))(aw__err ? aw__err : aw__awaited.out);                        \
    })
#define aw_await_into(result, ...)                                                                 \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__awaited = (__VA_ARGS__);                                       \
        int aw__err = aw_fiber_await(&aw__awaited.future, __FILE__, __LINE__);                     \
        if (!aw__err) *(result) = aw__awaited.out;                                                 \
        aw__err;                                                                                   \
    })
#define aw_await_status(...)                                                                       \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__awaited = (__VA_ARGS__);                                       \
        int aw__err = aw_fiber_await(&aw__awaited.future, __FILE__, __LINE__);                     \
        if (!aw__err) aw_future_discard(&aw__awaited.future);                                      \
        aw__err;                                                                                   \
    })
#define aw_await_future(f) aw_fiber_await((f), __FILE__, __LINE__)

#define aw_await_for(duration, ...) AW__AWAIT_TIMED(aw_sleep_for(duration), __VA_ARGS__)
#define aw_await_by(deadline, ...)  AW__AWAIT_TIMED(aw_sleep_until(deadline), __VA_ARGS__)
#define aw_await_into_for(duration, result, ...)                                                   \
    AW__AWAIT_INTO_TIMED(aw_sleep_for(duration), result, __VA_ARGS__)
#define aw_await_into_by(deadline, result, ...)                                                    \
    AW__AWAIT_INTO_TIMED(aw_sleep_until(deadline), result, __VA_ARGS__)

#define AW__TIMED(sleep, ...)                                                                      \
    typedef __typeof__(__VA_ARGS__) aw__timed_inner; /* clang: not inside the struct */            \
    typedef AW_TIMEOUT(aw__timed_inner) aw__timed_type;                                            \
    aw__timed_type aw__timed = {AW_FUTURE_INIT(&aw_timeout_type), 0,                               \
                                offsetof(aw__timed_type, inner), sleep, __VA_ARGS__};              \
    int aw__err = aw_fiber_await(&aw__timed.future, __FILE__, __LINE__);                           \
    if (!aw__err) aw__err = aw__timed.out
#define AW__AWAIT_TIMED(sleep, ...)                                                                \
    __extension__({                                                                                \
        AW__TIMED(sleep, __VA_ARGS__);                                                             \
        AW__ASSERT_ERRNO(aw__timed.inner.out);                                                     \
        (__typeof__(aw__timed.inner.out))(aw__err ? aw__err : aw__timed.inner.out);                \
    })
#define AW__AWAIT_INTO_TIMED(sleep, result, ...)                                                   \
    __extension__({                                                                                \
        AW__TIMED(sleep, __VA_ARGS__);                                                             \
        if (!aw__err) *(result) = aw__timed.inner.out;                                             \
        aw__err;                                                                                   \
    })

/* The erased form: 0 when it finished, its output is in place; -ECANCELED when it is gone. */
AW_API int aw_fiber_await(aw_future *f, const char *file, int line);

/* Let the others run: 0, or -ECANCELED. */
#define aw_fiber_yield() aw__fiber_yield(__FILE__, __LINE__)
AW_API int aw__fiber_yield(const char *file, int line);

/* End the whole task: its join reports the negative errno. Returns -ECANCELED when the task is being
 * cancelled for it, so that the fiber can clean up:
 *     return aw_fiber_fail(-EPROTO);
 * Not in a shield. */
#define aw_fiber_fail(code) aw__fiber_fail((code), __FILE__, __LINE__)
AW_API int aw__fiber_fail(int code, const char *file, int line);

/* Whether the fiber that asks is being cancelled, rather than something that it waited for. False
 * outside a fiber. */
AW_API bool aw_cancelled(void);

/* The context of the poll that runs this fiber, until its next await; NULL outside a fiber. */
AW_API aw_cx *aw_fiber_cx(void);

/* AW_SHIELD { ... }: what is awaited in the block is not cancelled with the fiber. It may be left in any
 * way but longjmp; `break` and `continue` leave it. */
#define AW_SHIELD                                                                                  \
    AW__SHIELD(AW__FIBER_CAT(aw__shield_, __LINE__), AW__FIBER_CAT(aw__once_, __LINE__))
/* The pointer is what the loop runs on, so that the compiler sees that the block is entered. */
#define AW__SHIELD(name, once)                                                                     \
    for (aw__shield name                                                                           \
         __attribute__((cleanup(aw__shield_end))) = aw__shield_begin(__FILE__, __LINE__),          \
         *once = &name;                                                                            \
         once; once = NULL)
#define AW__FIBER_CAT(a, b)  AW__FIBER_CAT_(a, b)
#define AW__FIBER_CAT_(a, b) a##b

typedef struct aw__shield {
    aw__fiber *fiber;
} aw__shield;
AW_API aw__shield aw__shield_begin(const char *file, int line);
AW_API void aw__shield_end(aw__shield *shield);

/* ---- A function and a pointer as a fiber ------------------------------------------------------ */

/* aw-future: aw_fiber */
typedef struct aw_fiber {
    aw_future future;
    aw__fiber *aw_fiber;
    uint32_t stack_size; /* 0: the default */
    int out;             /* what the function returned */
    int (*main)(void *arg);
    void (*drop)(void *arg); /* instead of `main` when it is never entered; may be NULL */
    void *arg;
} aw_fiber;

AW_API extern const aw_future_type aw_fiber_type;

static inline aw_fiber aw_fiber_with(int (*main)(void *arg), void (*drop)(void *arg), void *arg,
                                     uint32_t stack_size) {
    aw_fiber f = {AW_FUTURE_INIT(&aw_fiber_type), NULL, stack_size, 0, main, drop, arg};
    return f;
}
static inline aw_fiber aw_fiber_of(int (*main)(void *arg), void *arg) {
    return aw_fiber_with(main, NULL, arg, 0);
}

/* ---- Definitions ------------------------------------------------------------------------------
 *
 * AW_FIBER(T, name, members) defines a fiber in its file. In a header, write the struct and declare it:
 *     struct serve { AW_FIBER_FRAME(int); int fd; };
 *     AW_FIBER_DECL(serve);
 * and define it in one source file: AW_FIBER_DEF(serve) { ... }, or AW_FIBER_STATIC for one that stays in
 * its file. AW_FIBER_DEF(serve, .discard = fn) names who releases an output that nobody takes.
 * AW_CALL(serve, .fd = fd, .stack_size = 65536) makes one, with a stack of that size; some 2 KiB of it are the
 * fiber's own. */
#define AW_FIBER_FRAME(T)                                                                          \
    aw_future future;                                                                              \
    aw__fiber *aw_fiber;                                                                           \
    uint32_t stack_size; /* 0: the default */                                                      \
    AW__OUT_TYPE(T) out

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

#define AW_FIBER_DECL(fn)    extern "C" const aw_future_type aw_type_##fn
#define AW_FIBER(...)        static_assert(false, "in C++ use aw_fiber_of: AW_FIBER is for C")
#define AW_FIBER_DEF(...)    static_assert(false, "in C++ use aw_fiber_of: AW_FIBER is for C")
#define AW_FIBER_STATIC(...) static_assert(false, "in C++ use aw_fiber_of: AW_FIBER is for C")
#define AW_FIBER_DROP(...)   static_assert(false, "in C++ use aw_fiber_of: AW_FIBER is for C")

#else

/* aw-future: AW_FIBER */
#define AW_FIBER(...) AW__IF_TWO(AW__FIBER_BARE, AW__FIBER_FULL, __VA_ARGS__)(__VA_ARGS__)
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

#define AW_FIBER_DECL(fn)         extern const aw_future_type aw_type_##fn
#define AW_FIBER_DEF(...)         AW__FIBER_DEF(__VA_ARGS__, )
#define AW__FIBER_DEF(fn, ...)    AW__FIBER_DEFINE(, fn, __VA_ARGS__)
#define AW_FIBER_STATIC(...)      AW__FIBER_STATIC(__VA_ARGS__, )
#define AW__FIBER_STATIC(fn, ...) AW__FIBER_DEFINE(static, fn, __VA_ARGS__)

/* What the body returns: void where the output is nothing. */
#define AW__FIBER_RETURNS(fn)                                                                      \
    __typeof__(_Generic(&((struct fn *)0)->out, aw_unit *                                          \
                        : (void)0, default                                                         \
                        : ((struct fn *)0)->out))

/* `info` is only declared here, so that AW_FIBER_DROP may come after the body and fill it; without one
 * it is all zero. */
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

/* The drop part: releases what the arguments own when the fiber is given up before it was entered, or
 * finds no stack. It runs where the fiber would have been polled, and may not await. */
#define AW_FIBER_DROP(fn)                                                                          \
    static void aw__drop_##fn(struct fn *self);                                                    \
    static void aw__dropped_##fn(aw_future *self) {                                                \
        aw__drop_##fn((struct fn *)self);                                                          \
    }                                                                                              \
    static aw__fiber_info aw__info_##fn = {aw__dropped_##fn, 0};                                   \
    static void aw__drop_##fn(struct fn *self)

/* The deepest that any fiber of this definition has used its stack, in bytes, while measuring was on. */
#define AW_FIBER_HIGH_WATER(fn) aw_fiber_high_water(&aw_type_##fn)

#endif

/* ---- Stacks -----------------------------------------------------------------------------------
 *
 * A stack is address space with a guard below it; memory is taken page by page as it is used. The
 * default size is 256 KiB, see also aw_runtime_options.stack_size; sizes are rounded up to a power
 * of two, at least 16 KiB. Idle stacks are kept for the next fibers of the thread; their memory is given
 * back after a second without work, and beyond a few hundred at once. Stacks are the thread's, not the
 * runtime's: what little the pool itself needs comes from the process's allocator. */

/* Give back now what this thread's fibers have left. */
AW_API void aw_stacks_trim(void);

/* Measure how deep stacks are used: from now on each new fiber's stack is painted first, which makes all
 * of its memory real. Any thread. */
AW_API void aw_fiber_measure(bool on);
AW_API size_t aw_fiber_high_water(const aw_future_type *type);

/* What becomes of a stack overflow. It always ends the program; a handler of SIGSEGV can say which fiber
 * it was. */
typedef enum aw_overflow {
    AW_OVERFLOW_AUTO, /* install the handler with the first fiber, unless somebody handles SIGSEGV */
    AW_OVERFLOW_REPORT, /* install it now, in front of any other, which is called for all other faults */
    AW_OVERFLOW_LEAVE /* never install it */
} aw_overflow;
/* Before the first fiber. 0 or a negative errno. */
AW_API int aw_stack_overflow(aw_overflow mode);

AW_C_END

#endif
