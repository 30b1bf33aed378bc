/* SPDX-License-Identifier: MIT
 *
 * Counters of a worker: its queue depth, how long it was busy, and what woke it. */
#include "support/workers.h"

static aw_runtime *one_worker(aw_flavour flavour) {
    aw_runtime_options o = workers_options(1, NULL, NULL);
    aw_runtime *rt;
    o.flavour = flavour;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

/* With workers of either kind. */
#define BOTH(name)                                                                                 \
    static void name##_body(aw_flavour flavour);                                                   \
    TEST(name##_with_workers) {                                                                    \
        name##_body(AW_MULTI_THREAD);                                                              \
    }                                                                                              \
    TEST(name##_with_a_thread_per_core) {                                                          \
        name##_body(AW_THREAD_PER_CORE);                                                           \
    }                                                                                              \
    static void name##_body(aw_flavour flavour)

/* ---- Depth ----------------------------------------------------------------------------------- */

enum { INSIDE = 5, OUTSIDE = 7 };

AW_ASYNC(int, holds_the_worker, uint32_t *stage; uint32_t * ran;) {
    AW_BEGIN;
    for (int i = 0; i < INSIDE; i++)
        aw_task_drop(aw_spawn(aw_ready_now(0)));
    STORE(*self->stage, 1);
    WAIT_UNTIL(LOAD(*self->stage) == 2);
    AW_RETURN(0);
    AW_END;
}

BOTH(tasks_that_are_ready_and_wait_are_its_depth) {
    uint32_t stage = 0;
    aw_runtime *rt = one_worker(flavour);
    CHECK_EQ(counters_of(rt, 0).depth, 0);
    struct holds_the_worker *h = aw_spawn_on(rt, AW_CALL(holds_the_worker, .stage = &stage));
    WAIT_UNTIL(LOAD(stage) == 1);
    /* The monitor may have moved the task in the LIFO slot to the shared queue. */
    CHECK_GE(counters_of(rt, 0).depth, INSIDE - 1);
    CHECK_LE(counters_of(rt, 0).depth, INSIDE);
    uint64_t before = counters_of(rt, 0).depth;
    for (int i = 0; i < OUTSIDE; i++)
        aw_task_drop(aw_spawn_at(rt, 0, aw_ready_now(0)));
    CHECK_GE(counters_of(rt, 0).depth, before + OUTSIDE - 1);
    CHECK_LE(counters_of(rt, 0).depth, INSIDE + OUTSIDE);
    STORE(stage, 2);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    WAIT_UNTIL(aw_runtime_task_count(rt) == 0);
    CHECK_EQ(counters_of(rt, 0).depth, 0);
    workers_end(rt, NULL);
}

/* Tasks that yield and sleep. */
AW_ASYNC(int, rests, int n, i; aw_yield pause; aw_sleep nap;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->n; self->i++) {
        AW_AWAIT(self->pause, aw_yield_now());
        if (self->i % 4 == 0) AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(20)));
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(the_depth_is_zero_when_all_is_done) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(500); i++) {
        aw_task_drop(aw_spawn_on(rt, AW_CALL(rests, .n = 10)));
        aw_task_drop(aw_spawn_at(rt, (uint32_t)i % workers, AW_CALL(rests, .n = 10)));
    }
    WAIT_UNTIL(aw_runtime_task_count(rt) == 0);
    CHECK_EQ(COUNTER_SUM(rt, depth), 0);
    workers_end(rt, NULL);
}

/* ---- Sleeping and waking --------------------------------------------------------------------- */

/* A sleeping worker is not busy. */
static void wait_until_it_sleeps(const aw_runtime *rt) {
    uint64_t before, after;
    do {
        before = counters_of(rt, 0).busy;
        uint64_t begin = test_now_ns();
        WAIT_UNTIL(test_now_ns() - begin > AW_MSEC(1));
        after = counters_of(rt, 0).busy;
    } while (before != after);
}

/* Only its own timer wakes the worker. */
AW_ASYNC(int, sleeps_alone, aw_sleep nap; int i; aw_worker_counters before;) {
    AW_BEGIN;
    /* Afterwards the effects of its spawn are over. */
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(2)));
    self->before = counters_of(aw_runtime_current(), 0);
    for (self->i = 0; self->i < 5; self->i++)
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    {
        aw_worker_counters after = counters_of(aw_runtime_current(), 0);
        CHECK_GE(after.parks, self->before.parks + 5);
        CHECK_EQ(after.wakes, self->before.wakes);
    }
    AW_RETURN(0);
    AW_END;
}

BOTH(a_sleep_that_another_thread_ends_is_a_wake) {
    aw_runtime *rt = one_worker(flavour);
    CHECK_EQ(RUN(rt, AW_CALL(sleeps_alone)), 0);
    for (int i = 0; i < 10; i++) {
        gate g = GATE;
        struct through *h = aw_spawn_on(rt, through(&g));
        gate_wait(&g, 1);
        wait_until_it_sleeps(rt);
        uint64_t before = counters_of(rt, 0).wakes;
        gate_open(&g);
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        CHECK_GT(counters_of(rt, 0).wakes, before);
        aw_task_drop(h);
    }
    CHECK_LE(counters_of(rt, 0).wakes, counters_of(rt, 0).parks);
    workers_end(rt, NULL);
}

/* ---- Time ------------------------------------------------------------------------------------ */

BOTH(the_time_of_a_long_poll_is_busy) {
    uint32_t stage = 0;
    aw_runtime *rt = one_worker(flavour);
    struct holds_the_worker *h = aw_spawn_on(rt, AW_CALL(holds_the_worker, .stage = &stage));
    WAIT_UNTIL(LOAD(stage) == 1);
    uint64_t first = counters_of(rt, 0).busy, begin = test_now_ns();
    WAIT_UNTIL(test_now_ns() - begin > AW_MSEC(5));
    CHECK_GE(counters_of(rt, 0).busy - first, AW_MSEC(5)); /* also before it returns */
    STORE(stage, 2);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

BOTH(a_worker_that_sleeps_is_not_busy) {
    aw_runtime *rt = one_worker(flavour);
    wait_until_it_sleeps(rt);
    aw_task_drop(aw_spawn_on(rt, aw_sleep_for(AW_SEC(3600))));
    wait_until_it_sleeps(rt);
    workers_end(rt, NULL);
}

/* Reading the counters while the worker falls asleep or wakes up must not count sleep as work. */
BOTH(a_worker_is_not_busy_for_longer_than_it_exists) {
    uint64_t begin = test_now_ns(), busy;
    aw_runtime *rt = one_worker(flavour);
    struct rests *h = aw_spawn_on(rt, AW_CALL(rests, .n = test_scale(2000)));
    while (!aw_task_is_finished(h)) {
        busy = counters_of(rt, 0).busy;
        CHECK_LE(busy, test_now_ns() - begin);
    }
    aw_task_drop(h);
    busy = counters_of(rt, 0).busy;
    CHECK_GT(busy, 0);
    CHECK_LE(busy, test_now_ns() - begin);
    workers_end(rt, NULL);
}

/* ---- The struct may grow --------------------------------------------------------------------- */

TEST(programs_that_know_fewer_or_more_counters) {
    struct {
        aw_worker_counters c;
        uint64_t more;
    } newer = {.more = 99};
    aw_worker_counters older;
    aw_runtime *rt = one_worker(AW_MULTI_THREAD);
    CHECK_EQ(RUN(rt, rounds(3)), 0);
    memset(&older, 0xa5, sizeof older);
    CHECK_EQ(aw_runtime_counters_sized(rt, 0, &older, offsetof(aw_worker_counters, steals)), 0);
    CHECK_GE(older.polls, 3);
    CHECK_LT(older.polls, 1000);
    CHECK_EQ(older.steals, 0xa5a5a5a5a5a5a5a5);
    CHECK_EQ(aw_runtime_counters_sized(rt, 0, &newer.c, sizeof newer), 0);
    CHECK_GE(newer.c.polls, 3);
    CHECK_EQ(newer.more, 0);
    workers_end(rt, NULL);
}
