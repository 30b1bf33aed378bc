/* SPDX-License-Identifier: MIT
 *
 * Joining a task of a current-thread runtime. On the owner's thread the task points to the one join
 * that waits for it. A join that is polled on any other thread adds itself to the runtime's list,
 * under the runtime's lock, and sends a request (KICK) to the owner. The owner checks the list when
 * a task ends and the list is not empty, and once for the request: that covers a task that ended
 * just before the join was in the list. */
#include <awake/task.h>

#include <errno.h>

#include "base/list.h"
#include "base/misuse.h"
#include "future/wake.h"
#include "os/lock.h"
#include "task/join.h"
#include "task/task_name.h"

static void join_list_remove(aw_runtime *rt, aw_task_join_future *j) {
    aw__list_remove_with(aw__store_relaxed, &rt->joins, j);
    j->linked = false;
}

static void join_unlink_outside(aw_task_join_future *j, aw_runtime *rt) {
    if (aw__rt_forked(rt)) return; /* no thread reads the list; the lock may be taken for good */
    aw__lock(&rt->base.lock);
    if (j->linked) join_list_remove(rt, j);
    aw__unlock(&rt->base.lock);
}

/* Remove a join from the task, or from the list. */
static inline void join_unlink(aw_task_join_future *j, aw__task *t) {
    if (AW__UNLIKELY(j->outside)) {
        join_unlink_outside(j, aw__task_rt(t));
        return;
    }
    if (AW__UNLIKELY(!aw__is_owner(aw__task_rt(t))))
        aw__misuse(
            "a join was moved out of its runtime after a task of that runtime had polled it");
    if (t->joiner == j) t->joiner = NULL;
}

static aw_poll join_finish(aw_task_join_future *j, aw__task *t, int status, aw_cx *cx) {
    if (j->future.state != AW__JOIN_FRESH) {
        /* Even if it is not linked any more: the owner may still be waking it, under the lock. */
        join_unlink(j, t);
        aw__join_disarm(j, cx);
    }
    return aw__join_take(j, t, status);
}

void aw__join_twice(const aw__task *t) {
    char name[256];
    aw__name_task(name, sizeof name, t);
    aw__misuse("two joins wait for %s at once", name);
}

/* Slow path: not on the owner's thread, or not the first poll. */
static AW__COLD aw_poll join_wait(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    aw_runtime *rt = aw__task_rt(t);
    if (aw__rt_forked(rt)) return aw__join_forked(j, cx);
    bool outside = !aw__is_owner(rt);
    bool same = j->future.state != AW__JOIN_FRESH && j->outside == outside &&
                aw_waker_will_wake(&j->waker, cx->waker);
    if (!same) {
        if (j->future.state != AW__JOIN_FRESH) join_unlink(j, t); /* polled with another waker */
        aw__join_arm(j, cx, cx->runtime != rt);
    }
    j->outside = outside;
    if (!outside) {
        if (t->joiner && t->joiner != j) aw__join_twice(t);
        j->waker = *cx->waker;
        t->joiner = j;
        return AW_PENDING;
    }
    if (same) return AW_PENDING;
    aw__lock(&rt->base.lock);
    j->waker = *cx->waker;
    j->linked = true;
    aw__list_insert_head_with(aw__store_relaxed, &rt->joins, j);
    aw__unlock(&rt->base.lock);
    int status = aw__load_acquire(&t->status);
    if (status != AW__RUNNING) return join_finish(j, t, status, cx);
    aw__task_request(&rt->main_task, AW__KICK, 0);
    /* The runtime may have ended meanwhile: then the request is not served. */
    status = aw__load_acquire(&t->status);
    return status == AW__RUNNING ? AW_PENDING : join_finish(j, t, status, cx);
}

/* Slow path: the task has ended. */
static AW__COLD aw_poll join_ended(aw_task_join_future *j, aw__task *t, int status, aw_cx *cx) {
    if (aw_cx_spend(cx)) return join_finish(j, t, status, cx);
    if (j->future.state != AW__JOIN_FRESH)
        join_unlink(j, t); /* the last poll's waker may become invalid */
    return AW_PENDING;
}

static AW__COLD aw_poll join_not_spawned(aw_task_join_future *j) {
    j->out = aw__handle_error(j->task);
    return AW_READY;
}

/* Armed with the same waker, on the owner's thread. */
static inline bool join_is_plain(const aw_task_join_future *j, const aw__task *t, const aw_cx *cx) {
    return j->future.state == AW__JOIN_ARMED && !j->outside && aw__is_owner(aw__task_rt(t)) &&
           j->waker.data == cx->waker->data && j->waker.type == cx->waker->type;
}

/* The fast paths are in line: on the owner's thread, a join that finds the task ended, or that
 * waits and is woken. */
static aw_poll task_join_poll(aw_future *self, aw_cx *cx) {
    aw_task_join_future *j = (aw_task_join_future *)self;
    if (AW__UNLIKELY(aw__handle_error(j->task))) return join_not_spawned(j);
    aw__task *t = aw__task_of(j->task);
    aw_runtime *rt = aw__task_rt(t);
    if (AW__UNLIKELY(rt->base.has_workers)) return rt->base.sched->join_poll(j, t, cx);
    int status = aw__load_acquire(&t->status);
    if (status != AW__RUNNING) {
        if (AW__UNLIKELY(!cx->meter || !cx->meter->budget)) return join_ended(j, t, status, cx);
        if (self->state != AW__JOIN_FRESH) {
            if (AW__UNLIKELY(!join_is_plain(j, t, cx))) return join_ended(j, t, status, cx);
            cx->meter->armed--;
        }
        cx->meter->budget--;
        return aw__join_take(j, t, status);
    }
    if (AW__UNLIKELY(self->state != AW__JOIN_FRESH || !aw__is_owner(rt) || t->joiner))
        return join_wait(j, t, cx);
    aw__join_arm(j, cx, cx->runtime != rt);
    j->waker = *cx->waker;
    t->joiner = j;
    return AW_PENDING;
}

static aw_poll task_join_cancel(aw_future *self, aw_cx *cx) {
    aw_task_join_future *j = (aw_task_join_future *)self;
    if (!aw_future_started(self)) return AW_CANCELLED;
    aw__task *t = aw__task_of(j->task);
    const aw__runtime_base *rt = &aw__task_rt(t)->base;
    if (rt->has_workers) return rt->sched->join_cancel(j, t, cx);
    int status = aw__load_acquire(&t->status);
    if (status != AW__RUNNING) return join_finish(j, t, status, cx);
    join_unlink(j, t);
    aw__join_disarm(j, cx);
    return AW_CANCELLED;
}

/* The result was not used: the output goes back to the handle. Dropping that discards it. */
static void task_join_discard(aw_future *self) {
    aw_task_join_future *j = (aw_task_join_future *)self;
    if (self->state == AW__JOIN_TOOK)
        aw__store_relaxed(&aw__task_of(j->task)->status, AW__FINISHED);
}

static void task_join_describe(const aw_future *self, char *buf, size_t size) {
    const aw_task_join_future *j = (const aw_task_join_future *)self;
    if (!aw__handle_error(j->task)) aw__name_task(buf, size, aw__task_of(j->task));
}

const aw_future_type aw_task_join_type = {
    AW_TYPE_OF(aw_task_join_future, "join of task"),
    .flags = AW_OUT_ERRNO,
    .poll = task_join_poll,
    .cancel = task_join_cancel,
    .discard = task_join_discard,
    .describe = task_join_describe,
};

void aw__rt_wake_joins(aw_runtime *rt) {
    aw_waker later;
    do {
        later.type = NULL;
        aw__lock(&rt->base.lock);
        for (aw_task_join_future *j = rt->joins, *next; j && !later.type; j = next) {
            next = j->next;
            if (aw__load_relaxed(&aw__task_of(j->task)->status) == AW__RUNNING) continue;
            join_list_remove(rt, j);
            aw__wake_or_clone(&j->waker, &later);
        }
        aw__unlock(&rt->base.lock);
        if (later.type) aw_waker_wake(later);
    } while (later.type);
}
