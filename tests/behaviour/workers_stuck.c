/* SPDX-License-Identifier: MIT
 *
 * A worker that is stuck in a poll does not delay what other workers could do: its timers and
 * the tasks that it woke. */
#include <awake.h>

#include <stdlib.h>
#include <time.h>

#include "test.h"

enum { TASKS = 1000 };

static int stop_spinning, in_poll;
static uint64_t late[2 * 2 * TASKS];
static int ended;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void note(uint64_t due) {
    uint64_t at = now();
    late[__atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST)] = at > due ? at - due : 0;
}

AW_ASYNC(int, by_timer, uint64_t due; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_until(self->due));
    note(self->due);
    AW_RETURN(0);
    AW_END;
}

static aw_notify bell[2];
static int waiting[2];

AW_ASYNC(int, by_wake, int side; uint64_t * rung; aw_notified bell;) {
    AW_BEGIN;
    __atomic_add_fetch(&waiting[self->side], 1, __ATOMIC_SEQ_CST);
    AW_AWAIT(self->bell, aw_notify_wait(&bell[self->side]));
    note(__atomic_load_n(self->rung, __ATOMIC_SEQ_CST));
    AW_RETURN(0);
    AW_END;
}

static uint64_t rung[2];

static void spin(void) {
    while (!__atomic_load_n(&stop_spinning, __ATOMIC_SEQ_CST)) {
    }
}

static void doze(void) {
    while (!__atomic_load_n(&stop_spinning, __ATOMIC_SEQ_CST))
        nanosleep(&(struct timespec){0, 50000000}, NULL);
}

/* Sets timers on its worker, wakes tasks there, and then spins in this poll. */
AW_ASYNC(int, stuck, int side; int i; aw_sleep nap;) {
    AW_BEGIN;
    for (self->i = 0; self->i < TASKS; self->i++)
        aw_task_drop(aw_spawn(AW_CALL(by_wake, .side = self->side, .rung = &rung[self->side])));
    while (__atomic_load_n(&waiting[self->side], __ATOMIC_SEQ_CST) < TASKS)
        AW_YIELD;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(5))); /* the last of them waits by now */
    for (self->i = 0; self->i < TASKS; self->i++)
        aw_task_drop(aw_spawn(
            AW_CALL(by_timer, .due = now() + AW_MSEC(100) + AW_USEC(10) * (uint64_t)self->i)));
    for (self->i = 0; self->i < 50; self->i++)
        AW_YIELD;
    __atomic_store_n(&rung[self->side], now(), __ATOMIC_SEQ_CST);
    aw_notify_waiters(&bell[self->side]);
    __atomic_add_fetch(&in_poll, 1, __ATOMIC_SEQ_CST);
    self->side ? spin() : doze();
    AW_RETURN(0);
    AW_END;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* How late 99 of 100 were, at most. */
static uint64_t lateness(void) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = AW_MULTI_THREAD;
    o.workers = 4;
    ended = stop_spinning = waiting[0] = waiting[1] = 0;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    struct stuck *a = aw_spawn_on(rt, AW_CALL(stuck, .side = 0));
    struct stuck *b = aw_spawn_on(rt, AW_CALL(stuck, .side = 1));
    uint64_t begin = now();
    while (__atomic_load_n(&ended, __ATOMIC_SEQ_CST) < 4 * TASKS && now() - begin < AW_SEC(10))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    int n = __atomic_load_n(&ended, __ATOMIC_SEQ_CST);
    __atomic_store_n(&stop_spinning, 1, __ATOMIC_SEQ_CST);
    CHECK_EQ(aw_block_on(rt, aw_task_join(a)), 0);
    CHECK_EQ(aw_block_on(rt, aw_task_join(b)), 0);
    aw_task_drop(a);
    aw_task_drop(b);
    uint64_t takeovers = 0;
    for (uint32_t i = 0; i < o.workers; i++) {
        aw_worker_counters c;
        CHECK_EQ(aw_runtime_counters(rt, i, &c), 0);
        takeovers += c.takeovers;
    }
    CHECK_GE(takeovers, 2);
    aw_runtime_free(rt);
    CHECK_EQ(n, 4 * TASKS);
    qsort(late, 4 * TASKS, sizeof *late, by_value);
    return late[4 * TASKS * 99 / 100];
}

/* The machine may be busy for a moment: the best of several attempts counts. */
TEST_LIMIT(two_stuck_workers_of_four_delay_neither_timers_nor_woken_tasks_timing, 60) {
    uint64_t limit = test_under_sanitizer() || test_under_valgrind() ? AW_SEC(1) : AW_MSEC(20);
    uint64_t best = AW_FOREVER;
    for (int i = 0; i < 5 && best >= limit; i++) {
        uint64_t p99 = lateness();
        if (p99 < best) best = p99;
    }
    CHECK_LT(best, limit);
}

static long block_a_while(void *arg) {
    __atomic_add_fetch(&in_poll, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return (long)(intptr_t)arg;
}

AW_ASYNC(int, quick) {
    AW_BEGIN;
    note(now());
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, blocks_in_place, long result;) {
    AW_BEGIN;
    aw_task_drop(aw_spawn(AW_CALL(quick))); /* it is in the LIFO slot */
    self->result = aw_block_in_place(block_a_while, (void *)7);
    AW_RETURN(self->result == 7 ? 0 : -1);
    AW_END;
}

TEST(a_worker_that_blocks_in_place_hands_its_queued_tasks_to_others) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = AW_MULTI_THREAD;
    o.workers = 2;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    struct blocks_in_place *h = aw_spawn_on(rt, AW_CALL(blocks_in_place));
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), 0);
    CHECK_EQ(h->out, 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
}
