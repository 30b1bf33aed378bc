/* SPDX-License-Identifier: MIT
 *
 * Joining a task from elsewhere: from a plain thread, from a task of another runtime, from a
 * follower of the runtime's owner, by a custom executor, and after the runtime has ended. */
#include "support/tasks.h"

/* ---- Tasks to wait for ----------------------------------------------------------------------- */

/* Ends when it is notified. The output is what was written on the runtime's thread. */
typedef struct message {
    char text[32];
} message;

AW_ASYNC(message, speak, aw_notify *go; int n; aw_notified wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, aw_notify_wait(self->go));
    snprintf(self->out.text, sizeof self->out.text, "number %d", self->n);
    AW_FINALLY;
    AW_END;
}

AW_ASYNC(int, hear, struct speak *task; char *text; aw_task_join_future join;) {
    AW_BEGIN;
    AW_AWAIT(self->join, aw_task_join(self->task));
    if (self->join.out == 0) strcpy(self->text, self->task->out.text);
    AW_RETURN(self->join.out);
    AW_END;
}

struct listener {
    aw_runtime *rt; /* to block on; NULL: a runtime of its own */
    struct speak *task;
    event *begun;
    char text[32];
    int status;
};

static void *listener(void *arg) {
    struct listener *l = arg;
    if (l->begun) event_post(l->begun);
    l->status = l->rt ? aw_block_on(l->rt, AW_CALL(hear, .task = l->task, .text = l->text))
                      : aw_run(AW_CALL(hear, .task = l->task, .text = l->text));
    aw_task_drop(l->task);
    return NULL;
}

/* ---- From threads and other runtimes --------------------------------------------------------- */

TEST(a_plain_thread_joins_through_a_runtime_of_its_own) {
    memory m;
    memory_init(&m);
    host h;
    aw_notify go = AW_NOTIFY_INIT;
    host_start(&h, &m);
    struct listener l = {.task = aw_spawn_on(h.rt, AW_CALL(speak, .go = &go, .n = 7))};
    pthread_t t = thread_start(listener, &l);
    aw_notify_one(&go);
    thread_end(t);
    CHECK_EQ(l.status, 0);
    CHECK_STR(l.text, "number 7");
    host_stop(&h);
    aw_runtime_free(h.rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(a_plain_thread_joins_as_a_follower_of_the_owner) {
    memory m;
    memory_init(&m);
    host h;
    aw_notify go = AW_NOTIFY_INIT;
    host_start(&h, &m);
    struct listener l = {.rt = h.rt, .task = aw_spawn_on(h.rt, AW_CALL(speak, .go = &go, .n = 8))};
    pthread_t t = thread_start(listener, &l);
    aw_notify_one(&go);
    thread_end(t);
    CHECK_EQ(l.status, 0);
    CHECK_STR(l.text, "number 8");
    host_stop(&h);
    aw_runtime_free(h.rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* Two runtimes, each with a task that the other waits for, again and again. */
AW_ASYNC(int, relay, aw_runtime *there; int left; aw_notify go; struct speak * task;
         aw_task_join_future join;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        self->task = aw_spawn_on(self->there, AW_CALL(speak, .go = &self->go, .n = self->left));
        aw_notify_one(&self->go);
        AW_AWAIT(self->join, aw_task_join(self->task));
        CHECK_EQ(self->join.out, 0);
        CHECK_EQ(atoi(self->task->out.text + strlen("number ")), self->left);
        aw_task_drop(self->task);
    }
    AW_RETURN(0);
    AW_END;
}

struct relay_thread {
    aw_runtime *mine, *there;
    int rounds;
};

static void *run_relay(void *arg) {
    struct relay_thread *r = arg;
    CHECK_EQ(aw_block_on(r->mine, AW_CALL(relay, .there = r->there, .left = r->rounds)), 0);
    return NULL;
}

TEST(tasks_of_two_runtimes_join_each_others_tasks) {
    memory m;
    memory_init(&m);
    host a, b;
    host_start(&a, &m);
    host_start(&b, &m);
    /* Each thread follows one owner, and joins tasks of the other runtime there. */
    struct relay_thread ab = {a.rt, b.rt, test_scale(2000)}, ba = {b.rt, a.rt, test_scale(2000)};
    pthread_t t = thread_start(run_relay, &ab), u = thread_start(run_relay, &ba);
    thread_end(t);
    thread_end(u);
    struct relay *inside = aw_spawn_on(a.rt,
                                       AW_CALL(relay, .there = b.rt, .left = test_scale(2000)));
    aw_task_join_future join = aw_task_join(inside);
    CHECK_EQ(aw_block_on_future(b.rt, &join.future), 0);
    CHECK_EQ(join.out, 0);
    aw_task_drop(inside);
    host_stop(&a);
    host_stop(&b);
    aw_runtime_free(a.rt);
    aw_runtime_free(b.rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- When the runtime ends ------------------------------------------------------------------- */

TEST(a_pending_join_resolves_as_cancelled_when_the_runtime_ends) {
    memory m;
    event begun;
    aw_notify never = AW_NOTIFY_INIT;
    memory_init(&m);
    event_init(&begun);
    for (int i = 0; i < test_scale(200); i++) {
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        struct listener l = {.task = aw_spawn_on(rt, AW_CALL(speak, .go = &never)),
                             .begun = &begun};
        pthread_t t = thread_start(listener, &l);
        event_wait(&begun);
        aw_runtime_free(rt); /* the join may begin before, during or after this */
        thread_end(t);
        CHECK_EQ(l.status, -ECANCELED);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

TEST(a_join_after_the_runtime_has_ended_gives_the_output) {
    memory m;
    aw_notify go = AW_NOTIFY_INIT;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    struct speak *finished = aw_spawn_on(rt, AW_CALL(speak, .go = &go, .n = 9));
    aw_notify_one(&go);
    run_a_while(rt);
    struct speak *cancelled = aw_spawn_on(rt, AW_CALL(speak, .go = &go));
    aw_runtime_free(rt);

    struct listener a = {.task = finished}, b = {.task = cancelled};
    on_a_thread(listener, &a);
    on_a_thread(listener, &b);
    CHECK_EQ(a.status, 0);
    CHECK_STR(a.text, "number 9");
    CHECK_EQ(b.status, -ECANCELED);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* The runtime of the waiting task ends: its join is cancelled before its frame is freed. */
AW_ASYNC(int, waits_there, struct probe *task; aw_task_join_future join;) {
    AW_BEGIN;
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN(self->join.out);
    AW_END;
}

TEST(a_runtime_that_ends_cancels_its_joins_of_other_runtimes_tasks) {
    memory m;
    probe_state l = PROBE_STATE;
    memory_init(&m);
    aw_runtime *here = runtime_new(&m, NULL, NULL, false),
               *there = runtime_new(&m, NULL, NULL, false);
    struct probe *h = aw_spawn_on(here, probe_of(&l));
    run_a_while(here);
    aw_task_drop(aw_spawn_on(there, AW_CALL(waits_there, .task = h)));
    run_a_while(there);
    aw_runtime_free(there);
    probe_finish(&l);
    run_a_while(here); /* no waker is called */
    CHECK_EQ(JOIN_STATUS(here, h), 0);
    CHECK_EQ(aw_task_take(h), 102);
    aw_runtime_free(here);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- By a custom executor -------------------------------------------------------------------- */

static aw_poll poll_with(aw_task_join_future *join, aw_flag *flag) {
    aw_waker w = aw_flag_waker(flag);
    aw_cx cx = aw_cx_from_waker(&w);
    return aw_future_poll(&join->future, &cx);
}

static aw_poll cancel_with(aw_task_join_future *join, aw_flag *flag) {
    aw_waker w = aw_flag_waker(flag);
    aw_cx cx = aw_cx_from_waker(&w);
    return aw_future_cancel(&join->future, &cx);
}

TEST(only_the_latest_waker_of_a_foreign_join_is_woken) {
    probe_state l = PROBE_STATE;
    aw_flag first = {0}, second = {0};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_join_future join = aw_task_join(h);
    CHECK_EQ(poll_with(&join, &first), AW_PENDING);
    CHECK_EQ(poll_with(&join, &first), AW_PENDING);
    CHECK_EQ(poll_with(&join, &second), AW_PENDING);
    run_a_while(rt);
    CHECK(!aw_flag_take(&first) && !aw_flag_take(&second));
    probe_finish(&l);
    run_a_while(rt);
    CHECK(!aw_flag_take(&first));
    CHECK(aw_flag_take(&second));
    CHECK_EQ(poll_with(&join, &first), AW_READY);
    CHECK_EQ(join.out, 0);
    CHECK_EQ(aw_task_take(h), 102);
    aw_runtime_free(rt);
    CHECK(!aw_flag_take(&first) && !aw_flag_take(&second));
}

TEST(a_foreign_join_that_is_cancelled_is_not_accessed_again) {
    probe_state l = PROBE_STATE;
    aw_flag flag = {0};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_join_future unpolled = aw_task_join(h), pending = aw_task_join(h);
    CHECK_EQ(cancel_with(&unpolled, &flag), AW_CANCELLED);
    CHECK_EQ(poll_with(&pending, &flag), AW_PENDING);
    CHECK_EQ(cancel_with(&pending, &flag), AW_CANCELLED);
    memset(&pending, 0xa5, sizeof pending);
    probe_finish(&l);
    run_a_while(rt);
    CHECK(!aw_flag_take(&flag));
    aw_task_join_future woken = aw_task_join(h);
    CHECK_EQ(poll_with(&woken, &flag), AW_READY);
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(l.discards, 0);
}

TEST(a_foreign_join_that_was_woken_and_is_then_cancelled_has_finished) {
    probe_state l = PROBE_STATE;
    aw_flag flag = {0};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_join_future join = aw_task_join(h);
    CHECK_EQ(poll_with(&join, &flag), AW_PENDING);
    probe_finish(&l);
    run_a_while(rt);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(cancel_with(&join, &flag), AW_READY);
    CHECK_EQ(join.out, 0);
    aw_future_discard(&join.future); /* the output goes back to the handle ... */
    aw_task_drop(h);                 /* ... and is discarded with it */
    run_a_while(rt);
    CHECK_EQ(l.discards, 1);
    aw_runtime_free(rt);
}

/* A join that waited on another thread, and is polled by the owner next: block_on takes over. */
TEST(a_foreign_join_may_go_on_inside_the_runtime) {
    ON_THIS_THREAD("the task does not run between two steps");
    probe_state l = PROBE_STATE;
    aw_flag flag = {0};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    run_a_while(rt);
    aw_task_join_future join = aw_task_join(h);
    CHECK_EQ(poll_with(&join, &flag), AW_PENDING);
    probe_finish(&l);
    CHECK_EQ(aw_block_on_future(rt, &join.future), 0);
    CHECK_EQ(join.out, 0);
    CHECK_EQ(aw_task_take(h), 102);
    CHECK(!aw_flag_take(&flag));
    aw_runtime_free(rt);
}

/* The waker changes at each poll, while the task ends on its own thread: no wake-up is lost. */
struct fickle {
    event *polled;
    struct probe *task;
    int status;
    aw_parker *parker[2];
};

static void *join_fickly(void *arg) {
    struct fickle *f = arg;
    aw_task_join_future join = aw_task_join(f->task);
    for (unsigned i = 0;; i++) {
        aw_waker w = aw_parker_waker(f->parker[i % 2]);
        aw_cx cx = aw_cx_from_waker(&w);
        if (aw_future_poll(&join.future, &cx) == AW_READY) break;
        if (i == 0) event_post(f->polled);
        /* The first few polls come in quick succession, each with another waker. */
        if (i >= 4) aw_parker_park(f->parker[i % 2]);
    }
    f->status = join.out;
    aw_task_drop(f->task);
    return NULL;
}

TEST(changing_the_waker_of_a_join_while_the_task_completes_loses_no_wake_up) {
    event polled;
    event_init(&polled);
    for (int i = 0; i < test_scale(1000); i++) {
        probe_state l = PROBE_STATE;
        aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
        struct fickle f = {.polled = &polled, .parker = {aw_parker_new(), aw_parker_new()}};
        f.task = aw_spawn_on(rt, probe_of(&l));
        run_a_while(rt);
        pthread_t t = thread_start(join_fickly, &f);
        event_wait(&polled);
        probe_finish(&l);
        run_a_while(rt);
        thread_end(t);
        CHECK_EQ(f.status, 0);
        aw_parker_free(f.parker[0]);
        aw_parker_free(f.parker[1]);
        aw_runtime_free(rt);
        CHECK_EQ(l.discards, 0);
    }
}
