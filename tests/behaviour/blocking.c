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

/* ---- Refusing to create threads ---------------------------------------------------------------- */

static int refuse_threads;
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*fn)(void *), void *arg) {
    if (__atomic_load_n(&refuse_threads, __ATOMIC_ACQUIRE)) return EAGAIN;
    return __real_pthread_create(id, a, fn, arg);
}

/* ---- Calls ------------------------------------------------------------------------------------- */

static sem_t started, go;
static int calls, released, max_running, now_running;

static long count(void *arg) {
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    return (long)(intptr_t)arg;
}

/* Posts `started`, then waits for `go`. */
static long wait_for_go(void *arg) {
    int n = __atomic_add_fetch(&now_running, 1, __ATOMIC_SEQ_CST);
    if (n > __atomic_load_n(&max_running, __ATOMIC_SEQ_CST))
        __atomic_store_n(&max_running, n, __ATOMIC_SEQ_CST);
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
    CHECK_EQ(max_running, 3);
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

TEST(cancelling_a_started_call_that_owns_its_memory_detaches_it_at_once) {
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
    if (flavour == AW_CURRENT_THREAD) /* no worker starts it */
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
    CHECK_EQ(max_running, 1);
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
        if (i == 0) wait_until_started(1); /* the others may be aborted before they start */
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
    CHECK_EQ(calls, 1); /* the clock jumps only after the call has returned */
    aw_runtime_free(rt);
}

/* ---- What a blocking call may do with its runtime ----------------------------------------------- */

AW_ASYNC(int, seven, aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(100)));
    AW_RETURN(7);
    AW_END;
}

static long spawns(void *arg) {
    aw_runtime *rt = arg;
    CHECK_EQ(aw_runtime_current(), rt);
    CHECK_EQ(aw_wait(aw_sleep_for(AW_USEC(100))), 0);
    struct seven *a = aw_spawn(AW_CALL(seven)), *b = aw_spawn(AW_CALL(seven));
    CHECK_EQ(aw_wait(aw_task_join(a)), 0);
    CHECK_EQ(aw_block_on(rt, aw_task_join(b)), 0);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_USEC(100))), 0);
    CHECK_EQ(aw_wait(aw_blocking(count, (void *)3)), 3);
    return aw_task_take(a) + aw_task_take(b);
}

AW_ASYNC(int, calls_it, long (*fn)(void *arg); void *arg; aw_blocking_future call;) {
    AW_BEGIN;
    AW_AWAIT(self->call, aw_blocking(self->fn, self->arg));
    AW_RETURN((int)self->call.out);
    AW_END;
}

enum { CALLS = 8 };
AW_ASYNC(int, calls_it_often, void *arg; struct calls_it calls[CALLS]; aw_all all;) {
    AW_BEGIN;
    for (int i = 0; i < CALLS; i++)
        self->calls[i] = AW_CALL(calls_it, .fn = spawns, .arg = self->arg);
    AW_AWAIT(self->all, aw_join_all(self->calls, CALLS));
    for (int i = 0; i < CALLS; i++)
        CHECK_EQ(self->calls[i].out, 14);
    AW_RETURN(0);
    AW_END;
}

BOTH(a_call_may_spawn_and_wait) {
    aw_runtime *rt = runtime(flavour, 0);
    CHECK_EQ(aw_block_on(rt, aw_blocking(spawns, rt)), 14);
    CHECK_EQ(aw_block_on(rt, AW_CALL(calls_it_often, .arg = rt)), 0);
    aw_runtime_free(rt);
}

struct hours {
    aw_runtime *rt;
    uint64_t begin;
};

/* The clock stops at the end of each sleep, although a later deadline is pending. */
static long sleeps_for_hours(void *arg) {
    struct hours *h = arg;
    for (uint64_t i = 1; i <= 4; i++) {
        aw_sleep hour = aw_sleep_for(AW_SEC(3600));
        CHECK_EQ(i % 2 ? aw_block_on(h->rt, hour) : aw_wait(hour), 0);
        CHECK_EQ(aw_now(h->rt) - h->begin, AW_SEC(3600) * i);
        usleep(1000);
        CHECK_EQ(aw_now(h->rt) - h->begin, AW_SEC(3600) * i);
    }
    return 0;
}

AW_ASYNC(int, sleeps_longer, struct hours *hours; struct calls_it * call; aw_sleep nap;
         aw_task_join_future join;) {
    AW_BEGIN;
    self->call = aw_spawn(AW_CALL(calls_it, .fn = sleeps_for_hours, .arg = self->hours));
    /* A deadline that the clock must not reach early. */
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(4 * 3600 + 1)));
    CHECK(aw_task_is_finished(self->call));
    AW_AWAIT(self->join, aw_task_join(self->call));
    AW_RETURN(aw_task_take(self->call));
    AW_END;
}

BOTH(a_paused_clock_goes_on_while_a_call_waits_and_only_then) {
    struct hours h = {runtime(flavour, 0), 0};
    CHECK_EQ(aw_clock_pause(h.rt), 0);
    h.begin = aw_now(h.rt);
    CHECK_EQ(aw_block_on(h.rt, AW_CALL(sleeps_longer, .hours = &h)), 0);
    CHECK_EQ(aw_now(h.rt) - h.begin, AW_SEC(4 * 3600 + 1));
    aw_runtime_free(h.rt);
}

static long frees(void *arg) {
    aw_runtime_free(arg);
    return 0;
}
static void free_in_a_call(aw_flavour flavour) {
    aw_runtime *rt = runtime(flavour, 0);
    aw_block_on(rt, aw_blocking(frees, rt));
}
BOTH(the_end_of_its_own_runtime_in_a_call_is_reported) {
    DIES(free_in_a_call(flavour), "inside a blocking call of the same runtime");
}

/* ---- Calls that outlive their runtime ----------------------------------------------------------- */

AW_ASYNC(int, calls_owned, long (*fn)(void *arg); aw_blocking_future call;) {
    AW_BEGIN;
    AW_AWAIT(self->call, aw_blocking_owned(self->fn, release, acquire()));
    AW_RETURN(0);
    AW_END;
}

/* Starts the call, then frees the runtime, which cancels the task. */
static void begin_owned(aw_runtime *rt, long (*fn)(void *arg)) {
    aw_task_drop(aw_spawn_on(rt, AW_CALL(calls_owned, .fn = fn)));
    if (!aw_runtime_workers(rt)) CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(when_started, NULL)), 0);
    wait_until_started(1);
    aw_runtime_free(rt);
}

static void wait_until_released(int n) {
    while (__atomic_load_n(&released, __ATOMIC_SEQ_CST) < n)
        usleep(100);
}

static long uses_what_has_ended(void *arg) {
    int fds[2];
    char byte;
    aw_conn *c;
    (void)arg;
    aw_runtime *rt = aw_runtime_current();
    CHECK(rt != NULL);
    wait_for_go(NULL);
    CHECK_EQ(aw_runtime_current(), rt);
    struct seven *h = aw_spawn(AW_CALL(seven));
    CHECK_EQ(aw_wait(aw_task_join(h)), -ECANCELED);
    aw_task_drop(h);
    CHECK_EQ(aw_wait(aw_sleep_for(AW_SEC(3600))), -ESHUTDOWN);
    CHECK_EQ(aw_wait(aw_blocking(count, NULL)), -ESHUTDOWN);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(1)), -ESHUTDOWN);
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(aw_conn_of_fd(&c, fds[0]), 0);
    CHECK_EQ(aw_wait(aw_read(c, &byte, 1)), -ESHUTDOWN);
    aw_close(c);
    close(fds[1]);
    return 0;
}

BOTH(a_call_that_outlives_its_runtime_is_told_that_it_has_ended) {
    begin_owned(runtime(flavour, 0), uses_what_has_ended);
    sem_post(&go);
    wait_until_released(1);
}

static aw_notify never;
AW_ASYNC(int, waits_for_ever, aw_notified bell;) {
    AW_BEGIN;
    AW_AWAIT(self->bell, aw_notify_wait(&never));
    AW_RETURN(0);
    AW_END;
}

static long sleeps_beyond_the_end(void *arg) {
    (void)arg;
    sem_post(&started);
    CHECK_EQ(aw_wait(aw_sleep_for(AW_SEC(3600))), -ESHUTDOWN);
    return 0;
}
static long reads_beyond_the_end(void *arg) {
    int fds[2];
    char byte;
    aw_conn *c;
    (void)arg;
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(aw_conn_of_fd(&c, fds[0]), 0);
    sem_post(&started);
    CHECK_EQ(aw_wait(aw_read(c, &byte, 1)), -ESHUTDOWN);
    aw_close(c);
    close(fds[1]);
    return 0;
}
static long joins_beyond_the_end(void *arg) {
    (void)arg;
    struct waits_for_ever *h = aw_spawn(AW_CALL(waits_for_ever));
    sem_post(&started);
    CHECK_EQ(aw_wait(aw_task_join(h)), -ECANCELED);
    aw_task_drop(h);
    return 0;
}

BOTH(the_end_of_the_runtime_ends_what_a_call_waits_for) {
    begin_owned(runtime(flavour, 0), sleeps_beyond_the_end);
    wait_until_released(1);
    begin_owned(runtime(flavour, 0), reads_beyond_the_end);
    wait_until_released(2);
    begin_owned(runtime(flavour, 0), joins_beyond_the_end);
    wait_until_released(3);
}

BOTH(a_call_that_waits_for_its_own_task_does_not_keep_the_runtime_from_ending) {
    aw_runtime *rt = runtime(flavour, 0);
    struct calls_it *h = aw_spawn_on(rt, AW_CALL(calls_it, .fn = joins_beyond_the_end));
    if (flavour == AW_CURRENT_THREAD)
        CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(when_started, NULL)), 0);
    wait_until_started(1);
    aw_runtime_free(rt);
    CHECK_EQ(aw_task_take(h), 0);
}

static long has_no_runtime(void *arg) {
    (void)arg;
    CHECK_EQ(aw_runtime_current(), (aw_runtime *)NULL);
    return wait_for_go(NULL);
}
static long has_a_runtime(void *arg) {
    return aw_runtime_current() == arg;
}

/* The call may outlive the runtime's storage. */
TEST(a_call_that_may_outlive_a_runtime_in_the_callers_memory_has_none) {
    aw_runtime_storage *memory = malloc(sizeof *memory);
    aw_runtime *rt;
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    CHECK_EQ(aw_runtime_new_in(&rt, memory, sizeof *memory, NULL), 0);
    CHECK_EQ(aw_block_on(rt, aw_blocking(has_a_runtime, rt)), 1);
    begin_owned(rt, has_no_runtime);
    free(memory);
    sem_post(&go);
    wait_until_released(1);
}
