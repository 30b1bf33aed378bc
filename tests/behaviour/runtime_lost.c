/* SPDX-License-Identifier: MIT
 *
 * Lost wake-ups: a task that can never run again is reported at once, with its name, location
 * and await chain. A task that can still run is never reported. */
#include "support/tasks.h"

/* ---- Reported -------------------------------------------------------------------------------- */

/* Its waker is stored nowhere. */
enum { FORGETFUL_AWAITS = __LINE__ + 3 };
AW_ASYNC(int, forgetful, probe_state *state; struct probe leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, probe_of(self->state));
    AW_RETURN(0);
    AW_END;
}

enum { TRUSTING_AWAITS = __LINE__ + 3 };
AW_ASYNC(int, trusting, probe_state *state; struct forgetful inner;) {
    AW_BEGIN;
    AW_AWAIT(self->inner, AW_CALL(forgetful, .state = self->state));
    AW_RETURN(0);
    AW_END;
}

TEST(a_task_without_a_waker_is_reported_with_location_and_chain) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    l.careless = true;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    aw_runtime *previous = aw_enter(rt);
    int line = __LINE__ + 1;
    struct trusting *h = aw_spawn_named("the lost one", AW_CALL(trusting, .state = &l));
    aw_leave(previous);
    run_a_while(rt);
    char expected[512];
    snprintf(expected, sizeof expected,
             "'the lost one' (spawned at tests/behaviour/runtime_lost.c:%d)", line);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
    CHECK_CONTAINS(log.text, expected);
    snprintf(expected, sizeof expected,
             "  trusting at tests/behaviour/runtime_lost.c:%d\n"
             "    forgetful at tests/behaviour/runtime_lost.c:%d\n"
             "      probe\n",
             TRUSTING_AWAITS, FORGETFUL_AWAITS);
    CHECK_CONTAINS(log.text, expected);
    for (int i = 0; i < 5; i++)
        run_a_while(rt);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1); /* reported once */
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(l.cancels, 1); /* it can still be cancelled */
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
}

TEST(a_task_that_loses_its_waker_later_is_reported_then) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    probe_wake(&l);
    run_a_while(rt);
    CHECK_EQ(log.length, 0);
    l.careless = true;
    probe_wake(&l);
    run_a_while(rt); /* the probe drops its clone and keeps no other */
    CHECK_EQ(l.polls, 3);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

TEST(a_detached_task_is_reported_as_well) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    l.careless = true;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    aw_task_drop(aw_spawn_on(rt, probe_of(&l)));
    run_a_while(rt);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
    aw_runtime_free(rt);
}

TEST(a_main_future_without_a_waker_is_reported_and_ends_in_a_deadlock) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    l.careless = true;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    CHECK_EQ(aw_block_on(rt, AW_CALL(trusting, .state = &l)), -EDEADLK);
    CHECK_CONTAINS(log.text, "lost wake-up: the main future");
    CHECK_EQ(log_count(&log, "deadlock"), 1);
    CHECK_EQ(l.cancels, 1);
    aw_runtime_free(rt);
}

TEST(a_cancel_that_can_never_be_woken_is_reported) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    l.cancel_answer = AW_PENDING;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    static struct probe *h; /* it stays alive after the test */
    h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    l.careless = true;
    aw_task_abort(h);
    run_a_while(rt);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
    CHECK_CONTAINS(log.text, "being cancelled");
    aw_runtime_free(rt); /* cannot end the task, says so, and leaves it alive */
    CHECK_CONTAINS(log.text, "1 tasks cannot be cancelled");
    CHECK(!aw_task_is_finished(h));
    CHECK_EQ(l.cancels, 1);
}

/* Two runtimes: each reports its own tasks through its own log. */
TEST(a_report_goes_to_the_log_of_its_own_runtime) {
    kept_log a = KEPT_LOG, b = KEPT_LOG;
    probe_state l = PROBE_STATE;
    l.careless = true;
    aw_runtime *ra = runtime_new(NULL, &a, NULL, false), *rb = runtime_new(NULL, &b, NULL, false);
    aw_task_drop(aw_spawn_on(rb, probe_of(&l)));
    run_a_while(ra);
    run_a_while(rb);
    CHECK_EQ(a.length, 0);
    CHECK_EQ(log_count(&b, "lost wake-up"), 1);
    aw_runtime_free(ra);
    aw_runtime_free(rb);
}

/* ---- Not reported ---------------------------------------------------------------------------- */

/* The test fails if this runtime logs anything. */
static kept_log silent_log = KEPT_LOG;

static aw_runtime *silent(bool paused) {
    aw_set_log(keep_log, &silent_log); /* also messages that belong to no runtime */
    return runtime_new(NULL, &silent_log, NULL, paused);
}

static void check_silent(void) {
    if (silent_log.length) FAIL("reported: %s", silent_log.text);
}

AW_ASYNC(int, waits_in_every_way, aw_notify *go; int *left; aw_sleep nap; aw_never never;
         aw_notified wait; AW_ONESHOT(int) c; aw_oneshot_future recv; aw_yield yield;
         AW_SELECT(aw_sleep, aw_never, aw_notified) s; AW_TIMEOUT(aw_never) t;
         AW_JOIN(aw_sleep, aw_yield) j; aw_interval interval; aw_tick tick;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(5)));
    AW_AWAIT(self->yield, aw_yield_now());
    AW_YIELD;
    AW_AWAIT_SELECT(self->s, aw_sleep_for(AW_MSEC(1)), aw_never_ready(), aw_notify_wait(self->go));
    CHECK_EQ(aw_select_winner(&self->s), 0);
    AW_AWAIT_FOR(self->t, AW_MSEC(1), aw_never_ready());
    AW_AWAIT_JOIN(self->j, aw_sleep_for(AW_MSEC(1)), aw_yield_now());
    aw_interval_every(&self->interval, AW_MSEC(1), AW_BURST);
    AW_AWAIT(self->tick, aw_interval_tick(&self->interval));
    AW_AWAIT(self->tick, aw_interval_tick(&self->interval));
    AW_AWAIT(self->wait, aw_notify_wait(self->go));
    ADD(*self->left, -1);
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_END;
}

TEST(sleeping_yielding_selecting_and_never_are_not_reported) {
    aw_notify go = AW_NOTIFY_INIT;
    int left = 3;
    aw_runtime *rt = silent(true);
    for (int i = 0; i < 3; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(waits_in_every_way, .go = &go, .left = &left)));
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(1))), 0);
    CHECK_EQ(LOAD(left), 3);
    aw_notify_waiters(&go);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(1))), 0);
    CHECK_EQ(LOAD(left), 0);
    aw_runtime_free(rt);
    check_silent();
}

static aw_poll wakes_itself(void *arg, aw_cx *cx, int *out) {
    (void)out;
    if (--*(int *)arg == 0) return AW_READY;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

static aw_poll clones_and_wakes_itself(void *arg, aw_cx *cx, int *out) {
    (void)out;
    if (--*(int *)arg == 0) return AW_READY;
    aw_waker_wake(aw_waker_clone(aw_cx_waker(cx)));
    return AW_PENDING;
}

TEST(a_task_that_wakes_itself_is_not_reported) {
    aw_runtime *rt = silent(false);
    int n = 10;
    CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(wakes_itself, &n)), 0);
    n = 10;
    CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(clones_and_wakes_itself, &n)), 0);
    aw_runtime_free(rt);
    check_silent();
}

/* A thread holds the waker, and wakes the task with the last reference. */
struct carrier {
    pthread_mutex_t lock;
    aw_waker waker;
    event there;
    bool stop;
    int wakes;
};

static void *child_waits(void *arg) {
    struct carrier *c = arg;
    for (;;) {
        event_wait(&c->there);
        pthread_mutex_lock(&c->lock);
        aw_waker w = aw_waker_take(&c->waker);
        bool stop = c->stop;
        pthread_mutex_unlock(&c->lock);
        if (stop) return NULL;
        CHECK(w.type != NULL);
        /* By clones and drops: there is always at least one reference. */
        aw_waker other = aw_waker_clone(&w);
        aw_waker_drop(w);
        aw_waker_wake(other);
    }
}

static aw_poll hand_over(void *arg, aw_cx *cx, int *out) {
    struct carrier *c = arg;
    (void)out;
    if (c->wakes-- == 0) return AW_READY;
    pthread_mutex_lock(&c->lock);
    c->waker = aw_waker_clone(aw_cx_waker(cx));
    pthread_mutex_unlock(&c->lock);
    event_post(&c->there);
    return AW_PENDING;
}

TEST(a_task_is_not_reported_while_a_thread_has_its_waker) {
    struct carrier c = {.lock = PTHREAD_MUTEX_INITIALIZER, .wakes = test_scale(5000)};
    event_init(&c.there);
    aw_runtime *rt = silent(false);
    pthread_t t = thread_start(child_waits, &c);
    CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(hand_over, &c)), 0);
    c.wakes = test_scale(5000);
    aw_poll_fn *task = aw_spawn_on(rt, aw_poll_fn_of(hand_over, &c));
    CHECK_EQ(JOIN_STATUS(rt, task), 0);
    aw_task_drop(task);
    pthread_mutex_lock(&c.lock);
    c.stop = true;
    pthread_mutex_unlock(&c.lock);
    event_post(&c.there);
    thread_end(t);
    aw_runtime_free(rt);
    check_silent();
}

/* Above 30, each child has its own waker, and only clones of that one are kept. */
struct children {
    probe_state states[40];
    struct probe probes[40];
};

TEST(many_children_that_keep_clones_of_their_wakers_are_not_reported) {
    static struct children c;
    aw_runtime *rt = silent(false);
    for (int i = 0; i < 40; i++) {
        c.states[i] = (probe_state)PROBE_STATE;
        c.probes[i] = probe_of(&c.states[i]);
    }
    aw_all *h = aw_spawn_on(rt, aw_join_all(c.probes, 40));
    for (int i = 0; i < 40; i++) {
        run_a_while(rt);
        CHECK(!aw_task_is_finished(h));
        probe_wake(&c.states[i]); /* spurious: the child is polled, and waits on */
        run_a_while(rt);
        probe_finish(&c.states[i]);
    }
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(c.states[i].polls, 3);
    aw_task_drop(h);
    aw_runtime_free(rt);
    check_silent();
}

/* ---- A wait that moves to another task ------------------------------------------------------- */

/* Starts a wait in a box, and passes it on. */
AW_ASYNC(int, starts, aw_box *box; uint64_t duration; aw_box mine; struct rounds pause;) {
    AW_BEGIN;
    self->mine = aw_box_new(aw_sleep_for(self->duration));
    CHECK_EQ(aw_future_poll(&self->mine.future, cx), AW_PENDING);
    *self->box = self->mine;
    AW_AWAIT(self->pause, rounds(2));
    AW_RETURN(0);
    AW_END;
}

typedef AW_SELECT(aw_box, aw_sleep) box_or_sleep;

/* Ends the wait or cancels it, and sleeps on. */
AW_ASYNC(int, takes_over, aw_box box; bool give_up; box_or_sleep s; aw_sleep nap;) {
    AW_BEGIN;
    if (self->give_up) {
        AW_AWAIT_SELECT(self->s, self->box, aw_sleep_for(AW_MSEC(1)));
        CHECK_EQ(aw_select_winner(&self->s), 1);
    } else {
        AW_AWAIT_FUTURE(self->box);
        CHECK_EQ(aw_box_take(aw_sleep, &self->box), 0);
    }
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(10)));
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(10)));
    AW_RETURN(0);
    AW_END;
}

TEST(a_wait_that_moved_to_another_task_is_not_reported_there) {
    aw_runtime *rt = silent(true);
    for (int how = 0; how < 4; how++) {
        bool give_up = how & 1, fired = how & 2;
        aw_box box;
        CHECK_EQ(aw_block_on(rt, AW_CALL(starts, .box = &box,
                                         .duration = give_up && !fired ? AW_SEC(5) : AW_MSEC(5))),
                 0);
        /* Also when it has fired before the second task ever saw it. */
        if (fired) CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(50))), 0);
        struct takes_over *h = aw_spawn_on(
            rt, AW_CALL(takes_over, .box = box, .give_up = give_up && !fired));
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        aw_task_drop(h);
        check_silent();
    }
    aw_runtime_free(rt);
    check_silent();
}

/* Cancelled by the second task without having been polled by it. */
AW_ASYNC(int, gives_up_at_once, aw_box box; aw_sleep nap;) {
    AW_BEGIN;
    CHECK_EQ(aw_future_cancel(&self->box.future, cx), AW_CANCELLED);
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(10)));
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(10)));
    AW_RETURN(0);
    AW_END;
}

TEST(a_wait_that_another_task_cancels_is_not_counted_against_it) {
    aw_runtime *rt = silent(true);
    aw_box box;
    CHECK_EQ(aw_block_on(rt, AW_CALL(starts, .box = &box, .duration = AW_SEC(5))), 0);
    struct gives_up_at_once *h = aw_spawn_on(rt, AW_CALL(gives_up_at_once, .box = box));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
    check_silent();
}

/* ---- Aborts ---------------------------------------------------------------------------------- */

TEST(a_task_that_was_aborted_meanwhile_is_not_reported) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = silent(false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_abort(h);
    run_a_while(rt);
    CHECK(aw_task_is_finished(h));
    aw_task_drop(h);
    aw_runtime_free(rt);
    check_silent();
}
