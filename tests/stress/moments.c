/* SPDX-License-Identifier: MIT
 *
 * Two threads that never sleep: one ends a task, the other links a join to it or wakes it, hundreds of
 * thousands of times in the same moment, so that even what only a processor's store buffer delays shows.
 * Each lasts a second or two, whatever else the machine does. */
#include "support/storm.h"

typedef struct table {
    struct blink *dealt; /* atomic: the next task */
    uint32_t taken;      /* atomic: how many were */
    uint32_t over;       /* atomic */
    uint64_t random;
    uint64_t deadline;
} table;

AW_ASYNC(int, blink, uint32_t spin;) {
    AW_BEGIN;
    AW_YIELD;
    for (volatile uint32_t i = self->spin; i > 0; i--)
        ;
    AW_RETURN(1);
    AW_END;
}

/* The runtime's side: a task each round, until the other one is through with it. */
AW_ASYNC(int, deal, table *table; uint32_t i;) {
    AW_BEGIN;
    for (self->i = 0; self->i % 64 || test_now_ns() < self->table->deadline; self->i++) {
        STORE(self->table->dealt,
              aw_spawn(AW_CALL(blink, .spin = (uint32_t)(test_random(&self->table->random) % 64))));
        while (LOAD(self->table->taken) == self->i)
            AW_YIELD;
    }
    STORE(self->table->over, 1);
    AW_RETURN((int)self->i);
    AW_END;
}

/* The other side: NULL when it is over. */
static struct blink *take(table *t, uint64_t *random) {
    struct blink *h;
    for (unsigned n = 1; !(h = __atomic_exchange_n(&t->dealt, NULL, __ATOMIC_ACQ_REL)); n++) {
        if (LOAD(t->over)) return NULL;
        if (n % 1024 == 0) sched_yield();
    }
    for (volatile int k = (int)(test_random(random) % 128); k > 0; k--)
        ;
    return h;
}

static void wait_for_flag(aw_flag *flag) {
    for (uint64_t n = 1; !aw_flag_take(flag); n++) {
        if (n % 1024 == 0) sched_yield();
        if (n >> 25) FAIL("a wake-up was lost");
    }
}

static void join_each(void *arg, int index, uint64_t *random) {
    table *t = arg;
    struct blink *h;
    (void)index;
    while ((h = take(t, random))) {
        static aw_flag flag; /* who wakes may do so after the join has ended */
        aw_waker w = aw_flag_waker(&flag);
        aw_cx cx = aw_cx_from_waker(&w);
        aw_task_join_future join = aw_task_join(h);
        while (aw_future_poll(&join.future, &cx) == AW_PENDING)
            wait_for_flag(&flag);
        CHECK_EQ(join.out, 0);
        aw_task_drop(h);
        ADD(t->taken, 1);
    }
}

/* Half of them are aborted in that moment, and all are dropped in it. */
static void abort_each(void *arg, int index, uint64_t *random) {
    table *t = arg;
    struct blink *h;
    (void)index;
    while ((h = take(t, random))) {
        if (chance(random, 2)) aw_task_abort(h);
        aw_task_drop(h);
        ADD(t->taken, 1);
    }
}

static void play(void (*other)(void *, int, uint64_t *)) {
    uint64_t random = test_seed();
    storm s;
    table t = {.random = test_random(&random), .deadline = test_now_ns() + AW_MSEC(1500)};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    storm_make(&s, 1, &random, other, &t);
    storm_go(&s);
    int rounds = aw_block_on(rt, AW_CALL(deal, .table = &t));
    storm_end(&s);
    run_a_while(rt);
    CHECK_EQ(aw_runtime_task_count(rt), 0);
    aw_runtime_free(rt);
    printf("%d rounds\n", rounds);
}

TEST_LIMIT(a_join_that_is_linked_in_the_moment_in_which_its_task_ends_is_woken, 60) {
    play(join_each);
}

TEST_LIMIT(an_abort_and_a_drop_in_the_moment_in_which_a_task_ends_are_served, 60) {
    play(abort_each);
}

/* ---- Going to sleep --------------------------------------------------------------------------- */

/* A wake in the very moment in which the runtime goes to sleep ends that sleep. */
typedef struct nap {
    aw_notify there, back;
    uint32_t over;
} nap;

static void wake_each(void *arg, int index, uint64_t *random) {
    nap *n = arg;
    (void)index;
    static aw_flag flag; /* who wakes may do so after the wait has ended */
    aw_waker w = aw_flag_waker(&flag);
    aw_cx cx = aw_cx_from_waker(&w);
    for (;;) {
        aw_notified wait = aw_notify_wait(&n->back);
        while (aw_future_poll(&wait.future, &cx) == AW_PENDING)
            wait_for_flag(&flag);
        if (LOAD(n->over)) return;
        for (volatile int k = (int)(test_random(random) % 256); k > 0; k--)
            ;
        aw_notify_one(&n->there);
    }
}

AW_ASYNC(int, nap_each, nap *nap; uint64_t deadline; int i; aw_notified wait;) {
    AW_BEGIN;
    for (self->i = 0; self->i % 64 || test_now_ns() < self->deadline; self->i++) {
        aw_notify_one(&self->nap->back);
        AW_AWAIT(self->wait, aw_notify_wait(&self->nap->there)); /* and sleeps */
    }
    STORE(self->nap->over, 1);
    aw_notify_one(&self->nap->back);
    AW_RETURN(self->i);
    AW_END;
}

TEST_LIMIT(a_wake_in_the_moment_in_which_the_runtime_falls_asleep_is_heard, 60) {
    uint64_t random = test_seed();
    storm s;
    nap n = {.there = AW_NOTIFY_INIT, .back = AW_NOTIFY_INIT};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    storm_make(&s, 1, &random, wake_each, &n);
    storm_go(&s);
    int rounds = aw_block_on(
        rt, AW_CALL(nap_each, .nap = &n, .deadline = test_now_ns() + AW_MSEC(1500)));
    storm_end(&s);
    aw_runtime_free(rt);
    printf("%d rounds\n", rounds);
}
