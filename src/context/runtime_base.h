/* SPDX-License-Identifier: MIT
 *
 * The part of a runtime that the layers below the scheduler use: log, allocator, clock, limits, and
 * the choice of the I/O driver. It is the first member of aw_runtime (task/runtime_state.h), so a
 * pointer to the runtime is a pointer to it. What only the scheduler can do is behind `sched`. */
#ifndef AW_CONTEXT_RUNTIME_BASE_H
#define AW_CONTEXT_RUNTIME_BASE_H

#include <awake/log.h>
#include <awake/runtime.h>
#include <awake/seam.h>

#include "base/atomic.h"
#include "base/limit.h"
#include "context/scheduler.h"
#include "os/fork.h"

struct aw__driver_type;
struct aw__wheel;

typedef struct aw__runtime_base {
    const aw__scheduler *sched;
    bool has_workers;    /* otherwise the thread in block_on runs the tasks */
    bool rings_owned;    /* only its own thread may enter a thread's io_uring */
    bool in_storage;     /* memory of the caller (aw_runtime_new_in) */
    bool forgotten;      /* in the child of a fork: freed, except what has handles and wakers */
    uint32_t generation; /* of the process that made the runtime: os/fork.h */
    uint32_t workers;
    uint32_t budget;
    const aw_allocator *allocator;
    aw_log_fn *log;
    void *log_data;
    const char *name;
    uint64_t number; /* unique among all runtimes */
    /* The clock. */
    aw_seam seam;
    uint32_t paused;          /* atomic: the clock stands at `paused_now` */
    uint64_t paused_now;      /* atomic */
    uint64_t clock_lead;      /* atomic: this clock minus the seam's clock, modulo 2^64 */
    struct aw__wheel *wheels; /* the wheel for threads that own none */
    aw__limit stacks;         /* of fibers, in use */
    /* The driver. */
    const struct aw__driver_type *driver_type; /* atomic: as asked for, until it was probed */
    bool driver_known;                         /* atomic: it was probed */
    bool io_closed;                            /* under the lock: no driver can be opened */
    int driver_fallback;                       /* atomic: why another driver is used, or 0 */
    uint32_t lock; /* guards this, and members of aw_runtime that name it */
} aw__runtime_base;

static inline aw__runtime_base *aw__base(const aw_runtime *rt) {
    return (aw__runtime_base *)(uintptr_t)rt;
}

/* In the child of a fork, and the runtime is the parent's. */
static inline bool aw__rt_forked(const aw_runtime *rt) {
    return AW__UNLIKELY(aw__base(rt)->generation != aw__fork_generation);
}

static inline uint64_t aw__rt_now(const aw_runtime *rt) {
    const aw__runtime_base *b = aw__base(rt);
    if (aw__load_acquire(&b->paused)) return aw__load_acquire(&b->paused_now);
    return b->seam.now(b->seam.data) + aw__load_relaxed(&b->clock_lead);
}

/* Any thread: the memory of the runtime, and of its workers, stays until as many aw__rt_unref. For
 * threads that only read it after its end. It does not prevent a deadlock report. */
static inline void aw__rt_ref(aw_runtime *rt) {
    aw__base(rt)->sched->ref(rt);
}
static inline void aw__rt_unref(aw_runtime *rt) {
    aw__base(rt)->sched->unref(rt);
}

/* Through the runtime's log callback, or the process's when it has none or `rt` is NULL. */
void aw__rt_log(const aw_runtime *rt, aw_log_level level, const char *format, ...) AW_PRINTF(3, 4);

/* The allocator of `rt`. If it is NULL, that of the current or entered runtime; without one, the
 * process's. */
const aw_allocator *aw__allocator_for(const aw_runtime *rt);

/* The kernel's clock, as a seam's `now`; and whether the runtime uses it. */
uint64_t aw__system_now(void *data);
bool aw__rt_has_system_clock(const aw_runtime *rt);

/* Permits for stacks: a runtime limits how many of its fibers have one. Take returns false at the
 * limit. `rt` of give is the runtime in which the fiber ends. If it began in another one, the
 * permit is not returned, because that runtime may be gone. */
bool aw__stack_permit_take(aw_runtime *rt, uint64_t *permit);
void aw__stack_permit_give(aw_runtime *rt, uint64_t permit);

#endif
