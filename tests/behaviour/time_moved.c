/* SPDX-License-Identifier: MIT
 *
 * Sleeps that are polled in one runtime and then in another: they move there, with the remaining
 * time. The clocks are virtual and far apart, so copying the deadline unchanged would be
 * noticed. */
#include "support/by_hand.h"
#include "support/workers.h"

enum { FLAVOURS = 3 };
static const aw_flavour flavours[FLAVOURS] = {AW_CURRENT_THREAD, AW_MULTI_THREAD,
                                              AW_THREAD_PER_CORE};

static aw_flag flag, other; /* may be raised late */

typedef struct pair {
    aw_runtime *a, *b;
    memory ma, mb;
} pair;

static void log_info(void *data, aw_log_level level, const char *message) {
    (void)data;
    if (level != AW_LOG_INFO) FAIL("%s", message);
}

static aw_runtime *make(aw_flavour flavour, memory *m, uint64_t ahead) {
    aw_runtime_options o = workers_options(2, m, NULL);
    aw_runtime *rt;
    memory_init(m);
    o.flavour = flavour;
    o.paused = true;
    o.log = log_info;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_clock_advance(rt, ahead), 0);
    return rt;
}

static void pair_begin(pair *p, aw_flavour a, aw_flavour b, uint64_t a_ahead, uint64_t b_ahead) {
    p->a = make(a, &p->ma, a_ahead);
    p->b = make(b, &p->mb, b_ahead);
    aw_flag_take(&flag);
    aw_flag_take(&other);
}

static void pair_end(pair *p) {
    if (p->a) aw_runtime_free(p->a);
    aw_runtime_free(p->b);
    CHECK_EQ(memory_in_use(&p->ma), 0);
    CHECK_EQ(memory_in_use(&p->mb), 0);
}

/* Each test for all pairs of flavours, with the clock of the first runtime ahead, and with that
 * of the second. */
#define ON_PAIRS(name)                                                                             \
    static void name##_pair(pair *p);                                                              \
    ON_FLAVOURS(name) {                                                                            \
        for (int i = 0; i < FLAVOURS * 2; i++) {                                                   \
            pair p;                                                                                \
            pair_begin(&p, flavour, flavours[i / 2], AW_SEC(i % 2 ? 5000 : 0),                     \
                       AW_SEC(i % 2 ? 0 : 5000));                                                  \
            name##_pair(&p);                                                                       \
            pair_end(&p);                                                                          \
        }                                                                                          \
    }                                                                                              \
    static void name##_pair(pair *p)

/* Lets the sleep wait in a runtime for `d`; then it is still pending. */
typedef struct glance {
    aw_future *waits;
    aw_sleep nap;
} glance;
static aw_poll glance_poll(void *arg, aw_cx *cx, int *out) {
    glance *g = arg;
    *out = 0;
    CHECK_EQ(aw_future_poll(g->waits, cx), AW_PENDING);
    return aw_future_poll(&g->nap.future, cx);
}
static void wait_a_while(aw_runtime *rt, aw_future *f, uint64_t d) {
    glance g = {f, aw_sleep_for(d)};
    CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(glance_poll, &g)), 0);
}

/* It ends there, `d` later. */
static void check_ends_after(aw_runtime *rt, aw_sleep *s, uint64_t d) {
    uint64_t start = aw_now(rt);
    CHECK_EQ(aw_block_on_future(rt, &s->future), 0);
    CHECK_EQ(s->out, 0);
    CHECK_EQ(aw_now(rt) - start, d);
}

ON_PAIRS(a_sleep_goes_on_in_the_runtime_that_polls_it_with_the_remaining_time) {
    aw_sleep s = aw_sleep_for(AW_SEC(10));
    wait_a_while(p->a, &s.future, AW_SEC(3));
    check_ends_after(p->b, &s, AW_SEC(7));
}

ON_PAIRS(a_sleep_can_go_to_and_fro) {
    aw_sleep s = aw_sleep_until(aw_now(p->a) + AW_SEC(10));
    wait_a_while(p->a, &s.future, AW_SEC(3));
    wait_a_while(p->b, &s.future, AW_SEC(1));
    wait_a_while(p->a, &s.future, AW_SEC(2));
    check_ends_after(p->b, &s, AW_SEC(4));
}

ON_PAIRS(a_sleep_that_has_fired_in_one_runtime_is_over_in_the_other) {
    aw_sleep s = aw_sleep_for(AW_SEC(10)), longer = aw_sleep_for(AW_SEC(20));
    aw_runtime *before = aw_enter(p->a);
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    aw_leave(before);
    CHECK_EQ(aw_block_on_future(p->a, &longer.future), 0);
    WAIT_UNTIL(aw_flag_take(&flag));
    check_ends_after(p->b, &s, 0);
}

ON_PAIRS(a_sleep_for_ever_stays_one) {
    aw_sleep s = aw_sleep_until(AW_FOREVER);
    wait_a_while(p->a, &s.future, AW_SEC(3));
    wait_a_while(p->b, &s.future, AW_SEC(3));
    CHECK(s.when == AW_FOREVER);
    CHECK_EQ(CANCEL(&s, &flag), AW_CANCELLED);
}

/* First a plain thread, then a task of another runtime. */
AW_ASYNC(int, ends_it, aw_sleep *sleep; aw_group both; uint64_t start;) {
    AW_BEGIN;
    self->start = aw_now(NULL);
    AW_AWAIT(self->both, aw_select_refs(self->sleep));
    CHECK_EQ(self->sleep->out, 0);
    AW_RETURN((int)((aw_now(NULL) - self->start) / AW_SEC(1)));
    AW_END;
}

ON_PAIRS(a_sleep_of_a_plain_thread_goes_on_in_a_task) {
    aw_sleep s = aw_sleep_for(AW_SEC(10));
    aw_runtime *before = aw_enter(p->a);
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    aw_leave(before);
    CHECK_EQ(POLL(&s, &flag), AW_PENDING); /* without a runtime it stays where it is */
    CHECK_EQ(aw_block_on(p->a, aw_sleep_for(AW_SEC(4))), 0);
    CHECK_EQ(RUN(p->b, AW_CALL(ends_it, .sleep = &s)), 6);
    CHECK(!aw_flag_take(&flag));
}

ON_PAIRS(a_sleep_survives_the_runtime_in_which_it_was_polled_first) {
    aw_sleep s = aw_sleep_for(AW_SEC(10));
    wait_a_while(p->a, &s.future, AW_SEC(3));
    aw_runtime_free(p->a);
    p->a = NULL;
    check_ends_after(p->b, &s, AW_SEC(7));
}

/* It has not finished: here it would go on. */
ON_PAIRS(a_cancel_in_another_runtime_finds_a_sleep_that_goes_on) {
    aw_sleep s = aw_sleep_for(AW_SEC(10));
    wait_a_while(p->a, &s.future, AW_SEC(3));
    aw_runtime_free(p->a);
    p->a = NULL;
    aw_runtime *before = aw_enter(p->b);
    CHECK_EQ(CANCEL(&s, &flag), AW_CANCELLED);
    aw_leave(before);
}

ON_PAIRS(a_reset_in_another_runtime_is_by_the_clock_of_that_one) {
    aw_sleep s = aw_sleep_for(AW_SEC(10));
    aw_runtime *before = aw_enter(p->a);
    CHECK_EQ(POLL(&s, &flag), AW_PENDING);
    aw_leave(before);
    before = aw_enter(p->b);
    aw_sleep_reset(&s, aw_now(p->b) + AW_SEC(2));
    CHECK(aw_flag_take(&flag)); /* the task that polled it there has to poll it again */
    aw_leave(before);
    check_ends_after(p->b, &s, AW_SEC(2));
}

ON_PAIRS(a_tick_and_what_follows_it_are_by_the_clock_in_which_it_comes) {
    aw_interval i;
    CHECK_EQ(aw_interval_from(&i, aw_now(p->a) + AW_SEC(10), AW_SEC(10), AW_BURST), 0);
    aw_tick t = aw_interval_tick(&i);
    wait_a_while(p->a, &t.future, AW_SEC(3));
    uint64_t start = aw_now(p->b);
    CHECK_EQ(aw_block_on_future(p->b, &t.future), 0);
    CHECK_EQ(aw_now(p->b) - start, AW_SEC(7));
    CHECK_EQ(t.at - start, AW_SEC(7));
    CHECK_EQ(i.next - start, AW_SEC(17));
}

typedef AW_TIMEOUT(aw_never) never_timeout;

ON_PAIRS(a_timeout_goes_on_in_the_runtime_that_polls_it) {
    never_timeout t = AW_TIMEOUT_OF(never_timeout, AW_SEC(10), aw_never_ready());
    wait_a_while(p->a, &t.future, AW_SEC(3));
    uint64_t start = aw_now(p->b);
    CHECK_EQ(aw_block_on_future(p->b, &t.future), 0);
    CHECK_EQ(t.out, -ETIMEDOUT);
    CHECK_EQ(aw_now(p->b) - start, AW_SEC(7));
}

/* On the same clock the deadline stays the same, even if the first runtime is freed meanwhile. */
TEST(on_the_real_clock_a_sleep_that_moves_is_neither_early_nor_restarted) {
    for (int freed = 0; freed < 2; freed++) {
        aw_runtime *a = runtime_new(NULL, NULL, NULL, false);
        uint64_t due = test_now_ns() + AW_MSEC(200);
        aw_sleep s = aw_sleep_until(due);
        aw_runtime *before = aw_enter(a);
        CHECK_EQ(POLL(&s, &flag), AW_PENDING);
        aw_leave(before);
        if (freed) aw_runtime_free(a);
        while (test_now_ns() < due)
            sched_yield();
        aw_runtime *b = runtime_new(NULL, NULL, NULL, true); /* with a paused clock */
        CHECK_EQ(aw_block_on_future(b, &s.future), 0);
        CHECK_EQ(s.out, 0);
        aw_runtime_free(b);
        if (!freed) aw_runtime_free(a);
    }
}
