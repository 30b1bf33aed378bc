/* SPDX-License-Identifier: MIT
 *
 * Joins of tasks that run on workers: from threads, from tasks on other workers, from other
 * runtimes of either flavour, and with changing wakers. */
#include "support/workers.h"

AW_ASYNC(int, joins, struct through *task; aw_task_join_future join;) {
    AW_BEGIN;
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN(self->join.out);
    AW_END;
}

/* ---- From where ------------------------------------------------------------------------------ */

ON_WORKERS(a_task_joins_a_task_that_ends_later) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(300); i++) {
        gate g = GATE;
        struct through *h = aw_spawn_on(rt, through(&g));
        struct joins *j = aw_spawn_on(rt, AW_CALL(joins, .task = h));
        if (i % 3 == 0) gate_wait(&g, 1);
        gate_open(&g);
        CHECK_EQ(JOIN_STATUS(rt, j), 0);
        CHECK_EQ(aw_task_take(j), 0);
        CHECK_EQ(aw_task_take(h), 7);
    }
    workers_end(rt, NULL);
}

typedef struct blocked {
    aw_runtime *rt;
    struct through *task;
    int status;
    event begun;
} blocked;

static void *block_on_join(void *arg) {
    blocked *b = arg;
    event_post(&b->begun);
    b->status = JOIN_STATUS(b->rt, b->task);
    return NULL;
}

ON_WORKERS(eight_threads_block_on_joins_at_once) {
    enum { THREADS = 8 };
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g[THREADS];
    blocked b[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        g[i] = (gate)GATE;
        b[i] = (blocked){.rt = rt, .task = aw_spawn_on(rt, through(&g[i])), .status = 1};
        event_init(&b[i].begun);
        threads[i] = thread_start(block_on_join, &b[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        event_wait(&b[i].begun);
        if (i % 2)
            gate_open(&g[i]);
        else
            aw_task_abort(b[i].task);
    }
    for (int i = 0; i < THREADS; i++) {
        thread_end(threads[i]);
        CHECK_EQ(b[i].status, i % 2 ? 0 : -ECANCELED);
        aw_task_drop(b[i].task);
    }
    workers_end(rt, NULL);
}

/* Each runtime has tasks that join those of the next one. */
ON_WORKERS(runtimes_of_both_flavours_join_each_others_tasks) {
    enum { TASKS = 40 };
    memory m[3];
    aw_runtime *rt[3] = {workers_new(workers, &m[0], NULL), workers_new(2, &m[1], NULL)};
    memory_init(&m[2]);
    rt[2] = runtime_new(&m[2], NULL, NULL, false);
    gate g[TASKS];
    struct through *bottom[TASKS];
    struct joins *middle[TASKS], *top[TASKS];
    for (int i = 0; i < TASKS; i++) {
        g[i] = (gate)GATE;
        bottom[i] = aw_spawn_on(rt[i % 3], through(&g[i]));
        middle[i] = aw_spawn_on(rt[(i + 1) % 3], AW_CALL(joins, .task = bottom[i]));
        top[i] = aw_spawn_on(rt[(i + 1 + i / 3 % 2) % 3],
                             AW_CALL(joins, .task = (struct through *)(void *)middle[i]));
    }
    for (int i = 0; i < TASKS; i++)
        gate_open(&g[i]);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(JOIN_STATUS(rt[2], top[i]), 0); /* this also runs the current-thread runtime */
        CHECK_EQ(aw_task_take(top[i]), 0);
        CHECK_EQ(aw_task_take(middle[i]), 0);
        CHECK_EQ(aw_task_take(bottom[i]), 7);
    }
    for (int i = 0; i < 3; i++)
        aw_runtime_free(rt[i]);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(memory_in_use(&m[i]), 0);
}

/* ---- Wakers that change ---------------------------------------------------------------------- */

static void open_gate(void *arg, int index, uint64_t *random) {
    (void)index;
    jitter(random);
    gate_open(arg);
}

/* Two flags alternate: the join must raise the latest one. The flags outlive all wakes. */
ON_WORKERS(the_waker_of_a_join_changes_while_its_task_completes) {
    uint64_t random = test_seed();
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    static aw_flag flags[2];
    for (int i = 0; i < stress_rounds(500); i++) {
        gate g = GATE;
        thread_group s;
        struct through *h = aw_spawn_on(rt, through(&g));
        aw_task_join_future join = aw_task_join(h);
        aw_poll r = AW_PENDING;
        gate_wait(&g, 1);
        thread_group_create(&s, 1, &random, open_gate, &g);
        thread_group_go(&s);
        int quick_polls = (int)(test_random(&random) % 64);
        for (int poll = 0; r == AW_PENDING; poll++) {
            aw_flag *flag = &flags[poll % 2];
            aw_waker waker = aw_flag_waker(flag);
            aw_cx cx = aw_cx_from_waker(&waker);
            aw_flag_take(flag);
            r = aw_future_poll(&join.future, &cx);
            if (r == AW_PENDING && poll >= quick_polls) WAIT_UNTIL(aw_flag_take(flag));
            if (poll % 8 == 0) jitter(&random);
        }
        CHECK_EQ(join.out, 0);
        thread_group_join(&s);
        aw_task_drop(h);
    }
    workers_end(rt, &m);
}

/* A counted waker is released as soon as the join has ended: the task keeps none. */
static uint32_t wakers_alive;
static void counted_wake(aw_counted *c) {
    (void)c;
}
static void counted_release(aw_counted *c) {
    free(c);
    __atomic_fetch_sub(&wakers_alive, 1, __ATOMIC_RELEASE);
}

ON_WORKERS(a_join_that_has_ended_holds_no_waker) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(300); i++) {
        gate g = GATE;
        struct through *h = aw_spawn_on(rt, through(&g));
        aw_counted *c = malloc(sizeof *c);
        ADD(wakers_alive, 1);
        aw_counted_init(c, counted_wake, counted_release);
        aw_waker waker = aw_counted_waker(c);
        aw_cx cx = aw_cx_from_waker(&waker);
        aw_task_join_future join = aw_task_join(h);
        CHECK_EQ(aw_future_poll(&join.future, &cx), AW_PENDING);
        if (i % 2) {
            CHECK_EQ(aw_future_cancel(&join.future, &cx), AW_CANCELLED);
            gate_open(&g);
            WAIT_UNTIL(aw_task_is_finished(h));
        } else {
            gate_open(&g);
            while (aw_future_poll(&join.future, &cx) == AW_PENDING)
                sched_yield();
            CHECK_EQ(join.out, 0);
        }
        aw_counted_drop(c);
        WAIT_UNTIL(LOAD(wakers_alive) == 0); /* the worker may have a clone for a moment */
        aw_task_drop(h);
    }
    workers_end(rt, NULL);
}

/* ---- Cancelled joins ------------------------------------------------------------------------- */

/* Exactly one of: the join took the result, or it is cancelled and the handle still has it. */
ON_WORKERS(a_join_is_cancelled_while_its_task_completes) {
    uint64_t random = test_seed();
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    int won = 0, lost = 0;
    for (int i = 0; i < stress_rounds(400); i++) {
        gate g = GATE;
        thread_group s;
        struct through *h = aw_spawn_on(rt, through(&g));
        aw_task_join_future join = aw_task_join(h);
        aw_waker waker = aw_noop_waker();
        aw_cx cx = aw_cx_from_waker(&waker);
        gate_wait(&g, 1);
        thread_group_create(&s, 1, &random, open_gate, &g);
        aw_poll r = aw_future_poll(&join.future, &cx);
        CHECK_EQ(r, AW_PENDING);
        thread_group_go(&s);
        for (int n = (int)(test_random(&random) % 2000); n > 0; n--)
            __asm__ volatile("");
        if (chance(&random, 4)) WAIT_UNTIL(aw_task_is_finished(h));
        r = aw_future_cancel(&join.future, &cx);
        if (r == AW_READY) {
            won++;
            CHECK_EQ(join.out, 0);
            if (i % 2) aw_future_discard(&join.future); /* puts it back into the handle */
        } else {
            lost++;
            CHECK_EQ(r, AW_CANCELLED);
        }
        thread_group_join(&s);
        bool taken = r == AW_READY && i % 2 == 0;
        if (!taken && chance(&random, 2)) { /* it can be joined again */
            CHECK_EQ(JOIN_STATUS(rt, h), 0);
            taken = true;
        }
        WAIT_UNTIL(aw_task_is_finished(h));
        aw_task_drop(h);
        CHECK_EQ(g.discards, !taken);
    }
    CHECK_GT(won, 0);
    workers_end(rt, &m);
}

typedef AW_TIMEOUT(aw_task_join_future) join_timeout;
AW_ASYNC(int, impatient, struct through *task; join_timeout join;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->join, AW_USEC(200), aw_task_join(self->task));
    AW_RETURN(self->join.out ? self->join.out : self->join.inner.out);
    AW_END;
}

ON_WORKERS(a_join_that_timed_out_leaves_the_task_alone) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < 20; i++) {
        gate g = GATE;
        struct through *h = aw_spawn_on(rt, through(&g));
        CHECK_EQ(RUN(rt, AW_CALL(impatient, .task = h)), -ETIMEDOUT);
        CHECK_EQ(LOAD(g.ends), 0);
        gate_open(&g);
        CHECK_EQ(RUN(rt, AW_CALL(joins, .task = h)), 0);
        CHECK_EQ(aw_task_take(h), 7);
    }
    workers_end(rt, NULL);
}

ON_WORKERS(a_join_of_a_failed_spawn_is_ready_at_once) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g = GATE;
    aw_set_log(keep_log, &(kept_log)KEPT_LOG);
    struct through *h = aw_spawn(through(&g)); /* outside of any runtime */
    CHECK_EQ(aw_task_error(h), -ENXIO);
    CHECK_EQ(g.cancelled, 1);
    CHECK_EQ(RUN(rt, AW_CALL(joins, .task = h)), -ENXIO);
    CHECK_EQ(JOIN_STATUS(rt, h), -ENXIO);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

static aw_poll poll_join(aw_task_join_future *join) {
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_poll(&join->future, &cx);
}

ON_WORKERS(two_joins_at_once_are_caught) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g = GATE;
    struct through *h = aw_spawn_on(rt, through(&g));
    aw_task_join_future a = aw_task_join(h), b = aw_task_join(h);
    CHECK_EQ(poll_join(&a), AW_PENDING);
    DIES(poll_join(&b), "two joins wait for task");
    gate_open(&g);
    WAIT_UNTIL(poll_join(&a) == AW_READY);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

/* ---- Many ------------------------------------------------------------------------------------ */

/* A tree of tasks that each sum what their children return. */
AW_ASYNC(long, tree, int depth; int i; long sum; struct tree * child[4];
         aw_task_join_future join;) {
    AW_BEGIN;
    if (self->depth == 0) AW_RETURN(1);
    for (int k = 0; k < 4; k++)
        self->child[k] = aw_spawn(AW_CALL(tree, .depth = self->depth - 1));
    for (self->i = 0; self->i < 4; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->child[self->i]));
        CHECK_EQ(self->join.out, 0);
        self->sum += aw_task_take(self->child[self->i]);
    }
    AW_RETURN(self->sum);
    AW_END;
}

ON_WORKERS(a_tree_of_tasks_sums_up) {
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    int depth = test_under_sanitizer() ? 5 : 7;
    CHECK_EQ(RUN(rt, AW_CALL(tree, .depth = depth)), 1l << (2 * depth));
    workers_end(rt, &m);
}
