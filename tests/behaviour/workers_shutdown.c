/* SPDX-License-Identifier: MIT
 *
 * The shutdown of a runtime with workers: every task is cancelled and awaited; remaining handles
 * and wakers stay valid; and many runtimes come and go. */
#include "support/workers.h"

/* ---- Pending tasks --------------------------------------------------------------------------- */

ON_WORKERS(pending_tasks_are_cancelled_and_waited_for) {
    enum { TASKS = 200 };
    static gate g[TASKS];
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < TASKS; i++) {
        g[i] = (gate)GATE;
        g[i].stays = i % 4;
        g[i].wins = i % 2;
        aw_task_drop(aw_spawn_on(rt, through(&g[i])));
        if (i % 2) gate_wait(&g[i], 1);
    }
    workers_end(rt, &m);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(g[i].ends, 1);
        CHECK_EQ(g[i].discards, g[i].finished);
        CHECK_GE(g[i].cancels, 1);
        if (i % 2) CHECK_EQ(g[i].finished, 1); /* it had started: it wins */
    }
}

ON_WORKERS(an_idle_runtime_ends_at_once) {
    uint64_t begin = test_now_ns();
    for (int i = 0; i < 20; i++) {
        aw_runtime *rt = workers_new(workers, NULL, NULL);
        aw_task_drop(aw_spawn_on(rt, aw_sleep_for(AW_SEC(3600))));
        workers_end(rt, NULL);
    }
    CHECK_LT(test_now_ns() - begin, AW_SEC(15));
}

AW_ASYNC(int, slow_to_go, uint32_t *finals; aw_never never; aw_sleep sleep; struct rounds pause;
         aw_task_join_future join; aw_ready * child;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->sleep, aw_sleep_for(AW_USEC(500)));
        AW_AWAIT(self->pause, rounds(3));
        self->child = aw_spawn(aw_ready_now(3)); /* refused, as the runtime is ending */
        AW_AWAIT(self->join, aw_task_join(self->child));
        CHECK(self->join.out == -ECANCELED);
        aw_task_drop(self->child);
    }
    ADD(*self->finals, 1);
    AW_END;
}

ON_WORKERS(cleaning_up_may_wait_and_cannot_spawn) {
    enum { TASKS = 60 };
    uint32_t finals = 0;
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < TASKS; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(slow_to_go, .finals = &finals)));
    WAIT_UNTIL(COUNTER_SUM(rt, polls) >= TASKS);
    workers_end(rt, &m);
    CHECK_EQ(finals, TASKS);
}

/* ---- Tasks that do not stop by themselves ---------------------------------------------------- */

typedef struct crowd {
    uint32_t begun, ended;
    gate gates[16];
} crowd;

/* Spawns tasks like itself and wakes gates at random, for ever. */
AW_ASYNC(int, restless, crowd *crowd; uint64_t random; int generation; aw_yield pause;) {
    AW_BEGIN;
    ADD(self->crowd->begun, 1);
    for (;;) {
        gate_wake(&self->crowd->gates[test_random(&self->random) % 16]);
        if (self->generation < 12 && chance(&self->random, 3))
            aw_task_drop(aw_spawn(AW_CALL(restless, .crowd = self->crowd,
                                          .random = test_random(&self->random),
                                          .generation = self->generation + 1)));
        AW_AWAIT(self->pause, aw_yield_now());
        if (self->generation > 6 && chance(&self->random, 4)) AW_RETURN(0);
    }
    AW_FINALLY;
    if (AW_STARTED) {
        gate_wake(&self->crowd->gates[test_random(&self->random) % 16]);
        ADD(self->crowd->ended, 1);
    }
    AW_END;
}

ON_WORKERS(tasks_that_spawn_and_wake_each_other_all_end) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(20); round++) {
        static crowd c;
        memory m;
        c.begun = c.ended = 0;
        aw_runtime *rt = workers_new(workers, &m, NULL);
        for (int i = 0; i < 16; i++) {
            c.gates[i] = (gate)GATE;
            aw_task_drop(aw_spawn_on(rt, through(&c.gates[i])));
        }
        for (int i = 0; i < 4; i++)
            aw_task_drop(
                aw_spawn_on(rt, AW_CALL(restless, .crowd = &c, .random = test_random(&random))));
        WAIT_UNTIL(LOAD(c.begun) > (uint32_t)test_scale(300));
        workers_end(rt, &m);
        CHECK_EQ(c.begun, c.ended);
        for (int i = 0; i < 16; i++)
            CHECK_EQ(c.gates[i].ends, 1);
    }
}

/* ---- Afterwards ------------------------------------------------------------------------------ */

ON_WORKERS(a_pending_join_resolves_as_cancelled) {
    memory m;
    gate g = GATE;
    static aw_flag flag;
    aw_waker waker = aw_flag_waker(&flag);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_runtime *rt = workers_new(workers, &m, NULL);
    struct through *h = aw_spawn_on(rt, through(&g));
    aw_task_join_future join = aw_task_join(h);
    CHECK_EQ(aw_future_poll(&join.future, &cx), AW_PENDING);
    aw_runtime_free(rt);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(aw_future_poll(&join.future, &cx), AW_READY);
    CHECK_EQ(join.out, -ECANCELED);
    aw_task_drop(h);
    CHECK_EQ(memory_in_use(&m), 0);
}

ON_WORKERS(a_join_on_another_runtime_resolves_when_the_first_one_ends) {
    gate g = GATE;
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL), *other = workers_new(2, NULL, NULL);
    struct through *h = aw_spawn_on(rt, through(&g));
    aw_task_join_future *j = aw_spawn_on(other, aw_task_join(h));
    gate_wait(&g, 1);
    aw_runtime_free(rt);
    CHECK_EQ(JOIN_STATUS(other, j), 0);
    CHECK_EQ(aw_task_take(j), -ECANCELED);
    aw_task_drop(h);
    CHECK_EQ(memory_in_use(&m), 0);
    aw_runtime_free(other);
}

ON_WORKERS(a_handle_keeps_what_it_needs_and_no_more) {
    memory m;
    gate done = GATE, cut = GATE;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    done.open = true;
    struct through *a = aw_spawn_on(rt, through(&done)), *b = aw_spawn_on(rt, through(&cut));
    gate_wait(&cut, 1);
    aw_waker late = gate_waker(&cut);
    WAIT_UNTIL(aw_task_is_finished(a));
    aw_runtime_free(rt);
    CHECK_EQ(aw_task_error(a), 0);
    CHECK_STR(aw_task_name(b), "through");
    CHECK(aw_task_is_finished(b));
    aw_task_abort(a);
    aw_task_abort(b);
    aw_waker_wake_by_ref(&late);
    /* The handles keep the runtime's memory. */
    struct through *refused = aw_spawn_on(rt, through(&(gate)GATE));
    CHECK_EQ(aw_task_error(refused), -ECANCELED);
    CHECK_EQ(aw_block_on(rt, aw_ready_now(3)), -ESHUTDOWN);
    CHECK_EQ(done.discards, 0);
    aw_task_drop(a);
    CHECK_EQ(done.discards, 1);
    aw_task_drop(b);
    CHECK_GT(memory_in_use(&m), 0);
    aw_waker_drop(late);
    CHECK_EQ(memory_in_use(&m), 0);
}

static void *drop_late(void *arg) {
    aw_task_drop((struct through *)arg);
    return NULL;
}

ON_WORKERS(the_last_handle_may_be_dropped_by_any_thread) {
    memory m;
    gate g = GATE;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    g.open = true;
    struct through *h = aw_spawn_on(rt, through(&g));
    WAIT_UNTIL(aw_task_is_finished(h));
    aw_runtime_free(rt);
    on_a_thread(drop_late, h);
    CHECK_EQ(g.discards, 1);
    CHECK_EQ(memory_in_use(&m), 0);
}

ON_WORKERS(a_runtime_in_memory_of_the_caller_ends_cleanly) {
    static aw_runtime_storage storage;
    memory m;
    memory_init(&m);
    for (int i = 0; i < 20; i++) {
        aw_runtime *rt;
        aw_runtime_options o = workers_options(workers, &m, NULL);
        CHECK_EQ(aw_runtime_new_in(&rt, &storage, sizeof storage, &o), 0);
        CHECK_EQ(RUN(rt, rounds(5)), 0);
        workers_end(rt, &m);
    }
}

/* ---- Refused --------------------------------------------------------------------------------- */

typedef struct blocked {
    aw_runtime *rt;
    gate gate;
} blocked;

static void *block(void *arg) {
    blocked *b = arg;
    CHECK_EQ(aw_block_on(b->rt, through(&b->gate)), 7);
    return NULL;
}

ON_WORKERS(ending_it_while_a_thread_is_in_block_on_is_caught) {
    blocked b = {workers_new(workers, NULL, NULL), GATE};
    pthread_t thread = thread_start(block, &b);
    gate_wait(&b.gate, 1);
    DIES(aw_runtime_free(b.rt), "aw_runtime_free while a thread is in block_on");
    gate_open(&b.gate);
    thread_end(thread);
    workers_end(b.rt, NULL);
}

AW_ASYNC(int, ends_its_runtime, aw_runtime *rt; aw_yield pause;) {
    AW_BEGIN;
    DIES(aw_runtime_free(self->rt), "aw_runtime_free inside task ");
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(ending_it_inside_a_task_is_caught) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(ends_its_runtime, .rt = rt)), 0);
    workers_end(rt, NULL);
}

/* ---- Many ------------------------------------------------------------------------------------ */

ON_WORKERS(runtimes_come_and_go) {
    int count = test_scale(1000);
    memory m;
    for (int i = 0; i < count; i++) {
        gate g = GATE;
        aw_runtime *rt = workers_new(workers, &m, NULL);
        if (i % 4 == 1) CHECK_EQ(RUN(rt, rounds(2)), 0);
        if (i % 4 == 2) CHECK_EQ(aw_block_on(rt, rounds(2)), 0);
        if (i % 4 == 3) aw_task_drop(aw_spawn_on(rt, through(&g)));
        workers_end(rt, &m);
        CHECK_EQ(g.ends, i % 4 == 3);
    }
}

static void one_after_the_other(void *arg, int index, uint64_t *random) {
    (void)arg, (void)random;
    for (int i = 0; i < test_scale(60); i++) {
        memory m;
        aw_runtime *rt = workers_new(1 + (uint32_t)index % 3, &m, NULL);
        CHECK_EQ(RUN(rt, rounds(5)), 0);
        workers_end(rt, &m);
    }
}

TEST(threads_have_runtimes_side_by_side) {
    uint64_t random = test_seed();
    thread_group s;
    thread_group_create(&s, 4, &random, one_after_the_other, NULL);
    thread_group_go(&s);
    thread_group_join(&s);
}
