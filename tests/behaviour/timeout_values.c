/* SPDX-License-Identifier: MIT
 *
 * Timeouts: what counts, the value or the clock. Cancellation is in cancel_*.c. */
#include <errno.h>

#include "support/composites.h"

static aw_runtime *rt;

/* Its clock stands still until it is moved or every task is idle. */
static void new_runtime(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.paused = true;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
}

/* Waits for a leaf with a limit, and records the outcome. */
struct outcome {
    int out, inner;
    uint64_t took;
};
AW_ASYNC(int, attempt, uint64_t limit; bool at; struct script * s; struct outcome * o;
         uint64_t begin; leaf_timeout t;) {
    AW_BEGIN;
    self->begin = aw_now(NULL);
    if (self->at)
        AW_AWAIT_BY(self->t, self->limit, leaf(self->s));
    else
        AW_AWAIT_FOR(self->t, self->limit, leaf(self->s));
    *self->o = (struct outcome){self->t.out, self->t.inner.out, aw_now(NULL) - self->begin};
    if (self->t.out == 0) ownership_release(self->t.inner.out);
    AW_RETURN(0);
    AW_END;
}

static struct outcome try_for(uint64_t limit, struct script *s) {
    struct outcome o = {1, 0, 0};
    CHECK_EQ(aw_block_on(rt, AW_CALL(attempt, .limit = limit, .s = s, .o = &o)), 0);
    ownership_check_balanced();
    return o;
}
static struct outcome try_until(uint64_t deadline, struct script *s) {
    struct outcome o = {1, 0, 0};
    CHECK_EQ(aw_block_on(rt, AW_CALL(attempt, .limit = deadline, .at = true, .s = s, .o = &o)), 0);
    ownership_check_balanced();
    return o;
}

TEST(a_value_that_is_there_counts_whatever_the_time) {
    new_runtime();
    static const uint64_t limits[] = {0, 1, AW_SEC(1), AW_FOREVER};
    for (int i = 0; i < 4; i++) {
        struct script now = {.pends = 0};
        CHECK_EQ(try_for(limits[i], &now).out, 0);
        struct script then = {.pends = 0};
        CHECK_EQ(try_until(limits[i], &then).out, 0); /* long past, and far in the future */
    }
    aw_runtime_free(rt);
}

TEST(a_future_that_is_not_ready_in_time_is_given_up_at_the_deadline) {
    new_runtime();
    struct script s = {.pends = NEVER};
    struct outcome o = try_for(AW_MSEC(250), &s);
    CHECK_EQ(o.out, -ETIMEDOUT);
    CHECK_EQ(o.took, AW_MSEC(250));
    CHECK_EQ(s.polls, 2); /* at the start, and at the deadline */
    CHECK_EQ(s.cancels, 1);
    CHECK_EQ(s.cancelled, 1);
    aw_runtime_free(rt);
}

TEST(a_deadline_that_has_passed_gives_up_after_one_poll) {
    new_runtime();
    struct script s = {.pends = NEVER};
    struct outcome o = try_until(1, &s);
    CHECK_EQ(o.out, -ETIMEDOUT);
    CHECK_EQ(o.took, 0);
    CHECK_EQ(s.polls, 1);
    struct script none = {.pends = NEVER};
    CHECK_EQ(try_for(0, &none).out, -ETIMEDOUT);
    aw_runtime_free(rt);
}

TEST(a_value_that_comes_while_giving_up_counts) {
    new_runtime();
    struct script s = {.pends = NEVER, .cancel_pends = 3, .wins = true, .busy = true};
    struct outcome o = try_for(0, &s);
    CHECK_EQ(o.out, 0);
    CHECK_EQ(o.inner, s.out);
    CHECK_EQ(s.cancels, 4);
    aw_runtime_free(rt);
}

/* The sleep and the timer fire together: the value is polled first. */
typedef AW_TIMEOUT(aw_sleep) sleep_timeout;
AW_ASYNC(int, sleep_within, uint64_t nap, limit; sleep_timeout t;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->t, self->limit, aw_sleep_for(self->nap));
    AW_RETURN(self->t.out);
    AW_END;
}

TEST(a_value_that_comes_at_the_deadline_counts) {
    new_runtime();
    CHECK_EQ(aw_block_on(rt, AW_CALL(sleep_within, .nap = AW_SEC(1), .limit = AW_SEC(1))), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(sleep_within, .nap = AW_SEC(1), .limit = AW_SEC(2))), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(sleep_within, .nap = AW_SEC(1) + 1, .limit = AW_SEC(1))),
             -ETIMEDOUT);
    aw_runtime_free(rt);
}

TEST(the_time_begins_with_the_first_poll) {
    new_runtime();
    leaf_timeout t;
    struct script s = {.pends = NEVER};
    t = AW_TIMEOUT_OF(leaf_timeout, AW_SEC(1), leaf(&s));
    CHECK_EQ(aw_clock_advance(rt, AW_SEC(60)), 0);
    uint64_t begin = aw_now(rt);
    CHECK_EQ(aw_block_on_future(rt, &t.future), 0);
    CHECK_EQ(t.out, -ETIMEDOUT);
    CHECK_EQ(aw_now(rt) - begin, AW_SEC(1));
    aw_runtime_free(rt);
    ownership_check_balanced();
}

static char said[256];
static void remember(void *data, aw_log_level level, const char *message) {
    (void)data;
    (void)level;
    snprintf(said, sizeof said, "%s", message);
}

TEST(without_a_clock_a_timeout_says_so_and_cancels) {
    aw_set_log(remember, NULL);
    struct script ready = {.pends = 0}, s = {.pends = NEVER};
    leaf_timeout t = AW_TIMEOUT_OF(leaf_timeout, AW_SEC(1), leaf(&ready));
    CHECK_EQ(drive_poll(&t.future), AW_READY);
    CHECK_EQ(t.out, 0);
    CHECK_STR(said, "");
    script_take(&ready);
    t = AW_TIMEOUT_OF(leaf_timeout, AW_SEC(1), leaf(&s));
    CHECK_EQ(drive_poll(&t.future), AW_READY);
    CHECK_EQ(t.out, -ENXIO);
    CHECK_CONTAINS(said, "outside a runtime");
    CHECK_EQ(s.cancelled, 1);
    ownership_check_balanced();
}

/* ---- Futures that never stop ----------------------------------------------------------------- */

/* A clock that advances by a microsecond at each reading. */
static uint64_t ticking;
static uint64_t tick_now(void *data) {
    (void)data;
    return ticking += 1000;
}

static void new_ticking_runtime(void) {
    aw_seam seam = {.self_size = sizeof(aw_seam), .now = tick_now};
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.seam = &seam;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
}

/* Always finds the next operation ready, and so never returns by itself. */
AW_ASYNC(int, insatiable, long *rounds; aw_sleep s; aw_notify n; aw_notified w;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->s, aw_sleep_for(0));
        aw_notify_one(&self->n);
        AW_AWAIT(self->w, aw_notify_wait(&self->n));
        ++*self->rounds;
    }
    AW_END;
}

typedef AW_TIMEOUT(struct insatiable) insatiable_timeout;
typedef AW_TIMEOUT(insatiable_timeout) nested_timeout;
typedef AW_JOIN(struct insatiable, insatiable_timeout) insatiable_join;
typedef AW_TIMEOUT(insatiable_join) join_timeout;

TEST(an_always_ready_loop_cannot_outrun_its_timeout) {
    new_ticking_runtime();
    long rounds = 0;
    insatiable_timeout t = AW_TIMEOUT_OF(insatiable_timeout, AW_MSEC(10),
                                         AW_CALL(insatiable, .rounds = &rounds));
    CHECK_EQ(aw_block_on_future(rt, &t.future), 0);
    CHECK_EQ(t.out, -ETIMEDOUT);
    CHECK_GT(rounds, 64); /* it was polled more than once */
    aw_runtime_free(rt);
}

TEST(an_always_ready_loop_cannot_outrun_an_outer_timeout) {
    new_ticking_runtime();
    long rounds = 0;
    insatiable_timeout inner = AW_TIMEOUT_OF(insatiable_timeout, AW_SEC(1000),
                                             AW_CALL(insatiable, .rounds = &rounds));
    nested_timeout t = AW_TIMEOUT_OF(nested_timeout, AW_MSEC(10), inner);
    CHECK_EQ(aw_block_on_future(rt, &t.future), 0);
    CHECK_EQ(t.out, -ETIMEDOUT);
    aw_runtime_free(rt);
}

TEST(an_always_ready_loop_does_not_keep_a_sibling_from_its_timeout) {
    new_ticking_runtime();
    long rounds[2] = {0, 0};
    insatiable_join j = AW_JOIN_OF(
        insatiable_join, AW_CALL(insatiable, .rounds = &rounds[0]),
        AW_TIMEOUT_OF(insatiable_timeout, AW_MSEC(10), AW_CALL(insatiable, .rounds = &rounds[1])));
    join_timeout t = AW_TIMEOUT_OF(join_timeout, AW_MSEC(50), j);
    CHECK_EQ(aw_block_on_future(rt, &t.future), 0);
    CHECK_EQ(t.out, -ETIMEDOUT);
    CHECK_EQ(t.inner.f1.out, -ETIMEDOUT);
    CHECK(aw_future_finished(&t.inner.f1.future));
    CHECK_GT(rounds[0], rounds[1]);
    aw_runtime_free(rt);
}

/* More values than one poll has budget for, all of them ready. */
typedef AW_CHANNEL(int) ints;
typedef AW_TIMEOUT(aw_channel_future) recv_timeout;
AW_ASYNC(int, take_all, ints *c; bool by; int left, value; recv_timeout t;) {
    AW_BEGIN;
    for (; self->left; self->left--) {
        if (self->by)
            AW_AWAIT_BY(self->t, 1, aw_channel_recv(self->c, &self->value));
        else
            AW_AWAIT_FOR(self->t, 0, aw_channel_recv(self->c, &self->value));
        if (self->t.out) break;
        CHECK_EQ(self->t.inner.out, 0);
    }
    AW_RETURN(self->left);
    AW_END;
}

static void send_some(ints *c, int count) {
    for (int i = 0; i < count; i++)
        CHECK_EQ(aw_channel_try_send(c, &i), 0);
}

TEST(a_value_that_is_there_counts_when_the_budget_is_used_up) {
    enum { N = 1000 };
    new_runtime();
    ints c;
    CHECK_EQ(aw_channel_init(&c, AW_UNBOUNDED), 0);
    for (int by = 0; by < 2; by++) {
        send_some(&c, N);
        CHECK_EQ(aw_block_on(rt, AW_CALL(take_all, .c = &c, .by = by, .left = N)), 0);
        CHECK_EQ(aw_block_on(rt, AW_CALL(take_all, .c = &c, .by = by, .left = 1)), 1);
    }
    aw_channel_free(&c);
    aw_runtime_free(rt);
}

typedef AW_SELECT(struct insatiable, recv_timeout) recv_and_loop;

TEST(a_value_that_is_there_counts_next_to_an_always_ready_loop) {
    new_ticking_runtime();
    ints c;
    long rounds = 0;
    int value = -1;
    CHECK_EQ(aw_channel_init(&c, AW_UNBOUNDED), 0);
    send_some(&c, 1);
    recv_and_loop s = AW_SELECT_OF(recv_and_loop, AW_CALL(insatiable, .rounds = &rounds),
                                   AW_TIMEOUT_OF(recv_timeout, 0, aw_channel_recv(&c, &value)));
    CHECK_EQ(aw_block_on_future(rt, &s.future), 0);
    CHECK_EQ(s.f1.out, 0);
    CHECK_EQ(value, 0);
    aw_channel_free(&c);
    aw_runtime_free(rt);
}

/* A yield lets other tasks run: it never ends in the poll in which it began, whatever the time. */
typedef AW_TIMEOUT(aw_yield) yield_timeout;
TEST(a_yield_is_not_a_value_that_is_there) {
    new_runtime();
    CHECK_EQ(aw_block_on(rt, AW_TIMEOUT_OF(yield_timeout, 0, aw_yield_now())), -ETIMEDOUT);
    aw_runtime_free(rt);
}

/* ---- Many ------------------------------------------------------------------------------------ */

AW_ASYNC(int, staggered, int n; sleep_timeout t;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->t, AW_MSEC(50), aw_sleep_for(AW_MSEC(self->n)));
    AW_RETURN(self->t.out);
    AW_END;
}

TEST(each_of_many_timeouts_has_its_own_end) {
    enum { N = 100 };
    static struct staggered jobs[N];
    new_runtime();
    for (int i = 0; i < N; i++)
        jobs[i] = AW_CALL(staggered, .n = i);
    aw_all all = aw_join_all(jobs, N);
    uint64_t begin = aw_now(rt);
    CHECK_EQ(aw_block_on_future(rt, &all.future), 0);
    for (int i = 0; i < N; i++)
        CHECK_EQ(jobs[i].out, i <= 50 ? 0 : -ETIMEDOUT);
    CHECK_EQ(aw_now(rt) - begin, AW_MSEC(50));
    aw_runtime_free(rt);
}
