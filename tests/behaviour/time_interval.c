/* SPDX-License-Identifier: MIT
 *
 * Intervals: when ticks are due, and what happens to missed ones. Times are in seconds after the
 * start; the clock is virtual. */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "support/by_hand.h"
#include "support/clock.h"

enum { TICKS = 8 };

/* Takes ticks; before the n-th it is busy for busy[n] seconds. Records when each was due and
 * when it was delivered. */
AW_ASYNC(int, ticker, aw_interval *interval; const int *busy; int at[TICKS]; int due[TICKS]; int n;
         uint64_t start; aw_sleep work; aw_tick tick;) {
    AW_BEGIN;
    self->start = aw_now(NULL);
    for (self->n = 0; self->n < TICKS; self->n++) {
        AW_AWAIT(self->work, aw_sleep_for(AW_SEC(self->busy[self->n])));
        AW_AWAIT(self->tick, aw_interval_tick(self->interval));
        CHECK_EQ(self->tick.out, 0);
        self->at[self->n] = (int)((aw_now(NULL) - self->start) / AW_SEC(1));
        self->due[self->n] = (int)((self->tick.at - self->start) / AW_SEC(1));
    }
    AW_RETURN(0);
    AW_END;
}

static void check_schedule(aw_missed missed, int first, const int busy[TICKS], const int due[TICKS],
                           const int at[TICKS]) {
    aw_runtime *rt = paused_runtime();
    aw_interval interval;
    if (first < 0)
        CHECK_EQ(aw_interval_every(&interval, AW_SEC(10), missed), 0);
    else
        CHECK_EQ(aw_interval_from(&interval, aw_now(rt) + AW_SEC(first), AW_SEC(10), missed), 0);
    struct ticker t = AW_CALL(ticker, .interval = &interval, .busy = busy);
    CHECK_EQ(aw_block_on_future(rt, &t.future), 0);
    for (int i = 0; i < TICKS; i++) {
        CHECK_EQ(t.due[i], due[i]);
        CHECK_EQ(t.at[i], at[i]);
    }
    aw_runtime_free(rt);
}

static const int never_busy[TICKS] = {0};
/* Busy from 10 to 45. */
static const int busy[TICKS] = {0, 0, 35, 0, 0, 0, 0, 0};

TEST(the_first_tick_is_immediate_and_the_others_a_period_apart) {
    const int times[TICKS] = {0, 10, 20, 30, 40, 50, 60, 70};
    check_schedule(AW_BURST, -1, never_busy, times, times);
    check_schedule(AW_DELAY, -1, never_busy, times, times);
    check_schedule(AW_SKIP, -1, never_busy, times, times);
}

TEST(an_interval_can_start_later) {
    const int times[TICKS] = {7, 17, 27, 37, 47, 57, 67, 77};
    check_schedule(AW_BURST, 7, never_busy, times, times);
    check_schedule(AW_DELAY, 7, never_busy, times, times);
    check_schedule(AW_SKIP, 7, never_busy, times, times);
}

TEST(missed_ticks_come_in_a_burst) {
    const int due[TICKS] = {0, 10, 20, 30, 40, 50, 60, 70};
    const int at[TICKS] = {0, 10, 45, 45, 45, 50, 60, 70};
    check_schedule(AW_BURST, -1, busy, due, at);
}

TEST(missed_ticks_delay_the_following_ones) {
    const int due[TICKS] = {0, 10, 20, 55, 65, 75, 85, 95};
    const int at[TICKS] = {0, 10, 45, 55, 65, 75, 85, 95};
    check_schedule(AW_DELAY, -1, busy, due, at);
}

TEST(missed_ticks_are_skipped_and_the_grid_stays) {
    const int due[TICKS] = {0, 10, 20, 50, 60, 70, 80, 90};
    const int at[TICKS] = {0, 10, 45, 50, 60, 70, 80, 90};
    check_schedule(AW_SKIP, -1, busy, due, at);
}

TEST(a_tick_that_is_late_by_less_than_a_period_misses_nothing) {
    /* Up to 3: in time; from 10 to 23: late; from 23 to 42: later than the period. */
    const int a_little[TICKS] = {0, 3, 13, 19, 0, 0, 0, 0};
    const int due[TICKS] = {0, 10, 20, 30, 40, 50, 60, 70};
    const int at[TICKS] = {0, 10, 23, 42, 42, 50, 60, 70};
    check_schedule(AW_BURST, -1, a_little, due, at);
    const int due_skip[TICKS] = {0, 10, 20, 30, 50, 60, 70, 80};
    const int at_skip[TICKS] = {0, 10, 23, 42, 50, 60, 70, 80};
    check_schedule(AW_SKIP, -1, a_little, due_skip, at_skip);
    const int due_delay[TICKS] = {0, 10, 20, 30, 52, 62, 72, 82};
    const int at_delay[TICKS] = {0, 10, 23, 42, 52, 62, 72, 82};
    check_schedule(AW_DELAY, -1, a_little, due_delay, at_delay);
}

TEST(a_skipping_interval_that_is_late_by_whole_periods_goes_on_with_the_next) {
    const int whole[TICKS] = {0, 30, 0, 0, 0, 0, 0, 0}; /* until 30, when a tick is due as well */
    const int due[TICKS] = {0, 10, 40, 50, 60, 70, 80, 90};
    const int at[TICKS] = {0, 30, 40, 50, 60, 70, 80, 90};
    check_schedule(AW_SKIP, -1, whole, due, at);
}

TEST(an_interval_that_started_in_the_past_catches_up) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    uint64_t now = aw_now(rt), start = now - AW_SEC(25);
    aw_flag flag = {0};
    aw_interval interval;
    CHECK_EQ(aw_interval_from(&interval, start, AW_SEC(10), AW_BURST), 0);
    for (unsigned i = 0; i < 3; i++) {
        aw_tick t = aw_interval_tick(&interval);
        CHECK_EQ(POLL(&t, &flag), AW_READY);
        CHECK_EQ(t.at, start + AW_SEC(10 * i));
    }
    aw_tick future = aw_interval_tick(&interval);
    CHECK_EQ(POLL(&future, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&future, &flag), AW_CANCELLED);
    aw_leave(before);
    aw_runtime_free(rt);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

TEST(a_period_of_zero_is_refused) {
    aw_interval interval;
    CHECK_EQ(aw_interval_every(&interval, 0, AW_BURST), -EINVAL);
    CHECK_EQ(aw_interval_from(&interval, 1, 0, AW_SKIP), -EINVAL);
    CHECK_EQ(aw_interval_every(&interval, 1, (aw_missed)3), -EINVAL);
    CHECK_EQ(aw_interval_every(&interval, 1, AW_DELAY), 0);
}

TEST(after_a_huge_period_there_is_no_second_tick) {
    const uint64_t periods[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++) {
        for (int missed = AW_BURST; missed <= AW_SKIP; missed++) {
            aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
            aw_flag flag = {0};
            aw_interval interval;
            CHECK_EQ(aw_interval_every(&interval, periods[i], (aw_missed)missed), 0);
            aw_tick first = aw_interval_tick(&interval);
            CHECK_EQ(POLL(&first, &flag), AW_READY);
            CHECK_EQ(first.at, aw_now(rt));
            aw_tick second = aw_interval_tick(&interval);
            CHECK_EQ(POLL(&second, &flag), AW_PENDING);
            run_until(rt, UINT64_MAX / 2);
            CHECK_EQ(POLL(&second, &flag), AW_PENDING);
            CHECK_EQ(CANCEL(&second, &flag), AW_CANCELLED);
            aw_leave(before);
            aw_runtime_free(rt);
        }
    }
}

/* A nanosecond is a period too: it ticks at once, as often as it is polled. */
TEST(a_tiny_period_ticks_without_waiting_for_the_kernel) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    aw_flag flag = {0};
    aw_interval interval;
    CHECK_EQ(aw_interval_every(&interval, 1, AW_BURST), 0);
    CHECK_EQ(aw_clock_advance(rt, 1), 0);
    interval.next = aw_now(rt) - 1000;
    for (int i = 0; i <= 1000; i++) {
        aw_tick t = aw_interval_tick(&interval);
        CHECK_EQ(POLL(&t, &flag), AW_READY);
    }
    aw_tick t = aw_interval_tick(&interval);
    CHECK_EQ(POLL(&t, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&t, &flag), AW_CANCELLED);
    aw_leave(before);
    aw_runtime_free(rt);
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

/* cancel-at-every-await: aw_tick */

TEST(a_cancelled_tick_takes_none) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    uint64_t due = aw_now(rt) + AW_SEC(10);
    aw_flag flag = {0};
    aw_interval interval;
    CHECK_EQ(aw_interval_from(&interval, due, AW_SEC(10), AW_BURST), 0);

    aw_tick never_polled = aw_interval_tick(&interval);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);
    CHECK_EQ(interval.next, due);

    aw_tick pending = aw_interval_tick(&interval);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &flag), AW_CANCELLED);
    CHECK_EQ(interval.next, due);

    aw_tick fired = aw_interval_tick(&interval);
    CHECK_EQ(POLL(&fired, &flag), AW_PENDING);
    run_until(rt, due);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(interval.next, due); /* it has not been taken */
    CHECK_EQ(CANCEL(&fired, &flag), AW_READY);
    CHECK_EQ(fired.at, due);
    CHECK_EQ(interval.next, due + AW_SEC(10));

    aw_tick finished = aw_interval_tick(&interval);
    run_until(rt, due + AW_SEC(10));
    CHECK_EQ(POLL(&finished, &flag), AW_READY);
    DIES(CANCEL(&finished, &flag), "cancelled after it had finished");
    aw_leave(before);
    aw_runtime_free(rt);
}

TEST(a_discarded_tick_is_due_again) {
    aw_runtime *rt = paused_runtime(), *before = aw_enter(rt);
    uint64_t start = aw_now(rt);
    aw_flag flag = {0};
    aw_interval interval;
    CHECK_EQ(aw_interval_every(&interval, AW_SEC(10), AW_SKIP), 0);
    aw_tick first = aw_interval_tick(&interval);
    CHECK_EQ(POLL(&first, &flag), AW_READY);
    aw_future_discard(&first.future);
    aw_tick again = aw_interval_tick(&interval);
    CHECK_EQ(POLL(&again, &flag), AW_READY);
    CHECK_EQ(again.at, start);
    aw_leave(before);
    aw_runtime_free(rt);
}

/* ---- Resets ---------------------------------------------------------------------------------- */

/* An interval of ten seconds with a pending tick, first due ten seconds after the start. */
typedef struct resetting {
    aw_runtime *rt, *before;
    uint64_t start;
    aw_interval interval;
    aw_tick tick;
    aw_flag flag;
} resetting;

static void resetting_begin(resetting *r) {
    r->rt = paused_runtime();
    r->before = aw_enter(r->rt);
    r->start = aw_now(r->rt);
    r->flag = (aw_flag){0};
    CHECK_EQ(aw_interval_from(&r->interval, r->start + AW_SEC(10), AW_SEC(10), AW_BURST), 0);
    r->tick = aw_interval_tick(&r->interval);
    CHECK_EQ(POLL(&r->tick, &r->flag), AW_PENDING);
}

/* The pending tick is woken at this second, and not before; the next one follows a period later. */
static void resetting_end(resetting *r, uint64_t due) {
    due += r->start;
    if (due > aw_now(r->rt)) {
        run_until(r->rt, due - 1);
        CHECK(!aw_flag_take(&r->flag));
        CHECK_EQ(POLL(&r->tick, &r->flag), AW_PENDING);
    }
    run_until(r->rt, due);
    CHECK(aw_flag_take(&r->flag));
    CHECK_EQ(POLL(&r->tick, &r->flag), AW_READY);
    CHECK_EQ(r->tick.out, 0);
    CHECK_EQ(r->tick.at - r->start, due - r->start);
    CHECK_EQ(r->interval.next - due, AW_SEC(10));
    aw_leave(r->before);
    aw_runtime_free(r->rt);
}

TEST(a_reset_gives_a_tick_that_waits_a_whole_period) {
    resetting r;
    resetting_begin(&r);
    run_until(r.rt, r.start + AW_SEC(7));
    aw_interval_reset(&r.interval);
    resetting_end(&r, AW_SEC(17));
}

TEST(a_reset_moves_a_tick_that_waits_earlier_and_later) {
    resetting r;
    resetting_begin(&r);
    aw_interval_reset_at(&r.interval, r.start + AW_SEC(3));
    resetting_end(&r, AW_SEC(3));
    resetting_begin(&r);
    aw_interval_reset_at(&r.interval, r.start + AW_SEC(3));
    aw_interval_reset_after(&r.interval, AW_SEC(25));
    resetting_end(&r, AW_SEC(25));
}

TEST(an_immediate_reset_lets_a_tick_that_waits_come_now) {
    resetting r;
    resetting_begin(&r);
    run_until(r.rt, r.start + AW_SEC(7));
    aw_interval_reset_immediately(&r.interval);
    resetting_end(&r, AW_SEC(7));
}

TEST(a_reset_without_a_tick_moves_the_one_that_comes_next) {
    resetting r;
    resetting_begin(&r);
    CHECK_EQ(CANCEL(&r.tick, &r.flag), AW_CANCELLED);
    memset(&r.tick, 0xa5, sizeof r.tick); /* it has ended, and is not accessed */
    aw_interval_reset_after(&r.interval, AW_SEC(4));
    r.tick = aw_interval_tick(&r.interval);
    CHECK_EQ(POLL(&r.tick, &r.flag), AW_PENDING);
    resetting_end(&r, AW_SEC(4));
}

TEST(a_reset_after_a_tick_came_leaves_that_tick_alone) {
    resetting r;
    resetting_begin(&r);
    run_until(r.rt, r.start + AW_SEC(10));
    CHECK(aw_flag_take(&r.flag));
    CHECK_EQ(POLL(&r.tick, &r.flag), AW_READY);
    aw_tick done = r.tick;
    aw_interval_reset_after(&r.interval, AW_SEC(5));
    CHECK_EQ(memcmp(&done, &r.tick, sizeof done), 0);
    CHECK_EQ(r.interval.next - r.start, AW_SEC(15));
    aw_future_discard(&r.tick.future); /* it would be due again, but for the reset */
    CHECK_EQ(r.interval.next - r.start, AW_SEC(15));
    r.tick = aw_interval_tick(&r.interval);
    CHECK_EQ(POLL(&r.tick, &r.flag), AW_PENDING);
    resetting_end(&r, AW_SEC(15));
}

TEST(a_reset_to_the_end_of_time_is_no_immediate_one) {
    resetting r;
    resetting_begin(&r);
    aw_interval_reset_at(&r.interval, AW_FOREVER);
    run_until(r.rt, r.start + AW_SEC(1000));
    CHECK_EQ(POLL(&r.tick, &r.flag), AW_PENDING);
    CHECK_EQ(CANCEL(&r.tick, &r.flag), AW_CANCELLED);
    r.tick = aw_interval_tick(&r.interval);
    CHECK_EQ(POLL(&r.tick, &r.flag), AW_PENDING);
    aw_interval_reset_immediately(&r.interval);
    resetting_end(&r, AW_SEC(1000));
}

/* A keep-alive that is postponed by each message. */
AW_ASYNC(int, keeps_alive, aw_interval interval; uint64_t start; int messages;
         AW_SELECT(aw_tick, aw_sleep) first;) {
    AW_BEGIN;
    self->start = aw_now(NULL);
    CHECK_EQ(aw_interval_every(&self->interval, AW_SEC(10), AW_DELAY), 0);
    aw_interval_reset(&self->interval);
    do {
        AW_AWAIT_SELECT(self->first, aw_interval_tick(&self->interval),
                        aw_sleep_for(self->messages < 5 ? AW_SEC(6) : AW_FOREVER));
        if (self->first.out & 1) break;
        self->messages++;
        aw_interval_reset(&self->interval);
    } while (true);
    CHECK_EQ(self->messages, 5);
    AW_RETURN((int)((aw_now(NULL) - self->start) / AW_SEC(1)));
    AW_END;
}

TEST(an_interval_is_put_off_by_each_reset) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_CALL(keeps_alive)), 5 * 6 + 10);
    aw_runtime_free(rt);
}

/* A select between ticks and messages that come faster than the ticks: no tick is lost. */
AW_ASYNC(int, ticks_and_messages, aw_interval interval; uint64_t start; int ticks; int messages;
         AW_SELECT(aw_tick, aw_sleep) first;) {
    AW_BEGIN;
    self->start = aw_now(NULL);
    CHECK_EQ(aw_interval_every(&self->interval, AW_SEC(10), AW_DELAY), 0);
    while (self->ticks < 6) {
        AW_AWAIT_SELECT(self->first, aw_interval_tick(&self->interval), aw_sleep_for(AW_SEC(4)));
        AW_SELECT_EACH(which, &self->first) {
            if (which == 0)
                self->ticks++;
            else
                self->messages++;
        }
    }
    CHECK_EQ(aw_now(NULL) - self->start, AW_SEC(50));
    CHECK_EQ(self->messages, 10); /* at 4 and 8 after each tick but the last */
    AW_RETURN(0);
    AW_END;
}

TEST(ticks_that_lose_a_select_are_not_lost) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_CALL(ticks_and_messages)), 0);
    aw_runtime_free(rt);
}
