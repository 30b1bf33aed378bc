/* SPDX-License-Identifier: MIT
 *
 * awake/leaf.h: the smallest futures. They need no runtime and no memory. */
#ifndef AWAKE_LEAF_H
#define AWAKE_LEAF_H

#include <awake/future.h>

AW_C_BEGIN

/* Ready at once with a value. AW_READY_OF(T) is the type for any T; int, long and pointers have
 * names. A value can be made with AW_READY_VALUE(type, value). May be moved between polls. */
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
AW_API extern const aw_future_type aw_ready_any_type; /* for any other */

#define AW_READY_VALUE(type, ...) ((type){AW_FUTURE_INIT(&aw_ready_any_type), __VA_ARGS__})

static inline aw_ready aw_ready_now(int value) {
    aw_ready f = {AW_FUTURE_INIT(&aw_ready_type), value};
    return f;
}
static inline aw_ready_ptr aw_ready_pointer(void *value) {
    aw_ready_ptr f = {AW_FUTURE_INIT(&aw_ready_any_type), value};
    return f;
}

/* Never ready. Counts as a wait on the outside: a task that awaits it is not reported as stuck. */
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

/* A function and a pointer as a future. `poll` keeps the contract of aw_future_type.poll; it writes
 * its output to `*out`. `cancel` may be NULL when `poll` holds nothing while pending. */
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

/* Pending once, so that the others may run first: behind timers and I/O. */
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
