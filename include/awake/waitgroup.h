/* SPDX-License-Identifier: MIT
 *
 * awake/waitgroup.h: wait until all are done.
 *
 *     aw_wait_group_add(&g, 1);                          before each begins; -EPIPE: closed, so it must not
 *     aw_wait_group_done(&g);                            by each at its end, any thread
 *
 *     aw_wait_group_close(&g);                           nobody is let in any more: optional
 *     AW_AWAIT(self->wait, aw_wait_group_wait(&g));      `out` is 0: nobody is left
 *
 * A wait that has begun ends when the count is zero, also when it has grown again since. Without closing it, this
 * may be between two jobs. The group may be freed when every wait has finished; if one was cancelled, when the calls of
 * aw_wait_group_done have returned as well. Tasks of any runtime, fibers and plain
 * threads (aw_wait) may use the same one. */
#ifndef AWAKE_WAITGROUP_H
#define AWAKE_WAITGROUP_H

#include <awake/wait.h>

AW_C_BEGIN

/* All zero is ready for use (AW_WAIT_GROUP_INIT). Must outlive its waiters and each call that does not end the count. */
typedef struct aw_wait_group {
    uint32_t lock;
    uint32_t count, closed;
    uint32_t generation; /* how often the count has become zero; it wraps around */
    aw__waiters waiters;
} aw_wait_group;

/* clang-format off */
#define AW_WAIT_GROUP_INIT {0, 0, 0, 0, {NULL, NULL}}
/* clang-format on */

/* 0; -EPIPE: closed; -EOVERFLOW: too many. On failure nothing is changed. */
AW_API int aw_wait_group_add(aw_wait_group *g, uint32_t n);
/* One less. With none there it ends the program with a message. */
AW_API void aw_wait_group_done(aw_wait_group *g);
/* From now on every add is refused. */
AW_API void aw_wait_group_close(aw_wait_group *g);
/* How many there are at this moment. */
AW_API uint32_t aw_wait_group_count(aw_wait_group *g);
/* Without waiting: 0: nobody is left; -EAGAIN. */
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
