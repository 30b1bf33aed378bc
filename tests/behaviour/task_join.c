/* SPDX-License-Identifier: MIT
 *
 * Joining a task on the thread that runs it: what the join returns, the owner of the output, and
 * what remains of a join that is cancelled or discarded. Joins from elsewhere are in
 * task_join_foreign.c. */
#include "support/tasks.h"

/* cancel-at-every-await: aw_task_join */

/* ---- Status and output ----------------------------------------------------------------------- */

AW_ASYNC(int, doubled, int n; struct rounds pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, rounds(2));
    AW_RETURN(self->n * 2);
    AW_END;
}

AW_ASYNC(int, join_ten, struct doubled *tasks[10]; aw_task_join_future join; int i; int sum;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 10; self->i++)
        self->tasks[self->i] = aw_spawn(AW_CALL(doubled, .n = self->i));
    for (self->i = 0; self->i < 10; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        CHECK_EQ(self->join.out, 0);
        CHECK_EQ(self->tasks[self->i]->out, self->i * 2);
        self->sum += aw_task_take(self->tasks[self->i]);
    }
    AW_RETURN(self->sum);
    AW_END;
}

TEST(a_join_gives_the_typed_output_of_each_task) {
    CHECK_EQ(aw_run(AW_CALL(join_ten)), 90);
}

TEST(a_join_of_a_task_that_has_ended_is_ready_at_its_first_poll) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    l.answer = AW_READY;
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_flag flag = {0};
    aw_waker w = aw_flag_waker(&flag);
    aw_cx cx = aw_cx_from_waker(&w);
    aw_task_join_future join = aw_task_join(h);
    CHECK_EQ(aw_future_poll(&join.future, &cx), AW_READY);
    CHECK_EQ(join.out, 0);
    CHECK(!aw_flag_take(&flag));
    CHECK_EQ(aw_task_take(h), 101);
    aw_runtime_free(rt);
    CHECK_EQ(l.discards, 0);
}

/* Everything that belongs to a task is released before a join can see that it has ended. */
struct traces {
    int finals, locals;
};

static aw_local traced_local;

static void count_local(void *value) {
    ((struct traces *)value)->locals++;
}

AW_ASYNC(int, traced, struct traces *traces; struct rounds pause;) {
    AW_BEGIN;
    aw_local_set(&traced_local, self->traces, count_local);
    AW_AWAIT(self->pause, rounds(2));
    AW_RETURN(5);
    AW_FINALLY;
    AW_AWAIT(self->pause, rounds(2));
    self->traces->finals++;
    AW_END;
}

AW_ASYNC(int, join_traced, struct traces traces; struct traced * task; aw_task_join_future join;) {
    AW_BEGIN;
    self->task = aw_spawn(AW_CALL(traced, .traces = &self->traces));
    AW_AWAIT(self->join, aw_task_join(self->task));
    CHECK_EQ(self->traces.finals, 1);
    CHECK_EQ(self->traces.locals, 1);
    AW_RETURN(aw_task_take(self->task));
    AW_END;
}

TEST(cleanup_is_over_before_a_join_reports) {
    CHECK_EQ(aw_run(AW_CALL(join_traced)), 5);
}

/* ---- Ownership of the output ----------------------------------------------------------------- */

TEST(an_output_that_was_joined_is_not_discarded) {
    probe_state l = PROBE_STATE;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(l.discards, 0);
}

TEST(joining_twice_reports_twice_and_takes_once) {
    probe_state l = PROBE_STATE;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK(aw_task_is_finished(h));
    CHECK_EQ(aw_task_take(h), 101);
    aw_runtime_free(rt);
    CHECK_EQ(l.discards, 0);
}

static void *drop_probe(void *handle) {
    aw_task_drop((struct probe *)handle);
    return NULL;
}

/* {the task ends, the handle is dropped, the runtime ends} in each possible order. */
TEST(an_untaken_output_is_discarded_exactly_once_in_each_order) {
    enum { BEFORE_END, AFTER_END, AFTER_RUNTIME, ORDERS };
    for (int order = 0; order < ORDERS; order++)
        for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
            memory m;
            probe_state l = PROBE_STATE;
            memory_init(&m);
            aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
            struct probe *h = aw_spawn_on(rt, probe_of(&l));
            run_a_while(rt);
            for (int moment = 0; moment < ORDERS; moment++) {
                if (moment == order) {
                    if (elsewhere)
                        on_a_thread(drop_probe, h);
                    else
                        aw_task_drop(h);
                }
                if (moment == BEFORE_END) {
                    CHECK_EQ(l.discards, 0);
                    probe_finish(&l);
                    run_a_while(rt);
                    CHECK_EQ(l.discards, order == BEFORE_END);
                } else if (moment == AFTER_END) {
                    run_a_while(rt);
                    CHECK_EQ(l.discards, order <= AFTER_END);
                    aw_runtime_free(rt);
                }
            }
            CHECK_EQ(l.discards, 1);
            CHECK_EQ(l.polls, 2);
            CHECK_EQ(l.cancels, 0);
            CHECK_EQ(memory_in_use(&m), 0);
        }
}

/* ---- Discarded joins ------------------------------------------------------------------------- */

typedef AW_SELECT(aw_task_join_future, aw_task_join_future) two_joins;

AW_ASYNC(int, first_of_two, struct probe *a, *b; bool take; two_joins s;) {
    AW_BEGIN;
    AW_AWAIT(self->s, AW_SELECT_BIASED_OF(two_joins, aw_task_join(self->a), aw_task_join(self->b)));
    CHECK(self->s.out != 0);
    if (self->take) AW_RETURN(aw_select_winner(&self->s));
    aw_select_drop(&self->s);
    AW_RETURN(-1);
    AW_END;
}

/* Both tasks have ended when the select polls: the winner is taken, the output of the other goes
 * back to its handle. */
TEST(a_join_that_loses_a_select_gives_the_output_back_to_the_handle) {
    probe_state a = PROBE_STATE, b = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    a.answer = b.answer = AW_READY;
    struct probe *ha = aw_spawn_on(rt, probe_of(&a)), *hb = aw_spawn_on(rt, probe_of(&b));
    run_a_while(rt);
    int winner = aw_block_on(rt, AW_CALL(first_of_two, .a = ha, .b = hb, .take = true));
    CHECK_EQ(winner, 0);
    aw_task_drop(ha);
    aw_task_drop(hb);
    run_a_while(rt);
    CHECK_EQ(a.discards, 0);
    CHECK_EQ(b.discards, 1);
    aw_runtime_free(rt);
}

/* The same when they end while the select waits. */
TEST(joins_that_end_together_in_a_select_are_discarded_or_taken_once) {
    for (int take = 0; take < 2; take++) {
        probe_state a = PROBE_STATE, b = PROBE_STATE;
        aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
        struct probe *ha = aw_spawn_on(rt, probe_of(&a)), *hb = aw_spawn_on(rt, probe_of(&b));
        struct first_of_two *s = aw_spawn_on(rt,
                                             AW_CALL(first_of_two, .a = ha, .b = hb, .take = take));
        run_a_while(rt);
        probe_finish(&a);
        probe_finish(&b);
        run_a_while(rt);
        CHECK(aw_task_is_finished(s));
        aw_task_drop(s);
        aw_task_drop(ha);
        aw_task_drop(hb);
        run_a_while(rt);
        CHECK_EQ(a.discards + b.discards, take ? 1 : 2);
        aw_runtime_free(rt);
        CHECK_EQ(a.discards + b.discards, take ? 1 : 2);
    }
}

TEST(a_discarded_join_can_be_joined_again_and_its_output_taken) {
    probe_state l = PROBE_STATE;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(aw_block_on_status(rt, aw_task_join(h)), 0); /* discards the output */
    CHECK_EQ(l.discards, 0);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(aw_task_take(h), 101);
    aw_runtime_free(rt);
    CHECK_EQ(l.discards, 0);
}

TEST(discarding_the_join_of_a_cancelled_task_does_not_make_it_finished) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    aw_task_abort(h);
    CHECK_EQ(aw_block_on_status(rt, aw_task_join(h)), 0);
    CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(l.discards, 0);
}

/* ---- Cancelled joins ------------------------------------------------------------------------- */

/* Polls a join directly inside the runtime, with its own wakers. */
struct manual {
    aw_task_join_future join;
    aw_flag flag[2];
};

enum step_kind { POLL, POLL_OTHER, CANCEL, CANCEL_OTHER };

/* One step, in a task on the runtime's thread. Returns the poll's answer. */
AW_ASYNC(int, step, struct manual *manual; enum step_kind what;) {
    AW_BEGIN;
    bool other = self->what == POLL_OTHER || self->what == CANCEL_OTHER;
    aw_waker w = aw_flag_waker(&self->manual->flag[other]);
    aw_cx mine = {&w, cx->runtime, cx->meter};
    AW_RETURN(self->what <= POLL_OTHER ? aw_future_poll(&self->manual->join.future, &mine)
                                       : aw_future_cancel(&self->manual->join.future, &mine));
    AW_END;
}

#define STEP(rt, manual_, what_)                                                                   \
    aw_block_on(rt, AW_CALL(step, .manual = (manual_), .what = (what_)))

TEST(a_join_cancelled_before_its_first_poll_is_gone_and_the_task_goes_on) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    l.answer = AW_READY;
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    struct manual manual = {.join = aw_task_join(h)};
    /* Also when the task has ended: a join that was never polled cannot have finished. */
    run_a_while(rt);
    CHECK_EQ(STEP(rt, &manual, CANCEL), AW_CANCELLED);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(l.discards, 0);
}

TEST(a_pending_join_that_is_cancelled_leaves_the_task_alone) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    struct manual manual = {.join = aw_task_join(h)};
    CHECK_EQ(STEP(rt, &manual, POLL), AW_PENDING);
    CHECK_EQ(STEP(rt, &manual, CANCEL), AW_CANCELLED);
    memset(&manual.join, 0xa5, sizeof manual.join); /* nothing may access it any more */
    run_a_while(rt);
    CHECK_EQ(l.cancels, 0);
    probe_finish(&l);
    run_a_while(rt);
    CHECK(!aw_flag_take(&manual.flag[0]));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

TEST(a_join_that_was_woken_and_is_then_cancelled_has_finished) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    struct manual manual = {.join = aw_task_join(h)};
    CHECK_EQ(STEP(rt, &manual, POLL), AW_PENDING);
    run_a_while(rt);
    probe_finish(&l);
    run_a_while(rt);
    CHECK(aw_flag_take(&manual.flag[0]));
    CHECK_EQ(STEP(rt, &manual, CANCEL_OTHER), AW_READY);
    CHECK_EQ(manual.join.out, 0);
    CHECK_EQ(aw_task_take(h), 102);
    aw_runtime_free(rt);
    CHECK_EQ(l.discards, 0);
}

TEST(cancelling_the_join_of_a_cancelled_task_reports_that) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    struct manual manual = {.join = aw_task_join(h)};
    CHECK_EQ(STEP(rt, &manual, POLL), AW_PENDING);
    aw_task_abort(h);
    run_a_while(rt);
    CHECK_EQ(STEP(rt, &manual, CANCEL), AW_READY);
    CHECK_EQ(manual.join.out, -ECANCELED);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

TEST(only_the_latest_waker_of_a_join_is_woken) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    struct manual manual = {.join = aw_task_join(h)};
    CHECK_EQ(STEP(rt, &manual, POLL), AW_PENDING);
    CHECK_EQ(STEP(rt, &manual, POLL_OTHER), AW_PENDING);
    run_a_while(rt);
    probe_finish(&l);
    run_a_while(rt);
    CHECK(!aw_flag_take(&manual.flag[0]));
    CHECK(aw_flag_take(&manual.flag[1]));
    CHECK_EQ(STEP(rt, &manual, POLL), AW_READY);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

static void join_twice_at_once(void) {
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    struct manual a = {.join = aw_task_join(h)}, b = {.join = aw_task_join(h)};
    CHECK_EQ(STEP(rt, &a, POLL), AW_PENDING);
    CHECK_EQ(STEP(rt, &b, POLL), AW_PENDING); /* the first one would never be woken */
}

TEST(two_joins_of_a_task_at_once_are_caught) {
    DIES(join_twice_at_once(), "two joins wait for task 1 'probe'");
}

/* ---- Moved joins ----------------------------------------------------------------------------- */

AW_ASYNC(int, poll_once_and_pass_on, struct probe *task; aw_box * box; aw_box mine;) {
    AW_BEGIN;
    self->mine = aw_box_new(aw_task_join(self->task));
    CHECK_EQ(aw_future_poll(&self->mine.future, cx), AW_PENDING);
    *self->box = self->mine;
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, await_box, aw_box box; int result;) {
    AW_BEGIN;
    AW_AWAIT_FUTURE(self->box);
    AW_RETURN(aw_box_take(aw_task_join_future, &self->box));
    AW_END;
}

TEST(a_pending_join_in_a_box_may_move_to_another_task) {
    probe_state l = PROBE_STATE;
    aw_box box;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(aw_block_on(rt, AW_CALL(poll_once_and_pass_on, .task = h, .box = &box)), 0);
    struct await_box *other = aw_spawn_on(rt, AW_CALL(await_box, .box = box));
    run_a_while(rt);
    probe_finish(&l);
    aw_task_join_future join = aw_task_join(other);
    CHECK_EQ(aw_block_on_future(rt, &join.future), 0);
    CHECK_EQ(aw_task_take(other), 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

/* ---- Handles of failed spawns ---------------------------------------------------------------- */

TEST(an_output_that_is_taken_into_a_buffer_is_not_discarded) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    probe_state taken = PROBE_STATE, dropped = PROBE_STATE;
    taken.answer = dropped.answer = AW_READY;
    struct probe *a = aw_spawn_on(rt, probe_of(&taken)), *b = aw_spawn_on(rt, probe_of(&dropped));
    run_a_while(rt);
    int out = -1;
    CHECK_EQ(aw_task_take_any(&a->future, &out, 1), -EMSGSIZE); /* the output is still there */
    CHECK_EQ(aw_task_take_any(&a->future, &out, sizeof out), sizeof out);
    aw_task_drop_any(&b->future);
    aw_runtime_free(rt);
    CHECK_EQ(taken.discards, 0);
    CHECK_EQ(dropped.discards, 1);
}

TEST(a_join_of_a_failed_spawn_reports_why_at_its_first_poll) {
    memory m;
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    memory_init(&m);
    aw_set_log(keep_log, &log);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    m.refuse = true;
    struct probe *no_memory = aw_spawn_on(rt, probe_of(&l));
    m.refuse = false;
    struct probe *no_runtime = aw_spawn(probe_of(&l));
    CHECK_EQ(l.cancels, 2);
    CHECK_EQ(l.polls, 0);
    CHECK_EQ(JOIN_STATUS(rt, no_memory), -ENOMEM);
    CHECK_EQ(JOIN_STATUS(rt, no_memory), -ENOMEM);
    CHECK_EQ(JOIN_STATUS(rt, no_runtime), -ENXIO);
    struct manual manual = {.join = aw_task_join(no_memory)};
    CHECK_EQ(STEP(rt, &manual, CANCEL), AW_CANCELLED);
    CHECK_EQ(aw_block_on_status(rt, aw_task_join(no_memory)), 0); /* discarding it is harmless */
    aw_task_drop(no_memory);
    aw_task_drop(no_runtime);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
}
