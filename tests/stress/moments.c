/* SPDX-License-Identifier: MIT
 *
 * Two threads that never sleep. One ends a task; the other links a join to it, aborts it or drops
 * it at the same moment, hundreds of thousands of times. So even a race that only a store buffer
 * delays is hit. Each test lasts a second or two, independent of the load. */
#include "support/stress.h"

typedef struct handoff {
    struct blink *next; /* atomic: the next task */
    uint32_t taken;     /* atomic: how many were taken */
    uint32_t over;      /* atomic */
    uint64_t random;
    uint64_t deadline;
} handoff;

AW_ASYNC(int, blink, uint32_t spin;) {
    AW_BEGIN;
    AW_YIELD;
    for (volatile uint32_t i = self->spin; i > 0; i--)
        ;
    AW_RETURN(1);
    AW_END;
}

/* The runtime's side: spawns a task each round, and yields until the other side has used it. */
AW_ASYNC(int, spawn_each, handoff *h; uint32_t i;) {
    AW_BEGIN;
    for (self->i = 0; self->i % 64 || test_now_ns() < self->h->deadline; self->i++) {
        STORE(self->h->next,
              aw_spawn(AW_CALL(blink, .spin = (uint32_t)(test_random(&self->h->random) % 64))));
        while (LOAD(self->h->taken) == self->i)
            AW_YIELD;
    }
    STORE(self->h->over, 1);
    AW_RETURN((int)self->i);
    AW_END;
}

/* The other side. NULL: the test is over. */
static struct blink *take(handoff *t, uint64_t *random) {
    struct blink *h;
    for (unsigned n = 1; !(h = __atomic_exchange_n(&t->next, NULL, __ATOMIC_ACQ_REL)); n++) {
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
    handoff *t = arg;
    struct blink *h;
    (void)index;
    while ((h = take(t, random))) {
        static aw_flag flag; /* static: a wake may come after the join has ended */
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

/* Aborts half of the tasks as they end, and drops all of them. */
static void abort_each(void *arg, int index, uint64_t *random) {
    handoff *t = arg;
    struct blink *h;
    (void)index;
    while ((h = take(t, random))) {
        if (chance(random, 2)) aw_task_abort(h);
        aw_task_drop(h);
        ADD(t->taken, 1);
    }
}

static void run_handoff(void (*body)(void *, int, uint64_t *)) {
    uint64_t random = test_seed();
    thread_group s;
    handoff t = {.random = test_random(&random), .deadline = test_now_ns() + AW_MSEC(1500)};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    thread_group_create(&s, 1, &random, body, &t);
    thread_group_go(&s);
    int rounds = aw_block_on(rt, AW_CALL(spawn_each, .h = &t));
    thread_group_join(&s);
    run_a_while(rt);
    CHECK_EQ(aw_runtime_task_count(rt), 0);
    aw_runtime_free(rt);
    printf("%d rounds\n", rounds);
}

TEST_LIMIT(a_join_that_is_linked_in_the_moment_in_which_its_task_ends_is_woken, 60) {
    run_handoff(join_each);
}

TEST_LIMIT(an_abort_and_a_drop_in_the_moment_in_which_a_task_ends_are_served, 60) {
    run_handoff(abort_each);
}

/* ---- Going to sleep -------------------------------------------------------------------------- */

/* A wake at the moment at which the runtime goes to sleep ends that sleep. */
typedef struct nap {
    aw_notify wake_runtime, wake_thread;
    uint32_t over;
} nap;

static void wake_each(void *arg, int index, uint64_t *random) {
    nap *n = arg;
    (void)index;
    static aw_flag flag; /* static: a wake may come after the wait has ended */
    aw_waker w = aw_flag_waker(&flag);
    aw_cx cx = aw_cx_from_waker(&w);
    for (;;) {
        aw_notified wait = aw_notify_wait(&n->wake_thread);
        while (aw_future_poll(&wait.future, &cx) == AW_PENDING)
            wait_for_flag(&flag);
        if (LOAD(n->over)) return;
        for (volatile int k = (int)(test_random(random) % 256); k > 0; k--)
            ;
        aw_notify_one(&n->wake_runtime);
    }
}

AW_ASYNC(int, nap_each, nap *nap; uint64_t deadline; int i; aw_notified wait;) {
    AW_BEGIN;
    for (self->i = 0; self->i % 64 || test_now_ns() < self->deadline; self->i++) {
        aw_notify_one(&self->nap->wake_thread);
        AW_AWAIT(self->wait, aw_notify_wait(&self->nap->wake_runtime)); /* the runtime sleeps */
    }
    STORE(self->nap->over, 1);
    aw_notify_one(&self->nap->wake_thread);
    AW_RETURN(self->i);
    AW_END;
}

TEST_LIMIT(a_wake_in_the_moment_in_which_the_runtime_falls_asleep_is_heard, 60) {
    uint64_t random = test_seed();
    thread_group s;
    nap n = {.wake_runtime = AW_NOTIFY_INIT, .wake_thread = AW_NOTIFY_INIT};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    thread_group_create(&s, 1, &random, wake_each, &n);
    thread_group_go(&s);
    int rounds = aw_block_on(
        rt, AW_CALL(nap_each, .nap = &n, .deadline = test_now_ns() + AW_MSEC(1500)));
    thread_group_join(&s);
    aw_runtime_free(rt);
    printf("%d rounds\n", rounds);
}
