/* SPDX-License-Identifier: MIT
 *
 * awake/hooks.h: callbacks for the start and end of a runtime's threads and tasks.
 *
 *     static const aw_hooks hooks = {
 *         .self_size = sizeof(aw_hooks), .data = &stats, .task_end = count};
 *     options.hooks = &hooks;
 *
 * The struct is copied. Any hook may be NULL; an unused hook costs a comparison. Hooks run inside
 * the library: keep them short, do not block, and do not call back into the library (no spawn, no
 * abort, no block_on; aw_log is allowed). Several threads may call a hook at the same time. */
#ifndef AWAKE_HOOKS_H
#define AWAKE_HOOKS_H

#include <awake/config.h>

AW_C_BEGIN

struct aw_location;

/* Threads that a runtime starts. The thread in block_on is yours and not one of them. */
typedef enum aw_thread_kind {
    AW_THREAD_WORKER,  /* runs tasks; `index` is as in aw_runtime_counters */
    AW_THREAD_MONITOR, /* watches the workers */
    AW_THREAD_BLOCKING /* makes blocking calls; `index`: how many started before */
} aw_thread_kind;

typedef struct aw_task_info {
    uint64_t id;                        /* see aw_task_id */
    const char *name;                   /* see aw_task_name */
    const struct aw_location *location; /* where it was spawned */
} aw_task_info;

typedef struct aw_hooks {
    size_t self_size; /* sizeof(aw_hooks): the struct may grow */
    void *data;       /* passed to each hook */

    /* Called on the thread itself: before it does anything, with its name set; and as its last
     * action. Each start has a stop. All threads have stopped when aw_runtime_free returns, except
     * one in a blocking call that was given up: `data` must stay for it. */
    void (*thread_start)(void *data, aw_thread_kind kind, uint32_t index);
    void (*thread_stop)(void *data, aw_thread_kind kind, uint32_t index);

    /* Called on the spawning thread, before the task can run. Not called for a failed spawn, unless
     * it failed because the runtime ended at the same moment: then task_end follows. The main
     * future of block_on is not a task. */
    void (*task_spawn)(void *data, const aw_task_info *task);

    /* Called on the thread that ran the task, after its last poll and before any join reports.
     * `status` is what the join will report: 0, -ECANCELED, or the code of AW_FAIL. */
    void (*task_end)(void *data, const aw_task_info *task, int status);
} aw_hooks;

AW_C_END

#endif
