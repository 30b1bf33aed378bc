/* SPDX-License-Identifier: MIT
 *
 * Creating a runtime, entering and holding it, and references to it. shutdown.c ends it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/allocate.h"
#include "base/sized_copy.h"
#include "os/park.h"
#include "sched/current/current.h"
#include "sched/multi/pool.h"
#include "sched/options.h"
#include "task/owner_park.h"

/* ---- The default seam ------------------------------------------------------------------------ */

static uint64_t default_entropy(void *data) {
    (void)data;
    return aw__os_entropy();
}

static int set_seam(aw_runtime *rt, const aw_seam *seam) {
    if (seam) rt->base.seam = *seam;
    if (!rt->base.seam.now) rt->base.seam.now = aw__system_now;
    if (!rt->base.seam.entropy) rt->base.seam.entropy = default_entropy;
    return !rt->base.seam.park == !rt->base.seam.unpark ? 0 : -EINVAL;
}

static void unpark_owner(aw__wheel *w) {
    aw__rt_unpark(w->rt);
}

/* ---- Creation -------------------------------------------------------------------------------- */

static int set_threads(aw_runtime *rt, const aw_runtime_options *o) {
    if (o->hooks && !aw__copy_sized(&rt->hooks, sizeof rt->hooks, o->hooks)) return -EINVAL;
    rt->threads.start = rt->hooks.thread_start;
    rt->threads.stop = rt->hooks.thread_stop;
    rt->threads.data = rt->hooks.data;
    snprintf(rt->threads.name, sizeof rt->threads.name, "%s",
             o->thread_name ? o->thread_name : "awake");
    return 0;
}

int aw_runtime_new_in(aw_runtime **out, void *memory, size_t size,
                      const aw_runtime_options *options) {
    aw_runtime_options o;
    int error = aw__options_copy(&o, options);
    if (error) return error;
    if ((uintptr_t)memory % 16) return -EINVAL;
    if (size < sizeof(aw_runtime)) return -ENOSPC;

    aw_runtime *rt = memory;
    memset(rt, 0, sizeof *rt);
    error = set_seam(rt, o.seam);
    if (!error) error = set_threads(rt, &o);
    if (!error) error = aw__fork_watch();
    if (error) return error;
    rt->base.generation = aw__fork_generation;
    rt->base.in_storage = true;
    rt->base.allocator = o.allocator ? o.allocator : aw_get_allocator();
    rt->base.log = o.log;
    rt->base.log_data = o.log_data;
    rt->base.name = o.name;
    rt->keep_tasks = o.keep_tasks;
    aw__options_settle(&o, rt);
    rt->base.driver_type = aw__options_driver(&o, rt);
    if (!rt->base.driver_type) return -EINVAL;
    rt->base.budget = o.budget ? o.budget : 128;
    rt->cancel_report = o.cancel_report ? o.cancel_report : AW_SEC(1);
    rt->cleanup_deadline = o.cleanup_deadline ? o.cleanup_deadline : AW_SEC(5);
    rt->meter.stack_size = o.stack_size;
    static uint64_t made; /* atomic */
    rt->base.number = 1 + aw__fetch_add_relaxed(&made, (uint64_t)1);
    rt->tasks.max = o.max_tasks;
    rt->base.stacks.max = o.max_stacks;
    rt->max_blocking = o.max_blocking;
    rt->blocking_threads = o.blocking_threads;
    rt->blocking_idle = o.blocking_idle ? o.blocking_idle : AW_SEC(10);
    rt->watch_at = AW_FOREVER;
    rt->outside_ids = 1;
    rt->seed = o.seed ? o.seed : rt->base.seam.entropy(rt->base.seam.data);
    rt->meter.random = rt->seed ? rt->seed : 1;
    aw__wheel_init(&rt->wheel, rt, unpark_owner, aw__rt_now(rt));
    rt->base.wheels = &rt->wheel;
    rt->allocated = 1; /* the main task, until the runtime ends */
    rt->main_slab.rt = rt;
    rt->main_task = (aw__task){
        .slab_offset = sizeof(aw__slab) / AW__SLAB_STEP, .local = 1, .flags = AW__MAIN | AW__DONE};
    rt->base.sched = &aw__current_scheduler;
    rt->base.rings_owned = o.flavour != AW_MULTI_THREAD;
    if (o.flavour != AW_CURRENT_THREAD)
        error = aw__pool_new(rt, o.workers, o.flavour == AW_THREAD_PER_CORE);
    if (error) return error;
    if (o.paused) aw_clock_pause(rt);
    *out = rt;
    return 0;
}

int aw_runtime_new(aw_runtime **out, const aw_runtime_options *options) {
    const aw_allocator *a = options &&
                                    options->self_size > offsetof(aw_runtime_options, allocator) &&
                                    options->allocator
                                ? options->allocator
                                : aw_get_allocator();
    void *memory = aw__alloc(a, sizeof(aw_runtime));
    if (!memory) return -ENOMEM;
    int error = aw_runtime_new_in(out, memory, sizeof(aw_runtime), options);
    if (error)
        aw__free(a, memory, sizeof(aw_runtime));
    else
        (*out)->base.in_storage = false;
    return error;
}

/* ---- Threads and tasks ----------------------------------------------------------------------- */

aw_runtime *aw_enter(aw_runtime *rt) {
    aw_runtime *previous = aw__context.entered;
    if (rt) aw__rt_ref(rt);
    aw__context.entered = rt;
    return previous;
}

/* The reference on `previous` is the one that its own aw_enter took. */
void aw_leave(aw_runtime *previous) {
    aw_runtime *rt = aw__context.entered;
    aw__context.entered = previous;
    if (rt) aw__rt_unref(rt);
}

uint32_t aw_runtime_workers(const aw_runtime *rt) {
    return rt->base.workers;
}

size_t aw_runtime_task_count(const aw_runtime *rt) {
    return rt->base.sched->task_count(rt);
}
