/* SPDX-License-Identifier: MIT
 *
 * Blocking calls, on both flavours. */
/* link: -Wl,--wrap=pthread_create */
#include <awake.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

/* ---- A thread that cannot be made -------------------------------------------------------------- */

static int refuse_threads;
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*fn)(void *), void *arg) {
    if (__atomic_load_n(&refuse_threads, __ATOMIC_ACQUIRE)) return EAGAIN;
    return __real_pthread_create(id, a, fn, arg);
}

/* ---- Calls ------------------------------------------------------------------------------------- */

static sem_t started, go;
static int calls, released, most, now_running;

static long count(void *arg) {
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    return (long)(intptr_t)arg;
}

/* Says that it has started, and waits to be let go. */
static long wait_for_go(void *arg) {
    int n = __atomic_add_fetch(&now_running, 1, __ATOMIC_SEQ_CST);
    if (n > __atomic_load_n(&most, __ATOMIC_SEQ_CST)) __atomic_store_n(&most, n, __ATOMIC_SEQ_CST);
    sem_post(&started);
    while (sem_wait(&go) < 0) {
    }
    __atomic_sub_fetch(&now_running, 1, __ATOMIC_SEQ_CST);
    return count(arg);
}

static int acquired;
static void *acquire(void) {
    __atomic_add_fetch(&acquired, 1, __ATOMIC_SEQ_CST);
    return malloc(10);
}
static void release(void *arg) {
    free(arg);
    __atomic_add_fetch(&released, 1, __ATOMIC_SEQ_CST);
}

static aw_runtime *runtime(aw_flavour flavour, uint32_t threads) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = flavour;
    o.workers = 2;
    o.blocking_threads = threads;
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

#define BOTH(name)                                                                                 \
    static void name(aw_flavour flavour);                                                          \
    TEST(name##_on_one_thread) {                                                                   \
        name(AW_CURRENT_THREAD);                                                                   \
    }                                                                                              \
    TEST(name##_with_workers) {                                                                    \
        name(AW_MULTI_THREAD);                                                                     \
    }                                                                                              \
    static void name(aw_flavour flavour)

BOTH(a_call_returns_its_result) {
    aw_runtime *rt = runtime(flavour, 0);
    CHECK_EQ(aw_block_on(rt, aw_blocking(count, (void *)42)), 42);
    CHECK_EQ(aw_block_on(rt, aw_blocking(count, (void *)-7)), -7);
    CHECK_EQ(calls, 2);
    aw_runtime_free(rt);
}

AW_ASYNC(int, one_call, long n; aw_blocking_future call;) {
    AW_BEGIN;
    AW_AWAIT(self->call, aw_blocking(count, (void *)self->n));
    AW_RETURN(self->call.out == self->n ? 0 : -EINVAL);
    AW_END;
}

enum { MANY = 1000 };
AW_ASYNC(int, many_calls, int i; struct one_call calls[MANY]; aw_all all;) {
    AW_BEGIN;
    for (self->i = 0; self->i < MANY; self->i++)
        self->calls[self->i] = AW_CALL(one_call, .n = self->i);
    AW_AWAIT(self->all, aw_join_all(self->calls, MANY));
    for (self->i = 0; self->i < MANY; self->i++)
        CHECK_EQ(self->calls[self->i].out, 0);
    AW_RETURN(0);
    AW_END;
}

BOTH(a_thousand_calls_all_return) {
    aw_runtime *rt = runtime(flavour, 8);
    struct many_calls *h = aw_spawn_on(rt, AW_CALL(many_calls));
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), 0);
    CHECK_EQ(calls, MANY);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

AW_ASYNC(int, held_call, aw_blocking_future call;) {
    AW_BEGIN;
    AW_AWAIT(self->call, aw_blocking(wait_for_go, (void *)5));
    AW_RETURN((int)self->call.out);
    AW_END;
}

static void wait_until_started(int n) {
    while (n-- > 0)
        while (sem_wait(&started) < 0) {
        }
}

TEST(no_more_run_at_once_than_the_limit_says) {
    aw_runtime *rt = runtime(AW_MULTI_THREAD, 3);
    struct held_call *h[10];
    for (int i = 0; i < 10; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(held_call));
    wait_until_started(3);
    for (int i = 0; i < 10; i++)
        sem_post(&go);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(aw_block_on(rt, aw_task_join(h[i])), 0);
        CHECK_EQ(h[i]->out, 5);
        aw_task_drop(h[i]);
    }
    CHECK_EQ(most, 3);
    aw_runtime_free(rt);
}

TEST(a_queued_call_can_be_cancelled_and_never_starts) {
    aw_runtime *rt = runtime(AW_MULTI_THREAD, 1);
    struct held_call *first = aw_spawn_on(rt, AW_CALL(held_call));
    wait_until_started(1);
    struct one_call *second = aw_spawn_on(rt, AW_CALL(one_call, .n = 1));
    aw_task_abort(second);
    CHECK_EQ(aw_block_on(rt, aw_task_join(second)), -ECANCELED);
    sem_post(&go);
    CHECK_EQ(aw_block_on(rt, aw_task_join(first)), 0);
    CHECK_EQ(calls, 1);
    aw_task_drop(first);
    aw_task_drop(second);
    aw_runtime_free(rt);
}

TEST(a_started_call_that_borrows_is_waited_for_and_its_result_stands) {
    aw_runtime *rt = runtime(AW_MULTI_THREAD, 1);
    struct held_call *h = aw_spawn_on(rt, AW_CALL(held_call));
    wait_until_started(1);
    aw_task_abort(h);
    CHECK(!aw_task_is_finished(h));
    sem_post(&go);
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), 0);
    CHECK_EQ(h->out, 5);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

AW_ASYNC(int, owned_call, aw_blocking_future call;) {
    AW_BEGIN;
    AW_AWAIT(self->call, aw_blocking_owned(wait_for_go, release, acquire()));
    AW_RETURN(self->call.out < 0 ? (int)self->call.out : 0);
    AW_END;
}

TEST(a_started_call_that_owns_its_memory_is_left_to_itself_at_once) {
    aw_runtime *rt = runtime(AW_MULTI_THREAD, 0);
    struct owned_call *h = aw_spawn_on(rt, AW_CALL(owned_call));
    wait_until_started(1);
    aw_task_abort(h);
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), -ECANCELED);
    CHECK_EQ(__atomic_load_n(&released, __ATOMIC_SEQ_CST), 0);
    aw_task_drop(h);
    sem_post(&go);
    while (!__atomic_load_n(&released, __ATOMIC_SEQ_CST))
        usleep(100);
    aw_runtime_free(rt);
}

static aw_poll when_started(void *unused, aw_cx *cx, int *out) {
    int begun;
    (void)unused;
    (void)out;
    CHECK_EQ(sem_getvalue(&started, &begun), 0);
    if (begun) return AW_READY;
    aw_cx_yield(cx);
    return AW_PENDING;
}

BOTH(a_runtime_that_ends_leaves_a_call_that_owns_its_memory_running) {
    aw_runtime *rt = runtime(flavour, 0);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(owned_call)));
    if (flavour == AW_CURRENT_THREAD) /* nobody else would start it */
        CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(when_started, NULL)), 0);
    wait_until_started(1);
    aw_runtime_free(rt);
    CHECK_EQ(__atomic_load_n(&released, __ATOMIC_SEQ_CST), 0);
    sem_post(&go);
    while (!__atomic_load_n(&released, __ATOMIC_SEQ_CST))
        usleep(100);
}

BOTH(without_any_thread_a_call_ends_with_eagain) {
    aw_runtime *rt = runtime(flavour, 0);
    __atomic_store_n(&refuse_threads, 1, __ATOMIC_RELEASE);
    CHECK_EQ(aw_block_on(rt, aw_blocking(count, NULL)), -EAGAIN);
    CHECK_EQ(aw_block_on(rt, aw_blocking_owned(count, release, acquire())), -EAGAIN);
    CHECK_EQ(released, 1);
    CHECK_EQ(calls, 0);
    __atomic_store_n(&refuse_threads, 0, __ATOMIC_RELEASE);
    CHECK_EQ(aw_block_on(rt, aw_blocking(count, (void *)3)), 3);
    aw_runtime_free(rt);
}

TEST(when_no_thread_can_be_added_those_that_are_there_do_the_work) {
    aw_runtime *rt = runtime(AW_MULTI_THREAD, 0);
    struct held_call *h[3];
    h[0] = aw_spawn_on(rt, AW_CALL(held_call));
    wait_until_started(1);
    __atomic_store_n(&refuse_threads, 1, __ATOMIC_RELEASE);
    for (int i = 1; i < 3; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(held_call));
    for (int i = 0; i < 3; i++)
        sem_post(&go);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_block_on(rt, aw_task_join(h[i])), 0);
        CHECK_EQ(h[i]->out, 5);
        aw_task_drop(h[i]);
    }
    CHECK_EQ(most, 1);
    aw_runtime_free(rt);
}

TEST(outside_a_runtime_a_call_says_so) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    aw_blocking_future f = aw_blocking(count, NULL);
    CHECK_EQ(aw_future_poll(&f.future, &cx), AW_READY);
    CHECK_EQ(f.out, -ENXIO);
}

/* cancel-at-every-await: aw_blocking */
TEST(a_call_cancelled_at_every_moment_releases_once) {
    aw_runtime *rt = runtime(AW_MULTI_THREAD, 2);
    int n = test_scale(300);
    for (int i = 0; i < n; i++) {
        struct owned_call *h = aw_spawn_on(rt, AW_CALL(owned_call));
        if (i % 3 == 0) sem_post(&go);
        for (volatile int spin = (i * 37) % 5000; spin > 0; spin--) {
        }
        aw_task_abort(h);
        int status = aw_block_on(rt, aw_task_join(h));
        CHECK(status == 0 || status == -ECANCELED);
        aw_task_drop(h);
        if (i % 3) sem_post(&go);
    }
    for (int i = 0; i < n; i++)
        sem_post(&go);
    aw_runtime_free(rt);
    while (__atomic_load_n(&released, __ATOMIC_SEQ_CST) < acquired)
        usleep(100);
    CHECK_EQ(released, acquired);
    CHECK_GT(acquired, 0);
}

TEST(a_paused_clock_waits_for_a_running_call) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.paused = true;
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 1);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    uint64_t before = aw_now(rt);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(held_call)));
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(3600))), 0);
    CHECK_EQ(aw_now(rt) - before, AW_SEC(3600));
    CHECK_EQ(calls, 1); /* it had to be over before the clock could jump */
    aw_runtime_free(rt);
}
