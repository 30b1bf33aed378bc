/* SPDX-License-Identifier: MIT
 *
 * awake/task.h: tasks: futures that the runtime owns and runs.
 *
 *     struct hello *h = aw_spawn(AW_CALL(hello, .n = 3));
 *     AW_AWAIT(self->join, aw_task_join(h));          `out` is the status
 *     if (self->join.out == 0) use(h->out);           the output, typed
 *     aw_task_drop(h);
 *
 * The handle is a pointer to the task's frame. Do not touch its members before the join has
 * reported. Release each handle once, with aw_task_drop or aw_task_take. You may use a handle from
 * any thread, but from one at a time. It may outlive the runtime.
 *
 * A spawn that fails cancels the unstarted future and returns a handle that joins with the error.
 * Drop it like any other handle, but do not access its members. Errors:
 *
 *   -ENOMEM       no memory                       -EBUSY        the storage is in use
 *   -ENXIO        no runtime                      -EINVAL       no such worker
 *   -ECANCELED    the runtime is shutting down    -EOWNERDEAD   in the child of a fork
 *   -EAGAIN       more than max_tasks */
#ifndef AWAKE_TASK_H
#define AWAKE_TASK_H

#include <awake/detail/task.h>
#include <awake/future.h>
#include <awake/runtime.h>

AW_C_BEGIN

/* A source location: where a task was spawned (and its name, or NULL), or a lock was taken. */
typedef struct aw_location {
    const char *file;
    int line;
    const char *name;
} aw_location;

/* Spawn on the current or entered runtime, on a given one (from any thread, also before block_on),
 * or with a name (a string literal). */
#define aw_spawn(...)             AW__SPAWN(NULL, NULL, NULL, __VA_ARGS__)
#define aw_spawn_on(rt, ...)      AW__SPAWN((rt), NULL, NULL, __VA_ARGS__)
#define aw_spawn_named(name, ...) AW__SPAWN(NULL, NULL, "" name, __VA_ARGS__)

/* The type-erased form: moves `size` bytes at `f` into the task. `location` is not copied and must
 * stay. `storage` is NULL, or AW_TASK_OVERHEAD + size bytes, 16-byte aligned. */
AW_API aw_future *aw_spawn_future(aw_runtime *rt, aw_future *f, size_t size,
                                  const aw_location *location, void *storage);

/* Spawn on the given worker, counted from 0, of a runtime with workers (NULL: the current or
 * entered one). The task stays on that worker and is never stolen. */
#define aw_spawn_at(rt, worker, ...) AW__SPAWN_AT(rt, worker, __VA_ARGS__)
AW_API aw_future *aw_spawn_future_at(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                                     const aw_location *location, void *storage);

/* Storage for one task at a time, sized at compile time:
 *     static AW_TASK_STORAGE(struct hello) storage;
 *     h = aw_spawn_in(&storage, AW_CALL(hello, .n = 3));
 * Zero it before the first use (static storage is zero). You may use it again when
 * aw_task_storage_free returns true: the task has ended, and its handle and all its wakers are
 * gone. While it is in use a spawn fails with -EBUSY. */
#define AW_TASK_OVERHEAD 96
#define AW_TASK_STORAGE(F)                                                                         \
    struct {                                                                                       \
        char overhead[AW_TASK_OVERHEAD] __attribute__((aligned(16)));                              \
        F frame;                                                                                   \
    }
#define aw_spawn_in(storage, ...)     AW__SPAWN_IN(storage, __VA_ARGS__)
#define aw_task_storage_free(storage) aw__task_storage_free(storage)
AW_API bool aw__task_storage_free(const void *storage);

/* ---- Handles: h is what aw_spawn returned -------------------------------------------------- */

#define AW_TASK(h) ((void)sizeof((h)->future), (aw_future *)(void *)(h))

/* Wait for the end of a task. `out` is
 *
 *   0            finished: the output is in h->out, and is yours
 *   -ECANCELED   cancelled, also because its runtime has ended
 *   other        the code of AW_FAIL (aw_fail), or why the spawn failed
 *
 * An aborted task that finished first joins as finished. Cancelling the join does not affect the
 * task. Only one join may wait at a time. Once a task of the same runtime has polled a join, the
 * join must stay in that runtime. */
/* aw-future: aw_task_join */
typedef struct aw_task_join_future {
    aw_future future;
    int out;
    /* Private. */
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

/* Request cancellation and return at once. The runtime cancels the task, which may still finish. */
#define aw_task_abort(h) aw__task_abort(AW_TASK(h))
AW_API void aw__task_abort(aw_future *task);

/* Release the handle. A task that has not ended continues detached. An output that was not taken is
 * discarded. NULL does nothing. */
#define aw_task_drop(h)   aw__task_drop(AW_TASK(h))
#define aw_task_detach(h) aw__task_drop(AW_TASK(h)) /* the same, to state the intention */
AW_API void aw__task_drop(aw_future *task);

/* The output of a task that joined with 0. Releases the handle. */
#define aw_task_take(h)                                                                            \
    AW__TAKE(aw__task_->out, aw_task_drop(aw__task_), __typeof__(*(h)) *aw__task_ = (h))

#define aw_task_is_finished(h) aw__task_is_finished(AW_TASK(h))
AW_API bool aw__task_is_finished(const aw_future *task);

/* Why the spawn failed, or 0. */
#define aw_task_error(h) aw__task_error(AW_TASK(h))
AW_API int aw__task_error(const aw_future *task);

/* A number that is unique in its runtime; 0 if the spawn failed. */
#define aw_task_id(h) aw__task_id(AW_TASK(h))
AW_API uint64_t aw__task_id(const aw_future *task);
/* The name given at the spawn, else the name of its future. */
#define aw_task_name(h) aw__task_name(AW_TASK(h))
AW_API const char *aw__task_name(const aw_future *task);
/* Where it was spawned; NULL if the spawn failed. */
#define aw_task_location(h) aw__task_location(AW_TASK(h))
AW_API const aw_location *aw__task_location(const aw_future *task);

/* ---- Handles of any type ----------------------------------------------------------------------
 * The same for handles of unknown type, as returned by aw_spawn_future and aw_join_set_next_any.
 *
 *     AW_AWAIT(self->next, aw_join_set_next_any(&self->set, &self->task));
 *     if (self->next.out == 0 && self->task->type == &fetch_type) use((struct fetch *)self->task);
 *     aw_task_drop_any(self->task);
 *
 * After the join has reported 0, aw_future_out(task) points to the output. */
static inline aw_task_join_future aw_task_join_any(aw_future *task) {
    return aw__task_join(task);
}
static inline void aw_task_abort_any(aw_future *task) {
    aw__task_abort(task);
}
static inline void aw_task_drop_any(aw_future *task) {
    aw__task_drop(task);
}
static inline bool aw_task_is_finished_any(const aw_future *task) {
    return aw__task_is_finished(task);
}
static inline int aw_task_error_any(const aw_future *task) {
    return aw__task_error(task);
}
static inline uint64_t aw_task_id_any(const aw_future *task) {
    return aw__task_id(task);
}
static inline const char *aw_task_name_any(const aw_future *task) {
    return aw__task_name(task);
}
static inline const aw_location *aw_task_location_any(const aw_future *task) {
    return aw__task_location(task);
}
/* Copy the output to `out`, which holds `size` bytes, and release the handle. Returns the size of
 * the output. On error you keep the handle: -EMSGSIZE: the output is larger; -EAGAIN: the task has
 * not ended; else the error that its join reports. */
AW_API ptrdiff_t aw_task_take_any(aw_future *task, void *out, size_t size);

/* ---- From inside a task -------------------------------------------------------------------- */

/* The id of the task that this thread polls; 0 in the main future of block_on, and outside. */
AW_API uint64_t aw_current_task_id(void);

/* End this task with an error that its join reports. The task is cancelled when this poll returns.
 * -EINVAL: `code` is not a negative errno; -ENXIO: outside a task. In async functions use AW_FAIL,
 * which does not return. */
AW_API int aw_fail(aw_cx *cx, int code);

/* Run this task without the budget of 128 operations per poll, or with it again. Without it the
 * task keeps the thread as long as it finds work. -ENXIO outside a task; for the main future see
 * awake/task_local.h. */
AW_API int aw_unbudgeted(aw_cx *cx, bool on);

/* From now on this task stays on its current thread: for data that only one thread may ever use.
 * -ENXIO outside a task. */
AW_API int aw_pin(aw_cx *cx);

AW_C_END

#endif
