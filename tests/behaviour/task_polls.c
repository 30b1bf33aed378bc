/* SPDX-License-Identifier: MIT
 *
 * When tasks are polled: not once too often, and none is starved. */
#include "support/tasks.h"

/* ---- Exact counts ---------------------------------------------------------------------------- */

TEST(start_one_notification_and_end_are_two_polls) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    if (!aw_runtime_workers(rt)) CHECK_EQ(l.polls, 0);
    for (int i = 0; i < 5; i++)
        run_a_while(rt);
    CHECK_EQ(l.polls, 1);
    probe_finish(&l);
    for (int i = 0; i < 5; i++)
        run_a_while(rt);
    CHECK_EQ(l.polls, 2);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(l.polls, 2);
    CHECK_EQ(l.cancels, 0);
}

TEST(the_main_future_is_polled_once_when_it_is_ready) {
    probe_state l = PROBE_STATE;
    l.answer = AW_READY;
    CHECK_EQ(aw_run_status(probe_of(&l)), 0);
    CHECK_EQ(l.polls, 1);
}

TEST(many_wakes_before_a_poll_are_one_poll) {
    ON_THIS_THREAD("the task does not run between two wakes");
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, probe_of(&l)));
    run_a_while(rt);
    for (int i = 0; i < 10; i++)
        probe_wake(&l);
    run_a_while(rt);
    run_a_while(rt);
    CHECK_EQ(l.polls, 2);
    aw_runtime_free(rt);
}

static void wake_itself(probe_state *l, aw_cx *cx) {
    if (l->polls > 3) return;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    aw_cx_yield(cx);
}

TEST(a_wake_during_its_own_poll_is_one_more_poll) {
    probe_state l = PROBE_STATE;
    l.during_poll = wake_itself;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, probe_of(&l)));
    for (int i = 0; i < 10; i++)
        run_a_while(rt);
    CHECK_EQ(l.polls, 4);
    aw_runtime_free(rt);
}

/* Wakes itself while it finishes, and leaves a waker behind. */
static void wake_while_finishing(probe_state *l, aw_cx *cx) {
    if (l->answer != AW_READY) return;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    aw_cx_yield(cx);
    *(aw_waker *)l->arg = aw_waker_clone(aw_cx_waker(cx));
}

TEST(a_wake_in_its_last_poll_and_wakes_after_its_end_are_harmless) {
    memory m;
    probe_state l = PROBE_STATE;
    aw_waker late;
    memory_init(&m);
    l.during_poll = wake_while_finishing;
    l.arg = &late;
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    probe_finish(&l);
    run_a_while(rt);
    CHECK_EQ(l.polls, 2);
    for (int i = 0; i < 10; i++)
        aw_waker_wake_by_ref(&late);
    run_a_while(rt);
    CHECK_EQ(l.polls, 2);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_waker_wake(late);
    aw_runtime_free(rt);
    CHECK_EQ(l.polls, 2);
    CHECK_EQ(memory_in_use(&m), 0);
}

static void *wake_elsewhere(void *arg) {
    probe_state *l = arg;
    for (int i = 0; i < 10; i++)
        aw_waker_wake_by_ref(&l->waker);
    return NULL;
}

TEST(many_wakes_from_a_thread_are_one_poll) {
    ON_THIS_THREAD("the task does not run between two wakes");
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, probe_of(&l)));
    run_a_while(rt);
    on_a_thread(wake_elsewhere, &l); /* the runtime is not run meanwhile */
    run_a_while(rt);
    run_a_while(rt);
    CHECK_EQ(l.polls, 2);
    aw_runtime_free(rt);
}

TEST(cloning_and_dropping_wakers_polls_no_task) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, probe_of(&l)));
    run_a_while(rt);
    for (int i = 0; i < 10; i++)
        aw_waker_drop(aw_waker_clone(&l.waker));
    run_a_while(rt);
    CHECK_EQ(l.polls, 1);
    aw_runtime_free(rt);
}

/* Polls a join, and counts how often. */
struct counting_join {
    aw_future future;
    int out;
    aw_task_join_future join;
    int *polls;
};

static aw_poll counting_join_poll(aw_future *self, aw_cx *cx) {
    struct counting_join *c = (struct counting_join *)self;
    ++*c->polls;
    return aw_future_poll(&c->join.future, cx);
}

static const aw_future_type counting_join_type = {
    AW_TYPE_OF(struct counting_join, "counting_join"),
    .poll = counting_join_poll,
};

TEST(a_joiner_is_polled_once_more_when_the_task_ends_and_not_before) {
    int polls = 0;
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    struct counting_join *j = aw_spawn_on(
        rt,
        ((struct counting_join){AW_FUTURE_INIT(&counting_join_type), 0, aw_task_join(h), &polls}));
    run_a_while(rt);
    CHECK_EQ(polls, 1);
    probe_wake(&l);
    run_a_while(rt);
    CHECK_EQ(polls, 1);
    probe_finish(&l);
    run_a_while(rt);
    CHECK_EQ(polls, 2);
    CHECK(aw_task_is_finished(j));
    aw_task_drop(h);
    aw_task_drop(j);
    aw_runtime_free(rt);
}

AW_ASYNC(int, count_polls, int *polls;) {
    AW_BEGIN;
    for (;;) {
        ADD(*self->polls, 1);
        AW_YIELD;
    }
    AW_RETURN(0);
    AW_END;
}

TEST(nothing_runs_after_the_main_future_has_ended) {
    ON_THIS_THREAD("workers run on");
    int polls = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(count_polls, .polls = &polls)));
    CHECK_EQ(aw_block_on(rt, aw_ready_now(3)), 3);
    CHECK_EQ(polls, 0); /* the main future comes first */
    CHECK_EQ(aw_block_on(rt, rounds(10)), 0);
    CHECK_EQ(polls, 10);
    aw_runtime_free(rt);
    CHECK_EQ(polls, 10);
}

/* ---- No starvation --------------------------------------------------------------------------- */

/* A task that wakes itself in each poll, without yielding. */
static aw_poll busy_poll(void *arg, aw_cx *cx, int *out) {
    (void)out;
    ADD(*(long *)arg, 1);
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

TEST(tasks_that_only_yield_let_timers_through) {
    int polls = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    for (int i = 0; i < 10; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(count_polls, .polls = &polls)));
    uint64_t begin = aw_now(rt);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(30))), 0);
    CHECK_GE(aw_now(rt) - begin, AW_MSEC(30));
    CHECK_GT(LOAD(polls), 10);
    aw_runtime_free(rt);
}

TEST(tasks_that_only_wake_themselves_let_timers_through) {
    long polls = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    for (int i = 0; i < 10; i++)
        aw_task_drop(aw_spawn_on(rt, aw_poll_fn_of(busy_poll, &polls)));
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(5))), 0);
    CHECK_GT(LOAD(polls), 10);
    aw_runtime_free(rt);
}

static void *notify_thread(void *n) {
    aw_notify_one(n);
    return NULL;
}

TEST(busy_and_yielding_tasks_let_wakes_from_threads_through) {
    aw_notify n = AW_NOTIFY_INIT;
    long busy = 0;
    int polls = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    for (int i = 0; i < 10; i++) {
        aw_task_drop(aw_spawn_on(rt, AW_CALL(count_polls, .polls = &polls)));
        aw_task_drop(aw_spawn_on(rt, aw_poll_fn_of(busy_poll, &busy)));
    }
    for (int i = 0; i < test_scale(100); i++) {
        pthread_t t = thread_start(notify_thread, &n);
        CHECK_EQ(aw_block_on(rt, aw_notify_wait(&n)), 0);
        thread_end(t);
    }
    aw_runtime_free(rt);
}

/* Two tasks that wake each other for ever. */
AW_ASYNC(int, player, aw_notify *mine; aw_notify * other; long *polls; aw_notified wait;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->wait, aw_notify_wait(self->mine));
        ++*self->polls;
        aw_notify_one(self->other);
    }
    AW_RETURN(0);
    AW_END;
}

struct table {
    aw_notify ball[2];
};

AW_ASYNC(int, newcomer, int yields; long *polls;) {
    AW_BEGIN;
    for (; self->yields > 0; self->yields--)
        AW_YIELD;
    AW_RETURN(0);
    AW_END;
}

TEST(a_hundred_ping_pong_pairs_do_not_starve_a_new_task_that_yields) {
    ON_THIS_THREAD("it counts polls");
    enum { PAIRS = 100, YIELDS = 100 };
    static struct table tables[PAIRS];
    long polls = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    for (int i = 0; i < PAIRS; i++)
        for (int side = 0; side < 2; side++)
            aw_task_drop(
                aw_spawn_on(rt, AW_CALL(player, .mine = &tables[i].ball[side],
                                        .other = &tables[i].ball[!side], .polls = &polls)));
    for (int i = 0; i < PAIRS; i++)
        aw_notify_one(&tables[i].ball[0]);
    run_a_while(rt);
    CHECK_GT(polls, PAIRS); /* they play */
    long before = polls;
    struct newcomer *h = aw_spawn_on(rt, AW_CALL(newcomer, .yields = YIELDS));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    /* Each yield costs a bounded number of their polls. */
    CHECK_LE(polls - before, 10 * PAIRS * (YIELDS + 10));
    aw_task_drop(h);
    aw_runtime_free(rt);
}

/* Each spawns the next and ends. */
AW_ASYNC(int, chain, long *links;) {
    AW_BEGIN;
    ++*self->links;
    aw_task_drop(aw_spawn(AW_CALL(chain, .links = self->links)));
    AW_RETURN(0);
    AW_END;
}

TEST(a_chain_that_respawns_itself_lets_block_on_finish) {
    ON_THIS_THREAD("it counts polls");
    memory m;
    long links = 0;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(chain, .links = &links)));
    CHECK_EQ(aw_block_on(rt, rounds(100)), 0);
    CHECK_GE(links, 100);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(2))), 0);
    CHECK_EQ(aw_runtime_task_count(rt), 1);
    aw_runtime_free(rt); /* the chain ends with the runtime */
    CHECK_EQ(memory_in_use(&m), 0);
}
