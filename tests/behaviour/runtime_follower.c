/* SPDX-License-Identifier: MIT
 *
 * block_on from several threads at once: one thread owns the runtime and runs it, the others
 * follow and poll their own future. When the owner returns, a follower takes over. */
#include "support/tasks.h"

/* ---- Following ------------------------------------------------------------------------------- */

AW_ASYNC(int, spawns_and_sleeps, struct probe *task; probe_state * state; aw_sleep nap;
         aw_runtime * rt; aw_task_join_future join; aw_box box;) {
    AW_BEGIN;
    /* The runtime of the block_on that this thread is in. */
    CHECK_EQ(aw_runtime_current(), self->rt);
    CHECK_EQ(aw_cx_runtime(cx), self->rt);
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    CHECK_EQ(self->nap.out, 0);
    self->task = aw_spawn(probe_of(self->state));
    CHECK_EQ(aw_task_error(self->task), 0);
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_AWAIT(self->box, aw_box_new(aw_sleep_for(1)));
    CHECK_EQ(aw_box_take(aw_sleep, &self->box), 0);
    AW_RETURN(aw_task_take(self->task));
    AW_END;
}

TEST(a_second_thread_in_block_on_can_sleep_spawn_and_join) {
    host h;
    probe_state l = PROBE_STATE;
    l.answer = AW_READY;
    host_start(&h, NULL);
    CHECK_EQ(aw_runtime_current(), NULL);
    CHECK_EQ(aw_block_on(h.rt, AW_CALL(spawns_and_sleeps, .state = &l, .rt = h.rt)), 101);
    CHECK(pthread_equal(l.polled_by, h.thread)); /* tasks run on the owner's thread */
    CHECK_EQ(aw_runtime_current(), NULL);
    host_stop(&h);
    aw_runtime_free(h.rt);
}

AW_ASYNC(int, blocks_again, aw_runtime *rt; bool runs;) {
    AW_BEGIN;
    if (self->runs) AW_RETURN(aw_run(aw_ready_now(1)));
    AW_RETURN(aw_block_on(self->rt, aw_ready_now(1)));
    AW_END;
}

TEST(block_on_inside_a_followers_future_is_refused_too) {
    kept_log log = KEPT_LOG;
    host h;
    host_start(&h, NULL);
    aw_set_log(keep_log, &log);
    CHECK_EQ(aw_block_on(h.rt, AW_CALL(blocks_again, .rt = h.rt)), -EPERM);
    CHECK_EQ(aw_block_on(h.rt, AW_CALL(blocks_again, .rt = h.rt, .runs = true)), -EPERM);
    CHECK_EQ(log_count(&log, "refused inside the main future"), 2);
    CHECK_EQ(aw_block_on(h.rt, aw_ready_now(1)), 1); /* allowed again after that future */
    host_stop(&h);
    aw_runtime_free(h.rt);
}

TEST(a_paused_clock_jumps_for_a_follower_too) {
    host h = {.stop = AW_NOTIFY_INIT};
    h.rt = runtime_new(NULL, NULL, sleeper_init(&h.sleeper), true);
    h.thread = thread_start(host_body, &h);
    event_wait(&h.sleeper.asleep);
    uint64_t begin = aw_now(h.rt);
    CHECK_EQ(aw_block_on(h.rt, aw_sleep_for(AW_SEC(1000))), 0);
    CHECK_EQ(aw_now(h.rt) - begin, AW_SEC(1000));
    host_stop(&h);
    aw_runtime_free(h.rt);
}

/* A wait that only the other thread can end is not a deadlock. */
struct rescue {
    sleeper sleeper;
    aw_runtime *rt;
    struct probe *task;
    aw_notify now;
    event there;
};

AW_ASYNC(int, comes_to_the_rescue, struct rescue *rescue; aw_notified wait;) {
    AW_BEGIN;
    event_post(&self->rescue->there);
    AW_AWAIT(self->wait, aw_notify_wait(&self->rescue->now));
    aw_task_abort(self->rescue->task);
    AW_RETURN(0);
    AW_END;
}

static void *rescue(void *arg) {
    struct rescue *r = arg;
    event_wait(&r->sleeper.asleep); /* the other thread owns the runtime, and is held */
    CHECK_EQ(aw_block_on(r->rt, AW_CALL(comes_to_the_rescue, .rescue = r)), 0);
    return NULL;
}

static void *unhold_and_wait(void *arg) {
    struct rescue *r = arg;
    event_wait(&r->there);
    aw_runtime_unhold(r->rt);
    event_wait(&r->sleeper.asleep); /* it has checked again, and sleeps */
    aw_notify_one(&r->now);
    return NULL;
}

TEST(while_a_second_thread_is_in_block_on_nothing_is_a_deadlock) {
    kept_log log = KEPT_LOG;
    probe_state l = PROBE_STATE;
    struct rescue r = {.now = AW_NOTIFY_INIT};
    l.careless = true; /* nothing will ever wake it */
    event_init(&r.there);
    r.rt = runtime_new(NULL, &log, sleeper_init(&r.sleeper), false);
    r.task = aw_spawn_on(r.rt, probe_of(&l));
    aw_runtime_hold(r.rt);
    pthread_t t = thread_start(rescue, &r), u = thread_start(unhold_and_wait, &r);
    CHECK_EQ(JOIN_STATUS(r.rt, r.task), -ECANCELED);
    thread_end(t);
    thread_end(u);
    aw_task_drop(r.task);
    aw_runtime_free(r.rt);
    CHECK_EQ(log_count(&log, "lost wake-up"), 1);
    CHECK_EQ(log_count(&log, "deadlock: nothing can run"), 0);
}

struct second {
    aw_runtime *rt;
    probe_state *state;
    int result;
};

static void *block_on_probe(void *arg) {
    struct second *s = arg;
    s->result = aw_block_on(s->rt, probe_of(s->state));
    return NULL;
}

/* A follower's future is polled on its own thread, and only when it is woken. */
TEST(a_followers_future_is_polled_on_its_own_thread_and_only_when_woken) {
    host h;
    event polled;
    probe_state l = PROBE_STATE;
    struct second s = {.state = &l};
    event_init(&polled);
    l.after_poll = &polled;
    host_start(&h, NULL);
    s.rt = h.rt;
    pthread_t t = thread_start(block_on_probe, &s);
    event_wait(&polled);
    for (int i = 0; i < 10; i++) { /* the owner is busy with other things */
        aw_task_drop(aw_spawn_on(h.rt, aw_ready_now(1)));
        CHECK_EQ(aw_block_on(h.rt, rounds(3)), 0);
    }
    l.answer = AW_READY;
    probe_wake(&l);
    thread_end(t);
    CHECK_EQ(l.polls, 2);
    CHECK_EQ(s.result, 102);
    CHECK(pthread_equal(l.polled_by, t));
    host_stop(&h);
    aw_runtime_free(h.rt);
}

/* ---- Taking over ----------------------------------------------------------------------------- */

TEST(when_the_owner_leaves_a_waiting_thread_takes_over_and_runs_the_tasks) {
    host h;
    event polled;
    probe_state l = PROBE_STATE, task = PROBE_STATE;
    struct second s = {.state = &l};
    event_init(&polled);
    l.after_poll = &polled;
    task.after_poll = &polled;
    host_start(&h, NULL);
    s.rt = h.rt;
    pthread_t t = thread_start(block_on_probe, &s);
    event_wait(&polled);
    host_stop(&h);
    aw_task_drop(aw_spawn_on(h.rt, probe_of(&task)));
    event_wait(&polled); /* the future, polled by its new owner, or the task */
    event_wait(&polled);
    CHECK(pthread_equal(task.polled_by, t));
    l.answer = AW_READY;
    probe_wake(&l);
    thread_end(t);
    CHECK_EQ(s.result, 100 + l.polls);
    aw_runtime_free(h.rt);
    CHECK_EQ(task.cancels, 1);
}

/* The timer is in the wheel of a runtime that would have no owner any more. */
struct sleeper_thread {
    aw_runtime *rt;
    event *polled;
    uint64_t duration;
};

AW_ASYNC(int, says_and_sleeps, event *polled; uint64_t duration; uint64_t begin; aw_sleep nap;) {
    AW_BEGIN;
    self->begin = aw_now(NULL);
    self->nap = aw_sleep_for(self->duration);
    CHECK_EQ(aw_future_poll(&self->nap.future, cx), AW_PENDING);
    event_post(self->polled);
    AW_AWAIT_FUTURE(self->nap);
    CHECK_GE(aw_now(NULL) - self->begin, self->duration);
    AW_RETURN(0);
    AW_END;
}

static void *block_on_sleep(void *arg) {
    struct sleeper_thread *s = arg;
    CHECK_EQ(
        aw_block_on(s->rt, AW_CALL(says_and_sleeps, .polled = s->polled, .duration = s->duration)),
        0);
    return NULL;
}

TEST(a_timer_of_a_waiting_thread_fires_after_the_owner_has_left) {
    host h;
    event polled;
    event_init(&polled);
    host_start(&h, NULL);
    struct sleeper_thread s = {h.rt, &polled, AW_MSEC(30)};
    pthread_t t = thread_start(block_on_sleep, &s);
    event_wait(&polled);
    host_stop(&h);
    thread_end(t);
    aw_runtime_free(h.rt);
}

/* The wait began as a follower's and ended as the owner's: it no longer counts when a deadlock
 * is checked for. */
static aw_poll stuck_poll(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    (void)cx;
    (void)out;
    return AW_PENDING;
}

TEST(a_wait_that_was_taken_over_does_not_hide_a_deadlock) {
    kept_log log = KEPT_LOG;
    event polled;
    host h = {.stop = AW_NOTIFY_INIT};
    event_init(&polled);
    h.rt = runtime_new(NULL, &log, sleeper_init(&h.sleeper), false);
    h.thread = thread_start(host_body, &h);
    event_wait(&h.sleeper.asleep);
    struct sleeper_thread s = {h.rt, &polled, AW_MSEC(20)};
    pthread_t t = thread_start(block_on_sleep, &s);
    event_wait(&polled);
    host_stop(&h);
    thread_end(t);
    CHECK_EQ(log.length, 0);
    CHECK_EQ(aw_block_on(h.rt, aw_poll_fn_of(stuck_poll, NULL)), -EDEADLK);
    aw_runtime_free(h.rt);
}

/* Above 30 children, only the woken ones are polled: the thread that takes over polls none of
 * them. */
struct crowd {
    aw_notify gate;
    event polled;
    aw_runtime *rt;
    aw_notified waits[40];
};

AW_ASYNC(int, waits_for_crowd, struct crowd *crowd; aw_all all;) {
    AW_BEGIN;
    for (int i = 0; i < 40; i++)
        self->crowd->waits[i] = aw_notify_wait(&self->crowd->gate);
    self->all = aw_join_all(self->crowd->waits, 40);
    CHECK_EQ(aw_future_poll(&self->all.future, cx), AW_PENDING);
    event_post(&self->crowd->polled);
    AW_AWAIT_FUTURE(self->all);
    AW_RETURN(self->all.out);
    AW_END;
}

static void *block_on_crowd(void *arg) {
    struct crowd *c = arg;
    CHECK_EQ(aw_block_on(c->rt, AW_CALL(waits_for_crowd, .crowd = c)), 0);
    return NULL;
}

TEST(waits_that_began_as_a_follower_count_for_the_new_owner) {
    kept_log log = KEPT_LOG;
    sleeper s;
    static struct crowd c;
    aw_notify stop = AW_NOTIFY_INIT;
    aw_set_log(keep_log, &log);
    event_init(&c.polled);
    host h = {.rt = c.rt = runtime_new(NULL, &log, sleeper_init(&s), false), .stop = stop};
    h.thread = thread_start(host_body, &h);
    event_wait(&s.asleep);
    pthread_t t = thread_start(block_on_crowd, &c);
    event_wait(&c.polled);
    host_stop(&h);
    event_wait(&s.asleep); /* the new owner sleeps: it did not take this for a deadlock */
    aw_notify_waiters(&c.gate);
    thread_end(t);
    CHECK_EQ(log.length, 0);
    aw_runtime_free(c.rt);
}

/* ---- Many ------------------------------------------------------------------------------------ */

/* Every thread runs its own futures on the one runtime; the current owner runs all tasks. */
AW_ASYNC(int, mixed, int left; struct probe * task; probe_state state; aw_sleep nap;
         struct rounds pause; aw_task_join_future join;) {
    AW_BEGIN;
    for (; self->left > 0; self->left--) {
        AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(50)));
        self->state = (probe_state)PROBE_STATE;
        self->state.answer = AW_READY;
        self->task = aw_spawn(probe_of(&self->state));
        AW_AWAIT(self->join, aw_task_join(self->task));
        CHECK_EQ(self->join.out, 0);
        CHECK_EQ(aw_task_take(self->task), 101);
        AW_AWAIT(self->pause, rounds(2));
    }
    AW_RETURN(0);
    AW_END;
}

static void *block_on_many(void *rt) {
    for (int i = 0; i < test_scale(50); i++)
        CHECK_EQ(aw_block_on(rt, AW_CALL(mixed, .left = 3)), 0);
    return NULL;
}

TEST(several_threads_alternate_in_running_one_runtime) {
    enum { THREADS = 4 };
    memory m;
    pthread_t t[THREADS];
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    for (int i = 0; i < THREADS; i++)
        t[i] = thread_start(block_on_many, rt);
    for (int i = 0; i < THREADS; i++)
        thread_end(t[i]);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(block_on_of_a_follower_without_memory_releases_the_future_and_says_so) {
    host h;
    memory m;
    probe_state l = PROBE_STATE;
    host_start(&h, NULL);
    memory_init(&m);
    m.refuse = true;
    aw_set_allocator(&m.allocator);
    CHECK_EQ(aw_block_on(h.rt, probe_of(&l)), -ENOMEM);
    CHECK_EQ(l.cancels, 1);
    CHECK_EQ(l.polls, 0);
    aw_set_allocator(NULL);
    host_stop(&h);
    aw_runtime_free(h.rt);
}
