/* SPDX-License-Identifier: MIT
 *
 * What is allowed inside aw_block_in_place: the thread counts as a plain one there, and may
 * wait. */
#include <awake.h>

#include <errno.h>

#include "support/io.h"

/* A task, or a fiber, that makes one call in place. */
AW_ASYNC(int, in_task, long (*fn)(void *arg); void *arg;) {
    AW_BEGIN;
    AW_RETURN((int)aw_block_in_place(self->fn, self->arg));
    AW_END;
}

AW_FIBER(int, in_fiber, long (*fn)(void *arg); void *arg;) {
    return (int)aw_block_in_place(self->fn, self->arg);
}

static int run_in_task(aw_runtime *rt, long (*fn)(void *arg), void *arg) {
    return RUN(rt, AW_CALL(in_task, .fn = fn, .arg = arg));
}

static int run_in_fiber(aw_runtime *rt, long (*fn)(void *arg), void *arg) {
    return RUN(rt, AW_CALL(in_fiber, .fn = fn, .arg = arg));
}

/* ---- Timers ---------------------------------------------------------------------------------- */

static long sleeps(void *arg) {
    aw_runtime *rt = arg;
    CHECK_EQ(aw_runtime_current(), rt);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
    CHECK_EQ(aw_wait(aw_sleep_for(AW_MSEC(1))), 0);
    CHECK_EQ(aw_wait_for(AW_MSEC(1), aw_sleep_for(AW_SEC(3600))), -ETIMEDOUT);
    CHECK_EQ(aw_runtime_current(), rt);
    return 5;
}

ON_WORKERS(a_call_in_place_may_sleep) {
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    CHECK_EQ(run_in_task(rt, sleeps, rt), 5);
    CHECK_EQ(run_in_fiber(rt, sleeps, rt), 5);
    workers_end(rt, &m);
}

struct naps {
    aw_runtime *rt;
    uint64_t begin;
    uint32_t tasks; /* atomic: how many have ended */
};

/* The clock stays where the sleep ended, whatever other deadlines there are. */
static long sleeps_for_hours(void *arg) {
    struct naps *n = arg;
    CHECK_EQ(aw_block_on(n->rt, aw_sleep_for(AW_SEC(3600))), 0);
    CHECK_EQ(aw_now(n->rt) - n->begin, AW_SEC(3600));
    sched_yield();
    CHECK_EQ(aw_now(n->rt) - n->begin, AW_SEC(3600));
    CHECK_EQ(aw_wait(aw_sleep_for(AW_SEC(3600))), 0);
    CHECK_EQ(aw_now(n->rt) - n->begin, AW_SEC(7200));
    sched_yield();
    CHECK_EQ(aw_now(n->rt) - n->begin, AW_SEC(7200));
    return 0;
}

ON_WORKERS(a_paused_clock_goes_on_while_a_call_in_place_waits_and_only_then) {
    aw_runtime_options o = workers_options(workers, NULL, NULL);
    struct naps n = {NULL, 0, 0};
    o.paused = true;
    CHECK_EQ(aw_runtime_new(&n.rt, &o), 0);
    n.begin = aw_now(n.rt);
    struct in_task *h = aw_spawn_on(n.rt, AW_CALL(in_task, .fn = sleeps_for_hours, .arg = &n));
    /* A deadline that a wrong clock would jump to too early. */
    CHECK_EQ(aw_block_on(n.rt, aw_sleep_for(AW_SEC(7201))), 0);
    CHECK(aw_task_is_finished(h));
    CHECK_EQ(aw_block_on(n.rt, aw_task_join(h)), 0);
    CHECK_EQ(aw_task_take(h), 0);
    aw_runtime_free(n.rt);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

AW_ASYNC(int, seven, aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(100)));
    AW_RETURN(7);
    AW_END;
}

static long spawns(void *arg) {
    aw_runtime *rt = arg;
    struct seven *a = aw_spawn(AW_CALL(seven)), *b = aw_spawn(AW_CALL(seven));
    CHECK_EQ(aw_block_on(rt, aw_task_join(a)), 0);
    CHECK_EQ(aw_wait(aw_task_join(b)), 0);
    return aw_task_take(a) + aw_task_take(b);
}

static void a_task_spawned_in_place_can_be_waited_for_there(uint32_t workers) {
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    CHECK_EQ(run_in_task(rt, spawns, rt), 14);
    CHECK_EQ(run_in_fiber(rt, spawns, rt), 14);
    workers_end(rt, &m);
}

TEST(a_task_spawned_in_place_can_be_waited_for_there_on_2_workers) {
    a_task_spawned_in_place_can_be_waited_for_there(2);
}
TEST(a_task_spawned_in_place_can_be_waited_for_there_on_8_workers) {
    a_task_spawned_in_place_can_be_waited_for_there(8);
}

/* ---- Every worker ---------------------------------------------------------------------------- */

struct all_blocked {
    kept_log log;
    uint32_t in_place;
};

static long blocks_until_reported(void *arg) {
    struct all_blocked *b = arg;
    __atomic_add_fetch(&b->in_place, 1, __ATOMIC_SEQ_CST);
    while (!log_count(&b->log, "workers are in aw_block_in_place"))
        sched_yield();
    return 1;
}

ON_WORKERS(it_is_reported_that_every_worker_blocks_in_place_and_tasks_wait) {
    memory m;
    static struct all_blocked b;
    b = (struct all_blocked){.log = KEPT_LOG};
    aw_runtime *rt = workers_new(workers, &m, &b.log);
    struct in_task *calls[8];
    for (uint32_t i = 0; i < workers; i++)
        calls[i] = aw_spawn_on(rt, AW_CALL(in_task, .fn = blocks_until_reported, .arg = &b));
    while (__atomic_load_n(&b.in_place, __ATOMIC_SEQ_CST) < workers)
        sched_yield();
    struct seven *waits = aw_spawn_on(rt, AW_CALL(seven));
    for (uint32_t i = 0; i < workers; i++) {
        CHECK_EQ(aw_block_on(rt, aw_task_join(calls[i])), 0);
        CHECK_EQ(aw_task_take(calls[i]), 1);
    }
    CHECK_EQ(aw_block_on(rt, aw_task_join(waits)), 0);
    CHECK_EQ(aw_task_take(waits), 7);
    CHECK_EQ(log_count(&b.log, "workers are in aw_block_in_place"), 1);
    workers_end(rt, &m);
}

static aw_local key;

/* A future of a block_on in place has a task of its own, or none. */
AW_ASYNC(int, sees_no_local, char unused;) {
    AW_BEGIN;
    CHECK_EQ(aw_local_get(&key), NULL);
    AW_RETURN(0);
    AW_END;
}

static long looks_around(void *arg) {
    aw_runtime *rt = aw_runtime_current(), *other;
    CHECK_EQ(aw_current_task_id(), *(uint64_t *)arg);
    CHECK_STR(aw_local_get(&key), "mine");
    CHECK_EQ(aw_run(AW_CALL(sees_no_local)), 0);
    CHECK_EQ(aw_current_task_id(), *(uint64_t *)arg);
    if (aw_runtime_workers(rt)) CHECK_EQ(aw_block_on(rt, AW_CALL(sees_no_local)), 0);
    CHECK_EQ(aw_runtime_new(&other, NULL), 0);
    CHECK_EQ(aw_block_on(other, AW_CALL(sees_no_local)), 0);
    aw_runtime_free(other);
    CHECK_EQ(aw_current_task_id(), *(uint64_t *)arg);
    CHECK_EQ(aw_runtime_current(), rt);
    CHECK_EQ(aw_local_set(&key, "changed", NULL), 0);
    return 0;
}

AW_ASYNC(int, has_locals, uint64_t id;) {
    AW_BEGIN;
    self->id = aw_current_task_id();
    CHECK_EQ(aw_local_set(&key, "mine", NULL), 0);
    CHECK_EQ((int)aw_block_in_place(looks_around, &self->id), 0);
    CHECK_STR(aw_local_get(&key), "changed");
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(in_place_the_task_is_still_the_current_one) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(has_locals)), 0);
    workers_end(rt, &m);
}

static uint32_t begun;
static long until_cancelled(void *arg) {
    (void)arg;
    STORE(begun, 1);
    WAIT_UNTIL(aw_cancelled() || !LOAD(begun));
    return 0;
}

AW_FIBER(int, notices, char unused;) {
    CHECK(!aw_cancelled());
    (void)self;
    if (aw_await(aw_sleep_for(AW_SEC(3600))) == -ECANCELED)
        aw_block_in_place(until_cancelled, NULL);
    return 0;
}

ON_BOTH(a_fiber_sees_in_place_that_it_is_cancelled) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    struct notices *h = aw_spawn_on(rt, AW_CALL(notices));
    CHECK_EQ(aw_block_on(rt, rounds(3)), 0);
    aw_task_abort(h);
    aw_runtime_free(rt); /* it would never end otherwise */
    CHECK_EQ(LOAD(begun), 1);
    aw_task_drop(h);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- Input and output ------------------------------------------------------------------------ */

struct reads {
    aw_runtime *rt;
    aw_conn *from;
    uint32_t ready;
};

/* Each byte arrives after its read has begun. */
static long reads_two(void *arg) {
    struct reads *r = arg;
    char a = 0, b = 0;
    ADD(r->ready, 1);
    CHECK_EQ(aw_block_on(r->rt, aw_read(r->from, &a, 1)), 1);
    ADD(r->ready, 1);
    CHECK_EQ(aw_wait(aw_read(r->from, &b, 1)), 1);
    return a + b;
}

static void *writes_two(void *arg) {
    struct reads **r = arg;
    aw_conn *to = ((aw_conn **)arg)[1];
    for (uint32_t i = 1; i <= 2; i++) {
        WAIT_UNTIL(LOAD((*r)->ready) == i);
        usleep(2000); /* usually the read waits by then */
        char byte = (char)(10 * i);
        CHECK_EQ(write(aw_conn_fd(to), &byte, 1), 1);
    }
    return NULL;
}

static void read_in_place(struct io_setup how) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < 4; i++) {
        aw_conn *ends[2];
        io_pair(ends);
        struct reads r = {rt, ends[0], 0};
        void *arg[2] = {&r, ends[1]};
        pthread_t thread = thread_start(writes_two, arg);
        CHECK_EQ((i % 2 ? run_in_task : run_in_fiber)(rt, reads_two, &r), 30);
        thread_end(thread);
        aw_close(ends[0]);
        aw_close(ends[1]);
    }
    workers_end(rt, &m);
}

#define READS_BY(driver, n)                                                                        \
    TEST(a_call_in_place_may_read_by_##driver##_on_##n##_workers) {                                \
        read_in_place(io_setup_of(#driver, n, false));                                             \
    }                                                                                              \
    TEST(a_call_in_place_may_read_by_##driver##_with_##n##_threads_per_core) {                     \
        read_in_place(io_setup_of(#driver, n, true));                                              \
    }
READS_BY(uring, 1)
READS_BY(uring, 2)
READS_BY(uring, 8)
READS_BY(epoll, 1)
READS_BY(epoll, 8)
READS_BY(poll, 1)
READS_BY(poll, 8)

/* ---- One in another -------------------------------------------------------------------------- */

static long sleeps_elsewhere(void *arg) {
    return aw_block_on((aw_runtime *)arg, aw_sleep_for(AW_USEC(100)));
}

static long innermost(void *arg) {
    CHECK_EQ(aw_block_on((aw_runtime *)arg, aw_sleep_for(AW_USEC(100))), 0);
    return aw_wait(aw_sleep_for(AW_USEC(100)));
}

AW_ASYNC(int, blocks_again, aw_runtime *rt; long (*fn)(void *arg); aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(100)));
    /* Refused in a poll, but allowed in place. */
    CHECK_EQ(aw_block_on(self->rt, aw_sleep_for(1)), -EPERM);
    AW_RETURN((int)aw_block_in_place(self->fn, self->rt));
    AW_END;
}

static long middle(void *arg) {
    CHECK_EQ(aw_block_in_place(innermost, arg), 0);
    CHECK_EQ(aw_block_on((aw_runtime *)arg, AW_CALL(blocks_again, .rt = arg, .fn = innermost)), 0);
    CHECK_EQ(aw_run(AW_CALL(blocks_again, .rt = arg, .fn = sleeps_elsewhere)), 0);
    return 0;
}

ON_WORKERS(calls_in_place_can_be_nested) {
    kept_log log = KEPT_LOG;
    aw_runtime *rt = workers_new(workers, NULL, &log);
    CHECK_EQ(run_in_task(rt, middle, rt), 0);
    CHECK_EQ(run_in_fiber(rt, middle, rt), 0);
    aw_runtime_free(rt);
}

/* ---- On the thread that runs the runtime ----------------------------------------------------- */

static long refused(void *arg) {
    aw_runtime *rt = arg, *other;
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(1)), -EPERM);
    CHECK_EQ(aw_wait(aw_sleep_for(1)), -EPERM);
    CHECK_EQ(aw_runtime_new(&other, NULL), 0);
    CHECK_EQ(aw_block_on(other, aw_sleep_for(AW_USEC(10))), 0);
    struct seven *h = aw_spawn_on(other, AW_CALL(seven));
    CHECK_EQ(aw_block_on(other, aw_task_join(h)), 0);
    aw_task_drop(h);
    aw_runtime_free(other);
    aw_task_drop(aw_spawn(AW_CALL(seven))); /* it runs later */
    return aw_run(AW_CALL(seven));
}

TEST(a_blocked_runtime_refuses_waits_in_place_and_another_one_runs) {
    kept_log log = KEPT_LOG;
    aw_runtime *rt = new_runtime(0, NULL, &log);
    CHECK_EQ(run_in_task(rt, refused, rt), 7);
    CHECK_EQ(run_in_fiber(rt, refused, rt), 7);
    CHECK_EQ(log_count(&log, "use aw_blocking"), 4);
    aw_runtime_free(rt);
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static long awaits(void *arg) {
    (void)arg;
    return aw_await(aw_sleep_for(1));
}
static long frees(void *arg) {
    aw_runtime_free(arg);
    return 0;
}

static void await_in_place(uint32_t workers) {
    run_in_fiber(new_runtime(workers, NULL, NULL), awaits, NULL);
}
static void free_in_place(uint32_t workers) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    run_in_task(rt, frees, rt);
}

ON_BOTH(an_await_of_a_fiber_in_place_is_reported) {
    DIES(await_in_place(workers), "inside aw_block_in_place: use aw_wait there");
}

ON_BOTH(the_end_of_its_own_runtime_in_place_is_reported) {
    DIES(free_in_place(workers), "inside a blocking call of the same runtime");
}
