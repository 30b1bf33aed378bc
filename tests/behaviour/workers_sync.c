/* SPDX-License-Identifier: MIT
 *
 * What tasks on different workers wait for together: notifications, oneshots, sets, joins,
 * selects and timeouts. */
#include "support/workers.h"

/* ---- Notify ---------------------------------------------------------------------------------- */

AW_ASYNC(int, waits, aw_notify *notify; uint32_t * begun; uint32_t * got; aw_notified wait;) {
    AW_BEGIN;
    ADD(*self->begun, 1);
    AW_AWAIT(self->wait, aw_notify_wait(self->notify));
    ADD(*self->got, 1);
    AW_RETURN(0);
    AW_END;
}

static void notify_from_thread(void *arg, int index, uint64_t *random) {
    (void)index;
    for (int i = 0; i < 25; i++) {
        aw_notify_one(arg);
        jitter(random);
    }
}

AW_ASYNC(int, waits_for_all, aw_notify *notify; uint32_t * begun; aw_notified wait;) {
    AW_BEGIN;
    self->wait = aw_notify_wait(self->notify);
    CHECK_EQ(aw_future_poll(&self->wait.future, cx), AW_PENDING); /* it is in the queue now */
    ADD(*self->begun, 1);
    AW_AWAIT_FUTURE(self->wait);
    AW_RETURN(0);
    AW_END;
}

/* 100 waiting tasks, and 100 notifications from four threads. */
ON_WORKERS(each_notification_reaches_one_waiter) {
    enum { WAITERS = 100 };
    uint64_t random = test_seed();
    struct waits_for_all *h[WAITERS];
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int round = 0; round < stress_rounds(20); round++) {
        aw_notify n = AW_NOTIFY_INIT;
        uint32_t begun = 0;
        thread_group s;
        thread_group_create(&s, 4, &random, notify_from_thread, &n);
        for (int i = 0; i < WAITERS; i++)
            h[i] = aw_spawn_on(rt, AW_CALL(waits_for_all, .notify = &n, .begun = &begun));
        WAIT_UNTIL(LOAD(begun) == WAITERS);
        thread_group_go(&s);
        thread_group_join(&s);
        for (int i = 0; i < WAITERS; i++) {
            CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
            aw_task_drop(h[i]);
        }
        CHECK_EQ(n.permit, 0);
    }
    workers_end(rt, NULL);
}

/* A waiter that is aborted may have been notified: then the next one is. */
ON_WORKERS(a_notification_of_an_aborted_waiter_is_passed_on) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(300); i++) {
        aw_notify n = AW_NOTIFY_INIT;
        uint32_t begun = 0, got = 0;
        struct waits *a = aw_spawn_on(rt,
                                      AW_CALL(waits, .notify = &n, .begun = &begun, .got = &got));
        struct waits *b = aw_spawn_on(rt,
                                      AW_CALL(waits, .notify = &n, .begun = &begun, .got = &got));
        WAIT_UNTIL(LOAD(begun) == 2);
        aw_notify_one(&n);
        aw_task_abort(a);
        int first = JOIN_STATUS(rt, a);
        if (first == 0) aw_notify_one(&n); /* it was notified, and finished */
        CHECK_EQ(JOIN_STATUS(rt, b), 0);
        CHECK_EQ(got, first == 0 ? 2 : 1);
        aw_task_drop(a);
        aw_task_drop(b);
    }
    workers_end(rt, NULL);
}

ON_WORKERS(notify_waiters_wakes_all_that_wait) {
    enum { WAITERS = 300 };
    static struct waits_for_all *h[WAITERS];
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int round = 0; round < test_scale(20); round++) {
        aw_notify n = AW_NOTIFY_INIT;
        uint32_t begun = 0;
        for (int i = 0; i < WAITERS; i++)
            h[i] = aw_spawn_on(rt, AW_CALL(waits_for_all, .notify = &n, .begun = &begun));
        WAIT_UNTIL(LOAD(begun) == WAITERS);
        aw_notify_waiters(&n);
        for (int i = 0; i < WAITERS; i++) {
            CHECK_EQ(JOIN_STATUS(rt, h[i]), 0);
            aw_task_drop(h[i]);
        }
        CHECK_EQ(n.permit, 0);
    }
    workers_end(rt, NULL);
}

/* ---- Oneshot --------------------------------------------------------------------------------- */

typedef AW_ONESHOT(int) reply;

AW_ASYNC(int, receives, reply *reply; aw_oneshot_future recv;) {
    AW_BEGIN;
    AW_AWAIT(self->recv, aw_oneshot_recv(self->reply));
    AW_RETURN(self->recv.out ? self->recv.out : self->reply->value);
    AW_END;
}

AW_ASYNC(int, sends, reply *reply; int value; struct rounds pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, rounds(self->value % 4));
    if (self->value % 10 == 9) {
        aw_oneshot_close_sender(self->reply);
        AW_RETURN(0);
    }
    AW_RETURN(aw_oneshot_send(self->reply, self->value));
    AW_END;
}

ON_WORKERS(oneshots_go_from_worker_to_worker) {
    enum { PAIRS = 500 };
    static reply replies[PAIRS];
    static struct receives *r[PAIRS];
    static struct sends *s[PAIRS];
    int pairs = test_scale(PAIRS);
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < pairs; i++) {
        if (i % 2) r[i] = aw_spawn_on(rt, AW_CALL(receives, .reply = &replies[i]));
        s[i] = aw_spawn_on(rt, AW_CALL(sends, .reply = &replies[i], .value = i));
        if (i % 2 == 0) r[i] = aw_spawn_on(rt, AW_CALL(receives, .reply = &replies[i]));
    }
    for (int i = 0; i < pairs; i++) {
        CHECK_EQ(JOIN_STATUS(rt, r[i]), 0);
        CHECK_EQ(aw_task_take(r[i]), i % 10 == 9 ? -EPIPE : i);
        CHECK_EQ(JOIN_STATUS(rt, s[i]), 0);
        CHECK_EQ(aw_task_take(s[i]), 0);
    }
    workers_end(rt, NULL);
}

/* Either the aborted receiver has the value, or it is still in the channel. */
ON_WORKERS(a_value_is_not_lost_to_an_aborted_receiver) {
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < test_scale(300); i++) {
        reply c = AW_ONESHOT_INIT;
        struct receives *r = aw_spawn_on(rt, AW_CALL(receives, .reply = &c));
        if (i % 3 == 0) WAIT_UNTIL(COUNTER_SUM(rt, polls) > 0);
        CHECK_EQ(aw_oneshot_send(&c, 5), 0);
        aw_task_abort(r);
        int status = JOIN_STATUS(rt, r);
        if (status == 0)
            CHECK_EQ(r->out, 5);
        else
            CHECK_EQ(aw_oneshot_try_recv(&c), 0);
        aw_task_drop(r);
    }
    workers_end(rt, NULL);
}

/* ---- Children that other threads wake -------------------------------------------------------- */

static void open_gates(void *arg, int index, uint64_t *random) {
    gate *g = arg;
    for (int i = index; i < 40; i += 4) {
        jitter(random);
        gate_open(&g[i]);
    }
}

AW_ASYNC(int, joins_all, gate *gates; struct through children[40]; aw_all all;) {
    AW_BEGIN;
    for (int i = 0; i < 40; i++)
        self->children[i] = through(&self->gates[i]);
    AW_AWAIT(self->all, aw_join_all(self->children, 40));
    for (int i = 0; i < 40; i++)
        CHECK_EQ(self->children[i].out, 7);
    AW_RETURN(self->all.out);
    AW_END;
}

AW_ASYNC(int, drains_a_set, gate *gates; int n; aw_set set; aw_set_next_future next;) {
    AW_BEGIN;
    aw_set_init(&self->set, sizeof(struct through));
    for (int i = 0; i < 40; i++)
        CHECK_EQ(aw_set_push(&self->set, through(&self->gates[i])), 0);
    while (self->set.count) {
        AW_AWAIT(self->next, aw_set_next(&self->set));
        CHECK_EQ(AW_SET_AS(struct through, &self->next)->out, 7);
        self->n++;
    }
    AW_RETURN(self->n);
    AW_FINALLY;
    aw_set_free(&self->set);
    AW_END;
}

AW_ASYNC(int, selects_all, gate *gates; struct through children[40]; aw_all all; int n;) {
    AW_BEGIN;
    for (int i = 0; i < 40; i++)
        self->children[i] = through(&self->gates[i]);
    AW_AWAIT(self->all, aw_select_all(self->children, 40));
    CHECK_GE(self->all.out, 0);
    for (ptrdiff_t i; (i = aw_select_all_next(&self->all)) >= 0; self->n++)
        CHECK_EQ(self->children[i].out, 7);
    AW_RETURN(self->n);
    AW_END;
}

enum many { JOIN_ALL, SET, SELECT_ALL };
static void many_children(uint32_t workers, enum many kind) {
    static gate g[40];
    uint64_t random = test_seed();
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int round = 0; round < stress_rounds(60); round++) {
        thread_group s;
        for (int i = 0; i < 40; i++)
            g[i] = (gate)GATE;
        thread_group_create(&s, 4, &random, open_gates, g);
        thread_group_go(&s);
        int finished = 0;
        if (kind == JOIN_ALL) CHECK_EQ(RUN(rt, AW_CALL(joins_all, .gates = g)), 0);
        if (kind == SET) CHECK_EQ(RUN(rt, AW_CALL(drains_a_set, .gates = g)), 40);
        if (kind == SELECT_ALL) CHECK_GE(finished = RUN(rt, AW_CALL(selects_all, .gates = g)), 1);
        thread_group_join(&s);
        for (int i = 0; i < 40; i++) {
            CHECK_EQ(g[i].ends, 1);
            finished -= kind == SELECT_ALL && g[i].finished;
        }
        CHECK_EQ(finished, 0); /* each that finished was reported */
    }
    workers_end(rt, &m);
}

ON_WORKERS(a_join_of_forty_ends_whichever_thread_wakes_them) {
    many_children(workers, JOIN_ALL);
}
ON_WORKERS(a_set_yields_each_of_forty_once) {
    many_children(workers, SET);
}
ON_WORKERS(a_select_of_forty_reports_all_that_finished) {
    many_children(workers, SELECT_ALL);
}

typedef AW_SELECT(struct through, aw_task_join_future, aw_notified) three_ways;
AW_ASYNC(int, selects, gate *gate; struct through * task; aw_notify * notify; three_ways s;
         int finished;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->s, through(self->gate), aw_task_join(self->task),
                    aw_notify_wait(self->notify));
    AW_SELECT_EACH(i, &self->s)
        self->finished |= 1 << i;
    CHECK_EQ(self->finished, self->s.out);
    AW_RETURN(self->finished);
    AW_END;
}

typedef struct three {
    gate *direct, *inner;
    aw_notify *notify;
} three;

static void end_one(void *arg, int index, uint64_t *random) {
    three *t = arg;
    jitter(random);
    if (index == 0) gate_open(t->direct);
    if (index == 1) gate_open(t->inner);
    if (index == 2) aw_notify_one(t->notify);
}

ON_WORKERS(a_select_loses_nothing_to_a_race_between_workers) {
    uint64_t random = test_seed();
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < stress_rounds(200); i++) {
        gate direct = GATE, inner = GATE;
        aw_notify n = AW_NOTIFY_INIT;
        three t = {&direct, &inner, &n};
        thread_group s;
        thread_group_create(&s, 3, &random, end_one, &t);
        struct through *task = aw_spawn_on(rt, through(&inner));
        thread_group_go(&s);
        int finished = RUN(rt, AW_CALL(selects, .gate = &direct, .task = task, .notify = &n));
        thread_group_join(&s);
        CHECK_NE(finished, 0);
        CHECK_EQ(direct.ends, 1);
        CHECK_EQ(!!(finished & 1), direct.finished);
        CHECK_EQ(!!(finished & 4), !n.permit); /* the notification was taken or is still there */
        WAIT_UNTIL(aw_task_is_finished(task));
        aw_task_drop(task);
        CHECK_EQ(inner.discards, !(finished & 2)); /* the same for the output of the task */
    }
    workers_end(rt, &m);
}

/* ---- Timeouts -------------------------------------------------------------------------------- */

typedef AW_TIMEOUT(struct through) gate_timeout;
AW_ASYNC(int, gives_up, gate *gate; uint64_t limit; gate_timeout t;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->t, self->limit, through(self->gate));
    AW_RETURN(self->t.out ? self->t.out : self->t.inner.out);
    AW_END;
}

static void open_soon(void *arg, int index, uint64_t *random) {
    (void)index;
    uint64_t until = test_now_ns() + test_random(random) % AW_USEC(200);
    while (test_now_ns() < until)
        ;
    gate_open(arg);
}

ON_WORKERS(a_timeout_that_races_with_its_value_loses_neither) {
    uint64_t random = test_seed();
    aw_runtime *rt = workers_new(workers, NULL, NULL);
    for (int i = 0; i < stress_rounds(200); i++) {
        gate g = GATE;
        thread_group s;
        thread_group_create(&s, 1, &random, open_soon, &g);
        thread_group_go(&s);
        int r = RUN(rt, AW_CALL(gives_up, .gate = &g, .limit = AW_USEC(100)));
        thread_group_join(&s);
        CHECK(r == 7 || r == -ETIMEDOUT);
        CHECK_EQ(g.finished, r == 7);
        CHECK_EQ(g.cancelled, r != 7);
        CHECK_EQ(g.discards, 0);
    }
    workers_end(rt, NULL);
}
