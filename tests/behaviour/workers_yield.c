/* SPDX-License-Identifier: MIT
 *
 * What runs before a task that yields: ready tasks, due timers, and completed input and output;
 * on one thread, and on the worker that runs it. And checking for them costs little. */
#include "support/io.h"

enum { COUNT = 10 };

static uint32_t waiting, ran, advanced, stopped;

static aw_runtime *one_thread(aw_flavour flavour, bool paused) {
    aw_runtime_options o = workers_options(1, NULL, NULL);
    aw_runtime *rt;
    o.flavour = flavour;
    o.paused = paused;
    waiting = ran = advanced = stopped = 0;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

/* Not checked when the worker was stuck in a poll for long: then the monitor may be about to
 * wake them. */
static void check_all_ran(void) {
    aw_worker_counters c = {0};
    aw_runtime_counters(aw_runtime_current(), 0, &c);
    if (c.takeovers == 0) CHECK_EQ(LOAD(ran), 2 * COUNT);
}

/* The same for each kind: a function, or a fiber. */
#define EACH_KIND(call) call(async) call(fiber)

/* ---- Timers ---------------------------------------------------------------------------------- */

AW_ASYNC(int, sleep_async, aw_sleep sleep;) {
    AW_BEGIN;
    ADD(waiting, 1);
    AW_AWAIT(self->sleep, aw_sleep_for(AW_MSEC(1)));
    ADD(ran, 1);
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, sleep_fiber) {
    ADD(waiting, 1);
    CHECK_EQ(aw_await(aw_sleep_for(AW_MSEC(1))), 0);
    ADD(ran, 1);
    return 0;
}

/* Advances the clock past the timers, yields once, and they have run. */
AW_ASYNC(int, yield_async, aw_runtime *rt;) {
    AW_BEGIN;
    while (LOAD(waiting) < 2 * COUNT)
        AW_YIELD;
    CHECK_EQ(aw_clock_advance(self->rt, AW_MSEC(3)), 0);
    CHECK_EQ(LOAD(ran), 0);
    STORE(advanced, 1);
    AW_YIELD;
    check_all_ran();
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, yield_fiber, aw_runtime *rt;) {
    while (LOAD(waiting) < 2 * COUNT)
        CHECK_EQ(aw_fiber_yield(), 0);
    CHECK_EQ(aw_clock_advance(self->rt, AW_MSEC(3)), 0);
    CHECK_EQ(LOAD(ran), 0);
    STORE(advanced, 1);
    CHECK_EQ(aw_fiber_yield(), 0);
    check_all_ran();
    return 0;
}

static void spawn_sleepers(aw_runtime *rt) {
    for (int i = 0; i < COUNT; i++) {
        aw_task_drop(aw_spawn_on(rt, AW_CALL(sleep_async)));
        aw_task_drop(aw_spawn_on(rt, AW_CALL(sleep_fiber)));
    }
}

#define TIMERS_FIRST(kind)                                                                         \
    ON_FLAVOURS(timers_that_are_due_come_before_a_yield_of_##kind) {                               \
        aw_runtime *rt = one_thread(flavour, true);                                                \
        spawn_sleepers(rt);                                                                        \
        CHECK_EQ(RUN(rt, AW_CALL(yield_##kind, .rt = rt)), 0);                                     \
        aw_runtime_free(rt);                                                                       \
    }
EACH_KIND(TIMERS_FIRST)

/* Holds for each of many, whatever their order. */
AW_ASYNC(int, go_on_async, bool before;) {
    AW_BEGIN;
    while (!LOAD(stopped)) {
        self->before = LOAD(advanced);
        AW_YIELD;
        if (self->before) check_all_ran();
    }
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, go_on_fiber) {
    while (!LOAD(stopped)) {
        bool before = LOAD(advanced);
        if (aw_fiber_yield()) break;
        if (before) check_all_ran();
    }
    return 0;
}

#define TIMERS_BEFORE_MANY(kind)                                                                   \
    ON_FLAVOURS(timers_that_are_due_come_before_many_that_yield_with_one_of_##kind) {              \
        aw_runtime *rt = one_thread(flavour, true);                                                \
        spawn_sleepers(rt);                                                                        \
        for (int i = 0; i < COUNT; i++) {                                                          \
            aw_task_drop(aw_spawn_on(rt, AW_CALL(go_on_async)));                                   \
            aw_task_drop(aw_spawn_on(rt, AW_CALL(go_on_fiber)));                                   \
        }                                                                                          \
        CHECK_EQ(RUN(rt, AW_CALL(yield_##kind, .rt = rt)), 0);                                     \
        STORE(stopped, 1);                                                                         \
        aw_runtime_free(rt);                                                                       \
    }
EACH_KIND(TIMERS_BEFORE_MANY)

/* ---- Tasks that are ready -------------------------------------------------------------------- */

static aw_notify bell;

AW_ASYNC(int, wait_async, aw_notified wait;) {
    AW_BEGIN;
    ADD(waiting, 1);
    AW_AWAIT(self->wait, aw_notify_wait(&bell));
    ADD(ran, 1);
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, wait_fiber) {
    ADD(waiting, 1);
    CHECK_EQ(aw_await(aw_notify_wait(&bell)), 0);
    ADD(ran, 1);
    return 0;
}

/* Wakes one, or all: the task woken last may run first, however often. */
AW_ASYNC(int, wake_async, uint32_t woken;) {
    AW_BEGIN;
    while (LOAD(waiting) < 2 * COUNT)
        AW_YIELD;
    while (self->woken < COUNT) {
        aw_notify_one(&bell);
        self->woken++;
        AW_YIELD;
        CHECK_EQ(LOAD(ran), self->woken);
    }
    aw_notify_waiters(&bell);
    AW_YIELD;
    check_all_ran();
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, wake_fiber) {
    while (LOAD(waiting) < 2 * COUNT)
        CHECK_EQ(aw_fiber_yield(), 0);
    for (uint32_t woken = 0; woken < COUNT;) {
        aw_notify_one(&bell);
        woken++;
        CHECK_EQ(aw_fiber_yield(), 0);
        CHECK_EQ(LOAD(ran), woken);
    }
    aw_notify_waiters(&bell);
    CHECK_EQ(aw_fiber_yield(), 0);
    check_all_ran();
    return 0;
}

#define READY_FIRST(kind)                                                                          \
    ON_FLAVOURS(tasks_that_were_woken_come_before_a_yield_of_##kind) {                             \
        aw_runtime *rt = one_thread(flavour, false);                                               \
        for (int i = 0; i < COUNT; i++) {                                                          \
            aw_task_drop(aw_spawn_on(rt, AW_CALL(wait_async)));                                    \
            aw_task_drop(aw_spawn_on(rt, AW_CALL(wait_fiber)));                                    \
        }                                                                                          \
        CHECK_EQ(RUN(rt, AW_CALL(wake_##kind)), 0);                                                \
        aw_runtime_free(rt);                                                                       \
    }
EACH_KIND(READY_FIRST)

/* Tasks that wake each other for ever do not starve it. */
typedef struct table {
    aw_notify side[2];
} table;

AW_ASYNC(int, player_async, table *table; int side; aw_notified wait;) {
    AW_BEGIN;
    while (!LOAD(stopped)) {
        aw_notify_one(&self->table->side[1 - self->side]);
        AW_AWAIT(self->wait, aw_notify_wait(&self->table->side[self->side]));
    }
    aw_notify_one(&self->table->side[1 - self->side]);
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, player_fiber, table *table; int side;) {
    while (!LOAD(stopped)) {
        aw_notify_one(&self->table->side[1 - self->side]);
        if (aw_await(aw_notify_wait(&self->table->side[self->side]))) break;
    }
    aw_notify_one(&self->table->side[1 - self->side]);
    return 0;
}

AW_FIBER(int, rounds_fiber, int count;) {
    for (int i = 0; i < self->count; i++)
        CHECK_EQ(aw_fiber_yield(), 0);
    return 0;
}

ON_FLAVOURS(tasks_that_wake_each_other_do_not_keep_one_that_yields_from_running) {
    static table tables[2 * COUNT];
    aw_runtime *rt = one_thread(flavour, false);
    for (int i = 0; i < 2 * COUNT; i++) {
        aw_task_drop(
            aw_spawn_on(rt, AW_CALL(player_async, .table = &tables[i / 2], .side = i % 2)));
        aw_task_drop(
            aw_spawn_on(rt, AW_CALL(player_fiber, .table = &tables[COUNT + i / 2], .side = i % 2)));
    }
    CHECK_EQ(RUN(rt, rounds(test_scale(1000))), 0);
    CHECK_EQ(RUN(rt, AW_CALL(rounds_fiber, .count = test_scale(1000))), 0);
    STORE(stopped, 1);
    aw_runtime_free(rt);
}

/* ---- Input and output ------------------------------------------------------------------------ */

AW_ASYNC(int, read_async, aw_conn *from; char byte; aw_io io;) {
    AW_BEGIN;
    ADD(waiting, 1);
    AW_AWAIT(self->io, aw_read(self->from, &self->byte, 1));
    CHECK_EQ(self->io.out, 1);
    ADD(ran, 1);
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, read_fiber, aw_conn *from;) {
    char byte;
    ADD(waiting, 1);
    CHECK_EQ(aw_await(aw_read(self->from, &byte, 1)), 1);
    ADD(ran, 1);
    return 0;
}

struct pairs {
    aw_conn *ends[2 * COUNT][2];
};

static void write_each(struct pairs *p) {
    for (int i = 0; i < 2 * COUNT; i++)
        CHECK_EQ(write(aw_conn_fd(p->ends[i][1]), "x", 1), 1);
}

AW_ASYNC(int, write_async, struct pairs *pairs;) {
    AW_BEGIN;
    while (LOAD(waiting) < 2 * COUNT)
        AW_YIELD;
    write_each(self->pairs);
    CHECK_EQ(LOAD(ran), 0);
    AW_YIELD;
    check_all_ran();
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, write_fiber, struct pairs *pairs;) {
    while (LOAD(waiting) < 2 * COUNT)
        CHECK_EQ(aw_fiber_yield(), 0);
    write_each(self->pairs);
    CHECK_EQ(LOAD(ran), 0);
    CHECK_EQ(aw_fiber_yield(), 0);
    check_all_ran();
    return 0;
}

static aw_runtime *one_thread_by(struct io_setup how) {
    how.workers = how.workers != 0;
    waiting = ran = 0;
    return io_runtime(how, NULL, NULL);
}

#define BYTES_FIRST(kind)                                                                          \
    ON_DRIVERS(bytes_that_have_come_come_before_a_yield_of_##kind) {                               \
        struct pairs pairs;                                                                        \
        aw_runtime *rt = one_thread_by(how);                                                       \
        for (int i = 0; i < COUNT; i++) {                                                          \
            io_pair(pairs.ends[2 * i]);                                                            \
            io_pair(pairs.ends[2 * i + 1]);                                                        \
            aw_task_drop(aw_spawn_on(rt, AW_CALL(read_async, .from = pairs.ends[2 * i][0])));      \
            aw_task_drop(aw_spawn_on(rt, AW_CALL(read_fiber, .from = pairs.ends[2 * i + 1][0])));  \
        }                                                                                          \
        CHECK_EQ(RUN(rt, AW_CALL(write_##kind, .pairs = &pairs)), 0);                              \
        for (int i = 0; i < 2 * COUNT; i++) {                                                      \
            aw_close(pairs.ends[i][0]);                                                            \
            aw_close(pairs.ends[i][1]);                                                            \
        }                                                                                          \
        aw_runtime_free(rt);                                                                       \
    }
EACH_KIND(BYTES_FIRST)

/* ---- Cost ------------------------------------------------------------------------------------ */

enum { YIELDS = 10000, SELDOM = YIELDS / 20 };

static uint64_t calls_of(const aw_runtime *rt) {
    aw_io_counters c;
    aw_runtime_io(rt, &c);
    return c.calls;
}

static void read_one(aw_runtime *rt, aw_conn *ends[2]) {
    struct read_async *h = aw_spawn_on(rt, AW_CALL(read_async, .from = ends[0]));
    WAIT_UNTIL(workers_sleep(rt->pool) && LOAD(waiting) == 1);
    CHECK_EQ(write(aw_conn_fd(ends[1]), "x", 1), 1);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
}

/* System calls of consecutive yields by one task, when no descriptor is waited for any more. */
static void check_calls_without_descriptors(struct io_setup how) {
    aw_conn *ends[2];
    aw_runtime *rt = one_thread_by(how);
    io_pair(ends);
    read_one(rt, ends);
    aw_close(ends[0]);
    aw_close(ends[1]);
    uint64_t before = calls_of(rt);
    CHECK_EQ(RUN(rt, rounds(YIELDS)), 0);
    CHECK_LT(calls_of(rt) - before, SELDOM);
    aw_runtime_free(rt);
}

/* System calls of as many yields by a hundred tasks, while one waits for a descriptor. */
AW_ASYNC(int, many_rounds, int i; struct rounds * tasks[100]; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < 100; i++)
        self->tasks[i] = aw_spawn(rounds(YIELDS / 100));
    for (; self->i < 100; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        aw_task_drop(self->tasks[self->i]);
    }
    AW_RETURN(0);
    AW_END;
}

static void check_calls_of_many(struct io_setup how) {
    aw_conn *ends[2];
    aw_runtime *rt = one_thread_by(how);
    io_pair(ends);
    struct read_async *h = aw_spawn_on(rt, AW_CALL(read_async, .from = ends[0]));
    WAIT_UNTIL(workers_sleep(rt->pool) && LOAD(waiting) == 1);
    uint64_t before = calls_of(rt);
    CHECK_EQ(RUN(rt, AW_CALL(many_rounds)), 0);
    CHECK_LT(calls_of(rt) - before, SELDOM);
    CHECK_EQ(write(aw_conn_fd(ends[1]), "x", 1), 1);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_close(ends[0]);
    aw_close(ends[1]);
    aw_runtime_free(rt);
}

/* Rings are checked without a system call. */
static void check_calls_of_one(struct io_setup how) {
    aw_conn *ends[2];
    aw_runtime *rt = one_thread_by(how);
    io_pair(ends);
    struct read_async *h = aw_spawn_on(rt, AW_CALL(read_async, .from = ends[0]));
    WAIT_UNTIL(workers_sleep(rt->pool) && LOAD(waiting) == 1);
    uint64_t before = calls_of(rt);
    CHECK_EQ(RUN(rt, rounds(YIELDS)), 0);
    CHECK_LT(calls_of(rt) - before, SELDOM);
    aw_task_abort(h);
    CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
    aw_task_drop(h);
    aw_close(ends[0]);
    aw_close(ends[1]);
    aw_runtime_free(rt);
}

#define ON_ONE_WORKER(name, driver, check)                                                         \
    TEST(name##_by_##driver) {                                                                     \
        check(io_setup_of(#driver, 1, false));                                                     \
    }                                                                                              \
    TEST(name##_by_##driver##_with_a_thread_per_core) {                                            \
        check(io_setup_of(#driver, 1, true));                                                      \
    }
#define ON_ONE_WORKER_EACH(name, check)                                                            \
    ON_ONE_WORKER(name, uring, check)                                                              \
    ON_ONE_WORKER(name, epoll, check)                                                              \
    ON_ONE_WORKER(name, poll, check)

ON_ONE_WORKER_EACH(a_yield_makes_no_call_without_descriptors, check_calls_without_descriptors)
ON_ONE_WORKER_EACH(many_yields_share_one_check_of_descriptors, check_calls_of_many)
ON_ONE_WORKER(a_yield_makes_no_call_while_an_operation_is_in_flight, uring, check_calls_of_one)
