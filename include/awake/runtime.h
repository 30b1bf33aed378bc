/* SPDX-License-Identifier: MIT
 *
 * awake/runtime.h: the runtime that owns tasks and timers and runs them, on the thread that calls
 * block_on or on threads of its own.
 *
 *     int main(void) { return aw_run(AW_CALL(hello, .n = 3)); }
 *
 * Several runtimes may exist and share nothing.
 *
 * In the child of a fork the runtimes that were made before are not run, whoever ran them: spawn, block_on and
 * joins of tasks that have not ended give -EOWNERDEAD, wakes and aborts do nothing, and aw_runtime_current does
 * not name them. aw_runtime_free (and aw_runtime_abandon) gives their memory back without running anything: what
 * tasks and outputs own is lost, stacks of fibers included, and so is what a thread was using just then. Handles and
 * wakers can be dropped, before or after that. What tasks wait for (a notify, a oneshot) must not be used: a
 * thread that is gone may have it locked. New runtimes work. After a fork inside a task, the child may only call
 * exec or _exit. */
#ifndef AWAKE_RUNTIME_H
#define AWAKE_RUNTIME_H

#include <awake/alloc.h>
#include <awake/async.h>
#include <awake/future.h>
#include <awake/hooks.h>
#include <awake/log.h>
#include <awake/seam.h>

AW_C_BEGIN

/* Who runs the tasks. */
typedef enum aw_flavour {
    AW_FLAVOUR_DEFAULT, /* AW_CURRENT_THREAD, unless the environment says otherwise */
    AW_CURRENT_THREAD,  /* the thread that is in block_on */
    AW_MULTI_THREAD,    /* workers: threads of the runtime's own, which take work from each other */
    AW_THREAD_PER_CORE  /* workers that do not, each bound to a processor: see below */
} aw_flavour;

/* AW_THREAD_PER_CORE: a task stays with the worker on which it is spawned; one that is spawned elsewhere goes
 * to the next in turn, or to the one that aw_spawn_at names. So what only the tasks of one worker use
 * needs no lock; but the tasks of a worker that is stuck, or has too many, wait: nobody helps (its timers are
 * fired all the same). Workers are bound to the processors that the thread may use which makes the runtime;
 * where that is not possible the log says so, and they run unbound. Threads that tasks start begin on the
 * processor of their worker; those of blocking calls are free.
 *
 * The environment is asked where the options say nothing: AWAKE_FLAVOUR (current, multi, per-core; not for a
 * runtime with a `seam`), AWAKE_WORKERS, AWAKE_BLOCKING_THREADS, AWAKE_DRIVER. It is not asked in a program that runs with
 * more rights than who started it. */

/* Limits answer -EAGAIN, at once and without waiting: the join of a task that is one too many; a fiber that
 * finds no stack left (where its output cannot hold an error it fails its task with that); aw_blocking. A place
 * is free again when the task, fiber or call has ended, whoever still has the handle or the output; that of a
 * blocking call that was given up when it is over. */

/* Zero means the default, everywhere. Begin with AW_RUNTIME_OPTIONS. */
typedef struct aw_runtime_options {
    size_t self_size; /* sizeof(aw_runtime_options): it may grow */
    const char *name; /* for messages; not copied */
    const aw_allocator *allocator;
    const aw_seam *seam; /* copied */
    aw_log_fn *log;
    void *log_data;
    uint64_t seed;             /* of the runtime's own choices; 0: from the seam's entropy */
    uint32_t budget;           /* operations a poll; 128 */
    bool paused;               /* start with the clock paused: see aw_clock_pause */
    uint64_t cancel_report;    /* a cancel that takes longer is reported; 1 s */
    uint64_t cleanup_deadline; /* and again after this long; 5 s */
    uint32_t stack_size;       /* of fibers that do not ask for one; 256 KiB */
    aw_flavour flavour;        /* AW_FLAVOUR_DEFAULT */
    uint32_t workers;          /* how many; as many as there are processors for the process */
    uint32_t blocking_threads; /* at most, for blocking calls; 512 */
    uint64_t blocking_idle;    /* how long one of them stays without work; 10 s */
    bool ignore_environment;   /* do not ask it */
    bool keep_tasks;           /* block_on leaves the other tasks for the next one: see there */
    const char *thread_name;   /* "awake": its threads are awake-0, awake-monitor, awake-call-0 */
    const aw_hooks *hooks;     /* copied */
    uint32_t max_tasks;        /* that have not ended; see above. No limit, as for the other two */
    uint32_t max_stacks;       /* of fibers that have begun and not ended */
    uint32_t max_blocking; /* blocking calls that wait, beside one for each of blocking_threads */
    const char
        *driver; /* how it waits for descriptors: "uring", "epoll" or "poll"; see aw_io_counters */
} aw_runtime_options;

#define AW_RUNTIME_OPTIONS                                                                         \
    {                                                                                              \
        sizeof(aw_runtime_options), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0,                \
            AW_FLAVOUR_DEFAULT, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, NULL                           \
    }

/* Make a runtime; `options` may be NULL. 0, -ENOMEM, or -EINVAL for options that make no sense.
 * Nothing runs before block_on, unless it has workers. */
AW_API int aw_runtime_new(aw_runtime **rt, const aw_runtime_options *options);

/* The same in memory that the caller gives, which must stay until every handle and waker of the
 * runtime is gone too: for programs that never allocate. -ENOSPC when it is too small. */
#define AW_RUNTIME_SIZE 12288
typedef struct aw_runtime_storage {
    char bytes[AW_RUNTIME_SIZE] __attribute__((aligned(16)));
} aw_runtime_storage;
AW_API int aw_runtime_new_in(aw_runtime **rt, void *memory, size_t size,
                             const aw_runtime_options *options);

/* End it: no task can be spawned any more; all tasks are cancelled and waited for, and everything is
 * released. Handles and wakers that are left stay valid; the tasks behind them have ended. Not from
 * inside a task, and not while another thread is in block_on. */
AW_API void aw_runtime_free(aw_runtime *rt);

/* The same, but wait for the tasks at most `limit` nanoseconds of the runtime's clock (0: only ask them to
 * end; AW_FOREVER: all of them). Returns how many have not ended, and names them in the log if there was a
 * limit to wait for. On the current-thread flavour they run only during this call; fibers only on their thread.
 * It may be called again, by one thread at a time; block_on is refused from the first call on. Then
 * aw_runtime_free waits for the rest, or aw_runtime_abandon does not. */
AW_API size_t aw_runtime_shutdown(aw_runtime *rt, uint64_t limit);

/* End it without waiting for anybody: as aw_runtime_free, but in the background. The workers end the tasks
 * by themselves, then everything is released; allocator, log and storage must stay until then.
 * On the current-thread flavour nobody will run the tasks any more: those that have not ended stay as they are
 * for the rest of the program, and are named in the log. Their handles and wakers remain valid, waking and
 * aborting them does nothing, and a join of theirs stays pending (it can be cancelled). */
AW_API void aw_runtime_abandon(aw_runtime *rt);

/* Run until the future ends, and the other tasks for as long. Then those that are left are cancelled and
 * waited for: nobody would run them any more. With `keep_tasks` in the options they are kept for the next
 * block_on instead.
 *
 * From any plain thread: when another thread is running the runtime, the future is polled here and its
 * timers are served there, and the last of them to leave ends the tasks. A runtime with workers runs its
 * tasks by itself, until aw_runtime_free.
 *
 * The future stays in the caller's stack frame until the call returns.
 *
 *     T   aw_block_on(rt, future)             T is a signed integer: its output, or a negative errno
 *     int aw_block_on_into(rt, &out, future)  any output: 0, or a negative errno and `out` is untouched
 *     int aw_block_on_status(rt, future)      the output is not wanted: it is discarded
 *
 * Errors: -EDEADLK when nothing can run any more (see aw_runtime_hold): every task's await chain is
 * reported and the future is cancelled first; the code of AW_FAIL; -EPERM inside a task; -ESHUTDOWN. */
#define aw_block_on(rt, ...)                                                                       \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__main_ = (__VA_ARGS__);                                         \
        AW__ASSERT_ERRNO(aw__main_.out);                                                           \
        int aw__err = aw_block_on_future((rt), &aw__main_.future);                                 \
        (__typeof__(aw__main_.out))(aw__err ? aw__err : aw__main_.out);                            \
    })
#define aw_block_on_into(rt, result, ...)                                                          \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__main_ = (__VA_ARGS__);                                         \
        int aw__err = aw_block_on_future((rt), &aw__main_.future);                                 \
        if (!aw__err) *(result) = aw__main_.out;                                                   \
        aw__err;                                                                                   \
    })
#define aw_block_on_status(rt, ...)                                                                \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__main_ = (__VA_ARGS__);                                         \
        int aw__err = aw_block_on_future((rt), &aw__main_.future);                                 \
        if (!aw__err) aw_future_discard(&aw__main_.future);                                        \
        aw__err;                                                                                   \
    })
/* The erased form: 0 when the future finished, its output is then in place. */
AW_API int aw_block_on_future(aw_runtime *rt, aw_future *f);

/* A runtime for one future: make it, run, end it. When the main future ends, the other tasks are
 * cancelled and waited for: background tasks do not keep a program alive. */
#define aw_run(...)                                                                                \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__main_ = (__VA_ARGS__);                                         \
        AW__ASSERT_ERRNO(aw__main_.out);                                                           \
        int aw__err = aw_run_future(&aw__main_.future);                                            \
        (__typeof__(aw__main_.out))(aw__err ? aw__err : aw__main_.out);                            \
    })
#define aw_run_into(result, ...)                                                                   \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__main_ = (__VA_ARGS__);                                         \
        int aw__err = aw_run_future(&aw__main_.future);                                            \
        if (!aw__err) *(result) = aw__main_.out;                                                   \
        aw__err;                                                                                   \
    })
#define aw_run_status(...)                                                                         \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) aw__main_ = (__VA_ARGS__);                                         \
        int aw__err = aw_run_future(&aw__main_.future);                                            \
        if (!aw__err) aw_future_discard(&aw__main_.future);                                        \
        aw__err;                                                                                   \
    })
AW_API int aw_run_future(aw_future *f);

/* The runtime whose block_on this thread is in, or the one it has entered, or NULL. */
AW_API aw_runtime *aw_runtime_current(void);

/* Let futures that this thread polls by itself use a runtime (its timers), and aw_spawn spawn on it.
 * Returns what was entered before, to be given to aw_leave. Somebody must run it meanwhile. */
AW_API aw_runtime *aw_enter(aw_runtime *rt);
AW_API void aw_leave(aw_runtime *previous);

/* "An outside thread will come back": while it is held the runtime neither calls its state a
 * deadlock nor lets a paused clock jump. Any thread; release as often as hold. */
AW_API void aw_runtime_hold(aw_runtime *rt);
AW_API void aw_runtime_release(aw_runtime *rt);

/* What the workers have done so far, each on its own. The struct may grow at its end. */
typedef struct aw_worker_counters {
    uint64_t polls;     /* of tasks */
    uint64_t steals;    /* how often it took from another */
    uint64_t parks;     /* how often it slept */
    uint64_t overflows; /* how often its queue was full, and half of it went to all */
    uint64_t takeovers; /* how often it was found stuck in a poll, and others did its work */
    uint64_t wakes;     /* how often another thread ended its sleep */
    uint64_t depth;     /* not so far, but now: tasks that are ready and wait for it */
    uint64_t busy;      /* nanoseconds that it was awake, up to now */
} aw_worker_counters;
/* How many workers there are; 0: AW_CURRENT_THREAD. */
AW_API uint32_t aw_runtime_workers(const aw_runtime *rt);
/* A glance at worker i: 0, or -EINVAL when there is none. Any thread. What each says is true, but not all at the
 * same moment.
 *     int aw_runtime_counters(const aw_runtime *rt, uint32_t i, aw_worker_counters *counters) */
#define aw_runtime_counters(rt, i, counters)                                                       \
    aw_runtime_counters_sized((rt), (i), (counters), sizeof *(counters))
/* With the size of the struct as the program knows it. */
AW_API int aw_runtime_counters_sized(const aw_runtime *rt, uint32_t i, aw_worker_counters *counters,
                                     size_t size);

/* What the runtime and its workers have asked of the system for descriptors, so far. The struct may grow at its end. */
typedef struct aw_io_counters {
    const char *driver; /* "uring", "epoll" or "poll": what is used, from the first wait on */
    /* Why it is not "uring" though that was wished for, or nothing was: -ENOSYS (of the system, or built without
     * liburing), -EPERM; or 0. All of a runtime wait in the same way: where io_uring is forbidden when some have
     * begun with it already, who would need more of it gets -EACCES. */
    int fallback;
    uint64_t operations; /* given to the system whole, with their buffers: "uring" */
    uint64_t waits;      /* for readiness, one by one: "poll", and "uring" with each accept */
    uint64_t events;     /* that were collected */
    uint64_t calls;      /* to submit, to collect and to sleep */
} aw_io_counters;
/* Any thread, at a glance.
 *     void aw_runtime_io(const aw_runtime *rt, aw_io_counters *counters) */
#define aw_runtime_io(rt, counters) aw_runtime_io_sized((rt), (counters), sizeof *(counters))
AW_API void aw_runtime_io_sized(const aw_runtime *rt, aw_io_counters *counters, size_t size);

/* How many tasks have been spawned and have not ended. From the thread that runs it, or while nobody
 * does. */
AW_API size_t aw_runtime_task_count(const aw_runtime *rt);

/* Write every task with its await chain as text. Returns what snprintf would. As above; with workers from any
 * thread, and tasks that are running or about to are only named. */
AW_API int aw_runtime_describe(const aw_runtime *rt, char *buf, size_t size);

AW_C_END

#endif
