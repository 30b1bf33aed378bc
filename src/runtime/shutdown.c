/* SPDX-License-Identifier: MIT
 *
 * The end of a runtime: waited for, with a time limit, or in the background. What differs with workers is in
 * workers/end.c. By a thread outside, which becomes the owner meanwhile. */
#include <errno.h>

#include "blocking/blocking.h"
#include "core/alloc.h"
#include "core/lock.h"
#include "core/misuse.h"
#include "os/park.h"
#include "runtime/inbox.h"
#include "workers/pool.h"

/* Runtimes with tasks that will never end, because nobody runs them. They are left alive on purpose: from
 * here a leak checker finds them. */
static aw_runtime *left_alive; /* atomic */

void aw__rt_leave_alive(aw_runtime *rt) {
    aw_runtime *head = aw__load_relaxed(&left_alive);
    do
        rt->next_left = head;
    while (!aw__cas(&left_alive, &head, rt));
}

static void check_outside(const char *call) {
    if (aw__thread.running || aw__thread.worker) aw__misuse("%s inside a task", call);
}

/* ---- The current-thread flavour --------------------------------------------------------------- */

/* The tasks are cancelled, and run for so long at most. */
static void close_runtime(aw_runtime *rt, const char *call, uint64_t limit) {
    if (!aw__rt_acquire(rt)) aw__misuse("%s while a thread is in block_on", call);
    aw__rt_end_tasks(rt, AW__FOR_EVER, limit);
}

/* Nobody runs it any more. From here on requests are served by who makes them, under the lock. */
static void finish_runtime(aw_runtime *rt) {
    while (!aw__inbox_close(rt))
        aw__rt_drain(rt);
    while (aw__load_acquire(&rt->unparks_done) != rt->unparks_due)
        aw__os_yield(); /* a thread is about to */
    aw__thread.running = NULL;
    aw__thread.wheel = NULL;
    if (rt->live) aw__rt_leave_alive(rt);
    aw__lock(&rt->lock);
    rt->ended = true;
    aw__rooms_release(rt);
    aw__task_release(&rt->main_task);
    bool last = rt->allocated == 0;
    aw__unlock(&rt->lock);
    if (last) aw__rt_free_memory(rt);
}

/* ---- What both do ----------------------------------------------------------------------------- */

void aw__rt_free_memory(aw_runtime *rt) {
    aw__place_free(&rt->place);
    if (rt->pool) aw__pool_free(rt);
    if (!rt->in_storage) aw__release(rt->allocator, rt, sizeof *rt);
}

/* No task is left, so no call waits or is waited for. */
void aw__rt_end_drivers(aw_runtime *rt) {
    aw__embedded_end(rt);
    aw__place_close(&rt->place);
    for (uint32_t i = 0; rt->pool && i < rt->pool->count; i++)
        aw__place_close(&rt->pool->workers[i].place);
}

void aw__rt_end_blocking(aw_runtime *rt) {
    uint32_t left = rt->blocking ? aw__blocking_end(rt->blocking) : 0;
    rt->blocking = NULL;
    if (left)
        aw__rt_log(rt, AW_LOG_PROBLEM, "%u blocking calls that were given up still run", left);
}

size_t aw_runtime_shutdown(aw_runtime *rt, uint64_t limit) {
    size_t left;
    check_outside("aw_runtime_shutdown");
    if (aw__rt_forked(rt)) return aw_runtime_task_count(rt);
    if (rt->pool) {
        left = aw__pool_shutdown(rt, limit);
    } else {
        close_runtime(rt, "aw_runtime_shutdown", limit);
        aw__rt_drain(rt); /* what came just before it was closed is cancelled here */
        left = rt->live;
    }
    if (left && limit && limit != AW_FOREVER)
        aw__report_left(rt, "%zu tasks have not ended %.3f s after they were cancelled", left,
                        (double)limit / 1e9);
    if (!rt->pool) aw__rt_disown(rt);
    return left;
}

void aw_runtime_free(aw_runtime *rt) {
    if (!rt) return;
    check_outside("aw_runtime_free");
    if (aw__rt_forked(rt)) {
        aw__rt_forget(rt);
        return;
    }
    if (rt->pool) {
        aw__pool_end(rt);
        return;
    }
    close_runtime(rt, "aw_runtime_free", AW_FOREVER);
    aw__rt_end_blocking(rt);
    aw__rt_end_drivers(rt);
    aw__report_sleeps(rt, rt->wheel.count);
    finish_runtime(rt);
}

void aw_runtime_abandon(aw_runtime *rt) {
    if (!rt) return;
    check_outside("aw_runtime_abandon");
    if (aw__rt_forked(rt)) {
        aw__rt_forget(rt);
        return;
    }
    if (rt->pool) {
        aw__pool_abandon(rt);
        return;
    }
    close_runtime(rt, "aw_runtime_abandon", 0);
    if (rt->live) {
        /* The threads that make blocking calls may be busy for them: they leave by themselves. */
        aw__report_left(rt, "%zu tasks were given up and stay alive: nobody runs them any more",
                        rt->live);
    } else {
        aw__rt_end_blocking(rt);
        aw__rt_end_drivers(rt);
        aw__report_sleeps(rt, rt->wheel.count);
    }
    finish_runtime(rt);
}
