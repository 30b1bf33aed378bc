/* SPDX-License-Identifier: MIT
 *
 * Timers of threads that run their own loops. They enter a runtime that another thread runs, and
 * start, move and cancel sleeps on its wheel while it fires them. Nothing fires early, everything
 * fires, and an ended sleep is not accessed again. */
#include "support/stress.h"

enum { THREADS = 4, SLEEPS = 16 };

typedef struct clockwork {
    aw_runtime *rt;
    uint32_t ended, cancelled, moved;
    int iterations;
} clockwork;

/* The executor of a thread: a parker, and sleeps that it polls when it is unparked. */
typedef struct loop {
    aw_parker *parker;
    /* The waker of some polls. Static storage: it may be woken after the sleeps have ended. */
    aw_flag *flag;
    aw_sleep *sleeps[SLEEPS];
    uint64_t deadlines[SLEEPS];
} loop;

static void start_sleep(clockwork *c, loop *l, int i, uint64_t *random) {
    uint64_t d = test_random(random) % 5 ? test_random(random) % AW_USEC(300) : 0;
    l->sleeps[i] = malloc(sizeof(aw_sleep)); /* ASan sees a late access */
    l->deadlines[i] = aw_now(c->rt) + d;
    if (chance(random, 2))
        *l->sleeps[i] = aw_sleep_until(l->deadlines[i]);
    else
        *l->sleeps[i] = aw_sleep_for(d);
}

static void end_sleep(loop *l, int i) {
    memset(l->sleeps[i], 0xa5, sizeof(aw_sleep));
    free(l->sleeps[i]);
    l->sleeps[i] = NULL;
}

static void poll_sleep(clockwork *c, loop *l, int i, aw_cx *cx) {
    if (aw_future_poll(&l->sleeps[i]->future, cx) == AW_PENDING) return;
    CHECK_EQ(l->sleeps[i]->out, 0);
    CHECK_GE(aw_now(c->rt), l->deadlines[i]); /* never early */
    ADD(c->ended, 1);
    end_sleep(l, i);
}

static void disturb_sleep(clockwork *c, loop *l, int i, aw_cx *cx, uint64_t *random) {
    if (chance(random, 2)) {
        aw_poll r = aw_future_cancel(&l->sleeps[i]->future, cx);
        CHECK_NE(r, AW_PENDING);
        if (r == AW_READY) CHECK_GE(aw_now(c->rt), l->deadlines[i]);
        ADD(c->cancelled, 1);
        end_sleep(l, i);
    } else {
        l->deadlines[i] = aw_now(c->rt) + test_random(random) % AW_USEC(300);
        aw_sleep_reset(l->sleeps[i], l->deadlines[i]);
        ADD(c->moved, 1);
    }
}

static void run_loop(void *arg, int index, uint64_t *random) {
    clockwork *c = arg;
    static aw_flag flags[64];
    loop l = {.parker = aw_parker_new(), .flag = &flags[index % 64]};
    aw_runtime *previous = aw_enter(c->rt);
    aw_waker park = aw_parker_waker(l.parker), flag = aw_flag_waker(l.flag);
    for (int iteration = 0; iteration < c->iterations; iteration++) {
        /* Sometimes polls with a waker that nothing waits for, and then again with the parker's. */
        bool other_waker = chance(random, 8);
        aw_cx cx = aw_cx_from_waker(other_waker ? &flag : &park);
        for (int i = 0; i < SLEEPS; i++) {
            if (!l.sleeps[i]) start_sleep(c, &l, i, random);
            poll_sleep(c, &l, i, &cx);
            if (l.sleeps[i] && chance(random, 16)) disturb_sleep(c, &l, i, &cx, random);
        }
        if (!other_waker)
            aw_parker_park_until(l.parker, test_now_ns() + AW_USEC(test_random(random) % 200));
    }
    /* Then waits until the last sleep has fired, woken by nothing else. */
    aw_cx cx = aw_cx_from_waker(&park);
    for (bool waiting = true; waiting;) {
        waiting = false;
        for (int i = 0; i < SLEEPS; i++)
            if (l.sleeps[i]) {
                poll_sleep(c, &l, i, &cx);
                waiting |= l.sleeps[i] != NULL;
            }
        if (waiting) aw_parker_park(l.parker);
    }
    aw_leave(previous);
    aw_parker_free(l.parker);
}

/* Meanwhile the runtime has timers of its own, and sleeps between them. */
AW_ASYNC(int, own_timers, uint32_t *stop; uint64_t random; uint64_t deadline; aw_sleep nap;) {
    AW_BEGIN;
    while (!LOAD(*self->stop)) {
        self->deadline = aw_now(NULL) + test_random(&self->random) % AW_USEC(200);
        AW_AWAIT(self->nap, aw_sleep_until(self->deadline));
        CHECK_GE(aw_now(NULL), self->deadline);
    }
    AW_RETURN(0);
    AW_END;
}

static void *run_it(void *arg) {
    host *h = arg;
    CHECK_EQ(aw_block_on(h->rt, aw_notify_wait(&h->stop)), 0);
    return NULL;
}

static void run_clockwork(uint64_t *random, int iterations, bool own) {
    memory m;
    kept_log log = KEPT_LOG;
    thread_group s;
    uint32_t stop = 0;
    memory_init(&m);
    clockwork c = {.rt = runtime_new(&m, &log, NULL, false), .iterations = iterations};
    host h = {.rt = c.rt};
    if (own)
        for (int i = 0; i < 4; i++)
            aw_task_drop(aw_spawn_on(
                c.rt, AW_CALL(own_timers, .stop = &stop, .random = test_random(random))));
    h.thread = thread_start(run_it, &h);
    thread_group_create(&s, THREADS, random, run_loop, &c);
    thread_group_go(&s);
    thread_group_join(&s);
    STORE(stop, 1);
    host_stop(&h);
    aw_runtime_free(c.rt);
    CHECK_EQ(log.length, 0); /* no sleep remains in the wheel */
    CHECK_GT(c.ended, 0);
    CHECK_GT(c.cancelled, 0);
    CHECK_GT(c.moved, 0);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST_LIMIT(loops_of_four_threads_sleep_on_one_runtime, 60) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(5); round++)
        run_clockwork(&random, 200, round % 2);
}

TEST_LIMIT(an_earlier_timer_of_another_thread_wakes_a_sleeping_runtime, 60) {
    host h;
    host_start(&h, NULL);
    aw_sleep *far = aw_spawn_on(h.rt, aw_sleep_for(AW_SEC(3600)));
    aw_runtime *previous = aw_enter(h.rt);
    aw_parker *parker = aw_parker_new();
    aw_waker w = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&w);
    for (int i = 0; i < stress_rounds(300); i++) {
        uint64_t begin = aw_now(h.rt), d = AW_USEC((uint64_t)i % 100);
        aw_sleep s = aw_sleep_for(d);
        while (aw_future_poll(&s.future, &cx) == AW_PENDING)
            aw_parker_park(parker); /* only the sleep ends this */
        CHECK_GE(aw_now(h.rt) - begin, d);
    }
    aw_parker_free(parker);
    aw_leave(previous);
    aw_task_abort(far);
    CHECK_EQ(JOIN_STATUS(h.rt, far), -ECANCELED);
    aw_task_drop(far);
    host_stop(&h);
    aw_runtime_free(h.rt);
}
