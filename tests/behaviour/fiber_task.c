/* SPDX-License-Identifier: MIT
 *
 * Fibers as tasks: spawned from everywhere, joined, failing, aborted from other threads, ended
 * with their runtime; and misuse that is caught. */
#include "support/tasks.h"

/* ---- Spawned and joined ----------------------------------------------------------------------- */

AW_FIBER(long, square, long n;) {
    CHECK_EQ(aw_fiber_yield(), 0);
    return self->n * self->n;
}

enum { CROWD = 50 };

AW_FIBER(int, spawns_many) {
    struct square *tasks[CROWD];
    for (int i = 0; i < CROWD; i++)
        tasks[i] = aw_spawn(AW_CALL(square, .n = i));
    for (int i = CROWD - 1; i >= 0; i--) {
        CHECK_EQ(aw_await(aw_task_join(tasks[i])), 0);
        CHECK_EQ(aw_task_take(tasks[i]), (long)i * i);
    }
    return 0;
}

TEST(a_fiber_spawns_fibers_and_joins_them_in_any_order) {
    CHECK_EQ(aw_run(AW_CALL(spawns_many)), 0);
}

AW_ASYNC(long, joins_a_fiber, struct square *task; aw_task_join_future join;) {
    AW_BEGIN;
    self->task = aw_spawn(AW_CALL(square, .n = 9));
    AW_AWAIT(self->join, aw_task_join(self->task));
    if (self->join.out < 0) AW_RETURN(self->join.out);
    AW_RETURN(aw_task_take(self->task));
    AW_END;
}

AW_FIBER(int, joins_a_function) {
    struct joins_a_fiber *task = aw_spawn_named("function", AW_CALL(joins_a_fiber));
    CHECK_STR(aw_task_name(task), "function");
    CHECK_NE(aw_current_task_id(), aw_task_id(task));
    CHECK_EQ(aw_await(aw_task_join(task)), 0);
    CHECK_EQ(aw_task_take(task), 81);
    return 0;
}

TEST(a_function_joins_a_fiber_and_a_fiber_joins_a_function) {
    CHECK_EQ(aw_run(AW_CALL(joins_a_function)), 0);
}

static int count;

AW_FIBER(int, counts, int rounds;) {
    for (int i = 0; i < self->rounds; i++)
        CHECK_EQ(aw_fiber_yield(), 0);
    return ADD(count, 1);
}
AW_FIBER(int, detaches) {
    for (int i = 0; i < CROWD; i++)
        aw_task_detach(aw_spawn(AW_CALL(counts, .rounds = i % 5)));
    return aw_await(rounds(8));
}

TEST(detached_fibers_go_on_by_themselves) {
    CHECK_EQ(aw_run(AW_CALL(detaches)), 0);
    CHECK_EQ(LOAD(count), CROWD);
}

TEST(a_fiber_is_the_main_future_of_block_on_and_of_run) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    CHECK_EQ(aw_block_on(rt, AW_CALL(square, .n = 5)), 25);
    CHECK_EQ(aw_block_on(rt, AW_CALL(square, .n = -3)), 9);
    CHECK_EQ(aw_block_on_status(rt, AW_CALL(square, .n = 1)), 0);
    long out = 0;
    CHECK_EQ(aw_block_on_into(rt, &out, AW_CALL(square, .n = 4)), 0);
    CHECK_EQ(out, 16);
    aw_runtime_free(rt);
    CHECK_EQ(aw_run(AW_CALL(square, .n = 6)), 36);
}

AW_FIBER(int, many_rounds, int *runs; int rounds;) {
    for (int i = 0; i < self->rounds; i++) {
        ++*self->runs;
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    return 0;
}

AW_FIBER(int, alternates) {
    int runs[2] = {0, 0};
    struct many_rounds *a = aw_spawn(AW_CALL(many_rounds, .runs = &runs[0], .rounds = 1000));
    struct many_rounds *b = aw_spawn(AW_CALL(many_rounds, .runs = &runs[1], .rounds = 1000));
    while (!aw_task_is_finished(a) || !aw_task_is_finished(b)) {
        CHECK_LE(abs(runs[0] - runs[1]), 1);
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    CHECK_EQ(runs[0] + runs[1], 2000);
    aw_task_drop(a);
    aw_task_drop(b);
    return 0;
}

TEST(fibers_that_yield_alternate) {
    ON_THIS_THREAD("it counts polls");
    CHECK_EQ(aw_run(AW_CALL(alternates)), 0);
}

/* ---- Budget ----------------------------------------------------------------------------------- */

static struct {
    aw_notify notify;
    int taken, max_taken; /* notifications received; the most in one poll */
    bool stop;
} flood;

/* Never has to wait: it notifies itself before each wait. */
AW_FIBER(int, greedy) {
    while (!flood.stop) {
        aw_notify_one(&flood.notify);
        CHECK_EQ(aw_await_status(aw_notify_wait(&flood.notify)), 0);
        flood.taken++;
    }
    return 0;
}
/* Unlike a yield, this queues the task right behind the ready ones. */
static aw_poll wakes_itself(void *arg, aw_cx *cx, int *out) {
    *out = 0;
    if (++*(int *)arg > 1) return AW_READY;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}
AW_FIBER(int, runs_between) {
    CHECK_EQ(aw_fiber_yield(), 0);
    for (int i = 0; i < 20; i++) {
        int before = flood.taken, calls = 0;
        CHECK_EQ(aw_await(aw_poll_fn_of(wakes_itself, &calls)), 0);
        if (flood.taken - before > flood.max_taken) flood.max_taken = flood.taken - before;
    }
    flood.stop = true;
    return 0;
}

TEST(a_fiber_that_always_finds_something_ready_yields_after_128_operations) {
    ON_THIS_THREAD("it counts polls");
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct greedy *task = aw_spawn_on(rt, AW_CALL(greedy));
    CHECK_EQ(aw_block_on(rt, AW_CALL(runs_between)), 0);
    CHECK_EQ(JOIN_STATUS(rt, task), 0);
    CHECK_EQ(flood.max_taken, 128);
    aw_task_drop(task);
    aw_runtime_free(rt);
}

/* ---- Failing ---------------------------------------------------------------------------------- */

typedef struct order {
    char text[128];
} order;

static void note(order *o, const char *word) {
    strncat(o->text, word, sizeof o->text - strlen(o->text) - 1);
}

AW_FIBER(int, fails, order *order; int code;) {
    CHECK_EQ(aw_fiber_yield(), 0);
    int r = aw_fiber_fail(self->code);
    CHECK_EQ(r, -ECANCELED);
    CHECK(aw_cancelled());
    CHECK_EQ(aw_fiber_yield(), -ECANCELED);
    note(self->order, "inner ");
    return r;
}
AW_ASYNC(int, between, order *order; int code; struct fails f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, AW_CALL(fails, .order = self->order, .code = self->code));
    note(self->order, "wrong ");
    AW_RETURN(0);
    AW_FINALLY;
    note(self->order, "middle ");
    AW_END;
}
AW_FIBER(int, outermost, order *order; int code;) {
    int r = aw_await(AW_CALL(between, .order = self->order, .code = self->code));
    CHECK_EQ(r, -ECANCELED);
    AW_SHIELD {
        CHECK_EQ(aw_fiber_yield(), 0); /* cleanup may take time */
    }
    note(self->order, "outer ");
    return r;
}

TEST(a_fiber_that_fails_is_cancelled_from_inside_out_and_its_join_reports_the_code) {
    order o = {""};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct outermost *task = aw_spawn_on(rt, AW_CALL(outermost, .order = &o, .code = -EPROTO));
    CHECK_EQ(JOIN_STATUS(rt, task), -EPROTO);
    CHECK_STR(o.text, "inner middle outer ");
    aw_task_drop(task);

    o.text[0] = 0; /* as the main future */
    CHECK_EQ(aw_block_on(rt, AW_CALL(outermost, .order = &o, .code = -EXDEV)), -EXDEV);
    CHECK_STR(o.text, "inner middle outer ");
    aw_runtime_free(rt);
}

AW_FIBER(int, joins_a_failing_fiber, order *order;) {
    struct fails *task = aw_spawn(AW_CALL(fails, .order = self->order, .code = -ENOSR));
    CHECK_EQ(aw_await(aw_task_join(task)), -ENOSR);
    CHECK(!aw_cancelled());
    aw_task_drop(task);
    return 4;
}

TEST(a_fiber_that_joins_a_failed_fiber_continues) {
    order o = {""};
    CHECK_EQ(aw_run(AW_CALL(joins_a_failing_fiber, .order = &o)), 4);
}

/* Its child finishes while it is being cancelled, so it continues, and then fails. */
AW_FIBER(int, fails_when_cancelled, probe_state *state;) {
    int r = aw_await(probe_of(self->state));
    CHECK_GT(r, 0);
    CHECK(aw_cancelled());
    return aw_fiber_fail(-ENODATA);
}

TEST(a_fiber_that_fails_while_it_is_being_cancelled_joins_with_its_code) {
    probe_state l = PROBE_STATE;
    l.cancel_answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct fails_when_cancelled *task = aw_spawn_on(rt, AW_CALL(fails_when_cancelled, .state = &l));
    run_a_while(rt);
    aw_task_abort(task);
    CHECK_EQ(JOIN_STATUS(rt, task), -ENODATA);
    aw_task_drop(task);
    aw_runtime_free(rt);
}

TEST(aborting_a_fiber_that_has_failed_does_not_change_its_code) {
    order o = {""};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct outermost *task = aw_spawn_on(rt, AW_CALL(outermost, .order = &o, .code = -ENOSR));
    while (!aw_task_is_finished(task)) {
        CHECK_EQ(aw_block_on(rt, rounds(1)), 0);
        if (o.text[0]) aw_task_abort(task);
    }
    CHECK_EQ(JOIN_STATUS(rt, task), -ENOSR);
    aw_task_drop(task);
    aw_runtime_free(rt);
}

TEST(a_main_fiber_of_a_follower_can_fail_too) {
    order o = {""};
    host h;
    host_start(&h, NULL);
    CHECK_EQ(aw_block_on(h.rt, AW_CALL(outermost, .order = &o, .code = -EUNATCH)), -EUNATCH);
    CHECK_STR(o.text, "inner middle outer ");
    host_stop(&h);
    aw_runtime_free(h.rt);
}

static void fail_outside_a_task(void) {
    order o = {""};
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    struct fails f = AW_CALL(fails, .order = &o, .code = -EIO);
    aw_future_poll(&f.future, &cx);
    aw_future_poll(&f.future, &cx);
}

TEST(failing_is_caught_where_it_makes_no_sense) {
    order o = {""};
    DIES((void)aw_fiber_fail(-EIO), "aw_fiber_fail outside a fiber");
    DIES((void)aw_run(AW_CALL(fails, .order = &o, .code = 5)), "not a negative errno");
    DIES(fail_outside_a_task(), "outside a task");
}

/* ---- Threads ---------------------------------------------------------------------------------- */

static pthread_t released_by, entered_by;

AW_FIBER(int, waits_for_ever, event *entered;) {
    entered_by = pthread_self();
    if (self->entered) event_post(self->entered);
    int r = aw_await_status(aw_never_ready());
    released_by = pthread_self();
    return r;
}

static void *spawn_and_abort(void *arg) {
    host *h = arg;
    event entered;
    event_init(&entered);
    for (int i = 0; i < test_scale(200); i++) {
        struct waits_for_ever *task = aw_spawn_on(
            h->rt, AW_CALL(waits_for_ever, .entered = i % 2 ? &entered : NULL));
        if (i % 2) event_wait(&entered);
        aw_task_abort(task);
        CHECK_EQ(aw_block_on(h->rt, aw_task_join(task)), -ECANCELED);
        aw_task_drop(task);
        if (i % 2) CHECK(pthread_equal(released_by, h->thread));
    }
    return NULL;
}

TEST(fibers_spawned_and_aborted_from_another_thread_run_and_end_on_the_runtimes_own) {
    host h;
    host_start(&h, NULL);
    on_a_thread(spawn_and_abort, &h);
    CHECK(pthread_equal(entered_by, h.thread));
    host_stop(&h);
    aw_runtime_free(h.rt); /* no fiber remains, so any thread may free it */
}

static void *run_fibers(void *arg) {
    long *sum = arg;
    for (int i = 0; i < test_scale(100); i++)
        *sum += aw_run(AW_CALL(square, .n = i % 10));
    return NULL;
}

TEST(threads_with_runtimes_of_their_own_run_fibers_at_the_same_time) {
    pthread_t threads[4];
    long sums[4] = {0}, alone = 0;
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start(run_fibers, &sums[i]);
    run_fibers(&alone);
    for (int i = 0; i < 4; i++) {
        thread_end(threads[i]);
        CHECK_EQ(sums[i], alone);
    }
}

AW_FIBER(int, ends_with_the_runtime, int *ended;) {
    int r = aw_await(aw_sleep_for(AW_SEC(1000)));
    CHECK_EQ(r, -ECANCELED);
    AW_SHIELD {
        CHECK_EQ(aw_fiber_yield(), 0);
        struct counts *late = aw_spawn(AW_CALL(counts)); /* refused: the runtime is shutting down */
        CHECK_EQ(aw_task_error(late), -ECANCELED);
        aw_task_drop(late);
    }
    ADD(*self->ended, 1);
    return r;
}

TEST(ending_a_runtime_cancels_its_fibers_and_waits_for_them) {
    int ended = 0;
    struct ends_with_the_runtime *tasks[CROWD];
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    for (int i = 0; i < CROWD; i++)
        tasks[i] = aw_spawn_on(rt, AW_CALL(ends_with_the_runtime, .ended = &ended));
    run_a_while(rt);
    for (int i = 0; i < CROWD; i += 2)
        aw_task_drop(tasks[i]);
    aw_runtime_free(rt);
    CHECK_EQ(LOAD(ended), CROWD);
    CHECK_EQ(LOAD(count), 0);
    for (int i = 1; i < CROWD; i += 2) {
        CHECK(aw_task_is_finished(tasks[i]));
        aw_task_drop(tasks[i]);
    }
}

/* ---- Reports ---------------------------------------------------------------------------------- */

AW_FIBER(int, forgetful, probe_state *state;) {
    return aw_await(probe_of(self->state));
}
AW_ASYNC(int, trusting, probe_state *state; struct forgetful inner;) {
    AW_BEGIN;
    AW_AWAIT(self->inner, AW_CALL(forgetful, .state = self->state));
    AW_RETURN(self->inner.out);
    AW_END;
}
AW_FIBER(int, trusts_it_all, probe_state *state;) {
    return aw_await(AW_CALL(trusting, .state = self->state));
}

TEST(a_fiber_that_cannot_be_woken_is_reported_with_its_chain) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    l.careless = true;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    struct trusts_it_all *task = aw_spawn_on(rt, AW_CALL(trusts_it_all, .state = &l));
    run_a_while(rt);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
    CHECK_CONTAINS(log.text, "'trusts_it_all' (spawned at ");
    CHECK_CONTAINS(log.text, "  trusts_it_all: waits at ");
    CHECK_CONTAINS(log.text, "    trusting at ");
    CHECK_CONTAINS(log.text, "      forgetful: waits at ");
    CHECK_CONTAINS(log.text, "        probe\n");
    run_a_while(rt);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
    aw_task_drop(task);
    aw_runtime_free(rt);
    CHECK_EQ(l.cancels, 1);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
}

AW_FIBER(int, keeps_waiting, aw_notify *notify;) {
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_await(aw_sleep_for(AW_SEC(1))), 0);
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    return aw_await_status(aw_notify_wait(self->notify));
}

TEST(a_fiber_that_can_still_be_woken_is_not_reported) {
    kept_log log = KEPT_LOG;
    aw_notify n = AW_NOTIFY_INIT;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, true);
    struct keeps_waiting *task = aw_spawn_on(rt, AW_CALL(keeps_waiting, .notify = &n));
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(10))), 0);
    CHECK(!aw_task_is_finished(task));
    aw_notify_one(&n);
    CHECK_EQ(JOIN_STATUS(rt, task), 0);
    CHECK_EQ(log.length, 0);
    aw_task_drop(task);
    aw_runtime_free(rt);
}

static struct joins_other {
    AW_FIBER_FRAME(int);
    struct joins_other **other;
} * one, *two;
AW_FIBER_STATIC(joins_other) {
    while (!__atomic_load_n(self->other, __ATOMIC_ACQUIRE))
        CHECK_EQ(aw_fiber_yield(), 0);
    return aw_await(aw_task_join(*self->other));
}

TEST(a_circle_of_fibers_that_join_each_other_is_a_deadlock) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    l.careless = true;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    __atomic_store_n(&one, aw_spawn_on(rt, AW_CALL(joins_other, .other = &two)), __ATOMIC_RELEASE);
    __atomic_store_n(&two, aw_spawn_on(rt, AW_CALL(joins_other, .other = &one)), __ATOMIC_RELEASE);
    CHECK_EQ(aw_block_on(rt, AW_CALL(forgetful, .state = &l)), -EDEADLK);
    CHECK_EQ(log_count(&log, "deadlock: nothing can run any more\nthe main future\n  forgetful: "),
             1);
    CHECK_EQ(log_count(&log, "  joins_other: waits at "), 2);
    aw_runtime_free(rt);
    aw_task_drop(one);
    aw_task_drop(two);
}

/* ---- Mistakes --------------------------------------------------------------------------------- */

AW_FIBER(int, blocks, aw_runtime *rt; int *calls;) {
    CHECK_EQ(aw_fiber_yield(), 0);
    CHECK_EQ(aw_block_on(self->rt, aw_sleep_for(1)), -EPERM);
    CHECK_EQ(aw_run(AW_CALL(square, .n = 2)), -EPERM);
    ++*self->calls;
    return aw_fiber_yield();
}

TEST(block_on_inside_a_fiber_is_refused_and_the_fiber_goes_on) {
    kept_log log = KEPT_LOG;
    int calls = 0;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, false);
    struct blocks *task = aw_spawn_on(rt, AW_CALL(blocks, .rt = rt, .calls = &calls));
    CHECK_EQ(JOIN_STATUS(rt, task), 0);
    CHECK_EQ(aw_task_take(task), 0);
    CHECK_EQ(calls, 1);
    CHECK_EQ(log_count(&log, "was refused inside task"), 2);
    CHECK_CONTAINS(log.text, "'blocks'");
    aw_runtime_free(rt);
}

static aw_poll awaits_in_a_poll(void *arg, aw_cx *cx, int *out) {
    (void)arg, (void)cx;
    *out = aw_await(aw_ready_now(1));
    return AW_READY;
}
static aw_poll yields_in_its_second_poll(void *arg, aw_cx *cx, int *out) {
    if (++*(int *)arg == 2) *out = aw_fiber_yield();
    aw_cx_yield(cx);
    return AW_PENDING;
}
AW_ASYNC(int, mixes_them_up) {
    AW_BEGIN;
    AW_RETURN(aw_await(aw_ready_now(1)));
    AW_END;
}
AW_FIBER(int, awaits_a_mistake, int which;) {
    int calls = 0;
    return self->which == 0   ? aw_await(aw_poll_fn_of(awaits_in_a_poll, NULL))
           : self->which == 1 ? aw_await(aw_poll_fn_of(yields_in_its_second_poll, &calls))
                              : aw_await(AW_CALL(mixes_them_up));
}

TEST(awaiting_outside_a_fiber_is_caught_with_file_and_line) {
    DIES((void)aw_await(aw_ready_now(1)), "fiber_task.c:");
    DIES((void)aw_await(aw_ready_now(1)), "an await outside a fiber");
    DIES((void)aw_fiber_yield(), "aw_fiber_yield outside a fiber");
    DIES((void)aw_run(AW_CALL(mixes_them_up)), "an await outside a fiber");
}

TEST(awaiting_in_the_poll_of_what_a_fiber_awaits_is_caught) {
    DIES((void)aw_run(AW_CALL(awaits_a_mistake, .which = 0)),
         "outside a fiber: this is the poll of something that a fiber awaits");
    DIES((void)aw_run(AW_CALL(awaits_a_mistake, .which = 1)), "aw_fiber_yield outside a fiber");
    DIES((void)aw_run(AW_CALL(awaits_a_mistake, .which = 2)), "fiber_task.c:");
}

AW_FIBER(int, polls_itself, bool cancel;) {
    return self->cancel ? (int)aw_future_cancel(&self->future, aw_fiber_cx())
                        : aw_await_future(&self->future);
}

TEST(a_fiber_that_polls_itself_is_caught) {
    DIES((void)aw_run(AW_CALL(polls_itself)), "'polls_itself' was polled while it is running");
    DIES((void)aw_run(AW_CALL(polls_itself, .cancel = true)), "by itself");
}

/* ---- On another thread ------------------------------------------------------------------------ */

static struct {
    struct waits_for_ever f;
    event polled, done;
} foreign;

static aw_poll call_foreign(bool cancel) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    return cancel ? aw_future_cancel(&foreign.f.future, &cx)
                  : aw_future_poll(&foreign.f.future, &cx);
}

static void *poll_foreign(void *arg) {
    (void)arg;
    CHECK_EQ(call_foreign(false), AW_PENDING);
    event_post(&foreign.polled);
    event_wait(&foreign.done);
    CHECK_EQ(call_foreign(true), AW_CANCELLED);
    return NULL;
}

TEST(a_fiber_that_is_polled_by_another_thread_than_its_first_is_caught) {
    event_init(&foreign.polled);
    event_init(&foreign.done);
    foreign.f = AW_CALL(waits_for_ever);
    CHECK_EQ(aw_run(AW_CALL(square, .n = 2)), 4); /* this thread has used a stack too */
    pthread_t thread = thread_start(poll_foreign, NULL);
    event_wait(&foreign.polled);
    DIES(call_foreign(false), "'waits_for_ever' was first polled by another thread");
    DIES(call_foreign(true), "a fiber stays on its first thread");
    event_post(&foreign.done);
    thread_end(thread);
}
