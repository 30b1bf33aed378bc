/* SPDX-License-Identifier: MIT
 *
 * awake/join_set.h: tasks that are joined in the order in which they end.
 *
 *     AW_ASYNC(int, crawl, aw_join_set set; struct fetch *page; aw_join_set_next_future next;
 *              aw_join_set_shutdown_future end;) {
 *         AW_BEGIN;                                          a set that is all zero is empty
 *         aw_join_set_spawn(&self->set, AW_CALL(fetch, .url = u));
 *         for (;;) {
 *             AW_AWAIT(self->next, aw_join_set_next(&self->set, &self->page));
 *             if (!self->page) break;                        none is left
 *             if (self->next.out == 0) use(self->page->out);
 *             aw_task_drop(self->page);
 *         }
 *         AW_RETURN(0);
 *         AW_FINALLY;
 *         if (AW_STARTED) AW_AWAIT(self->end, aw_join_set_shutdown(&self->set));
 *         AW_END;
 *     }
 *
 * Tasks run on any worker, and what they end with stays in the set until somebody takes it. They borrow
 * nothing: for that there are scopes (awake/scope.h). For futures that are no tasks see awake/set.h. A set must
 * stay where it is as long as there are tasks in it: it is emptied by taking them, by aw_join_set_shutdown or by
 * aw_join_set_detach_all. It has nothing to free. Any thread may use it, and several may wait. */
#ifndef AWAKE_JOIN_SET_H
#define AWAKE_JOIN_SET_H

#include <string.h>

#include <awake/task.h>
#include <awake/wait.h>

AW_C_BEGIN

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

/* Spawn into the set, on the current or a given runtime. Returns a handle as aw_spawn does, which is the set's
 * until it is taken from there: till then it can be aborted, and asked for its name, but neither joined nor
 * dropped. When the spawn fails it says so (aw_task_error), and is not in the set. */
#define aw_join_set_spawn(set, ...)        AW__JOIN_SET_SPAWN(set, NULL, __VA_ARGS__)
#define aw_join_set_spawn_on(rt, set, ...) AW__JOIN_SET_SPAWN(set, rt, __VA_ARGS__)
#define AW__JOIN_SET_SPAWN(set, rt, ...)                                                           \
    __extension__({                                                                                \
        AW__ASSERT_ALIGNED(__VA_ARGS__);                                                           \
        __typeof__(__VA_ARGS__) aw__spawned = (__VA_ARGS__);                                       \
        static const aw_place aw__at = {__FILE__, __LINE__, NULL};                                 \
        (__typeof__(aw__spawned) *)(void *)aw_join_set_spawn_future(                               \
            (set), (rt), &aw__spawned.future, sizeof aw__spawned, &aw__at);                        \
    })
AW_API aw_future *aw_join_set_spawn_future(aw_join_set *set, aw_runtime *rt, aw_future *f,
                                           size_t size, const aw_place *place);

/* Tasks that were not taken yet, whether they have ended or not. */
AW_API size_t aw_join_set_count(const aw_join_set *set);

/* Ask all of them to end. They are still to be taken. */
AW_API void aw_join_set_abort_all(aw_join_set *set);
/* Let all of them go on by themselves; what those that have ended left is discarded. Who waits finds the set
 * empty. */
AW_API void aw_join_set_detach_all(aw_join_set *set);

/* Take the next task that has ended, or wait for one. Its handle goes to `*h`, a pointer to what was spawned, and
 * is then the caller's: aw_task_take or aw_task_drop. `out` is what its join would report (awake/task.h). When
 * the set is empty the handle is NULL, and `out` is -ECHILD. For tasks of several types there is
 * aw_join_set_next_any, with an aw_future **. Cancelled, nothing is taken, and the handle is NULL. */
/* aw-future: aw_join_set_next */
typedef struct aw_join_set_next_future {
    AW__WAITER;
    aw_join_set *set;
    void *handle;
    aw_task_join_future join;
} aw_join_set_next_future;

AW_API extern const aw_future_type aw_join_set_next_type;

/* Until one is taken there is none: so it is also for a fiber whose await is cancelled. */
static inline aw_join_set_next_future aw__join_set_next(aw_join_set *set, void *handle) {
    aw_join_set_next_future f = {AW__WAITER_INIT(&aw_join_set_next_type, 0), set, handle,
                                 aw__task_join(NULL)};
    aw_future *none = NULL;
    if (handle) memcpy(handle, &none, sizeof none);
    return f;
}
#define AW__HANDLE_TO(h)         ((void)sizeof((*(h))->future), (void *)(h))
#define aw_join_set_next(set, h) aw__join_set_next((set), AW__HANDLE_TO(h))
#define aw_join_set_next_any(set, h)                                                               \
    aw__join_set_next((set), ((void)sizeof((*(h))->type->poll), (void *)(h)))

/* The same without waiting; -EAGAIN and NULL: none has ended yet. */
#define aw_join_set_try_next(set, h) aw__join_set_try_next((set), AW__HANDLE_TO(h))
AW_API int aw__join_set_try_next(aw_join_set *set, void *handle);

/* Abort all tasks, wait for them and give them back: `out` is 0. Cannot itself be cut short. */
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
