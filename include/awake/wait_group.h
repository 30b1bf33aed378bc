/* SPDX-License-Identifier: MIT
 *
 * awake/wait_group.h: wait until all jobs are done.
 *
 *     aw_wait_group_add(&g, 1);                          before each job; -EPIPE: do not start it
 *     aw_wait_group_done(&g);                            at the end of each job, any thread
 *
 *     aw_wait_group_close(&g);                           optional: no more jobs
 *     AW_AWAIT(self->wait, aw_wait_group_wait(&g));      `out` is 0: the count was zero
 *
 * A wait ends when the count reaches zero, even if the count has grown again since. Unless you
 * close the group, that may be between two jobs. You may free the group when every wait has
 * finished. If a wait was cancelled, the calls of aw_wait_group_done must have returned too. Tasks
 * of any runtime, fibers and plain threads (aw_wait) may use the same group. */
#ifndef AWAKE_WAIT_GROUP_H
#define AWAKE_WAIT_GROUP_H

#include <awake/detail/waiter.h>
#include <awake/wait.h>

AW_C_BEGIN

/* All zero is ready for use (AW_WAIT_GROUP_INIT). Must outlive its waiters, and each call except
 * the one that brings the count to zero. Its members are private. */
typedef struct aw_wait_group {
    uint32_t lock;
    uint32_t count, closed;
    uint32_t generation; /* how often the count reached zero; wraps around */
    aw__waiters waiters;
} aw_wait_group;

/* clang-format off */
#define AW_WAIT_GROUP_INIT {0, 0, 0, 0, {NULL, NULL}}
/* clang-format on */

/* 0; -EPIPE: closed; -EOVERFLOW: too many. On failure nothing is changed. */
AW_API int aw_wait_group_add(aw_wait_group *g, uint32_t n);
/* Subtract one. If the count is zero it aborts with a message. */
AW_API void aw_wait_group_done(aw_wait_group *g);
/* From now on every add fails. */
AW_API void aw_wait_group_close(aw_wait_group *g);
/* The count at this moment. */
AW_API uint32_t aw_wait_group_count(aw_wait_group *g);
/* Without waiting: 0: the count is zero; -EAGAIN: it is not. */
AW_API int aw_wait_group_try_wait(aw_wait_group *g);

/* aw-future: aw_wait_group_wait */
typedef struct aw_wait_group_future {
    AW__WAITER;
    aw_wait_group *group;
} aw_wait_group_future;

AW_API extern const aw_future_type aw_wait_group_wait_type;

static inline aw_wait_group_future aw_wait_group_wait(aw_wait_group *g) {
    aw_wait_group_future f = {AW__WAITER_INIT(&aw_wait_group_wait_type, 0), g};
    return f;
}

AW_C_END

#endif
