/* SPDX-License-Identifier: MIT
 *
 * A runtime ends while threads spawn tasks on it, wake them, and hold it. All of this is safe. A
 * spawn that comes too late releases its future, and resolves as cancelled. */
#include "support/stress.h"

enum { THREADS = 4, EACH = 50 };

typedef struct closing {
    aw_runtime *rt;
    uint32_t finals, begun, accepted, refused, stop;
    uint32_t started[THREADS];
} closing;

AW_ASYNC(int, late, closing *closing; aw_never never; struct rounds pause;) {
    AW_BEGIN;
    ADD(self->closing->begun, 1);
    AW_AWAIT(self->pause, rounds(1));
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    ADD(self->closing->finals, 1);
    AW_END;
}

static void spawn_late(void *arg, int index, uint64_t *random) {
    closing *c = arg;
    (void)index;
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    for (int i = 0; i < EACH; i++) {
        struct late *h = aw_spawn_on(c->rt, AW_CALL(late, .closing = c));
        int error = aw_task_error(h);
        CHECK(error == 0 || error == -ECANCELED);
        ADD(*(error ? &c->refused : &c->accepted), 1);
        if (error) {
            aw_task_join_future join = aw_task_join(h);
            CHECK_EQ(aw_future_poll(&join.future, &cx), AW_READY);
            CHECK_EQ(join.out, -ECANCELED);
        }
        if (chance(random, 3)) aw_task_abort(h);
        aw_task_drop(h);
        jitter(random);
    }
}

TEST_LIMIT(spawns_of_threads_race_with_the_end, 60) {
    uint64_t random = test_seed();
    uint32_t accepted = 0, refused = 0;
    for (int round = 0; round < stress_rounds(150); round++) {
        memory m;
        thread_group s;
        probe_state l = PROBE_STATE;
        closing c = {.finals = 0};
        memory_init(&m);
        c.rt = runtime_new(&m, NULL, NULL, false);
        /* A thread that calls an ending runtime must own something that keeps its memory: here a
         * handle. */
        struct probe *keeps_it = aw_spawn_on(c.rt, probe_of(&l));
        thread_group_create(&s, THREADS, &random, spawn_late, &c);
        thread_group_go(&s);
        uint32_t wanted = (uint32_t)(test_random(&random) % (THREADS * EACH));
        while (LOAD(c.accepted) < wanted)
            CHECK_EQ(aw_block_on(c.rt, yields(3)), 0);
        aw_runtime_free(c.rt);
        CHECK(aw_task_is_finished(keeps_it));
        thread_group_join(&s);
        CHECK_EQ(c.accepted + c.refused, THREADS * EACH);
        CHECK_EQ(c.finals, THREADS * EACH); /* each was released once */
        CHECK_LE(c.begun, c.accepted);
        aw_task_drop(keeps_it);
        CHECK_EQ(memory_in_use(&m), 0);
        accepted += c.accepted;
        refused += c.refused;
    }
    CHECK_GT(accepted, 0); /* both sides won some races */
    CHECK_GT(refused, 0);
}

/* ---- Holds ----------------------------------------------------------------------------------- */

typedef struct held {
    aw_runtime *rt;
    mailbox box;
} held;

/* Takes and releases a hold, then sends a letter. The hold taken for this thread keeps the runtime
 * from being deadlocked in between. */
static void hold_and_send(void *arg, int index, uint64_t *random) {
    held *h = arg;
    (void)index;
    for (int i = 0; i < EACH; i++) {
        aw_runtime_hold(h->rt);
        jitter(random);
        aw_runtime_unhold(h->rt);
        mailbox_send(&h->box, 1, chance(random, 2));
    }
    aw_runtime_unhold(h->rt); /* the hold taken for this thread */
}

TEST_LIMIT(a_runtime_that_threads_hold_is_never_called_deadlocked, 60) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(200); round++) {
        memory m;
        thread_group s;
        kept_log log = KEPT_LOG;
        held h;
        memory_init(&m);
        mailbox_init(&h.box, THREADS * EACH);
        h.rt = runtime_new(&m, &log, NULL, false);
        for (int i = 0; i < THREADS; i++)
            aw_runtime_hold(h.rt);
        thread_group_create(&s, THREADS, &random, hold_and_send, &h);
        thread_group_go(&s);
        CHECK_EQ(aw_block_on(h.rt, read_from(&h.box)), THREADS * EACH);
        thread_group_join(&s);
        aw_runtime_free(h.rt);
        CHECK_EQ(log.length, 0);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* The last unhold lets the runtime end, and with it the memory that the unhold uses. */
static void unhold_last(void *arg, int index, uint64_t *random) {
    (void)index;
    for (volatile int i = (int)(test_random(random) % 2000); i > 0; i--)
        ;
    aw_runtime_unhold(arg);
}

/* Pending, without a waker: a deadlock once no thread holds the runtime. */
static aw_poll lost_poll(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    (void)cx;
    (void)out;
    return AW_PENDING;
}

TEST_LIMIT(the_unhold_that_proves_a_deadlock_may_meet_the_end_of_the_runtime, 60) {
    uint64_t random = test_seed() + 1;
    for (int round = 0; round < stress_rounds(3000); round++) {
        memory m;
        thread_group s;
        kept_log log = KEPT_LOG;
        memory_init(&m);
        aw_runtime *rt = runtime_new(&m, &log, NULL, false);
        aw_runtime_hold(rt);
        thread_group_create(&s, 1, &random, unhold_last, rt);
        thread_group_go(&s);
        CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(lost_poll, NULL)), -EDEADLK);
        aw_runtime_free(rt);
        thread_group_join(&s);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* A thread has the only reference to a task that the main future joins. It spawns a task that
 * aborts that one, and then drops the reference. At no moment is this a deadlock. */
struct last_act {
    aw_runtime *rt;
    aw_waker waker;
    struct probe *task;
};

AW_ASYNC(int, aborts, struct probe *task;) {
    AW_BEGIN;
    aw_task_abort(self->task);
    AW_RETURN(0);
    AW_END;
}

static void act_last(void *arg, int index, uint64_t *random) {
    struct last_act *l = arg;
    (void)index;
    for (volatile int i = (int)(test_random(random) % 1000); i > 0; i--)
        ;
    aw_task_drop(aw_spawn_on(l->rt, AW_CALL(aborts, .task = l->task)));
    aw_waker_drop(l->waker);
}

/* Drops the probe's own clone, so that the thread's clone is the last. */
static aw_poll drop_clone(void *arg, aw_cx *cx, int *out) {
    probe_state *l = arg;
    (void)cx;
    (void)out;
    aw_waker_drop(aw_waker_take(&l->waker));
    return AW_READY;
}

TEST_LIMIT(a_thread_that_spawns_and_then_drops_the_last_waker_proves_no_deadlock, 60) {
    uint64_t random = test_seed() + 2;
    for (int round = 0; round < stress_rounds(3000); round++) {
        thread_group s;
        kept_log log = KEPT_LOG;
        probe_state l = PROBE_STATE;
        struct last_act last = {.rt = runtime_new(NULL, &log, NULL, false)};
        last.task = aw_spawn_on(last.rt, probe_of(&l));
        run_a_while(last.rt);
        last.waker = aw_waker_clone(&l.waker); /* for the thread */
        CHECK_EQ(aw_block_on(last.rt, aw_poll_fn_of(drop_clone, &l)), 0);
        thread_group_create(&s, 1, &random, act_last, &last);
        thread_group_go(&s);
        CHECK_EQ(aw_block_on(last.rt, aw_task_join(last.task)), -ECANCELED);
        thread_group_join(&s);
        aw_task_drop(last.task);
        aw_runtime_free(last.rt);
        CHECK_EQ(log.length, 0);
        CHECK_EQ(l.cancels, 1);
    }
}

/* ---- Runtimes on many threads ---------------------------------------------------------------- */

static void run_small_programs(void *arg, int index, uint64_t *random) {
    (void)index;
    for (int i = 0; i < stress_rounds(300); i++) {
        closing c = {.finals = 0};
        aw_runtime_options o = AW_RUNTIME_OPTIONS;
        o.keep_tasks = true;
        o.allocator = arg;
        CHECK_EQ(aw_runtime_new(&c.rt, &o), 0);
        int tasks = (int)(test_random(random) % 10);
        for (int k = 0; k < tasks; k++)
            aw_task_drop(aw_spawn_on(c.rt, AW_CALL(late, .closing = &c)));
        CHECK_EQ(aw_block_on(c.rt, rounds(3)), 0);
        aw_runtime_free(c.rt);
        CHECK_EQ(c.finals, tasks);
        CHECK_EQ(c.begun, tasks);
    }
}

TEST_LIMIT(runtimes_on_eight_threads_do_not_disturb_each_other, 60) {
    uint64_t random = test_seed();
    memory m;
    thread_group s;
    thread_group_create(&s, MAX_THREADS, &random, run_small_programs,
                        (void *)(uintptr_t)memory_init(&m));
    thread_group_go(&s);
    thread_group_join(&s);
    CHECK_EQ(memory_in_use(&m), 0);
}
