/* SPDX-License-Identifier: MIT
 *
 * Mutexes that are locked in different orders are reported, once, with both locations. Compiled
 * into the test, because only some builds of the library have it. */
#ifndef AW_LOCK_ORDER
#define AW_LOCK_ORDER
#endif
#include "sync/lock_order.c"
#include "sync/mutex.c"

#include "support/workers.h"

enum { FIRST = __LINE__ + 5, SECOND = FIRST + 2 };

AW_ASYNC(int, both, aw_mutex *first; aw_mutex * second; aw_mutex_lock_future lock;
         aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->lock, aw_mutex_lock(self->first));
    AW_AWAIT(self->pause, aw_yield_now());
    AW_AWAIT(self->lock, aw_mutex_lock(self->second));
    aw_mutex_unlock(self->second);
    aw_mutex_unlock(self->first);
    AW_RETURN(0);
    AW_END;
}

static void run_both(aw_runtime *rt, aw_mutex *first, aw_mutex *second) {
    CHECK_EQ(RUN(rt, AW_CALL(both, .first = first, .second = second)), 0);
}

#define REPORT "mutexes are taken in different orders"

ON_BOTH(different_orders_are_reported_once_with_the_locations) {
    kept_log log = KEPT_LOG;
    aw_mutex a = AW_MUTEX_INIT, b = AW_MUTEX_INIT;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    run_both(rt, &a, &b);
    run_both(rt, &a, &b);
    CHECK_EQ(log.length, 0);
    run_both(rt, &b, &a);
    CHECK_EQ(log_count(&log, REPORT), 1);
    char first[64], second[64];
    snprintf(first, sizeof first, "tests/unit/lock_order.c:%d", FIRST);
    snprintf(second, sizeof second, "tests/unit/lock_order.c:%d", SECOND);
    CHECK_EQ(log_count(&log, first), 2);
    CHECK_EQ(log_count(&log, second), 2);
    run_both(rt, &b, &a);
    run_both(rt, &a, &b);
    CHECK_EQ(log_count(&log, REPORT), 1);
    CHECK_EQ(order.held_count, 0);
    workers_end(rt, NULL);
}

ON_BOTH(a_ring_of_three_is_reported) {
    kept_log log = KEPT_LOG;
    aw_mutex m[3] = {AW_MUTEX_INIT, AW_MUTEX_INIT, AW_MUTEX_INIT};
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    run_both(rt, &m[0], &m[1]);
    run_both(rt, &m[1], &m[2]);
    run_both(rt, &m[0], &m[2]);
    CHECK_EQ(log.length, 0);
    run_both(rt, &m[2], &m[0]);
    CHECK_EQ(log_count(&log, REPORT), 1);
    workers_end(rt, NULL);
}

AW_ASYNC(int, tries, aw_mutex *first; aw_mutex * second; aw_mutex_lock_future lock;) {
    AW_BEGIN;
    AW_AWAIT(self->lock, aw_mutex_lock(self->first));
    CHECK_EQ(aw_mutex_try_lock(self->second), 0);
    aw_mutex_unlock(self->first);
    aw_mutex_unlock(self->second);
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(a_try_lock_may_come_in_any_order) {
    kept_log log = KEPT_LOG;
    aw_mutex a = AW_MUTEX_INIT, b = AW_MUTEX_INIT;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    run_both(rt, &a, &b);
    CHECK_EQ(RUN(rt, AW_CALL(tries, .first = &b, .second = &a)), 0);
    CHECK_EQ(log.length, 0);
    workers_end(rt, NULL);
}

/* A new mutex in the memory of an old one has a new number. */
ON_BOTH(a_new_mutex_has_no_order_yet) {
    kept_log log = KEPT_LOG;
    aw_mutex a = AW_MUTEX_INIT, b = AW_MUTEX_INIT;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    run_both(rt, &a, &b);
    a = (aw_mutex)AW_MUTEX_INIT;
    run_both(rt, &b, &a);
    CHECK_EQ(log.length, 0);
    workers_end(rt, NULL);
}

/* Mutexes that different tasks hold at the same time have no order. */
AW_ASYNC(int, holds, aw_mutex *m; aw_notify * held; aw_notify * go; aw_mutex_lock_future lock;
         aw_notified wait;) {
    AW_BEGIN;
    AW_AWAIT(self->lock, aw_mutex_lock(self->m));
    aw_notify_one(self->held);
    AW_AWAIT(self->wait, aw_notify_wait(self->go));
    aw_mutex_unlock(self->m);
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(what_other_tasks_hold_is_no_order) {
    kept_log log = KEPT_LOG;
    aw_mutex a = AW_MUTEX_INIT, b = AW_MUTEX_INIT, c[2] = {AW_MUTEX_INIT, AW_MUTEX_INIT};
    aw_notify held = AW_NOTIFY_INIT, go = AW_NOTIFY_INIT;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    for (int i = 0; i < 2; i++) {
        struct holds *h = aw_spawn_on(rt,
                                      AW_CALL(holds, .m = i ? &a : &b, .held = &held, .go = &go));
        CHECK_EQ(aw_block_on(rt, aw_notify_wait(&held)), 0);
        run_both(rt, i ? &b : &a, &c[i]);
        aw_notify_one(&go);
        must_finish(rt, &h->future);
        aw_task_drop(h);
    }
    CHECK_EQ(log.length, 0);
    CHECK_EQ(order.held_count, 0);
    workers_end(rt, NULL);
}

/* ---- Plain threads, and full tables ---------------------------------------------------------- */

static void take_both(aw_mutex *first, aw_mutex *second) {
    CHECK_EQ(aw_wait(aw_mutex_lock(first)), 0);
    CHECK_EQ(aw_wait(aw_mutex_lock(second)), 0);
    aw_mutex_unlock(first);
    aw_mutex_unlock(second);
}

static void *take_both_of(void *arg) {
    aw_mutex *m = arg;
    take_both(&m[1], &m[0]);
    return NULL;
}

TEST(plain_threads_have_an_order_too) {
    kept_log log = KEPT_LOG;
    aw_mutex m[2] = {AW_MUTEX_INIT, AW_MUTEX_INIT};
    aw_set_log(keep_log, &log);
    take_both(&m[0], &m[1]);
    on_a_thread(take_both_of, m);
    CHECK_EQ(log_count(&log, REPORT), 1);
    aw_set_log(NULL, NULL);
}

TEST(full_tables_forget_and_do_no_harm) {
    enum { MANY = 700 };
    static aw_mutex m[MANY];
    kept_log log = KEPT_LOG;
    aw_set_log(keep_log, &log);
    for (int i = 0; i + 1 < MANY; i++)
        take_both(&m[i], &m[i + 1]);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(aw_mutex_try_lock(&m[i]), 0); /* more than the table can record */
    for (int i = 0; i < MANY; i++)
        aw_mutex_unlock(&m[i]);
    CHECK_EQ(order.held_count, 0);
    CHECK_EQ(log.length, 0);
    take_both(&m[1], &m[0]); /* this edge was forgotten */
    CHECK_EQ(log.length, 0);
    take_both(&m[MANY - 1], &m[MANY - 2]); /* this one was not */
    CHECK_EQ(log_count(&log, REPORT), 1);
    aw_set_log(NULL, NULL);
}
