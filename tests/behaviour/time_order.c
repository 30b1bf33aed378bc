/* SPDX-License-Identifier: MIT
 *
 * In which order timers fire, and what a wake may do to other timers meanwhile. */
#include "test.h"

#include <stdlib.h>

#include "task/runtime_state.h"
#include "support/by_hand.h"
#include "support/clock.h"

/* ---- Order ----------------------------------------------------------------------------------- */

enum { JOBS = 2000 };

static struct {
    uint64_t due;
    int number;
} ran[JOBS];
static int ran_count;

AW_ASYNC(int, job, int number; uint64_t due; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_until(self->due));
    ran[ran_count].due = self->due;
    ran[ran_count++].number = self->number;
    AW_RETURN(0);
    AW_END;
}

static void check_order(void) {
    for (int i = 1; i < ran_count; i++) {
        CHECK(ran[i - 1].due <= ran[i].due);
        if (ran[i - 1].due == ran[i].due) CHECK_LT(ran[i - 1].number, ran[i].number);
    }
}

static void spawn_jobs(aw_runtime *rt, uint64_t spread, uint64_t step) {
    uint64_t seed = test_seed(), start = aw_now(rt);
    for (int i = 0; i < JOBS; i++) {
        uint64_t due = start + 1 + test_random(&seed) % spread / step * step;
        aw_task_drop(aw_spawn_on(rt, AW_CALL(job, .number = i, .due = due)));
    }
}

TEST(timers_fire_by_deadline_and_equal_ones_in_the_order_of_insertion) {
    ON_THIS_THREAD("each worker has its own timers");
    const uint64_t spreads[] = {100, AW_USEC(20), AW_MSEC(5), AW_SEC(100)};
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++) {
        aw_runtime *rt = paused_runtime();
        ran_count = 0;
        spawn_jobs(rt, spreads[i], spreads[i] / 50); /* some 40 jobs per deadline */
        run_until(rt, aw_now(rt) + spreads[i] + 1);
        CHECK_EQ(ran_count, JOBS);
        check_order();
        aw_runtime_free(rt);
    }
}

AW_ASYNC(int, leap, uint64_t far;) {
    AW_BEGIN;
    AW_YIELD; /* the jobs go to sleep */
    CHECK_EQ(aw_clock_advance(aw_runtime_current(), self->far), 0);
    AW_YIELD;
    AW_YIELD;
    AW_RETURN(0);
    AW_END;
}

TEST(timers_that_are_found_due_together_fire_in_the_same_order) {
    ON_THIS_THREAD("each worker has its own timers");
    const uint64_t spreads[] = {100, AW_USEC(20), AW_MSEC(5), AW_SEC(100)};
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++) {
        aw_runtime *rt = paused_runtime();
        ran_count = 0;
        spawn_jobs(rt, spreads[i], 1);
        CHECK_EQ(aw_block_on(rt, AW_CALL(leap, .far = spreads[i] + 1)), 0);
        CHECK_EQ(ran_count, JOBS);
        check_order();
        aw_runtime_free(rt);
    }
}

/* ---- A wake that touches other timers -------------------------------------------------------- */

enum { OTHERS = 100 };

/* A custom waker: when its timer fires it cancels, or moves, all the others. */
struct meddler {
    aw_counted counted;
    aw_sleep others[OTHERS];
    aw_flag woken[OTHERS];
    uint64_t move_to; /* 0: cancel them */
    int wakes;
};

static void meddle(aw_counted *counted) {
    struct meddler *m = (struct meddler *)counted;
    aw_flag ignored = {0};
    if (m->wakes++) return;
    for (int i = 0; i < OTHERS; i++) {
        if (m->move_to)
            aw_sleep_reset(&m->others[i], m->move_to);
        else if (!aw_future_ended(&m->others[i].future))
            CANCEL(&m->others[i], &ignored);
    }
}

static void keep_meddler(aw_counted *counted) {
    (void)counted;
}

static void start_meddling(struct meddler *m, aw_sleep *trigger, uint64_t trigger_at,
                           uint64_t others_at, uint64_t apart) {
    *m = (struct meddler){.move_to = m->move_to};
    aw_counted_init(&m->counted, meddle, keep_meddler);
    aw_waker waker = aw_counted_waker(&m->counted);
    aw_cx cx = aw_cx_from_waker(&waker);
    for (int i = 0; i < OTHERS; i++) {
        if (i == OTHERS / 2) { /* in the middle of those that are due with it */
            *trigger = aw_sleep_until(trigger_at);
            CHECK_EQ(aw_future_poll(&trigger->future, &cx), AW_PENDING);
        }
        m->others[i] = aw_sleep_until(others_at + (uint64_t)i * apart);
        CHECK_EQ(POLL(&m->others[i], &m->woken[i]), AW_PENDING);
    }
}

TEST(cancelling_a_hundred_timers_from_a_timers_wake_is_safe) {
    const uint64_t apart[] = {0, 1, AW_USEC(16), AW_SEC(60)};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        static struct meddler m;
        aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
        aw_sleep trigger, survivor = aw_sleep_until(aw_now(rt) + AW_SEC(1) + 2);
        aw_flag survived = {0};
        uint64_t at = aw_now(rt) + AW_SEC(1);
        CHECK_EQ(POLL(&survivor, &survived), AW_PENDING);
        start_meddling(&m, &trigger, at, at + (apart[i] ? 1 : 0), apart[i]);

        run_until(rt, at + AW_SEC(3600 * 24));
        CHECK_EQ(m.wakes, 1);
        CHECK(aw_flag_take(&survived));
        for (int n = 0; n < OTHERS; n++) {
            /* With equal deadlines, those inserted before the trigger have fired before it. */
            bool fired_first = apart[i] == 0 && n < OTHERS / 2;
            CHECK(aw_future_ended(&m.others[n].future));
            CHECK_EQ(aw_flag_take(&m.woken[n]), fired_first);
            CHECK_EQ(aw_future_finished(&m.others[n].future), fired_first);
        }
        CHECK_EQ(POLL(&survivor, &survived), AW_READY);
        CHECK_EQ(POLL(&trigger, &survived), AW_READY);
        CHECK_EQ(rt->wheel.count, 0);
        CHECK_EQ(m.counted.refs, 1);
        aw_leave(before);
        aw_runtime_free(rt);
    }
}

TEST(moving_a_hundred_timers_from_a_timers_wake_is_safe) {
    static struct meddler m;
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    aw_sleep trigger;
    aw_flag ignored = {0};
    uint64_t at = aw_now(rt) + AW_SEC(1);
    m.move_to = at + AW_SEC(5);
    start_meddling(&m, &trigger, at, at + 1, AW_USEC(10));

    run_until(rt, m.move_to - 1);
    CHECK_EQ(m.wakes, 1);
    for (int n = 0; n < OTHERS; n++)
        CHECK(!aw_flag_take(&m.woken[n]));
    run_until(rt, m.move_to);
    for (int n = 0; n < OTHERS; n++) {
        CHECK(aw_flag_take(&m.woken[n]));
        CHECK_EQ(POLL(&m.others[n], &ignored), AW_READY);
    }
    CHECK_EQ(POLL(&trigger, &ignored), AW_READY);
    CHECK_EQ(rt->wheel.count, 0);
    aw_leave(before);
    aw_runtime_free(rt);
}

/* The wake of one timer starts the next, which is already due, a thousand times. */
struct chain {
    aw_counted counted;
    aw_sleep sleep;
    int left;
};

static void next_link(aw_counted *counted) {
    struct chain *c = (struct chain *)counted;
    if (--c->left) aw_sleep_reset(&c->sleep, 1);
}

TEST(a_wake_that_sets_a_timer_which_is_already_due_ends_in_this_advance_or_the_next) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    struct chain c = {.sleep = aw_sleep_for(AW_SEC(1)), .left = 1000};
    aw_counted_init(&c.counted, next_link, keep_meddler);
    aw_waker waker = aw_counted_waker(&c.counted);
    aw_cx cx = aw_cx_from_waker(&waker);
    uint64_t at = aw_now(rt) + AW_SEC(1);
    CHECK_EQ(aw_future_poll(&c.sleep.future, &cx), AW_PENDING);
    run_until(rt, at + 1);
    CHECK_EQ(c.left, 0);
    CHECK_EQ(aw_future_poll(&c.sleep.future, &cx), AW_READY);
    aw_leave(before);
    aw_runtime_free(rt);
}

/* ---- Many, in real time ---------------------------------------------------------------------- */

AW_ASYNC(int, wait_for_jobs, int jobs; aw_sleep nap;) {
    AW_BEGIN;
    while (ran_count < self->jobs)
        AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(300)));
    AW_RETURN(0);
    AW_END;
}

TEST(real_timers_fire_in_order_too) {
    ON_THIS_THREAD("each worker has its own timers");
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    uint64_t seed = test_seed(), start = aw_now(rt) + AW_MSEC(250);
    /* All are in the wheel before the first is due, so that the order of insertion does not
     * matter. */
    for (int i = 0; i < JOBS; i++) {
        uint64_t due = start + test_random(&seed) % AW_MSEC(20);
        aw_task_drop(aw_spawn_on(rt, AW_CALL(job, .number = i, .due = due)));
    }
    CHECK_EQ(aw_block_on(rt, AW_CALL(wait_for_jobs, .jobs = JOBS)), 0);
    for (int i = 1; i < ran_count; i++)
        CHECK(ran[i - 1].due <= ran[i].due);
    aw_runtime_free(rt);
}
