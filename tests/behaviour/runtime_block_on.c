/* SPDX-License-Identifier: MIT
 *
 * block_on and run: what they return, once and several times on one runtime, where they are
 * refused, and how unfinished tasks go on. Two threads at once are in runtime_follower.c. */
#include "support/tasks.h"

/* ---- Outputs of every kind ------------------------------------------------------------------- */

AW_ASYNC(long, a_long, long n; struct rounds pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, rounds(2));
    AW_RETURN(self->n);
    AW_END;
}

AW_ASYNC(void, nothing, int *ran;) {
    AW_BEGIN;
    ++*self->ran;
    AW_RETURN_VOID;
    AW_END;
}

typedef struct point {
    double x, y;
    const char *name;
} point;

AW_ASYNC(point, a_point, struct rounds pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, rounds(1));
    AW_RETURN(((point){1.5, -2.5, "here"}));
    AW_END;
}

TEST(the_typed_forms_give_every_kind_of_output) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    int ran = 0;
    point p = {0, 0, NULL};
    aw_unit unit;
    void *pointer = NULL;
    long l = aw_block_on(rt, AW_CALL(a_long, .n = 1L << 40));
    CHECK_EQ(l, 1L << 40);
    CHECK_EQ(aw_block_on(rt, AW_CALL(a_long, .n = -7)), -7); /* an output may be negative */
    CHECK_EQ(aw_block_on_into(rt, &p, AW_CALL(a_point)), 0);
    CHECK(p.x == 1.5 && p.y == -2.5);
    CHECK_STR(p.name, "here");
    CHECK_EQ(aw_block_on_into(rt, &unit, AW_CALL(nothing, .ran = &ran)), 0);
    CHECK_EQ(aw_block_on_status(rt, AW_CALL(nothing, .ran = &ran)), 0);
    CHECK_EQ(ran, 2);
    CHECK_EQ(aw_block_on_into(rt, &pointer, aw_ready_pointer(rt)), 0);
    CHECK_EQ(pointer, rt);
    aw_runtime_free(rt);

    CHECK_EQ(aw_run(AW_CALL(a_long, .n = 3)), 3);
    p = (point){0, 0, NULL};
    CHECK_EQ(aw_run_into(&p, AW_CALL(a_point)), 0);
    CHECK_STR(p.name, "here");
    CHECK_EQ(aw_run_status(AW_CALL(nothing, .ran = &ran)), 0);
    CHECK_EQ(ran, 3);
}

TEST(the_status_forms_discard_the_output_and_the_others_hand_it_over) {
    probe_state l = PROBE_STATE;
    int out = 0;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    CHECK_EQ(aw_block_on_into(rt, &out, probe_of(&l)), 0);
    CHECK_EQ(out, 101);
    CHECK_EQ(l.discards, 0);
    CHECK_EQ(aw_block_on(rt, probe_of(&l)), 102);
    CHECK_EQ(l.discards, 0);
    CHECK_EQ(aw_block_on_status(rt, probe_of(&l)), 0);
    CHECK_EQ(l.discards, 1);
    aw_runtime_free(rt);
    CHECK_EQ(aw_run_status(probe_of(&l)), 0);
    CHECK_EQ(l.discards, 2);
    CHECK_EQ(aw_run(probe_of(&l)), 105);
    CHECK_EQ(l.discards, 2);
}

/* ---- Several times --------------------------------------------------------------------------- */

AW_ASYNC(int, count_polls, int *polls;) {
    AW_BEGIN;
    for (;;) {
        ++*self->polls;
        AW_YIELD;
    }
    AW_RETURN(0);
    AW_END;
}

TEST(unfinished_tasks_go_on_in_the_next_block_on) {
    ON_THIS_THREAD("tasks stand still between two block_on");
    int polls = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct count_polls *h = aw_spawn_on(rt, AW_CALL(count_polls, .polls = &polls));
    int before = 0;
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(aw_block_on(rt, rounds(5)), 0);
        CHECK_GE(polls, before + 4);
        CHECK_LE(polls, before + 6);
        before = polls;
    }
    CHECK_EQ(aw_runtime_task_count(rt), 1);
    CHECK(!aw_task_is_finished(h));
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(polls, before);
}

/* A main future that is woken through a waker of an earlier one. */
TEST(a_waker_of_an_earlier_main_future_does_not_disturb_the_next) {
    probe_state first = PROBE_STATE, second = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    first.answer = AW_READY;
    first.careless = true;
    CHECK_EQ(aw_block_on_status(rt, probe_of(&first)), 0);
    aw_notify n = AW_NOTIFY_INIT;
    aw_notify_one(&n);
    CHECK_EQ(aw_block_on(rt, aw_notify_wait(&n)), 0);
    second.answer = AW_READY;
    CHECK_EQ(aw_block_on_status(rt, probe_of(&second)), 0);
    CHECK_EQ(second.polls, 1);
    aw_runtime_free(rt);
}

/* ---- Background tasks ------------------------------------------------------------------------ */

AW_ASYNC(int, background, int *finals; aw_notify * never; aw_notified wait; struct rounds pause;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, aw_notify_wait(self->never));
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->pause, rounds(5)); /* cleanup that takes several polls */
    ADD(*self->finals, 1);
    AW_END;
}

AW_ASYNC(int, main_with_background, int *finals; aw_notify * never; struct rounds pause;) {
    AW_BEGIN;
    for (int i = 0; i < 10; i++)
        aw_task_drop(aw_spawn(AW_CALL(background, .finals = self->finals, .never = self->never)));
    AW_AWAIT(self->pause, rounds(2));
    for (int i = 0; i < 10; i++) /* some that never ran */
        aw_task_drop(aw_spawn(AW_CALL(background, .finals = self->finals, .never = self->never)));
    AW_RETURN(17);
    AW_END;
}

TEST(run_cancels_background_tasks_and_waits_for_their_cleanup) {
    int finals = 0;
    aw_notify never = AW_NOTIFY_INIT;
    CHECK_EQ(aw_run(AW_CALL(main_with_background, .finals = &finals, .never = &never)), 17);
    CHECK_EQ(LOAD(finals), 20);
    CHECK_EQ(never.first, NULL); /* no waiter is still queued */
}

/* Cleanup of one task that waits for the cleanup of another. */
AW_ASYNC(int, waits_for_cleanup, aw_notify *cleaned; int *finals; aw_never never;
         aw_notified wait;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    AW_AWAIT(self->wait, aw_notify_wait(self->cleaned));
    ADD(*self->finals, 1);
    AW_END;
}

AW_ASYNC(int, notifies_when_clean, aw_notify *cleaned; int *finals; aw_never never; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(20))); /* timers go on during the shutdown */
    aw_notify_one(self->cleaned);
    ADD(*self->finals, 1);
    AW_END;
}

TEST(timers_and_tasks_go_on_while_the_runtime_ends) {
    int finals = 0;
    aw_notify cleaned = AW_NOTIFY_INIT;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, true);
    aw_task_drop(
        aw_spawn_on(rt, AW_CALL(waits_for_cleanup, .cleaned = &cleaned, .finals = &finals)));
    aw_task_drop(
        aw_spawn_on(rt, AW_CALL(notifies_when_clean, .cleaned = &cleaned, .finals = &finals)));
    run_a_while(rt);
    aw_runtime_free(rt);
    CHECK_EQ(LOAD(finals), 2);
}

/* Cleanup that another thread completes while the shutdown waits for it. */
struct finisher {
    sleeper *sleeper;
    aw_notify *cleaned;
};

static void *finish_when_asleep(void *arg) {
    struct finisher *f = arg;
    event_wait(&f->sleeper->asleep);
    aw_notify_one(f->cleaned);
    return NULL;
}

TEST(the_end_waits_for_cleanup_that_a_thread_finishes) {
    sleeper s;
    int finals = 0;
    aw_notify cleaned = AW_NOTIFY_INIT;
    struct finisher f = {&s, &cleaned};
    aw_runtime *rt = runtime_new(NULL, NULL, sleeper_init(&s), false);
    aw_task_drop(
        aw_spawn_on(rt, AW_CALL(waits_for_cleanup, .cleaned = &cleaned, .finals = &finals)));
    run_a_while(rt);
    pthread_t t = thread_start(finish_when_asleep, &f);
    aw_runtime_free(rt);
    CHECK_EQ(LOAD(finals), 1);
    thread_end(t);
}

/* Created on one thread, run on another, freed on a third. */
static void *run_rounds(void *rt) {
    run_a_while(rt);
    return NULL;
}

static void *free_runtime(void *rt) {
    aw_runtime_free(rt);
    return NULL;
}

TEST(any_thread_may_run_a_runtime_and_any_may_end_it) {
    memory m;
    int finals = 0;
    aw_notify never = AW_NOTIFY_INIT;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    for (int i = 0; i < 3; i++) {
        aw_task_drop(aw_spawn_on(rt, AW_CALL(background, .finals = &finals, .never = &never)));
        on_a_thread(run_rounds, rt);
    }
    on_a_thread(free_runtime, rt);
    CHECK_EQ(LOAD(finals), 3);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(an_idle_runtime_ends_at_once) {
    /* Pending for an hour, but nothing to wait for. */
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    for (int i = 0; i < 100; i++)
        aw_task_drop(aw_spawn_on(rt, aw_sleep_for(AW_SEC(3600))));
    run_a_while(rt);
    uint64_t begin = test_now_ns();
    aw_runtime_free(rt);
    CHECK_LT(test_now_ns() - begin, AW_SEC(5));
    aw_runtime_free(NULL); /* harmless */
}

/* ---- Refused --------------------------------------------------------------------------------- */

/* A future that must be released although it cannot run. */
AW_ASYNC(int, unwanted, int *finals;) {
    AW_BEGIN;
    AW_RETURN(1);
    AW_FINALLY;
    ADD(*self->finals, 1);
    CHECK(!AW_STARTED);
    AW_END;
}

AW_ASYNC(int, blocks_inside, aw_runtime *rt; int *finals;) {
    AW_BEGIN;
    AW_RETURN(aw_block_on(self->rt, AW_CALL(unwanted, .finals = self->finals)));
    AW_END;
}

AW_ASYNC(int, blocks_in_a_task, aw_runtime *rt; int *finals; struct blocks_inside * task;
         aw_task_join_future join;) {
    AW_BEGIN;
    self->task = aw_spawn_named("the impatient one",
                                AW_CALL(blocks_inside, .rt = self->rt, .finals = self->finals));
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN(aw_task_take(self->task));
    AW_END;
}

TEST(block_on_inside_a_task_is_refused_by_name) {
    kept_log log = KEPT_LOG;
    int finals = 0;
    aw_set_log(keep_log, &log);
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false),
               *other = runtime_new(NULL, NULL, NULL, false);
    CHECK_EQ(aw_block_on(rt, AW_CALL(blocks_in_a_task, .rt = rt, .finals = &finals)), -EPERM);
    CHECK_EQ(LOAD(finals), 1);
    CHECK_CONTAINS(log.text, "'unwanted'");
    CHECK_CONTAINS(log.text, "'the impatient one'");
    CHECK_CONTAINS(log.text, "runtime_block_on.c");
    /* A block_on of another runtime is refused too: it would block this one. */
    CHECK_EQ(aw_block_on(rt, AW_CALL(blocks_in_a_task, .rt = other, .finals = &finals)), -EPERM);
    CHECK_EQ(LOAD(finals), 2);
    aw_runtime_free(rt);
    aw_runtime_free(other);
}

TEST(block_on_inside_the_main_future_is_refused) {
    kept_log log = KEPT_LOG;
    int finals = 0;
    aw_set_log(keep_log, &log);
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    CHECK_EQ(aw_block_on(rt, AW_CALL(blocks_inside, .rt = rt, .finals = &finals)), -EPERM);
    CHECK_EQ(LOAD(finals), 1);
    CHECK_CONTAINS(log.text, "main future");
    aw_runtime_free(rt);
}

AW_ASYNC(int, runs_inside, int *finals;) {
    AW_BEGIN;
    AW_RETURN(aw_run(AW_CALL(unwanted, .finals = self->finals)));
    AW_END;
}

TEST(run_inside_a_task_is_refused) {
    kept_log log = KEPT_LOG;
    int finals = 0;
    aw_set_log(keep_log, &log);
    CHECK_EQ(aw_run(AW_CALL(runs_inside, .finals = &finals)), -EPERM);
    CHECK_EQ(LOAD(finals), 1);
}

AW_ASYNC(int, blocks_in_cleanup, aw_runtime *rt; int *finals; int *result; aw_never never;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    *self->result = aw_block_on(self->rt, AW_CALL(unwanted, .finals = self->finals));
    AW_END;
}

TEST(block_on_in_cleanup_during_the_end_is_refused) {
    kept_log log = KEPT_LOG;
    int finals = 0, result = 0;
    aw_set_log(keep_log, &log);
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(
        rt, AW_CALL(blocks_in_cleanup, .rt = rt, .finals = &finals, .result = &result)));
    run_a_while(rt);
    aw_runtime_free(rt);
    CHECK_EQ(result, -EPERM);
    CHECK_EQ(LOAD(finals), 1);
}

TEST(block_on_after_the_end_is_refused) {
    int finals = 0;
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *keeps_it = aw_spawn_on(rt, probe_of(&l));
    aw_runtime_free(rt);
    CHECK_EQ(aw_block_on(rt, AW_CALL(unwanted, .finals = &finals)), -ESHUTDOWN);
    CHECK_EQ(LOAD(finals), 1);
    aw_task_drop(keeps_it);
}

static aw_poll free_inside(void *rt, aw_cx *cx, int *out) {
    (void)cx;
    (void)out;
    aw_runtime_free(rt);
    return AW_READY;
}

TEST(freeing_a_runtime_inside_a_task_is_caught) {
    ON_THIS_THREAD("the main future is none of its tasks with workers");
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    DIES((void)aw_block_on(rt, aw_poll_fn_of(free_inside, rt)),
         "aw_runtime_free inside the main future");
    aw_runtime_free(rt);
}

TEST(freeing_a_runtime_that_another_thread_runs_is_caught) {
    host h;
    host_start(&h, NULL);
    DIES(aw_runtime_free(h.rt), "while a thread is in block_on");
    host_stop(&h);
    aw_runtime_free(h.rt);
}

/* ---- No memory ------------------------------------------------------------------------------- */

TEST(run_without_memory_releases_the_future_and_says_so) {
    memory m;
    int finals = 0;
    memory_init(&m);
    m.refuse = true;
    aw_set_allocator(&m.allocator);
    CHECK_EQ(aw_run(AW_CALL(unwanted, .finals = &finals)), -ENOMEM);
    CHECK_EQ(LOAD(finals), 1);
    aw_set_allocator(NULL);
}
