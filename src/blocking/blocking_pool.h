/* SPDX-License-Identifier: MIT
 *
 * The threads for blocking calls.
 *
 * Jobs wait in several lists, each with a short lock, so that many threads can submit at once; a
 * submitter takes the next list, round robin. The lock of a job's list guards its stage, its waker
 * and its links. A thread without a job parks, as in os/idle.h, and exits when it has been
 * idle for some time. The runtime's memory and the threads each have a reference on the pool, and
 * the last one frees it: so a thread that has entered the runtime may use the pool after the end of
 * the runtime, and a *detached* job may outlive the runtime. A job is detached when it is cancelled
 * while its call runs, if the call owns its argument (aw_blocking_owned).
 *
 * While a call runs, its thread has entered the runtime. The cancel that detaches a call takes a
 * reference on the runtime's memory for it, and the thread drops it when the call returns. Storage
 * of the caller (aw_runtime_new_in) cannot be kept alive like that: there, a call that may be
 * detached does not enter the runtime.
 *
 * The end of the runtime stores `stop`, and then locks each list and fails its jobs. A submitter
 * loads `stop` under the lock of its list: either it is refused, or its job is found. */
#ifndef AW_BLOCKING_BLOCKING_POOL_H
#define AW_BLOCKING_BLOCKING_POOL_H

#include <awake/alloc.h>
#include <awake/blocking.h>

#include "base/limit.h"
#include "os/idle.h"
#include "os/thread_setup.h"

enum aw__job_stage { AW__JOB_QUEUED, AW__JOB_RUNNING, AW__JOB_DONE };

typedef struct aw__job {
    struct aw__job *next, *prev;
    struct aw__job_list *list;
    aw_blocking_future *future; /* NULL: detached */
    struct aw__blocking *pool;
    const aw_allocator *allocator; /* of the job's own memory, if it has any */
    aw_waker waker;
    enum aw__job_stage stage;
    uint32_t hold; /* atomic: see task/hold.h */
} aw__job;

_Static_assert(sizeof(aw__job) <= sizeof(struct aw__job_storage), "awake/blocking.h");

struct aw__job_list {
    uint32_t lock __attribute__((aligned(64)));
    aw__job *first, *last; /* first: atomic */
};

enum { AW__JOB_LISTS = 8 };

typedef struct aw__blocking {
    struct aw__job_list lists[AW__JOB_LISTS];
    aw__idle idle;
    uint32_t next;     /* atomic: the list for the next job, round robin */
    uint32_t threads;  /* atomic: threads that exist */
    uint32_t started;  /* atomic: threads started so far */
    uint32_t detached; /* atomic: threads that run a detached job */
    uint32_t refs;     /* atomic: of the runtime's memory, and of each thread */
    uint32_t stop;     /* atomic: the runtime has ended */
    uint32_t end_word; /* aw__blocking_join sleeps on it */
    uint32_t max_threads;
    aw__limit calls; /* queued or running */
    uint64_t idle_time;
    aw__threads setup;
    const aw_allocator *allocator;
    void *memory; /* as allocated */
} aw__blocking;

/* Creates the pool with the first job. 0, -ENOMEM, or -ESHUTDOWN: the runtime has ended. */
int aw__blocking_of(aw_runtime *rt, aw__blocking **b);

/* The runtime ends. Refuses new jobs, fails those that are queued with -ESHUTDOWN, and lets idle
 * threads exit. NULL: there is no pool. */
aw__blocking *aw__blocking_stop(aw_runtime *rt);
/* After that: waits until all threads without a detached job have exited. Returns how many run a
 * detached job. */
uint32_t aw__blocking_join(aw__blocking *b);
/* The runtime's memory is about to be freed: drops its reference. */
void aw__blocking_drop(aw_runtime *rt);
/* In the child of a fork, where its threads do not exist: frees the pool. */
void aw__blocking_forget(aw_runtime *rt);

#endif
