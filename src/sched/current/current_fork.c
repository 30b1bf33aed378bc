/* SPDX-License-Identifier: MIT
 *
 * A current-thread runtime in the child of a fork. It does not run there: its threads are gone, and
 * may have left anything half done. Code that could take one of their locks, or use what is shared
 * with the parent process, checks aw__rt_forked first. All that can be done is to free memory,
 * without running the tasks: what their frames own is leaked. There is only one thread, so no lock
 * is needed. */
#include "blocking/blocking_pool.h"
#include "sched/current/current.h"
#include "sched/embedded.h"
#include "sched/shutdown.h"
#include "task/inbox.h"

/* Serve the requests that other threads had pushed. The inbox of an embedded runtime says PARKED
 * while its loop sleeps. */
static void serve_inbox(aw_runtime *rt) {
    if (rt->embedded.asleep) aw__inbox_unpark(rt);
    aw__task *list = aw__inbox_take(rt);
    aw__inbox_close(rt);
    for (aw__task *t = list, *next; t; t = next) {
        next = t->inbox_next;
        if (aw__load_relaxed(&t->shared) & AW__NEW) {
            rt->allocated++;
            aw__slab_adopt(t);
        }
        aw__task_serve_orphan(t);
    }
}

/* Tasks without handles and wakers are freed. That may move slabs between lists, so collect all
 * tasks first. */
static void forget_tasks(aw_runtime *rt) {
    aw__task *all = NULL, *t;
    for (aw__task_walk w = {.rt = rt}; (t = aw__task_walk_next(&w));) {
        t->next = all;
        all = t;
    }
    for (aw__task *next; (t = all); all = next) {
        next = t->next;
        t->flags |= AW__DONE; /* so that walks skip it; its status stays */
        aw__task_unref(t);
    }
}

void aw__current_forget(aw_runtime *rt) {
    aw__blocking_forget(rt);
    /* Another thread was running it: its lists may be inconsistent, so everything is leaked. */
    if (aw__load_relaxed(&rt->owned)) {
        aw__rt_leave_alive(rt);
        return;
    }
    rt->base.lock = 0;
    rt->base.forgotten = true;
    aw__embedded_end(rt);
    serve_inbox(rt);
    forget_tasks(rt);
    rt->ended = true;
    aw__slabs_free_empty(rt);
    aw__task_unref(&rt->main_task);
    if (aw__rt_is_unused(rt)) aw__current_free_memory(rt);
}
