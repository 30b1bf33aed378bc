/* SPDX-License-Identifier: MIT
 *
 * Oneshot between threads: both sides move, race, and agree on the outcome. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "support/by_hand.h"

typedef AW_ONESHOT(int) int_channel;

static pthread_t start_thread(void *(*body)(void *), void *arg) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, body, arg), 0);
    return thread;
}

static void join_thread(pthread_t thread) {
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* ---- From a thread to a task ----------------------------------------------------------------- */

static void *send_42(void *channel) {
    CHECK_EQ(aw_oneshot_send((int_channel *)channel, 42), 0);
    return NULL;
}

AW_ASYNC(int, receive_from_a_thread, int_channel c; pthread_t thread; aw_oneshot_future r;) {
    AW_BEGIN;
    self->thread = start_thread(send_42, &self->c);
    AW_AWAIT(self->r, aw_oneshot_recv(&self->c));
    CHECK_EQ(self->r.out, 0);
    join_thread(self->thread);
    AW_RETURN(self->c.value);
    AW_END;
}

TEST(a_plain_thread_sends_to_a_sleeping_runtime) {
    for (int i = 0; i < test_scale(200); i++)
        CHECK_EQ(aw_run(AW_CALL(receive_from_a_thread)), 42);
}

static void *receive_42(void *channel) {
    int_channel *c = channel;
    aw_parker *parker = aw_parker_new();
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_oneshot_future r = aw_oneshot_recv(c);
    while (aw_future_poll(&r.future, &cx) == AW_PENDING)
        aw_parker_park(parker);
    CHECK_EQ(r.out, 0);
    CHECK_EQ(c->value, 42);
    aw_parker_free(parker);
    return NULL;
}

AW_ASYNC(int, send_to_a_thread, int_channel c; pthread_t thread; aw_oneshot_future taken;) {
    AW_BEGIN;
    self->thread = start_thread(receive_42, &self->c);
    AW_YIELD;
    CHECK_EQ(aw_oneshot_send(&self->c, 42), 0);
    AW_AWAIT(self->taken, aw_oneshot_closed(&self->c));
    join_thread(self->thread);
    AW_RETURN(0);
    AW_END;
}

TEST(a_task_sends_to_a_plain_thread_and_learns_that_it_arrived) {
    for (int i = 0; i < test_scale(200); i++)
        CHECK_EQ(aw_run(AW_CALL(send_to_a_thread)), 0);
}

/* ---- Moving ---------------------------------------------------------------------------------- */

/* The receiving side begins in one task, is cancelled there, and goes on in another. The same
 * for the sending side. The channel stays in place. */
AW_ASYNC(int, begin_to_receive, int_channel *c; aw_oneshot_future r;) {
    AW_BEGIN;
    AW_AWAIT(self->r, aw_oneshot_recv(self->c));
    AW_RETURN(self->r.out ? self->r.out : self->c->value);
    AW_END;
}

AW_ASYNC(int, move_the_receiver, int_channel c; struct begin_to_receive * first;
         struct begin_to_receive * second; aw_task_join_future join;) {
    AW_BEGIN;
    self->first = aw_spawn(AW_CALL(begin_to_receive, .c = &self->c));
    AW_YIELD;
    aw_task_abort(self->first);
    AW_AWAIT(self->join, aw_task_join(self->first));
    CHECK_EQ(self->join.out, -ECANCELED);
    aw_task_drop(self->first);
    self->second = aw_spawn(AW_CALL(begin_to_receive, .c = &self->c));
    AW_YIELD;
    CHECK_EQ(aw_oneshot_send(&self->c, 13), 0);
    AW_AWAIT(self->join, aw_task_join(self->second));
    CHECK_EQ(self->join.out, 0);
    AW_RETURN(aw_task_take(self->second));
    AW_END;
}

TEST(the_receiver_may_move_to_another_task) {
    CHECK_EQ(aw_run(AW_CALL(move_the_receiver)), 13);
}

/* A receive that was polled in one task goes on in another one, in its box. */
AW_ASYNC(int, finish_the_box, aw_box box;) {
    AW_BEGIN;
    AW_AWAIT_FUTURE(self->box);
    AW_RETURN(aw_box_take(aw_oneshot_future, &self->box));
    AW_END;
}

static aw_poll poll_once(void *box, aw_cx *cx, int *out) {
    *out = 0;
    CHECK_EQ(aw_future_poll(&((aw_box *)box)->future, cx), AW_PENDING);
    return AW_READY;
}

AW_ASYNC(int, move_the_pending_receive, int_channel c; aw_box box; aw_poll_fn once;
         struct finish_the_box * task; aw_task_join_future join;) {
    AW_BEGIN;
    self->box = aw_box_new(aw_oneshot_recv(&self->c));
    AW_AWAIT(self->once, aw_poll_fn_of(poll_once, &self->box));
    self->task = aw_spawn(AW_CALL(finish_the_box, .box = self->box));
    AW_YIELD;
    CHECK_EQ(aw_oneshot_send(&self->c, 21), 0);
    AW_AWAIT(self->join, aw_task_join(self->task));
    CHECK_EQ(aw_task_take(self->task), 0);
    AW_RETURN(self->c.value);
    AW_END;
}

TEST(a_pending_receive_may_move_to_another_task_in_its_box) {
    CHECK_EQ(aw_run(AW_CALL(move_the_pending_receive)), 21);
}

/* Through three runtimes on three threads: each passes its value on to the next. */
struct relay {
    int_channel *from, *to;
};

AW_ASYNC(int, pass_plus_one, struct relay relay; aw_oneshot_future r;) {
    AW_BEGIN;
    AW_AWAIT(self->r, aw_oneshot_recv(self->relay.from));
    CHECK_EQ(self->r.out, 0);
    AW_RETURN(aw_oneshot_send(self->relay.to, self->relay.from->value + 1));
    AW_END;
}

static void *relay_thread(void *relay) {
    CHECK_EQ(aw_run(AW_CALL(pass_plus_one, .relay = *(struct relay *)relay)), 0);
    return NULL;
}

TEST(a_value_goes_through_several_runtimes) {
    enum { STEPS = 3 };
    for (int round = 0; round < test_scale(100); round++) {
        int_channel c[STEPS + 1];
        struct relay relays[STEPS];
        pthread_t threads[STEPS];
        memset(c, 0, sizeof c);
        for (int i = STEPS; i-- > 0;) {
            relays[i] = (struct relay){&c[i], &c[i + 1]};
            threads[i] = start_thread(relay_thread, &relays[i]);
        }
        CHECK_EQ(aw_oneshot_send(&c[0], 10), 0);
        for (int i = 0; i < STEPS; i++)
            join_thread(threads[i]);
        CHECK_EQ(aw_oneshot_try_recv(&c[STEPS]), 0);
        CHECK_EQ(c[STEPS].value, 10 + STEPS);
    }
}

/* ---- Races ----------------------------------------------------------------------------------- */

/* Two threads that synchronise before each round. */
static int arrived; /* atomic */

static void meet(int round) {
    __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < 2 * round)
        sched_yield();
}

enum { MAX_ROUNDS = 20000 };
static int_channel channels[MAX_ROUNDS + 1];
static int sent[MAX_ROUNDS + 1];

static void *send_all(void *rounds) {
    for (int i = 1; i <= *(int *)rounds; i++) {
        meet(i);
        sent[i] = aw_oneshot_send(&channels[i], i);
    }
    return NULL;
}

TEST(a_send_and_a_closing_receiver_agree_on_which_came_first) {
    int rounds = test_scale(MAX_ROUNDS);
    pthread_t thread = start_thread(send_all, &rounds);
    for (int i = 1; i <= rounds; i++) {
        meet(i);
        aw_oneshot_close_receiver(&channels[i]);
        int r = aw_oneshot_try_recv(&channels[i]);
        CHECK(r == 0 || r == -EPIPE);
        if (r == 0) CHECK_EQ(channels[i].value, i);
        channels[i].value = r; /* compared with the sender's result below */
    }
    join_thread(thread);
    for (int i = 1; i <= rounds; i++)
        CHECK_EQ(channels[i].value, sent[i]);
}

TEST(a_send_and_a_cancelled_receive_agree_and_the_value_is_not_lost) {
    int rounds = test_scale(MAX_ROUNDS);
    aw_flag flag = {0};
    pthread_t thread = start_thread(send_all, &rounds);
    for (int i = 1; i <= rounds; i++) {
        aw_oneshot_future r = aw_oneshot_recv(&channels[i]);
        CHECK_EQ(POLL(&r, &flag), AW_PENDING);
        meet(i);
        bool finished = CANCEL(&r, &flag) == AW_READY;
        if (finished) {
            CHECK_EQ(r.out, 0);
            if (i % 2) {
                aw_future_discard(&r.future); /* puts the value back into the channel */
                finished = false;
            }
        }
        while (!finished) { /* it is there, or about to arrive */
            int again = aw_oneshot_try_recv(&channels[i]);
            CHECK(again == 0 || again == -EAGAIN);
            finished = again == 0;
        }
        CHECK_EQ(channels[i].value, i);
    }
    join_thread(thread);
    for (int i = 1; i <= rounds; i++)
        CHECK_EQ(sent[i], 0);
}

static void *close_all(void *rounds) {
    for (int i = 1; i <= *(int *)rounds; i++) {
        meet(i);
        aw_oneshot_close_sender(&channels[i]);
    }
    return NULL;
}

TEST(a_receiver_that_begins_to_wait_while_the_sender_closes_is_woken) {
    int rounds = test_scale(MAX_ROUNDS);
    aw_parker *parker = aw_parker_new();
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&waker);
    pthread_t thread = start_thread(close_all, &rounds);
    for (int i = 1; i <= rounds; i++) {
        aw_oneshot_future r = aw_oneshot_recv(&channels[i]);
        meet(i);
        while (aw_future_poll(&r.future, &cx) == AW_PENDING)
            aw_parker_park(parker);
        CHECK_EQ(r.out, -EPIPE);
    }
    join_thread(thread);
    aw_parker_free(parker);
}
