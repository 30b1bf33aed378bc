/* SPDX-License-Identifier: MIT
 *
 * Memory for tasks, and the list of all tasks. Every task is inside a slab. The slab starts with a
 * header for what its tasks have in common; the task stores its offset from it. Most slabs are
 * *shared*: they hold many tasks of one size. A *single* slab holds one task: a large task, one
 * that another thread spawned, one in the caller's storage, every task of a runtime with workers
 * (which caches them: sched/multi/magazine.h), and every task if the allocator is the
 * user's or a sanitizer is in use, which should see each task as an allocation.
 *
 * Without workers, a slab belongs to the owner of its runtime; after the end of the runtime, to the
 * holder of the runtime's lock. The exception is a slab that another thread has just allocated,
 * until the owner adopts its task. An empty shared slab is freed, unless it is the only one of its
 * size with free slots. */
#ifndef AW_TASK_SLAB_H
#define AW_TASK_SLAB_H

#include <stddef.h>
#include <stdint.h>

/* Unless the build defines it. */
#ifndef AW__USE_SLABS
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(AW_VALGRIND)
#define AW__USE_SLABS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define AW__USE_SLABS 0
#endif
#endif
#endif
#ifndef AW__USE_SLABS
#define AW__USE_SLABS 1
#endif

enum {
    AW__SLAB_STEP = 16,  /* unit of sizes and offsets: the alignment of a future */
    AW__SLAB_SIZES = 32, /* tasks of this many steps or more have single slabs */
    AW__SLAB_BYTES = 65536 - AW__SLAB_STEP /* 64 KiB with malloc's header */
};

struct aw_runtime;
struct aw__task;

typedef enum aw__slab_kind {
    AW__SLAB_NEW, /* single, and not in the list yet */
    AW__SLAB_SINGLE,
    AW__SLAB_SHARED
} aw__slab_kind;

/* Other threads read `rt`: fields that change often are in another cache line. */
typedef struct aw__slab aw__slab;
struct aw__slab {
    struct aw_runtime *rt; /* NULL: the caller's storage, not in use */
    aw__slab *next, *prev;
    uint32_t size; /* single: in bytes, 0: the caller's storage. Shared: of one task, in steps */
    aw__slab_kind kind;
};

typedef struct aw__slabs {
    /* [n]: shared slabs for tasks of n steps, with free slots; [0]: all other slabs. */
    aw__slab *lists[AW__SLAB_SIZES];
} aw__slabs;

/* Memory for a task and its frame; NULL: out of memory. Any thread. */
struct aw__task *aw__slab_alloc(struct aw_runtime *rt, size_t frame_size);
/* The same in the caller's storage, which must not be in use. */
struct aw__task *aw__slab_in_storage(struct aw_runtime *rt, void *storage);
/* Add the slab of a task that another thread has spawned to the list. Owner only. */
void aw__slab_adopt(struct aw__task *t);
/* Free the memory of a task. */
void aw__slab_free(struct aw__task *t);
/* The runtime has ended: free the empty slabs. */
void aw__slabs_free_empty(struct aw_runtime *rt);

/* All tasks that have not ended:
 *     for (aw__task_walk w = {.rt = rt}; (t = aw__task_walk_next(&w));) */
typedef struct aw__task_walk {
    const struct aw_runtime *rt;
    aw__slab *slab;  /* of the next task; NULL: the first of the next list */
    uint32_t list;   /* the next list */
    uint32_t offset; /* of the next task in the slab, in steps; 0: the first */
} aw__task_walk;
struct aw__task *aw__task_walk_next(aw__task_walk *w);

#endif
