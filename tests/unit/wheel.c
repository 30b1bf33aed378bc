/* SPDX-License-Identifier: MIT
 *
 * The timer wheel against a sorted array. Times are plain numbers here: no thread sleeps. */
#include "test.h"

#include <string.h>

#include "time/wheel.h"

#define TICK        (1ULL << AW__TICK_BITS)
#define SPAN(level) (TICK << ((level)*AW__SLOT_BITS)) /* covered by a slot of a level */
#define YEAR        AW_SEC(365ULL * 24 * 3600)

/* ---- The model ------------------------------------------------------------------------------- */

enum { MAX_TIMERS = 512 };

struct timer {
    aw_sleep sleep;
    uint64_t when, order; /* according to the model */
    bool in_wheel;
};

static aw__wheel wheel;
static struct timer timers[MAX_TIMERS];
static struct timer *sorted[MAX_TIMERS]; /* by deadline, then by insertion */
static size_t count;
static uint64_t now, inserted;

/* The waker of a timer checks that it is the next to fire, and not early. */
static aw_waker fired_clone(void *data);
static void fired(void *data) {
    struct timer *t = data;
    CHECK_GT(count, 0);
    CHECK_EQ(t, sorted[0]);
    CHECK(t->when <= now);
    CHECK_EQ(t->sleep.future.state, AW__SLEEP_FIRED);
    memmove(sorted, sorted + 1, --count * sizeof *sorted);
    t->in_wheel = false;
}
static void nothing(void *data) {
    (void)data;
}
static const aw_waker_type fired_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "fired",
    .clone = fired_clone,
    .wake = fired,
    .wake_by_ref = fired,
    .drop = nothing,
};
static aw_waker fired_clone(void *data) {
    return (aw_waker){&fired_type, data};
}

static void start(uint64_t at) {
    now = at;
    count = 0;
    aw__wheel_init(&wheel, NULL, NULL, at);
}

static bool later(const struct timer *a, const struct timer *b) {
    return a->when != b->when ? a->when > b->when : a->order > b->order;
}

static void insert(struct timer *t, uint64_t when) {
    *t = (struct timer){aw_sleep_until(when), when, ++inserted, true};
    t->sleep.waker = (aw_waker){&fired_type, t};
    t->sleep.future.state = AW__SLEEP_LINKED;
    aw__wheel_insert(&wheel, &t->sleep);
    size_t i = count++;
    for (; i > 0 && later(sorted[i - 1], t); i--)
        sorted[i] = sorted[i - 1];
    sorted[i] = t;
}

static void take_out(struct timer *t) {
    size_t i = 0;
    while (sorted[i] != t)
        i++;
    memmove(sorted + i, sorted + i + 1, (--count - i) * sizeof *sorted);
    aw__wheel_remove(&wheel, &t->sleep);
    t->in_wheel = false;
}

static void advance(uint64_t to) {
    now = to;
    aw__wheel_advance(&wheel, to);
    CHECK_EQ(wheel.count, count);
    CHECK(count == 0 || sorted[0]->when > now); /* all due timers have fired */
}

static void check_next(bool exact) {
    uint64_t next = aw__wheel_next(&wheel, exact), truth = count ? sorted[0]->when : AW_FOREVER;
    CHECK(exact ? next == truth : next <= truth);
    CHECK(wheel.asleep == next);
}

/* ---- Single steps ---------------------------------------------------------------------------- */

TEST(an_empty_wheel_has_nothing_to_wait_for) {
    start(12345);
    CHECK(aw__wheel_next(&wheel, false) == AW_FOREVER);
    CHECK(aw__wheel_next(&wheel, true) == AW_FOREVER);
    advance(AW_FOREVER);
    CHECK(aw__wheel_next(&wheel, false) == AW_FOREVER);
}

TEST(each_level_holds_fires_and_releases_at_its_edges) {
    for (int level = 0; level < AW__LEVELS; level++) {
        uint64_t span = SPAN(level);
        /* The top level has four slots; then time ends. */
        uint64_t last = (level < 8 ? 63 : 3) * span;
        const uint64_t edges[] = {span - 1, span, span + 1, 2 * span - 1, 2 * span, last};
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
            start(0);
            insert(&timers[0], edges[i]);
            check_next(true);
            advance(edges[i] - 1);
            CHECK_EQ(count, 1);
            advance(edges[i]);
            CHECK_EQ(count, 0);
        }
    }
}

TEST(the_top_level_holds_the_end_of_time) {
    start(AW_SEC(1));
    insert(&timers[0], UINT64_MAX);
    insert(&timers[1], UINT64_MAX - 1);
    check_next(false);
    check_next(true);
    advance(UINT64_MAX - 2);
    CHECK_EQ(count, 2);
    advance(UINT64_MAX - 1);
    CHECK_EQ(count, 1);
    advance(UINT64_MAX);
    CHECK_EQ(count, 0);
}

TEST(a_past_deadline_fires_at_the_next_advance_to_the_same_time) {
    start(YEAR);
    insert(&timers[0], 0);
    insert(&timers[1], YEAR);
    insert(&timers[2], YEAR - 1);
    check_next(true);
    advance(YEAR);
    CHECK_EQ(count, 0);
}

TEST(timers_within_one_tick_fire_by_deadline_then_by_insertion) {
    start(0);
    for (unsigned i = 0; i < 100; i++)
        insert(&timers[i], 10 * TICK + (i * 37) % 50); /* each deadline twice, unsorted */
    advance(10 * TICK + 20);
    CHECK_GT(count, 0);
    advance(11 * TICK);
    CHECK_EQ(count, 0);
}

TEST(equal_deadlines_keep_their_order_through_every_level) {
    /* The same deadline, inserted once on each level as it comes nearer. */
    uint64_t when = SPAN(8) + SPAN(7) + SPAN(6) + SPAN(5) + SPAN(4) + SPAN(3) + SPAN(2) + SPAN(1);
    start(0);
    for (int level = 8; level >= 0; level--) {
        insert(&timers[2 * level], when);
        insert(&timers[2 * level + 1], when);
        advance(level ? when - SPAN(level) + 1 : when);
    }
    CHECK_EQ(count, 0);
}

TEST(asking_for_the_next_deadline_changes_nothing) {
    start(0);
    insert(&timers[0], YEAR);
    check_next(true); /* a clock that would jump there asks, and then does not */
    insert(&timers[1], AW_SEC(1));
    check_next(true);
    check_next(false);
    advance(AW_SEC(1));
    CHECK_EQ(count, 1);
    insert(&timers[2], UINT64_MAX);
    advance(YEAR);
    check_next(true);
    insert(&timers[3], YEAR + 1);
    advance(YEAR + 1);
    CHECK_EQ(count, 1);
}

/* Wakes at what aw__wheel_next returns until the timer has fired. Returns the number of wakes. */
static int wakes_until_fired(uint64_t when) {
    int wakes = 0;
    insert(&timers[0], when);
    for (; count; wakes++)
        advance(aw__wheel_next(&wheel, false));
    CHECK(now == when);
    return wakes;
}

TEST(a_far_timer_costs_one_wake_a_level) {
    const uint64_t far[] = {1, TICK, AW_MSEC(1), AW_SEC(1), YEAR, 100 * YEAR, UINT64_MAX};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        start(0);
        CHECK_LE(wakes_until_fired(far[i]), AW__LEVELS);
    }
}

/* A wheel that walked over the ticks would need minutes for this. */
TEST(empty_time_is_skipped_not_walked) {
    start(0);
    for (int i = 0; i < 400; i++) {
        insert(&timers[0], now + YEAR);
        advance(now + YEAR);
        CHECK_EQ(count, 0);
    }
}

TEST(a_tick_full_of_timers_is_not_quadratic) {
    enum { MANY = 200000 };
    static struct timer many[MANY];
    start(0);
    /* In the worst order, and fired in small steps. Without the model, which would be too slow. */
    for (unsigned i = 0; i < MANY; i++) {
        many[i].sleep = aw_sleep_until(4 * TICK + TICK - 1 - i % TICK);
        many[i].sleep.waker = aw_noop_waker();
        many[i].sleep.future.state = AW__SLEEP_LINKED;
        aw__wheel_insert(&wheel, &many[i].sleep);
    }
    for (uint64_t at = 4 * TICK; wheel.count; at += 16)
        aw__wheel_advance(&wheel, at);
}

/* ---- Random ---------------------------------------------------------------------------------- */

/* A deadline of any magnitude from now: often at the edge of a slot, sometimes in the past. */
static uint64_t any_deadline(uint64_t *seed) {
    uint64_t r = test_random(seed), far = test_random(seed) >> (r % 64);
    unsigned level = (unsigned)(r >> 8) % AW__LEVELS;
    uint64_t edge = (now / SPAN(level) + 1) * SPAN(level);
    switch (r >> 16 & 7) {
    case 0: return edge < now ? UINT64_MAX : edge - 1 + (r >> 24) % 3;
    case 1: return now - (far < now ? far : now);
    case 2: return now + far % TICK < now ? now : now + far % TICK;
    default: return now + far < now ? UINT64_MAX : now + far;
    }
}

static void random_run(uint64_t *seed, int steps, uint64_t max_step) {
    start(test_random(seed) >> 20); /* within the first hours */
    memset(timers, 0, sizeof timers);
    for (int i = 0; i < steps; i++) {
        uint64_t r = test_random(seed);
        struct timer *t = &timers[(r >> 8) % MAX_TIMERS];
        switch (r & 7) {
        case 0:
        case 1:
        case 2:
        case 3:
            if (t->in_wheel) take_out(t);
            insert(t, any_deadline(seed));
            break;
        case 4:
            if (t->in_wheel) take_out(t);
            break;
        case 5: check_next(r >> 32 & 1); break;
        case 6: /* to the next deadline, or just before it */
            if (count && sorted[0]->when > now && sorted[0]->when - now < max_step)
                advance(sorted[0]->when - (r >> 32 & 1));
            break;
        case 7: {
            uint64_t step = test_random(seed) >> (r >> 32) % 64;
            if (step <= max_step) advance(now + step);
            break;
        }
        }
    }
    while (count) {
        check_next(true);
        advance(sorted[0]->when < now ? now : sorted[0]->when);
    }
}

TEST(the_wheel_agrees_with_a_sorted_array) {
    uint64_t seed = test_seed();
    for (int round = 0; round < test_scale(100); round++) {
        /* Nearby times in small steps, and all times in large ones. */
        random_run(&seed, 2000, AW_MSEC(1));
        random_run(&seed, 2000, AW_SEC(100));
        random_run(&seed, 2000, 1ULL << 57); /* so that time does not end within a run */
    }
}
