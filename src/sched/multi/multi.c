/* SPDX-License-Identifier: MIT
 *
 * The multi-thread scheduler as a table (context/scheduler.h). */
#include "sched/multi/multi.h"

#include "sched/multi/monitor.h"
#include "sched/multi/pool.h"
#include "sched/multi/pool_join.h"
#include "sched/multi/pool_shutdown.h"
#include "sched/multi/pool_task.h"
#include "sched/multi/quiescence.h"
#include "sched/multi/schedule.h"
#include "sched/shutdown.h"

static void multi_wake(aw__task *t) {
    aw__pool_waker_type.wake_by_ref(t);
}

static bool multi_is_finished(const aw__task *t) {
    return aw__word_is_done(&t->word);
}

/* Outside threads are spread over all workers; the shared ring is that of the first. */
static aw__thread_io *multi_thread_io(aw_runtime *rt, bool shared_ring) {
    aw__pool *p = rt->pool;
    uint32_t i = shared_ring ? 0 : aw__fetch_add_relaxed(&p->next, 1u) % p->count;
    return &p->workers[i].thread_io;
}

static aw__thread_io *multi_nth_thread_io(const aw_runtime *rt, uint32_t n) {
    return n < rt->pool->count ? &rt->pool->workers[n].thread_io : NULL;
}

static aw__wheel *multi_nth_wheel(aw_runtime *rt, uint32_t n) {
    return n < rt->pool->count ? &rt->pool->workers[n].wheel : NULL;
}

static void multi_clock_changed(aw_runtime *rt) {
    aw__pool_unpark_all(rt->pool);
}

static void multi_unhold(aw_runtime *rt, uint32_t *count) {
    aw__pool_unhold(rt->pool, count);
}

static size_t multi_task_count(const aw_runtime *rt) {
    return (size_t)aw__load_relaxed(&rt->pool->live);
}

static void multi_ref(aw_runtime *rt) {
    aw__pool_ref(rt->pool);
}

static void multi_unref(aw_runtime *rt) {
    aw__pool_unref(rt->pool);
}

/* The thread is a worker, or in block_on. */
static bool multi_in_place_begin(void) {
    aw__worker *w = aw__context.worker;
    if (w)
        aw__worker_leave(w);
    else
        aw__block_on_leave(aw__block_on_of(aw__context.main));
    return true;
}

static void multi_in_place_end(void) {
    aw__worker *w = aw__context.worker;
    if (w)
        aw__worker_return(w);
    else
        aw__block_on_return(aw__block_on_of(aw__context.main));
}

/* Main futures of threads that are awake are left out. */
static void multi_each_task(aw_runtime *rt, void (*f)(const aw__task_view *v, void *data),
                            void *data) {
    aw__block_on_each_asleep(rt->pool, f, data);
    aw__pool_each(rt->pool, f, data);
}

void aw__pool_free_memory(aw_runtime *rt) {
    aw__pool_free(rt);
    aw__rt_free_memory(rt);
}

const aw__scheduler aw__multi_scheduler = {
    .spawn = aw__pool_spawn,
    .wake = multi_wake,
    .abort = aw__pool_abort,
    .drop = aw__pool_drop,
    .is_finished = multi_is_finished,
    .join_poll = aw__pool_join_poll,
    .join_cancel = aw__pool_join_cancel,
    .each_task = multi_each_task,
    .count_cancels = aw__pool_count_cancels,
    .cancel_running = aw__pool_cancel_running,
    .thread_io = multi_thread_io,
    .nth_thread_io = multi_nth_thread_io,
    .nth_wheel = multi_nth_wheel,
    .clock_changed = multi_clock_changed,
    .in_place_begin = multi_in_place_begin,
    .in_place_end = multi_in_place_end,
    .block_on = aw__pool_block_on,
    .unhold = multi_unhold,
    .task_count = multi_task_count,
    .ref = multi_ref,
    .unref = multi_unref,
    .free_memory = aw__pool_free_memory,
    .shutdown = aw__pool_shutdown,
    .end = aw__pool_end,
    .abandon = aw__pool_abandon,
    .forget = aw__pool_forget,
};
