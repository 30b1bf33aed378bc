/* SPDX-License-Identifier: MIT
 *
 * Hooks: they are called for every thread and every task of a runtime, at its start and at its
 * end. And the names of threads. */
#define _GNU_SOURCE
#include <awake.h>

#include "support/workers.h"

/* ---- A record of all hook calls -------------------------------------------------------------- */

enum { TASKS_MAX = 20000, KINDS = 3 };
static struct {
    pthread_mutex_t lock;
    int count, ended;
    struct record {
        uint64_t id;
        const char *name;
        int line, status;
        bool over;
        pthread_t thread; /* the thread that ended it */
    } tasks[TASKS_MAX];
    uint32_t started[KINDS], stopped[KINDS]; /* threads of each kind */
    uint32_t indices[KINDS];                 /* bits of the threads that have started */
    char names[KINDS][16];                   /* of the first thread of each kind */
} book = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int kind_of_thread = -1;

static struct record *find(uint64_t id) {
    for (int i = 0; i < book.count; i++)
        if (book.tasks[i].id == id) return &book.tasks[i];
    return NULL;
}

static void on_spawn(void *data, const aw_task_info *task) {
    CHECK_EQ(data, &book);
    pthread_mutex_lock(&book.lock);
    CHECK_EQ(find(task->id), NULL);
    CHECK_LT(book.count, TASKS_MAX);
    book.tasks[book.count++] = (struct record){
        .id = task->id, .name = task->name, .line = task->location->line};
    pthread_mutex_unlock(&book.lock);
}

static void on_end(void *data, const aw_task_info *task, int status) {
    CHECK_EQ(data, &book);
    pthread_mutex_lock(&book.lock);
    struct record *t = find(task->id);
    CHECK(t != NULL);
    CHECK(!t->over);
    CHECK_EQ(t->line, task->location->line);
    CHECK_EQ(t->name, task->name);
    t->over = true;
    t->status = status;
    t->thread = pthread_self();
    book.ended++;
    pthread_mutex_unlock(&book.lock);
}

static void on_start(void *data, aw_thread_kind kind, uint32_t index) {
    CHECK_EQ(data, &book);
    CHECK_EQ(kind_of_thread, -1);
    kind_of_thread = (int)kind;
    pthread_mutex_lock(&book.lock);
    CHECK_LT(index, 32);
    CHECK_EQ(book.indices[kind] >> index & 1, 0); /* not in use */
    book.indices[kind] |= 1u << index;
    book.started[kind]++;
    if (index == 0) pthread_getname_np(pthread_self(), book.names[kind], 16);
    pthread_mutex_unlock(&book.lock);
}

static void on_stop(void *data, aw_thread_kind kind, uint32_t index) {
    CHECK_EQ(data, &book);
    CHECK_EQ(kind_of_thread, kind);
    pthread_mutex_lock(&book.lock);
    CHECK_EQ(book.indices[kind] >> index & 1, 1);
    pthread_mutex_unlock(&book.lock);
    ADD(book.stopped[kind], 1);
}

static const aw_hooks hooks = {sizeof(aw_hooks), &book, on_start, on_stop, on_spawn, on_end};

static aw_runtime_options options(aw_flavour flavour) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.flavour = flavour;
    o.workers = 4;
    o.hooks = &hooks;
    o.keep_tasks = true; /* outside threads spawn while no thread is in block_on */
    return o;
}

static aw_runtime *runtime(aw_flavour flavour) {
    aw_runtime_options o = options(flavour);
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

/* What the hooks recorded of a joined task. */
static struct record record_of(aw_future *task) {
    pthread_mutex_lock(&book.lock);
    struct record *t = find(aw__task_id(task));
    CHECK(t != NULL);
    struct record copy = *t;
    pthread_mutex_unlock(&book.lock);
    return copy;
}
#define RECORD(h) record_of(AW_TASK(h))

/* ---- Tasks ----------------------------------------------------------------------------------- */

AW_ASYNC(int, fails, char unused;) {
    AW_BEGIN;
    AW_FAIL(-EIO);
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, ends_in_every_way, char unused;) {
    struct record t;
    struct rounds *done = aw_spawn_named("counted", rounds(3));
    int line = __LINE__ - 1;
    struct fails *failed = aw_spawn(AW_CALL(fails));
    aw_never *aborted = aw_spawn(aw_never_ready()), *unstarted;

    CHECK_EQ(aw_await(aw_task_join(done)), 0);
    t = RECORD(done); /* the hook is called before the join completes */
    CHECK_STR(t.name, "counted");
    CHECK_EQ(t.line, line);
    CHECK(t.over);
    CHECK_EQ(t.status, 0);
    aw_task_drop(done);

    CHECK_EQ(aw_await(aw_task_join(failed)), -EIO);
    t = RECORD(failed);
    CHECK_STR(t.name, "fails");
    CHECK_EQ(t.status, -EIO);
    aw_task_drop(failed);

    t = RECORD(aborted);
    CHECK(!t.over);
    aw_task_abort(aborted);
    CHECK_EQ(aw_await(aw_task_join(aborted)), -ECANCELED);
    CHECK_EQ(RECORD(aborted).status, -ECANCELED);
    aw_task_drop(aborted);

    unstarted = aw_spawn(aw_never_ready());
    aw_task_abort(unstarted);
    CHECK_EQ(aw_await(aw_task_join(unstarted)), -ECANCELED);
    CHECK_EQ(RECORD(unstarted).status, -ECANCELED);
    aw_task_drop(unstarted);
    return 0;
}

ON_FLAVOURS(the_hooks_report_how_a_task_ends_before_its_join_completes) {
    aw_runtime *rt = runtime(flavour);
    CHECK_EQ(aw_block_on(rt, AW_CALL(ends_in_every_way)), 0);
    CHECK_EQ(book.count, 4); /* the main future is not a task */
    CHECK_EQ(book.ended, 4);
    aw_runtime_free(rt);
}

static void *spawn_from_outside(void *rt) {
    for (int i = 0; i < 100; i++) {
        struct rounds *h = aw_spawn_on((aw_runtime *)rt, rounds(i % 3));
        CHECK(RECORD(h).id != 0); /* called at once, on the spawning thread */
        aw_task_drop(h);
    }
    return NULL;
}

AW_ASYNC(int, spawner, int left;) {
    AW_BEGIN;
    for (; self->left; self->left--) {
        aw_task_drop(aw_spawn(aw_never_ready()));
        AW_YIELD;
    }
    AW_RETURN(0);
    AW_END;
}

/* Whatever the shutdown cuts off: each spawned task has ended. */
ON_FLAVOURS(every_task_that_was_spawned_ends) {
    aw_runtime *rt = runtime(flavour);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = thread_start(spawn_from_outside, rt);
    for (int i = 0; i < 20; i++)
        aw_task_drop(aw_spawn_on(rt, AW_CALL(spawner, .left = 1000)));
    CHECK_EQ(aw_block_on(rt, AW_CALL(spawner, .left = 10)), 0);
    for (int i = 0; i < 3; i++)
        thread_end(threads[i]);
    aw_runtime_free(rt);
    CHECK_GE(book.count, 320);
    CHECK_EQ(book.ended, book.count);
}

ON_FLAVOURS(a_failed_spawn_calls_no_hook) {
    static AW_TASK_STORAGE(aw_never) storage;
    memory m;
    aw_runtime_options o = options(flavour);
    aw_runtime *rt;
    o.allocator = memory_init(&m);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    aw_enter(rt);
    aw_never *in_storage = aw_spawn_in(&storage, aw_never_ready());
    CHECK_EQ(aw_task_error(in_storage), 0);
    CHECK_EQ(aw_task_error(aw_spawn_in(&storage, aw_never_ready())), -EBUSY);
    __atomic_store_n(&m.refuse, 1, __ATOMIC_RELAXED);
    CHECK_EQ(aw_task_error(aw_spawn(aw_never_ready())), -ENOMEM);
    __atomic_store_n(&m.refuse, 0, __ATOMIC_RELAXED);
    aw_leave(NULL);
    aw_task_drop(in_storage);
    aw_runtime_free(rt);
    CHECK_EQ(book.count, 1);
    CHECK_EQ(book.ended, 1);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static long kind_of_call(void *unused) {
    (void)unused;
    return kind_of_thread;
}

AW_ASYNC(int, kind_of_task, char unused;) {
    AW_BEGIN;
    AW_RETURN(kind_of_thread);
    AW_END;
}

static void free_and_check(aw_runtime *rt, uint32_t workers, uint32_t calls) {
    aw_runtime_free(rt);
    CHECK_EQ(book.started[AW_THREAD_WORKER], workers);
    CHECK_EQ(book.started[AW_THREAD_MONITOR], workers > 0);
    CHECK_EQ(book.started[AW_THREAD_BLOCKING], calls);
    for (int k = 0; k < KINDS; k++)
        CHECK_EQ(LOAD(book.stopped[k]), book.started[k]);
}

ON_FLAVOURS(each_thread_starts_before_it_works_and_stops_before_the_runtime_is_gone) {
    aw_runtime *rt = runtime(flavour);
    uint32_t workers = aw_runtime_workers(rt);
    CHECK_EQ(aw_block_on(rt, aw_blocking(kind_of_call, NULL)), AW_THREAD_BLOCKING);
    struct kind_of_task *h = aw_spawn_on(rt, AW_CALL(kind_of_task));
    if (workers) {
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        CHECK_EQ(aw_task_take(h), AW_THREAD_WORKER);
    } else {
        CHECK_EQ(JOIN_STATUS(rt, h), 0);
        CHECK_EQ(aw_task_take(h), -1); /* the program's own thread */
    }
    free_and_check(rt, workers, 1);
    CHECK_EQ(kind_of_thread, -1);
}

/* Idle threads that exit call the stop hook too, and the next thread has an index of its own. */
ON_FLAVOURS(threads_of_calls_come_and_go) {
    aw_runtime_options o = options(flavour);
    aw_runtime *rt;
    o.blocking_idle = 1;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    for (uint32_t i = 1; i <= 5; i++) {
        CHECK_EQ(aw_block_on(rt, aw_blocking(kind_of_call, NULL)), AW_THREAD_BLOCKING);
        WAIT_UNTIL(LOAD(book.stopped[AW_THREAD_BLOCKING]) == i);
    }
    free_and_check(rt, aw_runtime_workers(rt), 5);
}

static event begun, let_go;
static long stays_long(void *unused) {
    (void)unused;
    event_post(&begun);
    event_wait(&let_go);
    return 0;
}
static void nothing_to_release(void *unused) {
    (void)unused;
}

AW_FIBER(int, gives_up_a_call, char unused;) {
    aw_blocking_future *h = aw_spawn(aw_blocking_owned(stays_long, nothing_to_release, NULL));
    CHECK_EQ(aw_fiber_yield(), 0); /* on the current thread the call begins now */
    event_wait(&begun);
    aw_task_abort(h);
    CHECK_EQ(aw_await(aw_task_join(h)), -ECANCELED);
    aw_task_drop(h);
    return 0;
}

/* The thread outlives its runtime, and stops when its call has returned. */
ON_FLAVOURS(a_thread_stops_later_if_its_call_was_given_up) {
    static kept_log log = KEPT_LOG;
    aw_runtime_options o = options(flavour);
    aw_runtime *rt;
    o.log = keep_log;
    o.log_data = &log;
    event_init(&begun);
    event_init(&let_go);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(gives_up_a_call)), 0);
    aw_runtime_free(rt);
    CHECK_EQ(log_count(&log, "still run"), 1);
    CHECK_EQ(LOAD(book.stopped[AW_THREAD_BLOCKING]), 0);
    event_post(&let_go);
    WAIT_UNTIL(LOAD(book.stopped[AW_THREAD_BLOCKING]) == 1);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void check_names(aw_flavour flavour, const char *prefix, const char *worker,
                        const char *monitor, const char *call) {
    aw_runtime_options o = options(flavour);
    aw_runtime *rt;
    o.thread_name = prefix;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_block_on(rt, aw_blocking(kind_of_call, NULL)), AW_THREAD_BLOCKING);
    aw_runtime_free(rt);
    CHECK_STR(book.names[AW_THREAD_BLOCKING], call);
    if (flavour == AW_CURRENT_THREAD) return;
    CHECK_STR(book.names[AW_THREAD_WORKER], worker);
    CHECK_STR(book.names[AW_THREAD_MONITOR], monitor);
}

ON_FLAVOURS(threads_have_names) {
    check_names(flavour, NULL, "awake-0", "awake-monitor", "awake-call-0");
}
ON_FLAVOURS(names_begin_as_the_program_wants) {
    check_names(flavour, "web", "web-0", "web-monitor", "web-call-0");
}
ON_FLAVOURS(a_long_name_is_cut_before_the_part_that_distinguishes_threads) {
    check_names(flavour, "a-name-too-long-for-a-thread", "a-name-too-lo-0", "a-name--monitor",
                "a-name-t-call-0");
}

/* ---- The struct may grow --------------------------------------------------------------------- */

TEST(hooks_of_a_program_that_knows_fewer) {
    aw_runtime_options o = options(AW_CURRENT_THREAD);
    aw_hooks fewer = hooks;
    aw_runtime *rt;
    fewer.self_size = offsetof(aw_hooks, task_end);
    o.hooks = &fewer;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    memset(&fewer, 0xa5, sizeof fewer); /* the runtime has a copy */
    struct rounds *h = aw_spawn_on(rt, rounds(1));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(book.count, 1);
    CHECK_EQ(book.ended, 0);
}

TEST(hooks_without_a_size_are_refused) {
    aw_runtime_options o = options(AW_MULTI_THREAD);
    aw_hooks wrong = hooks;
    aw_runtime *rt = NULL;
    o.hooks = &wrong;
    wrong.self_size = 0;
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
    wrong.self_size = sizeof wrong + 8;
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
    CHECK(rt == NULL);
}
