/* SPDX-License-Identifier: MIT
 *
 * workers/main.h under every schedule, by way of the real workers/main.c: threads in block_on, others who
 * have their wakers, and somebody who looks at their futures while they sleep. No wake is lost, who looks
 * is not disturbed, and the memory goes with the last who uses it. The rest of the runtime is only what a
 * block_on needs; quiet.c has the other half of falling asleep. */
#include "support/model.h"
#include "support/model_park.h"

#include <awake.h>

/* In place of the library's. */
#define aw__lock_slow          modelled_lock_slow
#define aw__rt_free_memory     modelled_free_memory
#define aw__rt_unhold          modelled_unhold
#define aw__pool_look          modelled_look
#define aw__pool_count_cancels modelled_count_cancels
#define aw__report_lost        modelled_report_lost
#define aw__report_deadlock    modelled_report_deadlock
#define aw__thread             modelled_thread

#define sched_yield() model_yield()
#include "os/lock.c"
#undef sched_yield

#include "workers/main.c"

#undef aw__pool_look
#define aw__pool_look   unused_look
#define aw__pool_unhold unused_unhold
#include "workers/quiet.c"
#undef aw__pool_look
#define aw__pool_look modelled_look

_Thread_local struct modelled_thread modelled_thread; /* nobody is a worker of it */

enum { WAKERS = 2 };

/* A future that waits until it has been told so often. At its first poll it gives its wakers out. */
struct gate {
    aw_future future;
    int out;        /* how often it was polled, and looked at */
    uint32_t given; /* atomic */
    aw_waker wakers[WAKERS];
};

static aw_runtime *rt;
static struct gate gates[2];
static uint32_t told, needed, given;
static int freed, reported;
static bool locked; /* its waker is borrowed, and used under a lock */
static bool hopeless, two;
static uint32_t gate_lock;

/* ---- What a block_on needs -------------------------------------------------------------------- */

static void *take_memory(void *unused, size_t size) {
    (void)unused;
    return model_alloc(size);
}
static void give_memory(void *unused, void *memory, size_t size) {
    (void)unused, (void)size;
    model_free(memory);
}
static const aw_allocator allocator = {.alloc = take_memory, .release = give_memory};

void aw__rt_free_memory(aw_runtime *gone) {
    model_free(gone->pool);
    model_free(gone);
    freed++;
}
/* The pool is there. */
void aw__pool_look(aw__pool *p) {
    (void)aw__load_relaxed(&p->stop);
}
void aw__rt_unhold(aw_runtime *of, uint32_t *count) {
    aw__fetch_sub(count, 1u);
    aw__pool_look(of->pool);
}
void aw__pool_count_cancels(aw__pool *p, aw__task *t, int32_t change, bool ended) {
    (void)p, (void)t, (void)change, (void)ended;
}
void aw__report_lost(const aw_runtime *of, const aw__task *t) {
    (void)of, (void)t;
    model_fail("it is not lost: somebody has woken it");
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
        for (uint32_t i = 0; i < given; i++)
            g->wakers[i] = aw_waker_clone(cx->waker);
    }
    if (hopeless && g->out == 1) cx->meter->armed++;
    if (g->out == 1) aw__store_release(&g->given, 1u);
    if (aw__load_relaxed(&told) < needed) return AW_PENDING;
    if (locked) { /* nobody uses the waker any more */
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
    given = wakers;
    freed = reported = 0;
    locked = hopeless = two = false;
    rt = model_alloc(sizeof *rt);
    rt->allocator = &allocator;
    rt->pool = model_alloc(sizeof(aw__pool));
    rt->pool->rt = rt;
    rt->pool->allocated = 1;
    rt->pool->main_used = 1; /* so the memory of a block_on can be gone before the pool's */
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
    rt->pool->main_used = 0;
}
/* Who looks has the runtime too. */
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

/* ---- The threads ------------------------------------------------------------------------------ */

static void block(void) {
    struct gate *g = &gates[0];
    model_check(aw__pool_block_on(rt, &g->future) == 0);
    g->out = -1; /* it is the caller's again */
    model_check(!aw__thread.main && !aw__thread.beside);
}
/* And who is the last ends the runtime. */
static void block_and_end(void) {
    aw__pool *p = rt->pool;
    block();
    aw__pool_unkeep(p);
}
static void block_other_and_end(void) {
    aw__pool *p = rt->pool;
    model_check(aw__pool_block_on(rt, &gates[1].future) == 0);
    aw__pool_unkeep(p);
}
/* The place in the pool may be in use until its wakers are gone; then there is another. */
static void block_twice(void) {
    aw__pool *p = rt->pool;
    block();
    struct gate *g = &gates[1];
    model_check(aw__pool_block_on(rt, &g->future) == 0);
    for (uint32_t i = 0; i < given; i++)
        aw_waker_drop(g->wakers[i]);
    aw__pool_unkeep(p);
}

static bool is_given(void *gate) {
    return ((struct gate *)gate)->given;
}
static struct gate *with_wakers_of(struct gate *g) {
    model_wait(is_given, g);
    aw__fetch_add(&g->given, 0u); /* it reads the newest, and acquires it */
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
/* A wake that says nothing, and then one that does. */
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

/* What is in the future belongs to who looks, as long as it does. */
static void look_at(aw__task *t, void *data) {
    struct gate *g = (struct gate *)aw__main_of(t)->future;
    (void)data;
    model_check(model_read(&g->out) >= 1);
    aw__load_relaxed(&t->word); /* a moment passes */
    model_write(&g->out, model_read(&g->out) + 1);
}
static void watch(void) {
    aw__pool *p = rt->pool;
    aw__mains_each_asleep(p, look_at, NULL);
    aw__pool_unkeep(p);
}

/* Who never will be woken is told so. */
static void block_in_vain(void) {
    aw__pool *p = rt->pool;
    model_check(aw__pool_block_on(rt, &gates[model_self()].future) == -EDEADLK);
    aw__pool_unkeep(p);
}
static bool all_sleep(void *pool) {
    const aw__pool *p = pool;
    bool all = p->mains && p->mains->state == AW__MAIN_ASLEEP;
    for (const aw__main *m = p->mains; m; m = m->next)
        all &= m->state == AW__MAIN_ASLEEP;
    return all && (!two || p->mains->next);
}
/* As look() when nothing speaks against it. */
static void tell_them(void) {
    aw__pool *p = rt->pool;
    model_wait(all_sleep, p);
    aw__lock(&p->look_lock);
    while (!watch_mains(p))
        model_yield(); /* it is yet to see that they sleep */
    model_check(mains_quiet(p));
    tell(p);
    aw__lock(&p->rt->lock);
    unwatch_mains(p->mains, NULL);
    aw__unlock(&p->rt->lock);
    aw__unlock(&p->look_lock);
    aw__pool_unkeep(p);
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
MODEL(the_place_in_the_pool_is_used_again, .setup = setup_in_the_pool,
      .threads = {block_twice, wake, clone_and_drop_second}, .check = nothing_is_left)
MODEL(who_looks_is_not_disturbed_by_a_wake, .setup = setup_watched,
      .threads = {block_and_end, wake, watch}, .check = nothing_is_left)
MODEL(who_looks_finds_each_of_two, .setup = setup_two_blocked,
      .threads = {block_and_end, block_other_and_end, wake_both, watch}, .check = nothing_is_left,
      .preemptions = 1, .stale = 1)

MODEL(who_waits_in_vain_is_told, .setup = setup_hopeless, .threads = {block_in_vain, tell_them},
      .check = nothing_is_left_and_one_has_reported)
MODEL(of_two_that_wait_in_vain_one_reports, .setup = setup_two_hopeless,
      .threads = {block_in_vain, block_in_vain, tell_them},
      .check = nothing_is_left_and_one_has_reported, .preemptions = 1, .stale = MODEL_NONE)

/* ---- Mistakes --------------------------------------------------------------------------------- */

/* It goes away while the state does not say so. */
static void watch_without_saying(void) {
    aw__pool *p = rt->pool;
    aw__lock(&p->rt->lock);
    if (p->mains && aw__load_acquire(&p->mains->state) == AW__MAIN_ASLEEP)
        look_at(&p->mains->task, NULL);
    aw__unlock(&p->rt->lock);
    aw__pool_unkeep(p);
}
/* A wake that came meanwhile has left it to who watches. */
static void watch_and_forget(void) {
    aw__pool *p = rt->pool;
    aw__lock(&p->rt->lock);
    if (p->mains && aw__main_watch(p->mains))
        aw__fetch_and(&p->mains->state, ~(uint32_t)AW__MAIN_WATCHED);
    aw__unlock(&p->rt->lock);
    aw__pool_unkeep(p);
}

MODEL_BROKEN(who_does_not_say_that_it_looks_is_disturbed, "data race", .setup = setup_watched,
             .threads = {block_and_end, wake, watch_without_saying})
MODEL_BROKEN(who_has_looked_must_pass_on_a_wake, "deadlock", .setup = setup_watched,
             .threads = {block_and_end, wake, watch_and_forget})

/* ---- Orders ----------------------------------------------------------------------------------- */

/* Smaller ones: an order that is missing shows in them as well. */
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

/* What is passed on goes from a wake, or from who has looked, to the exchange before the next poll; and
 * from who falls asleep to who looks. That all see who sleeps is the business of quiet.c. */
static const struct model_harmless harmless[] = {
    {"aw__main_watch", "aw__cas(", "acquire", "the load before it acquires it"},
    {"aw__main_watch", "aw__cas(", "release", "who looks has not done anything yet"},
    {"aw__main_watch", "aw__cas(", "failure", "then it does not look"},
    {"aw__main_unwatch", "aw__fetch_and(", "acquire", "what a wake brings is not for who looks"},
    {"aw__main_wake", "aw__fetch_or(", "acquire", "it does nothing after that but unpark"},
    {"is_lost", "aw__load_acquire(&m->state)", "acquire", "it is only looked at"},
    {"fall_asleep", "aw__cas_seq(", "acquire", "POLLING is its own"},
    {"fall_asleep", "aw__cas_seq(", "failure", "the exchange before the next poll acquires it"},
    {"aw__main_watch", "aw__load_seq(", "acquire", "the exchange that follows acquires it"},
    {"*", "", "seq_cst", "for who looks whether all sleep: quiet.c tries it"},
    {"call", "aw__exchange(", "release", "nobody looks at what polls"},
    {"run", "aw__load_acquire(&m->stuck)", "acquire",
     "who was told has been watched, and has acquired that this is over"},
    {"enter", "aw__fetch_add(", "acquire", "a number"},
    {"enter", "aw__fetch_add(", "release", "a number"},
    {"new_main", "aw__cas(", "release", "who takes it has not done anything yet"},
    {"new_main", "aw__cas(", "failure", "then it is not touched"},
    {0}};

MODEL_ORDERS(the_orders_of_threads_that_wait, "workers/main", harmless, &woken, &woken_twice,
             &dropped, &again, &watched, &model_a_waker_may_be_borrowed_under_a_lock,
             &model_who_waits_in_vain_is_told)
