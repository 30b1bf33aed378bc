/* SPDX-License-Identifier: MIT
 *
 * awake/future.h: what a future is, and the contract between a future and its caller.
 *
 *     struct after { aw_future future; int out; int polls; };
 *     static aw_poll after_poll(aw_future *self, aw_cx *cx) {
 *         struct after *f = (struct after *)self;
 *         if (f->polls-- > 0) return aw_waker_wake_by_ref(aw_cx_waker(cx)), AW_PENDING;
 *         f->out = 42;
 *         return AW_READY;
 *     }
 *     const aw_future_type after_type = {AW_TYPE_OF(struct after, "after"), .poll = after_poll};
 *
 *     struct after f = {AW_FUTURE_INIT(&after_type), .polls = 3};
 *
 * A future is a struct. Its first member is an aw_future that names its type. Its output, if it has
 * one, is a member called `out`. It does nothing until it is polled.
 *
 *   poll     Makes progress without blocking. Returns AW_READY with the output in the struct, or
 *            AW_PENDING after it has arranged a wake for when there is more to do. It must wake the
 *            waker of the latest call, no other. Never returns AW_CANCELLED.
 *   cancel   Winds the future up. Call it again after each wake, until it returns AW_CANCELLED, or
 *            AW_READY if the future finished first: then the output is valid. You may start to
 *            cancel at any time before the end, even before the first poll. After the first cancel
 *            call only cancel. A future that was never polled must end with AW_CANCELLED. NULL:
 *            cancelled at once; only for futures that own no child, registration or memory.
 *   discard  Releases an output that is not taken. Called at most once, after AW_READY, by the
 *            code that drops a finished future without passing it on. May be NULL.
 *
 * A future has *ended* when it finished (AW_READY) or was cancelled (AW_CANCELLED). After its end
 * it holds nothing: no waker, no buffer, no entry in a queue.
 *
 * The code that awaits a future owns its storage. Constructors acquire nothing. You may move a
 * future until its first poll or cancel. From then until its end it must stay at its address,
 * unless its type has AW_UNPIN. A future takes over what its arguments own when it is first polled,
 * first cancelled, or spawned.
 *
 * Only one thread at a time may poll a future. */
#ifndef AWAKE_FUTURE_H
#define AWAKE_FUTURE_H

#include <awake/config.h>
#include <awake/waker.h>

AW_C_BEGIN

typedef enum aw_poll { AW_PENDING, AW_READY, AW_CANCELLED } aw_poll;

typedef struct aw_future aw_future;
typedef struct aw_future_type aw_future_type;
typedef struct aw_cx aw_cx;
typedef struct aw_runtime aw_runtime;

/* The head of every future. `state` is for the type. `life` is for aw_future_poll and
 * aw_future_cancel: the stage of the future's life, and bits of the address of its first poll. */
struct aw_future {
    const aw_future_type *type;
    uint32_t state;
    uint32_t life;
};

enum {
    AW_UNPIN = 1,    /* may be moved between polls */
    AW_OUT_ERRNO = 2 /* the output is a signed integer; negative values are errnos */
};

struct aw_future_type {
    size_t self_size; /* sizeof(aw_future_type): the struct may grow */
    const char *name; /* for backtraces */
    const char *file; /* source file, if `state` is a line in it; or NULL */
    /* Size of the whole future, and position of its output. Generic types have size 0: type-erased
     * code gets the size from its caller. */
    size_t size, out_offset, out_size;
    unsigned flags;
    aw_poll (*poll)(aw_future *self, aw_cx *cx);
    aw_poll (*cancel)(aw_future *self, aw_cx *cx);
    void (*discard)(aw_future *self);
    /* For backtraces: the i-th child that this future waits for, NULL after the last. */
    const aw_future *(*child)(const aw_future *self, size_t i);
    /* For backtraces: what this future waits for, in a few words. `child` and `describe` may be
     * NULL. Both only read: with workers, other threads call them while the task waits. */
    void (*describe)(const aw_future *self, char *buf, size_t size);
    /* Data of a kind of future, such as the definition of a fiber. */
    const void *extra;
};

#define AW_FUTURE_INIT(type_ptr)                                                                   \
    { (type_ptr), 0, 0 }

/* Initialises what every type object needs, for a struct type `T` with a member `out`. */
#ifndef __cplusplus
#define AW_TYPE_OF(T, title)                                                                       \
    .self_size = sizeof(aw_future_type), .name = title, .size = sizeof(T),                         \
    .out_offset = offsetof(T, out), .out_size = sizeof(((T *)0)->out)
#endif

/* ---- Context ----------------------------------------------------------------------------------
 * What a poll lends to a future: a waker and, if there is one, the runtime. Its members are
 * private. It is valid only during the poll. */

struct aw_cx {
    const aw_waker *waker;
    aw_runtime *runtime;
    struct aw__meter *meter;
};

/* A context for your own executor. Borrows the waker for the poll. */
static inline aw_cx aw_cx_from_waker(const aw_waker *waker);

/* The waker of this poll, borrowed. */
static inline const aw_waker *aw_cx_waker(const aw_cx *cx);

/* The runtime that polls, else the one that this thread has entered, else NULL. */
AW_API aw_runtime *aw_cx_runtime(const aw_cx *cx);

/* For a leaf that borrows the waker: arm when its wait begins, disarm when the wait ends. The
 * runtime uses the count to notice a task that nothing can wake any more. A leaf that clones the
 * waker needs neither. The _inside forms are for waits that only tasks of the same runtime end. */
static inline void aw_cx_arm(aw_cx *cx);
static inline void aw_cx_disarm(aw_cx *cx);
static inline void aw_cx_arm_inside(aw_cx *cx);
static inline void aw_cx_disarm_inside(aw_cx *cx);

/* Cooperation: a leaf spends one operation of the poll's budget (128) before it makes progress.
 * False: the budget is used up, the waker has been woken; return AW_PENDING. Not for `cancel`. */
static inline bool aw_cx_spend(aw_cx *cx);

/* Whether aw_cx_spend would return false: for code that must know before it takes something. */
static inline bool aw_cx_exhausted(const aw_cx *cx);

/* Wake this poll's waker, but let other tasks, timers and I/O run first: see aw_yield in
 * awake/leaf.h. Then return AW_PENDING. */
static inline void aw_cx_yield(aw_cx *cx);

/* A random number for fair choices, seeded by the runtime (aw_runtime_options.seed).
 *
 * On the current-thread flavour all tasks draw from one sequence. With workers, each worker has its
 * own. A block_on future that is polled outside the task loop has its own too: the n-th such call
 * on a runtime gets the n-th sequence. So if one thread or one worker polls the tasks, the same
 * seed gives the same numbers to the same polls in the same order. With several workers, choices
 * are fair but not repeatable: chance decides which worker polls a task. Without a runtime
 * (aw_wait, your own executor) each thread has a sequence that no seed changes. */
AW_API uint64_t aw_cx_random(aw_cx *cx);

/* ---- Calling a future -------------------------------------------------------------------------
 * All calls go through these. They maintain `life`, and report misuse with file and line. */

#define aw_future_poll(f, cx)   aw__poll_at((f), (cx), __FILE__, __LINE__)
#define aw_future_cancel(f, cx) aw__cancel_at((f), (cx), __FILE__, __LINE__)

/* The same as functions, for other languages. */
AW_API aw_poll aw_poll_future(aw_future *f, aw_cx *cx);
AW_API aw_poll aw_cancel_future(aw_future *f, aw_cx *cx);

/* Release the output of a finished future that you do not take. */
static inline void aw_future_discard(aw_future *f);

/* The stage of a future's life. Started: polled at least once. Ended: finished or cancelled. */
static inline bool aw_future_started(const aw_future *f);
static inline bool aw_future_cancelling(const aw_future *f);
static inline bool aw_future_ended(const aw_future *f);
static inline bool aw_future_finished(const aw_future *f);

/* The output of a finished future, for type-erased code. */
static inline void *aw_future_out(aw_future *f);

/* The negative output of a type with AW_OUT_ERRNO, else 0. */
AW_API int aw_future_error(const aw_future *f);

/* Write the await chain of a future as text, one indented line per future: name, file:line, what it
 * waits for. Returns what snprintf would. Call it only on the thread that may poll the future. */
AW_API int aw_future_describe(const aw_future *f, char *buf, size_t size);

AW_C_END

#include <awake/detail/future.h>

#endif
