/* SPDX-License-Identifier: MIT
 *
 * awake/blocking.h: calls that block, on threads of their own, as futures.
 *
 *     static long slow(void *arg) { return compress_file(arg); }
 *     AW_AWAIT(self->job, aw_blocking(slow, "big.txt"));          the result is in job.out
 *
 * A runtime starts threads for them on demand, up to a limit, and lets them go when they have been idle
 * for a while (see aw_runtime_options). When no more can be started, the ones that are there do the work. */
#ifndef AWAKE_BLOCKING_H
#define AWAKE_BLOCKING_H

#include <awake/future.h>

AW_C_BEGIN

struct aw__job;

/* What fn(arg) returns on some other thread; -EAGAIN when there is no thread and none can be started, or too
 * many calls wait (max_blocking); -ENOMEM, -ENXIO outside a runtime. By one task at a time.
 *
 * Cancelled before it has started, it never does. Once it runs it is waited for, and its result stands:
 * so `arg` may point to memory of the caller's. */
/* aw-future: aw_blocking */
typedef struct aw_blocking_future {
    aw_future future;
    long out;
    long (*fn)(void *arg);
    void (*release)(void *arg); /* of aw_blocking_owned */
    void *arg;
    aw_runtime *rt;
    struct aw__job *job; /* of aw_blocking_owned; else `own` */
    struct aw__job_room {
        void *words[9];
    } own;
} aw_blocking_future;

AW_API extern const aw_future_type aw_blocking_type;

static inline aw_blocking_future aw_blocking(long (*fn)(void *arg), void *arg) {
    aw_blocking_future f = {
        AW_FUTURE_INIT(&aw_blocking_type), 0, fn, NULL, arg, NULL, NULL, {{NULL}}};
    return f;
}

/* The same for a call that owns its memory: release(arg) is called once it is over, or was given up before
 * it started. Cancelled while it runs it is left to itself at once; nobody waits, and its result is lost.
 * Takes one allocation. */
static inline aw_blocking_future aw_blocking_owned(long (*fn)(void *arg),
                                                   void (*release)(void *arg), void *arg) {
    aw_blocking_future f = {
        AW_FUTURE_INIT(&aw_blocking_type), 0, fn, release, arg, NULL, NULL, {{NULL}}};
    return f;
}

/* Call fn(arg) here, in a task, though it will block for a while: a worker first gives away what others can
 * do. On a thread without workers the other tasks wait. */
AW_API long aw_block_in_place(long (*fn)(void *arg), void *arg);

AW_C_END

#endif
