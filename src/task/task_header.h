/* SPDX-License-Identifier: MIT
 *
 * A task: this header, directly followed by its future, inside a slab (slab.h) that points to the
 * runtime. The handle that users get is the address of that future.
 *
 * Most fields belong to the *owner*, the thread that runs the runtime, which uses plain loads and
 * stores. Every other thread goes through `shared`, one atomic word, and the inbox (inbox.h). A
 * runtime with workers uses `word` in place of `shared` and `local`: see sched/multi/task_state.h.
 *
 * `shared` holds request bits and a signed reference count:
 *   1. Another thread makes a request (wake, abort, drop the handle, check the count) by setting
 *      the request bit and INBOX in one read-modify-write. The thread that sets INBOX pushes the
 *      task to the inbox, so the task is in there at most once. INBOX keeps the task alive like a
 *      reference.
 *   2. The owner drains the inbox: it takes the whole word with one exchange, adds the count to
 *      `local`, and acts on the bits. The exchange is acquire: what the requesting threads wrote
 *      before their request is visible to the next poll.
 *   3. References (one per waker, the runtime's, the handle's) are counted in two places: the owner
 *      counts in `local`, all other threads in `shared`. Only the sum means something: a waker that
 *      the owner clones and another thread drops leaves +1 in `local` and -1 in `shared`. The task
 *      is freed when the sum is zero and INBOX is clear. Only the owner knows the sum. So a drop by
 *      another thread sends the task to the inbox if it takes the shared count below zero, or to
 *      zero while WATCH is set. When `local` falls to zero or below, the owner moves the whole
 *      count into `shared` and sets WATCH, to be notified when the count reaches zero. It does the
 *      same with the references of wakers before it sleeps with no timer pending: the drop of the
 *      last waker may complete a deadlock.
 *   4. When the sum is zero and INBOX is clear, no other thread can change the word any more. So
 *      the owner may check for that with an acquire load: a task that stays on its thread needs no
 *      locked instruction.
 *   5. When the runtime has ended, the inbox is closed and there is no owner. Then the requesting
 *      thread performs rule 2 itself, under the runtime's lock. */
#ifndef AW_TASK_TASK_HEADER_H
#define AW_TASK_TASK_HEADER_H

#include <awake/task.h>

#include "base/atomic.h"
#include "task/member.h"
#include "task/slab.h"

typedef struct aw__task aw__task;

struct aw__task {
    aw__task *next; /* owner: in the run queue */
    union {
        aw__task *inbox_next;    /* in the inbox */
        struct {                 /* in a worker's queue */
            uint32_t ring_at;    /* pinned tasks: see sched/multi/pinned.h */
            uint32_t poll_epoch; /* YIELDED tasks: see sched/multi/worker.c */
        };
    };
    union {
        struct {
            uint32_t shared; /* atomic: see above */
            int32_t local;   /* owner: references counted by the owner */
        };
        uint64_t word; /* atomic: with workers, see sched/multi/task_state.h */
    };
    int16_t status;       /* atomic: AW__RUNNING until the owner stores the result */
    uint16_t borrows;     /* owner: open borrows, see future/borrow_check.h */
    int32_t armed;        /* owner: waits that will wake the task */
    uint16_t flags;       /* owner */
    int16_t fail;         /* owner: the code of AW_FAIL */
    uint16_t cancelling;  /* owner: futures of this task that are being cancelled */
    uint16_t slab_offset; /* distance from the start of its slab, in steps */
    /* owner: the join that waits on the owner's thread. Odd: the task's aw__member, see member.h */
    struct aw_task_join_future *joiner;
    /* atomic: the aw_location. Odd: the task's locals, which store it, see task_local.c */
    uintptr_t location;
    uint32_t id_low;
    uint16_t id_high;
    uint16_t pin; /* atomic: the only worker that may run the task, counted from 1; 0: any */
};

_Static_assert(sizeof(aw__slab) + sizeof(aw__task) == AW_TASK_OVERHEAD,
               "AW_TASK_OVERHEAD in awake/task.h");

enum { /* shared */
       AW__INBOX = 1,
       AW__WAKE = 2,
       AW__ABORT = 4,
       AW__DROP = 8,   /* the handle was dropped */
       AW__NEW = 16,   /* spawned by another thread: not in the runtime's slab list yet */
       AW__KICK = 32,  /* main task only: check the joins of other threads */
       AW__WATCH = 64, /* notify the owner when the shared count falls to zero */
       AW__REF = 256   /* one reference; the count is signed */
};

enum { /* flags */
       AW__QUEUED = 1,
       AW__DONE = 2,
       AW__CANCEL = 4,          /* cancel the future instead of polling it */
       AW__MAIN = 8,            /* the task of block_on: its future does not follow the header */
       AW__HANDLE = 16,         /* the handle has not been dropped */
       AW__QUEUED_RUNNING = 32, /* queued while RUNNING: see sched/multi/task_state.h */
       AW__UNBUDGETED = 64,     /* polled without a budget */
       AW__COUNTED = 128,       /* a cancel is in progress: watched by report.c */
       AW__YIELDED = 256,       /* woken by its own yield: other ready work goes first */
       AW__FREED = 512,         /* freed; readable in the main task and in free slots of a slab */
       AW__BORROWS = 1024,      /* `borrows` is not 0 */
       AW__PASSED = 2048,       /* YIELDED, and has let other tasks run: see sched/multi/worker.c */
       AW__AGE = 4096           /* four bits: cancel watches that its cancel has lasted */
};

enum { /* status; negative: the error */
       AW__FINISHED = 0,
       AW__RUNNING = 1,
       AW__TAKEN = 2 /* finished, and the holder of the handle has taken the output */
};

static inline aw_future *aw__task_frame(aw__task *t) {
    return (aw_future *)(void *)(t + 1);
}
static inline aw__task *aw__task_of(const aw_future *frame) {
    return (aw__task *)(uintptr_t)frame - 1;
}
static inline int32_t aw__ref_count(uint32_t shared) {
    return (int32_t)shared >> 8;
}

static inline uint64_t aw__task_number(const aw__task *t) {
    return (uint64_t)t->id_high << 32 | t->id_low;
}
static inline void aw__task_set_id(aw__task *t, uint64_t id) {
    t->id_low = (uint32_t)id;
    t->id_high = (uint16_t)(id >> 32);
}

/* Called after a poll. Between polls the count of borrows is in the task, and the meter's is 0. */
static inline void aw__task_save_borrows(aw__task *t, aw__meter *meter) {
    t->borrows = (uint16_t)meter->borrows;
    t->flags = (uint16_t)((t->flags & ~AW__BORROWS) | (t->borrows ? AW__BORROWS : 0));
    meter->borrows = 0;
}

static inline aw__slab *aw__task_slab(const aw__task *t) {
    return (aw__slab *)((uintptr_t)t - (uintptr_t)t->slab_offset * AW__SLAB_STEP);
}
static inline aw_runtime *aw__task_rt(const aw__task *t) {
    return aw__task_slab(t)->rt;
}

/* NULL: the task is not a member. */
static inline aw__member *aw__task_member(const aw__task *t) {
    uintptr_t joiner = (uintptr_t)aw__load_relaxed(&t->joiner);
    return AW__UNLIKELY(joiner & 1) ? (aw__member *)(joiner - 1) : NULL;
}

/* Spawn arguments of a member; NULL for other tasks. */
typedef struct aw__member_args {
    const aw__member *member;
    bool asleep;
} aw__member_args;

/* The fields that both schedulers initialise in the same way. Field by field: gcc clears a struct
 * with a string instruction, which is slow to start. */
static inline void aw__task_init(aw__task *t, const aw_location *location, uint16_t flags) {
    t->next = t->inbox_next = NULL;
    t->status = AW__RUNNING;
    t->armed = 0;
    t->flags = flags;
    t->fail = 0;
    t->joiner = NULL;
    t->location = (uintptr_t)location;
    t->cancelling = t->borrows = 0;
}

/* The size of the frame and, for a member, of the aw__member behind it. */
static inline size_t aw__member_frame_size(const aw__member_args *b, size_t size) {
    return AW__UNLIKELY(b != NULL) ? (size + 15) / 16 * 16 + sizeof(aw__member) : size;
}
/* Call it before the task is visible to other threads. */
void aw__make_member(const aw__member_args *b, aw__task *t, size_t size);
/* The `error` to pass to `ended`. Call it before the output is discarded. */
int aw__member_error(aw__task *t, int status);

/* The handle of a failed spawn is its error times 16, cast to a pointer. */
static inline aw_future *aw__error_handle(int error) {
    return (aw_future *)((intptr_t)error * 16);
}

static inline int aw__handle_error(const aw_future *frame) {
    intptr_t v = (intptr_t)frame;
    return AW__UNLIKELY(v < 0 && v >= -4096 * 16) ? (int)(v / 16) : 0;
}

/* Cancels the unstarted future, and returns an error handle. */
aw_future *aw__spawn_failed(aw_future *f, int error);
/* The same, and returns the permit of max_tasks. */
aw_future *aw__spawn_undone(aw_runtime *rt, aw_future *f, int error);

extern const aw_waker_type aw__task_waker_type;

/* Any thread. */
void aw__task_wake(aw__task *t);
/* Sets request bits and adds `refs` to the shared count; sends the task to the inbox if needed. */
void aw__task_request(aw__task *t, uint32_t bits, int refs);

/* The current-thread scheduler's operations on a task (context/scheduler.h). Any thread. */
void aw__owner_task_abort(aw__task *t);
void aw__owner_task_drop(aw__task *t);
bool aw__owner_task_is_finished(const aw__task *t);

/* Call the hook for a task that was spawned (status AW__RUNNING), or has ended. */
void aw__hook_task(const aw_runtime *rt, const aw__task *t, int status);

/* Owner only. */
void aw__task_wake_local(aw_runtime *rt, aw__task *t);
void aw__task_abort_local(aw__task *t);
void aw__task_unref(aw__task *t);
void aw__task_complete(aw_runtime *rt, aw__task *t, aw_poll result);
/* Perform the requests of other threads: rule 2, and rule 5 once the inbox is closed. */
void aw__task_serve(aw__task *t);
void aw__task_serve_orphan(aw__task *t);

#endif
