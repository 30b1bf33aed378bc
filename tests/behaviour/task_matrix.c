/* SPDX-License-Identifier: MIT
 *
 * Every way a task can live and end, crossed with every way its handle can be dropped: nothing
 * leaks, its future is released once, and a join says what happened. */
#include "support/tasks.h"

ALL_ON_THIS_THREAD("it checks which thread releases what; workers_matrix.c does so for workers");

/* ---- The task -------------------------------------------------------------------------------- */

typedef struct record {
    int started, released; /* entered the body; ran FINALLY */
    int made, discarded;   /* outputs */
    bool was_started;      /* AW_STARTED in FINALLY */
    pthread_t released_by;
    int held; /* allocations of the frame that are not freed yet */
} record;

struct job {
    AW_FRAME(char *);
    record *record;
    aw_notify *go;
    char *held;
    aw_notified wait;
};

static void discard_job(aw_future *self) {
    struct job *job = (struct job *)self;
    job->record->discarded++;
    free(job->out);
}

/* The output is memory that must be freed, or a static text. */
AW_ASYNC_STATIC(job, .discard = discard_job) {
    AW_BEGIN;
    self->record->started++;
    self->held = malloc(8);
    self->record->held++;
    AW_AWAIT(self->wait, aw_notify_wait(self->go));
    self->record->made++;
    if (self->future.type->discard) AW_RETURN(strdup("owned"));
    AW_RETURN("plain");
    AW_FINALLY;
    self->record->released++;
    self->record->released_by = pthread_self();
    self->record->was_started = AW_STARTED;
    if (self->held) self->record->held--;
    free(self->held);
    AW_END;
}

/* The same with an output that owns nothing. */
static const aw_future_type *plain_type(void) {
    static aw_future_type type;
    type = aw_type_job;
    type.discard = NULL;
    return &type;
}

/* ---- The dimensions -------------------------------------------------------------------------- */

enum abort { NEVER, BEFORE_FIRST_POLL, WHILE_PENDING, AFTER_COMPLETION, BY_THE_END, ABORTS };
enum handle { JOINED, EARLY, LATE, ELSEWHERE, HANDLES };

static const char *const abort_names[] = {"never aborted", "aborted before its first poll",
                                          "aborted while pending", "aborted after completion",
                                          "pending when the runtime ends"};
static const char *const handle_names[] = {"handle joined", "handle dropped early",
                                           "handle dropped late",
                                           "handle dropped by another thread"};

typedef struct cell {
    bool runtime_in_storage, task_in_storage, owning;
    enum abort abort;
    enum handle handle;
    char name[256];
} cell;

#define EXPECT(c, what, wanted)                                                                    \
    do {                                                                                           \
        long long is_ = (long long)(what), wanted_ = (long long)(wanted);                          \
        if (is_ != wanted_)                                                                        \
            FAIL("%s: %s is %lld instead of %lld", (c)->name, #what, is_, wanted_);                \
    } while (0)

static void *drop_handle(void *task) {
    aw_task_drop((struct job *)task);
    return NULL;
}

/* ---- Running one cell ------------------------------------------------------------------------ */

/* The main future: treats the task as the cell says, until its handle is dropped or the runtime
 * ends. */
AW_ASYNC(int, script, const cell *cell; struct job call; void *storage; struct job * *handle;
         aw_notify * go; char **output; struct rounds pause; aw_task_join_future join;
         int status;) {
    AW_BEGIN;
    static const aw_location location = {__FILE__, __LINE__, "cell"};
    *self->handle = (struct job *)(void *)aw_spawn_future(
        NULL, &self->call.future, sizeof self->call, &location, self->storage);
    if (self->cell->abort == BEFORE_FIRST_POLL) aw_task_abort(*self->handle);
    if (self->cell->handle == EARLY &&
        (self->cell->abort == NEVER || self->cell->abort == BEFORE_FIRST_POLL))
        aw_task_drop(*self->handle);
    AW_AWAIT(self->pause, rounds(3)); /* it has run, and waits */
    if (self->cell->abort == WHILE_PENDING) aw_task_abort(*self->handle);
    if (self->cell->abort != BY_THE_END) {
        if (self->cell->abort != WHILE_PENDING) aw_notify_one(self->go);
        AW_AWAIT(self->pause, rounds(3)); /* it has ended */
    }
    if (self->cell->abort == AFTER_COMPLETION) aw_task_abort(*self->handle);
    if (self->cell->handle == EARLY && self->cell->abort != NEVER &&
        self->cell->abort != BEFORE_FIRST_POLL)
        aw_task_drop(*self->handle);
    if (self->cell->handle == ELSEWHERE) on_a_thread(drop_handle, *self->handle);
    if (self->cell->handle == JOINED && self->cell->abort != BY_THE_END) {
        AW_AWAIT(self->join, aw_task_join(*self->handle));
        self->status = self->join.out;
        if (self->status == 0)
            *self->output = aw_task_take(*self->handle);
        else
            aw_task_drop(*self->handle);
        AW_RETURN(self->status);
    }
    AW_AWAIT(self->pause, rounds(3));
    AW_RETURN(0);
    AW_END;
}

/* After the runtime has ended a join is polled once, directly. */
static int join_now(struct job *handle) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    aw_task_join_future join = aw_task_join(handle);
    CHECK_EQ(aw_future_poll(&join.future, &cx), AW_READY);
    return join.out;
}

static void run_cell(cell *c) {
    static aw_runtime_storage runtime_storage;
    static AW_TASK_STORAGE(struct job) task_storage;
    memory m;
    record r = {0};
    aw_notify go = AW_NOTIFY_INIT;
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    struct job *handle = NULL;
    char *output = NULL;

    snprintf(c->name, sizeof c->name, "runtime %s, task %s, output %s, %s, %s",
             c->runtime_in_storage ? "in storage" : "allocated",
             c->task_in_storage ? "in storage" : "allocated", c->owning ? "owning memory" : "plain",
             abort_names[c->abort], handle_names[c->handle]);
    o.allocator = memory_init(&m);
    o.keep_tasks = true;
    if (c->runtime_in_storage)
        EXPECT(c, aw_runtime_new_in(&rt, &runtime_storage, sizeof runtime_storage, &o), 0);
    else
        EXPECT(c, aw_runtime_new(&rt, &o), 0);

    struct job job = AW_CALL(job, .record = &r, .go = &go);
    if (!c->owning) job.future.type = plain_type();
    int status = aw_block_on(rt, AW_CALL(script, .cell = c, .call = job, .handle = &handle,
                                         .storage = c->task_in_storage ? &task_storage : NULL,
                                         .go = &go, .output = &output));
    EXPECT(c, aw_runtime_task_count(rt), c->abort == BY_THE_END ? 1 : 0);
    aw_runtime_free(rt);

    bool finished = c->abort == NEVER || c->abort == AFTER_COMPLETION;
    bool kept = c->handle == LATE || (c->handle == JOINED && c->abort == BY_THE_END);
    bool taken = finished && c->handle == JOINED;
    if (kept) {
        EXPECT(c, aw_task_is_finished(handle), true);
        EXPECT(c, r.discarded, 0);
        EXPECT(c, memory_in_use(&m), !c->runtime_in_storage + !c->task_in_storage);
        if (c->handle == JOINED) EXPECT(c, join_now(handle), -ECANCELED);
        if (c->task_in_storage) EXPECT(c, aw_task_storage_free(&task_storage), false);
        aw_task_drop(handle);
    } else if (c->handle == JOINED) {
        EXPECT(c, status, finished ? 0 : -ECANCELED);
        if (finished && strcmp(output, c->owning ? "owned" : "plain") != 0)
            FAIL("%s: the output is '%s'", c->name, output);
        if (c->owning) free(output);
    }

    EXPECT(c, r.started, c->abort != BEFORE_FIRST_POLL);
    EXPECT(c, r.was_started, c->abort != BEFORE_FIRST_POLL);
    EXPECT(c, r.released, 1);
    EXPECT(c, pthread_equal(r.released_by, pthread_self()), 1);
    EXPECT(c, r.held, 0);
    EXPECT(c, r.made, finished);
    EXPECT(c, r.discarded, c->owning && finished && !taken);
    EXPECT(c, m.taken, !c->runtime_in_storage + !c->task_in_storage);
    EXPECT(c, m.given, m.taken);
    EXPECT(c, m.given_bytes, m.taken_bytes);
    EXPECT(c, aw_task_storage_free(&task_storage), true);
}

/* A test for each way to end, so that a failure names it. */
static void run_matrix(enum abort abort) {
    for (int bits = 0; bits < 8; bits++)
        for (int handle = 0; handle < HANDLES; handle++)
            run_cell(&(cell){.runtime_in_storage = bits & 1,
                             .task_in_storage = bits & 2,
                             .owning = bits & 4,
                             .abort = abort,
                             .handle = (enum handle)handle});
}

TEST(a_task_that_is_never_aborted_is_released_once_however_its_handle_goes) {
    run_matrix(NEVER);
}

TEST(a_task_aborted_before_its_first_poll_is_released_once_however_its_handle_goes) {
    run_matrix(BEFORE_FIRST_POLL);
}

TEST(a_task_aborted_while_pending_is_released_once_however_its_handle_goes) {
    run_matrix(WHILE_PENDING);
}

TEST(a_task_aborted_after_completion_is_released_once_however_its_handle_goes) {
    run_matrix(AFTER_COMPLETION);
}

TEST(a_task_that_is_pending_when_its_runtime_ends_is_released_once_however_its_handle_goes) {
    run_matrix(BY_THE_END);
}
