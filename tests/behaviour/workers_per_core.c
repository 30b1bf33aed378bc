/* SPDX-License-Identifier: MIT
 *
 * Workers that do not steal from each other: a task stays where it is spawned, whichever thread
 * wakes it; each worker is bound to a processor; and a task can be spawned on a worker by its
 * number. */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/workers.h"

static aw_runtime_options per_core_options(uint32_t workers, memory *m) {
    aw_runtime_options o = workers_options(workers, m, NULL);
    o.flavour = AW_THREAD_PER_CORE;
    return o;
}

static aw_runtime *per_core(uint32_t workers, memory *m) {
    if (m) memory_init(m);
    aw_runtime_options o = per_core_options(workers, m);
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_runtime_workers(rt), workers);
    return rt;
}

static int tid(void) {
    return (int)syscall(SYS_gettid);
}

/* ---- Staying --------------------------------------------------------------------------------- */

/* Its descendants run on the same worker. */
AW_ASYNC(int, family, int depth, here, i; aw_sleep nap; aw_yield pause; struct family * children[3];
         aw_task_join_future join; gate * gate; struct through through;) {
    AW_BEGIN;
    self->here = tid();
    for (self->i = 0; self->depth && self->i < 3; self->i++)
        self->children[self->i] = aw_spawn(
            AW_CALL(family, .depth = self->depth - 1, .gate = self->gate + 1 + self->i));
    AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(100)));
    CHECK_EQ(tid(), self->here);
    for (self->i = 0; self->i < 10; self->i++) {
        AW_AWAIT(self->pause, aw_yield_now());
        CHECK_EQ(tid(), self->here);
    }
    AW_AWAIT(self->through, through(self->gate)); /* woken by an outside thread */
    CHECK_EQ(tid(), self->here);
    for (self->i = 0; self->depth && self->i < 3; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->children[self->i]));
        CHECK_EQ(self->join.out, 0);
        CHECK_EQ(aw_task_take(self->children[self->i]), self->here);
        CHECK_EQ(tid(), self->here);
    }
    AW_RETURN(self->here);
    AW_END;
}

ON_WORKERS(a_task_stays_where_it_is_spawned) {
    enum { FAMILIES = 16 };
    static gate gates[FAMILIES][4];
    memory m;
    aw_runtime *rt = per_core(workers, &m);
    struct family *h[FAMILIES];
    for (int i = 0; i < FAMILIES; i++) {
        for (int k = 0; k < 4; k++)
            gates[i][k] = (gate)GATE;
        h[i] = aw_spawn_on(rt, AW_CALL(family, .depth = 1, .gate = gates[i]));
    }
    for (int k = 3; k >= 0; k--)
        for (int i = 0; i < FAMILIES; i++) {
            gate_wait(&gates[i][k], 1);
            gate_open(&gates[i][k]);
        }
    for (int i = 0; i < FAMILIES; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        aw_task_drop(h[i]);
    }
    CHECK_EQ(COUNTER_SUM(rt, steals), 0);
    workers_end(rt, &m);
}

AW_ASYNC(int, where, char unused;) {
    AW_BEGIN;
    AW_RETURN(tid());
    AW_END;
}

ON_WORKERS(tasks_from_outside_are_distributed_round_robin) {
    enum { EACH = 5 };
    aw_runtime *rt = per_core(workers, NULL);
    int count = (int)workers * EACH, tids[8 * EACH];
    for (int i = 0; i < count; i++)
        tids[i] = RUN(rt, AW_CALL(where));
    for (int i = (int)workers; i < count; i++)
        CHECK_EQ(tids[i], tids[i - (int)workers]);
    for (uint32_t i = 1; i < workers; i++)
        for (uint32_t k = 0; k < i; k++)
            CHECK_NE(tids[i], tids[k]);
    workers_end(rt, NULL);
}

/* ---- On a chosen worker ---------------------------------------------------------------------- */

AW_ASYNC(int, stays_there, int i; aw_yield pause; aw_sleep nap; int here;) {
    AW_BEGIN;
    self->here = tid();
    for (self->i = 0; self->i < 20; self->i++) {
        AW_AWAIT(self->pause, aw_yield_now());
        CHECK_EQ(tid(), self->here);
    }
    AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(50)));
    CHECK_EQ(tid(), self->here);
    AW_RETURN(self->here);
    AW_END;
}

static void spawn_at_each(aw_runtime *rt, uint32_t workers) {
    enum { EACH = 4 };
    struct stays_there *h[8][EACH];
    int tids[8];
    for (int k = 0; k < EACH; k++)
        for (uint32_t i = 0; i < workers; i++)
            h[i][k] = aw_spawn_at(rt, i, AW_CALL(stays_there));
    for (uint32_t i = 0; i < workers; i++) {
        for (int k = 0; k < EACH; k++) {
            CHECK_EQ(JOIN_STATUS(rt, h[i][k]), 0);
            int t = aw_task_take(h[i][k]);
            if (k) CHECK_EQ(t, tids[i]);
            tids[i] = t;
        }
        for (uint32_t k = 0; k < i; k++)
            CHECK_NE(tids[i], tids[k]);
        CHECK_GE(counters_of(rt, i).polls, EACH * 20);
    }
}

ON_WORKERS(a_task_can_be_spawned_on_a_chosen_worker) {
    aw_runtime *rt = per_core(workers, NULL);
    spawn_at_each(rt, workers);
    workers_end(rt, NULL);
}

ON_WORKERS(a_task_can_be_spawned_on_a_chosen_worker_that_others_steal_from) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    spawn_at_each(rt, workers);
    workers_end(rt, NULL);
}

AW_ASYNC(int, sends_for, uint32_t workers; uint32_t i; struct where * h;
         aw_task_join_future join;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->workers; self->i++) {
        self->h = aw_spawn_at(NULL, self->i, AW_CALL(where));
        AW_AWAIT(self->join, aw_task_join(self->h));
        CHECK_EQ(self->join.out, 0);
        CHECK_EQ(aw_task_take(self->h) == tid(), self->i == 0);
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_worker_can_spawn_on_another) {
    aw_runtime *rt = per_core(workers, NULL);
    struct sends_for *h = aw_spawn_at(rt, 0, AW_CALL(sends_for, .workers = workers));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

static void check_refused(aw_runtime *rt, uint32_t worker) {
    gate g = GATE;
    struct through *h = aw_spawn_at(rt, worker, through(&g));
    CHECK_EQ(aw_task_error(h), -EINVAL);
    CHECK_EQ(g.cancelled, 1); /* the unstarted future is released */
    CHECK_EQ(JOIN_STATUS(rt, h), -EINVAL);
    aw_task_drop(h);
}

TEST(a_worker_that_does_not_exist_is_refused) {
    static const aw_flavour flavours[] = {AW_MULTI_THREAD, AW_THREAD_PER_CORE};
    for (int i = 0; i < 2; i++) {
        aw_runtime_options o = per_core_options(3, NULL);
        aw_runtime *rt;
        o.flavour = flavours[i];
        CHECK_EQ(aw_runtime_new(&rt, &o), 0);
        check_refused(rt, 3);
        check_refused(rt, 65535);
        check_refused(rt, 65536);
        check_refused(rt, UINT32_MAX);
        aw_runtime_free(rt);
    }
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    check_refused(rt, 0);
    check_refused(rt, UINT32_MAX);
    aw_runtime_free(rt);
}

/* ---- Processors ------------------------------------------------------------------------------ */

struct affinity {
    aw_future future;
    int out;
    cpu_set_t *set;
};
static aw_poll affinity_poll(aw_future *self, aw_cx *cx) {
    (void)cx;
    struct affinity *a = (struct affinity *)self;
    a->out = sched_getaffinity(0, sizeof *a->set, a->set);
    return AW_READY;
}
static const aw_future_type affinity_type = {AW_TYPE_OF(struct affinity, "affinity"),
                                             .poll = affinity_poll};

static long affinity_of_call(void *set) {
    return sched_getaffinity(0, sizeof(cpu_set_t), set);
}

/* The i-th processor of a set. */
static int processor(const cpu_set_t *set, int i) {
    for (int n = 0;; n++)
        if (CPU_ISSET((size_t)n, set) && i-- == 0) return n;
}

ON_WORKERS(each_worker_is_bound_to_one_of_our_processors) {
    cpu_set_t all, one;
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    aw_runtime *rt = per_core(workers, NULL);
    for (int i = 0; i < (int)workers; i++) {
        struct affinity *h = aw_spawn_at(
            rt, (uint32_t)i, (struct affinity){AW_FUTURE_INIT(&affinity_type), 0, &one});
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        CHECK_EQ(aw_task_take(h), 0);
        CHECK_EQ(CPU_COUNT(&one), 1);
        CHECK(CPU_ISSET((size_t)processor(&all, i % CPU_COUNT(&all)), &one));
    }
    workers_end(rt, NULL);
}

/* Also when a worker starts their thread. */
TEST(blocking_calls_are_not_bound) {
    cpu_set_t all, seen;
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) SKIP("one processor is all there is");
    aw_runtime *rt = per_core(2, NULL);
    CHECK_EQ(RUN(rt, aw_blocking(affinity_of_call, &seen)), 0);
    CHECK(CPU_EQUAL(&all, &seen));
    workers_end(rt, NULL);
}

TEST(workers_that_steal_are_not_bound) {
    cpu_set_t all, seen;
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) SKIP("one processor is all there is");
    aw_runtime *rt = workers_new(2, NULL, NULL);
    CHECK_EQ(RUN(rt, (struct affinity){AW_FUTURE_INIT(&affinity_type), 0, &seen}), 0);
    CHECK(CPU_EQUAL(&all, &seen));
    workers_end(rt, NULL);
}

static uint32_t infos;
static void count_infos(void *data, aw_log_level level, const char *message) {
    (void)data;
    CHECK_EQ(level, AW_LOG_INFO);
    CHECK_CONTAINS(message, "not bound");
    ADD(infos, 1);
}

static bool forbid_affinity(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_sched_setaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof program[0], program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(workers_that_cannot_be_bound_run_all_the_same) {
    aw_runtime_options o = per_core_options(3, NULL);
    aw_runtime *rt;
    if (!forbid_affinity()) SKIP("there is no seccomp here");
    o.log = count_infos;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    spawn_at_each(rt, 3);
    aw_runtime_free(rt);
    CHECK_EQ(LOAD(infos), 3);
}

/* ---- Stuck ----------------------------------------------------------------------------------- */

static uint32_t unstuck;
AW_ASYNC(int, is_stuck, uint32_t *stuck;) {
    AW_BEGIN;
    ADD(*self->stuck, 1);
    WAIT_UNTIL(LOAD(unstuck));
    AW_RETURN(0);
    AW_END;
}

/* No other worker takes its tasks. They run when it is free again. */
TEST(the_tasks_of_a_stuck_worker_wait_and_the_others_go_on) {
    uint32_t stuck = 0;
    aw_runtime *rt = per_core(2, NULL);
    struct is_stuck *s = aw_spawn_at(rt, 0, AW_CALL(is_stuck, .stuck = &stuck));
    WAIT_UNTIL(LOAD(stuck));
    struct where *waits = aw_spawn_at(rt, 0, AW_CALL(where));
    struct stays_there *goes_on = aw_spawn_at(rt, 1, AW_CALL(stays_there));
    CHECK_EQ(JOIN_STATUS(rt, goes_on), 0);
    WAIT_UNTIL(counters_of(rt, 0).takeovers >= 2); /* noticed, but there is nothing to take over */
    CHECK(!aw_task_is_finished(waits));
    STORE(unstuck, 1);
    CHECK_EQ(JOIN_STATUS(rt, s), 0);
    CHECK_EQ(JOIN_STATUS(rt, waits), 0);
    aw_task_drop(s);
    aw_task_drop(waits);
    aw_task_drop(goes_on);
    workers_end(rt, NULL);
}

/* ---- What all flavours detect ---------------------------------------------------------------- */

AW_ASYNC(int, sleeps_long, aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(3600)));
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_paused_clock_jumps) {
    aw_runtime_options o = per_core_options(workers, NULL);
    aw_runtime *rt;
    o.paused = true;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    for (uint32_t i = 0; i < workers; i++) {
        struct sleeps_long *h = aw_spawn_at(rt, i, AW_CALL(sleeps_long));
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        aw_task_drop(h);
    }
    workers_end(rt, NULL);
}

/* ---- The end --------------------------------------------------------------------------------- */

AW_ASYNC(int, breeds, uint32_t *spawned, *ended; uint32_t workers, children; struct rounds pause;) {
    AW_BEGIN;
    while (self->children--) {
        aw_task_drop(aw_spawn_at(NULL, self->children % self->workers,
                                 AW_CALL(breeds, .spawned = self->spawned, .ended = self->ended,
                                         .workers = self->workers, .children = 0)));
        ADD(*self->spawned, 1);
        AW_AWAIT(self->pause, rounds(2));
    }
    AW_RETURN(0);
    AW_FINALLY;
    ADD(*self->ended, 1);
    AW_END;
}

ON_WORKERS(all_tasks_are_gone_with_the_runtime) {
    for (int i = 0; i < test_scale(20); i++) {
        uint32_t spawned = 1, ended = 0;
        memory m;
        aw_runtime *rt = per_core(workers, &m);
        aw_task_drop(aw_spawn_on(rt, AW_CALL(breeds, .spawned = &spawned, .ended = &ended,
                                             .workers = workers, .children = 100000)));
        WAIT_UNTIL(LOAD(spawned) > 50);
        workers_end(rt, &m);
        CHECK_EQ(spawned, ended);
    }
}
