/* SPDX-License-Identifier: MIT
 *
 * Creating the workers of a runtime, and their counters. pool_shutdown.c ends them. */
#include "sched/multi/pool.h"

#include <errno.h>
#include <string.h>

#include "base/allocate.h"
#include "os/thread.h"
#include "sched/multi/monitor.h"
#include "sched/multi/multi.h"
#include "sched/multi/schedule.h"
#include "sched/multi/worker.h"

static size_t pool_bytes(uint32_t workers) {
    return sizeof(aw__pool) + workers * sizeof(aw__worker) + 64;
}

static void unpark_worker(aw__wheel *w) {
    aw__worker_unpark((aw__worker *)(void *)((char *)w - offsetof(aw__worker, wheel)));
}

void aw__pool_stop(aw__pool *p, uint32_t started) {
    aw__store_release(&p->stop, 1u);
    for (uint32_t i = 0; i < started; i++)
        aw__worker_unpark(&p->workers[i]);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(p->workers[i].thread, NULL);
}

static void bind_threads(aw_runtime *rt) {
    int error = aw__processors_get(&rt->threads.allowed);
    rt->threads.bound = !error;
    if (error)
        aw__rt_log(rt, AW_LOG_INFO, "the workers are not bound to processors: %s",
                   strerror(-error));
}

int aw__pool_new(aw_runtime *rt, uint32_t workers, bool no_stealing) {
    void *memory = aw__alloc(rt->base.allocator, pool_bytes(workers));
    if (!memory) return -ENOMEM;
    memset(memory, 0, pool_bytes(workers));
    aw__pool *p = (aw__pool *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    p->memory = memory;
    p->rt = rt;
    p->count = p->idle.workers = workers;
    p->allocated = 1;
    p->no_stealing = no_stealing;
    if (no_stealing) bind_threads(rt);
    rt->pool = p;
    rt->base.sched = &aw__multi_scheduler;
    rt->base.has_workers = true;
    rt->base.workers = workers;
    rt->base.wheels = &p->workers[0].wheel;
    for (uint32_t i = 0; i < workers; i++) {
        aw__worker *w = &p->workers[i];
        w->pool = p;
        w->index = i;
        w->busy = AW__ASLEEP;
        w->meter.stack_size = rt->meter.stack_size;
        w->meter.random = aw__rt_next_seed(rt);
        aw__wheel_init(&w->wheel, rt, unpark_worker, aw__rt_now(rt));
        w->wheel.shared = true;
    }
    int error = 0;
    uint32_t started = 0;
    for (; started < workers && !error; started += !error) {
        aw__worker *w = &p->workers[started];
        error = aw__os_thread(&w->thread, aw__worker_main, w);
    }
    if (!error) error = aw__os_thread(&p->monitor, aw__monitor_main, p);
    if (!error) return 0;
    aw__pool_stop(p, started);
    aw__pool_free(rt);
    return error;
}

void aw__pool_free(aw_runtime *rt) {
    aw__pool *p = rt->pool;
    uint32_t workers = p->count;
    for (uint32_t i = 0; i < workers; i++)
        aw__thread_io_free(&p->workers[i].thread_io);
    rt->pool = NULL;
    aw__free(rt->base.allocator, p->memory, pool_bytes(workers));
}

/* Retry if the worker fell asleep or woke up in between: its sleep must not count. */
static uint64_t busy_time(const aw__worker *w) {
    uint64_t busy, now;
    do {
        busy = aw__load_acquire(&w->busy);
        now = aw__os_now();
    } while (busy != aw__load_relaxed(&w->busy));
    return busy & AW__ASLEEP ? busy & ~AW__ASLEEP : now - busy;
}

static uint64_t queue_depth(const aw__worker *w) {
    int64_t pinned = aw__pinned_count(&w->pinned);
    uint64_t n = aw__ring_length(&w->ring) + aw__lifo_is_full(&w->lifo);
    return pinned > 0 ? n + (uint64_t)pinned : n;
}

int aw_runtime_counters_sized(const aw_runtime *rt, uint32_t i, aw_worker_counters *counters,
                              size_t size) {
    if (i >= rt->base.workers) return -EINVAL;
    const aw__worker *w = &rt->pool->workers[i];
    const aw_worker_counters *c = &w->counters;
    aw_worker_counters now = {
        .polls = aw__load_relaxed(&c->polls),
        .steals = aw__load_relaxed(&c->steals),
        .parks = aw__load_relaxed(&c->parks),
        .overflows = aw__load_relaxed(&c->overflows),
        .takeovers = aw__load_relaxed(&c->takeovers),
        .wakes = aw__load_relaxed(&c->wakes),
        .depth = queue_depth(w),
        .busy = busy_time(w),
    };
    if (size > sizeof now) memset(counters, 0, size); /* zero the members of a newer version */
    memcpy(counters, &now, size < sizeof now ? size : sizeof now);
    return 0;
}
