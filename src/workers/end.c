/* SPDX-License-Identifier: MIT
 *
 * The end of a runtime with workers. It is first closed: nothing can be spawned, and every task is aborted.
 * The workers go on until the last one has ended. Then the threads leave, and the memory goes with the last
 * handle or waker (`allocated`).
 *
 *   1. Who closes it stores `closing`, and then looks at `live`; the task that ends counts `live` down, and
 *      then looks at `closing` (all sequentially consistent): one of them sees the other. Who waits sleeps
 *      on `ended_word`, which the last task unparks.
 *   2. Who abandons it stores `abandoned`, and then wakes the monitor, which looks at `abandoned` and then
 *      at `live`, while the last task looks at `abandoned` after it has counted: as above. The monitor then
 *      does by itself what aw_runtime_free does. Nobody waits for its thread. */
#include "core/misuse.h"
#include "os/park.h"
#include "workers/pool.h"
#include "workers/quiet.h"

/* By the thread that gives it up. */
static void close_pool(aw_runtime *rt, const char *call) {
    if (aw__load_acquire(&rt->besides)) aw__misuse("%s while a thread is in block_on", call);
    aw__store_seq(&rt->closing, (uint32_t)AW__FOR_EVER);
    aw__pool_abort_all(rt->pool);
}

/* ---- Waiting ---------------------------------------------------------------------------------- */

/* The waker of who waits in here; it is borrowed only. */
static void wake_ender(void *data) {
    aw__os_unpark(&((aw__pool *)data)->ended_word);
}
static void drop_ender(void *data) {
    (void)data;
}
static aw_waker clone_ender(void *data);

static const aw_waker_type ender_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "end of a runtime",
    .flags = AW_WAKES_UNDER_LOCK,
    .clone = clone_ender,
    .wake = wake_ender,
    .wake_by_ref = wake_ender,
    .drop = drop_ender,
};

static aw_waker clone_ender(void *data) {
    return (aw_waker){&ender_type, data};
}

/* Until no task is left, or nothing can end those that are, or for so long (false). The limit is a sleep, so
 * that it goes by the runtime's clock, whatever that is. */
static bool wait_for_tasks(aw__pool *p, uint64_t limit) {
    aw_sleep sleep = aw_sleep_for(limit);
    aw_waker waker = {&ender_type, p};
    aw_cx cx = {&waker, p->rt, NULL};
    bool timed = limit != AW_FOREVER, over = false;
    aw__store_seq(&p->ending, 1u);
    while (aw__load_seq(&p->live) && !aw__load_acquire(&p->stuck)) {
        if (timed && (over = aw_future_poll(&sleep.future, &cx) == AW_READY)) break;
        aw__pool_look(p);
        aw__os_park(&p->ended_word, AW_FOREVER);
    }
    if (timed && !over) aw_future_cancel(&sleep.future, &cx);
    return !over;
}

size_t aw__pool_shutdown(aw_runtime *rt, uint64_t limit) {
    close_pool(rt, "aw_runtime_shutdown");
    bool ended = wait_for_tasks(rt->pool, limit) && !aw__load_acquire(&rt->pool->stuck);
    return ended ? 0 : aw_runtime_task_count(rt);
}

/* ---- Ending ----------------------------------------------------------------------------------- */

static void report_sleeps(aw__pool *p) {
    size_t left = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        aw__wheel *w = &p->workers[i].wheel;
        aw__lock(&w->lock);
        left += w->count;
        aw__unlock(&w->lock);
    }
    aw__report_sleeps(p->rt, left);
}

/* The tasks have ended, or never will. (A spawn that is about to be refused may be counted just now.) */
static void end_workers(aw__pool *p) {
    if (aw__load_acquire(&p->stuck)) {
        aw__report_deadlock(p->rt);
        aw__rt_log(p->rt, AW_LOG_PROBLEM, "%zu tasks cannot be cancelled and are left behind",
                   aw_runtime_task_count(p->rt));
        aw__rt_leave_alive(p->rt);
    }
    aw__rt_end_blocking(p->rt);
    aw__pool_stop(p, p->count);
    aw__rt_end_drivers(p->rt);
}

/* All threads have left, or the only one is this. */
static void finish_pool(aw__pool *p) {
    report_sleeps(p);
    aw__inject_close(&p->inject);
    aw__pool_unkeep(p);
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
    aw__pool_keep(p); /* it may be gone before we have woken it */
    close_pool(rt, "aw_runtime_abandon");
    aw__store_seq(&p->ending, 1u);
    aw__store_release(&p->abandoned, 1u);
    aw__monitor_wake(p);
    aw__pool_look(p);
    aw__pool_unkeep(p);
}

bool aw__pool_end_alone(aw__pool *p) {
    if (!aw__load_seq(&p->abandoned)) return false;
    if (aw__load_seq(&p->live) && !aw__load_acquire(&p->stuck)) return false;
    end_workers(p);
    pthread_detach(pthread_self());
    aw__thread_ends(&p->rt->threads, AW_THREAD_MONITOR, 0); /* the last that it can look at */
    finish_pool(p);
    return true;
}

/* ---- In the child of a fork ------------------------------------------------------------------- */

void aw__pool_forget(aw_runtime *rt) {
    aw__pool *p = rt->pool;
    for (int i = 0; i < AW__SHARDS; i++) {
        struct aw__shard *s = &p->shards[i];
        if (aw__load_relaxed(&s->lock)) continue; /* who had it is gone: the list may be torn */
        aw__room *next = s->rooms;
        s->rooms = NULL;
        for (aw__room *r; (r = next);) {
            next = r->next;
            aw__pool_release((aw__task *)(void *)(r + 1));
        }
    }
    aw__pool_unkeep(p);
}
