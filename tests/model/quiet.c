/* SPDX-License-Identifier: MIT
 *
 * workers/quiet.h under every schedule: one or two workers that sleep as worker.c does it, a thread in
 * block_on, and others who let go of what spoke against a deadlock, or wake somebody. Whoever falls asleep
 * last notices; nobody is told of a deadlock while a wake is on its way; and a clock that is paused jumps
 * when all sleep, to the next timer and no further. The queue of all is real, and so are tasks; timers are
 * only numbers. */
#include "support/model.h"
#include "support/model_park.h"

#include <awake.h>

#define AW__RING_SIZE 4u
#define AW__SHARDS    1

/* In place of the library's. */
#define aw__lock_slow       modelled_lock_slow
#define aw__rt_free_memory  modelled_free_memory
#define aw__rt_unhold       modelled_unhold
#define aw__report_lost     modelled_report_lost
#define aw__report_deadlock modelled_report_deadlock
#define aw__shelf_take      modelled_shelf_take
#define aw__shelf_give      modelled_shelf_give
#define aw__shelf_idle      modelled_shelf_idle
#define aw__shelf_clear     modelled_shelf_clear
#define aw__wheel_next      modelled_wheel_next
#define aw__worker_main     modelled_worker_main
#define aw__thread          modelled_thread

#define sched_yield() model_yield()
#include "os/lock.c"
#undef sched_yield

#include "workers/monitor.c"
#include "workers/queue.c"
#include "workers/quiet.c"
#include "workers/task.c"
#define is_lost worker_is_lost
#include "workers/worker.c"
#undef is_lost
#define waker_clone       main_waker_clone
#define waker_drop        main_waker_drop
#define waker_wake        main_waker_wake
#define waker_wake_by_ref main_waker_wake_by_ref
#include "workers/main.c"

_Thread_local struct modelled_thread modelled_thread;

enum { WORKERS = 2 };

struct gate {
    aw_future future;
    int out; /* how often it was polled */
};

static aw_runtime *rt;
static aw__pool *pool;
static struct gate future; /* of block_on */
static aw__task *task;
static aw_waker main_waker, task_waker;
static uint32_t told, given, main_lock;
static uint64_t timers[WORKERS];
static int reported;
static bool gives; /* the main future gives a waker away, and does not wait for anything else */
static bool begins_outside; /* it waits for something outside first */
static bool task_outside;   /* the task does */
static bool watched;        /* there is a monitor */
static uint32_t watching;   /* and it has come */
static bool timed_task;     /* the timer is the task's, and there is a later one */

/* ---- What they need --------------------------------------------------------------------------- */

aw__task *aw__shelf_take(aw__pool *of, size_t frame_size) {
    aw__room *r = model_alloc(sizeof(aw__room) + sizeof(aw__task) + frame_size);
    aw__task *t = (aw__task *)(void *)(r + 1);
    r->rt = of->rt;
    t->room = sizeof(aw__room) / AW__ROOM_STEP;
    return t;
}
void aw__shelf_give(aw__pool *of, aw__task *t) {
    (void)of;
    model_free(aw__task_room(t));
}
void aw__shelf_clear(aw__worker *w) {
    (void)w;
}
void aw__shelf_idle(aw__worker *w, bool last) {
    (void)w, (void)last;
}
void aw__rt_free_memory(aw_runtime *gone) {
    (void)gone;
    model_fail("the runtime has not ended");
}
void aw__rt_unhold(aw_runtime *of, uint32_t *count) {
    aw__pool_unhold(of->pool, count);
}
void aw__report_lost(const aw_runtime *of, const aw__task *t) {
    (void)of;
    model_check(gives && t->flags & AW__MAIN && !told); /* then it is */
}
void aw__report_deadlock(const aw_runtime *of) {
    (void)of;
    reported++;
}
uint64_t aw__wheel_next(aw__wheel *w, bool exact) {
    (void)exact;
    aw__lock(&w->lock);
    uint64_t next = timers[(aw__worker *)((char *)w - offsetof(aw__worker, wheel)) - pool->workers];
    aw__unlock(&w->lock);
    return next;
}

/* The waker of the main future is borrowed, under a lock. */
static void wake_main(void) {
    aw__lock(&main_lock);
    if (main_waker.type) aw_waker_wake_by_ref(&main_waker);
    aw__unlock(&main_lock);
}

static aw_poll main_poll(aw_future *f, aw_cx *cx) {
    struct gate *g = (struct gate *)f;
    g->out++;
    if (gives) {
        if (g->out == 1) main_waker = aw_waker_clone(cx->waker);
    } else {
        aw__lock(&main_lock);
        main_waker = *cx->waker;
        aw__unlock(&main_lock);
        if (g->out == 1) cx->meter->armed++;
    }
    if (g->out == 1) aw__store_release(&given, 1u);
    bool ready = aw__load_relaxed(&told);
    if (begins_outside) cx->meter->outside = !ready; /* and then for what never comes */
    return ready && !begins_outside && !task_outside ? AW_READY : AW_PENDING;
}
static aw_poll main_cancel(aw_future *f, aw_cx *cx) {
    (void)f, (void)cx;
    return AW_CANCELLED;
}
static const aw_future_type main_type = {AW_TYPE_OF(struct gate, "main"), .poll = main_poll,
                                         .cancel = main_cancel};

static aw_poll task_poll(aw_future *f, aw_cx *cx) {
    struct gate *g = (struct gate *)f;
    bool was_told = aw__load_relaxed(&told);
    if (!g->out++) cx->meter->armed++;
    if (task_outside)
        cx->meter->outside = was_told ? -1 : 1;
    else if (was_told)
        wake_main();
    return AW_PENDING;
}
static const aw_future_type task_type = {AW_TYPE_OF(struct gate, "task"), .poll = task_poll};

static void setup_workers(uint32_t workers) {
    modelled_thread = (struct modelled_thread){0};
    model_thread_local(&modelled_thread, sizeof modelled_thread);
    future = (struct gate){AW_FUTURE_INIT(&main_type), 0};
    told = given = main_lock = watching = 0;
    main_waker = task_waker = (aw_waker){NULL, NULL};
    reported = 0;
    gives = begins_outside = task_outside = timed_task = watched = false;
    rt = model_alloc(sizeof *rt);
    rt->pool = pool = model_alloc(sizeof(aw__pool) + workers * sizeof(aw__worker));
    rt->watch_at = AW_FOREVER;
    pool->rt = rt;
    pool->count = pool->idle.workers = workers;
    pool->allocated = 1;
    for (uint32_t i = 0; i < workers; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        pool->workers[i].wheel.soonest = AW_FOREVER;
        timers[i] = AW_FOREVER;
    }
}
static void setup_one(void) {
    setup_workers(1);
}
static void setup_two(void) {
    setup_workers(2);
}
static void setup_held(void) {
    setup_workers(1);
    rt->holds = 1;
}
/* It has been polled by the first worker. */
static void spawn(uint32_t worker) {
    static const aw_place place = {"quiet.c", 1, NULL};
    struct gate g = {AW_FUTURE_INIT(&task_type), 0};
    aw__task *rest;
    task = aw__task_of(aw__pool_spawn(rt, worker, &g.future, sizeof g, &place, NULL, NULL));
    if (worker)
        pool->workers[0].pinned.inbox = NULL;
    else
        aw__inject_pop(&pool->inject, 0, &rest);
    run_task(&pool->workers[0], task);
    task_waker = (aw_waker){&aw__pool_waker_type, task};
}
/* Somebody has a waker of it. */
static void setup_task(void) {
    setup_workers(1);
    spawn(0);
    aw_waker_clone(&task_waker);
}
static void setup_pinned(void) {
    setup_workers(1);
    spawn(1);
    pool->workers[0].place.word = 0;
    aw_waker_clone(&task_waker);
}
static void setup_borrowed(void) {
    setup_workers(1);
    spawn(0);
}
static void setup_task_outside(void) {
    setup_workers(2);
    task_outside = true;
    spawn(0);
}
static void setup_giving(void) {
    setup_workers(1);
    gives = true;
}
static void setup_outside(void) {
    setup_workers(1);
    begins_outside = true;
}
static void setup_paused(void) {
    setup_workers(1);
    rt->paused = 1;
    timers[0] = 10;
}
static void setup_paused_task(void) {
    setup_paused();
    timed_task = true;
    spawn(0);
}
static void setup_paused_and_watched(void) {
    setup_paused_task();
    watched = true;
}
static void setup_two_paused(void) {
    setup_workers(2);
    rt->paused = 1;
    timers[0] = 20;
    timers[1] = 10;
}

/* ---- The workers ------------------------------------------------------------------------------ */

static bool is_watched(void *unused) {
    (void)unused;
    return watching;
}

/* One that is due ends the wait of the main future, or of the task. */
static bool fire(aw__worker *w) {
    aw__lock(&w->wheel.lock);
    uint64_t at = timers[w->index], now = at == AW_FOREVER ? 0 : aw__rt_now(rt);
    if (at <= now) timers[w->index] = timed_task ? 20 : AW_FOREVER;
    aw__unlock(&w->wheel.lock);
    if (at > now) return false;
    model_check(at == now && !aw__load_relaxed(&told));
    aw__fetch_add_relaxed(&told, 1u);
    if (timed_task)
        aw_waker_wake_by_ref(&task_waker);
    else
        wake_main();
    if (watched) model_wait(is_watched, NULL); /* it takes long */
    return true;
}

static void work(void) {
    aw__worker *w = &pool->workers[model_self()];
    aw__thread.worker = w;
    while (!aw__load_acquire(&pool->stop)) {
        aw__task *rest, *t = NULL;
        if (!aw__inject_is_empty(&pool->inject)) t = aw__inject_pop(&pool->inject, 0, &rest);
        if (t || (t = take_local(w)))
            run_task(w, t);
        else if (!fire(w))
            park(w);
    }
}

/* ---- The others ------------------------------------------------------------------------------- */

static void stop_workers(void) {
    aw__store_release(&pool->stop, 1u);
    for (uint32_t i = 0; i < pool->count; i++)
        aw__worker_unpark(&pool->workers[i]);
}
static void block_in_vain(void) {
    model_check(aw__pool_block_on(rt, &future.future) == -EDEADLK);
    model_check(reported == 1);
    stop_workers();
}
static void block_until_told(void) {
    model_check(aw__pool_block_on(rt, &future.future) == 0);
    model_check(reported == 0);
    stop_workers();
}

static bool is_given(void *unused) {
    (void)unused;
    return given;
}
static void wait_until_given(void) {
    model_wait(is_given, NULL);
    aw__fetch_add(&given, 0u);
}

static void unhold(void) {
    aw__pool_unhold(pool, &rt->holds);
}
static void drop_task_waker(void) {
    aw_waker_drop(task_waker);
}
static void wake_task_in_vain(void) {
    aw_waker_wake(task_waker);
}
static void wake_task_by_reference_then_drop(void) {
    aw_waker_wake_by_ref(&task_waker);
    aw_waker_drop(task_waker);
}
/* The task will tell the main future. */
static void wake_task(void) {
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake(task_waker);
}
/* What the task waited for outside has come, and there is nothing else. */
static void end_outside_of_task(void) {
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake_by_ref(&task_waker);
}
static void drop_task(void) {
    aw__pool_drop(task);
}
static void look_at(aw__task *t, void *unused) {
    (void)unused;
    aw__load_relaxed(&t->word); /* a moment passes */
}
static void describe(void) {
    aw__pool_each(pool, look_at, NULL, NULL);
    aw__mains_each_asleep(pool, look_at, NULL);
}
/* As the monitor does when a poll takes long; it may end right then. */
static void take_over_first(void) {
    aw__store_relaxed(&watching, 1u);
    take_over(&pool->workers[0]);
}
static void drop_main_waker(void) {
    wait_until_given();
    aw_waker_drop(main_waker);
}
static void wake_main_in_vain(void) {
    wait_until_given();
    aw_waker_wake(main_waker);
}
static void wake_main_by_waker(void) {
    wait_until_given();
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake(main_waker);
}
/* What it waited for outside has come, and there is nothing else. */
static void end_outside(void) {
    wait_until_given();
    aw__fetch_add_relaxed(&told, 1u);
    wake_main();
}

static void the_clock_has_moved_to_the_first(void) {
    model_check(rt->paused_now == 10);
}

MODEL(the_last_to_fall_asleep_notices, .setup = setup_one, .threads = {work, block_in_vain},
      .stale = 1)
MODEL(the_last_of_three_to_fall_asleep_notices, .setup = setup_two,
      .threads = {work, work, block_in_vain}, .preemptions = 1, .stale = 1)
MODEL(who_lets_go_of_the_runtime_looks, .setup = setup_held,
      .threads = {work, block_in_vain, unhold}, .preemptions = 1, .stale = 1)
MODEL(who_drops_the_waker_of_a_task_looks, .setup = setup_task,
      .threads = {work, block_in_vain, drop_task_waker}, .preemptions = 1, .stale = 1)
MODEL(who_wakes_a_task_in_vain_looks, .setup = setup_task,
      .threads = {work, block_in_vain, wake_task_in_vain}, .preemptions = 1, .stale = 1)
MODEL(who_wakes_a_task_in_vain_and_drops_looks, .setup = setup_task,
      .threads = {work, block_in_vain, wake_task_by_reference_then_drop}, .preemptions = 1,
      .stale = 1)
MODEL(who_drops_the_waker_of_a_main_future_looks, .setup = setup_giving,
      .threads = {work, block_in_vain, drop_main_waker}, .preemptions = 1, .stale = 1)
MODEL(who_wakes_a_main_future_in_vain_looks, .setup = setup_giving,
      .threads = {work, block_in_vain, wake_main_in_vain}, .preemptions = 1, .stale = 1)
MODEL(who_waited_for_something_outside_notices_later, .setup = setup_outside,
      .threads = {work, block_in_vain, end_outside}, .preemptions = 1, .stale = 1)
MODEL(a_task_that_waited_for_something_outside_may_go_on_elsewhere, .setup = setup_task_outside,
      .threads = {work, work, block_in_vain, end_outside_of_task}, .preemptions = MODEL_NONE,
      .stale = 1)
MODEL(who_drops_a_task_looks, .setup = setup_borrowed, .threads = {work, block_in_vain, drop_task},
      .preemptions = 1, .stale = 1)
MODEL(who_only_looks_at_tasks_does_not_hide_a_deadlock, .setup = setup_borrowed,
      .threads = {work, block_in_vain, describe}, .preemptions = 1, .stale = 1)

MODEL(a_wake_of_a_task_is_not_overlooked, .setup = setup_task,
      .threads = {work, block_until_told, wake_task}, .preemptions = 1, .stale = 1)
MODEL(a_wake_of_a_pinned_task_is_not_overlooked, .setup = setup_pinned,
      .threads = {work, block_until_told, wake_task}, .preemptions = 1, .stale = 1)
MODEL(a_wake_of_a_main_future_is_not_overlooked, .setup = setup_giving,
      .threads = {work, block_until_told, wake_main_by_waker}, .preemptions = 1, .stale = 1)

MODEL(a_paused_clock_jumps_when_all_sleep, .setup = setup_paused,
      .threads = {work, block_until_told}, .check = the_clock_has_moved_to_the_first, .stale = 1)
MODEL(a_paused_clock_jumps_to_the_next_timer_only, .setup = setup_two_paused,
      .threads = {work, work, block_until_told}, .check = the_clock_has_moved_to_the_first,
      .preemptions = 1, .stale = 1)
MODEL(a_paused_clock_does_not_jump_while_somebody_has_a_task_in_its_hands,
      .setup = setup_paused_task, .threads = {work, block_until_told, describe},
      .check = the_clock_has_moved_to_the_first, .preemptions = 1, .stale = 1)
MODEL(a_paused_clock_does_not_jump_while_the_monitor_moves_a_task,
      .setup = setup_paused_and_watched, .threads = {work, block_until_told, take_over_first},
      .check = the_clock_has_moved_to_the_first, .preemptions = 1, .stale = 1)

/* ---- Orders ----------------------------------------------------------------------------------- */

/* Smaller ones: an order that is missing shows in them as well. */
static const struct model asleep = {
    .setup = setup_one, .threads = {work, block_in_vain}, .preemptions = 1};
static const struct model paused = {.setup = setup_paused,
                                    .threads = {work, block_until_told},
                                    .check = the_clock_has_moved_to_the_first,
                                    .preemptions = 1};
/* No worker is there: so all of them sleep. */
static void setup_giving_without_workers(void) {
    setup_workers(0);
    gives = true;
}
static const struct model overlooked = {.setup = setup_giving_without_workers,
                                        .threads = {block_until_told, wake_main_by_waker},
                                        .preemptions = 1,
                                        .stale = 2};

/* What matters is seq_cst, of what each takes away and of its look at the others. Who has a waker wakes with
 * it before he lets go of it: that he did is acquired with the count of references. The interleaver has
 * seq_cst in the order of execution, so that the queues, which are read that way, need no acquire before:
 * processors that load early do. */
static const struct model_harmless of_looking[] = {
    {"jump", "aw__cas(", "acquire", "a number"},
    {"jump", "aw__cas(", "release", "a number, before a token"},
    {"jump", "aw__cas(", "failure", "a number"},
    {"task_may_be_woken", "aw__load_acquire(", "acquire", "for processors that load early"},
    {"aw__pool_unhold", "aw__fetch_sub_seq(", "acquire", "a number"},
    {"aw__pool_unhold", "aw__fetch_sub_seq(", "release", "for processors that load early"},
    {"aw__pool_look", "aw__load_seq(&p->rt->holds)", "acquire", "likewise"},
    {"aw__pool_look", "aw__load_seq(&p->idle.word)", "acquire",
     "who sees too little is followed by the worker that parked last, which has yet to look"},
    {"aw__pool_look", "aw__load_acquire(&p->rt->paused)", "acquire", "a flag"},
    {"aw__pool_look", "aw__load_acquire(&p->stop)", "acquire", "a flag"},
    {"somebody_waits", "aw__load_acquire(&p->ending)", "acquire", "a flag"},
    {"tell", "aw__load_acquire(&p->ending)", "acquire", "a flag"},
    {"tell", "aw__fetch_add(&m->stuck", "acquire", "a number"},
    {"tell", "aw__fetch_add(&m->stuck", "release", "the wake that follows passes it on"},
    {"outside", "aw__load_seq(", "acquire", "a number"},
    {0}};

MODEL_ORDERS(the_orders_of_looking, "workers/quiet.c", of_looking, &asleep, &overlooked, &paused,
             &model_who_lets_go_of_the_runtime_looks, &model_who_drops_the_waker_of_a_task_looks,
             &model_who_drops_the_waker_of_a_main_future_looks,
             &model_who_waited_for_something_outside_notices_later,
             &model_a_task_that_waited_for_something_outside_may_go_on_elsewhere,
             &model_a_wake_of_a_task_is_not_overlooked)

static const struct model_harmless of_threads[] = {{"*", "", "acquire", "main.c tries it"},
                                                   {"*", "", "release", "main.c tries it"},
                                                   {"*", "", "failure", "main.c tries it"},
                                                   {0}};

MODEL_ORDERS(the_orders_of_falling_asleep, "workers/main", of_threads, &asleep,
             &model_who_drops_the_waker_of_a_main_future_looks,
             &model_who_waited_for_something_outside_notices_later)
