/* SPDX-License-Identifier: MIT
 *
 * Timers on workers, in real time: never early, whichever worker has the task by then; cancelled
 * at once from any worker. Lateness is not checked, beyond telling "late" from "never". */
#include "support/workers.h"

/* ---- Never early ----------------------------------------------------------------------------- */

AW_ASYNC(int, sleeps, uint64_t duration; uint64_t due; aw_sleep sleep;) {
    AW_BEGIN;
    self->due = aw_now(NULL) + self->duration;
    AW_AWAIT(self->sleep, aw_sleep_for(self->duration));
    CHECK_GE(aw_now(NULL), self->due);
    AW_AWAIT(self->sleep, aw_sleep_until(self->due + self->duration / 2));
    CHECK_GE(aw_now(NULL), self->due + self->duration / 2);
    AW_RETURN(self->sleep.out);
    AW_END;
}

AW_ASYNC(int, spawns_sleeps, int count; int i; uint64_t random; struct sleeps * h[200];
         aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < self->count; i++)
        self->h[i] = aw_spawn(
            AW_CALL(sleeps, .duration = test_random(&self->random) % AW_MSEC(20)));
    for (self->i = 0; self->i < self->count; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->h[self->i]));
        CHECK_EQ(aw_task_take(self->h[self->i]), 0);
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(no_sleep_ends_early) {
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(RUN(rt, AW_CALL(spawns_sleeps, .count = 200, .random = test_seed() + (uint64_t)i)),
                 0);
    workers_end(rt, &m);
}

static void *block_on_sleeps(void *arg) {
    for (int i = 0; i < 20; i++)
        CHECK_EQ(aw_block_on(arg, AW_CALL(sleeps, .duration = AW_USEC(100) * (uint64_t)i)), 0);
    return NULL;
}

ON_WORKERS(threads_in_block_on_sleep_by_the_timers_of_the_workers) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start(block_on_sleeps, rt);
    for (int i = 0; i < 4; i++)
        thread_end(threads[i]);
    workers_end(rt, NULL);
}

static aw_poll poll_once(void *arg, aw_cx *cx, int *out) {
    *out = 0;
    return aw_future_poll(arg, cx) == AW_READY ? AW_READY : (FAIL("pending"), AW_PENDING);
}

ON_WORKERS(a_zero_or_past_sleep_is_ready_at_the_first_poll) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    aw_sleep zero = aw_sleep_for(0), past = aw_sleep_until(1);
    CHECK_EQ(RUN(rt, aw_poll_fn_of(poll_once, &zero)), 0);
    CHECK_EQ(RUN(rt, aw_poll_fn_of(poll_once, &past)), 0);
    workers_end(rt, NULL);
}

typedef AW_SELECT(aw_sleep, aw_sleep, aw_sleep) three_sleeps;
AW_ASYNC(int, tiny_and_huge, three_sleeps s;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->s, aw_sleep_for(UINT64_MAX), aw_sleep_for(AW_USEC(50)),
                    aw_sleep_for(AW_SEC(1000000)));
    AW_RETURN(aw_select_winner(&self->s));
    AW_END;
}

ON_WORKERS(a_huge_and_a_tiny_sleep_end_by_the_tiny_one) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(RUN(rt, AW_CALL(tiny_and_huge)), 1);
    workers_end(rt, NULL);
}

/* The next timer is far away when a near one is set, by a thread that is not a worker. */
ON_WORKERS(an_earlier_timer_wakes_a_worker_that_sleeps_for_a_later_one) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    aw_sleep *far = aw_spawn_on(rt, aw_sleep_for(AW_SEC(3600)));
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_USEC(500))), 0);
        CHECK_EQ(RUN(rt, aw_sleep_for(AW_USEC(500))), 0);
    }
    CHECK(!aw_task_is_finished(far));
    aw_task_drop(far);
    workers_end(rt, NULL);
}

/* ---- Cancelled and moved by another worker --------------------------------------------------- */

typedef AW_SELECT(aw_sleep, struct through) sleep_or_gate;
AW_ASYNC(int, sleeps_or_leaves, gate *gate; sleep_or_gate s;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->s, aw_sleep_for(AW_SEC(3600)), through(self->gate));
    AW_RETURN(aw_select_winner(&self->s));
    AW_END;
}

/* Woken from outside, the tasks run on whichever worker is free: the timer is in another
 * worker's wheel. */
ON_WORKERS(a_task_that_moved_cancels_its_timer_at_once) {
    enum { TASKS = 100 };
    static gate g[TASKS];
    struct sleeps_or_leaves *h[TASKS];
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    uint64_t begin = test_now_ns();
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < TASKS; i++) {
            g[i] = (gate)GATE;
            h[i] = aw_spawn_on(rt, AW_CALL(sleeps_or_leaves, .gate = &g[i]));
        }
        for (int i = 0; i < TASKS; i++) {
            gate_wait(&g[i], 1);
            gate_wake(&g[i]);
        }
        for (int i = 0; i < TASKS; i++) {
            gate_wait(&g[i], 2);
            if (i % 2)
                gate_open(&g[i]);
            else
                aw_task_abort(h[i]);
        }
        for (int i = 0; i < TASKS; i++) {
            CHECK_EQ(JOIN_STATUS(rt, h[i]), i % 2 ? 0 : -ECANCELED);
            if (i % 2) CHECK_EQ(h[i]->out, 1);
            aw_task_drop(h[i]);
        }
    }
    CHECK_LT(test_now_ns() - begin, AW_SEC(15));
    workers_end(rt, &m);
}

/* Set on one worker, moved by a task on another; the two alternate. */
typedef struct shared_sleep {
    aw_sleep sleep;
    uint64_t begin;
} shared_sleep;

/* It stays until the other task owns the sleep: until then the sleep uses this task's waker. */
AW_ASYNC(int, begins_sleep, shared_sleep *s; gate * gate; struct through wait;) {
    AW_BEGIN;
    self->s->begin = aw_now(NULL);
    self->s->sleep = aw_sleep_until(self->s->begin + AW_SEC(3600));
    CHECK_EQ(aw_future_poll(&self->s->sleep.future, cx), AW_PENDING);
    AW_AWAIT(self->wait, through(self->gate));
    AW_RETURN(0);
    AW_END;
}
static aw_poll reset_sleep(void *arg, aw_cx *cx, int *out) {
    shared_sleep *s = arg;
    *out = 0;
    if (s->begin) {
        aw_sleep_reset(&s->sleep, s->begin + AW_MSEC(2));
        s->begin = 0;
    }
    return aw_future_poll(&s->sleep.future, cx);
}
static aw_poll stop_sleep(void *arg, aw_cx *cx, int *out) {
    shared_sleep *s = arg;
    *out = aw_future_cancel(&s->sleep.future, cx) == AW_CANCELLED;
    return AW_READY;
}

ON_WORKERS(a_sleep_is_reset_or_cancelled_by_another_task) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < 40; i++) {
        shared_sleep s;
        gate g = GATE;
        struct begins_sleep *h = aw_spawn_on(rt, AW_CALL(begins_sleep, .s = &s, .gate = &g));
        gate_wait(&g, 1);
        uint64_t due = s.begin + AW_MSEC(2);
        if (i % 2) {
            CHECK_EQ(RUN(rt, aw_poll_fn_of(reset_sleep, &s)), 0);
            CHECK_GE(aw_now(rt), due);
        } else {
            CHECK_EQ(RUN(rt, aw_poll_fn_of(stop_sleep, &s)), 1);
        }
        gate_open(&g);
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        aw_task_drop(h);
    }
    workers_end(rt, NULL);
}

/* ---- Timeouts and intervals ------------------------------------------------------------------ */

typedef AW_TIMEOUT(aw_ready) ready_timeout;
typedef AW_TIMEOUT(struct through) gate_timeout;
AW_ASYNC(int, timeouts, gate *gate; ready_timeout now; gate_timeout later; uint64_t due;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->now, 0, aw_ready_now(5));
    CHECK_EQ(self->now.out, 0); /* a value that is there counts, whatever the time */
    CHECK_EQ(self->now.inner.out, 5);
    self->due = aw_now(NULL) + AW_MSEC(1);
    AW_AWAIT_FOR(self->later, AW_MSEC(1), through(self->gate));
    CHECK_GE(aw_now(NULL), self->due);
    AW_RETURN(self->later.out);
    AW_END;
}

ON_WORKERS(a_timeout_gives_up_or_gives_the_value) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < 20; i++) {
        gate g = GATE;
        g.wins = i % 2;
        CHECK_EQ(RUN(rt, AW_CALL(timeouts, .gate = &g)), i % 2 ? 0 : -ETIMEDOUT);
        CHECK_EQ(g.ends, 1);
    }
    workers_end(rt, NULL);
}

AW_ASYNC(int, ticks, aw_interval interval; uint64_t start; uint64_t i; aw_tick tick;) {
    AW_BEGIN;
    self->start = aw_now(NULL);
    CHECK_EQ(aw_interval_from(&self->interval, self->start, AW_USEC(300), AW_BURST), 0);
    for (self->i = 0; self->i < 30; self->i++) {
        AW_AWAIT(self->tick, aw_interval_tick(&self->interval));
        CHECK_EQ(self->tick.out, 0);
        CHECK_EQ(self->tick.at, self->start + self->i * AW_USEC(300));
        CHECK_GE(aw_now(NULL), self->tick.at);
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(an_interval_keeps_its_schedule_wherever_it_ticks) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    struct ticks *h[10];
    for (int i = 0; i < 10; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(ticks));
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        aw_task_drop(h[i]);
    }
    workers_end(rt, NULL);
}

/* ---- Inside a wake --------------------------------------------------------------------------- */

/* Many timers at one moment, and each of their tasks cancels timers of the same moment. */
AW_ASYNC(int, hundred_at_once, uint64_t at; aw_sleep sleeps[100]; aw_all all;) {
    AW_BEGIN;
    for (int i = 0; i < 100; i++)
        self->sleeps[i] = aw_sleep_until(self->at + (uint64_t)(i % 2));
    AW_AWAIT(self->all, aw_select_all(self->sleeps, 100));
    CHECK_GE(aw_now(NULL), self->at);
    aw_select_all_winner(&self->all);
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_hundred_timers_are_dropped_when_one_of_them_fires) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int round = 0; round < 10; round++) {
        struct hundred_at_once *h[20];
        uint64_t at = aw_now(rt) + AW_MSEC(2);
        for (int i = 0; i < 20; i++)
            h[i] = aw_spawn_on(rt, AW_CALL(hundred_at_once, .at = at));
        for (int i = 0; i < 20; i++) {
            CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
            aw_task_drop(h[i]);
        }
    }
    workers_end(rt, NULL);
}
