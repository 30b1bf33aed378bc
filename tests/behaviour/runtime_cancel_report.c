/* SPDX-License-Identifier: MIT
 *
 * Slow cancels are reported with their chain: once when they are older than `cancel_report`, and
 * once more when they are older than `cleanup_deadline`; not earlier, and nothing else. */
#include "support/workers.h"

/* ---- A simulated clock that advances when nothing can run ------------------------------------ */

typedef struct message {
    uint64_t at;
    char text[1024];
} message;

typedef struct world {
    uint64_t now;
    message reports[16];
    int count;
} world;

static uint64_t world_now(void *data) {
    return ((world *)data)->now;
}

static void world_park(void *data, uint64_t deadline) {
    world *w = data;
    CHECK_NE(deadline, AW_FOREVER);
    if (deadline > w->now) w->now = deadline;
}

static void world_unpark(void *data) {
    (void)data;
}

static void world_log(void *data, aw_log_level level, const char *text) {
    world *w = data;
    CHECK_EQ(level, AW_LOG_PROBLEM);
    CHECK_LT(w->count, 16);
    w->reports[w->count].at = w->now;
    snprintf(w->reports[w->count].text, sizeof w->reports->text, "%s", text);
    w->count++;
}

static aw_runtime *world_runtime(world *w, uint64_t cancel_report, uint64_t cleanup_deadline) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.keep_tasks = true;
    aw_seam seam = {sizeof seam, w, world_now, NULL, NULL, world_park, world_unpark};
    aw_runtime *rt;
    *w = (world){.now = AW_SEC(1000)};
    o.seam = &seam;
    o.log = world_log;
    o.log_data = w;
    o.cancel_report = cancel_report;
    o.cleanup_deadline = cleanup_deadline;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

/* ---- Slow cleanup ---------------------------------------------------------------------------- */

AW_ASYNC(int, slow_to_end, uint64_t takes; aw_never never; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->nap, aw_sleep_for(self->takes));
    AW_END;
}

AW_ASYNC(int, around_it, uint64_t takes; struct slow_to_end inner;) {
    AW_BEGIN;
    AW_AWAIT(self->inner, AW_CALL(slow_to_end, .takes = self->takes));
    AW_RETURN(0);
    AW_END;
}

/* Aborts a task with a cleanup that takes this long, and runs until it has ended. Returns when
 * the cancel began. */
static uint64_t cancel_slowly(aw_runtime *rt, world *w, uint64_t takes) {
    aw_runtime *previous = aw_enter(rt);
    struct around_it *h = aw_spawn_named("slow", AW_CALL(around_it, .takes = takes));
    aw_leave(previous);
    run_a_while(rt);
    uint64_t begin = w->now;
    aw_task_abort(h);
    CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
    CHECK_EQ(w->now - begin, takes); /* watching the cancel costs no time */
    aw_task_drop(h);
    return begin;
}

/* The reports fall into these windows: not early, and not much later. */
static void check_reports(const world *w, int first, uint64_t begin, uint64_t report,
                          uint64_t deadline) {
    CHECK_GE(w->reports[first].at - begin, report);
    CHECK_LE(w->reports[first].at - begin, 2 * report);
    if (first + 1 == w->count) return;
    CHECK_GE(w->reports[first + 1].at - begin, deadline);
    CHECK_LE(w->reports[first + 1].at - begin, deadline + deadline / 4 + 2 * report);
}

TEST(a_quick_cancel_is_not_reported) {
    world w;
    aw_runtime *rt = world_runtime(&w, 0, 0);
    cancel_slowly(rt, &w, AW_MSEC(999));
    aw_runtime_free(rt);
    CHECK_EQ(w.count, 0);
}

TEST(a_cancel_older_than_a_second_is_reported_once_with_its_chain) {
    world w;
    aw_runtime *rt = world_runtime(&w, 0, 0);
    uint64_t begin = cancel_slowly(rt, &w, AW_SEC(4));
    aw_runtime_free(rt);
    CHECK_EQ(w.count, 1);
    check_reports(&w, 0, begin, AW_SEC(1), AW_SEC(5));
    CHECK_CONTAINS(w.reports[0].text, "a cancel has not ended after 1.000 s");
    CHECK_CONTAINS(w.reports[0].text, "'slow'");
    CHECK_CONTAINS(w.reports[0].text, "being cancelled");
    CHECK_CONTAINS(w.reports[0].text, "around_it at tests/behaviour/runtime_cancel_report.c:");
    CHECK_CONTAINS(w.reports[0].text, "slow_to_end at tests/behaviour/runtime_cancel_report.c:");
    CHECK_CONTAINS(w.reports[0].text, "sleep");
}

TEST(cleanup_past_its_deadline_is_reported_once_more) {
    world w;
    aw_runtime *rt = world_runtime(&w, 0, 0);
    uint64_t begin = cancel_slowly(rt, &w, AW_SEC(100));
    CHECK_EQ(w.count, 2);
    check_reports(&w, 0, begin, AW_SEC(1), AW_SEC(5));
    CHECK_CONTAINS(w.reports[1].text, "5.000 s");
    CHECK_CONTAINS(w.reports[1].text, "deadline for cleaning up");
    CHECK_CONTAINS(w.reports[1].text, "slow_to_end");
    aw_runtime_free(rt);
    CHECK_EQ(w.count, 2);
}

TEST(the_times_can_be_set_and_are_kept_whatever_they_are) {
    static const uint64_t times[][2] = {
        {AW_MSEC(100), AW_MSEC(500)}, {AW_MSEC(100), AW_SEC(60)}, {AW_SEC(1), AW_SEC(600)},
        {AW_SEC(10), AW_SEC(30)},     {AW_MSEC(1), AW_SEC(5)},    {AW_SEC(2), AW_SEC(2)},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        world w;
        uint64_t report = times[i][0], deadline = times[i][1];
        aw_runtime *rt = world_runtime(&w, report, deadline);
        uint64_t begin = cancel_slowly(rt, &w, 2 * deadline + 4 * report);
        CHECK_EQ(w.count, 2);
        check_reports(&w, 0, begin, report, deadline);
        aw_runtime_free(rt);
    }
}

TEST(each_task_is_reported_by_itself_also_when_an_earlier_one_is_still_stuck) {
    world w;
    aw_runtime *rt = world_runtime(&w, AW_SEC(1), AW_SEC(5));
    struct slow_to_end *first = aw_spawn_on(rt, AW_CALL(slow_to_end, .takes = AW_SEC(1000)));
    run_a_while(rt);
    uint64_t begin = w.now;
    aw_task_abort(first);
    /* It has been reported twice by then. */
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(100))), 0);
    CHECK_EQ(w.count, 2);
    check_reports(&w, 0, begin, AW_SEC(1), AW_SEC(5));
    begin = cancel_slowly(rt, &w, AW_SEC(100)); /* then a second one */
    CHECK_EQ(w.count, 4);
    check_reports(&w, 2, begin, AW_SEC(1), AW_SEC(5));
    CHECK_CONTAINS(w.reports[2].text, "around_it");
    CHECK_CONTAINS(w.reports[3].text, "around_it");
    aw_task_drop(first);
    aw_runtime_free(rt);
    CHECK_EQ(w.count, 4);
}

TEST(cancels_of_several_tasks_at_once_are_reported_one_by_one) {
    world w;
    struct slow_to_end *h[3];
    aw_runtime *rt = world_runtime(&w, AW_SEC(1), AW_SEC(5));
    for (int i = 0; i < 3; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(slow_to_end, .takes = AW_SEC(i == 1 ? 2 : 20)));
    run_a_while(rt);
    for (int i = 0; i < 3; i++) {
        aw_task_abort(h[i]);
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(300))), 0); /* staggered */
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), -ECANCELED);
        aw_task_drop(h[i]);
    }
    CHECK_EQ(w.count, 5); /* the second task ended before its deadline */
    aw_runtime_free(rt);
}

/* ---- Not only aborts ------------------------------------------------------------------------- */

typedef AW_TIMEOUT(struct slow_to_end) slow_timeout;

AW_ASYNC(int, times_out, slow_timeout t;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->t, AW_MSEC(10), AW_CALL(slow_to_end, .takes = AW_SEC(3)));
    AW_RETURN(self->t.out);
    AW_END;
}

TEST(a_timeout_with_an_inner_future_that_is_slow_to_end_is_reported) {
    world w;
    aw_runtime *rt = world_runtime(&w, AW_SEC(1), AW_SEC(5));
    CHECK_EQ(aw_block_on(rt, AW_CALL(times_out)), -ETIMEDOUT);
    CHECK_EQ(w.count, 1);
    CHECK_CONTAINS(w.reports[0].text, "the main future");
    CHECK_CONTAINS(w.reports[0].text, "timeout");
    CHECK_CONTAINS(w.reports[0].text, "slow_to_end");
    /* The timeout goes on in the same main future, and the next main future starts anew. */
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(50))), 0);
    CHECK_EQ(w.count, 1);
    aw_runtime_free(rt);
}

/* Many short cancels in sequence are not one long cancel. */
AW_ASYNC(int, times_out_often, int left; slow_timeout t;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--)
        AW_AWAIT_FOR(self->t, AW_MSEC(10), AW_CALL(slow_to_end, .takes = AW_MSEC(700)));
    AW_RETURN(0);
    AW_END;
}

TEST(many_short_cancels_are_not_a_long_one) {
    world w;
    aw_runtime *rt = world_runtime(&w, AW_SEC(1), AW_SEC(5));
    CHECK_EQ(aw_block_on(rt, AW_CALL(times_out_often, .left = 50)), 0);
    CHECK_EQ(w.count, 0);
    aw_runtime_free(rt);
}

TEST(cleanup_that_is_slow_while_the_runtime_ends_is_reported) {
    world w;
    aw_runtime *rt = world_runtime(&w, AW_SEC(1), AW_SEC(5));
    aw_task_drop(aw_spawn_on(rt, AW_CALL(slow_to_end, .takes = AW_SEC(20))));
    run_a_while(rt);
    uint64_t begin = w.now;
    aw_runtime_free(rt);
    CHECK_EQ(w.count, 2);
    check_reports(&w, 0, begin, AW_SEC(1), AW_SEC(5));
    CHECK_EQ(w.now - begin, AW_SEC(20)); /* it was waited for */
}

TEST(a_paused_clock_reports_at_the_same_times) {
    kept_log log = KEPT_LOG;
    aw_runtime *rt = runtime_new(NULL, &log, NULL, true);
    struct slow_to_end *h = aw_spawn_on(rt, AW_CALL(slow_to_end, .takes = AW_SEC(100)));
    run_a_while(rt);
    aw_task_abort(h);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(990))), 0);
    CHECK_EQ(log.length, 0);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1100))), 0);
    /* With workers, another thread reports. */
    WAIT_UNTIL(log_count(&log, "a cancel has not ended") == 1);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(60))), 0);
    WAIT_UNTIL(log_count(&log, "a cancel has not ended") == 2);
    CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(log_count(&log, "a cancel has not ended"), 2);
}
