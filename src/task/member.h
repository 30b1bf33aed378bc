/* SPDX-License-Identifier: MIT
 *
 * Members: tasks of an object that is notified when they end, a scope or a join set. What the
 * object stores for a member is behind the task's frame, in the same memory: it lives exactly as
 * long as the task.
 *
 *   1. `ended` is called once for each spawned member, by the thread that ran it last, at the
 *      moment at which a join would report it. By then the future, locals, hook and max_tasks
 *      permit are released, and so is the output if the handle was dropped. After the call the
 *      runtime does not touch the member.
 *   2. A failed spawn does not call `ended`.
 *   3. A member may end before its spawn returns. The spawning thread has the handle, which keeps
 *      the memory.
 *   4. The task points to its aw__member where other tasks point to their join; an odd address
 *      marks it. So a member cannot be joined before it has ended. */
#ifndef AW_TASK_MEMBER_H
#define AW_TASK_MEMBER_H

#include <awake/task.h>

typedef struct aw__member aw__member;

/* `status` is what a join reports. `error` is the same or, if that is 0, the error in the output,
 * read before the output was discarded. */
typedef void aw__member_ended(aw__member *m, int status, int error);

struct aw__member {
    aw__member_ended *ended;
    void *owner;
    aw_future *task; /* set by the spawn */
    /* For use by `owner`. */
    aw__member *prev, *next;
    uint32_t state, flag;
};

/* As aw_spawn_future; `m` is copied. `asleep`: the task runs only when it is started or aborted. */
aw_future *aw__spawn_member(aw_runtime *rt, aw_future *f, size_t size, const aw_location *location,
                            const aw__member *m, bool asleep);
/* Valid until `ended` has been called, or as long as the caller has the handle. */
aw__member *aw__member_of(const aw_future *task);
/* Start a task that is asleep. Touches only a queue. */
void aw__member_start(aw__member *m);

#endif
