/* SPDX-License-Identifier: MIT
 *
 * How many workers there are, and tasks that ask to stay with theirs. */
#define _GNU_SOURCE
#include <awake.h>

#include <errno.h>
#include <sched.h>
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

TEST(there_are_as_many_workers_as_were_asked_for) {
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

TEST(the_environment_is_asked_unless_the_program_says_otherwise) {
    setenv("AWAKE_WORKERS", "3", 1);
    CHECK_EQ(workers_of(0, false), 3);
    CHECK_EQ(workers_of(2, false), 2);
    CHECK_LE(workers_of(0, true), processors());
    setenv("AWAKE_WORKERS", "many", 1);
    CHECK_LE(workers_of(0, false), processors());
    setenv("AWAKE_WORKERS", "-1", 1);
    CHECK_LE(workers_of(0, false), processors());
}

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

/* ---- Fibers, and how they are dealt out ------------------------------------------------------- */

static int remember_thread(void *arg) {
    *(pid_t *)arg = gettid();
    return aw_fiber_yield();
}

AW_FIBER(int, remembers_thread, pid_t *thread;) {
    return remember_thread(self->thread);
}

TEST(fibers_of_both_forms_are_dealt_out_in_turn) {
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
