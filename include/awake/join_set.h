/* SPDX-License-Identifier: MIT
 *
 * awake/join_set.h: tasks that you join in the order in which they end.
 *
 *     AW_ASYNC(int, crawl, aw_join_set set; struct fetch *page; aw_join_set_next_future next;
 *              aw_join_set_shutdown_future end;) {
 *         AW_BEGIN;                                          a set that is all zero is empty
 *         aw_join_set_spawn(&self->set, AW_CALL(fetch, .url = u));
 *         for (;;) {
 *             AW_AWAIT(self->next, aw_join_set_next(&self->set, &self->page));
 *             if (!self->page) break;                        the set is empty
 *             if (self->next.out == 0) use(self->page->out);
 *             aw_task_drop(self->page);
 *         }
 *         AW_RETURN(0);
 *         AW_FINALLY;
 *         if (AW_STARTED) AW_AWAIT(self->end, aw_join_set_shutdown(&self->set));
 *         AW_END;
 *     }
 *
 * The tasks run on any worker, and their results stay in the set until you take them. The tasks
 * must not borrow: use scopes for that (awake/scope.h). For futures that are not tasks see
 * awake/set.h. A set must stay at its address while it has tasks. Empty it by taking them, with
 * aw_join_set_shutdown or with aw_join_set_detach_all. There is nothing to free. Any thread may use
 * a set, and several may wait. */
#ifndef AWAKE_JOIN_SET_H
#define AWAKE_JOIN_SET_H

#include <string.h>

#include <awake/detail/join_set.h>
#include <awake/task.h>
#include <awake/wait.h>

AW_C_BEGIN

/* Its members are private. */
typedef struct aw_join_set {
    uint32_t lock;
    size_t count; /* tasks that were spawned and not taken yet */
    aw__members members[3];
    aw__waiters waiters;
} aw_join_set;

#define AW_JOIN_SET_INIT                                                                           \
    {                                                                                              \
        0, 0, {{NULL, NULL}, {NULL, NULL}, {NULL, NULL}}, {                                        \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

/* Spawn into the set, on the current or a given runtime. Returns a handle like aw_spawn. The set
 * owns the handle until you take it from the set: before that you may abort the task and query its
 * name, but not join or drop it. If the spawn failed, aw_task_error says why and the task is not in
 * the set. */
#define aw_join_set_spawn(set, ...)        AW__JOIN_SET_SPAWN(set, NULL, __VA_ARGS__)
#define aw_join_set_spawn_on(set, rt, ...) AW__JOIN_SET_SPAWN(set, rt, __VA_ARGS__)
AW_API aw_future *aw_join_set_spawn_future(aw_join_set *set, aw_runtime *rt, aw_future *f,
                                           size_t size, const aw_location *location);

/* The number of tasks that were not taken yet, ended or not. */
AW_API size_t aw_join_set_count(const aw_join_set *set);

/* Request cancellation of all tasks. You still have to take them. */
AW_API void aw_join_set_abort_all(aw_join_set *set);
/* Detach all tasks; discard the outputs of those that have ended. Waiters find the set empty. */
AW_API void aw_join_set_detach_all(aw_join_set *set);

/* Take the next task that has ended, or wait for one. Its handle is stored in `*h`, a pointer to
 * the type that was spawned, and is then yours: aw_task_take or aw_task_drop. `out` is what its
 * join would report (awake/task.h). If the set is empty, the handle is NULL and `out` is -ECHILD.
 * If this is cancelled, nothing is taken and the handle is NULL. For tasks of several types use
 * aw_join_set_next_any with an aw_future **, and aw_task_drop_any and the like for its handles. */
/* aw-future: aw_join_set_next */
typedef struct aw_join_set_next_future {
    AW__WAITER;
    aw_join_set *set;
    void *handle;
    aw_task_join_future join;
} aw_join_set_next_future;

AW_API extern const aw_future_type aw_join_set_next_type;

/* The handle is NULL until a task is taken: also if a fiber's await is cancelled. */
static inline aw_join_set_next_future aw__join_set_next(aw_join_set *set, void *handle) {
    aw_join_set_next_future f = {AW__WAITER_INIT(&aw_join_set_next_type, 0), set, handle,
                                 aw__task_join(NULL)};
    aw_future *none = NULL;
    if (handle) memcpy(handle, &none, sizeof none);
    return f;
}
#define aw_join_set_next(set, h)     aw__join_set_next((set), AW__HANDLE_TO(h))
#define aw_join_set_next_any(set, h) aw__join_set_next((set), AW__ANY_HANDLE_TO(h))

/* The same without waiting. -EAGAIN and NULL: no task has ended yet. */
#define aw_join_set_try_next(set, h)     aw__join_set_try_next((set), AW__HANDLE_TO(h))
#define aw_join_set_try_next_any(set, h) aw__join_set_try_next((set), AW__ANY_HANDLE_TO(h))
AW_API int aw__join_set_try_next(aw_join_set *set, void *handle);

/* Abort all tasks, wait for them and release them: `out` is 0. Cancelling does not cut it short. */
/* aw-future: aw_join_set_shutdown */
typedef struct aw_join_set_shutdown_future {
    aw_future future;
    int out;
    aw_future *task;
    aw_join_set_next_future next;
} aw_join_set_shutdown_future;

AW_API extern const aw_future_type aw_join_set_shutdown_type;

static inline aw_join_set_shutdown_future aw_join_set_shutdown(aw_join_set *set) {
    aw_join_set_shutdown_future f = {AW_FUTURE_INIT(&aw_join_set_shutdown_type), 0, NULL,
                                     aw__join_set_next(set, NULL)};
    return f;
}

AW_C_END

#endif
