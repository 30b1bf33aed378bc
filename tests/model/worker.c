/* SPDX-License-Identifier: MIT
 *
 * sched/multi/worker.c under every schedule: the real loop of one or two workers, with real queues
 * and tasks. The task in a LIFO slot is run once, by its worker or by the one that gets it from
 * the monitor, even if the worker is stuck. A pinned task reaches its worker at any point of its
 * way to sleep. Timers and the check for quiescence are left out. */
#include "support/model.h"
#include "support/model_park.h"

#include <awake.h>

#define AW__RING_SIZE 4u
#define AW__SHARDS    1

/* Replace the library's. */
#define aw__lock_slow             modelled_lock_slow
#define aw__pool_free_memory      modelled_free_memory
#define aw__report_lost           modelled_report_lost
#define aw__magazine_alloc        modelled_magazine_alloc
#define aw__magazine_free         modelled_magazine_free
#define aw__magazine_idle         modelled_magazine_idle
#define aw__magazine_clear        modelled_magazine_clear
#define aw__wheel_next            modelled_wheel_next
#define aw__pool_check_quiescence modelled_check_quiescence
#define aw__pool_unhold           modelled_unhold
#define aw__thread_begins         modelled_thread_begins
#define aw__thread_ends           modelled_thread_ends
#define aw__context               modelled_thread

#define sched_yield() model_yield()
#include "os/lock.c"
#undef sched_yield

#include "sched/multi/monitor.c"
#include "sched/multi/schedule.c"
#include "sched/multi/pool_task.c"
#include "sched/multi/worker.c"

_Thread_local struct modelled_thread modelled_thread;

enum { TASKS = 2 };

struct gate {
    aw_future future;
    int out; /* its number */
};

static aw_runtime *rt;
static aw__pool *pool;
static aw__task *tasks[TASKS];
static uint32_t ran, wanted, begun;
static int data[TASKS], runs[TASKS];
static bool greedy; /* the first task keeps its worker until the second has begun */

/* ---- What they need -------------------------------------------------------------------------- */

aw__task *aw__magazine_alloc(aw__pool *of, size_t frame_size) {
    aw__slab *r = model_alloc(sizeof(aw__slab) + sizeof(aw__task) + frame_size);
    aw__task *t = (aw__task *)(void *)(r + 1);
    r->rt = of->rt;
    t->slab_offset = sizeof(aw__slab) / AW__SLAB_STEP;
    return t;
}
void aw__magazine_free(aw__pool *of, aw__task *t) {
    (void)of;
    model_free(aw__task_slab(t));
}
void aw__magazine_clear(aw__worker *w) {
    (void)w;
}
void aw__magazine_idle(aw__worker *w, bool last) {
    (void)w, (void)last;
}
void aw__pool_free_memory(aw_runtime *gone) {
    (void)gone;
    model_fail("the runtime has not ended");
}
void aw__report_lost(const aw_runtime *of, const aw__task *t, const aw_future *f) {
    (void)of, (void)t, (void)f;
    model_fail("nothing is lost");
}
void aw__pool_check_quiescence(aw__pool *p) {
    (void)p;
}
void aw__pool_unhold(aw__pool *p, uint32_t *count) {
    (void)p;
    aw__fetch_sub(count, 1u);
}
int aw__thread_begins(const aw__threads *threads, aw_thread_kind kind, uint32_t index) {
    (void)threads, (void)kind, (void)index;
    return 0;
}
void aw__thread_ends(const aw__threads *threads, aw_thread_kind kind, uint32_t index) {
    (void)threads, (void)kind, (void)index;
}
uint64_t aw__wheel_next(aw__wheel *w, bool exact) {
    (void)w, (void)exact;
    return AW_FOREVER;
}

static uint64_t no_time(void *unused) {
    (void)unused;
    return 0;
}

static bool second_has_begun(void *unused) {
    (void)unused;
    return begun;
}

/* The first task wakes the second; the last one to run stops the workers. */
static aw_poll gate_poll(aw_future *f, aw_cx *cx) {
    int i = ((struct gate *)f)->out;
    (void)cx;
    model_check(model_read(&data[i]) == 1);
    model_write(&runs[i], model_read(&runs[i]) + 1);
    if (i == 0 && wanted == 2) {
        model_write(&data[1], 1);
        model_write(&tasks[1]->next, NULL); /* as if it had just been in a queue */
        aw_waker_wake_by_ref(&(aw_waker){&aw__pool_waker_type, tasks[1]});
        if (greedy) model_wait(second_has_begun, NULL);
    } else {
        aw__store_relaxed(&begun, 1u);
    }
    if (aw__fetch_add_relaxed(&ran, 1u) + 1 == wanted) {
        aw__store_release(&pool->stop, 1u);
        aw__pool_unpark_all(pool);
    }
    return AW_READY;
}
static const aw_future_type gate_type = {AW_TYPE_OF(struct gate, "gate"), .poll = gate_poll};

/* The tasks have been polled before, and wait. The last worker has none of them. */
static void setup_tasks(uint32_t workers, uint32_t count, uint32_t pin) {
    static const aw_location location = {"worker.c", 1, NULL};
    aw__task *rest;
    modelled_thread = (struct modelled_thread){0};
    model_thread_local(&modelled_thread, sizeof modelled_thread);
    ran = begun = 0;
    wanted = count;
    greedy = false;
    rt = model_alloc(sizeof *rt);
    rt->pool = pool = model_alloc(sizeof(aw__pool) + workers * sizeof(aw__worker));
    rt->watch_at = AW_FOREVER;
    rt->base.seam.now = no_time;
    pool->rt = rt;
    pool->count = pool->idle.workers = workers;
    pool->allocated = 1;
    for (uint32_t i = 0; i < workers; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        pool->workers[i].wheel.soonest = AW_FOREVER;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct gate g = {AW_FUTURE_INIT(&gate_type), (int)i};
        data[i] = runs[i] = 0;
        tasks[i] = aw__task_of(aw__pool_spawn(rt, pin, &g.future, sizeof g, &location, NULL, NULL));
        if (pin)
            pool->workers[pin - 1].pinned.inbox = NULL;
        else
            aw__inject_pop(&pool->inject, 0, &rest);
        aw__word_run(&tasks[i]->word);
        aw__word_pend(&tasks[i]->word);
    }
    for (uint32_t i = 0; i < workers; i++)
        pool->workers[i].thread_io.word = 0;
}
static void setup_pinned(void) {
    setup_tasks(1, 1, 1);
}
static void setup_pinned_to_one_of_two(void) {
    setup_tasks(2, 1, 1);
}
/* The first task has been woken, and is in the ring of its worker. */
static void setup_lifo_of(uint32_t workers) {
    setup_tasks(workers, 2, 0);
    data[0] = 1;
    aw__word_wake(&tasks[0]->word);
    aw__ring_push(&pool->workers[0].ring, tasks[0]);
}
static void setup_lifo(void) {
    setup_lifo_of(1);
}
static void setup_lifo_of_a_stuck_worker(void) {
    setup_lifo_of(2);
    greedy = true;
}

/* ---- The threads ----------------------------------------------------------------------------- */

static void work(void) {
    aw__worker_main(&pool->workers[model_self()]);
}
static void wake_first(void) {
    model_write(&data[0], 1);
    aw_waker_wake_by_ref(&(aw_waker){&aw__pool_waker_type, tasks[0]});
}
static void take_over_first(void) {
    take_over(&pool->workers[0]);
}
static bool a_lifo_is_full(void *unused) {
    (void)unused;
    return pool->workers[0].lifo.task || pool->workers[1].lifo.task;
}
/* The monitor looks from time to time, so it will look then. No other thread takes a task from
 * there. */
static void take_over_in_time(void) {
    model_wait(a_lifo_is_full, NULL);
    for (int i = 0; i < 2; i++)
        take_over(&pool->workers[i]);
}

static void each_has_run_once(void) {
    for (uint32_t i = 0; i < wanted; i++)
        model_check(runs[i] == 1);
    model_check(pool->live == 0 && !pool->workers[0].lifo.task && !pool->workers[0].pinned.inbox);
    model_check(aw__inject_is_empty(&pool->inject) && aw__ring_is_empty(&pool->workers[0].ring));
}

MODEL(a_pinned_task_is_not_missed_by_a_worker_that_parks, .setup = setup_pinned,
      .threads = {work, wake_first}, .check = each_has_run_once, .preemptions = 3, .stale = 1)
MODEL(a_pinned_task_finds_its_worker, .setup = setup_pinned_to_one_of_two,
      .threads = {work, work, wake_first}, .check = each_has_run_once, .preemptions = 1, .stale = 1)
MODEL(a_task_in_the_lifo_slot_is_run_once, .setup = setup_lifo, .threads = {work, take_over_first},
      .check = each_has_run_once, .stale = 1)
MODEL(a_stuck_worker_does_not_keep_a_task, .setup = setup_lifo_of_a_stuck_worker,
      .threads = {work, work, take_over_in_time}, .check = each_has_run_once, .preemptions = 1,
      .stale = 1)
MODEL_BROKEN(without_the_monitor_it_would, "deadlock", .setup = setup_lifo_of_a_stuck_worker,
             .threads = {work, work}, .preemptions = 1, .stale = 1)

/* ---- Orders ---------------------------------------------------------------------------------- */

/* A task is passed on by its word, and by the queue in which it is linked. */
static const struct model_harmless of_the_loop[] = {
    {"worker_park", "aw__load_seq(&p->monitor_asleep)", "acquire", "a flag"},
    {"worker_park", "aw__load_seq(&p->monitor_asleep)", "seq_cst", "for the monitor: see idle.c"},
    {"worker_park", "aw__load_acquire(&p->stop)", "acquire", "a flag, which goes with a token"},
    {"aw__worker_main", "aw__load_acquire(&p->stop)", "acquire", "a flag"},
    {0}};
static const struct model_harmless of_the_lifo[] = {
    {"aw__lifo_put", "aw__exchange(", "acquire", "the worker itself put the previous task there"},
    {"aw__lifo_take", "aw__exchange(", "release", "taking passes on nothing"},
    {0}};
static const struct model_harmless of_the_pinned[] = {
    {"aw__pinned_fetch", "aw__exchange(", "release", "taking passes on nothing"},
    {"aw__pinned_sent", "aw__load_seq(", "acquire", "it is only a check"},
    {"aw__pinned_sent", "aw__load_seq(", "seq_cst",
     "a push leaves a token, too; and the check for quiescence sees the task NOTIFIED"},
    {"aw__pinned_send", "aw__load_acquire(", "acquire", "it does not read what is there"},
    {"aw__pinned_send", "aw__cas_seq(", "acquire", "likewise"},
    {"aw__pinned_send", "aw__cas_seq(", "failure", "likewise"},
    {"aw__pinned_send", "aw__cas_seq(", "seq_cst",
     "for the check for quiescence; and a token follows"},
    {0}};

MODEL_ORDERS(the_orders_of_the_loop, "sched/multi/worker.c", of_the_loop,
             &model_a_pinned_task_is_not_missed_by_a_worker_that_parks,
             &model_a_task_in_the_lifo_slot_is_run_once, &model_a_stuck_worker_does_not_keep_a_task)
MODEL_ORDERS(the_orders_of_the_lifo_slot, "sched/multi/lifo.h", of_the_lifo,
             &model_a_task_in_the_lifo_slot_is_run_once, &model_a_stuck_worker_does_not_keep_a_task)
MODEL_ORDERS(the_orders_of_pinned_tasks, "sched/multi/pinned.h", of_the_pinned,
             &model_a_pinned_task_is_not_missed_by_a_worker_that_parks,
             &model_a_pinned_task_finds_its_worker)
