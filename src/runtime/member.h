/* SPDX-License-Identifier: MIT
 *
 * Tasks that belong to something which is told of their end: a scope, a join set. What that keeps of a member
 * lies behind the task's frame, in the same memory: it is there exactly as long as the task is.
 *
 *   1. Each member that was spawned is told of once, by the thread that ran it last, at the moment at which a
 *      join would report it. Its future, locals, hook and place among max_tasks are done with by then, and
 *      where nobody has its handle so is its output. After that the runtime touches only what is its own.
 *   2. Of a spawn that fails nothing is told.
 *   3. It may end before the spawn has returned. Who spawns has the handle, which keeps the memory.
 *   4. The task points to its membership where others point to their join, marked by an odd address. So nobody
 *      can join it before it has ended. */
#ifndef AW_RUNTIME_MEMBER_H
#define AW_RUNTIME_MEMBER_H

#include <awake/task.h>

typedef struct aw__member aw__member;

/* `status` is what a join reports. `error` is the same, or when that is 0 what the output says, read before
 * it was discarded. */
typedef void aw__member_ended(aw__member *m, int status, int error);

struct aw__member {
    aw__member_ended *ended;
    void *owner;
    aw_future *task; /* set by the spawn */
    /* The rest is the owner's. */
    aw__member *prev, *next;
    uint32_t state, flag;
};

/* As aw_spawn_future; `m` is copied. `asleep`: it runs when it is started, or aborted. */
aw_future *aw__spawn_member(aw_runtime *rt, aw_future *f, size_t size, const aw_place *place,
                            const aw__member *m, bool asleep);
/* Of one that has not been told of, or whose handle one has. */
aw__member *aw__member_of(const aw_future *task);
/* Let one run that is asleep. Touches only a queue. */
void aw__member_start(aw__member *m);

#endif
