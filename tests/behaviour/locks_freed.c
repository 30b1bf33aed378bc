/* SPDX-License-Identifier: MIT
 *
 * A semaphore or mutex may be gone as soon as the last one has had what it waited for: who gave it does not touch it
 * any more, and neither does who is still inside a release or an unlock. An address sanitizer sees it. */
#include "support/workers.h"

/* ---- A semaphore in the memory that it guards ------------------------------------------------- */

typedef struct job {
    aw_semaphore done;
    uint32_t left; /* atomic: who is last gives the memory back */
} job;

static void job_put(job *j) {
    if (ADD(j->left, -1) == 1) free(j);
}

static job *job_of(uint32_t users) {
    job *j = malloc(sizeof *j);
    CHECK(j != NULL);
    *j = (job){.done = AW_SEMAPHORE_INIT(0), .left = users};
    return j;
}

/* Two threads release; the one that has had both permits frees it. */
static job *current; /* atomic */

static void release_current(void *arg, int index, uint64_t *random) {
    (void)arg, (void)index;
    jitter(random);
    CHECK_EQ(aw_semaphore_release(&LOAD(current)->done, 1), 0);
}

TEST(a_semaphore_may_be_freed_by_the_one_that_waited_for_all) {
    uint64_t random = test_seed();
    for (int i = 0; i < test_scale(300); i++) {
        storm threads;
        STORE(current, job_of(1));
        storm_make(&threads, 2, &random, release_current, NULL);
        storm_go(&threads);
        job *j = LOAD(current);
        /* Waits that are given up leave the queue empty while a release is on its way to it. */
        if (i % 2)
            while (aw_wait_for(0, aw_semaphore_acquire(&j->done, 2)) == -ETIMEDOUT)
                ;
        else
            CHECK_EQ(aw_wait(aw_semaphore_acquire(&j->done, 2)), 0);
        job_put(j);
        storm_end(&threads);
    }
}

/* One release for twelve threads, some of which give up: more than are woken at a time. */
enum { CROWD = 8 };

static void wait_in_crowd(void *arg, int index, uint64_t *random) {
    job *j = arg;
    uint64_t patience = index < 3 ? test_random(random) % AW_USEC(100) : AW_FOREVER;
    int r = aw_wait_for(patience, aw_semaphore_acquire(&j->done, 1));
    if (r) CHECK_EQ(r, -ETIMEDOUT);
    /* Who gave up leaves its permit to be had by somebody: the release is over then. */
    if (r)
        while (aw_semaphore_try_acquire(&j->done, 1))
            sched_yield();
    job_put(j);
}

TEST(a_semaphore_may_be_freed_by_the_last_of_a_crowd) {
    uint64_t random = test_seed();
    for (int i = 0; i < test_scale(100); i++) {
        storm threads, more;
        job *j = job_of(CROWD + 4);
        storm_make(&threads, CROWD, &random, wait_in_crowd, j);
        storm_make(&more, 4, &random, wait_in_crowd, j);
        storm_go(&threads);
        storm_go(&more);
        for (int k = 0; k < 20; k++)
            jitter(&random);
        CHECK_EQ(aw_semaphore_release(&j->done, CROWD + 4), 0);
        storm_end(&threads);
        storm_end(&more);
    }
}

/* ---- A mutex in the object that it guards ----------------------------------------------------- */

typedef struct object {
    aw_mutex mutex;
    int users; /* guarded by the mutex */
} object;

/* Give up one's share; the last one frees the object, when it has unlocked. */
static void object_put(object *o) {
    bool last = --o->users == 0;
    aw_mutex_unlock(&o->mutex);
    if (last) free(o);
}

static void use_object(void *arg, int index, uint64_t *random) {
    object *o = arg;
    (void)index;
    while (aw_wait_for(test_random(random) % AW_USEC(20), aw_mutex_lock(&o->mutex)))
        ; /* leaves the queue, often while somebody is about to hand over */
    object_put(o);
}

AW_ASYNC(int, task_uses_object, object *o; aw_mutex_lock_future lock;) {
    AW_BEGIN;
    AW_AWAIT(self->lock, aw_mutex_lock(&self->o->mutex));
    object_put(self->o);
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(the_last_user_of_a_mutex_may_free_it) {
    enum { THREADS = 4, TASKS = 4 };
    uint64_t random = test_seed();
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int i = 0; i < storm_rounds(100); i++) {
        object *o = malloc(sizeof *o);
        CHECK(o != NULL);
        *o = (object){.mutex = AW_MUTEX_INIT, .users = THREADS + TASKS};
        struct task_uses_object *h[TASKS];
        storm threads;
        storm_make(&threads, THREADS, &random, use_object, o);
        storm_go(&threads);
        for (int k = 0; k < TASKS; k++)
            h[k] = aw_spawn_on(rt, AW_CALL(task_uses_object, .o = o));
        for (int k = 0; k < TASKS; k++) {
            must_finish(rt, &h[k]->future);
            aw_task_drop(h[k]);
        }
        storm_end(&threads);
    }
    workers_end(rt, NULL);
}
