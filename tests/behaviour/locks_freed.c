/* SPDX-License-Identifier: MIT
 *
 * A semaphore or mutex may be freed as soon as its last waiter has been served: neither the
 * thread that served the waiter nor one that is still inside a release or an unlock touches it
 * afterwards. The address sanitizer catches violations. */
#include "support/workers.h"

/* ---- A semaphore in the memory that it guards ------------------------------------------------ */

typedef struct job {
    aw_semaphore done;
    uint32_t users; /* atomic: the last user frees the memory */
} job;

static void job_put(job *j) {
    if (ADD(j->users, -1) == 1) free(j);
}

static job *job_of(uint32_t users) {
    job *j = malloc(sizeof *j);
    CHECK(j != NULL);
    *j = (job){.done = AW_SEMAPHORE_INIT(0), .users = users};
    return j;
}

/* Two threads release one permit each; the thread that acquires both frees the job. */
static job *current; /* atomic */

static void release_current(void *arg, int index, uint64_t *random) {
    (void)arg, (void)index;
    jitter(random);
    CHECK_EQ(aw_semaphore_release(&LOAD(current)->done, 1), 0);
}

TEST(a_semaphore_may_be_freed_by_the_waiter_for_all_permits) {
    uint64_t random = test_seed();
    for (int i = 0; i < test_scale(300); i++) {
        thread_group threads;
        STORE(current, job_of(1));
        thread_group_create(&threads, 2, &random, release_current, NULL);
        thread_group_go(&threads);
        job *j = LOAD(current);
        /* Timed-out waits leave the queue empty while a release is about to walk it. */
        if (i % 2)
            while (aw_wait_for(0, aw_semaphore_acquire(&j->done, 2)) == -ETIMEDOUT)
                ;
        else
            CHECK_EQ(aw_wait(aw_semaphore_acquire(&j->done, 2)), 0);
        job_put(j);
        thread_group_join(&threads);
    }
}

/* One release wakes twelve threads, more than one batch of wakes. Some of them time out. */
enum { CROWD = 8 };

static void wait_in_crowd(void *arg, int index, uint64_t *random) {
    job *j = arg;
    uint64_t patience = index < 3 ? test_random(random) % AW_USEC(100) : AW_FOREVER;
    int r = aw_wait_for(patience, aw_semaphore_acquire(&j->done, 1));
    if (r) CHECK_EQ(r, -ETIMEDOUT);
    /* A thread that timed out takes its permit later. Once it is available the release is
     * complete. */
    if (r)
        while (aw_semaphore_try_acquire(&j->done, 1))
            sched_yield();
    job_put(j);
}

TEST(a_semaphore_may_be_freed_by_the_last_of_many_waiters) {
    uint64_t random = test_seed();
    for (int i = 0; i < test_scale(100); i++) {
        thread_group threads, more;
        job *j = job_of(CROWD + 4);
        thread_group_create(&threads, CROWD, &random, wait_in_crowd, j);
        thread_group_create(&more, 4, &random, wait_in_crowd, j);
        thread_group_go(&threads);
        thread_group_go(&more);
        for (int k = 0; k < 20; k++)
            jitter(&random);
        CHECK_EQ(aw_semaphore_release(&j->done, CROWD + 4), 0);
        thread_group_join(&threads);
        thread_group_join(&more);
    }
}

/* ---- A mutex in the object that it guards ---------------------------------------------------- */

typedef struct object {
    aw_mutex mutex;
    int users; /* guarded by the mutex */
} object;

/* Drops one reference. The last user frees the object after it has unlocked the mutex. */
static void object_put(object *o) {
    bool last = --o->users == 0;
    aw_mutex_unlock(&o->mutex);
    if (last) free(o);
}

static void use_object(void *arg, int index, uint64_t *random) {
    object *o = arg;
    (void)index;
    while (aw_wait_for(test_random(random) % AW_USEC(20), aw_mutex_lock(&o->mutex)))
        ; /* leaves the queue, often while an unlock is about to hand the mutex over */
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
    for (int i = 0; i < stress_rounds(100); i++) {
        object *o = malloc(sizeof *o);
        CHECK(o != NULL);
        *o = (object){.mutex = AW_MUTEX_INIT, .users = THREADS + TASKS};
        struct task_uses_object *h[TASKS];
        thread_group threads;
        thread_group_create(&threads, THREADS, &random, use_object, o);
        thread_group_go(&threads);
        for (int k = 0; k < TASKS; k++)
            h[k] = aw_spawn_on(rt, AW_CALL(task_uses_object, .o = o));
        for (int k = 0; k < TASKS; k++) {
            must_finish(rt, &h[k]->future);
            aw_task_drop(h[k]);
        }
        thread_group_join(&threads);
    }
    workers_end(rt, NULL);
}
