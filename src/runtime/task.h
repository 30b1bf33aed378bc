/* SPDX-License-Identifier: MIT
 *
 * A task: this header and, right behind it, the future, in a room (room.h), which knows the runtime. The
 * handle that users get is the address of that future.
 *
 * Two kinds of fields. Most belong to the *owner*, the thread that runs the runtime, which uses plain
 * loads and stores. Every other thread goes through `shared`, one atomic word, and the inbox.
 *
 * `shared` holds request bits and a signed count of references:
 *   1. Another thread that wants something (wake, abort, drop the handle, look at the count) sets the
 *      request bit and INBOX in one read-modify-write. Whoever sets INBOX pushes the task to the
 *      inbox; it is in there at most once. INBOX keeps the task alive like a reference.
 *   2. The owner empties the inbox: it takes the whole word with one exchange (acquire: what the
 *      others wrote before their request is visible to the next poll), adds the count to `local`, and
 *      acts on the bits.
 *   3. References (wakers; the runtime's own; the handle's) are counted in two places: `local` by the
 *      owner, `shared` by everyone else. Only their sum means something: a waker cloned here and
 *      dropped there leaves 1 here and -1 there. The task is free when the sum is zero and INBOX is
 *      not set. Only the owner can know the sum, so another thread whose drop takes the shared count
 *      below zero, or to zero while WATCH is set, sends the task to the inbox. When `local` falls to
 *      zero or below, the owner moves all of the count into `shared` and sets WATCH, which asks to be
 *      told when that is zero. Before it sleeps for want of anything to do it moves there what is not
 *      its own, and sets WATCH too: it wants to know when the last waker of others is gone.
 *   4. When sum and INBOX are zero nobody can change the word any more, so the owner may see that
 *      with a plain acquire load: no locked instruction in the life of a task that stays on its thread.
 *   5. After the runtime has ended the inbox is closed. Then there is no owner, and what rule 2 does is
 *      done by the requesting thread itself, under the runtime's lock. */
#ifndef AW_RUNTIME_TASK_H
#define AW_RUNTIME_TASK_H

#include <awake/task.h>

#include "core/atomic.h"
#include "runtime/member.h"
#include "runtime/room.h"

typedef struct aw__task aw__task;

struct aw__task {
    aw__task *next;       /* owner: in the run queue */
    aw__task *inbox_next; /* in the inbox */
    union {
        struct {
            uint32_t shared; /* atomic: see above */
            int32_t local;   /* owner: references counted here */
        };
        uint64_t word; /* atomic: of a runtime with workers, in place of both: workers/word.h */
    };
    int16_t status;      /* atomic: see AW__RUNNING; written by the owner when it ends */
    uint16_t opened;     /* owner: what it has opened, and not ended: core/opened.h */
    int32_t armed;       /* owner: waits that will wake it */
    uint16_t flags;      /* owner */
    int16_t fail;        /* owner: the code of AW_FAIL */
    uint16_t cancelling; /* owner: futures in it that are being cancelled */
    uint16_t room;       /* where its room begins: so many steps before it */
    /* owner: the join that waits for it on this thread; or, odd, what it is a member of: member.h */
    struct aw_task_join_future *joiner;
    uintptr_t
        place; /* atomic: the aw_place; when odd the task has locals, which know it: local.c */
    uint32_t id_low;
    uint16_t id_high;
    uint16_t pin; /* atomic: the worker that alone may run it, counted from 1; 0: any */
};

_Static_assert(sizeof(aw__room) + sizeof(aw__task) == AW_TASK_OVERHEAD,
               "AW_TASK_OVERHEAD in awake/task.h");

enum { /* shared */
       AW__INBOX = 1,
       AW__WAKE = 2,
       AW__ABORT = 4,
       AW__DROP = 8,   /* the handle was given back */
       AW__NEW = 16,   /* spawned by another thread: not in the runtime's list yet */
       AW__KICK = 32,  /* of the main task: look at the joins of other threads */
       AW__WATCH = 64, /* tell the owner when the count here falls to zero */
       AW__REF = 256   /* one reference; the count is signed */
};

enum { /* flags */
       AW__QUEUED = 1,
       AW__DONE = 2,
       AW__CANCEL = 4,    /* to be cancelled, not polled */
       AW__MAIN = 8,      /* the future of block_on, which is not behind the header */
       AW__HANDLE = 16,   /* somebody has the handle */
       AW__HELD = 32,     /* queued though it is RUNNING: workers/word.h */
       AW__FREELY = 64,   /* without a budget */
       AW__COUNTED = 128, /* in the runtime's count of tasks that are being cancelled */
       AW__YIELDED = 256, /* woken while it runs, and content to wait */
       AW__FREED = 512,   /* given back; can be seen in the main task only */
       AW__OPENED = 1024, /* `opened` is not 0 */
       AW__AGE = 4096     /* four bits: how many watches its cancel has lasted */
};

enum { /* status; negative: the error */
       AW__FINISHED = 0,
       AW__RUNNING = 1,
       AW__TAKEN = 2 /* finished, and the output has been taken; written by the handle's holder */
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

/* After a poll: between two polls the count is in the task, and the meter's is 0. */
static inline void aw__task_opened(aw__task *t, aw__meter *meter) {
    t->opened = (uint16_t)meter->opened;
    t->flags = (uint16_t)((t->flags & ~AW__OPENED) | (t->opened ? AW__OPENED : 0));
    meter->opened = 0;
}

static inline aw__room *aw__task_room(const aw__task *t) {
    return (aw__room *)((uintptr_t)t - (uintptr_t)t->room * AW__ROOM_STEP);
}
static inline aw_runtime *aw__task_rt(const aw__task *t) {
    return aw__task_room(t)->rt;
}

/* NULL: of nothing. */
static inline aw__member *aw__task_member(const aw__task *t) {
    uintptr_t joiner = (uintptr_t)aw__load_relaxed(&t->joiner);
    return AW__UNLIKELY(joiner & 1) ? (aw__member *)(joiner - 1) : NULL;
}

/* How a member is spawned; NULL for all others. */
typedef struct aw__birth {
    const aw__member *member;
    bool asleep;
} aw__birth;

/* The size of the frame and what is behind it. */
static inline size_t aw__birth_size(const aw__birth *b, size_t size) {
    return AW__UNLIKELY(b != NULL) ? (size + 15) / 16 * 16 + sizeof(aw__member) : size;
}
/* Before the task can be seen. */
void aw__make_member(const aw__birth *b, aw__task *t, size_t size);
/* Before its output is discarded: what will be told as `error`. */
int aw__member_error(aw__task *t, int status);

/* A handle that stands for a failed spawn is a small negative multiple of 16. */
static inline aw_future *aw__error_handle(int error) {
    return (aw_future *)((intptr_t)error * 16);
}

static inline int aw__handle_error(const aw_future *frame) {
    intptr_t v = (intptr_t)frame;
    return AW__UNLIKELY(v < 0 && v >= -4096 * 16) ? (int)(v / 16) : 0;
}

/* Cancels the unstarted future, and gives such a handle. */
aw_future *aw__spawn_failed(aw_future *f, int error);
/* The same after it was counted: gives its place back. */
aw_future *aw__spawn_undone(aw_runtime *rt, aw_future *f, int error);

extern const aw_waker_type aw__task_waker_type;

/* Any thread. */
void aw__task_wake(aw__task *t);
/* Ask the owner to look at a task: request bits, and a change to the count of references. */
void aw__task_request(aw__task *t, uint32_t bits, int refs);

/* Owner only. */
void aw__task_wake_local(aw_runtime *rt, aw__task *t);
void aw__task_abort_local(aw__task *t);
void aw__task_release(aw__task *t);
void aw__task_complete(aw_runtime *rt, aw__task *t, aw_poll answer);
/* Act on what other threads asked for (rule 2), or, once closed, on their behalf (rule 5). */
void aw__task_serve(aw__task *t);
void aw__task_serve_orphan(aw__task *t);

#endif
