/* SPDX-License-Identifier: MIT
 *
 * awake/fiber.h: fibers: plain C with its own stack, which can await at any call depth.
 *
 *     AW_FIBER(int, serve, int fd;) {
 *         char buf[512];
 *         for (;;) {
 *             long n = aw_await_for(AW_SEC(30), receive(self->fd, buf, sizeof buf));
 *             if (n <= 0) return (int)n;           -ETIMEDOUT, -ECANCELED, ...
 *             handle(buf, n);                      may call aw_await as well
 *         }
 *     }
 *     AW_FIBER_DROP(serve) { close(self->fd); }    optional: if the body never ran
 *
 *     aw_spawn(AW_CALL(serve, .fd = fd))
 *
 * A fiber is a future: you can spawn it, await it in async functions and other fibers, and put it
 * into groups and boxes. Its frame is `struct serve`, and its arguments are members of `self`. Its
 * output is what it returns. It takes a stack at its first poll. Without one its output is -ENOMEM,
 * or -EAGAIN above max_stacks; if the output cannot hold an error, the task fails with it (see
 * aw_fail).
 *
 * Cancelling a fiber makes its current await, and every later one, return -ECANCELED. The fiber
 * cleans up and returns; the value is discarded and the fiber ends cancelled. If the awaited future
 * finished first, its await returns the output. If no await returns -ECANCELED before the fiber
 * returns, the fiber ends finished. An await that returns -ECANCELED still lets other tasks run; a
 * fiber that ignores a thousand of them is reported by name. Awaits in an AW_SHIELD block are
 * polled, not cancelled. A fiber that is cancelled before its first poll never runs: AW_FIBER_DROP
 * releases its arguments.
 *
 * A fiber stays on the thread of its first poll, because compilers keep the addresses of
 * thread-local variables (errno is one) across calls. With workers its task stays on one worker. A
 * current-thread runtime that has run fibers must be run and freed by the same thread.
 *
 * In C++ you may throw and catch exceptions within a fiber, but a catch block must not await: the
 * exceptions being handled are counted per thread. */
#ifndef AWAKE_FIBER_H
#define AWAKE_FIBER_H

#include <awake/async.h>
#include <awake/timeout.h>

AW_C_BEGIN

/* ---- Awaiting, in a fiber ---------------------------------------------------------------------
 *
 *     T   aw_await(future)                  T is a signed integer: the output, or -ECANCELED
 *     T   aw_await_for(duration, future)    or -ETIMEDOUT
 *     T   aw_await_by(deadline, future)
 *     int aw_await_into(&out, future)       any output: 0, or an error and `out` untouched
 *     int aw_await_into_for(duration, &out, future)
 *     int aw_await_into_by(deadline, &out, future)
 *     int aw_await_status(future)           discards the output
 *     int aw_await_future(&f)               an aw_future that stays where it is, with its output
 *
 * They abort with a message outside a fiber, and in the poll of a future that a fiber awaits. Async
 * functions use AW_AWAIT, plain threads aw_block_on. */
#define aw_await(...)              AW__VALUE(aw__awaited, AW__FIBER_AWAIT, __VA_ARGS__)
#define aw_await_into(result, ...) AW__INTO(aw__awaited, result, AW__FIBER_AWAIT, __VA_ARGS__)
#define aw_await_status(...)       AW__STATUS(aw__awaited, AW__FIBER_AWAIT, __VA_ARGS__)
#define aw_await_future(f)         aw_fiber_await((f), __FILE__, __LINE__)

#define aw_await_for(duration, ...) AW__AWAIT_TIMED(aw_sleep_for(duration), __VA_ARGS__)
#define aw_await_by(deadline, ...)  AW__AWAIT_TIMED(aw_sleep_until(deadline), __VA_ARGS__)
#define aw_await_into_for(duration, result, ...)                                                   \
    AW__AWAIT_INTO_TIMED(aw_sleep_for(duration), result, __VA_ARGS__)
#define aw_await_into_by(deadline, result, ...)                                                    \
    AW__AWAIT_INTO_TIMED(aw_sleep_until(deadline), result, __VA_ARGS__)

/* The type-erased form. 0: it finished, its output is in place; -ECANCELED: it was cancelled. */
AW_API int aw_fiber_await(aw_future *f, const char *file, int line);

/* Let other tasks run: 0, or -ECANCELED. */
#define aw_fiber_yield() aw__fiber_yield(__FILE__, __LINE__)
AW_API int aw__fiber_yield(const char *file, int line);

/* End the whole task; its join reports the negative errno. Returns -ECANCELED when the task is
 * cancelled for it, so that the fiber can clean up:
 *     return aw_fiber_fail(-EPROTO);
 * Not allowed in a shield. */
#define aw_fiber_fail(code) aw__fiber_fail((code), __FILE__, __LINE__)
AW_API int aw__fiber_fail(int code, const char *file, int line);

/* Whether the calling fiber is being cancelled, as opposed to a future that it awaited. False
 * outside a fiber. */
AW_API bool aw_cancelled(void);

/* The context of the current poll, valid until the next await; NULL outside a fiber. */
AW_API aw_cx *aw_fiber_cx(void);

/* AW_SHIELD { ... }: awaits in the block are not cancelled with the fiber. You may leave it in any
 * way except longjmp; `break` and `continue` leave it. */
#define AW_SHIELD AW__SHIELD(AW__CAT(aw__shield_, __LINE__), AW__CAT(aw__once_, __LINE__))

/* ---- A function and a pointer as a fiber --------------------------------------------------- */

/* aw-future: aw_fiber */
typedef struct aw_fiber {
    aw_future future;
    struct aw__fiber *aw_fiber; /* private */
    uint32_t stack_size;        /* 0: the default */
    int out;                    /* what `main` returned */
    int (*main)(void *arg);
    void (*drop)(void *arg); /* called instead of `main` if the fiber never runs; or NULL */
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
 * AW_FIBER(T, name, members) defines a fiber that is local to its file. To use it in several files,
 * declare it in a header:
 *     struct serve { AW_FIBER_FRAME(int); int fd; };
 *     AW_FIBER_DECL(serve);
 * and define it in one source file: AW_FIBER_DEF(serve) { ... }. AW_FIBER_STATIC is the same for a
 * fiber that is local to its file. AW_FIBER_DEF(serve, .discard = fn) sets the function that
 * releases an output that is not taken.
 *
 * AW_CALL(serve, .fd = fd, .stack_size = 65536) sets the size of the stack. The library needs about
 * 2 KiB of it. */
#define AW_FIBER_FRAME(T)                                                                          \
    aw_future future;                                                                              \
    struct aw__fiber *aw_fiber; /* private */                                                      \
    uint32_t stack_size;        /* 0: the default */                                               \
    AW__OUT_TYPE(T) out

/* aw-future: AW_FIBER */
#define AW_FIBER(...)        AW__FIBER(__VA_ARGS__)
#define AW_FIBER_STATIC(...) AW__FIBER_STATIC(__VA_ARGS__, )
#define AW_FIBER_DEF(...)    AW__FIBER_DEF(__VA_ARGS__, )
#define AW_FIBER_DECL(fn)    AW__FIBER_DECL(fn)

/* Defines what releases the arguments if the fiber is cancelled before it ran, or gets no stack. It
 * is called on the thread that would poll the fiber, and must not await. */
#define AW_FIBER_DROP(fn) AW__FIBER_DROP(fn)

/* The deepest stack use, in bytes, of any fiber of this definition while measuring was on. */
#define AW_FIBER_HIGH_WATER(fn) aw_fiber_high_water(&aw_type_##fn)

/* ---- Stacks -----------------------------------------------------------------------------------
 *
 * A stack is address space with a guard below it. The kernel provides its memory page by page, as
 * it is used. The default size is 256 KiB (aw_runtime_options.stack_size). Sizes are rounded up to
 * a power of two, at least 16 KiB.
 *
 * Idle stacks are kept for the next fibers of the thread. Their memory is released after a second
 * without work; above a few hundred idle stacks, at once. Stacks belong to the thread, not to the
 * runtime: the bookkeeping is allocated by the process's allocator. */

/* Release the idle stacks of this thread now. */
AW_API void aw_stacks_trim(void);

/* Measure stack use: from now on the stack of each new fiber is first filled with a pattern, which
 * makes all of its memory resident. Any thread. */
AW_API void aw_fiber_measure(bool on);
AW_API size_t aw_fiber_high_water(const aw_future_type *type);

/* What to do about stack overflows. An overflow always ends the program. A SIGSEGV handler can
 * first report which fiber it was, on every thread. The handler needs an alternate signal stack:
 * while it is installed, the library provides one to each thread that runs fibers and has none. */
typedef enum aw_overflow {
    /* Install the handler with the first fiber, unless SIGSEGV has a handler already. */
    AW_OVERFLOW_AUTO,
    /* Install it now, in front of any other handler, which is called for all other faults. */
    AW_OVERFLOW_REPORT,
    /* Never install it. */
    AW_OVERFLOW_LEAVE
} aw_overflow;
/* Call it before the first fiber. Returns 0 or a negative errno. */
AW_API int aw_stack_overflow(aw_overflow mode);

AW_C_END

#include <awake/detail/fiber.h>

#endif
