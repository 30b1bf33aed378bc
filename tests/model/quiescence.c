/* SPDX-License-Identifier: MIT
 *
 * sched/multi/quiescence.h under every schedule: one or two workers that sleep like worker.c, a
 * thread in block_on, and other threads that remove what rules out a deadlock, or wake. The last
 * thread to fall asleep notices. No deadlock is declared while a wake is on its way. A paused
 * clock jumps when all threads sleep, to the next timer and no further. The shared queue and the
 * tasks are real; timers are only numbers. */
#include "support/model.h"
#include "support/model_park.h"

#include <awake.h>

#define AW__RING_SIZE 4u
#define AW__SHARDS    1

/* Replace the library's. */
#define aw__lock_slow        modelled_lock_slow
#define aw__pool_free_memory modelled_free_memory
#define aw__main_poll        modelled_main_poll
#define aw__run_special      modelled_run_special
#define aw__run_count        modelled_run_count
#define aw__report_lost      modelled_report_lost
#define aw__report_deadlock  modelled_report_deadlock
#define aw__magazine_alloc   modelled_magazine_alloc
#define aw__magazine_free    modelled_magazine_free
#define aw__magazine_idle    modelled_magazine_idle
#define aw__magazine_clear   modelled_magazine_clear
#define aw__wheel_next       modelled_wheel_next
#define aw__wheel_advance    modelled_wheel_advance
#define aw__worker_main      modelled_worker_main
#define aw__context          modelled_thread

#define sched_yield() model_yield()
#include "os/lock.c"
#undef sched_yield

#include "sched/main_poll.c"
#include "sched/run_task.c"

#include "sched/multi/monitor.c"
#include "sched/multi/schedule.c"
#include "sched/multi/quiescence.c"
#include "sched/multi/pool_task.c"
#include "sched/multi/worker.c"
#include "sched/multi/pool_block_on.c"

_Thread_local struct modelled_thread modelled_thread;

enum { WORKERS = 2 };

struct gate {
    aw_future future;
    int out; /* how often it was polled */
    bool ended_outside;
};

static aw_runtime *rt;
static aw__pool *pool;
static struct gate future; /* of block_on */
static aw__task *task;
static aw_waker main_waker, task_waker;
static uint32_t told, handed_out, main_lock;
static uint64_t timers[WORKERS];
static int reported;
/* The main future hands out a waker, and waits for nothing else. */
static bool hands_out;
/* The main future first waits for something outside the runtime. */
static bool begins_outside;
/* The task does. */
static bool task_outside;
/* There is a monitor. */
static bool watched;
/* The monitor is there. */
static uint32_t watching;
/* The timer belongs to the task, and there is a later one. */
static bool timed_task;

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
static void modelled_unhold(aw_runtime *of, uint32_t *count) {
    aw__pool_unhold(of->pool, count);
}
static const aw__scheduler modelled_scheduler = {.unhold = modelled_unhold,
                                                 .count_cancels = aw__pool_count_cancels};
void aw__report_lost(const aw_runtime *of, const aw__task *t, const aw_future *f) {
    (void)of, (void)f;
    model_check(hands_out && t->flags & AW__MAIN && !told); /* lost in this case */
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
    if (hands_out) {
        if (g->out == 1) main_waker = aw_waker_clone(cx->waker);
    } else {
        aw__lock(&main_lock);
        main_waker = *cx->waker;
        aw__unlock(&main_lock);
        if (g->out == 1) cx->meter->armed++;
    }
    if (g->out == 1) aw__store_release(&handed_out, 1u);
    bool ready = aw__load_relaxed(&told);
    /* It waits for something outside, and later for an event that never occurs. */
    if (begins_outside && g->out == 1) cx->meter->outside++;
    if (begins_outside && ready && !g->ended_outside) {
        cx->meter->outside--;
        g->ended_outside = true;
    }
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
    future = (struct gate){AW_FUTURE_INIT(&main_type), 0, false};
    told = handed_out = main_lock = watching = 0;
    main_waker = task_waker = (aw_waker){NULL, NULL};
    reported = 0;
    hands_out = begins_outside = task_outside = timed_task = watched = false;
    rt = model_alloc(sizeof *rt);
    rt->base.sched = &modelled_scheduler;
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
/* The task has been polled by the first worker. */
static void spawn(uint32_t worker) {
    static const aw_location location = {"quiescence.c", 1, NULL};
    struct gate g = {AW_FUTURE_INIT(&task_type), 0, false};
    aw__task *rest;
    task = aw__task_of(aw__pool_spawn(rt, worker, &g.future, sizeof g, &location, NULL, NULL));
    if (worker)
        pool->workers[0].pinned.inbox = NULL;
    else
        aw__inject_pop(&pool->inject, 0, &rest);
    worker_run_task(&pool->workers[0], task);
    task_waker = (aw_waker){&aw__pool_waker_type, task};
}
/* Another thread has a waker of the task. */
static void setup_task(void) {
    setup_workers(1);
    spawn(0);
    aw_waker_clone(&task_waker);
}
static void setup_pinned(void) {
    setup_workers(1);
    spawn(1);
    pool->workers[0].thread_io.word = 0;
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
static void setup_handing_out(void) {
    setup_workers(1);
    hands_out = true;
}
static void setup_outside(void) {
    setup_workers(1);
    begins_outside = true;
}
static void setup_paused(void) {
    setup_workers(1);
    rt->base.paused = 1;
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
/* The second worker is in block_in_place and sleeps in block_on: it does not stop the clock. The
 * monitor fires its timers. */
static void setup_in_place(void) {
    setup_workers(2);
    rt->base.paused = 1;
    timers[0] = 20;
    timers[1] = pool->workers[1].wheel.soonest = 10;
    pool->workers[1].in_place = true;
    pool->in_place_workers = 1;
}
static void setup_two_paused(void) {
    setup_workers(2);
    rt->base.paused = 1;
    timers[0] = 20;
    timers[1] = 10;
}

/* ---- The workers ----------------------------------------------------------------------------- */

static bool is_watched(void *unused) {
    (void)unused;
    return watching;
}

/* A due timer ends the wait of the main future, or of the task. */
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
    if (watched) model_wait(is_watched, NULL); /* the poll takes long */
    return true;
}

void aw__wheel_advance(aw__wheel *w, uint64_t now) {
    (void)now;
    fire((aw__worker *)((char *)w - offsetof(aw__worker, wheel)));
}

static void work(void) {
    aw__worker *w = &pool->workers[model_self()];
    aw__context.worker = w;
    while (!aw__load_acquire(&pool->stop)) {
        aw__task *rest, *t = NULL;
        if (!aw__inject_is_empty(&pool->inject)) t = aw__inject_pop(&pool->inject, 0, &rest);
        if (t || (t = take_local(w)))
            worker_run_task(w, t);
        else if (!fire(w))
            worker_park(w);
    }
}

/* ---- The other threads ----------------------------------------------------------------------- */

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

static bool is_handed_out(void *unused) {
    (void)unused;
    return handed_out;
}
static void wait_until_handed_out(void) {
    model_wait(is_handed_out, NULL);
    aw__fetch_add(&handed_out, 0u);
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
/* The task will wake the main future. */
static void wake_task(void) {
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake(task_waker);
}
/* The event outside that the task waited for occurs, and there is nothing else. */
static void end_outside_of_task(void) {
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake_by_ref(&task_waker);
}
static void drop_task(void) {
    aw__pool_drop(task);
}
static void look_at(const aw__task_view *v, void *unused) {
    (void)unused;
    aw__load_relaxed(&v->task->word); /* lets other threads run */
}
static void describe(void) {
    aw__pool_each(pool, look_at, NULL);
    aw__block_on_each_asleep(pool, look_at, NULL);
}
/* Like the monitor when a poll takes long. The poll may end just then. */
static void take_over_first(void) {
    aw__store_relaxed(&watching, 1u);
    take_over(&pool->workers[0]);
}
/* Woken by the thread that lets the clock jump. */
static void take_over_second(void) {
    while (!aw__load_relaxed(&told)) {
        aw__os_park(&pool->monitor_word, AW_FOREVER);
        take_over(&pool->workers[1]);
    }
}
static void drop_main_waker(void) {
    wait_until_handed_out();
    aw_waker_drop(main_waker);
}
static void wake_main_in_vain(void) {
    wait_until_handed_out();
    aw_waker_wake(main_waker);
}
static void wake_main_by_waker(void) {
    wait_until_handed_out();
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake(main_waker);
}
/* The event outside that the main future waited for occurs, and there is nothing else. */
static void end_outside(void) {
    wait_until_handed_out();
    aw__fetch_add_relaxed(&told, 1u);
    wake_main();
}

static void the_clock_has_moved_to_the_first(void) {
    model_check(rt->base.paused_now == 10);
}

MODEL(the_last_to_fall_asleep_notices, .setup = setup_one, .threads = {work, block_in_vain},
      .stale = 1)
MODEL(the_last_of_three_to_fall_asleep_notices, .setup = setup_two,
      .threads = {work, work, block_in_vain}, .preemptions = 1, .stale = 1)
MODEL(a_thread_that_unholds_the_runtime_checks, .setup = setup_held,
      .threads = {work, block_in_vain, unhold}, .preemptions = 1, .stale = 1)
MODEL(a_thread_that_drops_the_waker_of_a_task_checks, .setup = setup_task,
      .threads = {work, block_in_vain, drop_task_waker}, .preemptions = 1, .stale = 1)
MODEL(a_thread_that_wakes_a_task_in_vain_checks, .setup = setup_task,
      .threads = {work, block_in_vain, wake_task_in_vain}, .preemptions = 1, .stale = 1)
MODEL(a_thread_that_wakes_a_task_in_vain_and_drops_checks, .setup = setup_task,
      .threads = {work, block_in_vain, wake_task_by_reference_then_drop}, .preemptions = 1,
      .stale = 1)
MODEL(a_thread_that_drops_the_waker_of_a_main_future_checks, .setup = setup_handing_out,
      .threads = {work, block_in_vain, drop_main_waker}, .preemptions = 1, .stale = 1)
MODEL(a_thread_that_wakes_a_main_future_in_vain_checks, .setup = setup_handing_out,
      .threads = {work, block_in_vain, wake_main_in_vain}, .preemptions = 1, .stale = 1)
MODEL(a_thread_that_waited_for_something_outside_notices_later, .setup = setup_outside,
      .threads = {work, block_in_vain, end_outside}, .preemptions = 1, .stale = 1)
MODEL(a_task_that_waited_for_something_outside_may_go_on_elsewhere, .setup = setup_task_outside,
      .threads = {work, work, block_in_vain, end_outside_of_task}, .preemptions = MODEL_NONE,
      .stale = 1)
MODEL(a_thread_that_drops_a_task_checks, .setup = setup_borrowed,
      .threads = {work, block_in_vain, drop_task}, .preemptions = 1, .stale = 1)
MODEL(inspecting_tasks_does_not_hide_a_deadlock, .setup = setup_borrowed,
      .threads = {work, block_in_vain, describe}, .preemptions = 1, .stale = 1)

MODEL(a_wake_of_a_task_is_not_overlooked, .setup = setup_task,
      .threads = {work, block_until_told, wake_task}, .preemptions = 1, .stale = 1)
MODEL(a_wake_of_a_pinned_task_is_not_overlooked, .setup = setup_pinned,
      .threads = {work, block_until_told, wake_task}, .preemptions = 1, .stale = 1)
MODEL(a_wake_of_a_main_future_is_not_overlooked, .setup = setup_handing_out,
      .threads = {work, block_until_told, wake_main_by_waker}, .preemptions = 1, .stale = 1)

MODEL(a_paused_clock_jumps_when_all_sleep, .setup = setup_paused,
      .threads = {work, block_until_told}, .check = the_clock_has_moved_to_the_first, .stale = 1)
MODEL(a_paused_clock_jumps_to_the_next_timer_only, .setup = setup_two_paused,
      .threads = {work, work, block_until_told}, .check = the_clock_has_moved_to_the_first,
      .preemptions = 1, .stale = 1)
MODEL(a_paused_clock_does_not_jump_while_a_thread_inspects_a_task, .setup = setup_paused_task,
      .threads = {work, block_until_told, describe}, .check = the_clock_has_moved_to_the_first,
      .preemptions = 1, .stale = 1)
MODEL(a_paused_clock_does_not_jump_while_the_monitor_moves_a_task,
      .setup = setup_paused_and_watched, .threads = {work, block_until_told, take_over_first},
      .check = the_clock_has_moved_to_the_first, .preemptions = 1, .stale = 1)
MODEL(a_paused_clock_does_not_jump_while_the_monitor_fires_a_timer, .setup = setup_in_place,
      .threads = {work, block_until_told, take_over_second},
      .check = the_clock_has_moved_to_the_first, .preemptions = 2, .stale = 1)

/* ---- Orders ---------------------------------------------------------------------------------- */

/* Smaller models: a missing order shows in them, too. */
static const struct model asleep = {
    .setup = setup_one, .threads = {work, block_in_vain}, .preemptions = 1};
static const struct model paused = {.setup = setup_paused,
                                    .threads = {work, block_until_told},
                                    .check = the_clock_has_moved_to_the_first,
                                    .preemptions = 1};
/* There are no workers, so all of them sleep. */
static void setup_handing_out_without_workers(void) {
    setup_workers(0);
    hands_out = true;
}
static const struct model overlooked = {.setup = setup_handing_out_without_workers,
                                        .threads = {block_until_told, wake_main_by_waker},
                                        .preemptions = 1,
                                        .stale = 2};

/* What matters is seq_cst, of what each thread removes and of its check of the others. A thread
 * wakes before it drops its waker: that it did is acquired with the count of references. The
 * interleaver executes seq_cst operations in order, so the queues, which are read that way, need
 * no acquire before; processors that load early do. */
static const struct model_harmless of_quiescence[] = {
    {"task_may_be_woken", "aw__load_acquire(", "acquire", "for processors that load early"},
    {"aw__pool_unhold", "aw__fetch_sub_seq(", "acquire", "a number"},
    {"aw__pool_unhold", "aw__fetch_sub_seq(", "release", "for processors that load early"},
    {"aw__pool_check_quiescence", "aw__load_seq(&p->rt->holds)", "acquire", "likewise"},
    {"still_quiescent", "aw__load_acquire(&p->rt->holds)", "acquire",
     "for processors that load early"},
    {"all_parked_or_in_place", "aw__load_acquire(&p->in_place_workers)", "acquire",
     "the count of holds passes it on"},
    {"all_parked_or_in_place", "aw__load_seq(&p->idle.word)", "acquire",
     "a thread that sees too few is followed by the worker that parked last, which will check"},
    {"aw__pool_check_quiescence", "aw__load_acquire(&p->rt->base.paused)", "acquire", "a flag"},
    {"aw__pool_check_quiescence", "aw__load_acquire(&p->stop)", "acquire", "a flag"},
    {"has_waiter", "aw__load_acquire(&p->ending)", "acquire", "a flag"},
    {"declare_deadlock", "aw__load_acquire(&p->ending)", "acquire", "a flag"},
    {"declare_deadlock", "aw__fetch_add(&b->deadlocks", "acquire", "a number"},
    {"declare_deadlock", "aw__fetch_add(&b->deadlocks", "release",
     "the wake that follows passes it on"},
    {"sum_outside_waits", "aw__load_seq(", "acquire", "a number"},
    {0}};

MODEL_ORDERS(the_orders_of_quiescence, "sched/multi/quiescence.c", of_quiescence, &asleep,
             &overlooked, &paused, &model_a_thread_that_unholds_the_runtime_checks,
             &model_a_thread_that_drops_the_waker_of_a_task_checks,
             &model_a_thread_that_drops_the_waker_of_a_main_future_checks,
             &model_a_thread_that_waited_for_something_outside_notices_later,
             &model_a_task_that_waited_for_something_outside_may_go_on_elsewhere,
             &model_a_wake_of_a_task_is_not_overlooked)

static const struct model_harmless of_threads[] = {{"*", "", "acquire", "block_on.c tries it"},
                                                   {"*", "", "release", "block_on.c tries it"},
                                                   {"*", "", "failure", "block_on.c tries it"},
                                                   {0}};

MODEL_ORDERS(the_orders_of_falling_asleep, "multi/pool_block_on", of_threads, &asleep,
             &model_a_thread_that_drops_the_waker_of_a_main_future_checks,
             &model_a_thread_that_waited_for_something_outside_notices_later)
