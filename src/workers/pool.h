/* SPDX-License-Identifier: MIT
 *
 * The workers of a multi-thread runtime, and what they share.
 *
 * A task is run by whichever worker gets hold of it. Who wakes one on a worker's thread leaves it with that
 * worker: in its `lifo` place, where it is run next, while what it needs is still in the cache; or in its
 * ring. Everyone else puts it into the inject queue. A worker without work takes from there, then half of
 * another worker's ring, and sleeps when there is nothing (idle.h).
 *
 * A task in which a fiber has run is *pinned*: it goes to the inbox of its worker, and to nobody else. Without
 * stealing (AW_THREAD_PER_CORE) every task is pinned from its spawn on; rings and inject queue stay empty. */
#ifndef AW_WORKERS_POOL_H
#define AW_WORKERS_POOL_H

#include <pthread.h>

#include "runtime/runtime.h"
#include "workers/idle.h"
#include "workers/inject.h"
#include "workers/lifo.h"
#include "workers/pinned.h"
#include "workers/main.h"
#include "workers/ring.h"
#include "workers/shelf.h"
#include "workers/word.h"

typedef struct aw__pool aw__pool;

enum { AW__WORKERS_MAX = 1024 };

typedef struct aw__worker {
    aw__ring ring;
    aw__lifo lifo;
    aw__task *current; /* atomic to peek at: being polled */
    aw__meter meter;   /* of that poll */
    aw__pool *pool;
    uint32_t index;
    uint32_t tick;   /* turns of its loop */
    bool searching;  /* see idle.h */
    bool woken;      /* the running task, by itself: rule 7 of word.h */
    bool eager;      /* and not to yield */
    bool untold;     /* a task that yielded is in the ring, and nobody was told */
    aw__shelf shelf; /* room for tasks */
    pthread_t thread;
    /* Shared with the others. */
    aw__sleeper sleeper __attribute__((aligned(64)));
    aw__place place;
    aw__pinned pinned;
    aw__wheel wheel;             /* has its own lock */
    aw_worker_counters counters; /* those that only grow */
    uint64_t busy;               /* atomic: when it was awake: see below */
    int64_t outside;     /* atomic: waits of tasks, begun less ended here, that others may end */
    bool in_place;       /* atomic: the running task has said that it blocks */
    uint64_t polls_seen; /* monitor: at its last look */
} aw__worker;

/* Tasks that have not ended, in one of several lists: each has its lock. */
#ifndef AW__SHARDS
#define AW__SHARDS 16
#endif
struct aw__shard {
    uint32_t lock __attribute__((aligned(64)));
    aw__room *rooms;
};

struct aw__pool {
    void *memory; /* as allocated */
    aw_runtime *rt;
    aw__idle idle;
    aw__inject inject;
    aw__depot depot;
    struct aw__shard shards[AW__SHARDS];
    uint64_t live; /* atomic: tasks that have not ended */
    uint64_t
        allocated; /* atomic: headers not given back yet, and one for the runtime until it ends */
    uint32_t stop; /* atomic: the workers are to leave */
    uint32_t next; /* atomic: which worker gets the next pinned task */
    uint32_t ended_word;     /* who ends the runtime sleeps on it until no task is left */
    uint32_t ending;         /* atomic: and it does */
    uint32_t stuck;          /* atomic: those that are left will never end */
    uint32_t look_lock;      /* see main.h; before the runtime's lock */
    aw__main *mains;         /* threads in block_on, under the runtime's lock */
    uint32_t main_used;      /* atomic: */
    aw__main main;           /* of the first of them */
    uint32_t abandoned;      /* atomic: the monitor ends it */
    uint32_t cancelling;     /* atomic: tasks in which something is being cancelled */
    uint32_t monitor_asleep; /* atomic: see monitor.c */
    uint32_t monitor_word;
    pthread_t monitor;
    uint32_t count;
    bool apart; /* its workers do not take from each other */
    aw__worker workers[];
};

/* Others glance at a counter, but only its worker changes it. */
static inline void aw__count(uint64_t *counter) {
    aw__store_relaxed(counter, *counter + 1);
}

/* While it is kept its memory stays, and the runtime's. By who has a reference to something in it. */
static inline void aw__pool_keep(aw__pool *p) {
    aw__fetch_add_relaxed(&p->allocated, (uint64_t)1);
}
static inline void aw__pool_unkeep(aw__pool *p) {
    if (aw__fetch_sub(&p->allocated, (uint64_t)1) == 1) aw__rt_free_memory(p->rt);
}

/* The time that a worker was awake, in one word, so that anyone can glance at it. While it sleeps: that time,
 * marked by the highest bit. While it is awake: when it would have begun, had it never slept. */
#define AW__ASLEEP ((uint64_t)1 << 63)
static inline void aw__busy_end(uint64_t *busy, uint64_t now) {
    aw__store_relaxed(busy, (now - *busy) | AW__ASLEEP);
}
static inline void aw__busy_begin(uint64_t *busy, uint64_t now) {
    aw__store_relaxed(busy, now - (*busy & ~AW__ASLEEP));
}

/* pool.c */
int aw__pool_new(aw_runtime *rt, uint32_t workers, bool apart); /* at least one */
void aw__pool_free(aw_runtime *rt);
void aw__pool_stop(aw__pool *p, uint32_t started); /* so many leave, and are waited for */

/* end.c: see there. */
size_t aw__pool_shutdown(aw_runtime *rt, uint64_t limit);
void aw__pool_end(aw_runtime *rt);
void aw__pool_abandon(aw_runtime *rt);
void aw__pool_forget(aw_runtime *rt); /* in the child of a fork */
/* By the monitor. True: it was abandoned, no task is left, and now it is gone. */
bool aw__pool_end_alone(aw__pool *p);

/* A poll begins (rules 2 and 7 of word.h). True: to be cancelled. By a worker, out of a queue. */
static inline bool aw__pool_begin(aw__task *t) {
    if (!(t->flags & AW__HELD)) return aw__word_run(&t->word);
    t->flags &= (uint16_t)~AW__HELD;
    return aw__word_run_on(&t->word);
}
/* It is pending. True: put the task into a queue. */
static inline bool aw__pool_pause(aw__task *t, bool woken) {
    if (!woken) return aw__word_pend(&t->word);
    t->flags |= AW__HELD;
    return true;
}

/* task.c: what runtime/task.c is asked for when the runtime has workers. */
aw_future *aw__pool_spawn(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                          const aw_place *place, void *storage, const aw__birth *birth);
void aw__pool_abort(aw__task *t);
void aw__pool_drop(aw__task *t);
void aw__pool_release(aw__task *t);
void aw__pool_complete(aw__pool *p, aw__task *t, aw_poll answer);
/* Abort all of them. */
void aw__pool_abort_all(aw__pool *p);
/* Call `waits` for each that is neither running nor about to, and `runs`, unless NULL, for the others. */
void aw__pool_each(aw__pool *p, void (*waits)(aw__task *t, void *data),
                   void (*runs)(aw__task *t, void *data), void *data);

/* queue.c: any thread; the task has been NOTIFIED by who calls. */
void aw__pool_schedule(aw__pool *p, aw__task *t, bool yielding);
void aw__pool_notify(aw__pool *p);
/* A glance at the queues that all can take from. */
bool aw__pool_anything(const aw__pool *p);
/* So that they look at the clock again. */
void aw__pool_unpark_all(aw__pool *p);
/* Into the ring of this thread's worker. When that is full, half of it goes to all. */
void aw__worker_push(aw__worker *w, aw__task *t);
void aw__worker_unpark(aw__worker *w);

/* join.c: see runtime/join.c. */
aw_poll aw__pool_join_poll(struct aw_task_join_future *j, aw__task *t, aw_cx *cx);
aw_poll aw__pool_join_cancel(struct aw_task_join_future *j, aw__task *t, aw_cx *cx);

extern const aw_waker_type aw__pool_waker_type;

/* worker.c */
void *aw__worker_main(void *worker);

/* monitor.c */
void *aw__monitor_main(void *pool);
void aw__monitor_wake(aw__pool *p);
/* What was begun, less what has ended, of cancels in this task. */
void aw__pool_count_cancels(aw__pool *p, aw__task *t, int32_t change, bool ended);

#endif
