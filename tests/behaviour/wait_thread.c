/* SPDX-License-Identifier: MIT
 *
 * aw_wait: a plain thread waits for a future, with or without a time limit. */
#include "support/workers.h"

TEST(a_ready_future_returns_without_waiting) {
    aw_semaphore s = AW_SEMAPHORE_INIT(2);
    void *p = NULL;
    CHECK_EQ(aw_wait(aw_ready_now(7)), 7);
    CHECK_EQ(aw_wait(aw_semaphore_acquire(&s, 1)), 0);
    CHECK_EQ(aw_wait_for(0, aw_semaphore_acquire(&s, 1)),
             0); /* it is polled before the time is checked */
    CHECK_EQ(aw_wait_into(&p, aw_ready_pointer(&s)), 0);
    CHECK(p == &s);
}

TEST(what_is_given_up_is_cancelled) {
    aw_semaphore s = AW_SEMAPHORE_INIT(0);
    uint64_t start = test_now_ns();
    CHECK_EQ(aw_wait_for(0, aw_semaphore_acquire(&s, 1)), -ETIMEDOUT);
    CHECK_EQ(aw_wait_for(AW_MSEC(5), aw_semaphore_acquire(&s, 1)), -ETIMEDOUT);
    CHECK_GE(test_now_ns() - start, AW_MSEC(5));
    CHECK(s.waiters.first == NULL);
    void *p = &s;
    CHECK_EQ(aw_wait_into_for(AW_MSEC(1), &p, AW_READY_VALUE(aw_ready_ptr, NULL)), 0);
    CHECK(p == NULL);
}

static aw_poll always_woken(void *arg, aw_cx *cx, int *out) {
    ++*(int *)arg;
    *out = 0;
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

TEST(what_is_always_woken_again_does_not_outrun_its_time) {
    int polls = 0;
    CHECK_EQ(aw_wait_for(AW_MSEC(2), aw_poll_fn_of(always_woken, &polls)), -ETIMEDOUT);
    CHECK_GT(polls, 1);
}

/* A future that finishes when it is cancelled, after several calls. */
static aw_poll never(void *arg, aw_cx *cx, int *out) {
    (void)arg, (void)cx, (void)out;
    return AW_PENDING;
}
static aw_poll finishes_late(void *arg, aw_cx *cx, int *out) {
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    if (++*(int *)arg < 3) return AW_PENDING;
    *out = 5;
    return AW_READY;
}

TEST(a_future_that_finishes_while_it_is_cancelled_counts) {
    int calls = 0;
    CHECK_EQ(aw_wait_for(AW_MSEC(1), aw_poll_fn_with(never, finishes_late, &calls)), 5);
    CHECK_EQ(calls, 3);
}

TEST(the_longest_time_there_is_does_not_overflow) {
    CHECK_EQ(aw_wait_for(AW_FOREVER - 1, aw_yield_now()), 0);
    CHECK_EQ(aw_wait_for(AW_FOREVER, aw_yield_now()), 0);
}

static void releases(void *arg, int index, uint64_t *random) {
    (void)index;
    jitter(random);
    CHECK_EQ(aw_semaphore_release(arg, 1), 0);
}

TEST(a_thread_is_woken_by_another) {
    uint64_t random = test_seed();
    for (int i = 0; i < test_scale(300); i++) {
        aw_semaphore s = AW_SEMAPHORE_INIT(0);
        thread_group threads;
        thread_group_create(&threads, 2, &random, releases, &s);
        thread_group_go(&threads);
        CHECK_EQ(aw_wait(aw_semaphore_acquire(&s, 2)), 0);
        thread_group_join(&threads);
    }
}

/* The time may be up at the moment of the release: then the permit is either acquired or still
 * available. */
TEST(a_permit_is_not_lost_to_a_wait_that_is_given_up) {
    uint64_t random = test_seed();
    int had = 0;
    for (int i = 0; i < test_scale(300); i++) {
        aw_semaphore s = AW_SEMAPHORE_INIT(0);
        thread_group threads;
        thread_group_create(&threads, 1, &random, releases, &s);
        thread_group_go(&threads);
        int r = aw_wait_for(AW_USEC(test_random(&random) % 200), aw_semaphore_acquire(&s, 1));
        thread_group_join(&threads);
        CHECK(r == 0 || r == -ETIMEDOUT);
        CHECK_EQ(aw_semaphore_available(&s), r ? 1 : 0);
        had += !r;
    }
    CHECK_GT(had, 0);
}

/* ---- Inside a task it is refused ------------------------------------------------------------- */

AW_ASYNC(int, waits_wrongly, aw_semaphore *s;) {
    AW_BEGIN;
    AW_RETURN(aw_wait(aw_semaphore_acquire(self->s, 1)));
    AW_END;
}

ON_BOTH(a_wait_inside_a_task_is_refused) {
    kept_log log = KEPT_LOG;
    aw_semaphore s = AW_SEMAPHORE_INIT(1);
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    CHECK_EQ(RUN(rt, AW_CALL(waits_wrongly, .s = &s)), -EPERM);
    CHECK_EQ(log_count(&log, "a wait of 'semaphore_acquire' was refused inside"), 1);
    CHECK_EQ(aw_semaphore_available(&s), 1);
    workers_end(rt, NULL);
}

TEST(a_wait_may_use_the_entered_runtime) {
    aw_runtime *rt = workers_new(1, NULL, NULL);
    CHECK_EQ(aw_wait(aw_sleep_for(AW_MSEC(1))), -ENXIO);
    aw_runtime *before = aw_enter(rt);
    CHECK_EQ(aw_wait(aw_sleep_for(AW_MSEC(1))), 0);
    aw_leave(before);
    workers_end(rt, NULL);
}

TEST(without_memory_a_wait_is_refused) {
    memory m;
    memory_init(&m);
    m.refuse = 1;
    const aw_allocator *before = aw_get_allocator();
    aw_set_allocator(&m.allocator);
    aw_semaphore s = AW_SEMAPHORE_INIT(1);
    CHECK_EQ(aw_wait(aw_semaphore_acquire(&s, 1)), -ENOMEM);
    CHECK_EQ(aw_semaphore_available(&s), 1);
    aw_set_allocator(before);
}
