/* SPDX-License-Identifier: MIT
 *
 * awake/leaf.h: ready, never, poll_fn, yield: small futures that need no runtime and no memory.
 *
 *     AW_AWAIT(self->y, aw_yield_now());                let other tasks run
 *     AW_AWAIT(self->f, aw_poll_fn_of(check, &state));  a function as a future */
#ifndef AWAKE_LEAF_H
#define AWAKE_LEAF_H

#include <awake/future.h>

AW_C_BEGIN

/* Ready at once with a value. AW_READY_OF(T) is the type for any T; int, long and pointers have
 * named types. Make a value with AW_READY_VALUE(type, value). May be moved between polls. */
/* aw-future: aw_ready */
#define AW_READY_OF(T)                                                                             \
    struct {                                                                                       \
        aw_future future;                                                                          \
        T out;                                                                                     \
    }
typedef AW_READY_OF(int) aw_ready;
typedef AW_READY_OF(long) aw_ready_long;
typedef AW_READY_OF(void *) aw_ready_ptr;

AW_API extern const aw_future_type aw_ready_type;     /* for int */
AW_API extern const aw_future_type aw_ready_any_type; /* for all others */

#define AW_READY_VALUE(type, ...) ((type){AW_FUTURE_INIT(&aw_ready_any_type), __VA_ARGS__})

static inline aw_ready aw_ready_now(int value) {
    aw_ready f = {AW_FUTURE_INIT(&aw_ready_type), value};
    return f;
}
static inline aw_ready_ptr aw_ready_pointer(void *value) {
    aw_ready_ptr f = {AW_FUTURE_INIT(&aw_ready_any_type), value};
    return f;
}

/* Never ready. Counts as waiting for an outside event: its task is not reported as stuck. */
/* aw-future: aw_never */
typedef struct aw_never {
    aw_future future;
    int out;
} aw_never;

AW_API extern const aw_future_type aw_never_type;

static inline aw_never aw_never_ready(void) {
    aw_never f = {AW_FUTURE_INIT(&aw_never_type), 0};
    return f;
}

/* A function and a pointer as a future. `poll` follows the contract of aw_future_type.poll and
 * writes its output to `*out`. `cancel` may be NULL if `poll` holds nothing while it is pending. */
typedef aw_poll aw_poll_fn_call(void *arg, aw_cx *cx, int *out);
/* aw-future: aw_poll_fn */
typedef struct aw_poll_fn {
    aw_future future;
    int out;
    aw_poll_fn_call *poll;
    aw_poll_fn_call *cancel;
    void *arg;
} aw_poll_fn;

AW_API extern const aw_future_type aw_poll_fn_type;

static inline aw_poll_fn aw_poll_fn_with(aw_poll_fn_call *poll, aw_poll_fn_call *cancel,
                                         void *arg) {
    aw_poll_fn f = {AW_FUTURE_INIT(&aw_poll_fn_type), 0, poll, cancel, arg};
    return f;
}
static inline aw_poll_fn aw_poll_fn_of(aw_poll_fn_call *poll, void *arg) {
    return aw_poll_fn_with(poll, NULL, arg);
}

/* Pending once. These run first: the tasks that are ready now, and the tasks that timers or I/O
 * make ready before this task's turn comes again.
 *
 * With workers, only tasks, timers and descriptors of the current worker (fibers included) run
 * first. An idle worker may steal the task and run it at once.
 *
 * Each yield costs one clock read if a timer is set, and one system call if a descriptor is
 * registered ("uring": if completions are available). Tasks that yield together share this cost. */
/* aw-future: aw_yield */
typedef struct aw_yield {
    aw_future future;
    int out;
} aw_yield;

AW_API extern const aw_future_type aw_yield_type;

static inline aw_yield aw_yield_now(void) {
    aw_yield f = {AW_FUTURE_INIT(&aw_yield_type), 0};
    return f;
}

AW_C_END

#endif
