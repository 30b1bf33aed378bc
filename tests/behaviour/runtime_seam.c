/* SPDX-License-Identifier: MIT
 *
 * The seam replaces time, entropy, run order and sleeping all at once. The same seed then gives
 * the same run, step by step, and another seed another one. */
#include "support/tasks.h"

/* ---- A simulated world ----------------------------------------------------------------------- */

typedef struct simulation {
    aw_seam seam;
    uint64_t now, random;
    bool shuffle;
    int asked_now, asked_entropy, asked_pick, parks, unparks;
    uint32_t largest_pick;
    size_t length;
    char trace[65536];
} simulation;

static uint64_t simulated_now(void *data) {
    simulation *s = data;
    s->asked_now++;
    return s->now;
}

static uint64_t simulated_entropy(void *data) {
    simulation *s = data;
    s->asked_entropy++;
    return test_random(&s->random);
}

static uint32_t simulated_pick(void *data, uint32_t n) {
    simulation *s = data;
    s->asked_pick++;
    CHECK_GE(n, 2); /* with one candidate there is nothing to choose */
    CHECK_LE(n, 32);
    if (n > s->largest_pick) s->largest_pick = n;
    return s->shuffle ? (uint32_t)(test_random(&s->random) % n) : 0;
}

/* No events from outside: the clock advances to the next deadline. */
static void simulated_park(void *data, uint64_t deadline) {
    simulation *s = data;
    s->parks++;
    CHECK_NE(deadline, AW_FOREVER);
    CHECK_GT(deadline, s->now);
    s->now = deadline;
}

static void simulated_unpark(void *data) {
    ((simulation *)data)->unparks++;
}

static aw_runtime *simulate(simulation *s, uint64_t seed, bool shuffle) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.keep_tasks = true;
    memset(s, 0, sizeof *s);
    s->now = AW_SEC(1);
    s->random = seed;
    s->shuffle = shuffle;
    s->seam = (aw_seam){
        sizeof s->seam,  s, simulated_now, simulated_entropy, simulated_pick, simulated_park,
        simulated_unpark};
    o.seam = &s->seam;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

static void trace(simulation *s, int number, const char *what) {
    size_t space = sizeof s->trace - s->length;
    int n = snprintf(s->trace + s->length, space, "%llu %d %s\n", (unsigned long long)s->now,
                     number, what);
    CHECK((size_t)n < space);
    s->length += (size_t)n;
}

/* ---- A program that uses every feature ------------------------------------------------------- */

AW_ASYNC(int, worker, simulation *s; int number; aw_notify * bell; int left; aw_sleep nap;
         AW_SELECT(aw_yield, aw_yield, aw_yield) race; AW_SELECT(aw_notified, aw_sleep) wait;) {
    AW_BEGIN;
    for (self->left = 5; self->left > 0; self->left--) {
        trace(self->s, self->number, "runs");
        AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(100 * (1 + self->number % 3))));
        trace(self->s, self->number, "slept");
        AW_AWAIT_SELECT(self->race, aw_yield_now(), aw_yield_now(), aw_yield_now());
        trace(self->s, self->number,
              (const char *[]){"first", "second", "third"}[aw_select_winner(&self->race)]);
        AW_AWAIT_SELECT(self->wait, aw_notify_wait(self->bell), aw_sleep_for(AW_MSEC(1)));
        trace(self->s, self->number, aw_select_winner(&self->wait) ? "waited" : "heard");
        aw_notify_one(self->bell);
        AW_YIELD;
    }
    AW_RETURN(self->number);
    AW_FINALLY;
    trace(self->s, self->number, "ends");
    AW_END;
}

AW_ASYNC(int, conductor, simulation *s; aw_notify bell; struct worker * workers[12]; int i;
         aw_task_join_future join; aw_sleep nap;) {
    AW_BEGIN;
    for (int i = 0; i < 12; i++)
        self->workers[i] = aw_spawn(
            AW_CALL(worker, .s = self->s, .number = i, .bell = &self->bell));
    AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(250)));
    aw_task_abort(self->workers[3]);
    for (self->i = 0; self->i < 12; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->workers[self->i]));
        trace(self->s, self->i, self->join.out ? "cut" : "done");
        aw_task_drop(self->workers[self->i]);
    }
    AW_RETURN(0);
    AW_END;
}

static void run_program(simulation *s, uint64_t seed, bool shuffle) {
    aw_runtime *rt = simulate(s, seed, shuffle);
    CHECK_EQ(aw_block_on(rt, AW_CALL(conductor, .s = s)), 0);
    aw_runtime_free(rt);
    CHECK_CONTAINS(s->trace, "3 cut");
    CHECK_CONTAINS(s->trace, "11 done");
}

TEST(the_same_seed_gives_the_same_run_and_another_seed_another) {
    simulation *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    int different = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        run_program(a, seed, true);
        run_program(b, seed, true);
        CHECK_STR(a->trace, b->trace);
        CHECK_EQ(a->now, b->now);
        CHECK_EQ(a->asked_pick, b->asked_pick);
        run_program(b, seed + 1000, true);
        different += strcmp(a->trace, b->trace) != 0;
    }
    CHECK_EQ(different, 20);
    free(a);
    free(b);
}

TEST(all_four_calls_of_the_seam_are_used) {
    simulation *s = malloc(sizeof *s);
    run_program(s, 7, true);
    CHECK_GT(s->asked_now, 0);
    CHECK_EQ(s->asked_entropy, 1); /* once, for a seed */
    CHECK_GT(s->asked_pick, 10);
    CHECK_EQ(s->largest_pick, 12);
    CHECK_GT(s->parks, 10);
    free(s);
}

/* Choices depend on the seed alone, the order on pick alone. */
TEST(fair_choices_follow_the_entropy_also_without_shuffling) {
    simulation *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    run_program(a, 1, false);
    run_program(b, 1, false);
    CHECK_STR(a->trace, b->trace);
    run_program(b, 2, false);
    CHECK(strcmp(a->trace, b->trace) != 0);
    free(a);
    free(b);
}

TEST(a_seed_in_the_options_replaces_entropy) {
    simulation *s = malloc(sizeof *s);
    char *first = NULL;
    for (int i = 0; i < 2; i++) {
        aw_runtime_options o = AW_RUNTIME_OPTIONS;
        o.keep_tasks = true;
        aw_runtime *rt = simulate(s, (uint64_t)i, false); /* different entropy each time */
        aw_runtime_free(rt);
        s->asked_entropy = 0;
        s->now = AW_SEC(1);
        o.seam = &s->seam;
        o.seed = 99;
        CHECK_EQ(aw_runtime_new(&rt, &o), 0);
        CHECK_EQ(aw_block_on(rt, AW_CALL(conductor, .s = s)), 0);
        aw_runtime_free(rt);
        CHECK_EQ(s->asked_entropy, 0);
        if (first) CHECK_STR(s->trace, first);
        if (!first) first = strdup(s->trace);
    }
    free(first);
    free(s);
}

/* ---- One at a time --------------------------------------------------------------------------- */

static uint32_t pick_last(void *data, uint32_t n) {
    ++*(int *)data;
    return n - 1;
}

AW_ASYNC(int, in_order, int *clock; int *when;) {
    AW_BEGIN;
    *self->when = ++*self->clock;
    AW_RETURN(0);
    AW_END;
}

TEST(pick_decides_which_task_runs_next) {
    int picks = 0, clock = 0, when[10] = {0};
    aw_seam seam = {.self_size = sizeof seam, .data = &picks, .pick = pick_last};
    aw_runtime *rt = runtime_new(NULL, NULL, &seam, false);
    for (int i = 0; i < 10; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(in_order, .clock = &clock, .when = &when[i])));
    run_a_while(rt);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(when[i], 10 - i);
    CHECK_GE(picks, 9);
    aw_runtime_free(rt);
}

static uint32_t pick_nonsense(void *data, uint32_t n) {
    (void)data;
    return n + 7;
}

TEST(a_pick_out_of_range_is_the_first) {
    int clock = 0, when[40] = {0};
    aw_seam seam = {.self_size = sizeof seam, .pick = pick_nonsense};
    aw_runtime *rt = runtime_new(NULL, NULL, &seam, false);
    for (int i = 0; i < 40; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(in_order, .clock = &clock, .when = &when[i])));
    run_a_while(rt);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(when[i], i + 1);
    aw_runtime_free(rt);
}

static uint32_t pick_any(void *data, uint32_t n) {
    return (uint32_t)(test_random(data) % n);
}

/* Taking tasks out of the middle of the queue neither loses nor repeats any. */
TEST(a_shuffled_queue_loses_and_repeats_nothing) {
    enum { N = 300 };
    uint64_t random = test_seed();
    aw_seam seam = {.self_size = sizeof seam, .data = &random, .pick = pick_any};
    for (int round = 0; round < 20; round++) {
        int clock = 0, when[N] = {0};
        aw_runtime *rt = runtime_new(NULL, NULL, &seam, false);
        struct in_order *h[N];
        for (int i = 0; i < N; i++)
            h[i] = aw_spawn_on(rt, AW_CALL(in_order, .clock = &clock, .when = &when[i]));
        for (int i = 0; i < N; i++) {
            CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
            aw_task_drop(h[i]);
        }
        CHECK_EQ(clock, N);
        for (int i = 0; i < N; i++)
            CHECK_NE(when[i], 0);
        aw_runtime_free(rt);
    }
}

/* A park that returns early, for no reason, is allowed. */
static void park_not_at_all(void *data, uint64_t deadline) {
    (void)deadline;
    ++*(int *)data;
}

static void unpark_not(void *data) {
    (void)data;
}

TEST(a_park_that_returns_early_is_only_busy) {
    int parks = 0;
    aw_seam seam = {
        .self_size = sizeof seam, .data = &parks, .park = park_not_at_all, .unpark = unpark_not};
    aw_runtime *rt = runtime_new(NULL, NULL, &seam, false);
    uint64_t begin = aw_now(rt);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(30))), 0);
    CHECK_GE(aw_now(rt) - begin, AW_MSEC(30));
    CHECK_GT(parks, 1);
    aw_runtime_free(rt);
}

/* A wake from another thread calls unpark exactly once, and only when the runtime sleeps. */
struct waker_thread {
    sleeper *sleeper;
    aw_notify *n;
};

static void *notify_when_asleep(void *arg) {
    struct waker_thread *w = arg;
    event_wait(&w->sleeper->asleep);
    aw_notify_one(w->n);
    return NULL;
}

TEST(a_wake_from_a_plain_thread_unparks_a_sleeping_runtime_once) {
    sleeper s;
    aw_notify n = AW_NOTIFY_INIT;
    aw_runtime *rt = runtime_new(NULL, NULL, sleeper_init(&s), false);
    struct waker_thread w = {&s, &n};
    for (int i = 0; i < test_scale(500); i++) {
        s.unparks = 0;
        pthread_t t = thread_start(notify_when_asleep, &w);
        CHECK_EQ(aw_block_on(rt, aw_notify_wait(&n)), 0);
        thread_end(t);
        CHECK_EQ(s.unparks, 1);
    }
    CHECK_EQ(s.parks, test_scale(500));
    aw_runtime_free(rt);
}

/* With the default park: each round is one awaited wake. */
struct bat {
    aw_notify there, back;
    int rounds;
};

AW_ASYNC(int, returns_balls, struct bat *bat; aw_notified wait; int i;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->bat->rounds; self->i++) {
        AW_AWAIT(self->wait, aw_notify_wait(&self->bat->there));
        aw_notify_one(&self->bat->back);
    }
    AW_RETURN(0);
    AW_END;
}

static void *play(void *arg) {
    struct bat *b = arg;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    for (int i = 0; i < b->rounds; i++) {
        aw_notify_one(&b->there);
        CHECK_EQ(aw_block_on(rt, aw_notify_wait(&b->back)), 0);
    }
    aw_runtime_free(rt);
    return NULL;
}

TEST(two_sleeping_runtimes_wake_each_other_at_once_every_time) {
    struct bat b = {AW_NOTIFY_INIT, AW_NOTIFY_INIT, test_scale(20000)};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    pthread_t t = thread_start(play, &b);
    CHECK_EQ(aw_block_on(rt, AW_CALL(returns_balls, .bat = &b)), 0);
    thread_end(t);
    aw_runtime_free(rt);
}
