/* SPDX-License-Identifier: MIT
 *
 * The life of a task: spawned, woken, aborted, completed, released. task.h has the protocol. */
#include "runtime/task.h"

#include <awake/async.h>

#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "core/wake.h"
#include "core/misuse.h"
#include "core/unstarted.h"
#include "runtime/inbox.h"
#include "runtime/runtime.h"
#include "workers/pool.h"

/* ---- Requests from other threads -------------------------------------------------------------- */

/* The runtime has ended: there is no owner, the lock makes us one (rule 5). Of what can be asked only
 * giving back references is left to do. */
void aw__task_serve_orphan(aw__task *t) {
    aw_runtime *rt = aw__task_rt(t);
    bool forked = aw__rt_forked(rt);
    if (forked && !rt->forgotten) return; /* a thread that is gone may have had the lock */
    aw__lock(&rt->lock);
    uint32_t bits = aw__exchange(&t->shared, 0u);
    t->local += aw__ref_count(bits);
    if (t->flags & AW__FREED) { /* the main task: a request without a reference came too late */
        aw__unlock(&rt->lock);
        return;
    }
    if (bits & AW__DROP && aw__load_relaxed(&t->status) == AW__FINISHED && !forked) {
        aw__unlock(
            &rt->lock); /* not with the lock: it is the user's code. The handle keeps the task */
        aw_future_discard(aw__task_frame(t));
        aw__lock(&rt->lock);
    }
    if (bits & AW__DROP) t->local--;
    t->local++;
    aw__task_release(t);
    bool last = rt->ended && rt->allocated == 0;
    aw__unlock(&rt->lock);
    if (last) aw__rt_free_memory(rt);
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
    /* Without INBOX, and without a reference of ours, the task may be gone by now. */
    if (send && !(old & AW__INBOX) && !aw__inbox_push(rt, t)) aw__task_serve_orphan(t);
}

void aw__task_serve(aw__task *t) {
    aw_runtime *rt = aw__task_rt(t);
    uint32_t bits = aw__exchange(&t->shared, 0u);
    t->local += aw__ref_count(bits) + 1; /* ours, for the time being */
    if (bits & AW__NEW) {
        rt->allocated++;
        rt->live++;
        aw__room_adopt(t);
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
        aw__task_release(t);
    }
    aw__task_release(t);
}

/* ---- References ------------------------------------------------------------------------------- */

static void free_task(aw__task *t) {
    aw_runtime *rt = aw__task_rt(t);
    rt->allocated--;
    if (AW__UNLIKELY(t->place & 1)) aw__locals_free(t);
    t->flags |= AW__FREED;
    if (!(t->flags & AW__MAIN)) aw__room_give(t); /* that is part of the runtime */
}

void aw__task_release(aw__task *t) {
    if (--t->local > 0) return;
    uint32_t old = aw__load_acquire(&t->shared), new;
    do {
        if (old & AW__INBOX) return; /* whoever serves it comes back here */
        int32_t sum = t->local + aw__ref_count(old);
        if (sum == 0) { /* rule 4 */
            free_task(t);
            return;
        }
        new = AW__WATCH | (uint32_t)(sum * AW__REF);
    } while (!aw__cas(&t->shared, &old, new));
    t->local = 0;
}

/* ---- Wakers ----------------------------------------------------------------------------------- */

/* It may end in this very poll: it is queued when it has not. A plain wake beats a yield. */
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
    aw_runtime *rt = aw__thread.running;
    if (rt && t == rt->current)
        wake_current(rt, t);
    else if (rt && rt == aw__task_rt(t))
        aw__task_wake_local(rt, t);
    else
        aw__task_request(t, AW__WAKE, 0);
}

static aw_waker waker_clone(void *data) {
    aw__task *t = data;
    if (aw__is_owner(aw__task_rt(t)))
        t->local++;
    else
        aw__fetch_add_relaxed(&t->shared, (uint32_t)AW__REF);
    return (aw_waker){&aw__task_waker_type, t};
}

static void waker_wake_by_ref(void *data) {
    aw__task_wake(data);
}

static void waker_wake(void *data) {
    aw__task *t = data;
    aw_runtime *rt = aw__task_rt(t);
    if (aw__is_owner(rt)) {
        aw__task_wake_local(rt, t);
        aw__task_release(t);
    } else {
        aw__task_request(t, AW__WAKE, -1);
    }
}

static void waker_drop(void *data) {
    aw__task *t = data;
    if (aw__is_owner(aw__task_rt(t)))
        aw__task_release(t);
    else
        aw__task_request(t, 0, -1);
}

const aw_waker_type aw__task_waker_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "task",
    .flags = AW_WAKES_UNDER_LOCK,
    .clone = waker_clone,
    .wake = waker_wake,
    .wake_by_ref = waker_wake_by_ref,
    .drop = waker_drop,
};

/* ---- Spawn ------------------------------------------------------------------------------------ */

aw_future *aw__spawn_failed(aw_future *f, int error) {
    aw__cancel_unstarted(f);
    return aw__error_handle(error);
}

aw_future *aw__spawn_undone(aw_runtime *rt, aw_future *f, int error) {
    aw__limit_give(&rt->tasks);
    return aw__spawn_failed(f, error);
}

AW__COLD void aw__hook_task(const aw_runtime *rt, const aw__task *t, int status) {
    const aw_place *place = aw__place_of(t);
    const aw_future *f = aw__task_frame((aw__task *)(uintptr_t)t);
    aw_task_info info = {aw__task_number(t), place->name ? place->name : f->type->name, place};
    if (status == AW__RUNNING)
        rt->hooks.task_spawn(rt->hooks.data, &info);
    else
        rt->hooks.task_end(rt->hooks.data, &info, status);
}

/* `worker` is counted from 1; 0: any. */
static inline aw_future *spawn(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                               const aw_place *place, void *storage, const aw__birth *birth) {
    if (!rt)
        rt = aw__thread.running ? aw__thread.running : aw_runtime_current();
    else if (aw__rt_forked(rt))
        return aw__spawn_failed(f, -EOWNERDEAD);
    if (!rt) {
        aw_log(AW_LOG_PROBLEM, "%s:%d: spawn of '%s' outside a runtime: enter one first",
               place->file, place->line, f->type->name);
        return aw__spawn_failed(f, -ENXIO);
    }
    if (aw__load_acquire(&rt->closing)) return aw__spawn_failed(f, -ECANCELED);
    if (size > UINT32_MAX - AW_TASK_OVERHEAD - sizeof(aw__member) - 16)
        return aw__spawn_failed(f, -ENOMEM);
    if (storage && !aw__task_storage_free(storage)) return aw__spawn_failed(f, -EBUSY);
    if (worker && worker > aw_runtime_workers(rt)) return aw__spawn_failed(f, -EINVAL);
    if (!aw__limit_take(&rt->tasks)) return aw__spawn_failed(f, -EAGAIN);
    if (rt->pool) return aw__pool_spawn(rt, worker, f, size, place, storage, birth);
    aw__task *t = storage ? aw__room_in(rt, storage)
                          : aw__room_take(rt, aw__birth_size(birth, size));
    if (!t) return aw__spawn_undone(rt, f, -ENOMEM);

    /* One by one: gcc clears a whole struct with a string instruction, which is slow to start. */
    t->next = t->inbox_next = NULL;
    t->shared = 0;
    t->local = 2; /* the runtime's and the handle's */
    t->status = AW__RUNNING;
    t->armed = 0;
    t->flags = AW__HANDLE;
    t->fail = 0;
    t->joiner = NULL;
    t->place = (uintptr_t)place;
    t->cancelling = t->opened = 0;
    memcpy(aw__task_frame(t), f, size);
    bool asleep = AW__UNLIKELY(birth != NULL) && birth->asleep;
    if (AW__UNLIKELY(birth != NULL)) aw__make_member(birth, t, size);
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
            aw__room_give(t);
            return failed;
        }
    }
    return aw__task_frame(t);
}

aw_future *aw_spawn_future(aw_runtime *rt, aw_future *f, size_t size, const aw_place *place,
                           void *storage) {
    return spawn(rt, 0, f, size, place, storage, NULL);
}

aw_future *aw_spawn_future_at(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                              const aw_place *place, void *storage) {
    /* Beyond any number of workers it is nobody. */
    return spawn(rt, worker < AW__WORKERS_MAX ? worker + 1 : UINT32_MAX, f, size, place, storage,
                 NULL);
}

bool aw__task_storage_free(const void *room) {
    return aw__load_acquire(&((const aw__room *)room)->rt) == NULL;
}

/* ---- Members ---------------------------------------------------------------------------------- */

aw_future *aw__spawn_member(aw_runtime *rt, aw_future *f, size_t size, const aw_place *place,
                            const aw__member *m, bool asleep) {
    aw__birth birth = {m, asleep};
    return spawn(rt, 0, f, size, place, NULL, &birth);
}

void aw__make_member(const aw__birth *b, aw__task *t, size_t size) {
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
    if (aw__task_rt(t)->pool)
        aw__pool_waker_type.wake_by_ref(t);
    else
        aw__task_wake(t);
}

/* ---- End -------------------------------------------------------------------------------------- */

void aw__task_complete(aw_runtime *rt, aw__task *t, aw_poll answer) {
    int status = answer == AW_READY ? AW__FINISHED : t->fail ? t->fail : -ECANCELED;
    if (AW_CHECKS && AW__UNLIKELY(t->opened)) aw__check_left_by_task(t);
    t->flags |= AW__DONE;
    if (AW__UNLIKELY(t->place & 1)) aw__locals_release(t);
    aw__member *member = aw__task_member(t);
    int error = AW__UNLIKELY(member != NULL) ? aw__member_error(t, status) : 0;
    if (!(t->flags & AW__MAIN)) {
        rt->live--;
        aw__limit_give(&rt->tasks);
        aw__task_ended(rt, t, status);
        if (answer == AW_READY && !(t->flags & AW__HANDLE)) aw_future_discard(aw__task_frame(t));
    }
    /* Release: the output, for who joins on another thread. */
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
    if (!(t->flags & AW__MAIN)) aw__task_release(t);
}

/* ---- Handles ---------------------------------------------------------------------------------- */

void aw__task_abort_local(aw__task *t) {
    if (t->flags & (AW__DONE | AW__CANCEL)) return;
    t->flags |= AW__CANCEL;
    aw__task_wake_local(aw__task_rt(t), t);
}

void aw__task_abort(aw_future *frame) {
    if (!frame || aw__handle_error(frame)) return;
    aw__task *t = aw__task_of(frame);
    if (aw__task_rt(t)->pool)
        aw__pool_abort(t);
    else if (aw__is_owner(aw__task_rt(t)))
        aw__task_abort_local(t);
    else
        aw__task_request(t, AW__ABORT, 0);
}

void aw__task_drop(aw_future *frame) {
    if (!frame || aw__handle_error(frame)) return;
    aw__task *t = aw__task_of(frame);
    if (aw__task_rt(t)->pool) {
        aw__pool_drop(t);
        return;
    }
    if (!aw__is_owner(aw__task_rt(t))) {
        aw__task_request(t, AW__DROP, 0); /* the owner gives up the handle's reference */
        return;
    }
    t->flags &= (uint16_t)~AW__HANDLE;
    if (t->status == AW__FINISHED) aw_future_discard(frame);
    aw__task_release(t);
}

bool aw__task_is_finished(const aw_future *frame) {
    if (aw__handle_error(frame)) return true;
    const aw__task *t = aw__task_of(frame);
    return aw__task_rt(t)->pool ? aw__word_is_done(&t->word)
                                : aw__load_acquire(&t->status) != AW__RUNNING;
}

int aw__task_error(const aw_future *frame) {
    return aw__handle_error(frame);
}

uint64_t aw__task_id(const aw_future *frame) {
    return aw__handle_error(frame) ? 0 : aw__task_number(aw__task_of(frame));
}

const char *aw__task_name(const aw_future *frame) {
    if (aw__handle_error(frame)) return "(not spawned)";
    const aw_place *place = aw__place_of(aw__task_of(frame));
    return place->name ? place->name : frame->type->name;
}

const aw_place *aw__task_place(const aw_future *frame) {
    return aw__handle_error(frame) ? NULL : aw__place_of(aw__task_of(frame));
}

/* ---- From inside ------------------------------------------------------------------------------ */

uint64_t aw_current_task_id(void) {
    const aw__task *t = aw__current_task();
    return t ? aw__task_number(t) : 0;
}

aw__task *aw__current_task(void) {
    if (aw__thread.worker) return aw__thread.worker->current;
    if (aw__thread.main) return aw__thread.main;
    return aw__thread.running ? aw__thread.running->current : NULL;
}

/* A poll that this thread does for somebody else's runtime is none of its own. */
static aw__task *current_task(const aw_cx *cx) {
    aw__task *t = aw__current_task();
    return t && cx->runtime == aw__task_rt(t) ? t : NULL;
}

int aw_fail(aw_cx *cx, int code) {
    if (!cx->runtime || !cx->meter) return -ENXIO;
    if (code >= 0 || code < -4095) return -EINVAL;
    if (!cx->meter->fail) cx->meter->fail = code; /* who polls looks at it */
    return 0;
}

void aw__fail(aw_cx *cx, int code, const char *file, int line) {
    int error = aw_fail(cx, code);
    if (error == -ENXIO) aw__misuse("%s:%d: AW_FAIL outside a task of a runtime", file, line);
    if (error) aw__misuse("%s:%d: AW_FAIL(%d): not a negative errno", file, line, code);
}

int aw_pin(aw_cx *cx) {
    if (!current_task(cx)) return -ENXIO;
    cx->meter->pinned = true; /* who polls looks at it */
    return 0;
}

int aw_unbudgeted(aw_cx *cx, bool on) {
    aw__task *t = current_task(cx);
    if (!t) return -ENXIO;
    if (on) {
        t->flags |= AW__FREELY;
        cx->meter->budget = UINT32_MAX;
    } else {
        t->flags &= (uint16_t)~AW__FREELY;
        if (cx->meter->budget > cx->runtime->budget) cx->meter->budget = cx->runtime->budget;
    }
    return 0;
}
