/* SPDX-License-Identifier: MIT
 *
 * sched/multi/pool_block_on.h under every schedule, with the real sched/multi/pool_block_on.c: threads
 * in block_on, other threads with their wakers, and a watcher that inspects their futures while
 * they sleep. No wake is lost, the watcher is not disturbed, and the last user frees the memory.
 * The rest of the runtime is only what a block_on needs. quiescence.c has the other half of
 * falling asleep. */
#include "support/model.h"
#include "support/model_park.h"

#include <awake.h>

/* Replace the library's. */
#define aw__lock_slow             modelled_lock_slow
#define aw__pool_free_memory      modelled_free_memory
#define aw__pool_check_quiescence modelled_check_quiescence
#define aw__main_poll             modelled_main_poll
#define aw__run_special           modelled_run_special
#define aw__run_count             modelled_run_count
#define aw__report_lost           modelled_report_lost
#define aw__report_deadlock       modelled_report_deadlock
#define aw__context               modelled_thread

#define sched_yield() model_yield()
#include "os/lock.c"
#undef sched_yield

#include "sched/main_poll.c"
#include "sched/run_task.c"

#include "sched/multi/pool_block_on.c"

#undef aw__pool_check_quiescence
#define aw__pool_check_quiescence unused_check_quiescence
#define aw__pool_unhold           unused_unhold
#include "sched/multi/quiescence.c"
#undef aw__pool_check_quiescence
#define aw__pool_check_quiescence modelled_check_quiescence

_Thread_local struct modelled_thread modelled_thread; /* this thread is not a worker */

enum { WAKERS = 2 };

/* A future that waits until `told` has reached `needed`. At its first poll it hands out its
 * wakers. */
struct gate {
    aw_future future;
    int out;             /* how often it was polled, and inspected */
    uint32_t handed_out; /* atomic */
    aw_waker wakers[WAKERS];
};

static aw_runtime *rt;
static struct gate gates[2];
static uint32_t told, needed, waker_count;
static int freed, reported;
static bool locked; /* the waker is borrowed, and used under a lock */
static bool hopeless, two;
static uint32_t gate_lock;

/* ---- What a block_on needs ------------------------------------------------------------------- */

static void *memory_alloc(void *unused, size_t size) {
    (void)unused;
    return model_alloc(size);
}
static void memory_free(void *unused, void *memory, size_t size) {
    (void)unused, (void)size;
    model_free(memory);
}
static const aw_allocator allocator = {.alloc = memory_alloc, .free = memory_free};

void aw__pool_free_memory(aw_runtime *gone) {
    model_free(gone->pool);
    model_free(gone);
    freed++;
}
/* The pool must still exist. */
void aw__pool_check_quiescence(aw__pool *p) {
    (void)aw__load_relaxed(&p->stop);
}
static void modelled_unhold(aw_runtime *of, uint32_t *count) {
    aw__fetch_sub(count, 1u);
    aw__pool_check_quiescence(of->pool);
}
static void modelled_count_cancels(aw_runtime *of, aw__task *t, int32_t change, bool ended) {
    (void)of, (void)t, (void)change, (void)ended;
}
static const aw__scheduler modelled_scheduler = {.unhold = modelled_unhold,
                                                 .count_cancels = modelled_count_cancels};
void aw__report_lost(const aw_runtime *of, const aw__task *t, const aw_future *f) {
    (void)of, (void)t, (void)f;
    model_fail("it is not lost: it has been woken");
}
void aw__report_deadlock(const aw_runtime *of) {
    (void)of;
    model_check(hopeless);
    reported++;
}

static aw_poll gate_poll(aw_future *f, aw_cx *cx) {
    struct gate *g = (struct gate *)f;
    model_write(&g->out, model_read(&g->out) + 1);
    if (locked) {
        aw__lock(&gate_lock);
        g->wakers[0] = *cx->waker;
        aw__unlock(&gate_lock);
        if (g->out == 1) cx->meter->armed++;
    } else if (g->out == 1) {
        for (uint32_t i = 0; i < waker_count; i++)
            g->wakers[i] = aw_waker_clone(cx->waker);
    }
    if (hopeless && g->out == 1) cx->meter->armed++;
    if (g->out == 1) aw__store_release(&g->handed_out, 1u);
    if (aw__load_relaxed(&told) < needed) return AW_PENDING;
    if (locked) { /* the waker is no longer used */
        aw__lock(&gate_lock);
        g->wakers[0].type = NULL;
        aw__unlock(&gate_lock);
    }
    return AW_READY;
}
static const aw_future_type gate_type = {AW_TYPE_OF(struct gate, "gate"), .poll = gate_poll};

static void setup_needing(uint32_t wakes, uint32_t wakers) {
    modelled_thread = (struct modelled_thread){0};
    model_thread_local(&modelled_thread, sizeof modelled_thread);
    memset(gates, 0, sizeof gates);
    for (int i = 0; i < 2; i++)
        gates[i].future = (aw_future)AW_FUTURE_INIT(&gate_type);
    told = gate_lock = 0;
    needed = wakes;
    waker_count = wakers;
    freed = reported = 0;
    locked = hopeless = two = false;
    rt = model_alloc(sizeof *rt);
    rt->base.allocator = &allocator;
    rt->base.sched = &modelled_scheduler;
    rt->pool = model_alloc(sizeof(aw__pool));
    rt->pool->rt = rt;
    rt->pool->allocated = 1;
    rt->pool->first_block_on_used =
        /* So that the memory of a block_on can be freed before the pool's. */
        1;
}
static void setup_one_wake(void) {
    setup_needing(1, 1);
}
static void setup_two_wakes(void) {
    setup_needing(2, 2);
}
static void setup_one_of_two_wakes(void) {
    setup_needing(1, 2);
}
static void setup_in_the_pool(void) {
    setup_needing(1, 2);
    rt->pool->first_block_on_used = 0;
}
/* The watcher has a reference on the runtime, too. */
static void setup_watched(void) {
    setup_needing(1, 1);
    rt->pool->allocated = 2;
}
static void setup_two_blocked(void) {
    setup_watched();
    rt->pool->allocated = 3;
}
static void setup_hopeless(void) {
    setup_needing(1, 0);
    rt->pool->allocated = 2;
    hopeless = true;
}
static void setup_two_hopeless(void) {
    setup_hopeless();
    rt->pool->allocated = 3;
    two = true;
}
static void setup_locked(void) {
    setup_needing(1, 1);
    locked = true;
}

/* ---- The threads ----------------------------------------------------------------------------- */

static void block(void) {
    struct gate *g = &gates[0];
    model_check(aw__pool_block_on(rt, &g->future) == 0);
    g->out = -1; /* the future belongs to the caller again */
    model_check(!aw__context.main && !aw__context.runtime);
}
/* The last user frees the runtime. */
static void block_and_end(void) {
    aw__pool *p = rt->pool;
    block();
    aw__pool_unref(p);
}
static void block_other_and_end(void) {
    aw__pool *p = rt->pool;
    model_check(aw__pool_block_on(rt, &gates[1].future) == 0);
    aw__pool_unref(p);
}
/* The block_on inside the pool may be in use until its wakers are dropped; the second call then
 * uses another. */
static void block_twice(void) {
    aw__pool *p = rt->pool;
    block();
    struct gate *g = &gates[1];
    model_check(aw__pool_block_on(rt, &g->future) == 0);
    for (uint32_t i = 0; i < waker_count; i++)
        aw_waker_drop(g->wakers[i]);
    aw__pool_unref(p);
}

static bool is_handed_out(void *gate) {
    return ((struct gate *)gate)->handed_out;
}
static struct gate *with_wakers_of(struct gate *g) {
    model_wait(is_handed_out, g);
    aw__fetch_add(&g->handed_out, 0u); /* reads the newest value, and acquires it */
    return g;
}
static struct gate *with_wakers(void) {
    return with_wakers_of(&gates[0]);
}
static void wake(void) {
    struct gate *g = with_wakers();
    aw_waker w = g->wakers[0];
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake(w);
}
static void wake_second(void) {
    struct gate *g = with_wakers();
    aw_waker w = g->wakers[1];
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake(w);
}
static void wake_both(void) {
    aw_waker first = with_wakers()->wakers[0], second = with_wakers_of(&gates[1])->wakers[0];
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake(first);
    aw_waker_wake(second);
}
static void wake_by_reference_then_drop(void) {
    struct gate *g = with_wakers();
    aw_waker w = g->wakers[0];
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake_by_ref(&w);
    aw_waker_drop(w);
}
static void clone_and_drop_second(void) {
    struct gate *g = with_wakers();
    aw_waker w = g->wakers[1], other = aw_waker_clone(&w);
    aw_waker_drop(w);
    aw_waker_drop(other);
}
/* A wake without an event, and then one with it. */
static void wake_twice(void) {
    struct gate *g = with_wakers();
    aw_waker w = g->wakers[0];
    aw_waker_wake_by_ref(&w);
    aw__fetch_add_relaxed(&told, 1u);
    aw_waker_wake(w);
}
static void wake_under_the_lock(void) {
    struct gate *g = with_wakers();
    aw__lock(&gate_lock);
    aw__fetch_add_relaxed(&told, 1u);
    if (g->wakers[0].type) aw_waker_wake_by_ref(&g->wakers[0]);
    aw__unlock(&gate_lock);
}

/* The future belongs to the watcher while it looks. */
static void look_at(const aw__task_view *v, void *data) {
    struct gate *g = (struct gate *)(uintptr_t)v->future;
    (void)data;
    model_check(model_read(&g->out) >= 1);
    aw__load_relaxed(&v->task->word); /* lets other threads run */
    model_write(&g->out, model_read(&g->out) + 1);
}
static void watch(void) {
    aw__pool *p = rt->pool;
    aw__block_on_each_asleep(p, look_at, NULL);
    aw__pool_unref(p);
}

/* A thread that will never be woken gets an error. */
static void block_in_vain(void) {
    aw__pool *p = rt->pool;
    model_check(aw__pool_block_on(rt, &gates[model_self()].future) == -EDEADLK);
    aw__pool_unref(p);
}
static bool all_sleep(void *pool) {
    const aw__pool *p = pool;
    bool all = p->block_ons && p->block_ons->state == AW__BLOCK_ON_ASLEEP;
    for (const aw__block_on *m = p->block_ons; m; m = m->next)
        all &= m->state == AW__BLOCK_ON_ASLEEP;
    return all && (!two || p->block_ons->next);
}
/* Like act_on_quiescence() if nothing rules out a deadlock. */
static void declare_deadlock_to_all(void) {
    aw__pool *p = rt->pool;
    model_wait(all_sleep, p);
    aw__lock(&p->quiescence_lock);
    while (!watch_block_ons(p))
        model_yield(); /* does not see yet that they sleep */
    model_check(block_ons_quiescent(p));
    declare_deadlock(p);
    aw__lock(&p->rt->base.lock);
    unwatch_block_ons(p->block_ons, NULL);
    aw__unlock(&p->rt->base.lock);
    aw__unlock(&p->quiescence_lock);
    aw__pool_unref(p);
}

static void nothing_is_left_and_one_has_reported(void) {
    model_check(freed == 1 && model_allocated() == 0 && reported == 1);
}
static void nothing_is_left(void) {
    model_check(freed == 1 && model_allocated() == 0);
}

MODEL(a_wake_comes_before_or_after_it_sleeps, .setup = setup_one_wake,
      .threads = {block_and_end, wake}, .check = nothing_is_left, .preemptions = 4)
MODEL(of_two_wakes_none_is_lost, .setup = setup_two_wakes,
      .threads = {block_and_end, wake, wake_second}, .check = nothing_is_left)
MODEL(a_wake_that_says_nothing_does_not_hide_another, .setup = setup_one_wake,
      .threads = {block_and_end, wake_twice}, .check = nothing_is_left, .preemptions = 4)
MODEL(a_waker_may_outlive_the_sleep, .setup = setup_one_of_two_wakes,
      .threads = {block_and_end, wake_by_reference_then_drop, clone_and_drop_second},
      .check = nothing_is_left)
MODEL(a_waker_may_be_borrowed_under_a_lock, .setup = setup_locked,
      .threads = {block_and_end, wake_under_the_lock}, .check = nothing_is_left, .preemptions = 3)
MODEL(the_block_on_inside_the_pool_is_reused, .setup = setup_in_the_pool,
      .threads = {block_twice, wake, clone_and_drop_second}, .check = nothing_is_left)
MODEL(a_watcher_is_not_disturbed_by_a_wake, .setup = setup_watched,
      .threads = {block_and_end, wake, watch}, .check = nothing_is_left)
MODEL(a_watcher_finds_each_of_two_threads, .setup = setup_two_blocked,
      .threads = {block_and_end, block_other_and_end, wake_both, watch}, .check = nothing_is_left,
      .preemptions = 1, .stale = 1)

MODEL(a_thread_that_waits_in_vain_gets_an_error, .setup = setup_hopeless,
      .threads = {block_in_vain, declare_deadlock_to_all},
      .check = nothing_is_left_and_one_has_reported)
MODEL(of_two_that_wait_in_vain_one_reports, .setup = setup_two_hopeless,
      .threads = {block_in_vain, block_in_vain, declare_deadlock_to_all},
      .check = nothing_is_left_and_one_has_reported, .preemptions = 1, .stale = MODEL_NONE)

/* ---- Mistakes -------------------------------------------------------------------------------- */

/* Inspects the future without setting WATCHED: the thread can leave. */
static void watch_without_mark(void) {
    aw__pool *p = rt->pool;
    aw__lock(&p->rt->base.lock);
    if (p->block_ons && aw__load_acquire(&p->block_ons->state) == AW__BLOCK_ON_ASLEEP)
        look_at(&(aw__task_view){&p->block_ons->task, p->block_ons->main.future, false}, NULL);
    aw__unlock(&p->rt->base.lock);
    aw__pool_unref(p);
}
/* Removes WATCHED, but does not pass on a wake that came meanwhile. */
static void watch_and_lose_the_wake(void) {
    aw__pool *p = rt->pool;
    aw__lock(&p->rt->base.lock);
    if (p->block_ons && aw__block_on_watch(p->block_ons))
        aw__fetch_and(&p->block_ons->state, ~(uint32_t)AW__BLOCK_ON_WATCHED);
    aw__unlock(&p->rt->base.lock);
    aw__pool_unref(p);
}

MODEL_BROKEN(a_watcher_that_does_not_mark_the_thread_races, "data race", .setup = setup_watched,
             .threads = {block_and_end, wake, watch_without_mark})
MODEL_BROKEN(a_watcher_must_pass_on_a_wake, "deadlock", .setup = setup_watched,
             .threads = {block_and_end, wake, watch_and_lose_the_wake})

/* ---- Orders ---------------------------------------------------------------------------------- */

/* Smaller models: a missing order shows in them, too. */
static const struct model woken = {
    .setup = setup_one_wake, .threads = {block_and_end, wake}, .check = nothing_is_left};
static const struct model woken_twice = {.setup = setup_two_wakes,
                                         .threads = {block_and_end, wake, wake_second},
                                         .check = nothing_is_left,
                                         .preemptions = 1};
static const struct model dropped = {
    .setup = setup_one_of_two_wakes,
    .threads = {block_and_end, wake_by_reference_then_drop, clone_and_drop_second},
    .check = nothing_is_left,
    .preemptions = 1};
static const struct model again = {.setup = setup_in_the_pool,
                                   .threads = {block_twice, wake, clone_and_drop_second},
                                   .check = nothing_is_left,
                                   .preemptions = 1};
static const struct model watched = {.setup = setup_watched,
                                     .threads = {block_and_end, wake, watch},
                                     .check = nothing_is_left,
                                     .preemptions = 1};

/* Data is passed from a wake, or from the watcher, to the exchange before the next poll; and
 * from the thread that falls asleep to the watcher. quiescence.c covers that all threads see
 * which ones sleep. */
static const struct model_harmless harmless[] = {
    {"aw__block_on_watch", "aw__cas(", "acquire", "the load before it acquires it"},
    {"aw__block_on_watch", "aw__cas(", "release", "the watcher has not done anything yet"},
    {"aw__block_on_watch", "aw__cas(", "failure", "then it does not watch"},
    {"aw__block_on_unwatch", "aw__fetch_and(", "acquire",
     "the watcher does not use what a wake passes on"},
    {"aw__block_on_wake", "aw__fetch_or(", "acquire", "only an unpark follows"},
    {"block_on_is_lost", "aw__load_acquire(&b->state)", "acquire", "it is only looked at"},
    {"block_on_sleep", "aw__cas_seq(", "acquire", "the thread itself wrote POLLING"},
    {"block_on_sleep", "aw__cas_seq(", "failure", "the exchange before the next poll acquires it"},
    {"aw__block_on_watch", "aw__load_seq(", "acquire", "the exchange that follows acquires it"},
    {"*", "", "seq_cst", "for the check for quiescence: quiescence.c tries it"},
    {"block_on_run", "aw__exchange(", "release", "a polling thread is not watched"},
    {"block_on_run", "aw__load_acquire(&b->deadlocks)", "acquire",
     "the thread was watched, and has acquired the end of that"},
    {"block_on_enter", "aw__fetch_add(", "acquire", "a number"},
    {"block_on_enter", "aw__fetch_add(", "release", "a number"},
    {"block_on_alloc", "aw__cas(", "release", "the thread that takes it has not done anything yet"},
    {"block_on_alloc", "aw__cas(", "failure", "then it is not used"},
    {0}};

MODEL_ORDERS(the_orders_of_threads_that_wait, "multi/pool_block_on", harmless, &woken, &woken_twice,
             &dropped, &again, &watched, &model_a_waker_may_be_borrowed_under_a_lock,
             &model_a_thread_that_waits_in_vain_gets_an_error)
