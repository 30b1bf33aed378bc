/* SPDX-License-Identifier: MIT
 *
 * Aborting a task: asynchronous, idempotent, on the runtime's own thread. An idle task is not
 * polled again. A task may still finish first, and its join says which it was. */
#include "support/tasks.h"

/* Joins a task, drops its handle, and returns the status. */
AW_ASYNC(int, outcome, struct probe *task; aw_task_join_future join;) {
    AW_BEGIN;
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN(self->join.out);
    AW_FINALLY;
    aw_task_drop(self->task);
    AW_END;
}

#define OUTCOME(rt, handle) aw_block_on(rt, AW_CALL(outcome, .task = handle))

TEST(abort_returns_before_the_task_is_cancelled) {
    ON_THIS_THREAD("the task does not run meanwhile");
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    CHECK_EQ(l.polls, 1);
    aw_task_abort(h);
    CHECK_EQ(l.cancels, 0);
    CHECK(!aw_task_is_finished(h));
    run_a_while(rt);
    CHECK_EQ(l.cancels, 1);
    CHECK(aw_task_is_finished(h));
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    aw_runtime_free(rt);
}

AW_ASYNC(int, abort_from_inside, probe_state *state; struct probe * task; struct rounds pause;) {
    AW_BEGIN;
    self->task = aw_spawn(probe_of(self->state));
    AW_AWAIT(self->pause, rounds(3));
    aw_task_abort(self->task);
    CHECK_EQ(self->state->cancels, 0);
    CHECK(!aw_task_is_finished(self->task));
    AW_AWAIT(self->pause, rounds(3));
    CHECK_EQ(self->state->cancels, 1);
    CHECK(aw_task_is_finished(self->task));
    aw_task_drop(self->task);
    AW_RETURN(0);
    AW_END;
}

TEST(abort_by_another_task_does_not_run_the_cancel_in_its_own_poll) {
    ON_THIS_THREAD("the task does not run meanwhile");
    probe_state l = PROBE_STATE;
    CHECK_EQ(aw_run(AW_CALL(abort_from_inside, .state = &l)), 0);
    CHECK_EQ(l.polls, 1);
}

TEST(an_idle_task_is_released_without_being_polled_again) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_abort(h);
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    CHECK_EQ(l.polls, 1);
    CHECK_EQ(l.cancels, 1);
    aw_runtime_free(rt);
}

TEST(a_task_that_was_woken_is_cancelled_and_not_polled) {
    ON_THIS_THREAD("the task does not run meanwhile");
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    probe_finish(&l); /* it would be READY */
    aw_task_abort(h);
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    CHECK_EQ(l.polls, 1);
    CHECK_EQ(l.cancels, 1);
    aw_runtime_free(rt);
}

TEST(a_task_aborted_before_block_on_is_never_polled) {
    ON_THIS_THREAD("the task does not run meanwhile");
    probe_state l = PROBE_STATE;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    aw_task_abort(h);
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    CHECK_EQ(l.polls, 0);
    CHECK_EQ(l.cancels, 1);
    aw_runtime_free(rt);
}

TEST(aborting_again_and_again_is_one_cancel) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    for (int i = 0; i < 10; i++)
        aw_task_abort(h);
    run_a_while(rt);
    CHECK_EQ(l.cancels, 1);
    for (int i = 0; i < 10; i++)
        aw_task_abort(h);
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    CHECK_EQ(l.cancels, 1);
    CHECK_EQ(l.polls, 1);
    aw_runtime_free(rt);
}

TEST(aborting_again_does_not_call_a_pending_cancel_again) {
    probe_state l = PROBE_STATE;
    l.cancel_answer = AW_PENDING;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_abort(h);
    run_a_while(rt);
    CHECK_EQ(l.cancels, 1);
    aw_task_abort(h);
    run_a_while(rt);
    CHECK_EQ(l.cancels, 1);
    CHECK(!aw_task_is_finished(h));
    l.cancel_answer = AW_CANCELLED;
    probe_wake(&l);
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    CHECK_EQ(l.cancels, 2);
    CHECK_EQ(l.polls, 1);
    aw_runtime_free(rt);
}

TEST(a_pending_cancel_is_called_again_by_each_wake_and_poll_never) {
    probe_state l = PROBE_STATE;
    l.cancel_answer = AW_PENDING;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_abort(h);
    for (int i = 1; i <= 5; i++) {
        run_a_while(rt);
        CHECK_EQ(l.cancels, i);
        if (i == 5) l.cancel_answer = AW_CANCELLED;
        probe_wake(&l);
    }
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    CHECK_EQ(l.cancels, 6);
    CHECK_EQ(l.polls, 1);
    aw_runtime_free(rt);
}

/* ---- Finished first -------------------------------------------------------------------------- */

TEST(an_aborted_task_that_finishes_while_it_is_cancelled_joins_as_finished) {
    probe_state l = PROBE_STATE;
    l.cancel_answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_abort(h);
    aw_task_join_future join = aw_task_join(h);
    CHECK_EQ(aw_block_on_future(rt, &join.future), 0);
    CHECK_EQ(join.out, 0);
    CHECK_EQ(aw_task_take(h), 201); /* the output of the first cancel */
    CHECK_EQ(l.discards, 0);
    aw_runtime_free(rt);
}

TEST(an_aborted_task_that_finishes_first_and_is_not_joined_is_discarded_once) {
    probe_state l = PROBE_STATE;
    l.cancel_answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_abort(h);
    aw_task_drop(h);
    run_a_while(rt);
    CHECK_EQ(l.cancels, 1);
    CHECK_EQ(l.discards, 1);
    aw_runtime_free(rt);
    CHECK_EQ(l.discards, 1);
}

TEST(aborting_a_task_that_has_finished_changes_nothing) {
    probe_state l = PROBE_STATE;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_abort(h);
    CHECK_EQ(OUTCOME(rt, h), 0);
    CHECK_EQ(l.cancels, 0);
    CHECK_EQ(l.discards, 0);
    aw_runtime_free(rt);
}

/* ---- Itself ---------------------------------------------------------------------------------- */

static void abort_own_task(probe_state *l, aw_cx *cx) {
    (void)cx;
    aw_task_abort(*(struct probe **)l->arg);
    CHECK_EQ(l->cancels, 0); /* not inside its own poll */
}

TEST(a_task_that_aborts_itself_and_waits_is_cancelled) {
    ON_THIS_THREAD("it has its handle before it runs");
    struct probe *h = NULL;
    probe_state l = PROBE_STATE;
    l.during_poll = abort_own_task;
    l.arg = &h;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    CHECK_EQ(l.polls, 1);
    CHECK_EQ(l.cancels, 1);
    aw_runtime_free(rt);
}

TEST(a_task_that_aborts_itself_and_returns_has_finished) {
    ON_THIS_THREAD("it has its handle before it runs");
    struct probe *h = NULL;
    probe_state l = PROBE_STATE;
    l.during_poll = abort_own_task;
    l.arg = &h;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(OUTCOME(rt, h), 0);
    CHECK_EQ(l.cancels, 0);
    aw_runtime_free(rt);
}

static void drop_own_handle(probe_state *l, aw_cx *cx) {
    (void)cx;
    aw_task_drop(*(struct probe **)l->arg);
}

TEST(a_task_may_drop_its_own_handle_while_it_runs) {
    ON_THIS_THREAD("the handle is known before the task runs");
    for (int ready = 0; ready < 2; ready++) {
        memory m;
        struct probe *h = NULL;
        probe_state l = PROBE_STATE;
        l.during_poll = drop_own_handle;
        l.arg = &h;
        l.answer = ready ? AW_READY : AW_PENDING;
        memory_init(&m);
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        h = aw_spawn_on(rt, probe_of(&l));
        run_a_while(rt);
        CHECK_EQ(l.discards, ready);
        aw_runtime_free(rt);
        CHECK_EQ(l.cancels, !ready);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* ---- From other threads ---------------------------------------------------------------------- */

static void *abort_elsewhere(void *handle) {
    aw_task_abort((struct probe *)handle);
    return NULL;
}

static void abort_on_a_thread(probe_state *l, aw_cx *cx) {
    (void)cx;
    on_a_thread(abort_elsewhere, *(struct probe **)l->arg);
}

TEST(a_task_aborted_by_a_thread_during_its_own_poll_is_cancelled_when_it_waits) {
    ON_THIS_THREAD("it looks at which thread runs it");
    struct probe *h = NULL;
    probe_state l = PROBE_STATE;
    l.during_poll = abort_on_a_thread;
    l.arg = &h;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    CHECK_EQ(l.polls, 1);
    CHECK_EQ(l.cancels, 1);
    CHECK(pthread_equal(l.cancelled_by, pthread_self()));
    aw_runtime_free(rt);
}

TEST(a_task_aborted_by_a_thread_during_its_last_poll_has_finished) {
    ON_THIS_THREAD("the handle is known before the task runs");
    struct probe *h = NULL;
    probe_state l = PROBE_STATE;
    l.during_poll = abort_on_a_thread;
    l.arg = &h;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(OUTCOME(rt, h), 0);
    CHECK_EQ(l.cancels, 0);
    aw_runtime_free(rt);
}

/* A thread waits until the runtime sleeps, and aborts a task then. */
struct foreign_abort {
    sleeper *sleeper;
    struct probe *handle;
};

static void *abort_when_asleep(void *arg) {
    struct foreign_abort *a = arg;
    event_wait(&a->sleeper->asleep);
    aw_task_abort(a->handle);
    return NULL;
}

TEST(abort_from_a_thread_wakes_the_runtime_and_releases_the_frame_there) {
    sleeper s;
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, sleeper_init(&s), false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    struct foreign_abort a = {&s, h};
    pthread_t t = thread_start(abort_when_asleep, &a);
    CHECK_EQ(OUTCOME(rt, h), -ECANCELED);
    thread_end(t);
    CHECK_EQ(l.polls, 1);
    CHECK_EQ(l.cancels, 1);
    CHECK(pthread_equal(l.cancelled_by, pthread_self()));
    aw_runtime_free(rt);
}

/* A task with a FINALLY that waits. It records the thread of each part. */
AW_ASYNC(int, careful, aw_notify *cleaned; pthread_t * ran_by; int *finals; aw_never never;
         aw_notified wait;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    ++*self->finals;
    AW_AWAIT(self->wait, aw_notify_wait(self->cleaned));
    ++*self->finals;
    *self->ran_by = pthread_self();
    AW_END;
}

static void *abort_careful(void *handle) {
    aw_task_abort((struct careful *)handle);
    return NULL;
}

TEST(a_second_abort_does_not_cut_cleanup_short) {
    ON_THIS_THREAD("it looks at which thread runs it");
    aw_notify cleaned = AW_NOTIFY_INIT;
    pthread_t ran_by;
    int finals = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct careful *h = aw_spawn_on(
        rt, AW_CALL(careful, .cleaned = &cleaned, .ran_by = &ran_by, .finals = &finals));
    run_a_while(rt);
    on_a_thread(abort_careful, h);
    run_a_while(rt);
    CHECK_EQ(finals, 1);
    on_a_thread(abort_careful, h);
    aw_task_abort(h);
    run_a_while(rt);
    CHECK_EQ(finals, 1);
    CHECK(!aw_task_is_finished(h));
    aw_notify_one(&cleaned);
    run_a_while(rt);
    CHECK_EQ(finals, 2);
    CHECK(aw_task_is_finished(h));
    CHECK(pthread_equal(ran_by, pthread_self()));
    aw_task_drop(h);
    aw_runtime_free(rt);
}

TEST(ending_the_runtime_waits_for_cleanup_that_has_begun) {
    sleeper s;
    aw_notify cleaned = AW_NOTIFY_INIT;
    pthread_t ran_by;
    int finals = 0;
    aw_notify_one(&cleaned); /* so that it does not have to wait long */
    aw_runtime *rt = runtime_new(NULL, NULL, sleeper_init(&s), false);
    struct careful *h = aw_spawn_on(
        rt, AW_CALL(careful, .cleaned = &cleaned, .ran_by = &ran_by, .finals = &finals));
    run_a_while(rt);
    aw_runtime_free(rt);
    CHECK_EQ(finals, 2);
    CHECK(aw_task_is_finished(h));
    aw_task_drop(h);
}

/* ---- In the queues --------------------------------------------------------------------------- */

AW_ASYNC(int, only_yields, int *polls;) {
    AW_BEGIN;
    for (;;) {
        ++*self->polls;
        AW_YIELD;
    }
    AW_RETURN(0);
    AW_END;
}

TEST(a_task_that_only_yields_can_be_aborted) {
    ON_THIS_THREAD("it counts polls");
    int polls = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct only_yields *h = aw_spawn_on(rt, AW_CALL(only_yields, .polls = &polls));
    run_a_while(rt);
    int before = polls;
    CHECK_GT(before, 1);
    aw_task_abort(h);
    run_a_while(rt);
    CHECK(aw_task_is_finished(h));
    CHECK_EQ(polls, before);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

TEST(aborting_a_handle_of_a_failed_spawn_does_nothing) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    aw_set_log(keep_log, &log);
    struct probe *h = aw_spawn(probe_of(&l));
    CHECK_EQ(aw_task_error(h), -ENXIO);
    CHECK_EQ(l.cancels, 1);
    aw_task_abort(h);
    aw_task_abort(h);
    CHECK_EQ(l.cancels, 1);
    aw_task_drop(h);
}
