/* SPDX-License-Identifier: MIT
 *
 * Waiting for a task. On the owner's thread the task points at the one join that waits for it. A join
 * polled by any other thread goes into the runtime's list, under its lock, and asks the owner to look
 * there: the owner looks when a task ends and the list is not empty, and once more for the request,
 * which covers a task that ended just before the join was in the list. */
#include <awake/task.h>

#include <errno.h>

#include "core/lock.h"
#include "core/misuse.h"
#include "core/wake.h"
#include "runtime/join.h"
#include "workers/pool.h"

static void list_remove(aw_runtime *rt, aw_task_join_future *j) {
    if (j->next) j->next->prev = j->prev;
    if (j->prev)
        j->prev->next = j->next;
    else
        aw__store_relaxed(&rt->joins, j->next);
    j->linked = false;
}

static void unlink_outside(aw_task_join_future *j, aw_runtime *rt) {
    if (aw__rt_forked(rt)) return; /* nobody looks at the list any more, or gives the lock back */
    aw__lock(&rt->lock);
    if (j->linked) list_remove(rt, j);
    aw__unlock(&rt->lock);
}

/* Take a join out of where it waits. */
static inline void unlink_join(aw_task_join_future *j, aw__task *t) {
    if (AW__UNLIKELY(j->outside)) {
        unlink_outside(j, aw__task_rt(t));
        return;
    }
    if (AW__UNLIKELY(!aw__is_owner(aw__task_rt(t))))
        aw__misuse("a join that was polled by a task of its own runtime was moved out of it");
    if (t->joiner == j) t->joiner = NULL;
}

static aw_poll finish(aw_task_join_future *j, aw__task *t, int status, aw_cx *cx) {
    if (j->future.state != AW__JOIN_FRESH) {
        /* Also when it is linked no more: the owner may still be waking us, under the lock. */
        unlink_join(j, t);
        aw__join_disarm(j, cx);
    }
    return aw__join_take(j, t, status);
}

void aw__join_twice(const aw__task *t) {
    char name[256];
    aw__name_task(name, sizeof name, t);
    aw__misuse("two joins wait for %s at once", name);
}

/* Not on the owner's thread, or not for the first time. */
static AW__COLD aw_poll wait(aw_task_join_future *j, aw__task *t, aw_cx *cx) {
    aw_runtime *rt = aw__task_rt(t);
    if (aw__rt_forked(rt)) return aw__join_forked(j, cx);
    bool outside = !aw__is_owner(rt);
    bool same = j->future.state != AW__JOIN_FRESH && j->outside == outside &&
                aw_waker_will_wake(&j->waker, cx->waker);
    if (!same) {
        if (j->future.state != AW__JOIN_FRESH) unlink_join(j, t); /* polled elsewhere before */
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
    aw__lock(&rt->lock);
    j->waker = *cx->waker;
    j->linked = true;
    j->prev = NULL;
    j->next = rt->joins;
    if (j->next) j->next->prev = j;
    aw__store_relaxed(&rt->joins, j);
    aw__unlock(&rt->lock);
    int status = aw__load_acquire(&t->status);
    if (status != AW__RUNNING) return finish(j, t, status, cx);
    aw__task_request(&rt->main_task, AW__KICK, 0);
    /* The runtime may have ended meanwhile: then nobody serves the request. */
    status = aw__load_acquire(&t->status);
    return status == AW__RUNNING ? AW_PENDING : finish(j, t, status, cx);
}

/* All that can be met once the task has ended. */
static AW__COLD aw_poll end(aw_task_join_future *j, aw__task *t, int status, aw_cx *cx) {
    if (aw_cx_spend(cx)) return finish(j, t, status, cx);
    if (j->future.state != AW__JOIN_FRESH)
        unlink_join(j, t); /* the waker of the poll before may be gone */
    return AW_PENDING;
}

static AW__COLD aw_poll not_spawned(aw_task_join_future *j) {
    j->out = aw__handle_error(j->task);
    return AW_READY;
}

/* Armed by this very waker, on the owner's thread. */
static inline bool is_plain(const aw_task_join_future *j, const aw__task *t, const aw_cx *cx) {
    return j->future.state == AW__JOIN_ARMED && !j->outside && aw__is_owner(aw__task_rt(t)) &&
           j->waker.data == cx->waker->data && j->waker.type == cx->waker->type;
}

/* The usual ways are here, without a call: a join that finds the task ended, or waits for it and is
 * woken, on the owner's thread. */
static aw_poll join_poll(aw_future *self, aw_cx *cx) {
    aw_task_join_future *j = (aw_task_join_future *)self;
    if (AW__UNLIKELY(aw__handle_error(j->task))) return not_spawned(j);
    aw__task *t = aw__task_of(j->task);
    aw_runtime *rt = aw__task_rt(t);
    if (AW__UNLIKELY(rt->pool != NULL)) return aw__pool_join_poll(j, t, cx);
    int status = aw__load_acquire(&t->status);
    if (status != AW__RUNNING) {
        if (AW__UNLIKELY(!cx->meter || !cx->meter->budget)) return end(j, t, status, cx);
        if (self->state != AW__JOIN_FRESH) {
            if (AW__UNLIKELY(!is_plain(j, t, cx))) return end(j, t, status, cx);
            cx->meter->armed--;
        }
        cx->meter->budget--;
        return aw__join_take(j, t, status);
    }
    if (AW__UNLIKELY(self->state != AW__JOIN_FRESH || !aw__is_owner(rt) || t->joiner))
        return wait(j, t, cx);
    aw__join_arm(j, cx, cx->runtime != rt);
    j->waker = *cx->waker;
    t->joiner = j;
    return AW_PENDING;
}

static aw_poll join_cancel(aw_future *self, aw_cx *cx) {
    aw_task_join_future *j = (aw_task_join_future *)self;
    if (!aw_future_started(self)) return AW_CANCELLED;
    aw__task *t = aw__task_of(j->task);
    if (aw__task_rt(t)->pool) return aw__pool_join_cancel(j, t, cx);
    int status = aw__load_acquire(&t->status);
    if (status != AW__RUNNING) return finish(j, t, status, cx);
    unlink_join(j, t);
    aw__join_disarm(j, cx);
    return AW_CANCELLED;
}

/* Nobody looked at the result: the output goes back to the handle, whose drop will discard it. */
static void join_discard(aw_future *self) {
    aw_task_join_future *j = (aw_task_join_future *)self;
    if (self->state == AW__JOIN_TOOK)
        aw__store_relaxed(&aw__task_of(j->task)->status, AW__FINISHED);
}

static void join_describe(const aw_future *self, char *buf, size_t size) {
    const aw_task_join_future *j = (const aw_task_join_future *)self;
    if (!aw__handle_error(j->task)) aw__name_task(buf, size, aw__task_of(j->task));
}

const aw_future_type aw_task_join_type = {
    AW_TYPE_OF(aw_task_join_future, "join of task"),
    .flags = AW_OUT_ERRNO,
    .poll = join_poll,
    .cancel = join_cancel,
    .discard = join_discard,
    .describe = join_describe,
};

void aw__rt_wake_joins(aw_runtime *rt) {
    aw_waker later;
    do {
        later.type = NULL;
        aw__lock(&rt->lock);
        for (aw_task_join_future *j = rt->joins, *next; j && !later.type; j = next) {
            next = j->next;
            if (aw__load_relaxed(&aw__task_of(j->task)->status) == AW__RUNNING) continue;
            list_remove(rt, j);
            aw__wake_or_clone(&j->waker, &later);
        }
        aw__unlock(&rt->lock);
        if (later.type) aw_waker_wake(later);
    } while (later.type);
}
