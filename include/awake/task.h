/* SPDX-License-Identifier: MIT
 *
 * awake/task.h: a task is a future that the runtime owns.
 *
 *     struct hello *h = aw_spawn(AW_CALL(hello, .n = 3));
 *     AW_AWAIT(self->join, aw_task_join(h));          `out` is the status
 *     if (self->join.out == 0) use(h->out);           the output, typed
 *     aw_task_drop(h);
 *
 * The handle is a pointer to the task's frame: its members must not be touched before the join has
 * reported. Each handle is given back once, with aw_task_drop or aw_task_take. Handles may be used
 * from any thread, by one at a time; they may outlive the runtime.
 *
 * A spawn that fails (no memory: -ENOMEM, shutting down: -ECANCELED, no runtime: -ENXIO, storage in
 * use: -EBUSY, no such worker: -EINVAL, more than max_tasks: -EAGAIN, in the child of a fork: -EOWNERDEAD)
 * cancels the unstarted future before it returns, and gives a handle that joins with that error. Such a
 * handle is dropped like any other; it must not be looked into. */
#ifndef AWAKE_TASK_H
#define AWAKE_TASK_H

#include <awake/future.h>
#include <awake/runtime.h>

AW_C_BEGIN

/* Where a task was spawned, and its name when it was given one; where a lock was taken. */
typedef struct aw_place {
    const char *file;
    int line;
    const char *name;
} aw_place;

/* This place in the source. */
#define AW__HERE                                                                                   \
    __extension__({                                                                                \
        static const aw_place aw__here = {__FILE__, __LINE__, NULL};                               \
        &aw__here;                                                                                 \
    })

/* Spawn on the current or entered runtime, on a given one (from any thread, also before block_on),
 * with a name (a string literal), or into storage of the caller's. */
#define aw_spawn(...)             AW__SPAWN(NULL, NULL, NULL, __VA_ARGS__)
#define aw_spawn_on(rt, ...)      AW__SPAWN((rt), NULL, NULL, __VA_ARGS__)
#define aw_spawn_named(name, ...) AW__SPAWN(NULL, NULL, "" name, __VA_ARGS__)

#define AW__SPAWN(rt, storage, name, ...)                                                          \
    __extension__({                                                                                \
        AW__ASSERT_ALIGNED(__VA_ARGS__);                                                           \
        __typeof__(__VA_ARGS__) aw__spawned = (__VA_ARGS__);                                       \
        static const aw_place aw__at = {__FILE__, __LINE__, name};                                 \
        (__typeof__(aw__spawned) *)(void *)aw_spawn_future((rt), &aw__spawned.future,              \
                                                           sizeof aw__spawned, &aw__at, storage);  \
    })

/* The erased form: moves `size` bytes at `f` into the task. `place` is kept, not copied; `storage`
 * is NULL, or room for AW_TASK_OVERHEAD + size bytes, 16-byte aligned. */
AW_API aw_future *aw_spawn_future(aw_runtime *rt, aw_future *f, size_t size, const aw_place *place,
                                  void *storage);

/* Spawn on a given worker, counted from 0, of a runtime that has workers (NULL: the current or entered one). The
 * task stays there, also where workers take from each other. */
#define aw_spawn_at(rt, worker, ...)                                                               \
    __extension__({                                                                                \
        AW__ASSERT_ALIGNED(__VA_ARGS__);                                                           \
        __typeof__(__VA_ARGS__) aw__spawned = (__VA_ARGS__);                                       \
        static const aw_place aw__at = {__FILE__, __LINE__, NULL};                                 \
        (__typeof__(aw__spawned) *)(void *)aw_spawn_future_at((rt), (worker), &aw__spawned.future, \
                                                              sizeof aw__spawned, &aw__at, NULL);  \
    })
AW_API aw_future *aw_spawn_future_at(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                                     const aw_place *place, void *storage);

/* Storage for one task at a time, sized at compile time:
 *     static AW_TASK_STORAGE(struct hello) room;
 *     h = aw_spawn_in(&room, AW_CALL(hello, .n = 3));
 * It may be used again once aw_task_storage_free says so: the task has ended, and its handle and
 * every waker are gone. In use it answers -EBUSY. Zero it before the first use (static is). */
#define AW_TASK_OVERHEAD 96
#define AW_TASK_STORAGE(F)                                                                         \
    struct {                                                                                       \
        char overhead[AW_TASK_OVERHEAD] __attribute__((aligned(16)));                              \
        F frame;                                                                                   \
    }
#define aw_spawn_in(room, ...)                                                                     \
    __extension__({                                                                                \
        AW__STATIC_ASSERT(sizeof((room)->frame) >= sizeof(__VA_ARGS__),                            \
                          "the storage is too small");                                             \
        AW__SPAWN(NULL, (room), NULL, __VA_ARGS__);                                                \
    })
#define aw_task_storage_free(room) aw__task_storage_free(room)
AW_API bool aw__task_storage_free(const void *room);

/* ---- Handles: h is what aw_spawn returned ----------------------------------------------------- */

#define AW_TASK(h) ((void)sizeof((h)->future), (aw_future *)(void *)(h))

/* Wait for the end. `out` is 0: finished, the output is in h->out and counts as taken;
 * -ECANCELED: cancelled (also when its runtime has ended); another negative errno: the code of
 * AW_FAIL (aw_fail), or why the spawn failed. An aborted task that finished first joins as finished. Cancelling
 * the join leaves the task alone. One join at a time; once polled by a task of the same runtime it must
 * stay in that runtime. */
/* aw-future: aw_task_join */
typedef struct aw_task_join_future {
    aw_future future;
    int out;
    bool linked, outside;
    aw_future *task;
    aw_waker waker;
    struct aw_task_join_future *next, *prev;
} aw_task_join_future;

AW_API extern const aw_future_type aw_task_join_type;

static inline aw_task_join_future aw__task_join(aw_future *task) {
    aw_task_join_future f = {
        AW_FUTURE_INIT(&aw_task_join_type), 0, false, false, task, {NULL, NULL}, NULL, NULL};
    return f;
}
#define aw_task_join(h) aw__task_join(AW_TASK(h))

/* Ask it to end. Returns at once; the task is cancelled by its runtime, and may still finish. */
#define aw_task_abort(h) aw__task_abort(AW_TASK(h))
AW_API void aw__task_abort(aw_future *task);

/* Give the handle back. A task that has not ended goes on by itself (it is detached); an output that
 * nobody took is discarded. NULL is nothing to give back. */
#define aw_task_drop(h)   aw__task_drop(AW_TASK(h))
#define aw_task_detach(h) aw__task_drop(AW_TASK(h)) /* the same, where this is what is meant */
AW_API void aw__task_drop(aw_future *task);

/* The output of a task whose join reported 0; gives the handle back. */
#define aw_task_take(h)                                                                            \
    __extension__({                                                                                \
        __typeof__(*(h)) *aw__task_ = (h);                                                         \
        __typeof__(aw__task_->out) aw__out = aw__task_->out;                                       \
        aw_task_drop(aw__task_);                                                                   \
        aw__out;                                                                                   \
    })

#define aw_task_is_finished(h) aw__task_is_finished(AW_TASK(h))
AW_API bool aw__task_is_finished(const aw_future *task);

/* Why the spawn failed, or 0. */
#define aw_task_error(h) aw__task_error(AW_TASK(h))
AW_API int aw__task_error(const aw_future *task);

/* A number that no other task of the runtime has; 0 when the spawn failed. */
#define aw_task_id(h) aw__task_id(AW_TASK(h))
AW_API uint64_t aw__task_id(const aw_future *task);
/* The name it was given, or that of its future. */
#define aw_task_name(h) aw__task_name(AW_TASK(h))
AW_API const char *aw__task_name(const aw_future *task);
/* Where it was spawned; NULL when the spawn failed. */
#define aw_task_place(h) aw__task_place(AW_TASK(h))
AW_API const aw_place *aw__task_place(const aw_future *task);

/* ---- From inside a task ----------------------------------------------------------------------- */

/* The id of the task that is being polled on this thread; 0 in the main future or outside. */
AW_API uint64_t aw_current_task_id(void);

/* End this task with an error that its join reports: it is cancelled as soon as this poll returns.
 * The code is a negative errno; -EINVAL otherwise, -ENXIO outside a task. In async functions use
 * AW_FAIL, which does not run on. */
AW_API int aw_fail(aw_cx *cx, int code);

/* Run this task without the budget of 128 operations a poll (or with it again): it may then keep
 * the thread for as long as it finds work. -ENXIO outside a task; for the main future see awake/local.h. */
AW_API int aw_unbudgeted(aw_cx *cx, bool on);

/* From now on this task stays on the thread that runs it: for what is not safe to use from several, even
 * one after the other. -ENXIO outside a task. */
AW_API int aw_pin(aw_cx *cx);

/* Private: tasks of a scope or a join set. */
typedef struct aw__members {
    struct aw__member *first, *last;
} aw__members;

AW_C_END

#endif
