/* SPDX-License-Identifier: MIT
 *
 * A deadlock is reported only when it is proved: block_on returns -EDEADLK with the chain of
 * every task when nothing can run any more. It waits as long as an event from outside is
 * possible. */
#include "support/tasks.h"

/* ---- Proved ---------------------------------------------------------------------------------- */

/* Joins another task, which is spawned later: workers may run this one before. */
AW_ASYNC(int, joins, struct joins **other; int *finals; aw_task_join_future join;) {
    AW_BEGIN;
    while (!__atomic_load_n(self->other, __ATOMIC_ACQUIRE))
        AW_YIELD;
    AW_AWAIT(self->join, aw_task_join(*self->other));
    AW_RETURN(self->join.out);
    AW_FINALLY;
    __atomic_fetch_add(self->finals, 1, __ATOMIC_RELAXED);
    AW_END;
}

/* Waits for something that only a task of this runtime could provide, and none will. */
struct inside {
    aw_future future;
    int out;
};

static aw_poll inside_poll(aw_future *self, aw_cx *cx) {
    if (!self->state) aw_cx_arm_inside(cx);
    self->state = 1;
    return AW_PENDING;
}

static aw_poll inside_cancel(aw_future *self, aw_cx *cx) {
    if (self->state) aw_cx_disarm_inside(cx);
    return AW_CANCELLED;
}

static const aw_future_type inside_type = {
    AW_TYPE_OF(struct inside, "inside"),
    .poll = inside_poll,
    .cancel = inside_cancel,
};

AW_ASYNC(int, stuck, int *finals; struct inside wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, (struct inside){.future = AW_FUTURE_INIT(&inside_type)});
    AW_RETURN(0);
    AW_FINALLY;
    __atomic_fetch_add(self->finals, 1, __ATOMIC_RELAXED);
    AW_END;
}

typedef struct circle {
    struct joins *a, *b;
    int finals;
} circle;

static void make_known(struct joins **at, struct joins *task) {
    __atomic_store_n(at, task, __ATOMIC_RELEASE);
}

static void make_circle(circle *c, aw_runtime *rt) {
    aw_runtime *previous = aw_enter(rt);
    make_known(&c->a,
               aw_spawn_named("task A", AW_CALL(joins, .other = &c->b, .finals = &c->finals)));
    make_known(&c->b,
               aw_spawn_named("task B", AW_CALL(joins, .other = &c->a, .finals = &c->finals)));
    aw_leave(previous);
}

static void end_circle(circle *c) {
    CHECK(aw_task_is_finished(c->a) && aw_task_is_finished(c->b));
    aw_task_drop(c->a);
    aw_task_drop(c->b);
}

TEST(two_tasks_that_join_each_other_are_a_deadlock_with_both_chains) {
    kept_log log = KEPT_LOG;
    circle c = {NULL, NULL, 0};
    int finals = 0;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    make_circle(&c, rt);
    CHECK_EQ(aw_block_on(rt, AW_CALL(stuck, .finals = &finals)), -EDEADLK);
    CHECK_EQ(finals, 1);   /* the main future is released before block_on returns */
    CHECK_EQ(c.finals, 0); /* the tasks are unchanged */
    CHECK_EQ(log_count(&log, "deadlock: nothing can run"), 1);
    CHECK_EQ(log_count(&log, "lost wake-up"), 0);
    CHECK_CONTAINS(log.text, "the main future\n  stuck at tests/behaviour/runtime_deadlock.c:");
    CHECK_EQ(log_count(&log, "\n    join of task: task"), 2);
    CHECK_CONTAINS(log.text, "'task A' (spawned at");
    CHECK_CONTAINS(log.text, "'task B' (spawned at");

    /* The runtime is still usable: an abort breaks the circle. */
    aw_task_abort(c.a);
    run_a_while(rt);
    CHECK_EQ(c.finals, 2);
    CHECK_EQ(JOIN_STATUS(rt, c.b), 0);
    CHECK_EQ(c.b->out, -ECANCELED); /* the result of its join */
    aw_runtime_free(rt);
    end_circle(&c);
}

TEST(a_task_that_joins_itself_is_a_deadlock) {
    kept_log log = KEPT_LOG;
    circle c = {NULL, NULL, 0};
    int finals = 0;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    make_known(&c.a, aw_spawn_on(rt, AW_CALL(joins, .other = &c.a, .finals = &c.finals)));
    CHECK_EQ(aw_block_on(rt, AW_CALL(stuck, .finals = &finals)), -EDEADLK);
    aw_runtime_free(rt);
    CHECK_EQ(c.finals, 1);
    aw_task_drop(c.a);
}

TEST(a_deadlock_of_a_main_future_with_another_output_leaves_the_result_untouched) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    int out = 55;
    l.careless = true;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    CHECK_EQ(aw_block_on_into(rt, &out, probe_of(&l)), -EDEADLK);
    CHECK_EQ(out, 55);
    CHECK_EQ(l.cancels, 1);
    l.cancel_answer = AW_READY; /* it finishes while it is being cancelled: its output stands */
    CHECK_EQ(aw_block_on_into(rt, &out, probe_of(&l)), 0);
    CHECK_EQ(out, 202);
    aw_runtime_free(rt);
}

/* Its cleanup waits: block_on returns when the cleanup has ended. */
AW_ASYNC(int, stuck_with_cleanup, int *finals; struct inside wait; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, (struct inside){.future = AW_FUTURE_INIT(&inside_type)});
    AW_RETURN(0);
    AW_FINALLY;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100)));
    __atomic_fetch_add(self->finals, 1, __ATOMIC_RELAXED);
    AW_END;
}

TEST(the_cleanup_of_a_stuck_main_future_is_over_when_block_on_returns) {
    kept_log log = KEPT_LOG;
    circle c = {NULL, NULL, 0};
    int finals = 0;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, true);
    make_circle(&c, rt);
    CHECK_EQ(aw_block_on(rt, AW_CALL(stuck_with_cleanup, .finals = &finals)), -EDEADLK);
    CHECK_EQ(finals, 1);
    aw_runtime_free(rt);
    end_circle(&c);
}

/* ---- Not yet --------------------------------------------------------------------------------- */

TEST(a_pending_timer_is_waited_for_before_a_deadlock_is_called) {
    kept_log log = KEPT_LOG;
    circle c = {NULL, NULL, 0};
    int finals = 0;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, true);
    make_circle(&c, rt);
    uint64_t begin = aw_now(rt);
    aw_sleep *sleeping = aw_spawn_on(rt, aw_sleep_for(AW_SEC(3600)));
    CHECK_EQ(aw_block_on(rt, AW_CALL(stuck, .finals = &finals)), -EDEADLK);
    CHECK_GE(aw_now(rt) - begin, AW_SEC(3600)); /* the sleeper might have woken something */
    CHECK(aw_task_is_finished(sleeping));
    aw_task_drop(sleeping);
    aw_runtime_free(rt);
    end_circle(&c);
}

/* Waits on its own thread until the runtime sleeps, and then does something that ends the wait. */
struct outsider {
    sleeper sleeper;
    aw_runtime *rt;
    kept_log *log;
    struct stuck *stuck;
    probe_state *state;
    aw_waker waker;
};

static void wait_until_asleep(struct outsider *o) {
    event_wait(&o->sleeper.asleep);
    CHECK_EQ(log_count(o->log, "deadlock: nothing can run"), 0);
}

static void *release_when_asleep(void *arg) {
    struct outsider *o = arg;
    wait_until_asleep(o);
    aw_runtime_hold(o->rt); /* holds are counted */
    aw_runtime_unhold(o->rt);
    wait_until_asleep(o);
    aw_runtime_unhold(o->rt);
    return NULL;
}

TEST(while_the_runtime_is_held_nothing_is_a_deadlock) {
    kept_log log = KEPT_LOG;
    circle c = {NULL, NULL, 0};
    int finals = 0;
    struct outsider o = {.log = &log};
    o.rt = runtime_new(NULL, &log, sleeper_init(&o.sleeper), false);
    make_circle(&c, o.rt);
    aw_runtime_hold(o.rt);
    pthread_t t = thread_start(release_when_asleep, &o);
    CHECK_EQ(aw_block_on(o.rt, AW_CALL(stuck, .finals = &finals)), -EDEADLK);
    thread_end(t);
    CHECK_EQ(log_count(&log, "deadlock: nothing can run"), 1);
    aw_runtime_free(o.rt);
    end_circle(&c);
}

static void *abort_when_asleep(void *arg) {
    struct outsider *o = arg;
    wait_until_asleep(o);
    aw_task_abort(o->stuck);
    return NULL;
}

TEST(a_held_runtime_goes_on_when_the_outside_thread_comes_back) {
    kept_log log = KEPT_LOG;
    int finals = 0;
    struct outsider o = {.log = &log};
    o.rt = runtime_new(NULL, &log, sleeper_init(&o.sleeper), false);
    o.stuck = aw_spawn_on(o.rt, AW_CALL(stuck, .finals = &finals));
    aw_runtime_hold(o.rt);
    pthread_t t = thread_start(abort_when_asleep, &o);
    CHECK_EQ(JOIN_STATUS(o.rt, o.stuck), -ECANCELED);
    thread_end(t);
    CHECK_EQ(finals, 1);
    aw_runtime_unhold(o.rt);
    CHECK_EQ(log.length, 0);
    aw_task_drop(o.stuck);
    aw_runtime_free(o.rt);
}

AW_ASYNC(int, waits_for_ever, aw_never never;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_END;
}

struct never_abort {
    struct outsider *outsider;
    struct waits_for_ever *task;
};

static void *abort_never_when_asleep(void *arg) {
    struct never_abort *n = arg;
    wait_until_asleep(n->outsider);
    aw_task_abort(n->task);
    return NULL;
}

TEST(waiting_for_never_is_not_a_deadlock) {
    kept_log log = KEPT_LOG;
    struct outsider o = {.log = &log};
    o.rt = runtime_new(NULL, &log, sleeper_init(&o.sleeper), false);
    struct never_abort n = {&o, aw_spawn_on(o.rt, AW_CALL(waits_for_ever))};
    pthread_t t = thread_start(abort_never_when_asleep, &n);
    CHECK_EQ(JOIN_STATUS(o.rt, n.task), -ECANCELED);
    thread_end(t);
    aw_task_drop(n.task);
    aw_runtime_free(o.rt);
    CHECK_EQ(log.length, 0);
}

static void *wake_when_asleep(void *arg) {
    struct outsider *o = arg;
    wait_until_asleep(o);
    probe_finish(o->state);
    return NULL;
}

TEST(a_waker_that_a_thread_holds_is_not_a_deadlock) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    struct outsider o = {.log = &log, .state = &l};
    o.rt = runtime_new(NULL, &log, sleeper_init(&o.sleeper), false);
    pthread_t t = thread_start(wake_when_asleep, &o);
    CHECK_EQ(aw_block_on_status(o.rt, probe_of(&l)), 0);
    thread_end(t);
    aw_runtime_free(o.rt);
    CHECK_EQ(log.length, 0);
}

/* The thread drops the last waker without waking: now it is a deadlock. */
static void *drop_when_asleep(void *arg) {
    struct outsider *o = arg;
    wait_until_asleep(o);
    aw_waker w = aw_waker_take(&o->state->waker), other = aw_waker_clone(&w);
    aw_waker_drop(w);
    aw_waker_drop(other);
    return NULL;
}

TEST(when_a_thread_drops_the_last_waker_the_deadlock_is_noticed) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    struct outsider o = {.log = &log, .state = &l};
    o.rt = runtime_new(NULL, &log, sleeper_init(&o.sleeper), false);
    pthread_t t = thread_start(drop_when_asleep, &o);
    CHECK_EQ(aw_block_on_status(o.rt, probe_of(&l)), -EDEADLK);
    thread_end(t);
    CHECK_EQ(l.cancels, 1);
    CHECK_CONTAINS(log.text, "deadlock");
    CHECK_CONTAINS(log.text, "probe");
    aw_runtime_free(o.rt);
}

/* The same for a task that the main future joins. */
TEST(when_a_thread_drops_the_last_waker_of_a_task_the_deadlock_is_noticed) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    struct outsider o = {.log = &log, .state = &l};
    o.rt = runtime_new(NULL, &log, sleeper_init(&o.sleeper), false);
    struct probe *h = aw_spawn_on(o.rt, probe_of(&l));
    pthread_t t = thread_start(drop_when_asleep, &o);
    CHECK_EQ(aw_block_on(o.rt, aw_task_join(h)), -EDEADLK);
    thread_end(t);
    CHECK_EQ(l.cancels, 0);
    aw_runtime_free(o.rt);
    CHECK_EQ(l.cancels, 1);
    aw_task_drop(h);
}

/* References that were cloned on an outside thread and dropped on the runtime's thread. They put
 * the shared count into a state in which a silent drop could go unnoticed. */
struct clones {
    aw_waker wakers[10];
    int count;
    probe_state *state;
};

static aw_poll drop_inside(void *arg, aw_cx *cx, int *out) {
    struct clones *c = arg;
    (void)cx;
    (void)out;
    while (c->count)
        aw_waker_drop(c->wakers[--c->count]);
    aw_waker_drop(aw_waker_take(&c->state->waker)); /* the probe's own clone as well */
    return AW_READY;
}

static void *drop_mine_when_asleep(void *arg) {
    struct outsider *o = arg;
    wait_until_asleep(o);
    aw_waker_drop(o->waker);
    return NULL;
}

TEST(when_a_thread_drops_a_clone_of_its_own_the_deadlock_is_noticed) {
    for (int others = 0; others <= 10; others += 5) {
        kept_log log = KEPT_LOG;
        probe_state l = PROBE_STATE;
        struct clones c = {.state = &l};
        struct outsider o = {.log = &log};
        o.rt = runtime_new(NULL, &log, sleeper_init(&o.sleeper), false);
        struct probe *h = aw_spawn_on(o.rt, probe_of(&l));
        run_a_while(o.rt);
        while (c.count < others)
            c.wakers[c.count++] = aw_waker_clone(&l.waker);
        o.waker = aw_waker_clone(&l.waker);
        CHECK_EQ(aw_block_on(o.rt, aw_poll_fn_of(drop_inside, &c)), 0);
        pthread_t t = thread_start(drop_mine_when_asleep, &o);
        CHECK_EQ(aw_block_on(o.rt, aw_task_join(h)), -EDEADLK);
        thread_end(t);
        aw_task_drop(h);
        aw_runtime_free(o.rt);
        CHECK_EQ(l.polls, 1);
        CHECK_EQ(l.cancels, 1);
    }
}

/* A wait that other runtimes and threads could end is not a deadlock. */
AW_ASYNC(int, joins_probe, struct probe *task; aw_task_join_future join;) {
    AW_BEGIN;
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN(self->join.out);
    AW_END;
}

struct other_runtime {
    struct outsider *outsider;
    aw_runtime *there;
    probe_state *state;
};

static void *finish_there_when_asleep(void *arg) {
    struct other_runtime *r = arg;
    wait_until_asleep(r->outsider);
    run_a_while(r->there);
    probe_finish(r->state);
    run_a_while(r->there);
    return NULL;
}

TEST(a_join_of_another_runtimes_task_is_not_a_deadlock) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    struct outsider o = {.log = &log};
    o.rt = runtime_new(NULL, &log, sleeper_init(&o.sleeper), false);
    struct other_runtime r = {&o, runtime_new(NULL, &log, NULL, false), &l};
    struct probe *h = aw_spawn_on(r.there, probe_of(&l));
    pthread_t t = thread_start(finish_there_when_asleep, &r);
    CHECK_EQ(aw_block_on(o.rt, AW_CALL(joins_probe, .task = h)), 0);
    thread_end(t);
    CHECK_EQ(aw_task_take(h), 102);
    aw_runtime_free(o.rt);
    aw_runtime_free(r.there);
    CHECK_EQ(log.length, 0);
}

/* ---- Counting stays right -------------------------------------------------------------------- */

/* Many waits that have ended do not hide a later deadlock. */
AW_ASYNC(int, waits_a_lot, int left; aw_notify * go; aw_sleep nap; aw_notified wait;
         AW_SELECT(aw_sleep, aw_notified, aw_never) s; AW_ONESHOT(int) c; aw_oneshot_future recv;
         AW_TIMEOUT(aw_notified) t;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
        AW_AWAIT_SELECT(self->s, aw_sleep_for(AW_MSEC(1)), aw_notify_wait(self->go),
                        aw_never_ready());
        aw_select_drop(&self->s);
        AW_AWAIT_FOR(self->t, AW_MSEC(1), aw_notify_wait(self->go));
        memset(&self->c, 0, sizeof self->c);
        self->recv = aw_oneshot_recv(&self->c);
        CHECK_EQ(aw_future_poll(&self->recv.future, cx), AW_PENDING);
        aw_oneshot_send(&self->c, 1);
        AW_AWAIT_FUTURE(self->recv);
    }
    AW_RETURN(0);
    AW_END;
}

TEST(waits_that_have_ended_do_not_hide_a_deadlock) {
    kept_log log = KEPT_LOG;
    aw_notify go = AW_NOTIFY_INIT;
    circle c = {NULL, NULL, 0};
    int finals = 0;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, true);
    make_circle(&c, rt);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(waits_a_lot, .left = 100, .go = &go)));
    struct waits_a_lot *cut = aw_spawn_on(rt, AW_CALL(waits_a_lot, .left = 1 << 30, .go = &go));
    CHECK_EQ(aw_block_on(rt, AW_CALL(waits_a_lot, .left = 50, .go = &go)), 0);
    aw_task_abort(cut);
    CHECK_EQ(aw_block_on(rt, AW_CALL(stuck, .finals = &finals)), -EDEADLK);
    CHECK(aw_task_is_finished(cut));
    aw_task_drop(cut);
    CHECK_EQ(aw_runtime_task_count(rt), 2); /* only the circle */
    aw_runtime_free(rt);
    end_circle(&c);
}

TEST(a_report_of_very_many_tasks_is_cut_and_says_so) {
    kept_log log = KEPT_LOG;
    int finals = 0;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    for (int i = 0; i < 200; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(stuck, .finals = &finals)));
    CHECK_EQ(aw_block_on(rt, AW_CALL(stuck, .finals = &finals)), -EDEADLK);
    CHECK_CONTAINS(log.text, "the main future");
    CHECK_CONTAINS(log.text, "(and more)");
    CHECK_GT(log_count(&log, "'stuck'"), 10);
    aw_runtime_free(rt);
    CHECK_EQ(finals, 201);
}

TEST(a_report_names_the_runtime_that_has_a_name) {
    kept_log log = KEPT_LOG;
    int finals = 0;
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.name = "the quiet one";
    o.log = keep_log;
    o.log_data = &log;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(stuck, .finals = &finals)), -EDEADLK);
    CHECK_CONTAINS(log.text, "'the quiet one'");
    aw_runtime_free(rt);
}

/* ---- A clock that is held -------------------------------------------------------------------- */

static void *look_at_the_clock(void *arg) {
    struct outsider *o = arg;
    uint64_t begin = aw_now(o->rt);
    wait_until_asleep(o);
    CHECK_EQ(aw_now(o->rt), begin); /* all is idle, and yet the clock does not advance */
    aw_runtime_unhold(o->rt);
    return NULL;
}

TEST(while_the_runtime_is_held_a_paused_clock_does_not_jump) {
    kept_log log = KEPT_LOG;
    struct outsider o = {.log = &log};
    o.rt = runtime_new(NULL, &log, sleeper_init(&o.sleeper), true);
    uint64_t begin = aw_now(o.rt);
    aw_runtime_hold(o.rt);
    pthread_t t = thread_start(look_at_the_clock, &o);
    CHECK_EQ(aw_block_on(o.rt, aw_sleep_for(AW_SEC(1000))), 0);
    thread_end(t);
    CHECK_EQ(aw_now(o.rt) - begin, AW_SEC(1000));
    aw_runtime_free(o.rt);
    CHECK_EQ(log.length, 0);
}

/* ---- The dump -------------------------------------------------------------------------------- */

TEST(describe_writes_every_task_and_says_how_long_it_is) {
    ON_THIS_THREAD("nothing runs before block_on");
    circle c = {NULL, NULL, 0};
    char text[4096], cut[20];
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    CHECK_EQ(aw_runtime_describe(rt, text, sizeof text), 0);
    CHECK_STR(text, "");
    make_circle(&c, rt);
    CHECK_EQ(aw_runtime_task_count(rt), 2); /* also before they were first polled */
    CHECK_GT(aw_runtime_describe(rt, text, sizeof text), 0);
    CHECK_CONTAINS(text, "'task A'");
    CHECK_CONTAINS(text, "not started");
    run_a_while(rt);
    CHECK_EQ(aw_runtime_task_count(rt), 2);
    int n = aw_runtime_describe(rt, text, sizeof text);
    CHECK_EQ(n, strlen(text));
    CHECK_CONTAINS(text, "'task A'");
    CHECK_CONTAINS(text, "'task B'");
    CHECK_CONTAINS(text, "joins at tests/behaviour/runtime_deadlock.c:");
    CHECK_EQ(aw_runtime_describe(rt, cut, sizeof cut), n); /* the length without truncation */
    CHECK_EQ(strlen(cut), sizeof cut - 1);
    CHECK_EQ(strncmp(cut, text, sizeof cut - 1), 0);
    CHECK_EQ(aw_runtime_describe(rt, NULL, 0), n);
    aw_runtime_free(rt);
    end_circle(&c);
}
