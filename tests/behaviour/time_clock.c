/* SPDX-License-Identifier: MIT
 *
 * The clock of a runtime: paused, advanced, resumed, replaced; and when it jumps. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "support/by_hand.h"
#include "support/clock.h"

/* ---- Paused ---------------------------------------------------------------------------------- */

AW_ASYNC(int, busy_for_a_while, uint64_t start; int polls;) {
    AW_BEGIN;
    self->start = aw_now(NULL);
    for (self->polls = 0; self->polls < 1000; self->polls++) {
        CHECK_EQ(aw_now(NULL), self->start);
        AW_YIELD;
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, sleeps_meanwhile, aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(1));
    AW_RETURN(0);
    AW_END;
}

TEST(a_paused_clock_jumps_only_when_every_task_is_idle) {
    aw_runtime *rt = paused_runtime();
    uint64_t start = aw_now(rt);
    struct sleeps_meanwhile *sleeper = aw_spawn_on(rt, AW_CALL(sleeps_meanwhile));
    CHECK_EQ(aw_block_on(rt, AW_CALL(busy_for_a_while)), 0);
    CHECK(!aw_task_is_finished(sleeper));
    CHECK_EQ(aw_block_on(rt, aw_task_join(sleeper)), 0);
    CHECK_EQ(aw_now(rt), start + 1);
    aw_task_drop(sleeper);
    aw_runtime_free(rt);
}

TEST(a_day_of_virtual_time_takes_no_real_time) {
    aw_runtime *rt = paused_runtime();
    uint64_t real = test_now_ns(), start = aw_now(rt);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(24 * 3600))), 0);
    CHECK_EQ(aw_now(rt) - start, AW_SEC(24 * 3600));
    CHECK_LT(test_now_ns() - real, AW_SEC(10));
    aw_runtime_free(rt);
}

TEST(pause_resume_and_advance_are_refused_at_the_wrong_moment) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    CHECK_EQ(aw_clock_resume(rt), -EINVAL);
    CHECK_EQ(aw_clock_advance(rt, 1), -EINVAL);
    CHECK_EQ(aw_clock_pause(rt), 0);
    CHECK_EQ(aw_clock_pause(rt), -EINVAL);
    CHECK_EQ(aw_clock_advance(rt, 1), 0);
    CHECK_EQ(aw_clock_resume(rt), 0);
    CHECK_EQ(aw_clock_resume(rt), -EINVAL);
    aw_runtime_free(rt);
}

AW_ASYNC(int, advance_step_by_step, aw_sleep *nap; uint64_t start; aw_task_join_future join;
         struct rounds pause;) {
    AW_BEGIN;
    self->start = aw_now(NULL);
    self->nap = aw_spawn(aw_sleep_for(AW_SEC(10)));
    AW_AWAIT(self->pause, rounds(1));
    CHECK_EQ(aw_clock_advance(aw_runtime_current(), AW_SEC(9)), 0);
    CHECK_EQ(aw_now(NULL), self->start + AW_SEC(9));
    AW_AWAIT(self->pause, rounds(2));
    CHECK(!aw_task_is_finished(self->nap));
    CHECK_EQ(aw_clock_advance(aw_runtime_current(), AW_SEC(1) - 1), 0);
    AW_AWAIT(self->pause, rounds(2));
    CHECK(!aw_task_is_finished(self->nap));
    CHECK_EQ(aw_clock_advance(aw_runtime_current(), 1), 0);
    AW_AWAIT(self->pause, rounds(2));
    CHECK(aw_task_is_finished(self->nap));
    CHECK_EQ(aw_now(NULL), self->start + AW_SEC(10));
    AW_AWAIT(self->join, aw_task_join(self->nap));
    aw_task_drop(self->nap);
    AW_RETURN(0);
    AW_END;
}

TEST(an_advance_fires_exactly_what_is_due_by_then) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_CALL(advance_step_by_step)), 0);
    aw_runtime_free(rt);
}

TEST(an_advance_stops_at_the_end_of_time) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_clock_advance(rt, UINT64_MAX), 0);
    CHECK(aw_now(rt) == UINT64_MAX);
    CHECK_EQ(aw_clock_advance(rt, 1), 0);
    CHECK(aw_now(rt) == UINT64_MAX);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(1))), 0); /* all deadlines have passed */
    aw_runtime_free(rt);
}

/* ---- Resumed --------------------------------------------------------------------------------- */

AW_ASYNC(int, pause_and_resume, uint64_t last; int n; aw_sleep nap;) {
    AW_BEGIN;
    self->last = aw_now(NULL);
    for (self->n = 0; self->n < 5; self->n++) {
        CHECK_EQ(aw_clock_pause(aw_runtime_current()), 0);
        CHECK_GE(aw_now(NULL), self->last);
        self->last = aw_now(NULL);
        AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(3600)));
        CHECK_EQ(aw_now(NULL), self->last + AW_SEC(3600));
        self->last = aw_now(NULL);
        CHECK_EQ(aw_clock_resume(aw_runtime_current()), 0);
        CHECK_GE(aw_now(NULL), self->last);
        CHECK_LT(aw_now(NULL) - self->last, AW_SEC(60)); /* it goes on, it does not jump */
        self->last = aw_now(NULL);
        AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(100)));
        CHECK_GE(aw_now(NULL), self->last + AW_USEC(100));
        self->last = aw_now(NULL);
    }
    AW_RETURN(0);
    AW_END;
}

TEST(a_resumed_clock_goes_on_from_where_it_stood) {
    uint64_t real = test_now_ns();
    CHECK_EQ(aw_run(AW_CALL(pause_and_resume)), 0);
    CHECK_GE(test_now_ns() - real, AW_USEC(500)); /* the sleeps in between were real */
    CHECK_LT(test_now_ns() - real, AW_SEC(60));   /* the hours were not */
}

AW_ASYNC(int, nap_across_a_resume, aw_sleep *early; aw_sleep * late; uint64_t start;
         aw_task_join_future join; struct rounds pause;) {
    AW_BEGIN;
    self->start = aw_now(NULL);
    self->early = aw_spawn(aw_sleep_for(AW_SEC(100)));
    self->late = aw_spawn(aw_sleep_for(AW_SEC(100) + AW_MSEC(2)));
    AW_AWAIT(self->pause, rounds(1));
    CHECK_EQ(aw_clock_advance(aw_runtime_current(), AW_SEC(100)), 0);
    CHECK_EQ(aw_clock_resume(aw_runtime_current()), 0);
    AW_AWAIT(self->join, aw_task_join(self->early));
    AW_AWAIT(self->join, aw_task_join(self->late));
    CHECK_GE(aw_now(NULL) - self->start, AW_SEC(100) + AW_MSEC(2));
    CHECK_LT(aw_now(NULL) - self->start, AW_SEC(160));
    aw_task_drop(self->early);
    aw_task_drop(self->late);
    AW_RETURN(0);
    AW_END;
}

TEST(timers_set_on_a_paused_clock_fire_on_the_resumed_one) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_CALL(nap_across_a_resume)), 0);
    aw_runtime_free(rt);
}

/* ---- Held ------------------------------------------------------------------------------------ */

/* A seam that calls `when_idle` on the runtime's own thread when nothing can run. */
struct idle_driver {
    aw_runtime *rt;
    void (*when_idle)(struct idle_driver *d);
    uint64_t started;
    int parks;
    bool token;
};

static void driver_park(void *data, uint64_t deadline) {
    struct idle_driver *d = data;
    (void)deadline;
    CHECK_LT(++d->parks, 100); /* nothing may busy-loop here */
    if (!d->token) d->when_idle(d);
    d->token = false;
}

static void driver_unpark(void *data) {
    ((struct idle_driver *)data)->token = true;
}

static void use_driver(struct idle_driver *d) {
    aw_seam seam = {sizeof seam, d, NULL, NULL, NULL, driver_park, driver_unpark};
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.paused = true;
    options.keep_tasks = true;
    options.seam = &seam;
    CHECK_EQ(aw_runtime_new(&d->rt, &options), 0);
    d->started = aw_now(d->rt);
}

static void release_when_idle(struct idle_driver *d) {
    CHECK_EQ(aw_now(d->rt), d->started); /* idle, and it has not jumped */
    aw_runtime_unhold(d->rt);
}

TEST(a_held_clock_does_not_jump) {
    struct idle_driver d = {.when_idle = release_when_idle};
    use_driver(&d);
    aw_runtime_hold(d.rt);
    CHECK_EQ(aw_block_on(d.rt, aw_sleep_for(AW_SEC(5))), 0);
    CHECK_EQ(d.parks, 1);
    CHECK_EQ(aw_now(d.rt), d.started + AW_SEC(5));
    aw_runtime_free(d.rt);
}

TEST(a_clock_held_twice_must_be_released_twice) {
    struct idle_driver d = {.when_idle = release_when_idle};
    use_driver(&d);
    aw_runtime_hold(d.rt);
    aw_runtime_hold(d.rt);
    aw_runtime_unhold(d.rt);
    aw_runtime_hold(d.rt);
    CHECK_EQ(aw_block_on(d.rt, aw_sleep_for(AW_SEC(5))), 0);
    CHECK_EQ(d.parks, 2);
    CHECK_EQ(aw_now(d.rt), d.started + AW_SEC(5));
    aw_runtime_free(d.rt);
}

static void *release_in_thread(void *rt) {
    aw_runtime_unhold(rt);
    return NULL;
}

TEST(a_plain_thread_lets_a_held_clock_go) {
    for (int i = 0; i < test_scale(200); i++) {
        aw_runtime *rt = paused_runtime();
        pthread_t thread;
        aw_runtime_hold(rt);
        CHECK_EQ(pthread_create(&thread, NULL, release_in_thread, rt), 0);
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(5))), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        aw_runtime_free(rt);
    }
}

static aw_notify from_outside = AW_NOTIFY_INIT;
static void notify_when_idle(struct idle_driver *d) {
    CHECK_EQ(aw_now(d->rt), d->started);
    aw_notify_one(&from_outside);
}

AW_ASYNC(int, wait_then_sleep, aw_notified message; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->message, aw_notify_wait(&from_outside));
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
    AW_RETURN(0);
    AW_END;
}

TEST(a_sleep_for_ever_is_nothing_to_jump_to_and_does_not_spoil_later_timers) {
    struct idle_driver d = {.when_idle = notify_when_idle};
    use_driver(&d);
    aw_sleep *forever = aw_spawn_on(d.rt, aw_sleep_for(AW_FOREVER));
    CHECK_EQ(aw_block_on(d.rt, AW_CALL(wait_then_sleep)), 0);
    CHECK_EQ(aw_now(d.rt), d.started + AW_SEC(1));
    CHECK(!aw_task_is_finished(forever));
    aw_runtime_free(d.rt);
    aw_task_drop(forever);
}

/* ---- Two runs are identical ------------------------------------------------------------------ */

enum { ACTORS = 50, TRACE = 4000 };

struct trace {
    uint64_t start;
    int count;
    struct {
        uint64_t at;
        int actor, what;
    } steps[TRACE];
};

static void record(struct trace *t, int actor, int what) {
    CHECK_LT(t->count, TRACE);
    t->steps[t->count].at = aw_now(NULL) - t->start;
    t->steps[t->count].actor = actor;
    t->steps[t->count++].what = what;
}

/* Sleeps, notifies, waits with a timeout, selects: a bit of everything, chosen by its own seed. */
AW_ASYNC(int, actor, struct trace *trace; aw_notify * bell; int id; uint64_t seed; int n;
         AW_SHARE(aw_sleep nap; AW_TIMEOUT(aw_notified) wait;
                  AW_SELECT(aw_sleep, aw_sleep, aw_notified) race;);) {
    AW_BEGIN;
    for (self->n = 0; self->n < 20; self->n++) {
        if (test_random(&self->seed) % 3 == 0) {
            aw_notify_one(self->bell);
            AW_AWAIT(self->nap, aw_sleep_for(test_random(&self->seed) % AW_MSEC(20)));
            record(self->trace, self->id, 1);
        } else if (self->seed % 2) {
            AW_AWAIT_FOR(self->wait, test_random(&self->seed) % AW_MSEC(30),
                         aw_notify_wait(self->bell));
            record(self->trace, self->id, self->wait.out ? 2 : 3);
        } else {
            AW_AWAIT_SELECT(self->race, aw_sleep_for(AW_MSEC(self->seed % 7)),
                            aw_sleep_for(AW_MSEC(self->seed % 7)), aw_notify_wait(self->bell));
            record(self->trace, self->id, 4 + aw_select_winner(&self->race));
        }
    }
    AW_RETURN(0);
    AW_END;
}

static void perform(struct trace *trace) {
    aw_runtime *rt = paused_runtime();
    aw_notify bell = AW_NOTIFY_INIT;
    struct actor *actors[ACTORS];
    uint64_t seed = test_seed();
    memset(trace, 0, sizeof *trace);
    trace->start = aw_now(rt);
    for (int i = 0; i < ACTORS; i++) {
        actors[i] = aw_spawn_on(
            rt, AW_CALL(actor, .trace = trace, .bell = &bell, .id = i, .seed = test_random(&seed)));
    }
    for (int i = 0; i < ACTORS; i++) {
        CHECK_EQ(aw_block_on(rt, aw_task_join(actors[i])), 0);
        aw_task_drop(actors[i]);
    }
    aw_runtime_free(rt);
}

TEST(two_runs_under_virtual_time_are_identical) {
    ON_THIS_THREAD("what workers do is not repeated");
    static struct trace first, second;
    perform(&first);
    perform(&second);
    CHECK_EQ(first.count, ACTORS * 20);
    first.start = second.start = 0; /* the start on the real clock may differ */
    CHECK_EQ(memcmp(&first, &second, sizeof first), 0);
}

/* ---- Several clocks -------------------------------------------------------------------------- */

static uint64_t hand_clock(void *data) {
    return *(uint64_t *)data;
}
/* Its park moves the clock towards the deadline, but in steps: at first it returns too early. */
static void hand_park(void *data, uint64_t deadline) {
    uint64_t *hands = data;
    CHECK(deadline != AW_FOREVER && deadline > *hands);
    *hands += deadline - *hands > 1 ? (deadline - *hands) / 2 : 1;
}
static void hand_unpark(void *data) {
    (void)data;
}

TEST(runtimes_have_clocks_of_their_own) {
    uint64_t hands = 1000, real = test_now_ns();
    aw_seam seam = {sizeof seam, &hands, hand_clock, NULL, NULL, hand_park, hand_unpark};
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.seam = &seam;
    aw_runtime *a = paused_runtime(), *b = paused_runtime(), *c, *d;
    CHECK_EQ(aw_runtime_new(&c, &options), 0);
    CHECK_EQ(aw_runtime_new(&d, NULL), 0);
    uint64_t a_start = aw_now(a), b_start = aw_now(b);

    CHECK_EQ(aw_block_on(a, aw_sleep_for(AW_SEC(1000))), 0);
    CHECK_EQ(aw_block_on(b, aw_sleep_for(AW_SEC(1))), 0);
    CHECK_EQ(aw_clock_advance(b, 7), 0);
    CHECK_EQ(aw_block_on(c, aw_sleep_for(AW_SEC(50))), 0);
    CHECK_EQ(aw_block_on(d, aw_sleep_for(AW_USEC(50))), 0);

    CHECK_EQ(aw_now(a), a_start + AW_SEC(1000));
    CHECK_EQ(aw_now(b), b_start + AW_SEC(1) + 7);
    CHECK_EQ(aw_now(c), 1000 + AW_SEC(50));
    CHECK_GE(aw_now(d), real + AW_USEC(50));
    CHECK_LT(aw_now(d), real + AW_SEC(60));
    aw_runtime_free(a);
    aw_runtime_free(b);
    aw_runtime_free(c);
    aw_runtime_free(d);
}

/* A seam that sleeps as long as requested, and counts how often. */
struct patient_driver {
    uint64_t now;
    int parks;
};
static uint64_t patient_now(void *data) {
    return ((struct patient_driver *)data)->now;
}
static void patient_park(void *data, uint64_t deadline) {
    struct patient_driver *d = data;
    d->parks++;
    CHECK(deadline > d->now); /* there is something to wait for */
    d->now = deadline;
}

TEST(an_idle_runtime_wakes_a_few_times_for_a_far_timer_and_never_spins) {
    const uint64_t naps[] = {1, AW_USEC(100), AW_SEC(1), AW_SEC(24 * 3600), AW_SEC(1000000000)};
    for (size_t i = 0; i < sizeof naps / sizeof *naps; i++) {
        struct patient_driver d = {.now = 12345};
        aw_seam seam = {sizeof seam, &d, patient_now, NULL, NULL, patient_park, hand_unpark};
        aw_runtime_options options = AW_RUNTIME_OPTIONS;
        aw_runtime *rt;
        options.seam = &seam;
        CHECK_EQ(aw_runtime_new(&rt, &options), 0);
        for (int again = 0; again < 3; again++) {
            uint64_t due = d.now + naps[i];
            d.parks = 0;
            CHECK_EQ(aw_block_on(rt, aw_sleep_for(naps[i])), 0);
            CHECK_EQ(d.now, due);
            CHECK_LE(d.parks, 9); /* at most one per level of the wheel */
        }
        aw_runtime_free(rt);
    }
}

TEST(now_is_that_of_the_entered_runtime_and_without_any_the_monotonic_clock) {
    aw_runtime *a = paused_runtime(), *b = paused_runtime();
    CHECK_EQ(aw_clock_advance(a, AW_SEC(100)), 0);
    CHECK_EQ(aw_clock_advance(b, AW_SEC(10000)), 0);
    uint64_t before = test_now_ns(), now = aw_now(NULL);
    CHECK_GE(now, before);
    CHECK_LE(now, test_now_ns());
    aw_runtime *none = aw_enter(a);
    CHECK_EQ(aw_now(NULL), aw_now(a));
    aw_runtime *was_a = aw_enter(b);
    CHECK_EQ(aw_now(NULL), aw_now(b));
    aw_leave(was_a);
    CHECK_EQ(aw_now(NULL), aw_now(a));
    aw_leave(none);
    CHECK_EQ(was_a, a);
    CHECK(none == NULL);
    CHECK_LT(aw_now(NULL), aw_now(a));
    aw_runtime_free(a);
    aw_runtime_free(b);
}
