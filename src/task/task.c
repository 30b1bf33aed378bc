/* SPDX-License-Identifier: MIT
 *
 * The life of a task: spawn, wake, abort, completion, free. The protocol is in task_header.h. Tasks
 * of a runtime with workers are handed to sched/multi/pool_task.c. */
#include "task/task_header.h"

#include <awake/async.h>

#include <errno.h>
#include <string.h>

#include "base/allocate.h"
#include "base/misuse.h"
#include "future/unstarted.h"
#include "future/wake.h"
#include "os/lock.h"
#include "task/inbox.h"
#include "task/join.h"
#include "task/locals.h"
#include "task/owner_park.h"
#include "task/task_end.h"

/* ---- Requests from other threads ------------------------------------------------------------- */

/* The runtime has ended: there is no owner, and the lock replaces it (rule 5). Of all requests,
 * only dropping references still has an effect. */
void aw__task_serve_orphan(aw__task *t) {
    aw_runtime *rt = aw__task_rt(t);
    bool forked = aw__rt_forked(rt);
    if (forked && !rt->base.forgotten) return; /* a thread that is gone may hold the lock */
    aw__lock(&rt->base.lock);
    uint32_t bits = aw__exchange(&t->shared, 0u);
    t->local += aw__ref_count(bits);
    if (t->flags & AW__FREED) { /* main task: a request without a reference, too late */
        aw__unlock(&rt->base.lock);
        return;
    }
    if (bits & AW__DROP && aw__load_relaxed(&t->status) == AW__FINISHED && !forked) {
        /* Unlocked: discard is user code. The handle's reference keeps the task. */
        aw__unlock(&rt->base.lock);
        aw_future_discard(aw__task_frame(t));
        aw__lock(&rt->base.lock);
    }
    if (bits & AW__DROP) t->local--;
    t->local++;
    aw__task_unref(t);
    bool last = aw__rt_is_unused(rt);
    aw__unlock(&rt->base.lock);
    if (last) rt->base.sched->free_memory(rt);
}

void aw__task_request(aw__task *t, uint32_t bits, int refs) {
    aw_runtime *rt = aw__task_rt(t);
    uint32_t old = aw__load_relaxed(&t->shared), new;
    bool send;
    do {
        new = (old | bits) + (uint32_t)(refs * AW__REF);
        int32_t count = aw__ref_count(new);
        send = bits || (refs < 0 && (count < 0 || (count == 0 && new &AW__WATCH)));
        if (send) new |= AW__INBOX;
    } while (!aw__cas(&t->shared, &old, new));
    /* Unless this call set INBOX or still has a reference, the task may be freed by now. */
    if (send && !(old & AW__INBOX) && !aw__inbox_push(rt, t)) aw__task_serve_orphan(t);
}

void aw__task_serve(aw__task *t) {
    aw_runtime *rt = aw__task_rt(t);
    uint32_t bits = aw__exchange(&t->shared, 0u);
    t->local += aw__ref_count(bits) + 1; /* keeps the task during this call */
    if (bits & AW__NEW) {
        rt->allocated++;
        rt->live++;
        aw__slab_adopt(t);
        if (aw__load_relaxed(&rt->closing)) {
            aw__cancel_unstarted(aw__task_frame(t));
            aw__task_complete(rt, t, AW_CANCELLED);
        }
    }
    if (bits & AW__ABORT) aw__task_abort_local(t);
    if (bits & AW__WAKE) aw__task_wake_local(rt, t);
    if (bits & AW__KICK) aw__rt_wake_joins(rt);
    if (bits & AW__DROP) {
        t->flags &= (uint16_t)~AW__HANDLE;
        if (aw__load_relaxed(&t->status) == AW__FINISHED) aw_future_discard(aw__task_frame(t));
        aw__task_unref(t);
    }
    aw__task_unref(t);
}

/* ---- References ------------------------------------------------------------------------------ */

static void free_task(aw__task *t) {
    aw_runtime *rt = aw__task_rt(t);
    rt->allocated--;
    if (AW__UNLIKELY(t->location & 1)) aw__locals_free(t);
    t->flags |= AW__FREED;
    if (!(t->flags & AW__MAIN)) aw__slab_free(t); /* the main task is part of the runtime */
}

void aw__task_unref(aw__task *t) {
    if (--t->local > 0) return;
    uint32_t old = aw__load_acquire(&t->shared), new;
    do {
        if (old & AW__INBOX) return; /* serving it calls this again */
        int32_t sum = t->local + aw__ref_count(old);
        if (sum == 0) { /* rule 4 */
            free_task(t);
            return;
        }
        new = AW__WATCH | (uint32_t)(sum * AW__REF);
    } while (!aw__cas(&t->shared, &old, new));
    t->local = 0;
}

/* ---- Wakers ---------------------------------------------------------------------------------- */

/* The task is queued after its poll, if it has not ended. A plain wake overrides a yield. */
static inline void wake_current(aw_runtime *rt, aw__task *t) {
    if (!rt->meter.yielding)
        t->flags = (uint16_t)((t->flags | AW__QUEUED) & ~AW__YIELDED);
    else if (!(t->flags & AW__QUEUED))
        t->flags |= AW__QUEUED | AW__YIELDED;
}

void aw__task_wake_local(aw_runtime *rt, aw__task *t) {
    if (t == rt->current) {
        wake_current(rt, t);
    } else if (!(t->flags & (AW__QUEUED | AW__DONE))) {
        t->flags |= AW__QUEUED;
        aw__queue_push(&rt->ready, t);
    }
}

void aw__task_wake(aw__task *t) {
    aw_runtime *rt = aw__context.owned;
    if (rt && t == rt->current)
        wake_current(rt, t);
    else if (rt && rt == aw__task_rt(t))
        aw__task_wake_local(rt, t);
    else
        aw__task_request(t, AW__WAKE, 0);
}

static aw_waker task_waker_clone(void *data) {
    aw__task *t = data;
    if (aw__is_owner(aw__task_rt(t)))
        t->local++;
    else
        aw__fetch_add_relaxed(&t->shared, (uint32_t)AW__REF);
    return (aw_waker){&aw__task_waker_type, t};
}

static void task_waker_wake_by_ref(void *data) {
    aw__task_wake(data);
}

static void task_waker_wake(void *data) {
    aw__task *t = data;
    aw_runtime *rt = aw__task_rt(t);
    if (aw__is_owner(rt)) {
        aw__task_wake_local(rt, t);
        aw__task_unref(t);
    } else {
        aw__task_request(t, AW__WAKE, -1);
    }
}

static void task_waker_drop(void *data) {
    aw__task *t = data;
    if (aw__is_owner(aw__task_rt(t)))
        aw__task_unref(t);
    else
        aw__task_request(t, 0, -1);
}

const aw_waker_type aw__task_waker_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "task",
    .flags = AW_WAKES_UNDER_LOCK,
    .clone = task_waker_clone,
    .wake = task_waker_wake,
    .wake_by_ref = task_waker_wake_by_ref,
    .drop = task_waker_drop,
};

/* ---- Spawn ----------------------------------------------------------------------------------- */

aw_future *aw__spawn_failed(aw_future *f, int error) {
    aw__cancel_unstarted(f);
    return aw__error_handle(error);
}

aw_future *aw__spawn_undone(aw_runtime *rt, aw_future *f, int error) {
    aw__limit_give(&rt->tasks);
    return aw__spawn_failed(f, error);
}

AW__COLD void aw__hook_task(const aw_runtime *rt, const aw__task *t, int status) {
    const aw_location *location = aw__location_of(t);
    const aw_future *f = aw__task_frame((aw__task *)(uintptr_t)t);
    aw_task_info info = {aw__task_number(t), location->name ? location->name : f->type->name,
                         location};
    if (status == AW__RUNNING)
        rt->hooks.task_spawn(rt->hooks.data, &info);
    else
        rt->hooks.task_end(rt->hooks.data, &info, status);
}

/* `worker` is counted from 1; 0: any worker. */
static inline aw_future *spawn(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                               const aw_location *location, void *storage,
                               const aw__member_args *member) {
    if (!rt)
        rt = aw__context.owned ? aw__context.owned : aw_runtime_current();
    else if (aw__rt_forked(rt))
        return aw__spawn_failed(f, -EOWNERDEAD);
    if (!rt) {
        aw_log(AW_LOG_PROBLEM, "%s:%d: spawn of '%s' outside a runtime: enter one first",
               location->file, location->line, f->type->name);
        return aw__spawn_failed(f, -ENXIO);
    }
    if (aw__load_acquire(&rt->closing)) return aw__spawn_failed(f, -ECANCELED);
    if (size > UINT32_MAX - AW_TASK_OVERHEAD - sizeof(aw__member) - 16)
        return aw__spawn_failed(f, -ENOMEM);
    if (storage && !aw__task_storage_free(storage)) return aw__spawn_failed(f, -EBUSY);
    if (worker && worker > rt->base.workers) return aw__spawn_failed(f, -EINVAL);
    if (!aw__limit_take(&rt->tasks)) return aw__spawn_failed(f, -EAGAIN);
    if (rt->base.has_workers)
        return rt->base.sched->spawn(rt, worker, f, size, location, storage, member);
    aw__task *t = storage ? aw__slab_in_storage(rt, storage)
                          : aw__slab_alloc(rt, aw__member_frame_size(member, size));
    if (!t) return aw__spawn_undone(rt, f, -ENOMEM);

    aw__task_init(t, location, AW__HANDLE);
    t->shared = 0;
    t->local = 2; /* the runtime's and the handle's reference */
    memcpy(aw__task_frame(t), f, size);
    bool asleep = AW__UNLIKELY(member != NULL) && member->asleep;
    if (AW__UNLIKELY(member != NULL)) aw__make_member(member, t, size);
    if (aw__is_owner(rt)) {
        aw__task_set_id(t, rt->next_id += 2);
        rt->allocated++;
        rt->live++;
        if (!asleep) {
            t->flags |= AW__QUEUED;
            aw__queue_push(&rt->ready, t);
        }
        aw__task_spawned(rt, t);
    } else {
        aw__task_set_id(t, aw__fetch_add_relaxed(&rt->outside_ids, (uint64_t)2));
        t->shared = AW__NEW | AW__INBOX | (asleep ? 0 : AW__WAKE);
        aw__task_spawned(rt, t);
        if (!aw__inbox_push(rt, t)) {
            aw__task_ended(rt, t, -ECANCELED);
            aw_future *failed = aw__spawn_undone(rt, aw__task_frame(t), -ECANCELED);
            aw__slab_free(t);
            return failed;
        }
    }
    return aw__task_frame(t);
}

aw_future *aw_spawn_future(aw_runtime *rt, aw_future *f, size_t size, const aw_location *location,
                           void *storage) {
    return spawn(rt, 0, f, size, location, storage, NULL);
}

aw_future *aw_spawn_future_at(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                              const aw_location *location, void *storage) {
    /* UINT32_MAX is refused by spawn. */
    return spawn(rt, worker < UINT32_MAX ? worker + 1 : UINT32_MAX, f, size, location, storage,
                 NULL);
}

bool aw__task_storage_free(const void *storage) {
    return aw__load_acquire(&((const aw__slab *)storage)->rt) == NULL;
}

/* ---- Members --------------------------------------------------------------------------------- */

aw_future *aw__spawn_member(aw_runtime *rt, aw_future *f, size_t size, const aw_location *location,
                            const aw__member *m, bool asleep) {
    aw__member_args member = {m, asleep};
    return spawn(rt, 0, f, size, location, NULL, &member);
}

void aw__make_member(const aw__member_args *b, aw__task *t, size_t size) {
    aw_future *frame = aw__task_frame(t);
    aw__member *m = (aw__member *)(void *)((char *)frame + (size + 15) / 16 * 16);
    *m = *b->member;
    m->task = frame;
    t->joiner = (void *)((uintptr_t)m | 1);
}

int aw__member_error(aw__task *t, int status) {
    return status == AW__FINISHED ? aw_future_error(aw__task_frame(t)) : status;
}

aw__member *aw__member_of(const aw_future *task) {
    return aw__task_member(aw__task_of(task));
}

void aw__member_start(aw__member *m) {
    aw__task *t = aw__task_of(m->task);
    aw__task_rt(t)->base.sched->wake(t);
}

/* ---- End ------------------------------------------------------------------------------------- */

void aw__task_complete(aw_runtime *rt, aw__task *t, aw_poll result) {
    t->flags |= AW__DONE;
    int error, status = aw__task_end(t, result, &error);
    aw__member *member = aw__task_member(t);
    if (!(t->flags & AW__MAIN)) {
        rt->live--;
        aw__limit_give(&rt->tasks);
        aw__task_ended(rt, t, status);
        if (result == AW_READY && !(t->flags & AW__HANDLE)) aw_future_discard(aw__task_frame(t));
    }
    /* Release: makes the output visible to a join on another thread. */
    aw__store_release(&t->status, status);
    if (AW__UNLIKELY(member != NULL)) {
        member->ended(member, status, error);
    } else if (t->joiner) {
        aw_waker waker = t->joiner->waker, later;
        t->joiner = NULL;
        if (AW__LIKELY(waker.type == &aw__task_waker_type))
            aw__task_wake(waker.data);
        else if (aw__wake_or_clone(&waker, &later))
            aw_waker_wake(later);
    }
    if (aw__load_relaxed(&rt->joins)) aw__rt_wake_joins(rt);
    if (!(t->flags & AW__MAIN)) aw__task_unref(t);
}

/* ---- Handles --------------------------------------------------------------------------------- */

void aw__task_abort_local(aw__task *t) {
    if (t->flags & (AW__DONE | AW__CANCEL)) return;
    t->flags |= AW__CANCEL;
    aw__task_wake_local(aw__task_rt(t), t);
}

void aw__owner_task_abort(aw__task *t) {
    if (aw__is_owner(aw__task_rt(t)))
        aw__task_abort_local(t);
    else
        aw__task_request(t, AW__ABORT, 0);
}

void aw__owner_task_drop(aw__task *t) {
    if (!aw__is_owner(aw__task_rt(t))) {
        aw__task_request(t, AW__DROP, 0); /* the owner drops the handle's reference */
        return;
    }
    t->flags &= (uint16_t)~AW__HANDLE;
    if (t->status == AW__FINISHED) aw_future_discard(aw__task_frame(t));
    aw__task_unref(t);
}

bool aw__owner_task_is_finished(const aw__task *t) {
    return aw__load_acquire(&t->status) != AW__RUNNING;
}

void aw__task_abort(aw_future *frame) {
    if (!frame || aw__handle_error(frame)) return;
    aw__task *t = aw__task_of(frame);
    aw__task_rt(t)->base.sched->abort(t);
}

void aw__task_drop(aw_future *frame) {
    if (!frame || aw__handle_error(frame)) return;
    aw__task *t = aw__task_of(frame);
    aw__task_rt(t)->base.sched->drop(t);
}

bool aw__task_is_finished(const aw_future *frame) {
    if (aw__handle_error(frame)) return true;
    const aw__task *t = aw__task_of(frame);
    return aw__task_rt(t)->base.sched->is_finished(t);
}

int aw__task_error(const aw_future *frame) {
    return aw__handle_error(frame);
}

uint64_t aw__task_id(const aw_future *frame) {
    return aw__handle_error(frame) ? 0 : aw__task_number(aw__task_of(frame));
}

const char *aw__task_name(const aw_future *frame) {
    if (aw__handle_error(frame)) return "(not spawned)";
    const aw_location *location = aw__location_of(aw__task_of(frame));
    return location->name ? location->name : frame->type->name;
}

const aw_location *aw__task_location(const aw_future *frame) {
    return aw__handle_error(frame) ? NULL : aw__location_of(aw__task_of(frame));
}

ptrdiff_t aw_task_take_any(aw_future *frame, void *out, size_t size) {
    int error = aw__handle_error(frame);
    if (error) return error;
    if (!aw__task_is_finished(frame)) return -EAGAIN;
    aw__task *t = aw__task_of(frame);
    int status = aw__load_relaxed(&t->status);
    if (status < 0) return status;
    size_t bytes = frame->type->out_size;
    if (bytes > size) return -EMSGSIZE;
    if (bytes) memcpy(out, aw_future_out(frame), bytes);
    aw__store_relaxed(&t->status, AW__TAKEN); /* so that it is not discarded */
    aw__task_drop(frame);
    return (ptrdiff_t)bytes;
}

/* ---- The current task ------------------------------------------------------------------------ */

uint64_t aw_current_task_id(void) {
    const aw__task *t = aw__current_task();
    return t ? aw__task_number(t) : 0;
}

/* NULL also if `cx` is of a poll for another runtime than that of the current task. */
static aw__task *current_task(const aw_cx *cx) {
    aw__task *t = aw__current_task();
    return t && cx->meter && cx->runtime == aw__task_rt(t) ? t : NULL;
}

int aw_pin(aw_cx *cx) {
    if (!current_task(cx)) return -ENXIO;
    cx->meter->pinned = true; /* checked after the poll */
    return 0;
}

int aw_unbudgeted(aw_cx *cx, bool on) {
    aw__task *t = current_task(cx);
    if (!t) return -ENXIO;
    if (on) {
        t->flags |= AW__UNBUDGETED;
        cx->meter->budget = UINT32_MAX;
    } else {
        t->flags &= (uint16_t)~AW__UNBUDGETED;
        if (cx->meter->budget > cx->runtime->base.budget)
            cx->meter->budget = cx->runtime->base.budget;
    }
    return 0;
}
