/* SPDX-License-Identifier: MIT
 *
 * The workers of a multi-thread runtime, and the state they share.
 *
 * Any worker may run a task. A task woken on a worker's thread stays with that worker: in its LIFO
 * slot, to run next while its data is still in the cache, or in its ring. Other threads push it to
 * the inject queue. A worker without work takes from the inject queue, then steals half of another
 * worker's ring, and otherwise sleeps (idle.h).
 *
 * A *pinned* task goes to the inbox of its worker only. A task is pinned once a fiber has run in
 * it, or when it is spawned for a given worker. Without stealing (AW_THREAD_PER_CORE) every task is
 * pinned when it is spawned; the rings and the inject queue stay empty. */
#ifndef AW_SCHED_MULTI_POOL_H
#define AW_SCHED_MULTI_POOL_H

#include <pthread.h>

#include "os/idle.h"
#include "sched/multi/inject.h"
#include "sched/multi/lifo.h"
#include "sched/multi/magazine.h"
#include "sched/multi/multi.h"
#include "sched/multi/pinned.h"
#include "sched/multi/pool_block_on.h"
#include "sched/multi/ring.h"
#include "sched/multi/task_state.h"
#include "task/runtime_state.h"

typedef struct aw__pool aw__pool;

enum { AW__WORKERS_MAX = 1024 };

typedef struct aw__worker {
    aw__ring ring;
    aw__lifo lifo;
    aw__task *current; /* atomic: the task being polled */
    aw__meter meter;   /* of that poll */
    aw__pool *pool;
    uint32_t index;
    uint32_t tick;           /* iterations of its loop */
    uint32_t nonyielded_end; /* ring position after the last task that did not yield: worker.c */
    uint32_t searches;       /* attempts to steal */
    uint32_t poll_epoch;     /* polls of timers and I/O for tasks that yielded: worker.c */
    bool searching;          /* counted as searching: idle.h */
    bool self_woken;         /* the running task woke itself: rule 7 of task_state.h */
    bool woken_not_yielded;  /* and not by a yield; or it failed */
    bool notify_due;         /* a task was pushed to the ring, and no worker was notified yet */
    aw__magazines magazines; /* memory for tasks */
    pthread_t thread;
    /* Shared with other threads. */
    aw__sleeper sleeper __attribute__((aligned(64)));
    aw__thread_io thread_io;
    aw__pinned pinned;
    aw__wheel wheel;             /* has its own lock */
    aw_worker_counters counters; /* those that are only incremented */
    uint64_t busy;               /* atomic: the time it was awake: see AW__ASLEEP */
    /* Atomic: waits that something outside the runtime may end, begun minus ended by polls on this
     * worker. A wait may end on another worker: only the sum over all workers counts. */
    int64_t outside;
    bool in_place;       /* atomic: the running task is in aw_block_in_place */
    uint64_t polls_seen; /* monitor: counters.polls at its last check */
} aw__worker;

/* All tasks that have not ended, in several lists, each with its lock. */
#ifndef AW__SHARDS
#define AW__SHARDS 16
#endif
struct aw__shard {
    uint32_t lock __attribute__((aligned(64)));
    aw__slab *slabs;
};

struct aw__pool {
    void *memory; /* as allocated, before alignment */
    aw_runtime *rt;
    aw__idle idle;
    aw__inject inject;
    aw__depot depot;
    struct aw__shard shards[AW__SHARDS];
    uint64_t live; /* atomic: tasks that have not ended */
    /* Atomic: references on this memory: of tasks, of threads in block_on, and of the runtime until
     * it ends. */
    uint64_t allocated;
    uint32_t stop;                /* atomic: the workers must exit */
    uint32_t in_place_workers;    /* atomic: in aw_block_in_place; each holds the runtime */
    uint32_t next;                /* atomic: the next worker, round robin */
    uint32_t ended_word;          /* the thread that ends the runtime sleeps on it */
    uint32_t ending;              /* atomic: the runtime ends when the last task has ended */
    uint32_t deadlocked;          /* atomic: the remaining tasks will never end */
    uint32_t quiescence_lock;     /* see pool_block_on.h; taken before the runtime's lock */
    aw__block_on *block_ons;      /* threads in block_on, under the runtime's lock */
    uint32_t first_block_on_used; /* atomic: whether it is in use */
    aw__block_on first_block_on;  /* storage for one of them */
    uint32_t abandoned;           /* atomic: the monitor ends the runtime */
    uint32_t monitor_asleep;      /* atomic: see monitor.c */
    uint32_t monitor_word;
    pthread_t monitor;
    uint32_t count;
    bool no_stealing; /* AW_THREAD_PER_CORE */
    aw__worker workers[];
};

/* Only the worker writes its counters; other threads read them. */
static inline void aw__count(uint64_t *counter) {
    aw__store_relaxed(counter, *counter + 1);
}

/* References on the memory of the pool and its runtime. The caller of aw__pool_ref has a reference
 * to something in it. */
static inline void aw__pool_ref(aw__pool *p) {
    aw__fetch_add_relaxed(&p->allocated, (uint64_t)1);
}
static inline void aw__pool_unref(aw__pool *p) {
    if (aw__fetch_sub(&p->allocated, (uint64_t)1) == 1) aw__pool_free_memory(p->rt);
}

/* The time that a worker was awake, in one word, so that any thread can read it. Asleep: that time,
 * with the highest bit set. Awake: the time at which it would have begun, had it never slept. */
#define AW__ASLEEP ((uint64_t)1 << 63)
static inline void aw__busy_end(uint64_t *busy, uint64_t now) {
    aw__store_relaxed(busy, (now - *busy) | AW__ASLEEP);
}
static inline void aw__busy_begin(uint64_t *busy, uint64_t now) {
    aw__store_relaxed(busy, now - (*busy & ~AW__ASLEEP));
}

int aw__pool_new(aw_runtime *rt, uint32_t workers, bool no_stealing); /* workers >= 1 */
void aw__pool_free(aw_runtime *rt);
void aw__pool_stop(aw__pool *p, uint32_t started); /* the first `started` exit and are joined */

#endif
