/* SPDX-License-Identifier: MIT
 *
 * Blocking calls and I/O of outside threads when the runtime ends, and calls that are submitted
 * while the last thread for them exits. */
#include <awake.h>

#include <errno.h>
#include <unistd.h>

#include "support/io_ends.h"

static long do_nothing(void *arg) {
    (void)arg;
    return 0;
}

/* ---- The end of the runtime ------------------------------------------------------------------ */

struct caller {
    aw_runtime *rt;
    event called;     /* the first call has returned */
    uint32_t calling; /* atomic: it is about to begin */
    long out;         /* of the last one */
};

/* Calls until a call fails. */
static void *call_until_refused(void *arg) {
    struct caller *c = arg;
    aw_runtime *before = aw_enter(c->rt);
    c->out = aw_wait(aw_blocking(do_nothing, NULL));
    event_post(&c->called);
    while (c->out == 0)
        c->out = aw_wait(aw_blocking(do_nothing, NULL));
    aw_leave(before);
    return NULL;
}

ON_FLAVOURS(calls_of_an_entered_thread_end_with_the_runtime) {
    for (int i = 0; i < test_scale(200); i++) {
        memory m;
        aw_runtime_options o = workers_options(2, &m, NULL);
        struct caller c = {.out = 0};
        memory_init(&m);
        o.flavour = flavour;
        CHECK_EQ(aw_runtime_new(&c.rt, &o), 0);
        event_init(&c.called);
        pthread_t thread = thread_start(call_until_refused, &c);
        event_wait(&c.called);
        aw_runtime_free(c.rt);
        thread_end(thread);
        CHECK_EQ(c.out, -ESHUTDOWN);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* The first call of a runtime meets its end: no thread exists that would find the job. */
static void *call_once(void *arg) {
    struct caller *c = arg;
    aw_runtime *before = aw_enter(c->rt);
    STORE(c->calling, 1);
    c->out = aw_wait(aw_blocking(do_nothing, NULL));
    aw_leave(before);
    return NULL;
}

ON_FLAVOURS(a_first_call_that_meets_the_end_of_the_runtime_is_made_or_refused) {
    for (int i = 0; i < test_scale(flavour == AW_CURRENT_THREAD ? 10000 : 1000); i++) {
        aw_runtime_options o = workers_options(1, NULL, NULL);
        struct caller c = {.out = 1};
        o.flavour = flavour;
        CHECK_EQ(aw_runtime_new(&c.rt, &o), 0);
        pthread_t thread = thread_start(call_once, &c);
        while (!LOAD(c.calling)) /* a wake-up would take longer than the race */
            ;
        for (volatile int spin = i * 7 % 1500; spin; spin--)
            ;
        aw_runtime_free(c.rt);
        thread_end(thread);
        CHECK(c.out == 0 || c.out == -ESHUTDOWN);
    }
}

/* ---- A thread that exits --------------------------------------------------------------------- */

/* The only thread is in its stop hook: it has seen that no job is queued. */
static event exiting, submitted;

static void stop_hook(void *data, aw_thread_kind kind, uint32_t index) {
    (void)data, (void)index;
    if (kind != AW_THREAD_BLOCKING) return;
    event_post(&exiting);
    event_wait(&submitted);
}

AW_ASYNC(int, call_twice, aw_blocking_future call; aw_blocking_future * task; aw_yield yield;
         aw_task_join_future join;) {
    AW_BEGIN;
    AW_AWAIT(self->call, aw_blocking(do_nothing, NULL));
    event_wait(&exiting);
    self->task = aw_spawn(aw_blocking(do_nothing, NULL));
    AW_AWAIT(self->yield, aw_yield_now()); /* now the call is queued */
    event_post(&submitted);
    event_post(&submitted); /* for the thread of the second call */
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN((int)aw_task_take(self->task));
    AW_END;
}

TEST(a_call_that_is_submitted_while_the_last_thread_exits_is_made) {
    ON_THIS_THREAD("a worker could start the call later than the yield");
    aw_hooks hooks = {.self_size = sizeof hooks, .thread_stop = stop_hook};
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    event_init(&exiting);
    event_init(&submitted);
    o.flavour = AW_CURRENT_THREAD;
    o.hooks = &hooks;
    o.blocking_threads = 1;
    o.blocking_idle = 1;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(call_twice)), 0);
    aw_runtime_free(rt);
}

/* ---- An abandoned runtime with tasks --------------------------------------------------------- */

/* Cannot be cancelled: its cleanup never ends. */
AW_ASYNC(int, never_ends, aw_never wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, aw_never_ready());
    AW_FINALLY;
    AW_AWAIT(self->wait, aw_never_ready());
    AW_END;
}

struct outside_reader {
    aw_runtime *rt;
    aw_conn *conn;
    event entered;
    ssize_t out;
};

static void *read_entered(void *arg) {
    struct outside_reader *r = arg;
    char to;
    aw_runtime *before = aw_enter(r->rt);
    event_post(&r->entered);
    r->out = aw_wait(aw_read(r->conn, &to, 1));
    aw_leave(before);
    return NULL;
}

static void log_nothing(void *data, aw_log_level level, const char *message) {
    (void)data, (void)level, (void)message;
}

static void check_read_ends(struct io_setup how) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    struct outside_reader r = {.out = 0};
    int fds[2];
    o.flavour = AW_CURRENT_THREAD;
    io_needs(how.driver);
    o.driver = how.driver == io_fallback ? NULL : how.driver;
    o.keep_tasks = true;
    o.log = log_nothing;
    CHECK_EQ(aw_runtime_new(&r.rt, &o), 0);
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(aw_conn_of_fd(&r.conn, fds[0]), 0);
    event_init(&r.entered);
    aw_task_detach(aw_spawn_on(r.rt, AW_CALL(never_ends)));
    CHECK_EQ(aw_block_on(r.rt, aw_yield_now()), 0);
    pthread_t thread = thread_start(read_entered, &r);
    event_wait(&r.entered);
    WAIT_UNTIL(io_waiting(r.conn, 0) == 1);
    aw_runtime_abandon(r.rt);
    thread_end(thread);
    CHECK_EQ(r.out, -ESHUTDOWN);
    aw_close(r.conn);
    close(fds[1]);
}

ON_EACH_DRIVER(a_read_of_an_entered_thread_ends_when_a_runtime_with_tasks_is_abandoned) {
    check_read_ends(how);
}
