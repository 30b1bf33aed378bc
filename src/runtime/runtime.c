/* SPDX-License-Identifier: MIT
 *
 * Making a runtime, and what a thread has to do with one. Ending it is in shutdown.c. */
#include "runtime/runtime.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/misuse.h"
#include "fiber/fiber.h"
#include "os/park.h"
#include "runtime/inbox.h"
#include "runtime/options.h"
#include "workers/pool.h"
#include "workers/quiet.h"

/* ---- The default seam ------------------------------------------------------------------------- */

static uint64_t default_now(void *data) {
    (void)data;
    return aw__os_now();
}
static uint64_t default_entropy(void *data) {
    (void)data;
    return aw__os_entropy();
}

bool aw__rt_has_system_clock(const aw_runtime *rt) {
    return rt->seam.now == default_now;
}

static int set_seam(aw_runtime *rt, const aw_seam *seam) {
    if (seam) rt->seam = *seam;
    if (!rt->seam.now) rt->seam.now = default_now;
    if (!rt->seam.entropy) rt->seam.entropy = default_entropy;
    return !rt->seam.park == !rt->seam.unpark ? 0 : -EINVAL;
}

static void park_owner(aw_runtime *rt, uint64_t deadline) {
    aw__events events;
    aw__place_park(&rt->place, deadline, &events);
    aw__place_tell(&rt->place, &events);
}

void aw__rt_park(aw_runtime *rt, uint64_t deadline) {
    if (rt->seam.park)
        rt->seam.park(rt->seam.data, deadline);
    else
        park_owner(rt, deadline);
}

void aw__rt_unpark(aw_runtime *rt) {
    if (aw__rt_forked(rt)) return; /* the one who sleeps is in another process */
    if (rt->seam.unpark)
        rt->seam.unpark(rt->seam.data);
    else
        aw__place_unpark(&rt->place);
}

static void unpark_owner(aw__wheel *w) {
    aw__rt_unpark(w->rt);
}

/* ---- Making ----------------------------------------------------------------------------------- */

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
    rt->generation = aw__fork_generation;
    rt->in_storage = true;
    rt->allocator = o.allocator ? o.allocator : aw_get_allocator();
    rt->log = o.log;
    rt->log_data = o.log_data;
    rt->name = o.name;
    rt->keep_tasks = o.keep_tasks;
    aw__options_settle(&o, rt);
    rt->driver_type = aw__options_driver(&o, rt);
    if (!rt->driver_type) return -EINVAL;
    rt->budget = o.budget ? o.budget : 128;
    rt->cancel_report = o.cancel_report ? o.cancel_report : AW_SEC(1);
    rt->cleanup_deadline = o.cleanup_deadline ? o.cleanup_deadline : AW_SEC(5);
    rt->meter.stack_size = o.stack_size;
    static uint64_t made; /* atomic */
    rt->number = 1 + aw__fetch_add_relaxed(&made, (uint64_t)1);
    rt->tasks.max = o.max_tasks;
    rt->stacks.max = o.max_stacks;
    rt->max_blocking = o.max_blocking;
    rt->blocking_threads = o.blocking_threads;
    rt->blocking_idle = o.blocking_idle ? o.blocking_idle : AW_SEC(10);
    rt->watch_at = AW_FOREVER;
    rt->outside_ids = 1;
    rt->meter.random = o.seed ? o.seed : rt->seam.entropy(rt->seam.data);
    if (!rt->meter.random) rt->meter.random = 1;
    aw__wheel_init(&rt->wheel, rt, unpark_owner, aw__rt_now(rt));
    rt->wheels = &rt->wheel;
    rt->allocated = 1; /* the main task, until the runtime ends */
    rt->main_room.rt = rt;
    rt->main_task = (aw__task){
        .room = sizeof(aw__room) / AW__ROOM_STEP, .local = 1, .flags = AW__MAIN | AW__DONE};
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
        aw__release(a, memory, sizeof(aw_runtime));
    else
        (*out)->in_storage = false;
    return error;
}

/* ---- Threads ---------------------------------------------------------------------------------- */

aw_runtime *aw_runtime_current(void) {
    if (aw__thread.running) return aw__thread.running;
    if (aw__thread.worker) return aw__thread.worker->pool->rt;
    if (aw__thread.beside) return aw__thread.beside;
    aw_runtime *rt = aw__thread.entered;
    return rt && aw__rt_forked(rt) ? NULL : rt;
}

aw_runtime *aw_cx_runtime(const aw_cx *cx) {
    return cx->runtime ? cx->runtime : aw_runtime_current();
}

const aw_allocator *aw__allocator_for(const aw_runtime *rt) {
    if (!rt) rt = aw_runtime_current();
    return rt ? rt->allocator : aw_get_allocator();
}

bool aw__stack_place_take(aw_runtime *rt, uint64_t *place) {
    *place = 0;
    if (!rt || !rt->stacks.max) return true;
    *place = rt->number;
    return aw__limit_take(&rt->stacks);
}

void aw__stack_place_give(aw_runtime *rt, uint64_t place) {
    if (place && rt && rt->number == place) aw__limit_give(&rt->stacks);
}

aw_runtime *aw_enter(aw_runtime *rt) {
    aw_runtime *previous = aw__thread.entered;
    aw__thread.entered = rt;
    return previous;
}

void aw_leave(aw_runtime *previous) {
    aw__thread.entered = previous;
}

void aw_runtime_hold(aw_runtime *rt) {
    aw__fetch_add(&rt->holds, 1u);
}

void aw__rt_unhold(aw_runtime *rt, uint32_t *count) {
    if (rt->pool) {
        aw__pool_unhold(rt->pool, count);
        return;
    }
    /* Whoever sleeps because of it has to look again, and may end the runtime then: a reference keeps
     * it until we are done. */
    aw__task_request(&rt->main_task, 0, +1);
    aw__fetch_sub(count, 1u);
    aw__task_request(&rt->main_task, AW__KICK, -1);
}

void aw_runtime_release(aw_runtime *rt) {
    aw__rt_unhold(rt, &rt->holds);
}

/* Also those that other threads spawned and that nobody has looked at yet. */
size_t aw_runtime_task_count(const aw_runtime *rt) {
    if (rt->pool) return (size_t)aw__load_relaxed(&rt->pool->live);
    size_t n = rt->live;
    for (const aw__task *t = aw__inbox_first(rt); t; t = t->inbox_next)
        n += (aw__load_relaxed(&t->shared) & AW__NEW) != 0;
    return n;
}

void aw__rt_log(const aw_runtime *rt, aw_log_level level, const char *format, ...) {
    char message[4096];
    int n = rt && rt->name ? snprintf(message, 256, "runtime '%s': ", rt->name) : 0;
    n = n < 256 ? n : 255;
    va_list args;
    va_start(args, format);
    vsnprintf(message + n, sizeof message - (size_t)n, format, args);
    va_end(args);
    if (rt && rt->log)
        rt->log(rt->log_data, level, message);
    else
        aw_log(level, "%s", message);
}
