/* SPDX-License-Identifier: MIT
 *
 * The shape of a runtime: how many workers it has, its flavour, how the environment affects
 * both; and pinned tasks. */
#define _GNU_SOURCE
#include <awake.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

static uint32_t workers_of(uint32_t wanted, bool ignore_environment) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = AW_MULTI_THREAD;
    o.workers = wanted;
    o.ignore_environment = ignore_environment;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    uint32_t n = aw_runtime_workers(rt);
    aw_runtime_free(rt);
    return n;
}

static uint32_t processors(void) {
    cpu_set_t set;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    return (uint32_t)CPU_COUNT(&set);
}

TEST(there_are_as_many_workers_as_requested) {
    CHECK_EQ(workers_of(1, false), 1);
    CHECK_EQ(workers_of(5, false), 5);
}

TEST(by_default_there_are_not_more_workers_than_processors) {
    unsetenv("AWAKE_WORKERS");
    uint32_t n = workers_of(0, false);
    CHECK_GE(n, 1);
    CHECK_LE(n, processors());
}

TEST(affinity_limits_the_number_of_workers) {
    cpu_set_t one;
    unsetenv("AWAKE_WORKERS");
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) < 0) SKIP("affinity cannot be set here");
    CHECK_EQ(workers_of(0, false), 1);
}

TEST(the_environment_counts_unless_the_program_says_otherwise) {
    setenv("AWAKE_WORKERS", "3", 1);
    CHECK_EQ(workers_of(0, false), 3);
    CHECK_EQ(workers_of(2, false), 2);
    CHECK_LE(workers_of(0, true), processors());
    setenv("AWAKE_WORKERS", "many", 1);
    CHECK_LE(workers_of(0, false), processors());
    setenv("AWAKE_WORKERS", "-1", 1);
    CHECK_LE(workers_of(0, false), processors());
}

/* ---- The flavour ----------------------------------------------------------------------------- */

enum { PROBLEMS_MAX = 8 };
static struct {
    int count;
    aw_log_level levels[PROBLEMS_MAX];
    char messages[PROBLEMS_MAX][256];
} said;

static void keep(void *data, aw_log_level level, const char *message) {
    (void)data;
    CHECK_LT(said.count, PROBLEMS_MAX);
    said.levels[said.count] = level;
    snprintf(said.messages[said.count++], sizeof said.messages[0], "%s", message);
}

static aw_runtime_options options_with_log(void) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.workers = 3;
    o.log = keep;
    return o;
}

/* 3: it has workers; 0: only the thread that is in block_on. */
static uint32_t workers_with(const aw_runtime_options *o) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, o), 0);
    uint32_t n = aw_runtime_workers(rt);
    aw_runtime_free(rt);
    return n;
}

TEST(by_default_a_runtime_is_the_current_thread) {
    aw_runtime_options o = options_with_log();
    unsetenv("AWAKE_FLAVOUR");
    CHECK_EQ(workers_with(&o), 0);
    CHECK_EQ(workers_with(NULL), 0);
    setenv("AWAKE_FLAVOUR", "", 1);
    CHECK_EQ(workers_with(&o), 0);
    CHECK_EQ(said.count, 0);
}

TEST(the_environment_chooses_the_flavour_where_the_program_does_not) {
    static const char *const words[] = {"current", "multi", "per-core"};
    static const uint32_t workers[] = {0, 3, 3};
    for (int i = 0; i < 3; i++) {
        aw_runtime_options o = options_with_log();
        setenv("AWAKE_FLAVOUR", words[i], 1);
        CHECK_EQ(workers_with(&o), workers[i]);
        o.flavour = AW_CURRENT_THREAD;
        CHECK_EQ(workers_with(&o), 0);
        o.flavour = AW_MULTI_THREAD;
        CHECK_EQ(workers_with(&o), 3);
        o.flavour = AW_FLAVOUR_DEFAULT;
        o.ignore_environment = true;
        CHECK_EQ(workers_with(&o), 0);
    }
    CHECK_EQ(said.count, 0);
}

TEST(a_seam_keeps_the_runtime_on_the_current_thread) {
    aw_runtime_options o = options_with_log();
    aw_seam seam = {.self_size = sizeof seam};
    setenv("AWAKE_FLAVOUR", "multi", 1);
    o.paused = true;
    CHECK_EQ(workers_with(&o), 3);
    o.seam = &seam;
    CHECK_EQ(workers_with(&o), 0);
    CHECK_EQ(said.count, 0);
}

TEST(an_unknown_flavour_is_reported_once_and_ignored) {
    aw_runtime_options o = options_with_log();
    setenv("AWAKE_FLAVOUR", "strawberry", 1);
    CHECK_EQ(workers_with(&o), 0);
    CHECK_EQ(workers_with(&o), 0);
    CHECK_EQ(said.count, 1);
    CHECK_EQ(said.levels[0], AW_LOG_PROBLEM);
    CHECK_CONTAINS(said.messages[0], "AWAKE_FLAVOUR");
    CHECK_CONTAINS(said.messages[0], "'strawberry'");
}

AW_ASYNC(int, current_workers, char unused;) {
    AW_BEGIN;
    AW_RETURN((int)aw_runtime_workers(aw_runtime_current()));
    AW_END;
}

TEST(aw_run_follows_the_environment_too) {
    setenv("AWAKE_WORKERS", "3", 1);
    setenv("AWAKE_FLAVOUR", "current", 1);
    CHECK_EQ(aw_run(AW_CALL(current_workers)), 0);
    setenv("AWAKE_FLAVOUR", "multi", 1);
    CHECK_EQ(aw_run(AW_CALL(current_workers)), 3);
}

/* ---- Threads for blocking calls -------------------------------------------------------------- */

static uint32_t now_inside, max_inside;
static long goes_inside(void *unused) {
    (void)unused;
    uint32_t n = __atomic_add_fetch(&now_inside, 1, __ATOMIC_SEQ_CST);
    uint32_t max = __atomic_load_n(&max_inside, __ATOMIC_SEQ_CST);
    while (n > max && !__atomic_compare_exchange_n(&max_inside, &max, n, false, __ATOMIC_SEQ_CST,
                                                   __ATOMIC_SEQ_CST)) {
    }
    usleep(1000);
    __atomic_sub_fetch(&now_inside, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static uint32_t most_at_once(const aw_runtime_options *o) {
    enum { CALLS = 20 };
    aw_blocking_future calls[CALLS];
    aw_runtime *rt;
    max_inside = 0;
    CHECK_EQ(aw_runtime_new(&rt, o), 0);
    for (int i = 0; i < CALLS; i++)
        calls[i] = aw_blocking(goes_inside, NULL);
    CHECK_EQ(aw_block_on(rt, aw_join_all(calls, CALLS)), 0);
    aw_runtime_free(rt);
    return max_inside;
}

TEST(the_environment_limits_the_threads_for_calls) {
    aw_runtime_options o = options_with_log();
    setenv("AWAKE_BLOCKING_THREADS", "1", 1);
    CHECK_EQ(most_at_once(&o), 1);
    o.blocking_threads = 3;
    CHECK_LE(most_at_once(&o), 3);
    o.blocking_threads = 0;
    o.ignore_environment = true;
    CHECK_GT(most_at_once(&o), 1);
}

/* ---- Other options --------------------------------------------------------------------------- */

TEST(what_makes_no_sense_is_refused) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt = NULL;
    o.flavour = AW_MULTI_THREAD;
    o.workers = 100000;
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
    o.workers = 1;
    o.seam = &(aw_seam){.self_size = sizeof(aw_seam)};
    CHECK_EQ(aw_runtime_new(&rt, &o), -ENOTSUP);
    CHECK(rt == NULL);
}

AW_ASYNC(int, pinned, pid_t thread; int i; aw_sleep nap;) {
    AW_BEGIN;
    CHECK_EQ(aw_pin(cx), 0);
    self->thread = gettid();
    for (self->i = 0; self->i < 200; self->i++) {
        AW_YIELD;
        CHECK_EQ(gettid(), self->thread);
        if (self->i % 20 == 0) AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(50)));
        CHECK_EQ(gettid(), self->thread);
    }
    AW_RETURN(0);
    AW_END;
}

TEST(a_pinned_task_stays_on_its_thread) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    struct pinned *h[50];
    o.flavour = AW_MULTI_THREAD;
    o.workers = 4;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    for (int i = 0; i < 50; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(pinned));
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(aw_block_on(rt, aw_task_join(h[i])), 0);
        aw_task_drop(h[i]);
    }
    aw_runtime_free(rt);
}

TEST(pinning_outside_a_task_says_so) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    CHECK_EQ(aw_pin(&cx), -ENXIO);
}

/* ---- Fibers, and how they are distributed ---------------------------------------------------- */

static int remember_thread(void *arg) {
    *(pid_t *)arg = gettid();
    return aw_fiber_yield();
}

AW_FIBER(int, remembers_thread, pid_t *thread;) {
    return remember_thread(self->thread);
}

TEST(fibers_of_both_forms_are_distributed_round_robin) {
    enum { WORKERS = 4, EACH = 8 };
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    aw_fiber *plain[WORKERS * EACH];
    struct remembers_thread *typed[WORKERS * EACH];
    pid_t threads[2 * WORKERS * EACH] = {0};
    o.flavour = AW_MULTI_THREAD;
    o.workers = WORKERS;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    for (int i = 0; i < WORKERS * EACH; i++)
        plain[i] = aw_spawn_on(rt, aw_fiber_of(remember_thread, &threads[i]));
    for (int i = 0; i < WORKERS * EACH; i++)
        typed[i] = aw_spawn_on(rt,
                               AW_CALL(remembers_thread, .thread = &threads[WORKERS * EACH + i]));
    for (int i = 0; i < WORKERS * EACH; i++) {
        CHECK_EQ(aw_block_on(rt, aw_task_join(plain[i])), 0);
        CHECK_EQ(aw_block_on(rt, aw_task_join(typed[i])), 0);
        aw_task_drop(plain[i]);
        aw_task_drop(typed[i]);
    }
    aw_runtime_free(rt);
    for (int i = 0; i < 2 * WORKERS * EACH; i++) {
        int same = 0;
        for (int k = 0; k < 2 * WORKERS * EACH; k++)
            same += threads[k] == threads[i];
        CHECK_EQ(same, 2 * EACH);
    }
}
