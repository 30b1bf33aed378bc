/* SPDX-License-Identifier: MIT
 *
 * Handles, wakers, joins and channels of a runtime with workers outlive it: they stay valid,
 * none of its tasks runs any more, and dropping the last one frees the memory. */
#include "support/workers.h"

/* ---- Wakers ---------------------------------------------------------------------------------- */

typedef struct leftovers {
    aw_waker wakers[4];
    struct through *handles[4];
} leftovers;

static void use_leftovers(void *arg, int index, uint64_t *random) {
    leftovers *l = arg;
    for (int i = 0; i < test_scale(100); i++) {
        aw_waker a = aw_waker_clone(&l->wakers[index]), b = aw_waker_clone(&a);
        aw_waker_wake_by_ref(&l->wakers[index]);
        aw_waker_wake(b);
        if (chance(random, 2)) aw_task_abort(l->handles[index]);
        aw_waker_drop(a);
    }
    aw_waker_wake(l->wakers[index]);
    aw_task_drop(l->handles[index]);
}

/* Half of the tasks have finished, half are cancelled. All handles and wakers are used while the
 * runtime ends, or afterwards. */
static void end_among_users(uint32_t workers, bool meanwhile) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(60); round++) {
        memory m;
        thread_group s;
        gate g[4];
        leftovers l;
        aw_runtime *rt = workers_new(workers, &m, NULL);
        for (int i = 0; i < 4; i++) {
            g[i] = (gate)GATE;
            l.handles[i] = aw_spawn_on(rt, through(&g[i]));
            gate_wait(&g[i], 1);
            l.wakers[i] = gate_waker(&g[i]);
            if (i % 2) gate_open(&g[i]);
        }
        thread_group_create(&s, 4, &random, use_leftovers, &l);
        if (meanwhile) thread_group_go(&s);
        aw_runtime_free(rt);
        uint32_t ends = 0;
        for (int i = 0; i < 4; i++)
            ends += LOAD(g[i].ends);
        CHECK_EQ(ends, 4);
        int polls = g[0].polls + g[1].polls + g[2].polls + g[3].polls;
        if (!meanwhile) {
            CHECK_GE(memory_in_use(&m), 4); /* the tasks, and what they need */
            thread_group_go(&s);
        }
        thread_group_join(&s);
        CHECK_EQ(memory_in_use(&m), 0);
        CHECK_EQ(g[0].polls + g[1].polls + g[2].polls + g[3].polls, polls);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(g[i].discards, g[i].finished); /* the output was not taken */
    }
}

ON_WORKERS(wakers_and_handles_are_used_by_threads_after_the_end) {
    end_among_users(workers, false);
}
ON_WORKERS(wakers_and_handles_are_used_by_threads_while_it_ends) {
    end_among_users(workers, true);
}

/* ---- Outputs and joins ----------------------------------------------------------------------- */

ON_WORKERS(an_output_is_taken_after_the_end) {
    memory m;
    gate g = GATE;
    g.open = true;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    struct through *h = aw_spawn_on(rt, through(&g));
    WAIT_UNTIL(aw_task_is_finished(h));
    aw_runtime_free(rt);
    CHECK_EQ(aw_run(aw_task_join(h)), 0);
    CHECK_EQ(aw_task_take(h), 7);
    CHECK_EQ(g.discards, 0);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* Joins in every state, on a runtime of the other flavour: created, waiting, and cancelled while
 * the runtime ends. */
ON_WORKERS(joins_on_the_other_flavour_resolve_after_the_end) {
    memory m;
    gate g[2] = {GATE, GATE};
    aw_runtime *rt = workers_new(workers, &m, NULL), *other = runtime_new(NULL, NULL, NULL, false);
    struct through *a = aw_spawn_on(rt, through(&g[0])), *b = aw_spawn_on(rt, through(&g[1]));
    gate_wait(&g[0], 1);
    gate_wait(&g[1], 1);
    aw_task_join_future *waiting = aw_spawn_on(other, aw_task_join(a));
    aw_task_join_future *aborted = aw_spawn_on(other, aw_task_join(b));
    CHECK_EQ(aw_block_on(other, rounds(2)), 0);
    aw_task_abort(aborted);
    aw_runtime_free(rt);
    CHECK_EQ(JOIN_STATUS(other, waiting), 0);
    CHECK_EQ(aw_task_take(waiting), -ECANCELED);
    int status = JOIN_STATUS(other, aborted); /* it may have seen the end first */
    CHECK(status == 0 || status == -ECANCELED);
    aw_task_drop(aborted);
    CHECK_EQ(aw_block_on(other, aw_task_join(b)), -ECANCELED);
    aw_task_drop(a);
    aw_task_drop(b);
    CHECK_EQ(memory_in_use(&m), 0);
    aw_runtime_free(other);
}

/* ---- Notify and oneshot ---------------------------------------------------------------------- */

ON_WORKERS(a_notify_forgets_waiters_that_ended_with_their_runtime) {
    memory m;
    aw_notify n = AW_NOTIFY_INIT;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < 20; i++)
        aw_task_drop(aw_spawn_on(rt, aw_notify_wait(&n)));
    WAIT_UNTIL(COUNTER_SUM(rt, polls) >= 20);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
    CHECK_EQ(n.first, NULL);
    aw_notify_waiters(&n);
    aw_notify_one(&n); /* no waiter: it is kept */
    CHECK_EQ(aw_run(aw_notify_wait(&n)), 0);
}

/* A notification that reached a cancelled task goes on to a waiter on another runtime. */
ON_WORKERS(a_notification_passes_from_a_runtime_that_ends_to_another) {
    for (int round = 0; round < test_scale(100); round++) {
        aw_notify n = AW_NOTIFY_INIT;
        aw_runtime *rt = workers_new(workers, NULL, NULL), *other = workers_new(1, NULL, NULL);
        aw_task_drop(aw_spawn_on(rt, aw_notify_wait(&n)));
        WAIT_UNTIL(COUNTER_SUM(rt, polls) >= 1);
        aw_notified *h = aw_spawn_on(other, aw_notify_wait(&n));
        WAIT_UNTIL(COUNTER_SUM(other, polls) >= 1);
        CHECK_EQ(aw_runtime_shutdown(rt, 0) <= 1, true);
        aw_notify_one(&n);
        aw_runtime_free(rt);
        /* Used by the first task, or passed on: one more is enough in either case. */
        aw_notify_one(&n);
        CHECK_EQ(JOIN_STATUS(other, h), 0);
        aw_task_drop(h);
        aw_runtime_free(other);
    }
}

typedef AW_ONESHOT(int) reply;

AW_ASYNC(int, sends, reply *reply; aw_never never;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    aw_oneshot_close_sender(self->reply);
    AW_END;
}
AW_ASYNC(int, receives, reply *reply; aw_oneshot_future receive;) {
    AW_BEGIN;
    AW_AWAIT(self->receive, aw_oneshot_recv(self->reply));
    AW_RETURN(self->receive.out);
    AW_FINALLY;
    aw_oneshot_close_receiver(self->reply);
    AW_END;
}

ON_WORKERS(a_channel_outlives_the_runtime_of_either_side) {
    memory m;
    reply gone_sender = AW_ONESHOT_INIT, gone_receiver = AW_ONESHOT_INIT, value = AW_ONESHOT_INIT;
    aw_runtime *rt = workers_new(workers, &m, NULL), *other = workers_new(1, NULL, NULL);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(sends, .reply = &gone_sender)));
    aw_task_drop(aw_spawn_on(rt, AW_CALL(receives, .reply = &gone_receiver)));
    aw_oneshot_future *r = aw_spawn_on(other, aw_oneshot_recv(&gone_sender));
    aw_oneshot_future *closed = aw_spawn_on(other, aw_oneshot_closed(&gone_receiver));
    WAIT_UNTIL(COUNTER_SUM(rt, polls) >= 2 && COUNTER_SUM(other, polls) >= 2);
    CHECK_EQ(aw_oneshot_send(&value, 5), 0);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
    CHECK_EQ(JOIN_STATUS(other, r), 0);
    CHECK_EQ(aw_task_take(r), -EPIPE);
    CHECK_EQ(JOIN_STATUS(other, closed), 0);
    CHECK_EQ(aw_task_take(closed), 0);
    CHECK_EQ(aw_oneshot_send(&gone_receiver, 1), -EPIPE); /* the caller still owns the value */
    CHECK_EQ(aw_block_on(other, aw_oneshot_recv(&value)), 0);
    CHECK_EQ(value.value, 5);
    aw_runtime_free(other);
}

/* ---- Storage --------------------------------------------------------------------------------- */

ON_WORKERS(task_storage_is_free_when_the_last_reference_goes_after_the_end) {
    static AW_TASK_STORAGE(struct through) storage;
    gate g = GATE;
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    aw_runtime *previous = aw_enter(rt);
    struct through *h = aw_spawn_in(&storage, through(&g));
    aw_leave(previous);
    gate_wait(&g, 1);
    aw_waker w = gate_waker(&g);
    aw_runtime_free(rt);
    CHECK(!aw_task_storage_free(&storage));
    aw_task_drop(h);
    CHECK(!aw_task_storage_free(&storage));
    aw_waker_wake(w);
    CHECK(aw_task_storage_free(&storage));
}
