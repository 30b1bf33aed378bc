/* SPDX-License-Identifier: MIT
 *
 * Fibers on workers: each stays on the thread that first ran it, whichever thread wakes it; they
 * are spread evenly; and fibers and tasks do not starve each other. */
#include <sys/syscall.h>
#include <unistd.h>

#include "support/workers.h"

static int tid(void) {
    return (int)syscall(SYS_gettid);
}

/* ---- Staying --------------------------------------------------------------------------------- */

AW_FIBER(int, stays, aw_notify *notify; gate * gate; struct through * other;) {
    int here = tid();
    errno = here;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(aw_fiber_yield(), 0);
        CHECK_EQ(tid(), here);
        CHECK_EQ(aw_await(aw_sleep_for(AW_USEC(100))), 0);
        CHECK_EQ(tid(), here);
        CHECK_EQ(aw_await(through(self->gate)), 7);
        CHECK_EQ(tid(), here);
        CHECK_EQ(aw_await(aw_notify_wait(self->notify)), 0);
        CHECK_EQ(tid(), here);
        CHECK_EQ(aw_await(rounds(3)), 0);
        CHECK_EQ(tid(), here);
    }
    return here;
}

AW_ASYNC(int, notifies, aw_notify *notify; int i; aw_yield pause;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 5; self->i++) {
        aw_notify_one(self->notify);
        AW_AWAIT(self->pause, aw_yield_now());
    }
    AW_RETURN(0);
    AW_END;
}

/* Woken by timers, by a thread, and by tasks on any worker. */
ON_WORKERS(a_fiber_stays_on_its_thread_across_awaits) {
    enum { FIBERS = 24 };
    static gate g[FIBERS];
    static aw_notify n[FIBERS];
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    struct stays *h[FIBERS];
    for (int i = 0; i < FIBERS; i++) {
        g[i] = (gate)GATE;
        h[i] = aw_spawn_on(rt, AW_CALL(stays, .notify = &n[i], .gate = &g[i]));
    }
    for (int i = 0; i < FIBERS; i++)
        gate_open(&g[i]);
    for (int left = FIBERS; left;) {
        left = 0;
        for (int i = 0; i < FIBERS; i++) {
            left += !aw_task_is_finished(h[i]);
            CHECK_EQ(RUN(rt, AW_CALL(notifies, .notify = &n[i])), 0);
        }
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        CHECK_NE(aw_task_take(h[i]), tid());
    }
    workers_end(rt, &m);
}

AW_FIBER(int, where, gate *gate;) {
    CHECK_EQ(aw_await(through(self->gate)), 7);
    return tid();
}

ON_WORKERS(fibers_are_spread_evenly) {
    enum { EACH = 10 };
    static gate g[8 * EACH];
    struct where *h[8 * EACH];
    int tids[8 * EACH];
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    int count = (int)workers * EACH;
    for (int i = 0; i < count; i++) {
        g[i] = (gate)GATE;
        h[i] = aw_spawn_on(rt, AW_CALL(where, .gate = &g[i]));
    }
    for (int i = 0; i < count; i++)
        gate_open(&g[i]);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        tids[i] = aw_task_take(h[i]);
    }
    for (int i = 0; i < count; i++) {
        int same = 0;
        for (int k = 0; k < count; k++)
            same += tids[k] == tids[i];
        CHECK_EQ(same, EACH);
    }
    workers_end(rt, NULL);
}

/* A task that awaits a fiber must not leave the fiber's thread while the fiber lives. */
AW_ASYNC(int, awaits_fiber, gate *gate; struct where fiber; struct rounds pause; int here;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, rounds(5));
    AW_AWAIT(self->fiber, AW_CALL(where, .gate = self->gate));
    AW_RETURN(self->fiber.out);
    AW_END;
}

typedef AW_JOIN(struct where, struct where) two_fibers;
AW_ASYNC(int, awaits_two, gate *a; gate * b; two_fibers two;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->two, AW_CALL(where, .gate = self->a), AW_CALL(where, .gate = self->b));
    CHECK_EQ(self->two.f0.out, self->two.f1.out);
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_task_that_awaits_a_fiber_stays_with_it) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(200); i++) {
        gate a = GATE, b = GATE, c = GATE;
        struct awaits_fiber *one = aw_spawn_on(rt, AW_CALL(awaits_fiber, .gate = &a));
        struct awaits_two *two = aw_spawn_on(rt, AW_CALL(awaits_two, .a = &b, .b = &c));
        gate_wait(&c, 1);
        for (int k = 0; k < 5; k++)
            gate_wake(&c);
        gate_open(&a);
        gate_open(&b);
        gate_open(&c);
        CHECK_EQ(JOIN_STATUS(rt, one), 0);
        CHECK_EQ(JOIN_STATUS(rt, two), 0);
        aw_task_drop(one);
        aw_task_drop(two);
    }
    workers_end(rt, NULL);
}

/* Above thirty children, each has its own waker, and their waits are counted separately. */
enum { CROWD = 40 };
struct crowd {
    gate gates[CROWD];
    struct where fibers[CROWD];
};
AW_ASYNC(int, awaits_many, struct crowd *crowd; aw_all all; int i;) {
    AW_BEGIN;
    for (self->i = 0; self->i < CROWD; self->i++)
        self->crowd->fibers[self->i] = AW_CALL(where, .gate = &self->crowd->gates[self->i]);
    AW_AWAIT(self->all, aw_join_all(self->crowd->fibers, CROWD));
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(a_task_that_awaits_many_fibers_stays_with_them) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(50); i++) {
        struct crowd crowd;
        for (int k = 0; k < CROWD; k++)
            crowd.gates[k] = (gate)GATE;
        struct awaits_many *h = aw_spawn_on(rt, AW_CALL(awaits_many, .crowd = &crowd));
        for (int k = 0; k < CROWD; k++) {
            gate_wait(&crowd.gates[k], 1);
            gate_open(&crowd.gates[k]);
        }
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        for (int k = 1; k < CROWD; k++)
            CHECK_EQ(crowd.fibers[k].out, crowd.fibers[0].out);
        aw_task_drop(h);
    }
    workers_end(rt, NULL);
}

/* ---- Fibers and tasks together --------------------------------------------------------------- */

static uint32_t stopped;

AW_FIBER(int, yields_until_stopped, uint64_t *polls;) {
    while (!LOAD(stopped)) {
        ADD(*self->polls, 1);
        aw_fiber_yield();
    }
    return 0;
}

AW_ASYNC(int, yields, uint64_t *polls; aw_yield pause;) {
    AW_BEGIN;
    while (!LOAD(stopped)) {
        ADD(*self->polls, 1);
        AW_AWAIT(self->pause, aw_yield_now());
    }
    AW_RETURN(0);
    AW_END;
}

ON_WORKERS(fibers_that_only_yield_let_tasks_and_timers_through) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    uint64_t polls = 0;
    for (uint32_t i = 0; i < 2 * workers; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(yields_until_stopped, .polls = &polls)));
    WAIT_UNTIL(LOAD(polls) > 10 * workers);
    CHECK_EQ(RUN(rt, rounds(20)), 0);
    CHECK_EQ(RUN(rt, aw_sleep_for(AW_MSEC(2))), 0);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(2))), 0);
    STORE(stopped, 1);
    workers_end(rt, NULL);
}

ON_WORKERS(tasks_that_only_yield_let_fibers_through) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    uint64_t polls = 0;
    gate g = GATE;
    for (uint32_t i = 0; i < 2 * workers; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(yields, .polls = &polls)));
    WAIT_UNTIL(LOAD(polls) > 10 * workers);
    struct where *h[8];
    g.open = true;
    for (uint32_t i = 0; i < workers; i++) {
        h[i] = aw_spawn_on(rt, AW_CALL(where, .gate = &g));
        CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
        aw_task_drop(h[i]);
    }
    STORE(stopped, 1);
    workers_end(rt, NULL);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

typedef struct ending {
    int begun, ended, cancelled;
    uint32_t drops;
} ending;

AW_FIBER(int, cleans_up, ending *ending; gate * gate;) {
    self->ending->begun = tid();
    int r = aw_await(through(self->gate));
    self->ending->cancelled = r == -ECANCELED && aw_cancelled();
    AW_SHIELD {
        CHECK_EQ(aw_await(aw_sleep_for(AW_USEC(50))), 0);
    }
    self->ending->ended = tid();
    return r;
}
AW_FIBER_DROP(cleans_up) {
    ADD(self->ending->drops, 1);
}

ON_WORKERS(an_aborted_fiber_cleans_up_on_its_own_thread) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < 30; i++) {
        ending e = {0};
        gate g = GATE;
        struct cleans_up *h = aw_spawn_on(rt, AW_CALL(cleans_up, .ending = &e, .gate = &g));
        if (i % 2) gate_wait(&g, 1);
        aw_task_abort(h);
        CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
        aw_task_drop(h);
        CHECK_EQ(e.drops, e.begun == 0); /* it may not have reached its first poll */
        CHECK_EQ(e.begun, e.ended);
        CHECK_EQ(e.cancelled, e.begun != 0);
    }
    workers_end(rt, NULL);
}

ON_WORKERS(fibers_end_with_their_runtime) {
    enum { FIBERS = 40 };
    static ending e[FIBERS];
    static gate g[FIBERS];
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < FIBERS; i++) {
        g[i] = (gate)GATE;
        aw_task_drop(aw_spawn_on(rt, AW_CALL(cleans_up, .ending = &e[i], .gate = &g[i])));
    }
    workers_end(rt, &m);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(e[i].drops, e[i].begun == 0);
        CHECK_EQ(e[i].begun, e[i].ended);
    }
}

AW_FIBER(int, fails_inside, aw_yield pause;) {
    aw_fiber_yield();
    return aw_fiber_fail(-EPROTO);
}

ON_WORKERS(a_fiber_fails_its_task) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    struct fails_inside *h = aw_spawn_on(rt, AW_CALL(fails_inside));
    CHECK_EQ(JOIN_STATUS(rt, h), -EPROTO);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

/* A fiber as the main future is polled by the thread that blocks on it. */
ON_WORKERS(a_fiber_of_block_on_runs_on_the_thread_that_blocks) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    gate g = GATE;
    g.open = true;
    CHECK_EQ(aw_block_on(rt, AW_CALL(where, .gate = &g)), tid());
    workers_end(rt, NULL);
}

/* ---- Between fibers -------------------------------------------------------------------------- */

typedef struct court {
    aw_notify side[2];
    int rallies;
} court;

AW_FIBER(int, plays, court *court; int side;) {
    for (int i = 0; i < self->court->rallies; i++) {
        if (self->side == 0) aw_notify_one(&self->court->side[1]);
        CHECK_EQ(aw_await(aw_notify_wait(&self->court->side[self->side])), 0);
        if (self->side == 1) aw_notify_one(&self->court->side[0]);
    }
    return 0;
}

/* Each on its own worker, if there are two. */
ON_WORKERS(fibers_on_different_workers_wake_each_other) {
    court c = {.rallies = test_scale(2000)};
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    struct plays *a = aw_spawn_on(rt, AW_CALL(plays, .court = &c, .side = 0));
    struct plays *b = aw_spawn_on(rt, AW_CALL(plays, .court = &c, .side = 1));
    CHECK_EQ(JOIN_STATUS(rt, a), 0);
    CHECK_EQ(JOIN_STATUS(rt, b), 0);
    aw_task_drop(a);
    aw_task_drop(b);
    workers_end(rt, NULL);
}
