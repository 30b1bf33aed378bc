/* SPDX-License-Identifier: MIT
 *
 * awake/runtime.h: the runtime: it owns tasks and timers, and runs them on the thread that calls
 * block_on or on its own threads.
 *
 *     int main(void) { return aw_run(AW_CALL(hello, .n = 3)); }
 *
 * You can have several runtimes. They share nothing.
 *
 * Fork: in the child, runtimes made before the fork do not run.
 *
 *   - Spawns, block_on, and joins of tasks that have not ended return -EOWNERDEAD. Wakes and aborts
 *     do nothing. aw_runtime_current does not return such a runtime.
 *   - aw_runtime_free and aw_runtime_abandon free its memory without running anything. What tasks
 *     and outputs own is lost, including the stacks of fibers. So is what another thread was using
 *     at the moment of the fork.
 *   - You may drop handles and wakers, before or after that. Do not use what tasks wait for (a
 *     notify, a oneshot): a thread that no longer exists may hold its lock.
 *   - New runtimes work. After a fork inside a task, the child may only call exec or _exit. */
#ifndef AWAKE_RUNTIME_H
#define AWAKE_RUNTIME_H

#include <awake/alloc.h>
#include <awake/async.h>
#include <awake/detail/forms.h>
#include <awake/future.h>
#include <awake/hooks.h>
#include <awake/log.h>
#include <awake/seam.h>

AW_C_BEGIN

/* Which threads run the tasks. */
typedef enum aw_flavour {
    AW_FLAVOUR_DEFAULT, /* AW_CURRENT_THREAD, unless the environment says otherwise */
    AW_CURRENT_THREAD,  /* the thread in block_on */
    AW_MULTI_THREAD,    /* workers: the runtime's own threads, with work stealing */
    AW_THREAD_PER_CORE  /* workers without stealing, each bound to a processor */
} aw_flavour;

/* AW_THREAD_PER_CORE: a task stays on the worker that spawns it. A task spawned by another thread
 * goes to the workers in turn, or to the one that aw_spawn_at names. So data that only the tasks of
 * one worker use needs no lock. But if a worker is stuck or overloaded, its tasks wait: only its
 * timers still fire. Workers are bound to the processors available to the thread that makes the
 * runtime. If that fails, the log says so and they run unbound. Threads that tasks start inherit
 * the processor of their worker; threads for blocking calls are not bound.
 *
 * Environment variables apply where the options are zero: AWAKE_FLAVOUR (current, multi, per-core;
 * not with a `seam`), AWAKE_WORKERS, AWAKE_BLOCKING_THREADS, AWAKE_DRIVER. They are ignored in a
 * program that runs with raised privileges (secure_getenv). */

/* The threads of a runtime (workers, monitor, blocking calls) block all signals that are sent to
 * the process: the program's own threads handle SIGTERM, SIGCHLD and the like. Fault signals
 * (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS) are not blocked: your handler runs on
 * the thread that has the fault. A handler with SA_ONSTACK needs a stack on each thread: call
 * sigaltstack in the hook `thread_start`. */

/* Limits (max_tasks, max_stacks, max_blocking) fail at once with -EAGAIN. The join of a refused
 * task reports it. A fiber without a stack, and aw_blocking, return it as their output; if a
 * fiber's output cannot hold an error, its task fails with it. The permit is returned when the
 * task, fiber or call has ended, even if a handle or output still exists. A blocking call that is
 * cancelled while it runs keeps its permit until it returns. */

/* Initialise it with AW_RUNTIME_OPTIONS. Zero means the default: the comments name it last. */
typedef struct aw_runtime_options {
    size_t self_size; /* sizeof(aw_runtime_options): the struct may grow */
    const char *name; /* for messages; not copied */
    const aw_allocator *allocator;
    const aw_seam *seam; /* copied */
    aw_log_fn *log;
    void *log_data;
    uint64_t seed;             /* of random choices (aw_cx_random); the seam's entropy */
    uint32_t budget;           /* operations per poll; 128 */
    bool paused;               /* start with the clock paused: see aw_clock_pause */
    uint64_t cancel_report;    /* report a cancel that takes longer than this; 1 s */
    uint64_t cleanup_deadline; /* and once more after this time; 5 s */
    uint32_t stack_size;       /* of fibers that set none; 256 KiB */
    aw_flavour flavour;        /* AW_FLAVOUR_DEFAULT */
    uint32_t workers;          /* number of workers; one per available processor */
    uint32_t blocking_threads; /* maximum for blocking calls; 512 */
    uint64_t blocking_idle;    /* how long an idle one of them is kept; 10 s */
    bool ignore_environment;   /* ignore the environment variables */
    bool keep_tasks;           /* block_on keeps the other tasks for the next block_on */
    const char *thread_name;   /* "awake": threads are awake-0, awake-monitor, awake-call-0 */
    const aw_hooks *hooks;     /* copied */
    uint32_t max_tasks;        /* that have not ended; no limit, as for the next two */
    uint32_t max_stacks;       /* of fibers that have started and not ended */
    /* Blocking calls that wait, in addition to one running call for each of blocking_threads. */
    uint32_t max_blocking;
    /* How to wait for descriptors: "uring", "epoll" or "poll"; see aw_io_counters. */
    const char *driver;
} aw_runtime_options;

#define AW_RUNTIME_OPTIONS                                                                         \
    {                                                                                              \
        sizeof(aw_runtime_options), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0,                \
            AW_FLAVOUR_DEFAULT, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, NULL                           \
    }

/* Make a runtime. `options` may be NULL. Returns 0; -ENOMEM; -EINVAL for invalid options; -ENOTSUP
 * for workers with a seam; or the error of a thread that could not be started. Only a runtime with
 * workers runs anything before block_on. */
AW_API int aw_runtime_new(aw_runtime **rt, const aw_runtime_options *options);

/* The same in your memory, for programs that never allocate. The memory must stay until the last
 * handle and waker of the runtime is gone, every sleep set on it has ended, and every thread that
 * entered it has left. -ENOSPC: it is too small. */
#define AW_RUNTIME_SIZE 12288
typedef struct aw_runtime_storage {
    char bytes[AW_RUNTIME_SIZE] __attribute__((aligned(16)));
} aw_runtime_storage;
AW_API int aw_runtime_new_in(aw_runtime **rt, void *memory, size_t size,
                             const aw_runtime_options *options);

/* End a runtime: refuse new tasks, cancel all tasks, wait until they have ended, and release
 * everything. Remaining handles and wakers stay valid; their tasks have ended. Sleeps, operations
 * on descriptors and queued blocking calls of plain threads that have entered the runtime end with
 * -ESHUTDOWN. Not allowed while another thread is in block_on.
 *
 * aw_runtime_free, aw_runtime_shutdown and aw_runtime_abandon may block. So they abort, with a
 * message that names the task, while this thread polls a future for any runtime: in a task, in the
 * main future of block_on, in a fiber, in aw_wait. Call them from a plain thread, entered or not,
 * or through aw_blocking. A blocking call, and a call in aw_block_in_place, may end any runtime
 * except its own, on which it may only call aw_runtime_abandon. */
AW_API void aw_runtime_free(aw_runtime *rt);

/* The same, but wait for the tasks at most `limit` nanoseconds of the runtime's clock (0: only
 * request their cancellation; AW_FOREVER: wait for all). Returns how many have not ended; if there
 * was a time limit, the log names them. On the current-thread flavour the tasks run only during
 * this call, and fibers only on their thread. You may call it again, from one thread at a time.
 * block_on is refused from the first call on. When no task is left, sleeps of plain threads end
 * with -ESHUTDOWN; their operations on descriptors end with aw_runtime_free. Afterwards call
 * aw_runtime_free, which waits for the remaining tasks, or aw_runtime_abandon, which does not. */
AW_API size_t aw_runtime_shutdown(aw_runtime *rt, uint64_t limit);

/* End a runtime without waiting: like aw_runtime_free, but in the background. The workers end the
 * tasks, then everything is released; allocator, log and storage must stay until then.
 *
 * On the current-thread flavour no thread runs the tasks any more. Those that have not ended stay
 * in memory until the program exits, and the log names them. Their handles and wakers stay valid,
 * but waking or aborting has no effect, and a join stays pending (it can be cancelled). */
AW_API void aw_runtime_abandon(aw_runtime *rt);

/* Run the future to its end, and the other tasks meanwhile. Then the remaining tasks are cancelled
 * and waited for, because no thread would run them; with the option `keep_tasks` they are kept for
 * the next block_on. The future stays in the caller's stack frame until the call returns.
 *
 * Call it from any plain thread. If another thread is running the runtime, this thread polls only
 * its own future, and the other thread serves its timers. The last thread to leave ends the tasks.
 * A runtime with workers runs its tasks until aw_runtime_free.
 *
 *     T   aw_block_on(rt, future)             T is a signed integer: the output or an error
 *     int aw_block_on_into(rt, &out, future)  any output: 0, or an error and `out` untouched
 *     int aw_block_on_status(rt, future)      discards the output
 *
 * Errors: -EDEADLK: nothing can run any more (see aw_runtime_hold); the await chain of every task
 * is reported and the future has been cancelled. The code of AW_FAIL. -EPERM inside a task (but see
 * aw_block_in_place). -ESHUTDOWN. -EOWNERDEAD in the child of a fork. -ENOMEM. */
#define aw_block_on(rt, ...)              AW__VALUE(aw__main_, AW__BLOCK_ON(rt), __VA_ARGS__)
#define aw_block_on_into(rt, result, ...) AW__INTO(aw__main_, result, AW__BLOCK_ON(rt), __VA_ARGS__)
#define aw_block_on_status(rt, ...)       AW__STATUS(aw__main_, AW__BLOCK_ON(rt), __VA_ARGS__)
/* The type-erased form. 0: the future finished, its output is in place. */
AW_API int aw_block_on_future(aw_runtime *rt, aw_future *f);

/* Make a runtime, run one future on it, and end it. When the future ends, the other tasks are
 * cancelled and waited for: background tasks do not keep a program alive. */
#define aw_run(...)              AW__VALUE(aw__main_, AW__RUN, __VA_ARGS__)
#define aw_run_into(result, ...) AW__INTO(aw__main_, result, AW__RUN, __VA_ARGS__)
#define aw_run_status(...)       AW__STATUS(aw__main_, AW__RUN, __VA_ARGS__)
AW_API int aw_run_future(aw_future *f);

/* The runtime that this thread runs or is in block_on of, else the one it has entered, else
 * NULL. */
AW_API aw_runtime *aw_runtime_current(void);

/* Let the futures that this thread polls use a runtime (its timers), and aw_spawn spawn on it.
 * Returns the runtime entered before: pass it to aw_leave on the same thread. Another thread must
 * run the runtime meanwhile. If the runtime ends, its memory stays until this thread leaves: sleeps
 * end with -ESHUTDOWN, spawns and block_on are refused. Its allocator, seam and log must stay as
 * long. */
AW_API aw_runtime *aw_enter(aw_runtime *rt);
AW_API void aw_leave(aw_runtime *previous);

/* Tell the runtime that an outside thread will act on it. While it is held, it reports no deadlock
 * and a paused clock does not jump. Any thread. Call unhold once for each hold. */
AW_API void aw_runtime_hold(aw_runtime *rt);
AW_API void aw_runtime_unhold(aw_runtime *rt);

/* What a worker has done so far. The struct may grow at its end. */
typedef struct aw_worker_counters {
    uint64_t polls;     /* of tasks */
    uint64_t steals;    /* how often it took tasks from another worker */
    uint64_t parks;     /* how often it went to sleep */
    uint64_t overflows; /* how often its queue overflowed into the shared one */
    uint64_t takeovers; /* how often it was stuck in a poll, and its work was taken over */
    uint64_t wakes;     /* how often another thread woke it from sleep */
    uint64_t depth;     /* current value: ready tasks in its queue */
    uint64_t busy;      /* nanoseconds that it was not asleep */
} aw_worker_counters;
/* The number of workers; 0 for AW_CURRENT_THREAD. */
AW_API uint32_t aw_runtime_workers(const aw_runtime *rt);
/* The counters of worker i: 0, or -EINVAL if there is none. Any thread. Each value is correct, but
 * they are not read at one instant.
 *     int aw_runtime_counters(const aw_runtime *rt, uint32_t i, aw_worker_counters *counters) */
#define aw_runtime_counters(rt, i, counters)                                                       \
    aw_runtime_counters_sized((rt), (i), (counters), sizeof *(counters))
/* With the size of the struct that the program was compiled with. */
AW_API int aw_runtime_counters_sized(const aw_runtime *rt, uint32_t i, aw_worker_counters *counters,
                                     size_t size);

/* I/O statistics of the runtime and its workers. The struct may grow at its end. */
typedef struct aw_io_counters {
    const char *driver; /* "uring", "epoll" or "poll"; final from the first wait on */
    /* Why it is not "uring", if that was requested or is the default: -ENOSYS (the kernel has none,
     * or the library was built without liburing) or -EPERM; else 0. All threads of a runtime use
     * one kind of driver: if io_uring is forbidden after some have a ring, a thread that needs
     * another one gets -EACCES. */
    int fallback;
    uint64_t operations; /* submitted to the kernel with their buffers: "uring" */
    uint64_t waits;      /* single readiness waits: "poll", and "uring" for each accept */
    uint64_t events;     /* reaped */
    uint64_t calls;      /* system calls to submit, reap and sleep */
} aw_io_counters;
/* Any thread. The values are not read at one instant.
 *     void aw_runtime_io(const aw_runtime *rt, aw_io_counters *counters) */
#define aw_runtime_io(rt, counters) aw_runtime_io_sized((rt), (counters), sizeof *(counters))
AW_API void aw_runtime_io_sized(const aw_runtime *rt, aw_io_counters *counters, size_t size);

/* The number of tasks that have not ended. Call it from the thread that runs the runtime, or while
 * no thread does. */
AW_API size_t aw_runtime_task_count(const aw_runtime *rt);

/* Write every task with its await chain as text. Returns what snprintf would. Threads as above;
 * with workers, any thread, and tasks that are running or about to run are only named. */
AW_API int aw_runtime_describe(const aw_runtime *rt, char *buf, size_t size);

AW_C_END

#endif
