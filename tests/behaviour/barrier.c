/* SPDX-License-Identifier: MIT
 *
 * Barrier: the waiters of a round are released together and one of them leads. The barrier is
 * reusable. A cancelled wait does not count as an arrival. */
#include "support/by_hand.h"
#include "support/workers.h"

enum { CROWD = 30 }; /* more than one wake batch */

static bool is_new(const aw_barrier *b) {
    return b->arrived == 0 && !b->waiters.first && !b->waiters.last && !b->lock;
}

TEST(all_go_on_when_the_last_one_has_come_and_it_leads) {
    static aw_barrier_wait_future w[CROWD];
    static aw_flag flags[CROWD];
    aw_barrier b = AW_BARRIER_INIT(CROWD);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CROWD; i++) {
            w[i] = aw_barrier_wait(&b);
            CHECK_EQ(POLL(&w[i], &flags[i]), i < CROWD - 1 ? AW_PENDING : AW_READY);
            if (i < CROWD - 1) CHECK(!aw_flag_take(&flags[0]));
        }
        CHECK_EQ(w[CROWD - 1].out, 1);
        for (int i = 0; i < CROWD - 1; i++) {
            CHECK(aw_flag_take(&flags[i]));
            CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
            CHECK_EQ(w[i].out, 0);
        }
        CHECK(is_new(&b));
    }
}

TEST(alone_one_leads_at_once) {
    for (uint32_t count = 0; count < 2; count++) {
        aw_barrier b = aw_barrier_of(count);
        aw_flag flag = {0};
        aw_barrier_wait_future w = aw_barrier_wait(&b);
        CHECK_EQ(POLL(&w, &flag), AW_READY);
        CHECK_EQ(w.out, 1);
        CHECK(is_new(&b));
    }
}

TEST(a_waiter_for_the_next_round_waits_for_it) {
    aw_barrier b = AW_BARRIER_INIT(2);
    aw_flag a = {0}, other = {0};
    aw_barrier_wait_future first = aw_barrier_wait(&b), last = aw_barrier_wait(&b),
                           next = aw_barrier_wait(&b);
    CHECK_EQ(POLL(&first, &a), AW_PENDING);
    CHECK_EQ(POLL(&last, &other), AW_READY);
    /* Before the first waiter of the last round is polled. */
    CHECK_EQ(POLL(&next, &other), AW_PENDING);
    CHECK_EQ(POLL(&first, &a), AW_READY);
    CHECK_EQ(first.out, 0);
    CHECK_EQ(CANCEL(&next, &other), AW_CANCELLED);
    CHECK(is_new(&b));
}

/* cancel-at-every-await: aw_barrier_wait */

TEST(a_cancelled_waiter_has_not_arrived) {
    aw_barrier b = AW_BARRIER_INIT(2);
    aw_flag flag = {0}, other = {0};
    aw_barrier_wait_future never_polled = aw_barrier_wait(&b), pending = aw_barrier_wait(&b),
                           passed = aw_barrier_wait(&b), last = aw_barrier_wait(&b);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    DIES(CANCEL(&pending, &other), "cancelled after it had been cancelled");
    CHECK(is_new(&b));
    CHECK_EQ(POLL(&passed, &flag), AW_PENDING); /* again the first of two */
    CHECK_EQ(POLL(&passed, &other), AW_PENDING);
    CHECK_EQ(POLL(&last, &flag), AW_READY);
    CHECK_EQ(last.out, 1);
    CHECK(aw_flag_take(&other) && !aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&passed, &flag), AW_READY); /* the round was complete before the cancel */
    CHECK_EQ(passed.out, 0);
    CHECK(is_new(&b));
}

/* While the leader wakes the waiters, the first waker cancels a wait that has passed and starts
 * a new one. */
static struct {
    aw_barrier b;
    aw_barrier_wait_future w[CROWD], again;
    aw_flag flag;
    int woken;
} meeting;

static aw_waker meeting_waker(void *data);
static void meeting_nothing(void *data) {
    (void)data;
}
static void meeting_wake(void *data) {
    (void)data;
    if (meeting.woken++) return;
    CHECK_EQ(CANCEL(&meeting.w[CROWD - 2], &meeting.flag), AW_READY);
    CHECK_EQ(meeting.w[CROWD - 2].out, 0);
    meeting.again = aw_barrier_wait(&meeting.b);
    CHECK_EQ(POLL(&meeting.again, &meeting.flag), AW_PENDING);
}
static const aw_waker_type meeting_type = {
    .self_size = sizeof(aw_waker_type),
    .name = "meeting",
    .clone = meeting_waker,
    .wake = meeting_wake,
    .wake_by_ref = meeting_wake,
    .drop = meeting_nothing,
};
static aw_waker meeting_waker(void *data) {
    return (aw_waker){&meeting_type, data};
}

TEST(waiters_of_a_complete_round_have_passed_before_they_are_woken) {
    aw_waker waker = meeting_waker(NULL);
    aw_cx cx = aw_cx_from_waker(&waker);
    meeting.b = aw_barrier_of(CROWD);
    for (int i = 0; i < CROWD; i++) {
        meeting.w[i] = aw_barrier_wait(&meeting.b);
        CHECK_EQ(aw_future_poll(&meeting.w[i].future, &cx), i < CROWD - 1 ? AW_PENDING : AW_READY);
    }
    CHECK_EQ(meeting.woken, CROWD - 2);
    for (int i = 0; i < CROWD - 2; i++)
        CHECK_EQ(aw_future_poll(&meeting.w[i].future, &cx), AW_READY);
    CHECK_EQ(meeting.b.arrived, 1);
    CHECK_EQ(CANCEL(&meeting.again, &meeting.flag), AW_CANCELLED);
    CHECK(is_new(&meeting.b));
}

/* ---- Tasks and threads ------------------------------------------------------------------------ */

typedef struct race {
    aw_barrier b;
    uint32_t arrivals, leaders; /* atomic */
} race;

AW_ASYNC(int, laps, race *r; uint32_t i; uint32_t laps; aw_barrier_wait_future wait;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->laps; self->i++) {
        ADD(self->r->arrivals, 1);
        AW_AWAIT(self->wait, aw_barrier_wait(&self->r->b));
        CHECK_GE(LOAD(self->r->arrivals), (self->i + 1) * self->r->b.count);
        if (self->wait.out) ADD(self->r->leaders, 1);
        AW_AWAIT(self->wait, aw_barrier_wait(&self->r->b)); /* keeps all within one lap */
        if (self->wait.out) ADD(self->r->leaders, 1);
    }
    AW_RETURN(0);
    AW_END;
}

static void thread_laps(void *arg, int index, uint64_t *random) {
    race *r = arg;
    (void)index, (void)random;
    for (uint32_t i = 0; i < 50; i++) {
        ADD(r->arrivals, 1);
        int leads = aw_wait(aw_barrier_wait(&r->b));
        CHECK_GE(LOAD(r->arrivals), (i + 1) * r->b.count);
        ADD(r->leaders, leads);
        /* A wait that times out and is repeated counts as one arrival. */
        while ((leads = aw_wait_for(AW_USEC(10), aw_barrier_wait(&r->b))) == -ETIMEDOUT)
            ;
        ADD(r->leaders, leads);
    }
}

ON_BOTH(no_task_is_a_lap_ahead_and_each_round_has_one_leader) {
    enum { TASKS = 6, THREADS = 3, LAPS = 50 };
    uint64_t random = test_seed();
    race r = {.b = AW_BARRIER_INIT(TASKS + THREADS)};
    struct laps *h[TASKS];
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    thread_group threads;
    thread_group_create(&threads, THREADS, &random, thread_laps, &r);
    thread_group_go(&threads);
    for (int i = 0; i < TASKS; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(laps, .r = &r, .laps = LAPS));
    for (int i = 0; i < TASKS; i++) {
        must_finish(rt, &h[i]->future);
        aw_task_drop(h[i]);
    }
    thread_group_join(&threads);
    CHECK_EQ(r.leaders, 2 * LAPS);
    CHECK(is_new(&r.b));
    workers_end(rt, NULL);
}

TEST(try_wait_arrives_only_if_it_completes_the_round) {
    aw_barrier b = AW_BARRIER_INIT(2), alone = AW_BARRIER_INIT(1);
    aw_flag flag = {0};
    CHECK_EQ(aw_barrier_try_wait(&alone), 1);
    CHECK_EQ(aw_barrier_try_wait(&b), -EAGAIN);
    CHECK_EQ(aw_barrier_try_wait(&b), -EAGAIN);
    aw_barrier_wait_future f = aw_barrier_wait(&b);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(aw_barrier_try_wait(&b), 1);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    CHECK_EQ(aw_barrier_try_wait(&b), -EAGAIN);
}
