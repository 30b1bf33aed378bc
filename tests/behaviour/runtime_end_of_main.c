/* SPDX-License-Identifier: MIT
 *
 * When the future of block_on ends, the remaining tasks are cancelled and awaited. */
#include <awake.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "test.h"

static int started, cleaned;
static sem_t running; /* posted by each task that starts */

AW_ASYNC(int, background, aw_sleep nap;) {
    AW_BEGIN;
    started++;
    sem_post(&running);
    for (;;)
        AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(3600)));
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1))); /* block_on waits for it */
        cleaned++;
    }
    AW_END;
}

AW_ASYNC(int, spawns, int count; int i;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->count; self->i++)
        aw_task_drop(aw_spawn(AW_CALL(background)));
    AW_YIELD;
    AW_RETURN(started);
    AW_END;
}

static aw_runtime *new_runtime(bool keep) {
    sem_init(&running, 0, 0);
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.keep_tasks = keep;
    o.flavour = AW_CURRENT_THREAD;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

TEST(background_tasks_are_cancelled_and_waited_for_when_block_on_ends) {
    aw_runtime *rt = new_runtime(false);
    CHECK_EQ(aw_block_on(rt, AW_CALL(spawns, .count = 10)), 10);
    CHECK_EQ(cleaned, 10);
    CHECK_EQ(aw_runtime_task_count(rt), 0);
    /* The runtime can be used again. */
    CHECK_EQ(aw_block_on(rt, AW_CALL(spawns, .count = 5)), 15);
    CHECK_EQ(cleaned, 15);
    aw_runtime_free(rt);
}

TEST(the_same_with_aw_run) {
    ON_THIS_THREAD("all tasks have begun after one loop iteration");
    CHECK_EQ(aw_run(AW_CALL(spawns, .count = 10)), 10);
    CHECK_EQ(cleaned, 10);
}

TEST(a_runtime_that_keeps_its_tasks_finds_them_again) {
    aw_runtime *rt = new_runtime(true);
    CHECK_EQ(aw_block_on(rt, AW_CALL(spawns, .count = 10)), 10);
    CHECK_EQ(cleaned, 0);
    CHECK_EQ(aw_runtime_task_count(rt), 10);
    aw_runtime_free(rt);
    CHECK_EQ(cleaned, 10);
}

TEST(a_task_that_was_spawned_before_runs_and_ends_with_block_on) {
    aw_runtime *rt = new_runtime(false);
    struct background *h = aw_spawn_on(rt, AW_CALL(background));
    CHECK_EQ(aw_block_on(rt, AW_CALL(spawns)), 1);
    CHECK(aw_task_is_finished(h));
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), -ECANCELED);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

static struct background *late;

AW_ASYNC(int, spawns_at_its_end, aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(3600)));
    AW_FINALLY;
    late = aw_spawn(AW_CALL(background));
    AW_END;
}

TEST(a_task_that_is_spawned_while_the_others_end_is_cancelled) {
    aw_runtime *rt = new_runtime(false);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(spawns_at_its_end)));
    CHECK_EQ(aw_block_on(rt, aw_yield_now()), 0);
    CHECK_EQ(aw_block_on(rt, aw_task_join(late)), -ECANCELED);
    CHECK_EQ(started, 0);
    aw_task_drop(late);
    aw_runtime_free(rt);
}

/* ---- Two threads ----------------------------------------------------------------------------- */

static aw_notify leave;
static sem_t follower_polls;

static aw_poll post_polled(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    (void)cx;
    sem_post(&follower_polls);
    *out = 0;
    return AW_READY;
}

typedef AW_JOIN(aw_poll_fn, aw_notified) post_and_wait;

AW_ASYNC(int, stays, post_and_wait both;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->both, aw_poll_fn_of(post_polled, NULL), aw_notify_wait(&leave));
    AW_RETURN(0);
    AW_END;
}

static void *stay(void *rt) {
    CHECK_EQ(aw_block_on((aw_runtime *)rt, AW_CALL(stays)), 0);
    return NULL;
}

AW_ASYNC(int, waits_for_the_other) {
    AW_BEGIN;
    aw_task_drop(aw_spawn(AW_CALL(background)));
    AW_YIELD;
    sem_wait(&follower_polls);
    AW_RETURN(0);
    AW_END;
}

TEST(the_last_thread_that_leaves_ends_the_tasks) {
    aw_runtime *rt = new_runtime(false);
    pthread_t thread;
    sem_init(&follower_polls, 0, 0);
    aw_runtime_hold(rt);
    CHECK_EQ(pthread_create(&thread, NULL, stay, rt), 0);
    sem_wait(&follower_polls);
    sem_post(&follower_polls);
    CHECK_EQ(aw_block_on(rt, AW_CALL(waits_for_the_other)), 0);
    sem_wait(&running);
    CHECK_EQ(cleaned, 0); /* the follower runs them now */
    aw_notify_one(&leave);
    pthread_join(thread, NULL);
    CHECK_EQ(cleaned, 1);
    aw_runtime_unhold(rt);
    aw_runtime_free(rt);
}
