/* SPDX-License-Identifier: MIT
 *
 * Condvar: no signal is lost, and the mutex is held again however a wait ends. */
#include "support/by_hand.h"
#include "support/workers.h"

enum { CROWD = 30 }; /* more than one wake batch */

TEST(a_wait_releases_the_mutex_and_holds_it_again_when_it_ends) {
    aw_condvar c = AW_CONDVAR_INIT;
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag flag = {0};
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    aw_condvar_wait_future w = aw_condvar_wait(&c, &m);
    CHECK_EQ(POLL(&w, &flag), AW_PENDING);
    CHECK(!aw_mutex_is_locked(&m));
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    aw_condvar_signal(&c);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&w, &flag), AW_PENDING); /* signalled, but without the mutex */
    char text[512];
    aw_future_describe(&w.future, text, sizeof text);
    CHECK_CONTAINS(text, "condvar_wait");
    CHECK_CONTAINS(text, "mutex_lock");
    aw_mutex_unlock(&m);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&w, &flag), AW_READY);
    CHECK_EQ(w.out, 0);
    CHECK(aw_mutex_is_locked(&m));
    aw_mutex_unlock(&m);
    CHECK(!aw_mutex_is_locked(&m));
}

TEST(a_signal_goes_to_the_longest_waiter_or_has_no_effect) {
    aw_condvar c = AW_CONDVAR_INIT;
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag flags[3] = {{0}};
    aw_condvar_wait_future w[3];
    aw_condvar_signal(&c); /* no waiter: it has no effect */
    for (int i = 0; i < 3; i++) {
        w[i] = aw_condvar_wait(&c, &m);
        CHECK_EQ(aw_mutex_try_lock(&m), 0);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    for (int i = 0; i < 3; i++) {
        aw_condvar_signal(&c);
        for (int k = 0; k < 3; k++)
            CHECK_EQ(aw_flag_take(&flags[k]), k == i);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
        aw_mutex_unlock(&m);
    }
}

TEST(a_broadcast_wakes_all_that_wait_one_after_the_other) {
    static aw_condvar_wait_future w[CROWD];
    static aw_flag flags[CROWD];
    aw_condvar c = AW_CONDVAR_INIT;
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag flag = {0};
    for (int i = 0; i < CROWD; i++) {
        w[i] = aw_condvar_wait(&c, &m);
        CHECK_EQ(aw_mutex_try_lock(&m), 0);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    aw_condvar_broadcast(&c);
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    aw_condvar_wait_future late = aw_condvar_wait(&c, &m);
    CHECK_EQ(POLL(&late, &flag), AW_PENDING);
    for (int i = 0; i < CROWD; i++) {
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&w[i], &flags[i]), i == 0 ? AW_READY : AW_PENDING);
    }
    for (int i = 0; i < CROWD; i++) {
        if (i > 0) CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
        aw_mutex_unlock(&m);
    }
    CHECK_EQ(POLL(&late, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&late, &flag), AW_CANCELLED);
    aw_mutex_unlock(&m);
    CHECK(!c.waiters.first);
}

TEST(waiting_without_the_mutex_ends_the_program) {
    aw_condvar c = AW_CONDVAR_INIT;
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag flag = {0};
    aw_condvar_wait_future w = aw_condvar_wait(&c, &m);
    DIES(POLL(&w, &flag), "a mutex was unlocked that is not locked");
}

/* ---- Cancelling ------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_condvar_wait */

TEST(a_wait_that_was_never_polled_does_not_touch_the_mutex) {
    aw_condvar c = AW_CONDVAR_INIT;
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag flag = {0};
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    aw_condvar_wait_future w = aw_condvar_wait(&c, &m);
    CHECK_EQ(CANCEL(&w, &flag), AW_CANCELLED);
    CHECK(aw_mutex_is_locked(&m));
    aw_mutex_unlock(&m);
}

TEST(a_cancelled_wait_takes_the_mutex_again_before_it_is_gone) {
    aw_condvar c = AW_CONDVAR_INIT;
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag flag = {0}, other = {0};
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    aw_condvar_wait_future w = aw_condvar_wait(&c, &m);
    CHECK_EQ(POLL(&w, &flag), AW_PENDING);
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    CHECK_EQ(CANCEL(&w, &flag), AW_PENDING);
    CHECK(!c.waiters.first);
    aw_condvar_signal(&c); /* no longer reaches this wait */
    CHECK(!aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&w, &other), AW_PENDING); /* again, with another waker */
    aw_mutex_unlock(&m);
    CHECK(aw_flag_take(&other) && !aw_flag_take(&flag));
    CHECK_EQ(aw_mutex_try_lock(&m), -EAGAIN);
    CHECK_EQ(CANCEL(&w, &flag), AW_CANCELLED);
    DIES(CANCEL(&w, &flag), "cancelled after it had been cancelled");
    CHECK(aw_mutex_is_locked(&m));
    aw_mutex_unlock(&m);
    CHECK_EQ(m.word, 0);
}

TEST(a_signal_to_a_wait_that_is_then_cancelled_is_passed_on) {
    for (int polled = 0; polled < 2; polled++) {
        aw_condvar c = AW_CONDVAR_INIT;
        aw_mutex m = AW_MUTEX_INIT;
        aw_flag a = {0}, b = {0};
        aw_condvar_wait_future first = aw_condvar_wait(&c, &m), second = aw_condvar_wait(&c, &m);
        CHECK_EQ(aw_mutex_try_lock(&m), 0);
        CHECK_EQ(POLL(&first, &a), AW_PENDING);
        CHECK_EQ(aw_mutex_try_lock(&m), 0);
        CHECK_EQ(POLL(&second, &b), AW_PENDING);
        CHECK_EQ(aw_mutex_try_lock(&m), 0);
        aw_condvar_signal(&c);
        if (polled) CHECK_EQ(POLL(&first, &a), AW_PENDING); /* it waits for the mutex */
        CHECK_EQ(CANCEL(&first, &a), AW_PENDING);
        aw_mutex_unlock(&m);
        CHECK_EQ(CANCEL(&first, &a), AW_READY); /* it has the signal and the mutex */
        CHECK_EQ(first.out, 0);
        CHECK(!aw_flag_take(&b));
        aw_future_discard(&first.future);
        CHECK(aw_flag_take(&b));
        CHECK(aw_mutex_is_locked(&m)); /* the caller of the discarded wait holds the mutex */
        aw_mutex_unlock(&m);
        CHECK_EQ(POLL(&second, &b), AW_READY);
        aw_mutex_unlock(&m);
        CHECK_EQ(m.word, 0);
    }
}

TEST(a_broadcast_is_not_passed_on) {
    aw_condvar c = AW_CONDVAR_INIT;
    aw_mutex m = AW_MUTEX_INIT;
    aw_flag a = {0}, b = {0};
    aw_condvar_wait_future first = aw_condvar_wait(&c, &m), late = aw_condvar_wait(&c, &m);
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    CHECK_EQ(POLL(&first, &a), AW_PENDING);
    aw_condvar_broadcast(&c);
    CHECK_EQ(aw_mutex_try_lock(&m), 0);
    CHECK_EQ(POLL(&late, &b), AW_PENDING);
    CHECK_EQ(CANCEL(&first, &a), AW_READY);
    aw_future_discard(&first.future);
    aw_mutex_unlock(&m);
    CHECK(!aw_flag_take(&b));
    CHECK_EQ(CANCEL(&late, &b), AW_CANCELLED);
    aw_mutex_unlock(&m);
}

/* ---- A queue with one slot -------------------------------------------------------------------- */

typedef struct box {
    aw_mutex m;
    aw_condvar filled, emptied;
    bool full; /* guarded */
    int value, sum, taken;
} box;

AW_ASYNC(int, puts, box *b; int n; int i; aw_mutex_lock_future lock; aw_condvar_wait_future wait;) {
    AW_BEGIN;
    for (self->i = 1; self->i <= self->n; self->i++) {
        AW_AWAIT(self->lock, aw_mutex_lock(&self->b->m));
        while (self->b->full)
            AW_AWAIT(self->wait, aw_condvar_wait(&self->b->emptied, &self->b->m));
        self->b->full = true;
        self->b->value = self->i;
        aw_condvar_signal(&self->b->filled);
        aw_mutex_unlock(&self->b->m);
    }
    AW_RETURN(0);
    AW_END;
}

/* Some of its waits time out: the mutex is held again, and no signal is lost. */
AW_ASYNC(int, gets, box *b; int n; uint64_t random; bool holds; aw_mutex_lock_future lock;
         AW_TIMEOUT(aw_condvar_wait_future) wait;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->lock, aw_mutex_lock(&self->b->m));
        self->holds = true;
        while (!self->b->full && self->b->taken < self->n)
            AW_AWAIT_FOR(self->wait, test_random(&self->random) % AW_USEC(100),
                         aw_condvar_wait(&self->b->filled, &self->b->m));
        if (self->b->taken == self->n) break;
        self->b->full = false;
        self->b->sum += self->b->value;
        self->b->taken++;
        aw_condvar_signal(&self->b->emptied);
        if (self->b->taken == self->n) aw_condvar_broadcast(&self->b->filled);
        self->holds = false;
        aw_mutex_unlock(&self->b->m);
    }
    AW_RETURN(0);
    AW_FINALLY;
    if (self->holds) aw_mutex_unlock(&self->b->m);
    AW_END;
}

static void thread_puts(void *arg, int index, uint64_t *random) {
    box *b = arg;
    (void)index;
    for (int i = 1; i <= 100; i++) {
        CHECK_EQ(aw_wait(aw_mutex_lock(&b->m)), 0);
        while (b->full)
            aw_wait_for(test_random(random) % AW_USEC(100), aw_condvar_wait(&b->emptied, &b->m));
        b->full = true;
        b->value = i;
        aw_condvar_signal(&b->filled);
        aw_mutex_unlock(&b->m);
    }
}

enum { EACH = 3, N = 100, ALL = (EACH + 2) * N };

/* The main future of a runtime. A current-thread runtime must be run all the time, because one
 * of its tasks may be the next owner of the mutex. */
AW_ASYNC(int, team, box *b; uint64_t random; bool fills; int i; struct puts * p[EACH];
         struct gets * g[EACH]; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < EACH; i++) {
        self->g[i] = aw_spawn(
            AW_CALL(gets, .b = self->b, .n = ALL, .random = test_random(&self->random)));
        if (self->fills) self->p[i] = aw_spawn(AW_CALL(puts, .b = self->b, .n = N));
    }
    for (self->i = 0; self->i < EACH; self->i++) {
        if (self->fills) {
            AW_AWAIT(self->join, aw_task_join(self->p[self->i]));
            CHECK_EQ(aw_task_take(self->p[self->i]), 0);
        }
        AW_AWAIT(self->join, aw_task_join(self->g[self->i]));
        CHECK_EQ(aw_task_take(self->g[self->i]), 0);
    }
    AW_RETURN(0);
    AW_END;
}

static void *other_team(void *arg) {
    aw_runtime *rt = workers_new(2, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(team, .b = arg, .random = test_seed())), 0);
    workers_end(rt, NULL);
    return NULL;
}

ON_BOTH(no_signal_is_lost_between_unlock_and_wait) {
    uint64_t random = test_seed();
    box b = {.m = AW_MUTEX_INIT, .filled = AW_CONDVAR_INIT, .emptied = AW_CONDVAR_INIT};
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    thread_group threads;
    thread_group_create(&threads, 2, &random, thread_puts, &b);
    thread_group_go(&threads);
    pthread_t other = thread_start(other_team, &b);
    CHECK_EQ(RUN(rt, AW_CALL(team, .b = &b, .random = random, .fills = true)), 0);
    thread_end(other);
    thread_group_join(&threads);
    CHECK_EQ(b.sum, (EACH + 2) * N * (N + 1) / 2);
    CHECK_EQ(b.m.word, 0);
    CHECK(!b.filled.waiters.first && !b.emptied.waiters.first);
    workers_end(rt, NULL);
}

/* An aborted task unlocks in its cleanup, whether it was signalled or not. */
ON_BOTH(an_aborted_wait_holds_the_mutex_in_its_cleanup) {
    uint64_t random = test_seed();
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int i = 0; i < test_scale(200); i++) {
        box b = {.m = AW_MUTEX_INIT, .filled = AW_CONDVAR_INIT, .emptied = AW_CONDVAR_INIT};
        struct gets *g = aw_spawn_on(
            rt, AW_CALL(gets, .b = &b, .n = 1, .random = test_random(&random)));
        if (i % 2) run_a_while(rt);
        if (i % 3) aw_condvar_signal(&b.filled);
        aw_task_abort(g);
        CHECK_EQ(JOIN_STATUS(rt, g), -ECANCELED);
        aw_task_drop(g);
        CHECK_EQ(b.m.word, 0);
        CHECK(!b.filled.waiters.first);
    }
    workers_end(rt, NULL);
}
