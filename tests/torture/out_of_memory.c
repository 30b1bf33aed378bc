/* SPDX-License-Identifier: MIT
 *
 * Every allocation fails in turn: once, and then with all after it. Each run of a program that uses
 * everything that allocates ends with clean errors, or does without the memory, and leaves nothing
 * behind. */
#include <errno.h>
#include <pthread.h>

#include "support/checked_waker.h"
#include "support/memory.h"
#include "support/script.h"

static struct memory memory;

/* Counts the errors of a run, which must all be -ENOMEM. */
static int refused;
static int note(int error) {
    if (error == -ENOMEM)
        ADD(refused, 1);
    else
        CHECK_EQ(error, 0);
    return error;
}

enum { MANY = 40, PUSHED = 30, TASKS = 4 };
static struct script scripts[200];
static int used;

/* Owns a token from the start, pends a little, and has an owned output. */
static struct leaf work(void) {
    int n = ADD(used, 1) + 1;
    CHECK_LT(n, 200);
    struct script *s = &scripts[n - 1];
    *s = (struct script){.pends = n % 3, .busy = true, .owns = true};
    s->borrows = n % 2;
    return leaf(s);
}

/* ---- Inside a runtime ------------------------------------------------------------------------ */

AW_ASYNC(long, fib, int n; long a, b; aw_box box;) {
    AW_BEGIN;
    if (self->n < 2) AW_RETURN(self->n);
    AW_AWAIT(self->box, aw_box_new(AW_CALL(fib, .n = self->n - 1)));
    if (self->box.out < 0) AW_RETURN(self->box.out);
    self->a = aw_box_take(struct fib, &self->box);
    if (self->a < 0) AW_RETURN(self->a);
    AW_AWAIT(self->box, aw_box_new(AW_CALL(fib, .n = self->n - 2)));
    if (self->box.out < 0) AW_RETURN(self->box.out);
    self->b = aw_box_take(struct fib, &self->box);
    AW_RETURN(self->b < 0 ? self->b : self->a + self->b);
    AW_END;
}

static aw_runtime *rt;
static AW_ONESHOT(int) follower_done;

/* Another thread. Its block_on is a follower of the thread that owns the runtime. */
static void *follow(void *unused) {
    (void)unused;
    struct leaf f = work();
    int error = aw_block_on_future(rt, &f.future);
    if (error == 0) ownership_release(f.out);
    CHECK_EQ(aw_oneshot_send(&follower_done, error), 0);
    return NULL;
}

static aw_local key;
static void release_token(void *value) {
    ownership_release((int)(intptr_t)value);
}

struct program {
    AW_FRAME(int);
    pthread_t thread;
    int i;
    struct leaf *tasks[TASKS];
    struct leaf array[MANY];
    aw_set set;
    aw_box box;
    AW_SHARE(aw_task_join_future join; aw_all all; struct fib fib; aw_set_next_future next;
             aw_set_clear_future clear; aw_oneshot_future recv; AW_TIMEOUT(aw_box) timeout;);
};

AW_ASYNC_STATIC(program) {
    AW_BEGIN;
    /* Task-local values. */
    for (self->i = 0; self->i < 2; self->i++) {
        int token = ownership_token();
        if (note(aw_local_set(&key, (void *)(intptr_t)token, release_token)))
            ownership_release(token);
    }
    /* Tasks: two are joined, one is aborted, one detached. */
    for (self->i = 0; self->i < TASKS; self->i++) {
        self->tasks[self->i] = aw_spawn(work());
        note(aw_task_error(self->tasks[self->i]));
    }
    aw_task_abort(self->tasks[2]);
    for (self->i = 0; self->i < 3; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        if (self->join.out == 0)
            ownership_release(aw_task_take(self->tasks[self->i]));
        else
            aw_task_drop(self->tasks[self->i]);
        if (self->join.out != -ECANCELED) note(self->join.out);
    }
    aw_task_drop(self->tasks[3]);
    /* Boxes. */
    AW_AWAIT(self->fib, AW_CALL(fib, .n = 6));
    if (self->fib.out != 8) note((int)self->fib.out);
    AW_AWAIT_FOR(self->timeout, AW_SEC(1000), aw_box_new(work()));
    CHECK_EQ(self->timeout.out, 0);
    if (note(self->timeout.inner.out) == 0)
        ownership_release(aw_box_take(struct leaf, &self->timeout.inner));
    /* Arrays: they do without the memory. */
    for (self->i = 0; self->i < MANY; self->i++)
        self->array[self->i] = work();
    AW_AWAIT(self->all, aw_join_all(self->array, MANY));
    CHECK_EQ(self->all.out, 0);
    for (self->i = 0; self->i < MANY; self->i++)
        ownership_release(self->array[self->i].out);
    for (self->i = 0; self->i < MANY; self->i++)
        self->array[self->i] = work();
    AW_AWAIT(self->all, aw_select_all(self->array, MANY));
    ownership_release(self->array[aw_select_all_winner(&self->all)].out);
    /* A set. */
    aw_set_init(&self->set, sizeof(struct leaf));
    for (self->i = 0; self->i < PUSHED; self->i++)
        note(aw_set_push(&self->set, work()));
    while (self->set.count > PUSHED / 3) {
        AW_AWAIT(self->next, aw_set_next(&self->set));
        ownership_release(AW_SET_AS(struct leaf, &self->next)->out);
    }
    AW_AWAIT(self->clear, aw_set_clear(&self->set));
    aw_set_free(&self->set);
    /* A follower. */
    follower_done = (__typeof__(follower_done))AW_ONESHOT_INIT;
    CHECK_EQ(pthread_create(&self->thread, NULL, follow, NULL), 0);
    AW_AWAIT(self->recv, aw_oneshot_recv(&follower_done));
    pthread_join(self->thread, NULL);
    note(follower_done.value);
    AW_RETURN(0);
    AW_END;
}

static void run_program(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.allocator = &memory.allocator;
    if (note(aw_runtime_new(&rt, &options))) return;
    struct program f = AW_CALL(program);
    CHECK_EQ(aw_block_on_future(rt, &f.future), 0);
    CHECK_EQ(f.out, 0);
    aw_runtime_free(rt);
}

/* ---- Outside a runtime ----------------------------------------------------------------------- */

static void run_without_runtime(void) {
    static struct leaf array[MANY];
    for (int i = 0; i < MANY; i++)
        array[i] = work();
    aw_all all = aw_try_join_all(array, MANY);
    CHECK_EQ(drive_poll_to_end(&all.future), AW_READY);
    for (int i = 0; i < MANY; i++)
        ownership_release(array[i].out);

    aw_box b = aw_box_new(work());
    CHECK_EQ(drive_poll_to_end(&b.future), AW_READY);
    if (note(b.out) == 0) ownership_release(aw_box_take(struct leaf, &b));

    aw_set set;
    aw_set_init(&set, sizeof(struct leaf));
    for (int i = 0; i < PUSHED; i++)
        note(aw_set_push(&set, work()));
    while (set.count) {
        aw_set_next_future next = aw_set_next(&set);
        CHECK_EQ(drive_poll_to_end(&next.future), AW_READY);
        ownership_release(AW_SET_AS(struct leaf, &next)->out);
    }
    aw_set_free(&set);

    aw_parker *parker = aw_parker_new();
    if (parker) {
        aw_parker_unpark(parker);
        aw_parker_park(parker);
    } else {
        note(-ENOMEM);
    }
    aw_parker_free(parker);
}

/* A runtime of its own, with the allocator of the process. */
static void run_alone(void) {
    int out = aw_run(work());
    if (out < 0)
        note(out);
    else
        ownership_release(out);
    note(aw_run_status(aw_box_new(work())));
}

/* ---- Every failure --------------------------------------------------------------------------- */

static void no_reports(void *data, aw_log_level level, const char *message) {
    (void)data;
    (void)level;
    FAIL("%s", message);
}

/* One run. Returns the number of allocations that failed. */
static long run_failing(void (*run)(void), long fail_at, bool fail_on) {
    memory_init(&memory);
    memory.fail_at = fail_at;
    memory.fail_on = fail_on;
    aw_set_allocator(&memory.allocator);
    aw_set_log(no_reports, NULL);
    ownership_reset();
    used = refused = 0;
    run();
    for (int i = 0; i < used; i++)
        CHECK(script_ended(&scripts[i]));
    ownership_check_balanced();
    memory_check_empty(&memory);
    return memory.failures;
}

static void fail_each(void (*run)(void), bool fail_on, long at_least) {
    CHECK_EQ(run_failing(run, 0, false), 0);
    CHECK_EQ(refused, 0);
    CHECK_GE(memory.calls, at_least);
    long n = 1;
    while (run_failing(run, n, fail_on))
        n++;
    CHECK_GT(n, at_least); /* the last run had no failure */
}

TEST(each_allocation_of_a_runtime_fails_once) {
    fail_each(run_program, false, 30);
}
TEST(each_allocation_of_a_runtime_and_all_after_it_fail) {
    fail_each(run_program, true, 30);
}
TEST(each_allocation_outside_a_runtime_fails_once) {
    fail_each(run_without_runtime, false, 5);
}
TEST(each_allocation_outside_a_runtime_and_all_after_it_fail) {
    fail_each(run_without_runtime, true, 5);
}
TEST(each_allocation_of_a_run_fails_once) {
    fail_each(run_alone, false, 3);
}
TEST(each_allocation_of_a_run_and_all_after_it_fail) {
    fail_each(run_alone, true, 3);
}

/* ---- No allocation at all -------------------------------------------------------------------- */

AW_ASYNC(int, frugal, struct leaf *task; struct leaf a, b; aw_task_join_future j; aw_group g;
         aw_sleep nap; AW_TIMEOUT(struct leaf) t;) {
    AW_BEGIN;
    static AW_TASK_STORAGE(struct leaf) storage;
    self->task = aw_spawn_in(&storage, work());
    CHECK_EQ(aw_task_error(self->task), 0);
    AW_AWAIT(self->j, aw_task_join(self->task));
    CHECK_EQ(self->j.out, 0);
    ownership_release(aw_task_take(self->task));
    CHECK(aw_task_storage_free(&storage));
    self->a = work();
    self->b = work();
    AW_AWAIT(self->g, aw_join_refs(&self->a, &self->b));
    ownership_release(self->a.out);
    ownership_release(self->b.out);
    AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(1)));
    AW_AWAIT_FOR(self->t, AW_SEC(1), work());
    ownership_release(self->t.inner.out);
    AW_RETURN(0);
    AW_END;
}

static void run_frugal(void) {
    static aw_runtime_storage storage;
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.allocator = &memory.allocator;
    options.paused = true;
    CHECK_EQ(aw_runtime_new_in(&rt, &storage, sizeof storage, &options), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(frugal)), 0);
    aw_runtime_free(rt);
}

TEST(a_program_in_static_storage_runs_with_an_allocator_that_always_refuses) {
    ON_THIS_THREAD("workers need memory");
    CHECK_EQ(run_failing(run_frugal, 1, true), 0);
    CHECK_EQ(memory.calls, 0);
}
