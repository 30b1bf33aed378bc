/* SPDX-License-Identifier: MIT
 *
 * awake/async.h: async functions: stackless, written as ordinary C with awaits.
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
 * The frame is `struct hello`. Its members are the arguments, whatever must live across an await,
 * and the awaited children. In the body `self` is the frame and `cx` the context of this poll.
 *
 *     AW_BEGIN;                    first statement
 *     AW_AWAIT(child, future);     start `future` in the member `child` and wait for it; its output
 *                                  is then in child.out. One await per line. Allowed in any loop or
 *                                  branch, but not inside your own switch.
 *     AW_AWAIT_FUTURE(child);      wait for a future that is in the member already
 *     AW_YIELD;                    let other tasks run
 *     AW_RETURN(value);            end with an output; AW_RETURN_VOID; if the type is void
 *     AW_FAIL(code);               end the whole task; its join reports the negative errno
 *     AW_FINALLY;                  optional: what follows, up to AW_END, runs exactly once: after a
 *                                  return, after a cancel, and when cancelled before the start. Its
 *                                  awaits are polled, never cancelled. It must not AW_RETURN. If
 *                                  AW_STARTED is false the body never ran: then it must not await,
 *                                  and all members except the arguments are zero.
 *     AW_END;                      last statement
 *
 * A C local does not survive an await. A local that is initialised and in scope at an await is a
 * compile error: give it its own block. So are most uses of a local across an await. gcc's message
 * begins with "no local and no switch around an await"; the notes below it show the location. Keep
 * large buffers out of the frame: AW_CALL zeroes all of it.
 *
 * Cancelling a function cancels the child that it waits for. If that child is cancelled, control
 * goes to AW_FINALLY and the function ends cancelled. If the child finished first, the body
 * continues with its output, and the next await cancels its child; without another await the
 * function finishes. AW_CANCELLING is true in the body meanwhile.
 *
 * To use a function in several files, declare it in a header and define it in one source file:
 *
 *     struct hello { AW_FRAME(int); int n; aw_sleep nap; };      (awake.h included)
 *     AW_ASYNC_DECL(hello);
 *     #define hello(...) AW_CALL(hello, __VA_ARGS__)              optional: hello(.n = 3)
 *     ...
 *     AW_ASYNC_DEF(hello) { AW_BEGIN; ... AW_END; }
 *
 * AW_ASYNC_DEF(name, .discard = fn) sets the function that releases an output that is not taken.
 * AW_ASYNC_STATIC is the same for a function that is local to its file.
 *
 * Children that are never alive together can share storage: AW_SHARE(aw_sleep a; struct f b;);
 * Put only futures there: an await checks that no future in its storage still runs.
 *
 * Polls nest on the C stack: recursion through boxes reaches some 30,000 levels in 8 MiB.
 *
 * Define AW_NO_LOCAL_CHECK before the include to turn off the compile errors about locals. */
#ifndef AWAKE_ASYNC_H
#define AWAKE_ASYNC_H

#include <awake/future.h>

/* The output of a void function. */
typedef struct aw_unit {
    char nothing;
} aw_unit;

#define AW_FRAME(T)                                                                                \
    aw_future future;                                                                              \
    uint32_t aw_child; /* offset of the awaited member, for backtraces */                          \
    AW__OUT_TYPE(T) out

#define AW_SHARE(...)                                                                              \
    union {                                                                                        \
        __VA_ARGS__                                                                                \
    }

/* C++ code may include headers that declare async functions. Define the functions in C: the bodies
 * need C's rules for jumps and designated initialisers. */
#define AW_ASYNC(...)        AW__ASYNC(__VA_ARGS__)
#define AW_ASYNC_STATIC(...) AW__ASYNC_STATIC(__VA_ARGS__, )
#define AW_ASYNC_DEF(...)    AW__ASYNC_DEF(__VA_ARGS__, )
#define AW_ASYNC_DECL(fn)    AW__ASYNC_DECL(fn)
#define AW_CALL(...)         AW__CALL(__VA_ARGS__, )

#ifndef __cplusplus
#define AW_BEGIN               AW__BEGIN
#define AW_AWAIT(child, ...)   AW__AWAIT(child, AW__STORE(child, __VA_ARGS__))
#define AW_AWAIT_FUTURE(child) AW__AWAIT(child, (void)0)
#define AW_YIELD               AW__WAIT_HERE(aw_cx_yield(cx), (void)0)
#define AW_RETURN(...)         AW__RETURN(__VA_ARGS__)
#define AW_RETURN_VOID         AW__RETURN_VOID
#define AW_FAIL(code)          AW__FAIL(code)
#define AW_FINALLY             AW__FINALLY
#define AW_END                 AW__END
#define AW_STARTED             (!(self->future.state & AW__NO_AWAIT))
#define AW_CANCELLING          (aw_future_cancelling(&self->future))
#endif

#include <awake/detail/async.h>

#endif
