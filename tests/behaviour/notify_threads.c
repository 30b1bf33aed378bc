/* SPDX-License-Identifier: MIT
 *
 * Notify between threads and between runtimes: no notification is lost or delivered twice. */
#include "test.h"

#include <pthread.h>
#include <sched.h>

#include "support/by_hand.h"

static void nothing_to_report(void *data, aw_log_level level, const char *message) {
    (void)data;
    FAIL("level %d: %s", (int)level, message);
}

static aw_runtime *runtime_without_reports(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.keep_tasks = true;
    options.log = nothing_to_report;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    return rt;
}

static pthread_t start_thread(void *(*body)(void *), void *arg) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, body, arg), 0);
    return thread;
}

static void join_thread(pthread_t thread) {
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* ---- Plain threads --------------------------------------------------------------------------- */

static aw_notify ping = AW_NOTIFY_INIT, pong = AW_NOTIFY_INIT;
static int rounds;

AW_ASYNC(int, answer, int n; aw_notified w;) {
    AW_BEGIN;
    for (self->n = 0; self->n < rounds; self->n++) {
        AW_AWAIT(self->w, aw_notify_wait(&ping));
        aw_notify_one(&pong);
    }
    AW_RETURN(0);
    AW_END;
}

static void *answer_in_runtime(void *rt) {
    CHECK_EQ(aw_block_on(rt, AW_CALL(answer)), 0);
    return NULL;
}

TEST(a_plain_thread_and_a_task_wake_each_other) {
    aw_runtime *rt = runtime_without_reports();
    rounds = test_scale(5000);
    pthread_t thread = start_thread(answer_in_runtime, rt);
    aw_parker *parker = aw_parker_new();
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    for (int i = 0; i < rounds; i++) {
        aw_notify_one(&ping);
        aw_notified w = aw_notify_wait(&pong);
        while (aw_future_poll(&w.future, &cx) == AW_PENDING)
            aw_parker_park(parker);
    }
    join_thread(thread);
    aw_parker_free(parker);
    aw_runtime_free(rt);
}

AW_ASYNC(int, ask, int n; aw_notified w;) {
    AW_BEGIN;
    for (self->n = 0; self->n < rounds; self->n++) {
        aw_notify_one(&ping);
        AW_AWAIT(self->w, aw_notify_wait(&pong));
    }
    AW_RETURN(0);
    AW_END;
}

TEST(tasks_of_two_runtimes_wake_each_other) {
    aw_runtime *a = runtime_without_reports(), *b = runtime_without_reports();
    rounds = test_scale(5000);
    pthread_t thread = start_thread(answer_in_runtime, a);
    CHECK_EQ(aw_block_on(b, AW_CALL(ask)), 0);
    join_thread(thread);
    aw_runtime_free(a);
    aw_runtime_free(b);
}

/* ---- Nothing is lost ------------------------------------------------------------------------- */

/* Producers add items, each with one notification. A consumer that finds no item waits. A lost
 * notification leaves items unconsumed while all consumers wait. */
enum { PRODUCERS = 2, CONSUMERS = 2 };

static aw_notify arrived = AW_NOTIFY_INIT;
static int available, taken, goods; /* atomic; goods: items per producer */

static bool take_one(void) {
    int n = __atomic_load_n(&available, __ATOMIC_ACQUIRE);
    while (n > 0) {
        if (!__atomic_compare_exchange_n(&available, &n, n - 1, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE))
            continue;
        __atomic_fetch_add(&taken, 1, __ATOMIC_ACQ_REL);
        return true;
    }
    return false;
}

static bool all_taken(void) {
    return __atomic_load_n(&taken, __ATOMIC_ACQUIRE) == PRODUCERS * goods;
}

static void *produce(void *unused) {
    (void)unused;
    for (int i = 0; i < goods; i++) {
        __atomic_fetch_add(&available, 1, __ATOMIC_ACQ_REL);
        aw_notify_one(&arrived);
    }
    return NULL;
}

/* Half of its waits time out after a few microseconds, often just when the notification arrives.
 * Then the consumer looks again for that reason. */
AW_ASYNC(int, consume, uint64_t seed; AW_SHARE(aw_notified w; AW_TIMEOUT(aw_notified) t;);) {
    AW_BEGIN;
    while (!all_taken()) {
        if (take_one()) {
            if (all_taken()) break;
            continue;
        }
        if (test_random(&self->seed) % 2) {
            AW_AWAIT_FOR(self->t, AW_USEC(self->seed % 20), aw_notify_wait(&arrived));
        } else {
            AW_AWAIT(self->w, aw_notify_wait(&arrived));
        }
    }
    /* Other consumers may be waiting for items that will not come. */
    aw_notify_one(&arrived);
    aw_notify_waiters(&arrived);
    AW_RETURN(0);
    AW_END;
}

static void *consume_in_runtime(void *number) {
    aw_runtime *rt = runtime_without_reports();
    struct consume *second = aw_spawn_on(rt, AW_CALL(consume, .seed = (uintptr_t)number + 100));
    CHECK_EQ(aw_block_on(rt, AW_CALL(consume, .seed = (uintptr_t)number)), 0);
    CHECK_EQ(aw_block_on(rt, aw_task_join(second)), 0);
    aw_task_drop(second);
    aw_runtime_free(rt);
    return NULL;
}

TEST(notifications_from_threads_to_tasks_of_several_runtimes_are_not_lost) {
    pthread_t producers[PRODUCERS], consumers[CONSUMERS];
    goods = test_scale(50000);
    for (uintptr_t i = 0; i < CONSUMERS; i++)
        consumers[i] = start_thread(consume_in_runtime, (void *)i);
    for (int i = 0; i < PRODUCERS; i++)
        producers[i] = start_thread(produce, NULL);
    for (int i = 0; i < PRODUCERS; i++)
        join_thread(producers[i]);
    for (int i = 0; i < CONSUMERS; i++)
        join_thread(consumers[i]);
    CHECK_EQ(available, 0);
    CHECK_EQ(taken, PRODUCERS * goods);
}

/* One notification circulates among threads that wait, are notified, and sometimes cancel and
 * discard it. It is never lost. */
enum { RING = 4 };

static aw_notify token = AW_NOTIFY_INIT;
static int passes, limit; /* atomic */

static void *pass_on(void *number) {
    uint64_t seed = test_seed() + (uintptr_t)number;
    aw_parker *parker = aw_parker_new();
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    while (__atomic_load_n(&passes, __ATOMIC_ACQUIRE) < limit) {
        aw_notified w = aw_notify_wait(&token);
        aw_poll r = aw_future_poll(&w.future, &cx);
        if (r == AW_PENDING && test_random(&seed) % 3 == 0) {
            if (aw_future_cancel(&w.future, &cx) == AW_READY) aw_future_discard(&w.future);
            continue;
        }
        for (; r == AW_PENDING; r = aw_future_poll(&w.future, &cx))
            aw_parker_park(parker);
        __atomic_fetch_add(&passes, 1, __ATOMIC_ACQ_REL);
        aw_notify_one(&token);
    }
    aw_notify_one(&token); /* for the next thread that would wait */
    aw_parker_free(parker);
    return NULL;
}

TEST(a_notification_that_circulates_is_never_lost) {
    pthread_t threads[RING];
    limit = test_scale(50000);
    for (uintptr_t i = 0; i < RING; i++)
        threads[i] = start_thread(pass_on, (void *)i);
    aw_notify_one(&token);
    for (int i = 0; i < RING; i++)
        join_thread(threads[i]);
    CHECK_GE(passes, limit);
}

/* notify_waiters from one thread, while other threads begin to wait, are notified and give up. */
static int begun, ended; /* atomic: how many calls have begun, and have returned */

static void *wait_for_all(void *number) {
    uint64_t seed = test_seed() + (uintptr_t)number;
    aw_parker *parker = aw_parker_new();
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    for (;;) {
        int before = __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
        if (before >= limit) break;
        aw_notified w = aw_notify_wait(&token); /* counts calls from here on */
        aw_poll r = aw_future_poll(&w.future, &cx);
        if (r == AW_PENDING && test_random(&seed) % 3 == 0) {
            aw_future_cancel(&w.future, &cx);
            continue;
        }
        for (; r == AW_PENDING; r = aw_future_poll(&w.future, &cx))
            aw_parker_park(parker);
        CHECK_GT(__atomic_load_n(&begun, __ATOMIC_ACQUIRE), before); /* a call has begun since */
    }
    /* For a thread that read `ended` before the last round and waits after it. */
    aw_notify_one(&token);
    aw_parker_free(parker);
    return NULL;
}

TEST(notify_waiters_from_another_thread_wakes_all_and_none_spuriously) {
    pthread_t threads[RING];
    limit = test_scale(20000);
    for (uintptr_t i = 0; i < RING; i++)
        threads[i] = start_thread(wait_for_all, (void *)i);
    for (int i = 0; i < limit; i++) {
        __atomic_fetch_add(&begun, 1, __ATOMIC_ACQ_REL);
        aw_notify_waiters(&token);
        __atomic_fetch_add(&ended, 1, __ATOMIC_ACQ_REL);
    }
    aw_notify_one(&token);
    for (int i = 0; i < RING; i++)
        join_thread(threads[i]);
}

/* ---- The owner of the runtime leaves --------------------------------------------------------- */

static aw_notify first = AW_NOTIFY_INIT, second = AW_NOTIFY_INIT;
static bool follows; /* atomic: the follower is in its block_on */
static bool half;    /* atomic: it has received the first notification */

AW_ASYNC(int, wait_twice, aw_notified w;) {
    AW_BEGIN;
    __atomic_store_n(&follows, true, __ATOMIC_RELEASE);
    AW_AWAIT(self->w, aw_notify_wait(&first));
    __atomic_store_n(&half, true, __ATOMIC_RELEASE);
    AW_AWAIT(self->w, aw_notify_wait(&second));
    AW_RETURN(0);
    AW_END;
}

static void *wait_twice_as_follower(void *rt) {
    CHECK_EQ(aw_block_on(rt, AW_CALL(wait_twice)), 0); /* not -EDEADLK */
    return NULL;
}

/* The owner: waits until the follower has begun, notifies it, and returns in the same poll. */
static aw_poll notify_and_leave(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    *out = 0;
    if (!__atomic_load_n(&follows, __ATOMIC_ACQUIRE)) {
        aw_cx_yield(cx);
        return AW_PENDING;
    }
    aw_notify_one(&first);
    return AW_READY;
}

static pthread_t other;
static aw_poll start_other_then_leave(void *rt, aw_cx *cx, int *out) {
    if (!other) other = start_thread(wait_twice_as_follower, rt);
    return notify_and_leave(rt, cx, out);
}

TEST(a_wait_that_was_begun_by_a_follower_goes_on_when_it_becomes_the_owner) {
    for (int i = 0; i < test_scale(300); i++) {
        aw_runtime *rt = runtime_without_reports();
        other = 0;
        follows = half = false;
        CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(start_other_then_leave, rt)), 0);
        while (!__atomic_load_n(&half, __ATOMIC_ACQUIRE))
            sched_yield();
        aw_notify_one(&second);
        join_thread(other);
        aw_runtime_free(rt);
    }
}
