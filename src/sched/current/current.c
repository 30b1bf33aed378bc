/* SPDX-License-Identifier: MIT
 *
 * The current-thread scheduler as a table (context/scheduler.h). */
#include "sched/current/current.h"

#include "os/lock.h"
#include "sched/report.h"
#include "task/inbox.h"

static aw__thread_io *current_thread_io(aw_runtime *rt, bool shared_ring) {
    (void)shared_ring;
    return &rt->thread_io;
}

static aw__thread_io *current_nth_thread_io(const aw_runtime *rt, uint32_t n) {
    return n == 0 ? &((aw_runtime *)(uintptr_t)rt)->thread_io : NULL;
}

static aw__wheel *current_nth_wheel(aw_runtime *rt, uint32_t n) {
    return n == 0 ? &rt->wheel : NULL;
}

/* The owner computes its deadline before each sleep, and only the owner may change the clock. */
static void current_clock_changed(aw_runtime *rt) {
    (void)rt;
}

/* The owner has to check for a deadlock again, and may then end the runtime. The reference on the
 * main task keeps the runtime until this call is done. */
static void current_unhold(aw_runtime *rt, uint32_t *count) {
    aw__task_request(&rt->main_task, 0, +1);
    aw__fetch_sub(count, 1u);
    aw__task_request(&rt->main_task, AW__KICK, -1);
}

/* Includes tasks of other threads that are still in the inbox. */
static size_t current_task_count(const aw_runtime *rt) {
    size_t n = rt->live;
    for (const aw__task *t = aw__inbox_first(rt); t; t = t->inbox_next)
        n += (aw__load_relaxed(&t->shared) & AW__NEW) != 0;
    return n;
}

static void current_ref(aw_runtime *rt) {
    aw__lock(&rt->base.lock);
    rt->refs++;
    aw__unlock(&rt->base.lock);
}

static void current_unref(aw_runtime *rt) {
    /* In the child of a fork a thread that is gone may hold the lock, and no other thread runs. */
    bool locks = !aw__rt_forked(rt) || rt->base.forgotten;
    if (locks) aw__lock(&rt->base.lock);
    rt->refs--;
    bool last = aw__rt_is_unused(rt);
    if (locks) aw__unlock(&rt->base.lock);
    if (last) aw__current_free_memory(rt);
}

/* By the owner: no task runs meanwhile, except one whose poll asks for a description. */
static void current_each_task(aw_runtime *rt, void (*f)(const aw__task_view *v, void *data),
                              void *data) {
    aw__task *t = &rt->main_task;
    if (rt->main && !(t->flags & AW__DONE))
        f(&(aw__task_view){t, rt->main, t->flags & AW__CANCEL}, data);
    for (aw__task_walk w = {.rt = rt}; (t = aw__task_walk_next(&w));)
        f(&(aw__task_view){t, aw__task_frame(t), t->flags & AW__CANCEL}, data);
    for (t = (aw__task *)(uintptr_t)aw__inbox_first(rt); t; t = t->inbox_next)
        if (aw__load_relaxed(&t->shared) & AW__NEW)
            f(&(aw__task_view){t, aw__task_frame(t), t->flags & AW__CANCEL}, data);
}

/* Not by a thread that polls its own main future while another thread is the owner. */
static void current_count_cancels(aw_runtime *rt, aw__task *t, int32_t change, bool ended) {
    if (!aw__is_owner(rt)) return;
    if (aw__count_cancels(t, change, ended) && rt->watch_at == AW_FOREVER)
        aw__cancel_watch_begin(rt);
}

static void current_cancel_running(aw_runtime *rt, aw__task *t) {
    (void)rt;
    t->flags |= AW__CANCEL | AW__QUEUED;
}

/* No other thread takes over for the owner. */
static bool current_in_place_begin(void) {
    return false;
}
static void current_in_place_end(void) {}

/* Spawns and joins do not go through the table: task/task.c, task/join.c. */
const aw__scheduler aw__current_scheduler = {
    .wake = aw__task_wake,
    .abort = aw__owner_task_abort,
    .drop = aw__owner_task_drop,
    .is_finished = aw__owner_task_is_finished,
    .each_task = current_each_task,
    .count_cancels = current_count_cancels,
    .cancel_running = current_cancel_running,
    .thread_io = current_thread_io,
    .nth_thread_io = current_nth_thread_io,
    .nth_wheel = current_nth_wheel,
    .clock_changed = current_clock_changed,
    .in_place_begin = current_in_place_begin,
    .in_place_end = current_in_place_end,
    .block_on = aw__current_block_on,
    .unhold = current_unhold,
    .task_count = current_task_count,
    .ref = current_ref,
    .unref = current_unref,
    .free_memory = aw__current_free_memory,
    .shutdown = aw__current_shutdown,
    .end = aw__current_end,
    .abandon = aw__current_abandon,
    .forget = aw__current_forget,
};
