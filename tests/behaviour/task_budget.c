/* SPDX-License-Identifier: MIT
 *
 * The cooperative budget: 128 operations per poll, then other tasks run; through every
 * combinator; and how to opt out of it. */
#include "support/poll_counter.h"

/* ---- Counting polls -------------------------------------------------------------------------- */

/* How many polls a future needs as the main future. */
static int polls_of(aw_runtime *rt, aw_future *f) {
    int polls = 0;
    CHECK_EQ(aw_block_on(rt, ((struct counter){AW_FUTURE_INIT(&counter_type), 0, f, &polls})), 0);
    return polls;
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

AW_ASYNC(int, oneshots, int left; AW_ONESHOT(int) c; aw_oneshot_future recv;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        memset(&self->c, 0, sizeof self->c);
        CHECK_EQ(aw_oneshot_send(&self->c, 5), 0);
        AW_AWAIT(self->recv, aw_oneshot_recv(&self->c));
        CHECK_EQ(self->recv.out, 0);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, zero_sleeps, int left; aw_sleep sleep;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--)
        AW_AWAIT(self->sleep, aw_sleep_for(0));
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, permits, int left; aw_notify notify; aw_notified wait;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        aw_notify_one(&self->notify);
        AW_AWAIT(self->wait, aw_notify_wait(&self->notify));
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, joins, int left; struct probe * ended; aw_task_join_future join;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        AW_AWAIT(self->join, aw_task_join(self->ended));
        CHECK_EQ(self->join.out, 0);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, ticks, int left; aw_interval interval; aw_tick tick;) {
    AW_BEGIN;
    CHECK_EQ(aw_interval_from(&self->interval, 0, 1, AW_BURST), 0); /* always behind */
    for (; self->left > 0; self->left--)
        AW_AWAIT(self->tick, aw_interval_tick(&self->interval));
    AW_RETURN(0);
    AW_END;
}

TEST(a_poll_does_exactly_128_operations) {
    static const int operations[] = {1, 127, 128, 129, 256, 257, 1000};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    probe_state l = PROBE_STATE;
    l.answer = AW_READY;
    struct probe *ended = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        int n = operations[i], wanted = expected_polls(n, 128);
        struct oneshots a = AW_CALL(oneshots, .left = n);
        struct zero_sleeps b = AW_CALL(zero_sleeps, .left = n);
        struct permits c = AW_CALL(permits, .left = n);
        struct joins d = AW_CALL(joins, .left = n, .ended = ended);
        struct ticks e = AW_CALL(ticks, .left = n);
        CHECK_EQ(polls_of(rt, &a.future), wanted);
        CHECK_EQ(polls_of(rt, &b.future), wanted);
        CHECK_EQ(polls_of(rt, &c.future), wanted);
        CHECK_EQ(polls_of(rt, &d.future), wanted);
        CHECK_EQ(polls_of(rt, &e.future), wanted);
    }
    aw_task_drop(ended);
    aw_runtime_free(rt);
}

TEST(the_budget_can_be_set) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.budget = 7;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    struct oneshots a = AW_CALL(oneshots, .left = 50);
    CHECK_EQ(polls_of(rt, &a.future), expected_polls(50, 7));
    aw_runtime_free(rt);
}

TEST(a_second_thread_in_block_on_has_a_budget_too) {
    host h;
    host_start(&h, NULL);
    struct oneshots a = AW_CALL(oneshots, .left = 1000);
    CHECK_EQ(polls_of(h.rt, &a.future), expected_polls(1000, 128));
    host_stop(&h);
    aw_runtime_free(h.rt);
}

TEST(without_an_executor_that_counts_there_is_no_budget) {
    aw_waker w = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&w);
    struct oneshots a = AW_CALL(oneshots, .left = 1000);
    CHECK_EQ(aw_future_poll(&a.future, &cx), AW_READY);
}

/* ---- Combinators ----------------------------------------------------------------------------- */

typedef AW_SELECT(aw_oneshot_future, aw_never) received_or_never;
typedef AW_JOIN(aw_oneshot_future, aw_oneshot_future) received_twice;
typedef AW_TIMEOUT(aw_oneshot_future) received_in_time;

AW_ASYNC(int, selects, int left; AW_ONESHOT(int) c; received_or_never s;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        memset(&self->c, 0, sizeof self->c);
        aw_oneshot_send(&self->c, 5);
        AW_AWAIT_SELECT(self->s, aw_oneshot_recv(&self->c), aw_never_ready());
        CHECK_EQ(aw_select_winner(&self->s), 0);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, double_joins, int left; AW_ONESHOT(int) c[2]; received_twice j;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        memset(&self->c, 0, sizeof self->c);
        aw_oneshot_send(&self->c[0], 5);
        aw_oneshot_send(&self->c[1], 5);
        AW_AWAIT_JOIN(self->j, aw_oneshot_recv(&self->c[0]), aw_oneshot_recv(&self->c[1]));
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, timeouts, int left; AW_ONESHOT(int) c; received_in_time t;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        memset(&self->c, 0, sizeof self->c);
        aw_oneshot_send(&self->c, 5);
        AW_AWAIT_FOR(self->t, AW_SEC(3600), aw_oneshot_recv(&self->c));
        CHECK_EQ(self->t.out, 0);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, boxes, int left; AW_ONESHOT(int) c; aw_box box;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        memset(&self->c, 0, sizeof self->c);
        aw_oneshot_send(&self->c, 5);
        AW_AWAIT(self->box, aw_box_new(aw_oneshot_recv(&self->c)));
        CHECK_EQ(aw_box_take(aw_oneshot_future, &self->box), 0);
    }
    AW_RETURN(0);
    AW_END;
}

TEST(the_budget_holds_through_select_join_timeout_and_box) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct selects a = AW_CALL(selects, .left = 500);
    struct double_joins b = AW_CALL(double_joins, .left = 500);
    struct timeouts c = AW_CALL(timeouts, .left = 500);
    struct boxes d = AW_CALL(boxes, .left = 500);
    CHECK_EQ(polls_of(rt, &a.future), expected_polls(500, 128));
    CHECK_EQ(polls_of(rt, &b.future), expected_polls(1000, 128));
    CHECK_EQ(polls_of(rt, &c.future), expected_polls(500, 128));
    CHECK_EQ(polls_of(rt, &d.future), expected_polls(500, 128));
    aw_runtime_free(rt);
}

/* One poll of join_all over many ready children shares one budget. */
struct many_sleeps {
    aw_sleep all[300];
};

TEST(the_budget_is_shared_by_the_children_of_join_all) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    static struct many_sleeps sleeps;
    for (int n = 20; n <= 300; n += 280) { /* polls all children, and polls only the woken ones */
        for (int i = 0; i < n; i++)
            sleeps.all[i] = aw_sleep_for(0);
        aw_all all = aw_join_all(sleeps.all, (size_t)n);
        CHECK_EQ(polls_of(rt, &all.future), expected_polls(n, 128));
    }
    aw_runtime_free(rt);
}

/* A cancel costs no budget and is never refused: it ends at once however much was spent. */
AW_ASYNC(int, spend_then_fail, AW_ONESHOT(int) c[200]; aw_oneshot_future r[200]; int i; int *done;
         aw_group j; aw_ready error;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 128; self->i++) {
        aw_oneshot_send(&self->c[self->i], 1);
        AW_AWAIT(self->r[self->i], aw_oneshot_recv(&self->c[self->i]));
    }
    /* The budget is spent. A try_join over a wait and an error still ends at once. (A select
     * would yield.) */
    self->error = aw_ready_now(-EIO);
    self->r[128] = aw_oneshot_recv(&self->c[128]);
    AW_AWAIT(self->j, aw_try_join_biased_refs(&self->r[128], &self->error));
    CHECK_EQ(self->j.out, -EIO);
    ++*self->done;
    AW_RETURN(0);
    AW_END;
}

TEST(a_cancel_neither_spends_nor_is_refused) {
    int done = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct spend_then_fail f = AW_CALL(spend_then_fail, .done = &done);
    CHECK_EQ(polls_of(rt, &f.future), 1);
    CHECK_EQ(done, 1);
    aw_runtime_free(rt);
}

/* ---- Other tasks ----------------------------------------------------------------------------- */

/* A greedy task, and one that counts its polls. */
AW_ASYNC(int, greedy, int left; int *other; AW_ONESHOT(int) c; aw_oneshot_future recv;) {
    AW_BEGIN;
    while (self->left > 0) {
        memset(&self->c, 0, sizeof self->c);
        aw_oneshot_send(&self->c, 5);
        AW_AWAIT(self->recv, aw_oneshot_recv(&self->c));
        self->left--;
    }
    AW_RETURN(*self->other);
    AW_END;
}

AW_ASYNC(int, counts_polls, int *polls;) {
    AW_BEGIN;
    for (;;) {
        ++*self->polls;
        AW_YIELD;
    }
    AW_RETURN(0);
    AW_END;
}

TEST(other_tasks_run_when_the_budget_is_spent) {
    ON_THIS_THREAD("it counts polls");
    int polls = 0;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(counts_polls, .polls = &polls)));
    CHECK_GE(aw_block_on(rt, AW_CALL(greedy, .left = 12800, .other = &polls)), 1);
    aw_runtime_free(rt);
}

/* ---- Opting out ------------------------------------------------------------------------------ */

AW_ASYNC(int, unbudgeted, int left; bool again; aw_sleep sleep;) {
    AW_BEGIN;
    CHECK_EQ(aw_unbudgeted(cx, true), 0);
    for (; self->left > 0; self->left--)
        AW_AWAIT(self->sleep, aw_sleep_for(0));
    if (!self->again) AW_RETURN(0);
    AW_YIELD; /* the exemption lasts */
    for (self->left = 1000; self->left > 0; self->left--)
        AW_AWAIT(self->sleep, aw_sleep_for(0));
    CHECK_EQ(aw_unbudgeted(cx, false), 0);
    for (self->left = 300; self->left > 0; self->left--)
        AW_AWAIT(self->sleep, aw_sleep_for(0));
    AW_RETURN(0);
    AW_END;
}

TEST(an_unbudgeted_task_runs_as_long_as_it_finds_work) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct unbudgeted f = AW_CALL(unbudgeted, .left = 5000);
    CHECK_EQ(polls_of(rt, &f.future), 1);
    struct unbudgeted g = AW_CALL(unbudgeted, .left = 5000, .again = true);
    CHECK_EQ(polls_of(rt, &g.future), 2 + 2); /* a yield; 300 operations in three polls */
    struct zero_sleeps after = AW_CALL(zero_sleeps, .left = 200);
    CHECK_EQ(polls_of(rt, &after.future), 2); /* the next main future has a budget */
    aw_runtime_free(rt);
}

TEST(opting_out_of_the_budget_outside_a_task_is_refused) {
    aw_waker w = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&w);
    CHECK_EQ(aw_unbudgeted(&cx, true), -ENXIO);
}
