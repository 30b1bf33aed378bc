/* SPDX-License-Identifier: MIT
 *
 * The end of a runtime with workers under every schedule: the real sched/multi/pool_shutdown.c and
 * the tasks of sched/multi/pool_task.c, one worker that runs them, and other threads that have
 * handles and wakers, or spawn. The runtime ends after its last task, by a thread that waits for
 * it or by the monitor, and the last user frees the memory. */
#define _GNU_SOURCE
#include "support/model.h"
#include "support/model_park.h"

#include <pthread.h>
#include <signal.h>

#include <awake.h>

/* Replace the library's. */
#define aw__lock_slow             modelled_lock_slow
#define aw__pool_schedule         modelled_schedule
#define aw__worker_main           modelled_worker_main
#define aw__worker_unpark         modelled_worker_unpark
#define aw__monitor_main          modelled_monitor_main
#define aw__monitor_wake          modelled_monitor_wake
#define aw__pool_check_quiescence modelled_check_quiescence
#define aw__magazine_alloc        modelled_magazine_alloc
#define aw__magazine_free         modelled_magazine_free
#define aw__slab_in_storage       modelled_slab_in_storage
#define aw__pool_free_memory      modelled_free_memory
#define aw__rt_end_sleeps         modelled_end_sleeps
#define aw__context               modelled_thread

#define sched_yield() model_yield()
#include "os/lock.c"
#undef sched_yield

static int wait_for_worker(void);
#define pthread_join(thread, result) wait_for_worker()
#define pthread_detach(thread)       ((void)0)
#include "sched/multi/pool_shutdown.c"
#include "sched/multi/pool.c"
#undef pthread_join
#undef pthread_detach
#include "sched/multi/pool_task.c"

_Thread_local struct modelled_thread modelled_thread; /* this thread is not a worker */

enum { TASKS = 2 };

struct gate {
    aw_future future;
    int out, number;
};

static aw_runtime *rt;
static aw__task *queue[TASKS];
static aw_future *handles[TASKS];
static aw_waker waker;
static uint32_t exited, freed;
static int ended[TASKS], discarded[TASKS];
static bool ready[TASKS];

/* ---- What a task needs ----------------------------------------------------------------------- */

aw__task *aw__magazine_alloc(aw__pool *p, size_t frame_size) {
    aw__slab *r = model_alloc(sizeof(aw__slab) + sizeof(aw__task) + frame_size);
    aw__task *t = (aw__task *)(void *)(r + 1);
    r->rt = p->rt;
    t->slab_offset = sizeof(aw__slab) / AW__SLAB_STEP;
    return t;
}
aw__task *aw__slab_in_storage(aw_runtime *of, void *storage) {
    (void)of, (void)storage;
    return NULL;
}
void aw__magazine_free(aw__pool *p, aw__task *t) {
    (void)p;
    model_free(aw__task_slab(t));
}
void aw__pool_free_memory(aw_runtime *gone) {
    model_free(gone->pool);
    model_free(gone);
    freed++;
}

size_t aw__rt_end_sleeps(aw_runtime *of) {
    (void)of;
    return 0;
}

static aw_poll gate_poll(aw_future *f, aw_cx *cx) {
    struct gate *g = (struct gate *)f;
    (void)cx;
    if (!ready[g->number]) return AW_PENDING;
    ended[g->number]++;
    return AW_READY;
}
static aw_poll gate_cancel(aw_future *f, aw_cx *cx) {
    (void)cx;
    ended[((struct gate *)f)->number]++;
    return AW_CANCELLED;
}
static void gate_discard(aw_future *f) {
    discarded[((struct gate *)f)->number]++;
}
static const aw_future_type gate_type = {AW_TYPE_OF(struct gate, "gate"), .poll = gate_poll,
                                         .cancel = gate_cancel, .discard = gate_discard};

static void spawn(int number) {
    static const aw_location location = {"pool_shutdown.c", 1, NULL};
    struct gate g = {AW_FUTURE_INIT(&gate_type), 0, number};
    handles[number] = aw__pool_spawn(rt, 0, &g.future, sizeof g, &location, NULL, NULL);
}

static void setup(void) {
    modelled_thread = (struct modelled_thread){0};
    model_thread_local(&modelled_thread, sizeof modelled_thread);
    exited = freed = 0;
    for (int i = 0; i < TASKS; i++) {
        queue[i] = NULL;
        handles[i] = NULL;
        ended[i] = discarded[i] = 0;
        ready[i] = false;
    }
    rt = model_alloc(sizeof *rt);
    rt->pool = model_alloc(sizeof(aw__pool) + sizeof(aw__worker));
    rt->pool->rt = rt;
    rt->base.sched = &aw__multi_scheduler;
    rt->pool->count = 1;
    rt->pool->allocated = 1;
    spawn(0);
    waker = aw__pool_waker_type.clone(aw__task_of(handles[0]));
}
static void setup_ready(void) {
    setup();
    ready[0] = true;
}

/* ---- The worker ------------------------------------------------------------------------------ */

void aw__pool_schedule(aw__pool *p, aw__task *t, bool to_ring) {
    (void)to_ring;
    int number = ((struct gate *)aw__task_frame(t))->number;
    model_write(&t->next, NULL);
    model_check(!aw__exchange(&queue[number], t));
    (void)aw__load_relaxed(&p->stop); /* like a notification: the pool must still exist */
}
void aw__worker_unpark(aw__worker *w) {
    (void)w; /* it notices by itself that it must stop */
}
void *aw__worker_main(void *worker) {
    return worker;
}

void *aw__monitor_main(void *pool) {
    return pool;
}
void aw__monitor_wake(aw__pool *p) {
    aw__os_unpark(&p->monitor_word);
}

void aw__pool_check_quiescence(aw__pool *p) {
    (void)aw__load_relaxed(&p->stop); /* the pool must still exist; nothing is stuck */
}

static void monitor(void) {
    aw__pool *p = rt->pool;
    while (!aw__pool_end_abandoned(p))
        aw__os_park(&p->monitor_word, AW_FOREVER);
}

static bool can_work(void *pool) {
    return queue[0] || queue[1] || ((aw__pool *)pool)->stop;
}
static void work(void) {
    aw__pool *p = rt->pool;
    while (!aw__load_acquire(&p->stop)) {
        model_wait(can_work, p);
        for (int i = 0; i < TASKS; i++) {
            aw__task *t = aw__exchange(&queue[i], (aw__task *)NULL);
            if (!t) continue;
            aw_cx cx = {NULL, NULL, NULL};
            aw_future *f = aw__task_frame(t);
            bool cancel = aw__word_run(&t->word);
            aw_poll r = cancel ? aw_future_cancel(f, &cx) : aw_future_poll(f, &cx);
            if (r != AW_PENDING)
                aw__pool_complete(p, t, r);
            else if (aw__word_pend(&t->word))
                aw__pool_schedule(p, t, true);
        }
    }
    aw__store_release(&exited, 1u);
}

static bool has_exited(void *unused) {
    (void)unused;
    return exited;
}
static int wait_for_worker(void) {
    model_wait(has_exited, NULL);
    aw__fetch_add(&exited, 0u); /* reads the newest value, and acquires it */
    return 0;
}

/* ---- The other threads ----------------------------------------------------------------------- */

static void end(void) {
    aw__pool_end(rt);
}
static void abandon(void) {
    aw__pool_abandon(rt);
}
static void drop_and_wake(void) {
    aw__pool_drop(aw__task_of(handles[0]));
    aw_waker_wake(waker);
}
static void abort_drop_and_wake(void) {
    aw__pool_abort(aw__task_of(handles[0]));
    aw_waker_wake(waker);
    aw__pool_drop(aw__task_of(handles[0]));
}
/* This thread has a handle, so the runtime still exists. */
static void spawn_late(void) {
    spawn(1);
    if (!aw__handle_error(handles[1])) aw__pool_drop(aw__task_of(handles[1]));
    drop_and_wake();
}

static void nothing_is_left(void) {
    model_check(freed == 1 && model_allocated() == 0);
    model_check(ended[0] == 1 && discarded[0] == ready[0]);
}
static void it_was_discarded_or_cancelled(void) {
    model_check(freed == 1 && model_allocated() == 0);
    model_check(ended[0] == 1 && discarded[0] <= 1);
}
static void all_but_handle_and_waker(void) {
    model_check(freed == 0 && ended[0] == 1);
    drop_and_wake();
    it_was_discarded_or_cancelled();
}
static void nothing_is_left_of_the_late_one(void) {
    nothing_is_left();
    model_check(ended[1] == 1 && discarded[1] == 0);
}
MODEL(the_runtime_ends_when_its_last_task_does, .setup = setup_ready,
      .threads = {end, work, drop_and_wake}, .check = it_was_discarded_or_cancelled, .stale = 1)
MODEL(a_task_that_waits_is_cancelled_at_the_end, .setup = setup,
      .threads = {end, work, drop_and_wake}, .check = nothing_is_left, .stale = 1)
MODEL(an_abort_may_come_with_the_end, .setup = setup, .threads = {end, work, abort_drop_and_wake},
      .check = nothing_is_left, .stale = 1)
MODEL(a_spawn_that_comes_with_the_end_is_cancelled, .setup = setup,
      .threads = {end, work, spawn_late}, .check = nothing_is_left_of_the_late_one, .stale = 1)

MODEL(an_abandoned_runtime_ends_by_itself, .setup = setup_ready,
      .threads = {abandon, work, monitor}, .check = all_but_handle_and_waker, .stale = 1)
MODEL(an_abandoned_runtime_is_freed_by_its_last_user, .setup = setup,
      .threads = {abandon, work, monitor, drop_and_wake}, .check = nothing_is_left,
      .preemptions = 1)

/* ---- Orders ---------------------------------------------------------------------------------- */

static const struct model early = {.setup = setup_ready,
                                   .threads = {end, work, drop_and_wake},
                                   .check = it_was_discarded_or_cancelled,
                                   .preemptions = 1};
static const struct model late = {.setup = setup,
                                  .threads = {end, work, spawn_late},
                                  .check = nothing_is_left_of_the_late_one,
                                  .preemptions = 1};

static const struct model alone = {.setup = setup,
                                   .threads = {abandon, work, monitor},
                                   .check = all_but_handle_and_waker,
                                   .preemptions = 1};
/* What belongs to a task is passed on by its word and by the locks of the lists, and what
 * belongs to the runtime by `allocated`. `closing` and `live` are numbers; one side sees the
 * other's. */
static const struct model_harmless of_ends[] = {
    {"close_pool", "aw__load_acquire(&rt->followers)", "acquire", "it is only a check"},
    {"close_pool", "aw__store_seq(&rt->closing", "release", "a number"},
    {"aw__pool_abandon", "aw__store_release(", "release", "the wake that follows passes it on"},
    {"aw__pool_end_abandoned", "aw__load_seq(&p->abandoned)", "acquire", "a number"},
    {"aw__pool_abandon", "aw__store_seq(&p->ending", "release",
     "its readers are not in this model"},
    {"aw__pool_abandon", "aw__store_seq(&p->ending", "seq_cst",
     "its readers are not in this model"},
    {"wait_for_tasks", "aw__store_seq(&p->ending", "release", "its readers are not in this model"},
    {"wait_for_tasks", "aw__store_seq(&p->ending", "seq_cst", "its readers are not in this model"},
    {"wait_for_tasks", "aw__load_acquire(&p->deadlocked)", "acquire", "once set it stays set"},
    {"end_workers", "aw__load_acquire(&p->deadlocked)", "acquire", "once set it stays set"},
    {"aw__pool_end_abandoned", "aw__load_acquire(&p->deadlocked)", "acquire",
     "once set it stays set"},
    {"aw__pool_end_abandoned", "aw__load_seq(&p->live)", "acquire",
     "the workers are joined after that"},
    {"wait_for_tasks", "aw__load_seq(&p->live)", "acquire", "the workers are joined after that"},
    {0}};
static const struct model_harmless of_pools[] = {
    {"aw__pool_stop", "aw__store_release(", "release",
     "no task is left that could need what was before"},
    {0}};
static const struct model_harmless of_tasks[] = {
    {"shard_add", "aw__load_acquire(", "acquire", "the lock of the list passes it on"},
    {"count_down", "aw__fetch_add_seq(", "acquire", "a number"},
    {"count_down", "aw__fetch_add_seq(", "release", "a number; the workers are joined after that"},
    {"count_down", "aw__load_seq(", "acquire", "a number"},
    {0}};

MODEL_ORDERS(the_orders_of_the_end, "sched/multi/pool_shutdown.c", of_ends, &early, &late, &alone)
MODEL_ORDERS(the_orders_of_stopping, "sched/multi/pool.c", of_pools, &early, &late)
MODEL_ORDERS(the_orders_of_the_last_task, "sched/multi/pool_task.c", of_tasks, &early, &late,
             &alone)
