/* SPDX-License-Identifier: MIT
 *
 * The life of a task of a multi-thread runtime: spawn, wake, abort, complete, unref. task_state.h
 * has the protocol. */
#include "sched/multi/pool_task.h"

#include <errno.h>
#include <string.h>

#include "base/allocate.h"
#include "base/list.h"
#include "future/wake.h"
#include "os/park.h"
#include "sched/multi/monitor.h"
#include "sched/multi/pool.h"
#include "sched/multi/quiescence.h"
#include "sched/multi/schedule.h"
#include "task/locals.h"
#include "task/task_end.h"

static aw__pool *pool_of(const aw__task *t) {
    return aw__task_rt(t)->pool;
}

/* ---- The lists of all tasks ------------------------------------------------------------------ */

static struct aw__shard *shard_of(aw__pool *p, const aw__task *t) {
    return &p->shards[t->id_low % AW__SHARDS];
}

/* False: the runtime is closing. The closing thread stores `closing` before it walks the lists, so
 * a task that was added is aborted. */
static bool shard_add(aw__pool *p, aw__task *t) {
    struct aw__shard *s = shard_of(p, t);
    aw__slab *r = aw__task_slab(t);
    aw__lock(&s->lock);
    bool open = !aw__load_acquire(&p->rt->closing);
    if (open) aw__list_insert_head(&s->slabs, r);
    aw__unlock(&s->lock);
    return open;
}

static void shard_remove(aw__pool *p, aw__task *t) {
    struct aw__shard *s = shard_of(p, t);
    aw__slab *r = aw__task_slab(t);
    aw__lock(&s->lock);
    aw__list_remove(&s->slabs, r);
    aw__unlock(&s->lock);
}

void aw__pool_abort_all(aw__pool *p) {
    for (int i = 0; i < AW__SHARDS; i++) {
        struct aw__shard *s = &p->shards[i];
        aw__lock(&s->lock);
        for (aw__slab *r = s->slabs; r; r = r->next)
            aw__pool_abort((aw__task *)(void *)(r + 1));
        aw__unlock(&s->lock);
    }
}

void aw__pool_each(aw__pool *p, void (*f)(const aw__task_view *v, void *data), void *data) {
    /* A quiescence check must not take the RUNNING that is set here for that of a worker. */
    aw__lock(&p->quiescence_lock);
    for (int i = 0; i < AW__SHARDS; i++) {
        struct aw__shard *s = &p->shards[i];
        aw__lock(&s->lock);
        for (aw__slab *r = s->slabs; r; r = r->next) {
            aw__task *t = (aw__task *)(void *)(r + 1);
            bool waits = aw__word_watch(&t->word);
            bool cancelled = aw__load_relaxed(&t->word) & AW__W_CANCEL;
            f(&(aw__task_view){t, waits ? aw__task_frame(t) : NULL, cancelled}, data);
            if (waits && aw__word_pend(&t->word)) aw__pool_schedule(p, t, false);
        }
        aw__unlock(&s->lock);
    }
    aw__unlock(&p->quiescence_lock);
}

void aw__pool_cancel_running(aw_runtime *rt, aw__task *t) {
    (void)rt;
    if (t->flags & AW__MAIN) return;
    aw__word_abort(&t->word);
    /* An abort of a task that is already CANCEL does nothing: notify it here. */
    aw__word_wake(&t->word);
    aw__context.worker->woken_not_yielded = true;
}

/* A task has ended. Rules 1 and 2 of pool_shutdown.c: this sees `closing` or `abandoned`, or the
 * thread that ends the runtime sees that no task is left. */
static void count_down(aw__pool *p) {
    if (aw__fetch_add_seq(&p->live, ~(uint64_t)0) != 1 || !aw__load_seq(&p->rt->closing)) return;
    aw__os_unpark(&p->ended_word);
    if (aw__load_seq(&p->abandoned)) aw__monitor_wake(p);
}

/* ---- References and wakers ------------------------------------------------------------------- */

static void free_slab(aw__task *t) {
    aw_runtime *rt = aw__task_rt(t);
    if (AW__UNLIKELY(t->location & 1)) aw__locals_free(t);
    aw__magazine_free(rt->pool, t);
    aw__pool_unref(rt->pool);
}

void aw__pool_task_unref(aw__task *t) {
    if (aw__word_unref(&t->word)) free_slab(t);
}

/* The same by any thread: the reference may have been what ruled out a deadlock, so check (rule 8
 * of task_state.h). A worker checks when it parks. */
static void unref_and_check(aw__task *t) {
    aw__pool *p = pool_of(t);
    bool last;
    if (aw__context.worker && aw__context.worker->pool == p) {
        aw__pool_task_unref(t);
        return;
    }
    if (aw__word_try_unref(&t->word, &last)) {
        if (last) free_slab(t);
        return;
    }
    aw__pool_ref(p);
    aw__word_clear_check(&t->word);
    aw__pool_task_unref(t);
    aw__pool_check_quiescence(p);
    aw__pool_unref(p);
}

static void pool_task_wake(aw__task *t) {
    aw__worker *w = aw__context.worker;
    if (w && w->current == t) {
        w->self_woken = true;
        if (!w->meter.yielding) w->woken_not_yielded = true;
        return;
    }
    if (aw__word_wake(&t->word)) aw__pool_schedule(pool_of(t), t, false);
}

static aw_waker pool_waker_clone(void *data) {
    aw__word_ref(&((aw__task *)data)->word);
    return (aw_waker){&aw__pool_waker_type, data};
}
static void pool_waker_wake_by_ref(void *data) {
    pool_task_wake(data);
}
static void pool_waker_wake(void *data) {
    pool_task_wake(data);
    unref_and_check(data);
}
static void pool_waker_drop(void *data) {
    unref_and_check(data);
}

const aw_waker_type aw__pool_waker_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "task",
    .flags = AW_WAKES_UNDER_LOCK,
    .clone = pool_waker_clone,
    .wake = pool_waker_wake,
    .wake_by_ref = pool_waker_wake_by_ref,
    .drop = pool_waker_drop,
};

/* ---- Spawn ----------------------------------------------------------------------------------- */

/* The only worker that may run the task, counted from 1; 0: any. */
static uint16_t pin_for(aw__pool *p, uint32_t worker, const aw_future *f) {
    const aw__worker *current = aw__context.worker;
    if (worker) return (uint16_t)worker;
    if (p->no_stealing && current && current->pool == p) return (uint16_t)(current->index + 1);
    /* A fiber stays on its worker: distribute them evenly. */
    if (p->no_stealing || f->type->flags & AW__PINNED)
        return (uint16_t)(1 + aw__fetch_add_relaxed(&p->next, 1u) % p->count);
    return 0;
}

aw_future *aw__pool_spawn(aw_runtime *rt, uint32_t worker, aw_future *f, size_t size,
                          const aw_location *location, void *storage,
                          const aw__member_args *member) {
    aw__pool *p = rt->pool;
    aw__task *t = storage ? aw__slab_in_storage(rt, storage)
                          : aw__magazine_alloc(p, aw__member_frame_size(member, size));
    if (!t) return aw__spawn_undone(rt, f, -ENOMEM);
    aw__task_init(t, location, 0);
    bool asleep = AW__UNLIKELY(member != NULL) && member->asleep;
    t->word = asleep ? aw__word_new() & ~(uint64_t)AW__W_NOTIFIED : aw__word_new();
    t->pin = pin_for(p, worker, f);
    aw__task_set_id(t, aw__fetch_add_relaxed(&rt->outside_ids, (uint64_t)1));
    memcpy(aw__task_frame(t), f, size);
    if (AW__UNLIKELY(member != NULL)) aw__make_member(member, t, size);
    aw__pool_ref(p);
    aw__fetch_add_relaxed(&p->live, (uint64_t)1);
    if (!shard_add(p, t)) {
        aw_future *failed = aw__spawn_undone(rt, aw__task_frame(t), -ECANCELED);
        count_down(p);
        aw__word_unref(&t->word); /* of the handle, which the caller does not get */
        aw__pool_task_unref(t);
        return failed;
    }
    aw__task_spawned(rt, t);
    aw_future *handle = aw__task_frame(t);
    if (!asleep) aw__pool_schedule(p, t, false);
    return handle;
}

/* ---- Completion ------------------------------------------------------------------------------ */

/* Rule 4 of task_state.h. */
static void wake_joiner(aw__task *t) {
    aw_waker waker = t->joiner->waker, later;
    bool wake_later = aw__wake_or_clone(&waker, &later);
    aw__store_release(&t->joiner, (struct aw_task_join_future *)NULL);
    if (wake_later) aw_waker_wake(later);
}

void aw__pool_complete(aw__pool *p, aw__task *t, aw_poll answer) {
    int error, status = aw__task_end(t, answer, &error);
    aw__member *member = aw__task_member(t);
    aw__limit_give(&p->rt->tasks);
    aw__task_ended(p->rt, t, status);
    shard_remove(p, t);
    aw__store_relaxed(&t->status, status);
    uint64_t old = aw__word_done(&t->word);
    if (!(old & AW__W_HANDLE) && status == AW__FINISHED) aw_future_discard(aw__task_frame(t));
    if (AW__UNLIKELY(member != NULL))
        member->ended(member, status, error);
    else if (old & AW__W_JOINER)
        wake_joiner(t);
    count_down(p);
    aw__pool_task_unref(t);
}

/* ---- Handles --------------------------------------------------------------------------------- */

void aw__pool_abort(aw__task *t) {
    if (aw__word_abort(&t->word)) aw__pool_schedule(pool_of(t), t, false);
}

void aw__pool_drop(aw__task *t) {
    if (aw__word_drop_handle(&t->word) && aw__load_relaxed(&t->status) == AW__FINISHED &&
        !aw__rt_forked(aw__task_rt(t)))
        aw_future_discard(aw__task_frame(t));
    unref_and_check(t);
}
