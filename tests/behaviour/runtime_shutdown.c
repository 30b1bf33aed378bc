/* SPDX-License-Identifier: MIT
 *
 * Shutting a runtime down with a time limit and in the background, on both flavours: nothing
 * hangs, and tasks that did not end in time stay alive on purpose, counted and named. */
#include "support/workers.h"

/* Waits until all tasks have begun. Workers begin them on their own. */
static void begin(aw_runtime *rt, uint32_t workers, uint32_t tasks) {
    if (workers)
        WAIT_UNTIL(COUNTER_SUM(rt, polls) >= tasks);
    else
        CHECK_EQ(aw_block_on(rt, rounds(2)), 0);
}

static size_t thread_count(void) {
    return entries("/proc/self/task");
}
/* Threads that are not ours: a sanitizer may add one when the first thread is created. */
static void *do_nothing(void *arg) {
    return arg;
}
static size_t other_threads(void) {
    on_a_thread(do_nothing, NULL);
    return thread_count();
}

/* ---- A task that ends only when it is released ----------------------------------------------- */

typedef struct hold {
    pthread_mutex_t lock;
    aw_waker waker;
    bool released;
    uint32_t cancels, ends; /* atomic */
} hold;

#define HOLD                                                                                       \
    { .lock = PTHREAD_MUTEX_INITIALIZER }

struct stubborn {
    aw_future future;
    int out;
    hold *hold;
};

static bool stubborn_wait(hold *h, aw_cx *cx, bool cancelled) {
    pthread_mutex_lock(&h->lock);
    bool over = cancelled && h->released;
    if (over && h->waker.type)
        aw_waker_drop(aw_waker_take(&h->waker));
    else if (!over)
        aw_waker_set(&h->waker, aw_cx_waker(cx));
    pthread_mutex_unlock(&h->lock);
    return over;
}
static aw_poll stubborn_poll(aw_future *self, aw_cx *cx) {
    stubborn_wait(((struct stubborn *)self)->hold, cx, false);
    return AW_PENDING;
}
static aw_poll stubborn_cancel(aw_future *self, aw_cx *cx) {
    hold *h = ((struct stubborn *)self)->hold;
    ADD(h->cancels, 1);
    if (aw_future_started(self) && !stubborn_wait(h, cx, true)) return AW_PENDING;
    ADD(h->ends, 1);
    return AW_CANCELLED;
}
static const aw_future_type stubborn_type = {AW_TYPE_OF(struct stubborn, "stubborn"),
                                             .poll = stubborn_poll, .cancel = stubborn_cancel};

static struct stubborn stubborn(hold *h) {
    return (struct stubborn){AW_FUTURE_INIT(&stubborn_type), 0, h};
}
static aw_waker hold_waker(hold *h) {
    pthread_mutex_lock(&h->lock);
    aw_waker w = h->waker.type ? aw_waker_clone(&h->waker) : h->waker;
    pthread_mutex_unlock(&h->lock);
    return w;
}
static void release_hold(hold *h) {
    pthread_mutex_lock(&h->lock);
    h->released = true;
    pthread_mutex_unlock(&h->lock);
    aw_waker w = hold_waker(h);
    if (w.type) aw_waker_wake(w);
}

/* ---- With a time limit ----------------------------------------------------------------------- */

ON_BOTH(shutdown_ends_all_tasks_and_refuses_new_ones) {
    enum { TASKS = 100 };
    static gate g[TASKS];
    memory m;
    kept_log log = KEPT_LOG;
    aw_runtime *rt = new_runtime(workers, &m, &log);
    for (int i = 0; i < TASKS; i++) {
        g[i] = (gate)GATE;
        g[i].stays = i % 4;
        aw_task_drop(aw_spawn_on(rt, through(&g[i])));
    }
    begin(rt, workers, TASKS);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(100)), 0);
    CHECK_EQ(aw_runtime_task_count(rt), 0);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(g[i].ends, 1);
    gate late = GATE;
    struct through *h = aw_spawn_on(rt, through(&late));
    CHECK_EQ(aw_task_error(h), -ECANCELED);
    CHECK_EQ(late.cancelled, 1);
    CHECK_EQ(aw_block_on(rt, through(&late)), -ESHUTDOWN);
    CHECK_EQ(late.cancelled, 2);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_FOREVER), 0);
    CHECK_EQ(log.length, 0);
    workers_end(rt, &m);
}

ON_BOTH(an_idle_runtime_with_a_long_limit_ends_at_once) {
    uint64_t before = test_now_ns();
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(3600)), 0);
    aw_runtime_free(rt);
    rt = new_runtime(workers, NULL, NULL);
    aw_task_drop(aw_spawn_on(rt, aw_sleep_for(AW_SEC(3600))));
    CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(3600)), 0);
    aw_runtime_free(rt);
    CHECK_LT(test_now_ns() - before, AW_SEC(15));
}

ON_BOTH(what_has_not_ended_in_time_is_counted_and_named) {
    memory m;
    kept_log log = KEPT_LOG;
    hold h[3] = {HOLD, HOLD, HOLD};
    gate g = GATE;
    aw_runtime *rt = new_runtime(workers, &m, &log);
    for (int i = 0; i < 3; i++)
        aw_task_drop(aw_spawn_on(rt, stubborn(&h[i])));
    aw_task_drop(aw_spawn_on(rt, through(&g)));
    begin(rt, workers, 4);
    uint64_t before = test_now_ns();
    CHECK_EQ(aw_runtime_shutdown(rt, AW_MSEC(20)), 3);
    CHECK_GE(test_now_ns() - before, AW_MSEC(20));
    CHECK_EQ(LOAD(g.ends), 1);
    CHECK_EQ(log_count(&log, "3 tasks have not ended 0.020 s after they were cancelled"), 1);
    CHECK_EQ(log_count(&log, "'stubborn' (spawned at "), 3);
    CHECK_EQ(log_count(&log, "through"), 0);
    release_hold(&h[1]);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_MSEC(20)), 2); /* the released task has ended */
    CHECK_EQ(log_count(&log, "2 tasks have not ended"), 1);
    release_hold(&h[0]);
    release_hold(&h[2]);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(100)), 0);
    CHECK_EQ(log_count(&log, "have not ended"), 2);
    workers_end(rt, &m);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(h[i].ends, 1);
}

ON_BOTH(a_limit_of_zero_only_requests_the_cancel) {
    memory m;
    kept_log log = KEPT_LOG;
    hold h = HOLD;
    aw_runtime *rt = new_runtime(workers, &m, &log);
    aw_task_drop(aw_spawn_on(rt, stubborn(&h)));
    begin(rt, workers, 1);
    CHECK_EQ(aw_runtime_shutdown(rt, 0), 1);
    CHECK_EQ(log.length, 0);
    CHECK_EQ(aw_task_error(aw_spawn_on(rt, stubborn(&h))), -ECANCELED); /* unstarted: at once */
    if (workers) WAIT_UNTIL(LOAD(h.cancels) >= 1); /* they have been cancelled */
    release_hold(&h);
    workers_end(rt, &m);
    CHECK_GE(h.cancels, 1);
}

static void *release_hold_later(void *arg) {
    hold *h = arg;
    WAIT_UNTIL(LOAD(h->cancels) >= 2);
    release_hold(h);
    return NULL;
}

ON_BOTH(free_waits_for_what_shutdown_could_not) {
    memory m;
    hold h = HOLD;
    kept_log log = KEPT_LOG;
    aw_runtime *rt = new_runtime(workers, &m, &log);
    aw_task_drop(aw_spawn_on(rt, stubborn(&h)));
    begin(rt, workers, 1);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_MSEC(1)), 1);
    pthread_t thread = thread_start(release_hold_later, &h);
    aw_waker w = hold_waker(&h);
    aw_waker_wake(w); /* an extra wake, so that it is cancelled a second time */
    aw_runtime_free(rt);
    thread_end(thread);
    CHECK_EQ(h.ends, 1);
    CHECK_EQ(memory_in_use(&m), 0);
}

ON_BOTH(one_message_names_as_many_tasks_as_fit) {
    enum { TASKS = 300 };
    static hold h[TASKS];
    kept_log log = KEPT_LOG;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    for (int i = 0; i < TASKS; i++) {
        h[i] = (hold)HOLD;
        aw_task_drop(aw_spawn_on(rt, stubborn(&h[i])));
    }
    begin(rt, workers, TASKS);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_MSEC(1)), TASKS);
    CHECK_EQ(log_count(&log, "300 tasks have not ended"), 1);
    CHECK_GT(log_count(&log, "'stubborn'"), 3);
    CHECK_EQ(log_count(&log, "(and more)"), 1);
    CHECK_LT(log.length, 4096);
    for (int i = 0; i < TASKS; i++)
        release_hold(&h[i]);
    aw_runtime_free(rt);
}

/* The limit is measured on the runtime's clock, which jumps when there is nothing else to wait
 * for. */
ON_BOTH(a_paused_clock_jumps_to_the_limit) {
    hold h = HOLD;
    kept_log log = KEPT_LOG;
    aw_runtime *rt = new_runtime(workers, NULL, &log);
    CHECK_EQ(aw_clock_pause(rt), 0);
    aw_task_drop(aw_spawn_on(rt, stubborn(&h)));
    begin(rt, workers, 1);
    uint64_t before = aw_now(rt), real = test_now_ns();
    CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(3600)), 1);
    CHECK_EQ(aw_now(rt) - before, AW_SEC(3600));
    CHECK_LT(test_now_ns() - real, AW_SEC(15));
    release_hold(&h);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(3600)), 0);
    CHECK_EQ(aw_now(rt) - before, AW_SEC(3600)); /* without having to wait for it */
    aw_runtime_free(rt);
}

/* ---- In the background ----------------------------------------------------------------------- */

/* With workers, another thread frees it, soon. */
static void wait_for_memory(const memory *m) {
    WAIT_UNTIL(memory_in_use(m) == 0);
}

ON_BOTH(an_idle_runtime_that_is_abandoned_is_gone) {
    size_t threads = other_threads();
    for (int i = 0; i < 20; i++) {
        memory m;
        kept_log log = KEPT_LOG;
        aw_runtime *rt = new_runtime(workers, &m, &log);
        if (i % 2) CHECK_EQ(aw_block_on(rt, rounds(2)), 0);
        aw_runtime_abandon(rt);
        if (!workers) CHECK_EQ(memory_in_use(&m), 0);
        wait_for_memory(&m);
        CHECK_EQ(log.length, 0);
    }
    WAIT_UNTIL(thread_count() <= threads);
}

ON_WORKERS(abandoned_tasks_are_ended_by_the_workers) {
    size_t threads = other_threads();
    memory m;
    hold h = HOLD;
    gate g = GATE;
    kept_log log = KEPT_LOG;
    aw_runtime *rt = workers_new(workers, &m, &log);
    aw_task_drop(aw_spawn_on(rt, stubborn(&h)));
    aw_task_drop(aw_spawn_on(rt, through(&g)));
    begin(rt, workers, 2);
    aw_runtime_abandon(rt);
    WAIT_UNTIL(LOAD(g.ends) && LOAD(h.cancels)); /* no thread waits for them */
    CHECK_GT(memory_in_use(&m), 0);
    release_hold(&h);
    wait_for_memory(&m);
    WAIT_UNTIL(thread_count() <= threads);
    CHECK_EQ(h.ends, 1);
    CHECK_EQ(log.length, 0);
}

ON_WORKERS(handles_and_wakers_of_an_abandoned_runtime_stay_good) {
    memory m;
    hold h = HOLD;
    gate g = GATE;
    aw_runtime *rt = workers_new(workers, &m, NULL), *other = workers_new(2, NULL, NULL);
    struct stubborn *s = aw_spawn_on(rt, stubborn(&h));
    struct through *t = aw_spawn_on(rt, through(&g));
    aw_task_join_future *j = aw_spawn_on(other, aw_task_join(s));
    gate_wait(&g, 1);
    aw_waker w = gate_waker(&g);
    aw_runtime_abandon(rt);
    CHECK_EQ(JOIN_STATUS(other, t), -ECANCELED);
    aw_task_abort(s);
    release_hold(&h);
    CHECK_EQ(JOIN_STATUS(other, j), 0); /* a join elsewhere completes when the task ends */
    CHECK_EQ(aw_task_take(j), -ECANCELED);
    aw_task_drop(s);
    aw_task_drop(t);
    CHECK_GT(memory_in_use(&m), 0);
    aw_waker_wake(w);
    wait_for_memory(&m);
    aw_runtime_free(other);
}

/* LeakSanitizer checks what remains when the test ends. */
TEST(tasks_of_an_abandoned_runtime_stay_alive) {
    static hold h[2] = {HOLD, HOLD};
    static kept_log log = KEPT_LOG;
    static memory m;
    gate done = GATE;
    static aw_flag flag;
    aw_waker waker = aw_flag_waker(&flag);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_runtime *rt = new_runtime(0, &m, &log);
    struct stubborn *a = aw_spawn_on(rt, stubborn(&h[0]));
    aw_task_drop(aw_spawn_on(rt, stubborn(&h[1])));
    struct through *b = aw_spawn_on(rt, through(&done));
    CHECK_EQ(aw_block_on(rt, rounds(2)), 0);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_MSEC(1)), 2);
    aw_waker w = hold_waker(&h[0]);
    aw_task_join_future join = aw_task_join(a);
    CHECK_EQ(aw_future_poll(&join.future, &cx), AW_PENDING);
    aw_runtime_abandon(rt);
    CHECK_EQ(log_count(&log, "2 tasks were given up and stay alive"), 1);
    CHECK_EQ(log_count(&log, "'stubborn' (spawned at "), 4); /* by shutdown, and by this call */
    CHECK_EQ(aw_run(aw_task_join(b)), -ECANCELED);
    aw_task_drop(b);
    CHECK_EQ(memory_in_use(&m), 3); /* the runtime and the two tasks */
    release_hold(&h[0]);
    aw_waker_wake(w);
    aw_task_abort(a);
    CHECK(!aw_task_is_finished(a));
    CHECK_STR(aw_task_name(a), "stubborn");
    CHECK_EQ(aw_future_poll(&join.future, &cx), AW_PENDING);
    CHECK_EQ(aw_future_cancel(&join.future, &cx), AW_CANCELLED);
    CHECK(!aw_flag_take(&flag));
    aw_task_drop(a);
    CHECK_EQ(memory_in_use(&m), 3);
    CHECK_EQ(h[0].ends + h[1].ends, 0);
}

/* Pending for ever once it is cancelled, without a waker. */
static aw_poll lost_cancel(aw_future *self, aw_cx *cx) {
    hold *h = ((struct stubborn *)self)->hold;
    (void)cx;
    pthread_mutex_lock(&h->lock);
    aw_waker w = aw_waker_take(&h->waker);
    pthread_mutex_unlock(&h->lock);
    if (w.type) aw_waker_drop(w);
    return AW_PENDING;
}
static const aw_future_type lost_type = {AW_TYPE_OF(struct stubborn, "lost"), .poll = stubborn_poll,
                                         .cancel = lost_cancel};

/* The threads exit, and the task stays alive. LeakSanitizer checks that too. */
ON_WORKERS(an_abandoned_runtime_does_not_wait_for_what_can_never_end) {
    static hold h = HOLD;
    static kept_log log = KEPT_LOG;
    static memory m;
    size_t threads = other_threads();
    aw_runtime *rt = workers_new(workers, &m, &log);
    struct stubborn lost = {AW_FUTURE_INIT(&lost_type), 0, &h};
    struct stubborn *handle = aw_spawn_on(rt, lost);
    begin(rt, workers, 1);
    aw_runtime_abandon(rt);
    WAIT_UNTIL(thread_count() <= threads);
    CHECK_EQ(log_count(&log, "1 tasks cannot be cancelled and are left behind"), 1);
    CHECK(!aw_task_is_finished(handle));
    aw_task_abort(handle);
    aw_task_drop(handle);
    CHECK_GT(memory_in_use(&m), 0);
}

/* ---- Under load ------------------------------------------------------------------------------ */

typedef struct crowd {
    aw_runtime *rt;
    uint32_t begun, ended; /* atomic */
    gate gates[8];
} crowd;

/* Spawns tasks like itself and wakes gates at random, for ever. */
AW_ASYNC(int, restless, crowd *crowd; uint64_t random; int generation; aw_yield pause;) {
    AW_BEGIN;
    ADD(self->crowd->begun, 1);
    for (;;) {
        gate_wake(&self->crowd->gates[test_random(&self->random) % 8]);
        if (self->generation < 8 && chance(&self->random, 3))
            aw_task_drop(aw_spawn(AW_CALL(restless, .crowd = self->crowd,
                                          .random = test_random(&self->random),
                                          .generation = self->generation + 1)));
        AW_AWAIT(self->pause, aw_yield_now());
        if (self->generation > 5 && chance(&self->random, 4)) AW_RETURN(0);
    }
    AW_FINALLY;
    if (AW_STARTED) ADD(self->crowd->ended, 1);
    AW_END;
}

/* Spawns until it is refused. Until then its handles keep the runtime alive. */
static void spawn_on_and_on(void *arg, int index, uint64_t *random) {
    crowd *c = arg;
    for (int error = 0; !error;) {
        struct restless *h = aw_spawn_on(
            c->rt, AW_CALL(restless, .crowd = c, .random = test_random(random), .generation = 7));
        error = aw_task_error(h);
        if (chance(random, 2)) aw_task_abort(h);
        aw_task_drop(h);
        gate_wake(&c->gates[index]);
        jitter(random);
    }
    CHECK_EQ(aw_task_error(aw_spawn_on(c->rt, aw_ready_now(1))), -ECANCELED);
}

static void end_among_spawners(uint32_t workers, bool abandon) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(20); round++) {
        static crowd c;
        memory m;
        thread_group s;
        c.begun = c.ended = 0;
        c.rt = new_runtime(workers, &m, NULL);
        for (int i = 0; i < 8; i++) {
            c.gates[i] = (gate)GATE;
            aw_task_drop(aw_spawn_on(c.rt, through(&c.gates[i])));
        }
        struct restless *kept = aw_spawn_on(
            c.rt, AW_CALL(restless, .crowd = &c, .random = test_random(&random)));
        thread_group_create(&s, 2, &random, spawn_on_and_on, &c);
        thread_group_go(&s);
        if (workers)
            WAIT_UNTIL(LOAD(c.begun) > (uint32_t)test_scale(100));
        else
            CHECK_EQ(aw_block_on(c.rt, rounds(10)), 0); /* they multiply with every round */
        if (!abandon || !workers) CHECK_EQ(aw_runtime_shutdown(c.rt, AW_SEC(1000)), 0);
        if (abandon)
            aw_runtime_abandon(c.rt);
        else
            aw_runtime_free(c.rt);
        thread_group_join(&s);
        aw_task_drop(kept);
        wait_for_memory(&m);
        CHECK_EQ(LOAD(c.begun), LOAD(c.ended));
        for (int i = 0; i < 8; i++)
            CHECK_EQ(c.gates[i].ends, 1);
    }
}

ON_BOTH(shutdown_while_tasks_and_threads_spawn_and_wake) {
    end_among_spawners(workers, false);
}
ON_BOTH(abandoning_while_tasks_and_threads_spawn_and_wake) {
    end_among_spawners(workers, true);
}

/* ---- Blocking calls -------------------------------------------------------------------------- */

typedef struct job {
    event started, go;
    uint32_t released; /* atomic */
} job;

static void job_init(job *j) {
    event_init(&j->started);
    event_init(&j->go);
    j->released = 0;
}
static long job_body(void *arg) {
    job *j = arg;
    event_post(&j->started);
    event_wait(&j->go);
    return 5;
}
static void job_release(void *arg) {
    ADD(((job *)arg)->released, 1);
}

/* Until the job has begun; the current-thread flavour has to be run for that. */
static void wait_for_job(aw_runtime *rt, uint32_t workers, job *j) {
    while (sem_trywait(&j->started) != 0)
        if (workers)
            sched_yield();
        else
            CHECK_EQ(aw_block_on(rt, rounds(1)), 0);
}

ON_BOTH(a_blocking_call_that_borrows_is_counted_through_its_task) {
    memory m;
    kept_log log = KEPT_LOG;
    static job j;
    job_init(&j);
    aw_runtime *rt = new_runtime(workers, &m, &log);
    aw_task_drop(aw_spawn_on(rt, aw_blocking(job_body, &j)));
    wait_for_job(rt, workers, &j);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_MSEC(5)), 1);
    CHECK_EQ(log_count(&log, "1 tasks have not ended"), 1);
    CHECK_EQ(log_count(&log, "'blocking call' (spawned at"), 1);
    event_post(&j.go);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(100)), 0);
    aw_runtime_free(rt);
    wait_for_memory(&m); /* the thread that made the call frees the last of it */
}

ON_BOTH(a_blocking_call_that_owns_goes_on_by_itself) {
    memory m;
    kept_log log = KEPT_LOG;
    static job j;
    job_init(&j);
    aw_runtime *rt = new_runtime(workers, &m, &log);
    aw_task_drop(aw_spawn_on(rt, aw_blocking_owned(job_body, job_release, &j)));
    wait_for_job(rt, workers, &j);
    CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(100)), 0);
    CHECK_EQ(log.length, 0);
    aw_runtime_abandon(rt);
    WAIT_UNTIL(log_count(&log, "1 blocking calls that were given up still run") == 1);
    CHECK_EQ(LOAD(j.released), 0);
    event_post(&j.go);
    wait_for_memory(&m);
    CHECK_EQ(LOAD(j.released), 1);
}

ON_WORKERS(an_abandoned_runtime_waits_for_a_call_that_borrows) {
    memory m;
    static job j;
    job_init(&j);
    aw_runtime *rt = workers_new(workers, &m, NULL);
    aw_blocking_future *h = aw_spawn_on(rt, aw_blocking(job_body, &j));
    event_wait(&j.started);
    aw_runtime_abandon(rt);
    CHECK(!aw_task_is_finished(h));
    event_post(&j.go);
    WAIT_UNTIL(aw_task_is_finished(h));
    aw_task_drop(h);
    wait_for_memory(&m);
}

TEST(a_call_that_borrows_may_end_after_its_runtime_was_abandoned) {
    ON_THIS_THREAD("no thread runs its tasks once it is abandoned");
    static memory m;
    static job j;
    static kept_log log = KEPT_LOG;
    size_t threads = other_threads();
    job_init(&j);
    memory_init(&m);
    aw_runtime *rt;
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.allocator = &m.allocator;
    o.log = keep_log;
    o.log_data = &log;
    o.keep_tasks = true;
    o.blocking_idle = AW_MSEC(1);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    aw_task_drop(aw_spawn_on(rt, aw_blocking(job_body, &j)));
    wait_for_job(rt, 0, &j);
    aw_runtime_abandon(rt);
    CHECK_EQ(log_count(&log, "1 tasks were given up and stay alive"), 1);
    event_post(&j.go);
    WAIT_UNTIL(thread_count() <= threads); /* the thread exits on its own */
}

/* ---- Misuse ---------------------------------------------------------------------------------- */

AW_ASYNC(int, ends_its_runtime, aw_runtime *rt;) {
    AW_BEGIN;
    DIES(aw_runtime_shutdown(self->rt, 0), "aw_runtime_shutdown inside task ");
    DIES(aw_runtime_abandon(self->rt), "aw_runtime_abandon inside task ");
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(ending_it_inside_a_task_is_caught) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    struct ends_its_runtime *h = aw_spawn_on(rt, AW_CALL(ends_its_runtime, .rt = rt));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

typedef struct blocked {
    aw_runtime *rt;
    gate gate;
} blocked;

static void *block(void *arg) {
    blocked *b = arg;
    CHECK_EQ(aw_block_on(b->rt, through(&b->gate)), 7);
    return NULL;
}

ON_BOTH(ending_it_while_a_thread_is_in_block_on_is_caught) {
    blocked b = {new_runtime(workers, NULL, NULL), GATE};
    pthread_t thread = thread_start(block, &b);
    gate_wait(&b.gate, 1);
    DIES(aw_runtime_shutdown(b.rt, 0), "aw_runtime_shutdown while a thread is in block_on");
    DIES(aw_runtime_abandon(b.rt), "aw_runtime_abandon while a thread is in block_on");
    gate_open(&b.gate);
    thread_end(thread);
    aw_runtime_free(b.rt);
}
