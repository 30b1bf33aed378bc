/* SPDX-License-Identifier: MIT
 *
 * What a scheduler does. The current-thread and the multi-thread scheduler (src/sched/) are two of
 * these tables. Except spawn and join, which task/ does itself on a current-thread runtime because
 * they are frequent and short (those members are NULL there), every other layer reaches the
 * scheduler of a runtime only through its table. */
#ifndef AW_CONTEXT_SCHEDULER_H
#define AW_CONTEXT_SCHEDULER_H

#include <awake/future.h>
#include <awake/task.h>

struct aw__task;
struct aw__member_args;
struct aw__thread_io;
struct aw__wheel;

/* A task that has not ended, as a report sees it. */
typedef struct aw__task_view {
    struct aw__task *task;
    const aw_future *future; /* NULL: it is running or queued, and must not be inspected */
    bool cancelled;          /* a cancel was requested */
} aw__task_view;

typedef struct aw__scheduler {
    /* Tasks. Any thread. `worker` counts from 1; 0: any. */
    aw_future *(*spawn)(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                        const aw_location *location, void *storage,
                        const struct aw__member_args *member);
    void (*wake)(struct aw__task *t);
    void (*abort)(struct aw__task *t);
    void (*drop)(struct aw__task *t); /* the handle */
    bool (*is_finished)(const struct aw__task *t);
    aw_poll (*join_poll)(struct aw_task_join_future *j, struct aw__task *t, aw_cx *cx);
    aw_poll (*join_cancel)(struct aw_task_join_future *j, struct aw__task *t, aw_cx *cx);
    /* Calls `f` for every task and main future. Those with a `future` cannot run meanwhile. */
    void (*each_task)(aw_runtime *rt, void (*f)(const aw__task_view *v, void *data), void *data);
    /* The next two by the thread that polls the task: sched/run_task.h. `change`: its cancels,
     * begun minus ended. */
    void (*count_cancels)(aw_runtime *rt, struct aw__task *t, int32_t change, bool ended);
    /* It has failed: make it ready at once, to be cancelled. Nothing for a main future that its own
     * thread polls: sched/main_poll.h. */
    void (*cancel_running)(aw_runtime *rt, struct aw__task *t);
    /* The threads of the runtime. */
    /* For a descriptor that an outside thread waits for; `shared_ring`: the one with that ring. */
    struct aw__thread_io *(*thread_io)(aw_runtime *rt, bool shared_ring);
    /* All of them, for n = 0, 1, and so on. NULL: there are not so many. */
    struct aw__thread_io *(*nth_thread_io)(const aw_runtime *rt, uint32_t n);
    struct aw__wheel *(*nth_wheel)(aw_runtime *rt, uint32_t n); /* likewise */
    void (*clock_changed)(aw_runtime *rt); /* sleeping threads must compute their deadline again */
    /* aw_block_in_place begins and ends on this thread. In between, other threads do what this one
     * did for the runtime. Begin: true if the thread holds the runtime meanwhile. */
    bool (*in_place_begin)(void);
    void (*in_place_end)(void);
    /* The runtime. */
    int (*block_on)(aw_runtime *rt, aw_future *f);
    /* Decrements `*count`, the runtime's `holds` or `followers`; then the deadlock check is
     * repeated. */
    void (*unhold)(aw_runtime *rt, uint32_t *count);
    size_t (*task_count)(const aw_runtime *rt); /* tasks that have not ended */
    /* References on the memory of the runtime. The last one calls free_memory. */
    void (*ref)(aw_runtime *rt);
    void (*unref)(aw_runtime *rt);
    /* At once: the runtime has ended, and nothing refers to it. */
    void (*free_memory)(aw_runtime *rt);
    /* The ends of a runtime: see sched/shutdown.c. The first three refuse spawns and abort all
     * tasks. */
    /* Waits for the tasks, at most `limit` nanoseconds of the runtime's clock. The runtime stays.
     * Returns how many tasks remain. */
    size_t (*shutdown)(aw_runtime *rt, uint64_t limit);
    /* Waits for the tasks, then ends the threads and drivers, and drops the runtime's own
     * reference. */
    void (*end)(aw_runtime *rt);
    /* As `end`, but does not wait: with workers the monitor ends the runtime later; without, tasks
     * that remain never run again. */
    void (*abandon)(aw_runtime *rt);
    /* In the child of a fork: frees memory, and runs nothing. */
    void (*forget)(aw_runtime *rt);
} aw__scheduler;

#endif
