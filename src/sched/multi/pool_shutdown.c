/* SPDX-License-Identifier: MIT
 *
 * Shutdown of a multi-thread runtime. First it is closed: spawns are refused, and every task is
 * aborted. The workers run until the last task has ended. Then the threads exit, and the memory is
 * freed with the last handle or waker (`allocated`).
 *
 *   1. The closing thread stores `closing` and then loads `live`; a task that ends decrements
 *      `live` and then loads `closing` (all seq_cst): one of them sees the other. A waiting thread
 *      sleeps on `ended_word`, which the last task unparks.
 *   2. The abandoning thread stores `abandoned` and then wakes the monitor. The monitor loads
 *      `abandoned` and then `live`; the last task loads `abandoned` after it has decremented
 *      `live`: as above. The monitor then does what aw_runtime_free does. No thread joins the
 *      monitor. */
#include "sched/multi/pool_shutdown.h"

#include <errno.h>

#include "base/misuse.h"
#include "blocking/blocking_pool.h"
#include "os/park.h"
#include "sched/multi/monitor.h"
#include "sched/multi/pool.h"
#include "sched/multi/pool_task.h"
#include "sched/multi/quiescence.h"
#include "sched/report.h"
#include "sched/shutdown.h"

/* By the thread that ends the runtime. */
static void close_pool(aw_runtime *rt, const char *call) {
    if (aw__load_acquire(&rt->followers)) aw__misuse("%s while a thread is in block_on", call);
    aw__store_seq(&rt->closing, (uint32_t)AW__CLOSING_FINALLY);
    aw__pool_abort_all(rt->pool);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* The waker of the thread in wait_for_tasks. It is borrowed only. */
static void shutdown_waker_wake(void *data) {
    aw__os_unpark(&((aw__pool *)data)->ended_word);
}
static void shutdown_waker_drop(void *data) {
    (void)data;
}
static aw_waker shutdown_waker_clone(void *data);

static const aw_waker_type shutdown_waker_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "runtime shutdown",
    .flags = AW_WAKES_UNDER_LOCK,
    .clone = shutdown_waker_clone,
    .wake = shutdown_waker_wake,
    .wake_by_ref = shutdown_waker_wake,
    .drop = shutdown_waker_drop,
};

static aw_waker shutdown_waker_clone(void *data) {
    return (aw_waker){&shutdown_waker_type, data};
}

/* Waits until no task is left, or the remaining tasks will never end. False: `limit` has passed.
 * The limit is a sleep, so that it follows the clock of the runtime, paused or not. */
static bool wait_for_tasks(aw__pool *p, uint64_t limit) {
    aw_sleep sleep = aw_sleep_for(limit);
    aw_waker waker = {&shutdown_waker_type, p};
    aw_cx cx = {&waker, p->rt, NULL};
    bool timed = limit != AW_FOREVER, over = false;
    aw__store_seq(&p->ending, 1u);
    while (aw__load_seq(&p->live) && !aw__load_acquire(&p->deadlocked)) {
        if (timed && aw_future_poll(&sleep.future, &cx) == AW_READY) {
            timed = false;
            /* After an earlier shutdown there is no clock, and no task: `live` counts a spawn that
             * is being refused. */
            if ((over = sleep.out != -ESHUTDOWN)) break;
        }
        aw__pool_check_quiescence(p);
        aw__os_park(&p->ended_word, AW_FOREVER);
    }
    if (timed) aw_future_cancel(&sleep.future, &cx);
    return !over;
}

size_t aw__pool_shutdown(aw_runtime *rt, uint64_t limit) {
    close_pool(rt, "aw_runtime_shutdown");
    bool ended = wait_for_tasks(rt->pool, limit) && !aw__load_acquire(&rt->pool->deadlocked);
    size_t remaining = ended ? 0 : aw_runtime_task_count(rt);
    aw__report_shutdown(rt, remaining, limit);
    return remaining;
}

/* ---- Ending the workers ---------------------------------------------------------------------- */

/* The tasks have ended, or never will. `live` may count a spawn that is being refused. */
static void end_workers(aw__pool *p) {
    if (aw__load_acquire(&p->deadlocked)) {
        aw__report_deadlock(p->rt);
        aw__rt_log(p->rt, AW_LOG_PROBLEM, "%zu tasks cannot be cancelled and are left behind",
                   aw_runtime_task_count(p->rt));
        aw__rt_leave_alive(p->rt);
    }
    aw__rt_end_blocking(p->rt);
    aw__pool_stop(p, p->count);
    aw__rt_end_drivers(p->rt);
}

/* All threads of the pool have exited, except the monitor if it is the caller. */
static void finish_pool(aw__pool *p) {
    aw__report_sleeps(p->rt, aw__rt_end_sleeps(p->rt));
    aw__inject_close(&p->inject);
    aw__pool_unref(p);
}

void aw__pool_end(aw_runtime *rt) {
    aw__pool *p = rt->pool;
    close_pool(rt, "aw_runtime_free");
    wait_for_tasks(p, AW_FOREVER);
    end_workers(p);
    aw__monitor_wake(p);
    pthread_join(p->monitor, NULL);
    finish_pool(p);
}

void aw__pool_abandon(aw_runtime *rt) {
    aw__pool *p = rt->pool;
    aw__pool_ref(p); /* the monitor may end the runtime before it was woken here */
    close_pool(rt, "aw_runtime_abandon");
    aw__store_seq(&p->ending, 1u);
    aw__store_release(&p->abandoned, 1u);
    aw__monitor_wake(p);
    aw__pool_check_quiescence(p);
    aw__pool_unref(p);
}

bool aw__pool_end_abandoned(aw__pool *p) {
    if (!aw__load_seq(&p->abandoned)) return false;
    if (aw__load_seq(&p->live) && !aw__load_acquire(&p->deadlocked)) return false;
    end_workers(p);
    pthread_detach(pthread_self());
    /* Before finish_pool, which may free the runtime. */
    aw__thread_ends(&p->rt->threads, AW_THREAD_MONITOR, 0);
    finish_pool(p);
    return true;
}

/* ---- In the child of a fork ------------------------------------------------------------------ */

void aw__pool_forget(aw_runtime *rt) {
    aw__pool *p = rt->pool;
    aw__blocking_forget(rt);
    for (int i = 0; i < AW__SHARDS; i++) {
        struct aw__shard *s = &p->shards[i];
        /* The holder does not exist in the child: the list may be inconsistent. */
        if (aw__load_relaxed(&s->lock)) continue;
        aw__slab *next = s->slabs;
        s->slabs = NULL;
        for (aw__slab *r; (r = next);) {
            next = r->next;
            aw__pool_task_unref((aw__task *)(void *)(r + 1));
        }
    }
    aw__pool_unref(p);
}
