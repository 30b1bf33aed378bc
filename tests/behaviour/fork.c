/* SPDX-License-Identifier: MIT
 *
 * The child of a fork cannot run a runtime that was made before. Everything but freeing memory
 * is refused, nothing hangs on locks of threads that do not exist in the child, and new runtimes
 * work. */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "task/task_header.h"
#include "support/workers.h"
#include "sched/multi/pool.h"

/* Waits until the spawned tasks were polled and no thread is busy: a lock of the test itself,
 * for example of its allocator, would stay locked in the child. So would one of the sanitizer, whose
 * allocator a thread uses when it starts: the monitor must have started, too. */
static void begin(aw_runtime *rt, uint32_t workers, uint32_t tasks) {
    if (workers) WAIT_UNTIL(COUNTER_SUM(rt, polls) >= tasks);
    CHECK_EQ(aw_block_on(rt, rounds(2)), 0);
    if (workers) WAIT_UNTIL(aw__load_seq(&rt->pool->monitor_asleep));
}

static pid_t waits_for; /* 0 in the child */

/* Returns true in the child. The alarm ends a child that hangs. */
static bool child_begins(void) {
    fflush(stdout);
    fflush(stderr);
    waits_for = fork();
    CHECK_GE(waits_for, 0);
    if (waits_for == 0) alarm(60);
    /* ThreadSanitizer forbids threads in the child: everything runs on this thread. */
    if (waits_for == 0 && test_under_thread_sanitizer()) test_on_this_thread();
    return waits_for == 0;
}
static void wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    if (WIFSIGNALED(status)) FAIL("the child died by %s", strsignal(WTERMSIG(status)));
    CHECK_EQ(WEXITSTATUS(status), 0);
}
static void child_ends(void) {
    if (waits_for == 0) _exit(0);
    wait_for(waits_for);
    waits_for = 0;
}
#define IN_CHILD(...)                                                                              \
    do {                                                                                           \
        if (child_begins()) __VA_ARGS__;                                                           \
        child_ends();                                                                              \
    } while (0)

/* What a future owns is released when it is refused. */
static void is_refused(aw_runtime *rt, int error) {
    gate g = GATE;
    struct through *h = aw_spawn_on(rt, through(&g));
    CHECK_EQ(aw_task_error(h), error);
    aw_task_drop(h);
    CHECK_EQ(g.cancelled, 1);
    CHECK_EQ(aw_block_on(rt, through(&g)), error);
    CHECK_EQ(g.cancelled, 2);
    CHECK_EQ(g.polls, 0);
}

static void works(uint32_t workers) {
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    struct rounds *h = aw_spawn_on(rt, rounds(3));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_USEC(10))), 0);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- What is refused -------------------------------------------------------------------------- */

ON_BOTH(everything_but_freeing_memory_is_refused) {
    memory m;
    gate waiting = GATE, done = GATE;
    done.open = true;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    struct through *w = aw_spawn_on(rt, through(&waiting)), *d = aw_spawn_on(rt, through(&done));
    WAIT_UNTIL(!workers || aw_task_is_finished(d));
    begin(rt, workers, 2);
    CHECK(aw_task_is_finished(d));
    aw_waker waker = gate_waker(&waiting);
    IN_CHILD({
        uint64_t before = test_now_ns();
        char text[64];
        is_refused(rt, -EOWNERDEAD);
        aw_waker_wake_by_ref(&waker);
        aw_task_abort(w);
        CHECK(!aw_task_is_finished(w));
        CHECK_STR(aw_task_name(w), "through");
        CHECK_EQ(aw_run(aw_task_join(w)), -EOWNERDEAD); /* never ends */
        CHECK_EQ(aw_run(aw_task_join(d)), 0);           /* has ended */
        CHECK_EQ(d->out, 7);
        CHECK_EQ(aw_runtime_describe(rt, text, sizeof text), 0);
        CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(3600)), 1);
        CHECK_LT(test_now_ns() - before, AW_SEC(30));
        CHECK_EQ(waiting.polls, 1);
        CHECK_EQ(waiting.cancels, 0);
        aw_task_drop(w);
        aw_task_drop(d);
        aw_waker_drop(waker);
    });
    gate_open(&waiting);
    CHECK_EQ(JOIN_STATUS(rt, w), 0); /* in the parent nothing has changed */
    aw_task_drop(w);
    aw_task_drop(d);
    aw_waker_drop(waker);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

ON_BOTH(an_entered_runtime_counts_as_none) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    aw_runtime *previous = aw_enter(rt);
    static aw_flag flag;
    aw_waker waker = aw_flag_waker(&flag);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_sleep sleeps[3];
    for (int i = 0; i < 3; i++) {
        sleeps[i] = aw_sleep_for(AW_SEC(3600));
        if (i) CHECK_EQ(aw_future_poll(&sleeps[i].future, &cx), AW_PENDING);
    }
    IN_CHILD({
        CHECK_EQ(aw_runtime_current(), NULL);
        CHECK_EQ(aw_task_error(aw_spawn(aw_ready_now(1))), -ENXIO);
        CHECK_EQ(aw_future_poll(&sleeps[0].future, &cx), AW_READY);
        CHECK_EQ(sleeps[0].out, -ENXIO);
        CHECK_EQ(aw_future_poll(&sleeps[1].future, &cx), AW_READY);
        CHECK_EQ(sleeps[1].out, -EOWNERDEAD);
        CHECK_EQ(aw_future_cancel(&sleeps[2].future, &cx), AW_CANCELLED);
    });
    CHECK_EQ(aw_runtime_current(), rt);
    for (int i = 1; i < 3; i++)
        CHECK_EQ(aw_future_cancel(&sleeps[i].future, &cx), AW_CANCELLED);
    aw_leave(previous);
    aw_runtime_free(rt);
}

/* The runtime's own unpark function may have an effect in the parent. */
TEST(no_thread_is_woken_from_the_child) {
    host h;
    gate g = GATE;
    host_start(&h, NULL);
    struct through *t = aw_spawn_on(h.rt, through(&g));
    gate_wait(&g, 1);
    event_wait(&h.sleeper.asleep);
    aw_waker waker = gate_waker(&g);
    IN_CHILD({
        uint32_t unparks = h.sleeper.unparks;
        aw_waker_wake(waker);
        aw_task_abort(t);
        aw_task_drop(t);
        aw_runtime_unhold((aw_runtime_hold(h.rt), h.rt));
        is_refused(h.rt, -EOWNERDEAD);
        CHECK_EQ(h.sleeper.unparks, unparks);
        aw_runtime_free(h.rt); /* another thread was running it: nothing is freed */
    });
    aw_waker_drop(waker);
    aw_task_drop(t);
    host_stop(&h);
    aw_runtime_free(h.rt);
}

/* ---- Memory ----------------------------------------------------------------------------------- */

/* In the child the tasks are freed without being cancelled, and the runtime with them. */
ON_BOTH(freeing_a_runtime_frees_its_memory_and_runs_nothing) {
    enum { TASKS = 200 };
    static gate g[TASKS];
    static AW_TASK_STORAGE(struct through) storage;
    memory m;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    aw_runtime *previous = aw_enter(rt);
    gate stored = GATE;
    aw_task_drop(aw_spawn_in(&storage, through(&stored)));
    aw_leave(previous);
    for (int i = 0; i < TASKS; i++) {
        g[i] = (gate)GATE;
        aw_task_drop(aw_spawn_on(rt, through(&g[i])));
    }
    begin(rt, workers, TASKS + 1);
    gate late = GATE;
    aw_task_drop(aw_spawn_on(rt, through(&late)));
    for (int i = 0; i < TASKS; i++)
        gate_wait(&g[i], 1);
    gate_wait(&stored, 1);
    if (workers) gate_wait(&late, 1); /* else it has not been polled yet */
    for (int i = 0; i < 2; i++)
        IN_CHILD({
            for (int k = 0; k < TASKS; k++)
                gate_forget(&g[k]); /* the waker that is kept outside of the task */
            gate_forget(&stored);
            gate_forget(&late);
            if (i)
                aw_runtime_abandon(rt);
            else
                aw_runtime_free(rt);
            CHECK_EQ(memory_in_use(&m), 0);
            CHECK(aw_task_storage_free(&storage));
            CHECK_EQ(g[0].cancels + late.cancels, 0);
        });
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

ON_BOTH(handles_and_wakers_may_outlive_it_in_the_child_too) {
    memory m;
    gate a = GATE, b = GATE;
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    struct through *h = aw_spawn_on(rt, through(&a)), *done = aw_spawn_on(rt, through(&b));
    begin(rt, workers, 2);
    gate_open(&b);
    CHECK_EQ(JOIN_STATUS(rt, done), 0);
    /* A worker that is about to drop its reference would never do so in the child. */
    if (workers) WAIT_UNTIL(LOAD(aw__task_of(&done->future)->word) / AW__W_REF == 1);
    aw_waker w = gate_waker(&a);
    IN_CHILD({
        gate_forget(&a);
        aw_runtime_free(rt);
        CHECK_GT(memory_in_use(&m), 0);
        aw_waker_wake_by_ref(&w);
        aw_task_abort(h);
        CHECK(!aw_task_is_finished(h));
        CHECK_EQ(aw_run(aw_task_join(h)), -EOWNERDEAD);
        aw_task_drop(h);
        aw_waker_drop(w);
        CHECK_GT(memory_in_use(&m), 0);
        aw_task_drop(done);
        CHECK_EQ(memory_in_use(&m), 0);
        CHECK_EQ(a.cancels, 0);
    });
    aw_waker_drop(w);
    aw_task_drop(h);
    aw_task_drop(done);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- New runtimes ----------------------------------------------------------------------------- */

ON_BOTH(new_runtimes_work_in_the_child) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    gate g = GATE;
    aw_task_drop(aw_spawn_on(rt, through(&g)));
    begin(rt, workers, 1);
    IN_CHILD({
        works(0);
        if (!test_under_thread_sanitizer()) works(2); /* which forbids threads in the child */
        aw_runtime_free(rt);
        works(0);
        aw_runtime *second = new_runtime(0, NULL, NULL); /* refused too, after another fork */
        IN_CHILD({
            is_refused(second, -EOWNERDEAD);
            works(0);
        });
        CHECK_EQ(aw_block_on(second, rounds(2)), 0);
        aw_runtime_free(second);
    });
    aw_runtime_free(rt);
    CHECK_EQ(g.ends, 1);
}

/* ---- While other threads are busy ------------------------------------------------------------- */

typedef struct busy {
    aw_runtime *rt;
    uint32_t stop;
    gate gates[4];
} busy;

/* Takes the runtime's locks again and again. */
static void be_busy(void *arg, int index, uint64_t *random) {
    busy *b = arg;
    while (!LOAD(b->stop)) {
        struct rounds *h = aw_spawn_on(b->rt, rounds((int)(test_random(random) % 3)));
        aw_task_join_future join = aw_task_join(h);
        static _Thread_local aw_flag flag;
        aw_waker waker = aw_flag_waker(&flag);
        aw_cx cx = aw_cx_from_waker(&waker);
        if (aw_future_poll(&join.future, &cx) == AW_PENDING) aw_future_cancel(&join.future, &cx);
        gate_wake(&b->gates[index]);
        if (chance(random, 2)) aw_task_abort(h);
        if (chance(random, 16)) /* spawns no faster than the tasks run */
            WAIT_UNTIL(aw_task_is_finished(h) || LOAD(b->stop));
        aw_task_drop(h);
    }
}

static void *run_it(void *arg) {
    busy *b = arg;
    while (!LOAD(b->stop))
        CHECK_EQ(aw_block_on(b->rt, rounds(100)), 0);
    return NULL;
}

ON_BOTH(a_child_never_hangs_on_locks_of_threads_that_are_gone) {
    uint64_t random = test_seed();
    static busy b;
    thread_group s;
    memset(&b, 0, sizeof b);
    b.rt = new_runtime(workers, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        b.gates[i] = (gate)GATE;
        aw_task_drop(aw_spawn_on(b.rt, through(&b.gates[i])));
    }
    begin(b.rt, workers, 4);
    gate mine = GATE;
    struct through *h = aw_spawn_on(b.rt, through(&mine));
    begin(b.rt, workers, 5);
    gate_wait(&mine, 1);
    aw_waker w = gate_waker(&mine);
    pthread_t runner = pthread_self();
    if (!workers) runner = thread_start(run_it, &b);
    thread_group_create(&s, 3, &random, be_busy, &b);
    thread_group_go(&s);
    for (int i = 0; i < test_scale(150); i++)
        IN_CHILD({
            is_refused(b.rt, -EOWNERDEAD);
            aw_waker_wake_by_ref(&w);
            aw_task_abort(h);
            CHECK_EQ(aw_runtime_shutdown(b.rt, AW_SEC(3600)) > 0, true);
            if (i % 2) aw_task_drop(h);
            aw_runtime_free(b.rt);
            if (i % 2 == 0) aw_task_drop(h);
            aw_waker_wake(w);
            works(0);
        });
    STORE(b.stop, 1);
    thread_group_join(&s);
    if (!workers) thread_end(runner);
    aw_waker_drop(w);
    aw_task_drop(h);
    aw_runtime_free(b.rt);
}

/* A child that calls exec: the runtime must not be in its way. */
static void run_true(void) {
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    wait_for(child);
}

static void fork_and_exec(void *arg, int index, uint64_t *random) {
    (void)arg, (void)index, (void)random;
    for (int i = 0; i < test_scale(30); i++)
        run_true();
}

AW_ASYNC(int, runs_programs, int i; aw_yield pause;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 3; self->i++) {
        run_true();
        AW_AWAIT(self->pause, aw_yield_now());
    }
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(threads_and_tasks_fork_and_exec_while_it_runs) {
    uint64_t random = test_seed();
    thread_group s;
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    struct runs_programs *h = aw_spawn_on(rt, AW_CALL(runs_programs));
    thread_group_create(&s, 3, &random, fork_and_exec, NULL);
    thread_group_go(&s);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    for (int i = 0; i < test_scale(100); i++) {
        struct rounds *r = aw_spawn_on(rt, rounds(5));
        CHECK_EQ(JOIN_STATUS(rt, r), 0);
        aw_task_drop(r);
    }
    thread_group_join(&s);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

/* The inbox of an embedded runtime is in the state of a sleeping owner while its loop sleeps. */
TEST(an_embedded_runtime_can_be_freed_in_the_child) {
    ON_THIS_THREAD("workers cannot be embedded");
    memory m;
    gate g = GATE;
    aw_runtime *rt = new_runtime(0, &m, NULL);
    CHECK_GE(aw_runtime_fd(rt), 0);
    struct through *t = aw_spawn_on(rt, through(&g));
    CHECK_EQ(aw_runtime_run_once(rt), 0);
    IN_CHILD({
        aw_runtime_free(rt);
        aw_task_drop(t);
    });
    aw_task_drop(t);
    aw_runtime_free(rt);
}
