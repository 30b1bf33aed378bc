/* SPDX-License-Identifier: MIT
 *
 * What a runtime with workers detects when it is quiescent: that a paused clock may jump, that
 * nothing can run any more; and its reports about tasks. */
#include <awake.h>

#include <errno.h>
#include <string.h>

#include "support/workers.h"

/* ---- Virtual time ---------------------------------------------------------------------------- */

static aw_runtime *paused_workers(uint32_t workers, memory *m) {
    aw_runtime_options o = workers_options(workers, m, NULL);
    aw_runtime *rt;
    if (m) memory_init(m);
    o.paused = true;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

AW_ASYNC(int, naps, int n; uint64_t each; int i; aw_sleep nap;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->n; self->i++)
        AW_AWAIT(self->nap, aw_sleep_for(self->each));
    AW_RETURN(self->i);
    AW_END;
}

ON_WORKERS(a_paused_clock_jumps_when_all_threads_sleep) {
    memory m;
    aw_runtime *rt = paused_workers(workers, &m);
    struct naps *h[20];
    uint64_t begin = aw_now(rt);
    for (int i = 0; i < 20; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(naps, .n = 50, .each = AW_SEC(1 + i)));
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(aw_block_on(rt, aw_task_join(h[i])), 0);
        CHECK_EQ(aw_task_take(h[i]), 50);
    }
    CHECK_EQ(aw_now(rt) - begin, AW_SEC(1000));
    workers_end(rt, &m);
}

ON_WORKERS(a_sleep_of_the_main_future_counts_too) {
    aw_runtime *rt = paused_workers(workers, NULL);
    uint64_t begin = aw_now(rt);
    struct naps *h = aw_spawn_on(rt, AW_CALL(naps, .n = 10, .each = AW_SEC(1)));
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(5500))), 0);
    CHECK_EQ(aw_now(rt) - begin, AW_MSEC(5500));
    CHECK(!aw_task_is_finished(h));
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), 0);
    CHECK_EQ(aw_now(rt) - begin, AW_SEC(10));
    aw_task_drop(h);
    workers_end(rt, NULL);
}

static aw_notify bell;

static void *ring_when_all_sleep(void *arg) {
    WAIT_UNTIL(all_sleep(arg, 1));
    aw_notify_one(&bell);
    aw_runtime_unhold(arg);
    return NULL;
}

ON_WORKERS(a_hold_stops_the_jumps) {
    aw_runtime *rt = paused_workers(workers, NULL);
    pthread_t thread;
    uint64_t begin = aw_now(rt);
    struct naps *h = aw_spawn_on(rt, AW_CALL(naps, .n = 1, .each = AW_SEC(1)));
    aw_runtime_hold(rt);
    CHECK_EQ(pthread_create(&thread, NULL, ring_when_all_sleep, rt), 0);
    CHECK_EQ(aw_block_on(rt, aw_notify_wait(&bell)), 0);
    CHECK(!aw_task_is_finished(h)); /* it cannot jump either while this thread is awake */
    CHECK_EQ(aw_now(rt), begin);
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), 0);
    CHECK_EQ(aw_now(rt) - begin, AW_SEC(1));
    pthread_join(thread, NULL);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

static long wait_until_all_sleep(void *arg) {
    WAIT_UNTIL(all_sleep(arg, 1));
    return (long)aw_now(arg);
}

ON_WORKERS(a_blocking_call_holds_the_clock) {
    aw_runtime *rt = paused_workers(workers, NULL);
    uint64_t begin = aw_now(rt);
    struct naps *h = aw_spawn_on(rt, AW_CALL(naps, .n = 1, .each = AW_SEC(1)));
    CHECK_EQ(aw_block_on(rt, aw_blocking(wait_until_all_sleep, rt)), (long)begin);
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), 0);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

AW_ASYNC(int, advances, uint64_t begin; struct naps * h; aw_task_join_future join;) {
    AW_BEGIN;
    self->begin = aw_now(NULL);
    self->h = aw_spawn(AW_CALL(naps, .n = 1, .each = AW_SEC(60)));
    AW_YIELD;
    CHECK_EQ(aw_clock_advance(aw_runtime_current(), AW_SEC(59)), 0);
    CHECK_EQ(aw_now(NULL) - self->begin, AW_SEC(59));
    AW_AWAIT(self->join, aw_task_join(self->h));
    CHECK_EQ(self->join.out, 0);
    aw_task_drop(self->h);
    CHECK_GE(aw_now(NULL) - self->begin, AW_SEC(60));
    CHECK_EQ(aw_clock_resume(aw_runtime_current()), 0);
    self->h = aw_spawn(AW_CALL(naps, .n = 1, .each = AW_MSEC(1)));
    AW_AWAIT(self->join, aw_task_join(self->h));
    CHECK_EQ(self->join.out, 0);
    aw_task_drop(self->h);
    CHECK_EQ(aw_clock_pause(aw_runtime_current()), 0);
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_task_moves_the_clock) {
    aw_runtime *rt = paused_workers(workers, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(advances)), 0);
    workers_end(rt, NULL);
}

/* ---- Deadlock -------------------------------------------------------------------------------- */

struct circle {
    struct joins *a, *b;
    uint32_t finals, made;
};

AW_ASYNC(int, joins, struct circle *circle; bool is_a; aw_task_join_future join;) {
    AW_BEGIN;
    while (!LOAD(self->circle->made))
        AW_YIELD;
    AW_AWAIT(self->join, aw_task_join(self->is_a ? self->circle->b : self->circle->a));
    AW_RETURN(self->join.out);
    AW_FINALLY;
    ADD(self->circle->finals, 1);
    AW_END;
}

/* Two tasks that wait for each other. */
static void make_circle(struct circle *c, aw_runtime *rt) {
    c->a = aw_spawn_on(rt, AW_CALL(joins, .circle = c, .is_a = true));
    c->b = aw_spawn_on(rt, AW_CALL(joins, .circle = c));
    ADD(c->made, 1);
}

AW_ASYNC(int, waits_by_gate, gate *gate; struct through wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, through(self->gate));
    AW_RETURN(self->wait.out);
    AW_END;
}

/* A main future that only its own runtime could wake. */
AW_ASYNC(int, spawns_and_joins, gate *gate; struct waits_by_gate * task;
         aw_task_join_future join;) {
    AW_BEGIN;
    self->task = aw_spawn(AW_CALL(waits_by_gate, .gate = self->gate));
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN(self->join.out);
    AW_FINALLY;
    if (self->task) aw_task_drop(self->task);
    AW_END;
}

ON_WORKERS(tasks_that_wait_for_each_other_are_a_deadlock) {
    kept_log log = KEPT_LOG;
    struct circle c = {0};
    memory m;
    gate g = GATE;
    aw_runtime *rt = workers_new(workers, &m, &log);
    make_circle(&c, rt);
    /* While an outside thread holds a waker it is not a deadlock. */
    struct waits_by_gate *h = aw_spawn_on(rt, AW_CALL(waits_by_gate, .gate = &g));
    gate_wait(&g, 1);
    gate_forget(&g); /* drops the waker: nothing else happens then */
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), -EDEADLK);
    CHECK_EQ(log_count(&log, "deadlock: nothing can run"), 1);
    CHECK_EQ(log_count(&log, "the main future\n  join of task"), 1);
    CHECK_EQ(log_count(&log, "\n    join of task: task"), 2);
    CHECK_EQ(log_count(&log, "'joins' (spawned at"), 4);
    CHECK_EQ(LOAD(c.finals), 0);
    /* An abort breaks the circle. */
    aw_task_abort(c.a);
    WAIT_UNTIL(aw_task_is_finished(c.b));
    CHECK_EQ(aw_block_on(rt, aw_task_join(c.b)), 0);
    CHECK_EQ(c.b->out, -ECANCELED);
    CHECK_EQ(LOAD(c.finals), 2);
    aw_task_abort(h);
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), -ECANCELED);
    aw_task_drop(h);
    aw_task_drop(c.a);
    aw_task_drop(c.b);
    workers_end(rt, &m);
}

/* What an outside thread does once the runtime is quiescent. */
struct late {
    aw_runtime *rt;
    gate *gate;
    uint32_t done;
};

static void *open_late(void *arg) {
    struct late *l = arg;
    gate_wait(l->gate, 1);
    WAIT_UNTIL(all_sleep(l->rt, 1));
    gate_open(l->gate);
    return NULL;
}

ON_WORKERS(a_waker_on_an_outside_thread_is_no_deadlock) {
    gate g = GATE;
    pthread_t thread;
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    struct late late = {rt, &g, 0};
    CHECK_EQ(pthread_create(&thread, NULL, open_late, &late), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(spawns_and_joins, .gate = &g)), 0);
    pthread_join(thread, NULL);
    workers_end(rt, NULL);
}

static void *forget_late(void *arg) {
    struct late *l = arg;
    gate_wait(l->gate, 1);
    WAIT_UNTIL(all_sleep(l->rt, 1));
    gate_forget(l->gate);
    return NULL;
}

ON_WORKERS(a_waker_that_is_dropped_outside_proves_a_deadlock) {
    kept_log log = KEPT_LOG;
    for (int direct = 0; direct < 2; direct++) {
        gate g = GATE;
        pthread_t thread;
        aw_runtime *rt = workers_new(workers, NULL, &log);
        struct late late = {rt, &g, 0};
        CHECK_EQ(pthread_create(&thread, NULL, forget_late, &late), 0);
        int error = direct ? aw_block_on(rt, through(&g))
                           : aw_block_on(rt, AW_CALL(spawns_and_joins, .gate = &g));
        CHECK_EQ(error, -EDEADLK);
        pthread_join(thread, NULL);
        workers_end(rt, NULL);
    }
    CHECK_EQ(log_count(&log, "deadlock: nothing can run"), 2);
}

static void *release_late(void *arg) {
    struct late *l = arg;
    WAIT_UNTIL(all_sleep(l->rt, 1));
    STORE(l->done, 1);
    aw_runtime_unhold(l->rt);
    return NULL;
}

ON_WORKERS(a_held_runtime_is_in_no_deadlock_until_it_is_released) {
    kept_log log = KEPT_LOG;
    struct circle c = {0};
    pthread_t thread;
    gate g = GATE;
    aw_runtime *rt = workers_new(workers, NULL, &log);
    struct late late = {rt, NULL, 0};
    make_circle(&c, rt);
    aw_runtime_hold(rt);
    CHECK_EQ(pthread_create(&thread, NULL, release_late, &late), 0);
    struct waits_by_gate *h = aw_spawn_on(rt, AW_CALL(waits_by_gate, .gate = &g));
    gate_wait(&g, 1);
    gate_forget(&g);
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), -EDEADLK);
    CHECK_EQ(LOAD(late.done), 1); /* not before */
    pthread_join(thread, NULL);
    aw_runtime_free(rt);
    aw_task_drop(c.a);
    aw_task_drop(c.b);
    aw_task_drop(h);
    CHECK_EQ(log_count(&log, "deadlock: "), 1);
}

static void *joins_too(void *arg) {
    aw_runtime *rt = ((void **)arg)[0];
    CHECK_EQ(aw_block_on(rt, aw_task_join((struct joins *)((void **)arg)[1])), -EDEADLK);
    return NULL;
}

ON_WORKERS(every_waiting_thread_returns_from_a_deadlock_and_one_reports) {
    kept_log log = KEPT_LOG;
    struct circle c = {0};
    gate g[4] = {GATE, GATE, GATE, GATE};
    struct waits_by_gate *h[4];
    pthread_t threads[4];
    void *args[4][2];
    aw_runtime *rt = workers_new(workers, NULL, &log);
    make_circle(&c, rt);
    aw_runtime_hold(rt);
    for (int i = 0; i < 4; i++) {
        h[i] = aw_spawn_on(rt, AW_CALL(waits_by_gate, .gate = &g[i]));
        gate_wait(&g[i], 1);
        gate_forget(&g[i]);
        args[i][0] = rt;
        args[i][1] = h[i];
        CHECK_EQ(pthread_create(&threads[i], NULL, joins_too, args[i]), 0);
    }
    WAIT_UNTIL(all_sleep(rt, 4));
    aw_runtime_unhold(rt);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        aw_task_drop(h[i]);
    }
    aw_runtime_free(rt);
    CHECK_EQ(log_count(&log, "deadlock: nothing can run"), 1);
    CHECK_EQ(LOAD(c.finals), 2);
    aw_task_drop(c.a);
    aw_task_drop(c.b);
}

/* Its cancel waits for a wake that never comes. */
static aw_poll stays_poll(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    (void)out;
    aw_cx_arm_inside(cx);
    return AW_PENDING;
}

AW_ASYNC(int, stays_for_ever, aw_poll_fn wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, aw_poll_fn_of(stays_poll, NULL));
    AW_FINALLY;
    AW_AWAIT(self->wait, aw_poll_fn_of(stays_poll, NULL));
    AW_END;
}

#ifndef __SANITIZE_ADDRESS__ /* the task leaks on purpose */
ON_WORKERS(a_runtime_with_tasks_that_cannot_be_cancelled_ends_and_says_so) {
    static kept_log log = KEPT_LOG;
    aw_runtime *rt = workers_new(workers, NULL, &log);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(stays_for_ever)));
    CHECK_EQ(aw_block_on(rt, AW_CALL(naps, .n = 1, .each = AW_MSEC(1))), 1);
    aw_runtime_free(rt);
    CHECK_EQ(log_count(&log, "1 tasks cannot be cancelled and are left behind"), 1);
    CHECK_EQ(log_count(&log, "being cancelled\n  stays_for_ever at"), 1);
}
#endif

/* ---- Describing ------------------------------------------------------------------------------ */

ON_WORKERS(the_text_of_a_runtime_has_the_chains_of_its_tasks) {
    gate g = GATE;
    char text[4096];
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    struct waits_by_gate *h = aw_spawn_on(rt, AW_CALL(waits_by_gate, .gate = &g));
    gate_wait(&g, 1);
    do
        CHECK_GE(aw_runtime_describe(rt, text, sizeof text), 0);
    while (!strstr(text, "through")); /* it may still be running */
    CHECK_CONTAINS(text, "'waits_by_gate' (spawned at tests/behaviour/workers_quiescence.c:");
    CHECK_CONTAINS(text, "\n  waits_by_gate at tests/behaviour/workers_quiescence.c:");
    gate_open(&g);
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), 0);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

/* Describing tasks disturbs nothing. */
static uint32_t stop_describing;
static void *describe_all_the_time(void *rt) {
    char text[2048];
    while (!LOAD(stop_describing))
        aw_runtime_describe(rt, text, sizeof text);
    return NULL;
}

/* They alternate: two notifications before a wait would count as one. */
AW_ASYNC(int, busy, int i; bool first; aw_notify * mine; aw_notify * other; aw_notified wait;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 200; self->i++) {
        if (self->first || self->i) aw_notify_one(self->other);
        AW_AWAIT(self->wait, aw_notify_wait(self->mine));
    }
    if (!self->first) aw_notify_one(self->other);
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(tasks_that_are_being_described_miss_no_wake) {
    enum { PAIRS = 8 };
    static aw_notify n[2 * PAIRS];
    struct busy *h[2 * PAIRS];
    pthread_t thread;
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    STORE(stop_describing, 0);
    CHECK_EQ(pthread_create(&thread, NULL, describe_all_the_time, rt), 0);
    for (int i = 0; i < 2 * PAIRS; i++) {
        n[i] = (aw_notify)AW_NOTIFY_INIT;
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(busy, .first = i % 2, .mine = &n[i], .other = &n[i ^ 1]));
    for (int i = 0; i < 2 * PAIRS; i++) {
        CHECK_EQ(aw_block_on(rt, aw_task_join(h[i])), 0);
        aw_task_drop(h[i]);
    }
    STORE(stop_describing, 1);
    pthread_join(thread, NULL);
    workers_end(rt, &m);
}

/* ---- Slow cancels ---------------------------------------------------------------------------- */

AW_ASYNC(int, cleans_up_for_long, gate *begun; aw_sleep nap;) {
    AW_BEGIN;
    gate_open(self->begun);
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(3600)));
    AW_FINALLY;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(200)));
    AW_END;
}

ON_WORKERS(a_cancel_that_takes_long_is_reported_with_its_chain) {
    kept_log log = KEPT_LOG;
    gate begun = GATE;
    aw_runtime_options o = workers_options(workers, NULL, &log);
    aw_runtime *rt;
    o.cancel_report = AW_MSEC(20);
    o.cleanup_deadline = AW_MSEC(60);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    struct cleans_up_for_long *h = aw_spawn_on(rt, AW_CALL(cleans_up_for_long, .begun = &begun));
    CHECK_EQ(aw_block_on(rt, through(&begun)), 7);
    aw_task_abort(h);
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), -ECANCELED);
    aw_task_drop(h);
    CHECK_EQ(log_count(&log, "a cancel has not ended after 0.020 s\n"), 1);
    CHECK_EQ(log_count(&log, "a cancel has not ended after 0.060 s, the deadline"), 1);
    CHECK_EQ(log_count(&log, "cleans_up_for_long at tests/behaviour/workers_quiescence.c:"), 2);
    workers_end(rt, NULL);
}
