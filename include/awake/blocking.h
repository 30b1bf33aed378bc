/* SPDX-License-Identifier: MIT
 *
 * awake/blocking.h: blocking calls as futures, on separate threads.
 *
 *     static long slow(void *arg) { return compress_file(arg); }
 *     AW_AWAIT(self->job, aw_blocking(slow, "big.txt"));          the result is in job.out
 *
 * A runtime starts threads for these calls on demand, up to a limit, and stops a thread that has
 * been idle for a while (see aw_runtime_options). If no more can be started, the existing threads
 * do the work. */
#ifndef AWAKE_BLOCKING_H
#define AWAKE_BLOCKING_H

#include <awake/future.h>

AW_C_BEGIN

struct aw__job;

/* Call fn(arg) on another thread; `out` is what it returns. Or -EAGAIN: there is no thread and none
 * can be started, or too many calls wait (max_blocking); -ENOMEM; -ENXIO outside a runtime;
 * -ESHUTDOWN after the runtime has ended. Used by one task at a time.
 *
 * If it is cancelled before fn starts, fn is never called. Once fn runs, the cancel waits for it
 * and the result counts. So `arg` may point to the caller's memory.
 *
 * fn runs as if it had called aw_enter for the runtime of its task: aw_spawn spawns there, aw_wait
 * waits for its tasks, timers and descriptors, and aw_block_on polls a future next to the runtime's
 * own threads. A paused clock does not move while fn runs, except in aw_wait and aw_block_on. fn
 * must not end that runtime. Do not end the runtime while fn is in aw_block_on of it. While fn is
 * in aw_wait you may: the wait then ends. */
/* aw-future: aw_blocking */
typedef struct aw_blocking_future {
    aw_future future;
    long out;
    long (*fn)(void *arg);
    void (*release)(void *arg); /* only aw_blocking_owned */
    void *arg;
    /* Private. */
    aw_runtime *rt;
    struct aw__job *job; /* only aw_blocking_owned; otherwise `inline_storage` */
    struct aw__job_storage {
        void *words[9];
    } inline_storage;
} aw_blocking_future;

AW_API extern const aw_future_type aw_blocking_type;

static inline aw_blocking_future aw_blocking(long (*fn)(void *arg), void *arg) {
    aw_blocking_future f = {
        AW_FUTURE_INIT(&aw_blocking_type), 0, fn, NULL, arg, NULL, NULL, {{NULL}}};
    return f;
}

/* The same for a call that owns its memory: release(arg) is called when fn has returned, or when
 * the call is cancelled before fn started. If it is cancelled while fn runs, the cancel does not
 * wait: fn runs to its end detached and its result is lost. Takes one allocation.
 *
 * So the runtime may end before fn returns. Its memory then stays until fn has returned. What fn
 * waits for ends with -ESHUTDOWN (joins: -ECANCELED), and so does what fn starts later. On a
 * runtime in the caller's memory (aw_runtime_new_in) fn enters no runtime, because that memory may
 * be gone. */
static inline aw_blocking_future aw_blocking_owned(long (*fn)(void *arg),
                                                   void (*release)(void *arg), void *arg) {
    aw_blocking_future f = {
        AW_FUTURE_INIT(&aw_blocking_type), 0, fn, release, arg, NULL, NULL, {{NULL}}};
    return f;
}

/* Call fn(arg) on this thread, from a task, although it will block. A worker first hands its other
 * work to the other workers. Without workers the other tasks wait.
 *
 * In fn this is a plain thread that has entered the runtime. aw_wait and aw_block_on may wait for
 * timers, descriptors and tasks, aw_spawn spawns, and aw_run runs another runtime. The task is
 * still the current one, with its locals. A fiber cannot await in fn (that is reported): it uses
 * aw_wait. A paused clock does not move while fn runs, except in aw_wait and aw_block_on.
 *
 * On the current-thread flavour this thread runs the runtime, so such a wait would never end:
 * aw_wait, and aw_block_on of that runtime, return -EPERM with a message. You may run another
 * runtime.
 *
 * Fibers that have started on this worker wait until fn returns, and so do all tasks of this worker
 * with AW_THREAD_PER_CORE. If that is a problem, use aw_blocking.
 *
 * No extra worker is started. While every worker is in such a call, no task runs: calls that wait
 * for tasks, or for each other, wait forever. After a second in which tasks were ready, a message
 * says so. aw_blocking has no such limit, because it has its own threads. */
AW_API long aw_block_in_place(long (*fn)(void *arg), void *arg);

AW_C_END

#endif
