/* SPDX-License-Identifier: MIT
 *
 * A runtime in the child of a fork. It is not run there: its threads are gone, and what they were doing just then is
 * left half done. Whatever could touch a lock of theirs, or somebody they share something with, asks
 * aw__rt_forked first. All that can be done is to give memory back, without the tasks' help: what their
 * frames own is lost. There is one thread, so nothing is locked here. */
#include "blocking/blocking.h"
#include "runtime/inbox.h"
#include "workers/pool.h"

/* What other threads had asked for. */
static void serve_inbox(aw_runtime *rt) {
    aw__task *list = aw__inbox_take(rt);
    aw__inbox_close(rt);
    for (aw__task *t = list, *next; t; t = next) {
        next = t->inbox_next;
        if (aw__load_relaxed(&t->shared) & AW__NEW) {
            rt->allocated++;
            aw__room_adopt(t);
        }
        aw__task_serve_orphan(t);
    }
}

/* The tasks are freed when nobody has a handle or waker of them. Releasing one may move rooms from list to
 * list, so all are found first. */
static void forget_tasks(aw_runtime *rt) {
    aw__task *all = NULL, *t;
    for (aw__walk w = {.rt = rt}; (t = aw__walk_next(&w));) {
        t->next = all;
        all = t;
    }
    for (aw__task *next; (t = all); all = next) {
        next = t->next;
        t->flags |= AW__DONE; /* for who walks; its status stays */
        aw__task_release(t);
    }
}

void aw__rt_forget(aw_runtime *rt) {
    if (rt->blocking) aw__blocking_forget(rt->blocking);
    rt->blocking = NULL;
    if (rt->pool) {
        aw__pool_forget(rt);
        return;
    }
    /* Another thread was running it: its lists may be torn. They stay, for ever. */
    if (aw__load_relaxed(&rt->owned)) {
        aw__rt_leave_alive(rt);
        return;
    }
    rt->lock = 0;
    rt->forgotten = true;
    aw__embedded_end(rt);
    serve_inbox(rt);
    forget_tasks(rt);
    rt->ended = true;
    aw__rooms_release(rt);
    aw__task_release(&rt->main_task);
    if (rt->allocated == 0) aw__rt_free_memory(rt);
}
