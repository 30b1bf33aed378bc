/* SPDX-License-Identifier: MIT
 *
 * The threads for blocking calls.
 *
 * Jobs wait in several lists, each with a short lock, so that many threads can submit at once; who submits
 * takes the next list in turn. A job's state, its waker and its place in the list are guarded by the lock of
 * its list. A thread without a job parks, as in workers/idle.h, and leaves when nobody needs it for a
 * while. The pool belongs to its runtime and to its threads; the last of them frees it, because a job that
 * was left to itself may outlive the runtime. */
#ifndef AW_BLOCKING_BLOCKING_H
#define AW_BLOCKING_BLOCKING_H

#include <awake/alloc.h>
#include <awake/blocking.h>

#include "core/limit.h"
#include "runtime/threads.h"
#include "workers/idle.h"

enum aw__job_stage { AW__JOB_QUEUED, AW__JOB_RUNNING, AW__JOB_DONE };

typedef struct aw__job {
    struct aw__job *next, *prev;
    struct aw__job_list *list;
    aw_blocking_future *future; /* NULL: left to itself */
    struct aw__blocking *pool;
    const aw_allocator *allocator; /* of a job that owns its memory */
    aw_waker waker;
    enum aw__job_stage stage;
} aw__job;

_Static_assert(sizeof(aw__job) <= sizeof(struct aw__job_room), "awake/blocking.h");

struct aw__job_list {
    uint32_t lock __attribute__((aligned(64)));
    aw__job *first, *last; /* first: atomic to peek at */
};

enum { AW__JOB_LISTS = 8 };

typedef struct aw__blocking {
    struct aw__job_list lists[AW__JOB_LISTS];
    aw__idle idle;
    uint32_t next;     /* atomic: the list for the next job */
    uint32_t threads;  /* atomic: how many there are */
    uint32_t started;  /* atomic: how many there have been */
    uint32_t detached; /* atomic: of those, busy with a job that was left to itself */
    uint32_t owners;   /* atomic: the runtime and the threads */
    uint32_t stop;     /* atomic: the runtime has ended */
    uint32_t end_word; /* who ends it sleeps on it */
    uint32_t limit;
    aw__limit calls; /* that wait or run */
    uint64_t idle_time;
    aw__threads setup;
    const aw_allocator *allocator;
    void *memory; /* as allocated */
} aw__blocking;

/* Made with the first job; NULL without memory. */
aw__blocking *aw__blocking_of(aw_runtime *rt);

/* The runtime ends: no job is queued any more. Threads without a job leave. Returns how many are busy with
 * jobs that were left to themselves. */
uint32_t aw__blocking_end(aw__blocking *b);
/* In the child of a fork: its threads are gone, and nobody will ask for one. */
void aw__blocking_forget(aw__blocking *b);

#endif
