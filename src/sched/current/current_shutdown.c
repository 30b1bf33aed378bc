/* SPDX-License-Identifier: MIT
 *
 * The end of a current-thread runtime. The calling thread becomes its owner. */
#include "base/misuse.h"
#include "blocking/blocking_pool.h"
#include "os/lock.h"
#include "os/park.h"
#include "sched/current/current.h"
#include "sched/report.h"
#include "sched/shutdown.h"
#include "task/inbox.h"

/* Become the owner, cancel all tasks, and run them for at most `limit`. */
static void close_runtime(aw_runtime *rt, const char *call, uint64_t limit) {
    if (!aw__rt_own(rt)) aw__misuse("%s while a thread is in block_on", call);
    aw__rt_end_tasks(rt, AW__CLOSING_FINALLY, limit);
}

/* The owner leaves for good. From here on each thread serves its own requests, under the lock
 * (rule 5 of task_header.h). */
static void finish_runtime(aw_runtime *rt) {
    while (!aw__inbox_close(rt))
        aw__rt_drain_inbox(rt);
    while (aw__load_acquire(&rt->unparks_done) != rt->unparks_due)
        aw__os_yield(); /* a thread is about to unpark: see inbox.h */
    aw__context_leave();
    if (rt->live) aw__rt_leave_alive(rt);
    aw__lock(&rt->base.lock);
    rt->ended = true;
    aw__slabs_free_empty(rt);
    aw__task_unref(&rt->main_task);
    bool last = aw__rt_is_unused(rt);
    aw__unlock(&rt->base.lock);
    if (last) aw__current_free_memory(rt);
}

void aw__current_free_memory(aw_runtime *rt) {
    aw__thread_io_free(&rt->thread_io);
    aw__rt_free_memory(rt);
}

size_t aw__current_shutdown(aw_runtime *rt, uint64_t limit) {
    close_runtime(rt, "aw_runtime_shutdown", limit);
    aw__rt_drain_inbox(rt); /* cancels tasks that were spawned just before the closing */
    size_t remaining = rt->live;
    aw__report_shutdown(rt, remaining, limit);
    aw__rt_disown(rt);
    return remaining;
}

void aw__current_end(aw_runtime *rt) {
    close_runtime(rt, "aw_runtime_free", AW_FOREVER);
    aw__rt_end_blocking(rt);
    aw__rt_end_drivers(rt);
    aw__report_sleeps(rt, aw__rt_end_sleeps(rt));
    finish_runtime(rt);
}

void aw__current_abandon(aw_runtime *rt) {
    close_runtime(rt, "aw_runtime_abandon", 0);
    if (rt->live) {
        /* Blocking threads may be busy with calls of these tasks: they exit by themselves. */
        aw__report_remaining(
            rt, "%zu tasks were given up and stay alive: no thread runs them any more", rt->live);
        aw__blocking_stop(rt);
        aw__rt_end_drivers(rt); /* also operations of its tasks */
        aw__rt_end_sleeps(rt);
    } else {
        aw__rt_end_blocking(rt);
        aw__rt_end_drivers(rt);
        aw__report_sleeps(rt, aw__rt_end_sleeps(rt));
    }
    finish_runtime(rt);
}
