/* SPDX-License-Identifier: MIT
 *
 * Random tasks on workers and plain threads acquire semaphores, mutexes and rwlocks, wait on
 * condvars, time out, are aborted, and release what they hold. A ledger counts what is held at each
 * moment: never more than exists, and nothing at the end. Many seeds. */
#include "support/workers.h"

enum { PERMITS = 5, TASKS = 12, STEPS = 40 };

typedef struct world {
    aw_semaphore semaphore;
    aw_mutex mutex;
    aw_rwlock rwlock;
    aw_condvar changed;
    uint32_t permits, locked, readers, writers; /* atomic: what is held now */
    uint32_t changes;                           /* guarded by the mutex */
} world;

/* ---- The ledger ------------------------------------------------------------------------------ */

static void took_permits(world *w, uint32_t n) {
    CHECK_LE(ADD(w->permits, n) + n, PERMITS);
}
static void release_permits(world *w, uint32_t n) {
    ADD(w->permits, -n);
    CHECK_EQ(aw_semaphore_release(&w->semaphore, n), 0);
}
static void took_mutex(world *w) {
    CHECK_EQ(ADD(w->locked, 1), 0);
    w->changes++;
}
static void unlock_mutex(world *w) {
    ADD(w->locked, -1);
    aw_mutex_unlock(&w->mutex);
}
static void took_rwlock(world *w, bool write) {
    ADD(*(write ? &w->writers : &w->readers), 1);
    if (write) CHECK_EQ(LOAD(w->readers), 0);
    CHECK_EQ(LOAD(w->writers), write ? 1 : 0);
}
static void unlock_rwlock(world *w, bool write) {
    ADD(*(write ? &w->writers : &w->readers), -1);
    write ? aw_rwlock_write_unlock(&w->rwlock) : aw_rwlock_read_unlock(&w->rwlock);
}

static void check_nothing_is_held(world *w) {
    CHECK_EQ(w->permits + w->locked + w->readers + w->writers, 0);
    CHECK_EQ(aw_semaphore_available(&w->semaphore), PERMITS);
    CHECK(!w->semaphore.waiters.first && !w->mutex.waiters.first && !w->changed.waiters.first);
    CHECK_EQ(w->mutex.word, 0);
    CHECK_EQ(aw_rwlock_readers(&w->rwlock), 0);
    CHECK(!w->rwlock.permits.waiters.first);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

typedef AW_TIMEOUT(aw_acquire) timed_acquire;
typedef AW_TIMEOUT(aw_mutex_lock_future) timed_lock;
typedef AW_TIMEOUT(aw_rwlock_future) timed_rwlock;
typedef AW_TIMEOUT(aw_condvar_wait_future) timed_wait;

AW_ASYNC(int, uses_semaphore, world *w; uint64_t random; uint32_t n; uint32_t has; aw_yield pause;
         timed_acquire acquire;) {
    AW_BEGIN;
    self->n = 1 + (uint32_t)(self->random % PERMITS);
    AW_AWAIT_FOR(self->acquire,
                 self->random >> 8 & 1 ? AW_SEC(100) : AW_USEC(self->random >> 16 & 63),
                 aw_semaphore_acquire(&self->w->semaphore, self->n));
    if (self->acquire.out == 0) {
        self->has = self->n;
        took_permits(self->w, self->has);
        AW_AWAIT(self->pause, aw_yield_now());
    }
    AW_RETURN(0);
    AW_FINALLY;
    if (self->has) release_permits(self->w, self->has);
    AW_END;
}

AW_ASYNC(int, uses_mutex, world *w; uint64_t random; bool has; aw_yield pause; timed_lock lock;
         timed_wait wait;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->lock, self->random >> 8 & 1 ? AW_SEC(100) : AW_USEC(self->random >> 16 & 63),
                 aw_mutex_lock(&self->w->mutex));
    if (self->lock.out == 0) {
        self->has = true;
        took_mutex(self->w);
        if (self->random >> 9 & 1) {
            ADD(self->w->locked, -1); /* released during the wait; held again however it ends */
            AW_AWAIT_FOR(self->wait, AW_USEC(self->random >> 24 & 127),
                         aw_condvar_wait(&self->w->changed, &self->w->mutex));
            took_mutex(self->w);
        } else {
            AW_AWAIT(self->pause, aw_yield_now());
            aw_condvar_signal(&self->w->changed);
        }
    }
    AW_RETURN(0);
    AW_FINALLY;
    if (self->has) {
        /* Aborted during the condvar wait: the mutex is held again, and not yet noted. */
        if (aw_future_ended(&self->wait.future) && !aw_future_finished(&self->wait.future))
            took_mutex(self->w);
        unlock_mutex(self->w);
    }
    AW_END;
}

AW_ASYNC(int, uses_rwlock, world *w; uint64_t random; bool write; bool has; aw_yield pause;
         timed_rwlock lock;) {
    AW_BEGIN;
    self->write = self->random % 4 == 0;
    AW_AWAIT_FOR(self->lock, self->random >> 8 & 1 ? AW_SEC(100) : AW_USEC(self->random >> 16 & 63),
                 self->write ? aw_rwlock_write(&self->w->rwlock)
                             : aw_rwlock_read(&self->w->rwlock));
    if (self->lock.out == 0) {
        self->has = true;
        took_rwlock(self->w, self->write);
        AW_AWAIT(self->pause, aw_yield_now());
        if (self->write && self->random >> 10 & 1) {
            ADD(self->w->writers, -1);
            ADD(self->w->readers, 1);
            self->write = false;
            aw_rwlock_downgrade(&self->w->rwlock);
            AW_AWAIT(self->pause, aw_yield_now());
        }
    }
    AW_RETURN(0);
    AW_FINALLY;
    if (self->has) unlock_rwlock(self->w, self->write);
    AW_END;
}

AW_ASYNC(int, wanders, world *w; uint64_t random; int i;
         AW_SHARE(struct uses_semaphore s; struct uses_mutex m; struct uses_rwlock r;);) {
    AW_BEGIN;
    for (self->i = 0; self->i < STEPS; self->i++) {
        test_random(&self->random);
        if (self->i % 3 == 0)
            AW_AWAIT(self->s,
                     AW_CALL(uses_semaphore, .w = self->w, .random = test_random(&self->random)));
        else if (self->i % 3 == 1)
            AW_AWAIT(self->m,
                     AW_CALL(uses_mutex, .w = self->w, .random = test_random(&self->random)));
        else
            AW_AWAIT(self->r,
                     AW_CALL(uses_rwlock, .w = self->w, .random = test_random(&self->random)));
    }
    AW_RETURN(0);
    AW_END;
}

/* ---- Plain threads --------------------------------------------------------------------------- */

static uint64_t random_timeout(uint64_t *random) {
    return chance(random, 2) ? AW_FOREVER : test_random(random) % AW_USEC(50);
}

static void thread_wanders(void *arg, int index, uint64_t *random) {
    world *w = arg;
    (void)index;
    for (int i = 0; i < STEPS; i++) {
        uint32_t n = 1 + (uint32_t)(test_random(random) % PERMITS);
        bool write = chance(random, 4);
        if (i % 3 == 0 &&
            aw_wait_for(random_timeout(random), aw_semaphore_acquire(&w->semaphore, n)) == 0) {
            took_permits(w, n);
            jitter(random);
            release_permits(w, n);
        } else if (i % 3 == 1 &&
                   aw_wait_for(random_timeout(random), aw_mutex_lock(&w->mutex)) == 0) {
            took_mutex(w);
            aw_condvar_broadcast(&w->changed);
            jitter(random);
            unlock_mutex(w);
        } else if (i % 3 == 2 &&
                   aw_wait_for(random_timeout(random), write ? aw_rwlock_write(&w->rwlock)
                                                             : aw_rwlock_read(&w->rwlock)) == 0) {
            took_rwlock(w, write);
            jitter(random);
            unlock_rwlock(w, write);
        }
    }
}

static void one_world(aw_runtime *rt, uint64_t seed) {
    world w = {.semaphore = AW_SEMAPHORE_INIT(PERMITS),
               .mutex = AW_MUTEX_INIT,
               .rwlock = AW_RWLOCK_INIT,
               .changed = AW_CONDVAR_INIT};
    struct wanders *h[TASKS];
    thread_group threads;
    thread_group_create(&threads, 3, &seed, thread_wanders, &w);
    for (int i = 0; i < TASKS; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(wanders, .w = &w, .random = test_random(&seed)));
    thread_group_go(&threads);
    for (int i = 0; i < TASKS; i++) {
        jitter(&seed);
        if (i % 3 == 0) aw_task_abort(h[i]);
    }
    for (int i = 0; i < TASKS; i++) {
        int status = JOIN_STATUS(rt, h[i]);
        CHECK(status == 0 || (i % 3 == 0 && status == -ECANCELED));
        aw_task_drop(h[i]);
    }
    thread_group_join(&threads);
    check_nothing_is_held(&w);
}

ON_WORKERS_LIMIT(locks_never_grant_more_than_there_is_and_lose_nothing, 60) {
    kept_log log = KEPT_LOG;
    aw_runtime *rt = workers_new(workers, NULL, &log);
    for (int i = 0; i < stress_rounds(60); i++)
        one_world(rt, test_seed() + (uint64_t)i);
    if (log.length) FAIL("%s", log.text);
    workers_end(rt, NULL);
}
