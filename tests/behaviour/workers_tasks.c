/* SPDX-License-Identifier: MIT
 *
 * Tasks and their handles on a runtime with workers: what a task on one thread promises, it
 * promises on any worker. */
#include "support/workers.h"

/* ---- Outputs and statuses -------------------------------------------------------------------- */

AW_ASYNC(long, twice, long n; aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(self->n * 2);
    AW_END;
}

ON_WORKERS(a_join_gives_status_and_output) {
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    enum { TASKS = 200 };
    struct twice *h[TASKS];
    for (int i = 0; i < TASKS; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(twice, .n = i));
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        CHECK(aw_task_is_finished(h[i]));
        CHECK_EQ(h[i]->out, 2 * i);
        CHECK_EQ(aw_task_take(h[i]), 2 * i);
    }
    workers_end(rt, &m);
}

ON_WORKERS(a_second_join_finds_the_output_taken) {
    gate g = GATE;
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    g.open = true;
    struct through *h = aw_spawn_on(rt, through(&g));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    workers_end(rt, NULL);
    CHECK_EQ(g.discards, 0);
}

ON_WORKERS(an_output_that_is_not_taken_is_discarded_once) {
    enum { TASKS = 64 };
    gate g[TASKS];
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < TASKS; i++) {
        g[i] = (gate)GATE;
        g[i].open = true;
        struct through *h = aw_spawn_on(rt, through(&g[i]));
        if (i % 3 == 0) WAIT_UNTIL(aw_task_is_finished(h));
        aw_task_drop(h);
    }
    aw_runtime_free(rt);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(g[i].ends, 1);
        CHECK_EQ(g[i].discards, g[i].finished);
    }
    CHECK_EQ(memory_in_use(&m), 0);
}

ON_WORKERS(the_frame_is_released_before_a_join_sees_the_end) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < 200; i++) {
        gate g = GATE;
        struct through *h = aw_spawn_on(rt, through(&g));
        if (i % 2)
            gate_open(&g);
        else
            aw_task_abort(h);
        CHECK_EQ(JOIN_STATUS(rt, h), i % 2 ? 0 : -ECANCELED);
        CHECK_EQ(g.ends, 1);
        CHECK(g.waker.type == NULL);
        aw_task_drop(h);
    }
    workers_end(rt, NULL);
}

ON_WORKERS(every_task_has_a_number_of_its_own) {
    enum { TASKS = 300 };
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    struct twice *h[TASKS];
    uint64_t last = 0;
    for (int i = 0; i < TASKS; i++) {
        h[i] = aw_spawn_on(rt, AW_CALL(twice, .n = i));
        CHECK_GT(aw_task_id(h[i]), last);
        last = aw_task_id(h[i]);
        CHECK_STR(aw_task_name(h[i]), "twice");
    }
    for (int i = 0; i < TASKS; i++)
        aw_task_drop(h[i]);
    workers_end(rt, NULL);
}

AW_ASYNC(int, reports_itself, uint64_t *id; aw_runtime * *rt;) {
    AW_BEGIN;
    *self->id = aw_current_task_id();
    *self->rt = aw_runtime_current();
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_task_knows_its_number_and_its_runtime) {
    aw_runtime *rt = workers_new(workers, NULL, NULL), *seen = NULL;
    uint64_t id = 0;
    struct reports_itself *h = aw_spawn_on(rt, AW_CALL(reports_itself, .id = &id, .rt = &seen));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(id, aw_task_id(h));
    CHECK_EQ(seen, rt);
    aw_task_drop(h);
    CHECK_EQ(aw_runtime_current(), NULL);
    workers_end(rt, NULL);
}

ON_WORKERS(the_count_of_tasks_is_of_those_that_have_not_ended) {
    enum { TASKS = 20 };
    gate g[TASKS];
    struct through *h[TASKS];
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    CHECK_EQ(aw_runtime_task_count(rt), 0);
    for (int i = 0; i < TASKS; i++) {
        g[i] = (gate)GATE;
        h[i] = aw_spawn_on(rt, through(&g[i]));
    }
    CHECK_EQ(aw_runtime_task_count(rt), TASKS);
    for (int i = 0; i < TASKS; i++)
        gate_open(&g[i]);
    WAIT_UNTIL(aw_runtime_task_count(rt) == 0); /* a moment after the last join may see it */
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        aw_task_drop(h[i]);
    }
    workers_end(rt, NULL);
}

static AW_TASK_STORAGE(struct through) storage;
ON_WORKERS(storage_is_used_again_once_it_says_so) {
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    aw_runtime *previous = aw_enter(rt);
    size_t before = memory_in_use(&m);
    for (int i = 0; i < 50; i++) {
        gate g = GATE;
        struct through *h = aw_spawn_in(&storage, through(&g));
        CHECK_EQ(aw_task_error(h), 0);
        struct through *refused = aw_spawn_in(&storage, through(&(gate)GATE));
        CHECK_EQ(aw_task_error(refused), -EBUSY);
        gate_open(&g);
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        aw_task_drop(h);
        WAIT_UNTIL(aw_task_storage_free(&storage)); /* its worker may still be about to leave it */
    }
    CHECK_EQ(memory_in_use(&m), before);
    aw_leave(previous);
    workers_end(rt, &m);
}

/* ---- Polls ----------------------------------------------------------------------------------- */

ON_WORKERS(a_task_is_polled_once_to_start_and_once_for_each_wake) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g = GATE;
    struct through *h = aw_spawn_on(rt, through(&g));
    gate_wait(&g, 1);
    gate_wake(&g);
    gate_wait(&g, 2);
    gate_open(&g);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(g.polls, 3);
    CHECK_EQ(COUNTER_SUM(rt, polls), 3);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

ON_WORKERS(wakes_after_the_end_are_harmless) {
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    gate g = GATE;
    struct through *h = aw_spawn_on(rt, through(&g));
    gate_wait(&g, 1);
    aw_waker late = gate_waker(&g);
    gate_open(&g);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    for (int i = 0; i < 100; i++)
        aw_waker_wake_by_ref(&late);
    aw_task_drop(h);
    for (int i = 0; i < 100; i++)
        aw_waker_wake_by_ref(&late);
    CHECK_EQ(g.polls, 2);
    aw_runtime_free(rt);
    aw_waker_wake_by_ref(&late);
    /* The waker keeps the task, and the task keeps the runtime's core. */
    CHECK_GT(memory_in_use(&m), 0);
    aw_waker_wake(late);
    CHECK_EQ(memory_in_use(&m), 0);
    CHECK_EQ(g.polls, 2);
}

/* ---- Abort ----------------------------------------------------------------------------------- */

ON_WORKERS(an_aborted_task_is_cancelled_and_not_polled_again) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g = GATE;
    struct through *h = aw_spawn_on(rt, through(&g));
    gate_wait(&g, 1);
    for (int i = 0; i < 5; i++)
        aw_task_abort(h);
    CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
    CHECK_EQ(g.polls, 1);
    CHECK_EQ(g.cancels, 1);
    aw_task_abort(h);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

ON_WORKERS(an_abort_releases_on_a_worker_and_not_on_the_caller) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < 50; i++) {
        gate g = GATE;
        struct through *h = aw_spawn_on(rt, through(&g));
        if (i % 2) gate_wait(&g, 1);
        aw_task_abort(h);
        CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
        CHECK(!pthread_equal(g.ended_by, pthread_self()));
        aw_task_drop(h);
    }
    workers_end(rt, NULL);
}

ON_WORKERS(a_task_that_finishes_while_it_is_aborted_joins_as_finished) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g = GATE;
    g.wins = true;
    g.stays = 10;
    struct through *h = aw_spawn_on(rt, through(&g));
    gate_wait(&g, 1);
    aw_task_abort(h);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(aw_task_take(h), 8);
    CHECK_EQ(g.cancels, 11);
    CHECK_EQ(g.discards, 0);
    workers_end(rt, NULL);
}

ON_WORKERS(an_abort_after_the_end_changes_nothing) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g = GATE;
    g.open = true;
    struct through *h = aw_spawn_on(rt, through(&g));
    WAIT_UNTIL(aw_task_is_finished(h));
    aw_task_abort(h);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(aw_task_take(h), 7);
    CHECK_EQ(g.cancels, 0);
    workers_end(rt, NULL);
}

/* A task aborts itself through a handle that the test publishes. */
AW_ASYNC(int, suicide, struct suicide **own; aw_never never;) {
    AW_BEGIN;
    WAIT_UNTIL(LOAD(*self->own) != NULL);
    aw_task_abort(LOAD(*self->own));
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_task_may_abort_itself) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    struct suicide *own = NULL;
    struct suicide *h = aw_spawn_on(rt, AW_CALL(suicide, .own = &own));
    STORE(own, h);
    CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

/* ---- Failing, locals, budget ----------------------------------------------------------------- */

AW_ASYNC(int, fails, int code; uint32_t * finals; aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_FAIL(self->code);
    AW_RETURN(0);
    AW_FINALLY;
    ADD(*self->finals, 1);
    AW_END;
}

ON_WORKERS(a_failing_task_joins_with_its_code) {
    enum { TASKS = 50 };
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    struct fails *h[TASKS];
    uint32_t finals = 0;
    for (int i = 0; i < TASKS; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(fails, .code = -1 - i, .finals = &finals));
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), -1 - i);
        aw_task_drop(h[i]);
    }
    CHECK_EQ(finals, TASKS);
    CHECK_EQ(aw_block_on(rt, AW_CALL(fails, .code = -EPROTO, .finals = &finals)), -EPROTO);
    workers_end(rt, NULL);
}

static aw_local key;
static void count_release(void *value) {
    ADD(*(uint32_t *)value, 1);
}

AW_ASYNC(int, keeps_a_value, uint32_t *releases; int i; aw_yield pause;) {
    AW_BEGIN;
    CHECK(aw_local_get(&key) == NULL); /* not inherited, and not another task's */
    CHECK_EQ(aw_local_set(&key, self->releases, count_release), 0);
    for (self->i = 0; self->i < 20; self->i++) {
        AW_AWAIT(self->pause, aw_yield_now());
        CHECK_EQ(aw_local_get(&key), self->releases); /* on whichever worker */
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(values_of_a_task_move_with_it_and_go_with_it) {
    enum { TASKS = 60 };
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    struct keeps_a_value *h[TASKS];
    uint32_t releases[TASKS] = {0};
    for (int i = 0; i < TASKS; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(keeps_a_value, .releases = &releases[i]));
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        CHECK_EQ(LOAD(releases[i]), 1); /* before the join could see the end */
        aw_task_drop(h[i]);
    }
    CHECK_EQ(aw_local_set(&key, releases, NULL), -ENXIO);
    workers_end(rt, &m);
}

AW_ASYNC(int, greedy, int n; int polls; bool unbudgeted; aw_ready ready; AW_ONESHOT(int) c;
         aw_oneshot_future recv;) {
    AW_BEGIN;
    if (self->unbudgeted) CHECK_EQ(aw_unbudgeted(cx, true), 0);
    for (; self->n > 0; self->n--) {
        memset(&self->c, 0, sizeof self->c);
        CHECK_EQ(aw_oneshot_send(&self->c, 5), 0);
        AW_AWAIT(self->recv, aw_oneshot_recv(&self->c));
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_poll_has_a_budget_of_128_operations) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(greedy, .n = 1280)), 0);
    CHECK_EQ(COUNTER_SUM(rt, polls), 10);
    CHECK_EQ(RUN(rt, AW_CALL(greedy, .n = 1280, .unbudgeted = true)), 0);
    CHECK_EQ(COUNTER_SUM(rt, polls), 11);
    CHECK_EQ(RUN(rt, AW_CALL(greedy, .n = 1280)), 0); /* the next task has a budget again */
    CHECK_EQ(COUNTER_SUM(rt, polls), 21);
    workers_end(rt, NULL);
}

/* ---- Lost wake-ups --------------------------------------------------------------------------- */

static aw_poll forget(void *arg, aw_cx *cx, int *out) {
    (void)cx, (void)out;
    ADD(*(uint32_t *)arg, 1);
    return AW_PENDING;
}

ON_WORKERS(a_task_without_a_waker_is_reported) {
    kept_log log = KEPT_LOG;
    uint32_t polls = 0;
    aw_runtime *rt = workers_new(workers, NULL, &log);
    aw_poll_fn *h = aw_spawn_on(rt, aw_poll_fn_of(forget, &polls));
    WAIT_UNTIL(log_count(&log, "lost wake-up") == 1);
    CHECK_EQ(polls, 1);
    CHECK_EQ(log_count(&log, "tests/behaviour/workers_tasks.c"), 1);
    aw_task_abort(h);
    CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
    aw_task_drop(h);
    workers_end(rt, NULL);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1); /* reported once */
}

static void *drop_waker(void *arg) {
    aw_waker *w = arg;
    aw_waker_wake(*w);
    return NULL;
}

ON_WORKERS(nothing_that_can_be_woken_is_reported) {
    kept_log log = KEPT_LOG;
    aw_runtime *rt = workers_new(workers, NULL, &log);
    for (int i = 0; i < test_scale(200); i++) {
        gate g = GATE;
        struct through *h = aw_spawn_on(rt, through(&g));
        gate_wait(&g, 1);
        aw_waker w = gate_waker(&g);
        gate_forget(&g); /* this thread's waker is the only one, and is consumed by the wake */
        on_a_thread(drop_waker, &w);
        gate_wait(&g, 2);
        gate_open(&g);
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        aw_task_drop(h);
    }
    CHECK_EQ(log.length, 0);
    workers_end(rt, NULL);
}

/* ---- Options --------------------------------------------------------------------------------- */

TEST(a_current_thread_runtime_has_no_workers) {
    aw_worker_counters c;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    CHECK_EQ(aw_runtime_workers(rt), 0);
    CHECK_EQ(aw_runtime_counters(rt, 0, &c), -EINVAL);
    aw_runtime_free(rt);
}

TEST(a_runtime_has_the_requested_number_of_workers) {
    for (uint32_t n = 1; n <= 9; n++) {
        aw_worker_counters c;
        aw_runtime *rt = workers_new(n, NULL, NULL);
        CHECK_EQ(aw_runtime_workers(rt), n);
        CHECK_EQ(aw_runtime_counters(rt, n - 1, &c), 0);
        CHECK_EQ(aw_runtime_counters(rt, n, &c), -EINVAL);
        aw_runtime_free(rt);
    }
}

TEST(without_a_number_there_is_a_worker_for_each_processor) {
    aw_runtime *rt = workers_new(0, NULL, NULL);
    CHECK_GE(aw_runtime_workers(rt), 1);
    CHECK_EQ(RUN(rt, AW_CALL(twice, .n = 4)), 8);
    aw_runtime_free(rt);
}

TEST(options_that_make_no_sense_are_refused) {
    aw_runtime *rt = NULL;
    aw_runtime_options o = workers_options(100000, NULL, NULL);
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
    o.workers = 1;
    o.flavour = (aw_flavour)7;
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
    CHECK_EQ(rt, NULL);
}
