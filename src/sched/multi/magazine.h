/* SPDX-License-Identifier: MIT
 *
 * A cache of memory for tasks. A worker keeps the memory of tasks that ended, by size, and reuses
 * it for the next ones: most spawns allocate nothing. The memory is as its last task left it,
 * linked through the task's `next`.
 *
 * For each size a worker has two magazines. Memory is freed to the `loaded` one. When that is full
 * it becomes `previous`, and a full `previous` moves to the depot that all workers share. Memory is
 * taken from `loaded`; when that is empty from `previous`; and then a whole magazine comes from the
 * depot. So a worker that only spawns, or only ends tasks, takes the depot's lock once per
 * magazine, and a worker that does both never does. Magazines that do not fit into the depot are
 * freed. A worker that is about to sleep frees its `previous` magazines, and the last one awake
 * empties the depot: an idle runtime keeps one magazine per size and worker, and never wakes up to
 * free more.
 *
 * Threads that are not workers of the runtime allocate and free directly. So does every thread when
 * the user supplied the allocator, and under sanitizers (slab.h). */
#ifndef AW_SCHED_MULTI_MAGAZINE_H
#define AW_SCHED_MULTI_MAGAZINE_H

#include <stdbool.h>

#include "task/slab.h"

struct aw__pool;
struct aw__worker;

enum {
    AW__MAGAZINE_SIZE = 64,  /* tasks */
    AW__DEPOT_MAGAZINES = 16 /* of each size */
};

typedef struct aw__magazine {
    struct aw__task *top;
    uint32_t count;
} aw__magazine;

/* Of a worker; only its thread uses it. Indexed by the size of task and frame, in steps. */
typedef struct aw__magazines {
    aw__magazine loaded[AW__SLAB_SIZES], previous[AW__SLAB_SIZES];
    /* A `previous` magazine was filled since the worker last slept: free it before the next
     * sleep. */
    bool trim_due;
} aw__magazines;

typedef struct aw__depot {
    uint32_t lock __attribute__((aligned(64))); /* guards the members below */
    /* Full ones, linked through `inbox_next` of the top task. Atomic: read without the lock too. */
    struct aw__task *magazines[AW__SLAB_SIZES];
    uint32_t counts[AW__SLAB_SIZES]; /* magazines of each size */
} aw__depot;

/* As aw__slab_alloc and aw__slab_free, for a multi-thread runtime. Any thread. */
struct aw__task *aw__magazine_alloc(struct aw__pool *p, size_t frame_size);
void aw__magazine_free(struct aw__pool *p, struct aw__task *t);

/* By a worker that is about to sleep. `last`: all workers are parked; empty the depot too. */
void aw__magazine_idle(struct aw__worker *w, bool last);
/* By the worker: free all its magazines, and the depot. */
void aw__magazine_clear(struct aw__worker *w);

#endif
