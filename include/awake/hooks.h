/* SPDX-License-Identifier: MIT
 *
 * awake/hooks.h: be told when a runtime's threads and tasks begin and end.
 *
 *     static const aw_hooks hooks = {.self_size = sizeof(aw_hooks), .data = &stats, .task_end = count};
 *     options.hooks = &hooks;
 *
 * The struct is copied; any hook may be NULL, and one that is costs a comparison. Hooks run inside the
 * library: they shall be short, must not block, and must not call back into it (no spawn, no abort, no
 * block_on; logging by aw_log is fine). Each may be called on several threads at once. */
#ifndef AWAKE_HOOKS_H
#define AWAKE_HOOKS_H

#include <awake/config.h>

AW_C_BEGIN

struct aw_place;

/* Threads that a runtime starts. The one that is in block_on is the program's own, and not among them. */
typedef enum aw_thread_kind {
    AW_THREAD_WORKER,  /* runs tasks; its index is that of aw_runtime_counters */
    AW_THREAD_MONITOR, /* looks after the workers */
    AW_THREAD_BLOCKING /* makes blocking calls; its index is how many there were before it */
} aw_thread_kind;

typedef struct aw_task_info {
    uint64_t id;                  /* as aw_task_id */
    const char *name;             /* as aw_task_name */
    const struct aw_place *place; /* where it was spawned */
} aw_task_info;

typedef struct aw_hooks {
    size_t self_size; /* sizeof(aw_hooks): it may grow */
    void *data;       /* handed to each */

    /* On the thread itself: before it does anything, when it has its name; and as the last thing that it
     * does. Each start has its stop. All have stopped when aw_runtime_free returns, except a thread in a
     * blocking call that was given up: `data` must stay for that one. */
    void (*thread_start)(void *data, aw_thread_kind kind, uint32_t index);
    void (*thread_stop)(void *data, aw_thread_kind kind, uint32_t index);

    /* On the thread that spawns, before the task can run; not for a spawn that fails, unless that is because
     * the runtime ends at the same moment: then its end follows. The main future of block_on is not a
     * task. */
    void (*task_spawn)(void *data, const aw_task_info *task);

    /* On the thread that ran it, when its last poll has returned; before any join reports. `status` is what the
     * join will report: 0, -ECANCELED, or the code of AW_FAIL. */
    void (*task_end)(void *data, const aw_task_info *task, int status);
} aw_hooks;

AW_C_END

#endif
