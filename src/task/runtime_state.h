/* SPDX-License-Identifier: MIT
 *
 * The state of a runtime. `base` is what the layers below use; the rest is for tasks and their
 * schedulers.
 *
 * Most fields belong to the owner of a current-thread runtime: the thread in block_on, or in a call
 * that ends the runtime or runs it once. The fields that other threads use come last; each says how
 * it is protected. */
#ifndef AW_TASK_RUNTIME_STATE_H
#define AW_TASK_RUNTIME_STATE_H

#include <awake/runtime.h>

#include "base/limit.h"
#include "base/misuse.h"
#include "base/random.h"
#include "context/context.h"
#include "io/thread_io.h"
#include "os/thread_setup.h"
#include "task/slab.h"
#include "task/task_header.h"
#include "time/wheel.h"

typedef struct aw__queue {
    aw__task *head, *tail;
} aw__queue;

struct aw_runtime {
    aw__runtime_base base;
    struct aw__blocking *blocking; /* atomic: threads for blocking calls; created by the first */
    uint32_t blocking_threads;
    uint32_t max_blocking;
    uint64_t blocking_idle;
    struct aw__pool *pool; /* its workers: only for src/sched/ */
    /* Running tasks. */
    aw__queue ready;   /* woken, in order */
    aw__queue yielded; /* ready again after timers and driver have been polled */
    aw__task *current; /* being polled */
    aw__meter meter;   /* of the current poll */
    aw_future *main;   /* the future of block_on */
    /* All tasks. */
    size_t live;          /* tasks that have not ended */
    uint64_t next_id;     /* even: ids of tasks spawned by the owner */
    size_t allocated;     /* task headers not freed yet; guarded by `lock` after the end */
    int64_t outside;      /* waits that may be ended from outside this runtime */
    int64_t main_outside; /* those of them that belong to the main future */
    uint32_t unparks_due; /* see inbox.h */
    /* The watch for cancels that take long: see report.c. */
    uint64_t watch_at;   /* time of the next watch; AW_FOREVER: none; atomic with workers */
    uint64_t looks;      /* watches so far */
    uint32_t cancelling; /* atomic, only with workers: tasks with a cancel in progress */
    uint64_t cancel_report, cleanup_deadline;
    /* Options. */
    uint64_t seed;  /* all random choices derive from it */
    aw_hooks hooks; /* `threads` has a copy of the thread hooks */
    aw__threads threads;
    bool keep_tasks; /* at the end of block_on */
    struct aw__embedded {
        bool used; /* aw_runtime_fd was called */
        bool asleep;
        int epoll, timer;
    } embedded; /* see embed.c */
    aw__slabs slabs;

    /* Shared with other threads. */
    aw__limit tasks;         /* tasks that have not ended */
    uint32_t owned;          /* atomic: 1 while a thread is the owner */
    uint32_t closing;        /* atomic: spawns are refused: AW__CLOSING_FINALLY or _FOR_NOW */
    uint32_t holds;          /* atomic: aw_runtime_hold */
    uint32_t followers;      /* atomic: threads in block_on that are not the owner */
    uint64_t outside_ids;    /* atomic: odd: ids of tasks spawned by other threads */
    uint64_t seeds;          /* atomic: number of seeds derived from `seed` */
    aw__task *inbox;         /* atomic: see inbox.h */
    uint32_t unparks_done;   /* atomic: see inbox.h */
    aw__thread_io thread_io; /* the owner parks here, unless the seam has a park function */
    /* Under base.lock, as are tasks after the end. */
    struct aw_task_join_future *joins;  /* joins that wait on other threads; atomic to peek at */
    struct aw__follower *follower_list; /* one of them takes over when the owner leaves */
    bool ended;                         /* memory is freed with the last task and reference */
    uint32_t refs;                      /* see aw__rt_ref */
    aw_runtime *next_leaked;            /* see shutdown.c */
    aw__wheel wheel;                    /* has its own lock */
    aw__slab main_slab;                 /* holds one task, main_task */
    aw__task main_task;
};

_Static_assert(offsetof(aw_runtime, main_task) ==
                   offsetof(aw_runtime, main_slab) + sizeof(aw__slab),
               "main_task directly follows its slab header");
_Static_assert(offsetof(aw_runtime, base) == 0, "aw__base");
_Static_assert(sizeof(aw_runtime) <= AW_RUNTIME_SIZE, "AW_RUNTIME_SIZE in awake/runtime.h");

/* A seed for the random choices of a worker or of a follower in block_on. The n-th seed is a
 * function of the runtime's seed and n. Any thread. */
static inline uint64_t aw__rt_next_seed(aw_runtime *rt) {
    return aw__random_seed(rt->seed, aw__fetch_add_relaxed(&rt->seeds, (uint64_t)1));
}

static inline void aw__queue_push(aw__queue *q, aw__task *t) {
    t->next = NULL;
    if (q->tail)
        q->tail->next = t;
    else
        q->head = t;
    q->tail = t;
}

/* After the end: the memory can be freed. Under the lock. */
static inline bool aw__rt_is_unused(const aw_runtime *rt) {
    return rt->ended && rt->allocated == 0 && rt->refs == 0;
}

/* Decrements a count of what keeps the runtime from being in a deadlock. Any thread. */
static inline void aw__rt_unhold(aw_runtime *rt, uint32_t *count) {
    rt->base.sched->unhold(rt, count);
}

static inline void aw__task_spawned(const aw_runtime *rt, const aw__task *t) {
    if (AW__UNLIKELY(rt->hooks.task_spawn != NULL)) aw__hook_task(rt, t, AW__RUNNING);
}
static inline void aw__task_ended(const aw_runtime *rt, const aw__task *t, int status) {
    if (AW__UNLIKELY(rt->hooks.task_end != NULL)) aw__hook_task(rt, t, status);
}

enum { AW__CLOSING_FINALLY = 1, AW__CLOSING_FOR_NOW = 2 }; /* `closing` */

#endif
