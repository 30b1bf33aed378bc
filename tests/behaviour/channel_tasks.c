/* SPDX-License-Identifier: MIT
 *
 * Channels between tasks, fibers and threads, of one runtime and of several. */
#include "support/workers.h"

typedef AW_CHANNEL(int) ints;
struct mail {
    int from, number;
};
typedef AW_CHANNEL(struct mail) mails;

/* ---- Many senders and receivers --------------------------------------------------------------- */

enum { SENDERS = 6, RECEIVERS = 3, EACH = 300 };

AW_ASYNC(int, sends, mails *c; int from, i; struct mail mail; aw_channel_future send;) {
    AW_BEGIN;
    for (; self->i < EACH; self->i++) {
        self->mail = (struct mail){self->from, self->i};
        AW_AWAIT(self->send, aw_channel_send(self->c, &self->mail));
        CHECK_EQ(self->send.out, 0);
    }
    aw_channel_sender_drop(self->c);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, receives, mails *c; uint32_t * seen; int last[SENDERS]; int many, i, got;
         struct mail mail[7]; aw_channel_future recv;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->recv, self->many ? aw_channel_recv_many(self->c, self->mail, 7)
                                        : aw_channel_recv(self->c, self->mail));
        if (self->recv.out < 0) break;
        for (self->i = 0; self->i < (self->many ? self->recv.out : 1); self->i++, self->got++) {
            const struct mail *m = &self->mail[self->i];
            CHECK_GE(m->number, self->last[m->from]); /* in the order of its sender */
            self->last[m->from] = m->number + 1;
            ADD(self->seen[m->from * EACH + m->number], 1);
        }
    }
    CHECK_EQ(self->recv.out, -EPIPE);
    aw_channel_receiver_drop(self->c);
    AW_RETURN(self->got);
    AW_END;
}

#ifndef PREPARE
#define PREPARE(c) (void)(c)
#endif

static void every_message_once(uint32_t workers, size_t capacity, int receivers) {
    static uint32_t seen[SENDERS * EACH];
    memset(seen, 0, sizeof seen);
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    mails *c = aw_channel_new(mails, capacity);
    PREPARE(c);
    struct sends *s[SENDERS];
    struct receives *r[RECEIVERS];
    for (int i = 0; i < SENDERS; i++)
        aw_channel_sender_keep(c);
    for (int i = 0; i < receivers; i++) {
        aw_channel_receiver_keep(c);
        r[i] = aw_spawn_on(rt, AW_CALL(receives, .c = c, .seen = seen, .many = i % 2));
    }
    for (int i = 0; i < SENDERS; i++)
        s[i] = aw_spawn_on(rt, AW_CALL(sends, .c = c, .from = i));
    aw_channel_sender_drop(c);
    aw_channel_receiver_drop(c);
    for (int i = 0; i < SENDERS; i++) {
        must_finish(rt, &s[i]->future);
        aw_task_drop(s[i]);
    }
    int sum = 0;
    for (int i = 0; i < receivers; i++) {
        must_finish(rt, &r[i]->future);
        sum += aw_task_take(r[i]);
    }
    CHECK_EQ(sum, SENDERS * EACH);
    for (int i = 0; i < SENDERS * EACH; i++)
        CHECK_EQ(seen[i], 1);
    aw_runtime_free(rt);
}

ON_BOTH(each_message_goes_to_one_receiver_in_the_order_of_its_sender) {
    every_message_once(workers, 4, RECEIVERS);
    every_message_once(workers, AW_UNBOUNDED, RECEIVERS);
}

ON_BOTH(one_receiver_gets_everything_through_one_slot) {
    every_message_once(workers, 1, 1);
}

/* ---- Cooperation ------------------------------------------------------------------------------ */

AW_ASYNC(int, drains, ints *c; int n, i; aw_channel_future recv;) {
    AW_BEGIN;
    for (; self->i < 1000; self->i++)
        AW_AWAIT(self->recv, aw_channel_recv(self->c, &self->n));
    AW_RETURN(0);
    AW_END;
}

TEST(a_receiver_that_always_finds_something_lets_others_run) {
    ON_THIS_THREAD("it checks when the receiver yields");
    ints c;
    CHECK_EQ(aw_channel_init(&c, 1000), 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(aw_channel_try_send(&c, &i), 0);
    struct drains f = AW_CALL(drains, .c = &c);
    aw__meter meter = {.budget = 128};
    aw_flag flag = {0};
    aw_waker waker = aw_flag_waker(&flag);
    aw_cx cx = {&waker, NULL, &meter};
    int polls = 0;
    while (polls++, aw_future_poll(&f.future, &cx) == AW_PENDING) {
        CHECK(aw_flag_take(&flag)); /* it yields and does not wait */
        meter.budget = 128;
    }
    CHECK_EQ(polls, 8);
    aw_channel_free(&c);
}

/* ---- Fibers and threads ----------------------------------------------------------------------- */

AW_FIBER(int, doubles, ints *from, *to;) {
    int n, sum = 0, error;
    while ((error = aw_await(aw_channel_recv(self->from, &n))) == 0) {
        sum += n *= 2;
        error = aw_await(aw_channel_send(self->to, &n));
        if (error) return error;
    }
    aw_channel_close(self->to);
    return error == -EPIPE ? sum : error;
}

static void *feed(void *arg) {
    ints *c = arg;
    for (int i = 1; i <= 200; i++)
        CHECK_EQ(aw_wait(aw_channel_send(c, &i)), 0);
    aw_channel_close(c);
    return NULL;
}

ON_BOTH(plain_threads_and_fibers_send_and_receive) {
    ints a, b;
    CHECK_EQ(aw_channel_init(&a, 3), 0);
    CHECK_EQ(aw_channel_init(&b, 2), 0);
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    pthread_t feeder = thread_start(feed, &a);
    struct doubles *d = aw_spawn_on(rt, AW_CALL(doubles, .from = &a, .to = &b));
    if (workers) {
        int n;
        for (int i = 1; i <= 200; i++) {
            CHECK_EQ(aw_wait(aw_channel_recv(&b, &n)), 0);
            CHECK_EQ(n, 2 * i);
        }
        CHECK_EQ(aw_wait(aw_channel_recv(&b, &n)), -EPIPE);
    } else {
        int n[4];
        for (int i = 1, got; i <= 200; i += got) {
            got = aw_block_on(rt, aw_channel_recv_many(&b, n, 4));
            CHECK_GT(got, 0);
            for (int k = 0; k < got; k++)
                CHECK_EQ(n[k], 2 * (i + k));
        }
    }
    must_finish(rt, &d->future);
    CHECK_EQ(aw_task_take(d), 200 * 201);
    thread_end(feeder);
    aw_runtime_free(rt);
    aw_channel_free(&a);
    aw_channel_free(&b);
}

TEST(a_thread_gives_up_waiting_and_the_message_stays) {
    ints c;
    int n = 1, m = 0;
    CHECK_EQ(aw_channel_init(&c, 1), 0);
    CHECK_EQ(aw_wait_for(AW_MSEC(1), aw_channel_recv(&c, &m)), -ETIMEDOUT);
    CHECK_EQ(aw_wait(aw_channel_send(&c, &n)), 0);
    CHECK_EQ(aw_wait_for(AW_MSEC(1), aw_channel_send(&c, &n)), -ETIMEDOUT);
    CHECK_EQ(aw_wait(aw_channel_recv(&c, &m)), 0);
    CHECK_EQ(m, 1);
    CHECK_EQ(aw_channel_len(&c), 0);
    aw_channel_free(&c);
}

/* ---- Runtimes come and go --------------------------------------------------------------------- */

AW_ASYNC(int, sends_one, ints *c; int n; aw_channel_future send;) {
    AW_BEGIN;
    AW_AWAIT(self->send, aw_channel_send(self->c, &self->n));
    AW_RETURN(self->send.out);
    AW_END;
}

AW_ASYNC(int, receives_one, ints *c; int n; aw_channel_future recv;) {
    AW_BEGIN;
    AW_AWAIT(self->recv, aw_channel_recv(self->c, &self->n));
    AW_RETURN(self->recv.out ? self->recv.out : self->n);
    AW_END;
}

ON_BOTH(a_channel_outlives_either_runtime) {
    ints c;
    CHECK_EQ(aw_channel_init(&c, 4), 0);
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(sends_one, .c = &c, .n = 5)), 0);
    /* A receiver that waits when its runtime ends takes no message with it. */
    CHECK_EQ(RUN(rt, AW_CALL(receives_one, .c = &c)), 5);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(receives_one, .c = &c)));
    run_a_while(rt);
    aw_runtime_free(rt);
    CHECK(c.channel.receivers.first == NULL);

    rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(sends_one, .c = &c, .n = 6)), 0);
    aw_runtime_free(rt);
    rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(RUN(rt, AW_CALL(receives_one, .c = &c)), 6);
    aw_runtime_free(rt);
    aw_channel_free(&c);
}

/* The message that an aborted receiver was woken for goes to the next. */
ON_BOTH(an_aborted_receiver_takes_nothing_with_it) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int i = 0; i < test_scale(200); i++) {
        ints c;
        CHECK_EQ(aw_channel_init(&c, 4), 0);
        struct receives_one *a = aw_spawn_on(rt, AW_CALL(receives_one, .c = &c));
        struct receives_one *b = aw_spawn_on(rt, AW_CALL(receives_one, .c = &c));
        if (i % 2) run_a_while(rt);
        int n = 1;
        CHECK_EQ(aw_channel_try_send(&c, &n), 0);
        aw_task_abort(a);
        int first = JOIN_STATUS(rt, a);
        if (first == 0) CHECK_EQ(aw_channel_try_send(&c, &n), 0); /* it received before the abort */
        CHECK_EQ(JOIN_STATUS(rt, b), 0);
        CHECK_EQ(aw_channel_len(&c), 0);
        aw_task_drop(a);
        aw_task_drop(b);
        aw_channel_free(&c);
    }
    aw_runtime_free(rt);
}

/* A join that is cut discards the child that has received a message. */
typedef AW_JOIN(aw_channel_future, aw_never) with_never;

AW_ASYNC(int, receives_and_stays, ints *c; int n; with_never both;) {
    AW_BEGIN;
    AW_AWAIT(self->both,
             AW_JOIN_OF(with_never, aw_channel_recv(self->c, &self->n), aw_never_ready()));
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(messages_of_tasks_that_are_cut_are_in_the_channel_again_in_order) {
    enum { TASKS = 20 };
    ints c;
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(aw_channel_init(&c, TASKS), 0);
    struct receives_and_stays *h[TASKS];
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(aw_channel_try_send(&c, &i), 0);
    for (int i = 0; i < TASKS; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(receives_and_stays, .c = &c));
    run_a_while(rt);
    CHECK_EQ(aw_channel_len(&c), 0);
    for (int i = TASKS; i < 2 * TASKS; i++)
        CHECK_EQ(aw_channel_try_send(&c, &i), 0);
    for (int i = 0; i < TASKS; i++)
        aw_task_abort(h[i * 7 % TASKS]);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(JOIN_STATUS(rt, h[i]), -ECANCELED);
        aw_task_drop(h[i]);
    }
    for (int i = 0, n; i < 2 * TASKS; i++) {
        CHECK_EQ(aw_channel_try_recv(&c, &n), 0);
        CHECK_EQ(n, i);
    }
    aw_runtime_free(rt);
    aw_channel_free(&c);
}
