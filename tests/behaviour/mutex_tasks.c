/* SPDX-License-Identifier: MIT
 *
 * Mutex and semaphore between tasks: mutual exclusion across awaits, cleanup, budget, reports. */
#include "support/workers.h"

/* ---- Mutual exclusion ------------------------------------------------------------------------ */

typedef struct shared {
    aw_mutex mutex;
    aw_semaphore semaphore;
    uint32_t inside; /* atomic */
    int sum;         /* guarded by the mutex */
} shared;

AW_ASYNC(int, adds, shared *s; int times; int i; int before; aw_mutex_lock_future lock;
         aw_yield pause;) {
    AW_BEGIN;
    for (self->i = 0; self->i < self->times; self->i++) {
        AW_AWAIT(self->lock, aw_mutex_lock(&self->s->mutex));
        CHECK_EQ(ADD(self->s->inside, 1), 0);
        self->before = self->s->sum;
        if (self->i % 4 == 0) AW_AWAIT(self->pause, aw_yield_now());
        self->s->sum = self->before + 1;
        CHECK_EQ(ADD(self->s->inside, -1), 1);
        aw_mutex_unlock(&self->s->mutex);
    }
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, fiber_adds, shared *s; int times;) {
    for (int i = 0; i < self->times; i++) {
        int err = aw_await(aw_mutex_lock(&self->s->mutex));
        if (err) return err;
        CHECK_EQ(ADD(self->s->inside, 1), 0);
        int before = self->s->sum;
        if (i % 4 == 0) aw_fiber_yield();
        self->s->sum = before + 1;
        CHECK_EQ(ADD(self->s->inside, -1), 1);
        aw_mutex_unlock(&self->s->mutex);
    }
    return 0;
}

static void thread_adds(void *arg, int index, uint64_t *random) {
    shared *s = arg;
    (void)index;
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(aw_wait(aw_mutex_lock(&s->mutex)), 0);
        CHECK_EQ(ADD(s->inside, 1), 0);
        s->sum++;
        jitter(random);
        CHECK_EQ(ADD(s->inside, -1), 1);
        aw_mutex_unlock(&s->mutex);
    }
}

/* The tasks of one runtime. Each team is joined from its own thread: a current-thread runtime
 * that no thread runs could be handed the mutex and keep it. */
enum { EACH = 3, TIMES = 100 };
typedef struct team {
    aw_runtime *rt;
    struct adds *a[EACH];
    struct fiber_adds *b[EACH];
} team;

static void team_begin(team *t, aw_runtime *rt, shared *s) {
    t->rt = rt;
    for (int i = 0; i < EACH; i++) {
        t->a[i] = aw_spawn_on(rt, AW_CALL(adds, .s = s, .times = TIMES));
        t->b[i] = aw_spawn_on(rt, AW_CALL(fiber_adds, .s = s, .times = TIMES));
    }
}
static void *team_run(void *arg) {
    team *t = arg;
    for (int i = 0; i < EACH; i++) {
        must_finish(t->rt, &t->a[i]->future);
        must_finish(t->rt, &t->b[i]->future);
        CHECK_EQ(aw_task_take(t->a[i]), 0);
        CHECK_EQ(aw_task_take(t->b[i]), 0);
    }
    workers_end(t->rt, NULL);
    return NULL;
}

/* Tasks and fibers of two runtimes, and plain threads. */
ON_BOTH(tasks_fibers_and_threads_exclude_each_other) {
    uint64_t random = test_seed();
    shared s = {.mutex = AW_MUTEX_INIT};
    team one, two;
    thread_group threads;
    thread_group_create(&threads, 3, &random, thread_adds, &s);
    team_begin(&one, new_runtime(workers, NULL, NULL), &s);
    team_begin(&two, workers_new(2, NULL, NULL), &s);
    thread_group_go(&threads);
    pthread_t runner = thread_start(team_run, &one);
    team_run(&two);
    thread_end(runner);
    thread_group_join(&threads);
    CHECK_EQ(s.sum, 4 * EACH * TIMES + 3 * 100);
    CHECK_EQ(s.mutex.word, 0);
}

/* ---- Cleanup --------------------------------------------------------------------------------- */

AW_ASYNC(int, holds, aw_mutex *m; uint32_t * has; aw_mutex_lock_future lock; aw_never forever;) {
    AW_BEGIN;
    AW_AWAIT(self->lock, aw_mutex_lock(self->m));
    STORE(*self->has, 1);
    AW_AWAIT(self->forever, aw_never_ready());
    AW_FINALLY;
    if (aw_future_finished(&self->lock.future)) aw_mutex_unlock(self->m);
    AW_END;
}

AW_FIBER(int, fiber_holds, aw_mutex *m; uint32_t * has;) {
    int err = aw_await(aw_mutex_lock(self->m));
    if (err) return err;
    STORE(*self->has, 1);
    err = aw_await(aw_never_ready());
    aw_mutex_unlock(self->m);
    return err;
}

ON_BOTH(a_holder_that_is_cancelled_unlocks_in_its_cleanup) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    aw_mutex m = AW_MUTEX_INIT;
    uint32_t has = 0, has_too = 0, last = 0;
    struct holds *a = aw_spawn_on(rt, AW_CALL(holds, .m = &m, .has = &has));
    run_a_while(rt);
    CHECK_EQ(LOAD(has), 1);
    struct fiber_holds *b = aw_spawn_on(rt, AW_CALL(fiber_holds, .m = &m, .has = &has_too));
    run_a_while(rt);
    struct holds *c = aw_spawn_on(rt, AW_CALL(holds, .m = &m, .has = &last));
    run_a_while(rt);
    CHECK_EQ(LOAD(has_too) + LOAD(last), 0);
    aw_task_abort(a);
    CHECK_EQ(JOIN_STATUS(rt, a), -ECANCELED);
    run_a_while(rt);
    CHECK_EQ(LOAD(has_too), 1);
    aw_task_abort(b);
    CHECK_EQ(JOIN_STATUS(rt, b), -ECANCELED);
    run_a_while(rt);
    CHECK_EQ(LOAD(last), 1);
    aw_task_abort(c);
    CHECK_EQ(JOIN_STATUS(rt, c), -ECANCELED);
    CHECK_EQ(m.word, 0);
    aw_task_drop(a);
    aw_task_drop(b);
    aw_task_drop(c);
    workers_end(rt, NULL);
}

/* ---- A task and its own mutex ---------------------------------------------------------------- */

AW_ASYNC(int, takes_twice, aw_mutex *m; aw_mutex_lock_future lock;) {
    AW_BEGIN;
    AW_AWAIT(self->lock, aw_mutex_lock(self->m));
    AW_AWAIT(self->lock, aw_mutex_lock(self->m));
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(a_task_that_waits_for_its_own_mutex_is_reported) {
    kept_log log = KEPT_LOG;
    aw_mutex m = AW_MUTEX_INIT;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    struct takes_twice *t = aw_spawn_on(rt, AW_CALL(takes_twice, .m = &m));
    uint64_t id = 0;
    run_a_while(rt);
    CHECK_EQ(log_count(&log, "waits only for what it holds itself"), 1);
    CHECK_EQ(log_count(&log, "'takes_twice'"), 1);
    CHECK_EQ(log_count(&log, "taken at tests/behaviour/mutex_tasks.c"), 1);
    CHECK(aw_mutex_holder(&m, &id) != NULL);
    CHECK_EQ(id, aw_task_id(t));
    aw_task_abort(t);
    CHECK_EQ(JOIN_STATUS(rt, t), -ECANCELED);
    aw_task_drop(t);
    workers_end(rt, NULL);
}

/* Waits for its own mutex, but the wait ends in the poll in which it began. Then it waits for
 * something else. */
AW_ASYNC(int, waits_in_vain, aw_mutex *m; aw_notify * go; bool again; aw_mutex_lock_future lock;
         AW_SELECT(aw_mutex_lock_future, aw_ready) s; aw_notified wait;) {
    AW_BEGIN;
    AW_AWAIT(self->lock, aw_mutex_lock(self->m));
    AW_AWAIT_SELECT_BIASED(self->s, aw_mutex_lock(self->m), aw_ready_now(0));
    CHECK_EQ(aw_select_winner(&self->s), 1);
    if (self->again) AW_AWAIT(self->lock, aw_mutex_lock(self->m));
    AW_AWAIT(self->wait, aw_notify_wait(self->go));
    aw_mutex_unlock(self->m);
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(a_wait_for_its_own_mutex_that_ended_in_the_same_poll_is_not_reported) {
    kept_log log = KEPT_LOG;
    aw_mutex m = AW_MUTEX_INIT;
    aw_notify go = AW_NOTIFY_INIT;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    struct waits_in_vain *t = aw_spawn_on(rt, AW_CALL(waits_in_vain, .m = &m, .go = &go));
    run_a_while(rt);
    CHECK_EQ(log.length, 0);
    aw_notify_one(&go);
    CHECK_EQ(JOIN_STATUS(rt, t), 0);
    CHECK_EQ(log.length, 0);
    aw_task_drop(t);
    workers_end(rt, NULL);
}

ON_BOTH(a_wait_for_its_own_mutex_behind_one_that_ended_in_the_same_poll_is_reported) {
    kept_log log = KEPT_LOG;
    aw_mutex m = AW_MUTEX_INIT;
    aw_notify go = AW_NOTIFY_INIT;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    struct waits_in_vain *t = aw_spawn_on(
        rt, AW_CALL(waits_in_vain, .m = &m, .go = &go, .again = true));
    run_a_while(rt);
    CHECK_EQ(log_count(&log, "waits only for what it holds itself"), 1);
    aw_task_abort(t);
    CHECK_EQ(JOIN_STATUS(rt, t), -ECANCELED);
    aw_task_drop(t);
    workers_end(rt, NULL);
}

/* Holds the mutex until it is notified. */
AW_ASYNC(int, holds_until, aw_mutex *m; aw_notify * go; uint32_t * has; aw_mutex_lock_future lock;
         aw_notified wait;) {
    AW_BEGIN;
    AW_AWAIT(self->lock, aw_mutex_lock(self->m));
    STORE(*self->has, 1);
    AW_AWAIT(self->wait, aw_notify_wait(self->go));
    aw_mutex_unlock(self->m);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, takes_after, aw_mutex *m; aw_notify * go; aw_notified wait;
         aw_mutex_lock_future lock;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, aw_notify_wait(self->go));
    AW_AWAIT(self->lock, aw_mutex_lock(self->m));
    aw_mutex_unlock(self->m);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, passes_it_on, aw_mutex *m; aw_notify * go; uint32_t * has;
         AW_JOIN(struct takes_after, struct holds_until) both;) {
    AW_BEGIN;
    AW_AWAIT_JOIN_BIASED(self->both, AW_CALL(takes_after, .m = self->m, .go = self->go),
                         AW_CALL(holds_until, .m = self->m, .go = self->go, .has = self->has));
    AW_RETURN(0);
    AW_END;
}

/* In one poll, one branch queues for the task's own mutex behind another task, and another
 * branch unlocks it. */
ON_BOTH(a_mutex_that_went_to_another_task_in_the_same_poll_is_not_its_own) {
    kept_log log = KEPT_LOG;
    aw_mutex m = AW_MUTEX_INIT;
    aw_notify go = AW_NOTIFY_INIT, end = AW_NOTIFY_INIT;
    uint32_t has = 0, other_has = 0;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    struct passes_it_on *t = aw_spawn_on(rt,
                                         AW_CALL(passes_it_on, .m = &m, .go = &go, .has = &has));
    run_a_while(rt);
    CHECK_EQ(LOAD(has), 1);
    struct holds_until *other = aw_spawn_on(
        rt, AW_CALL(holds_until, .m = &m, .go = &end, .has = &other_has));
    run_a_while(rt);
    CHECK_EQ(LOAD(other_has), 0);
    aw_notify_waiters(&go);
    run_a_while(rt);
    CHECK_EQ(LOAD(other_has), 1);
    CHECK_EQ(log.length, 0);
    aw_notify_one(&end);
    CHECK_EQ(JOIN_STATUS(rt, t), 0);
    CHECK_EQ(JOIN_STATUS(rt, other), 0);
    aw_task_drop(t);
    aw_task_drop(other);
    workers_end(rt, NULL);
}

/* Two branches of one task: the branch that waits is woken by the other one. */
AW_ASYNC(int, shares_with_itself, shared *s; struct adds a; struct adds b;
         AW_JOIN(struct adds, struct adds) both;) {
    AW_BEGIN;
    AW_AWAIT(self->both,
             AW_JOIN_OF(__typeof__(self->both), AW_CALL(adds, .s = self->s, .times = 50),
                        AW_CALL(adds, .s = self->s, .times = 50)));
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(two_branches_of_a_task_may_share_a_mutex) {
    kept_log log = KEPT_LOG;
    shared s = {.mutex = AW_MUTEX_INIT};
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    CHECK_EQ(RUN(rt, AW_CALL(shares_with_itself, .s = &s)), 0);
    CHECK_EQ(s.sum, 100);
    CHECK_EQ(log.length, 0);
    workers_end(rt, NULL);
}

/* ---- Budget ---------------------------------------------------------------------------------- */

AW_ASYNC(int, greedy, shared *s; int n; bool semaphore; uint32_t * stop; aw_mutex_lock_future lock;
         aw_acquire acquire;) {
    AW_BEGIN;
    for (; !LOAD(*self->stop); self->n++) {
        if (self->semaphore) {
            AW_AWAIT(self->acquire, aw_semaphore_acquire(&self->s->semaphore, 1));
            aw_semaphore_release(&self->s->semaphore, 1);
        } else {
            AW_AWAIT(self->lock, aw_mutex_lock(&self->s->mutex));
            aw_mutex_unlock(&self->s->mutex);
        }
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, stops, uint32_t *stop;) {
    AW_BEGIN;
    STORE(*self->stop, 1);
    AW_RETURN(0);
    AW_END;
}

static void lets_others_run(uint32_t workers, bool semaphore) {
    shared s = {.mutex = AW_MUTEX_INIT, .semaphore = AW_SEMAPHORE_INIT(1)};
    uint32_t stop = 0;
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    struct greedy *g = aw_spawn_on(rt,
                                   AW_CALL(greedy, .s = &s, .semaphore = semaphore, .stop = &stop));
    CHECK_EQ(RUN(rt, AW_CALL(stops, .stop = &stop)), 0);
    must_finish(rt, &g->future);
    aw_task_drop(g);
    workers_end(rt, NULL);
}

ON_BOTH(a_loop_over_a_free_mutex_lets_others_run) {
    lets_others_run(workers, false);
}
ON_BOTH(a_loop_over_a_free_semaphore_lets_others_run) {
    lets_others_run(workers, true);
}
