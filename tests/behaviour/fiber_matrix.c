/* SPDX-License-Identifier: MIT
 *
 * Every way in which a fiber task can end, combined with every way in which its handle can be
 * dropped: nothing leaks, the task is released once, and a join returns the right result. */
#include "support/tasks.h"

ALL_ON_THIS_THREAD("it checks which thread releases what; workers_matrix.c covers workers");

/* ---- The task --------------------------------------------------------------------------------- */

typedef struct record {
    int started, released; /* entered; ended by its return or its drop part */
    int made, discarded;   /* outputs, including those of a fiber that was cut */
    bool dropped;
    pthread_t released_by;
    int held; /* acquired and not yet freed */
} record;

struct job {
    AW_FIBER_FRAME(char *);
    record *record;
    aw_notify *go;
};

static void discard_job(aw_future *self) {
    struct job *job = (struct job *)self;
    if (!job->out) return; /* it was cut and returned nothing */
    job->record->discarded++;
    free(job->out);
}

static void released(record *r) {
    r->released++;
    r->released_by = pthread_self();
}

/* The output is allocated memory, or a string literal. */
AW_FIBER_STATIC(job, .discard = discard_job) {
    record *r = self->record;
    r->started++;
    char *held = malloc(8);
    r->held++;
    int error = aw_await_status(aw_notify_wait(self->go));
    free(held);
    r->held--;
    released(r);
    if (error) return NULL;
    r->made++;
    return self->future.type->discard ? strdup("owned") : "plain";
}
AW_FIBER_DROP(job) {
    self->record->dropped = true;
    released(self->record);
}

/* The same with an output that owns nothing. */
static const aw_future_type *plain_type(void) {
    static aw_future_type type;
    type = aw_type_job;
    type.discard = NULL;
    return &type;
}

/* ---- The dimensions --------------------------------------------------------------------------- */

enum abort { NEVER, BEFORE_FIRST_POLL, WHILE_PENDING, AFTER_COMPLETION, BY_THE_END };
enum handle { JOINED, EARLY, LATE, ELSEWHERE, HANDLES };

static const char *const abort_names[] = {"never aborted", "aborted before its first poll",
                                          "aborted while pending", "aborted after completion",
                                          "pending when the runtime ends"};
static const char *const handle_names[] = {"handle joined", "handle dropped early",
                                           "handle dropped late",
                                           "handle dropped by another thread"};

typedef struct cell {
    bool task_in_storage, owning;
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

/* ---- Running one cell ------------------------------------------------------------------------- */

/* The main future: treats the task as the cell says, until its handle or the runtime ends. */
AW_FIBER(int, script, const cell *cell; struct job call; void *storage; struct job * *handle;
         aw_notify * go; char **output;) {
    static const aw_location location = {__FILE__, __LINE__, "cell"};
    const cell *c = self->cell;
    bool drop_first = c->handle == EARLY && (c->abort == NEVER || c->abort == BEFORE_FIRST_POLL);
    struct job *task = (struct job *)(void *)aw_spawn_future(
        NULL, &self->call.future, sizeof self->call, &location, self->storage);
    *self->handle = task;
    if (c->abort == BEFORE_FIRST_POLL) aw_task_abort(task);
    if (drop_first) aw_task_drop(task);
    CHECK_EQ(aw_await(rounds(3)), 0); /* the task has run, and waits */
    if (c->abort == WHILE_PENDING) aw_task_abort(task);
    if (c->abort != BY_THE_END) {
        if (c->abort != WHILE_PENDING) aw_notify_one(self->go);
        CHECK_EQ(aw_await(rounds(3)), 0); /* the task has ended */
    }
    if (c->abort == AFTER_COMPLETION) aw_task_abort(task);
    if (c->handle == EARLY && !drop_first) aw_task_drop(task);
    if (c->handle == ELSEWHERE) on_a_thread(drop_handle, task);
    if (c->handle == JOINED && c->abort != BY_THE_END) {
        int status = aw_await(aw_task_join(task));
        if (status == 0)
            *self->output = aw_task_take(task);
        else
            aw_task_drop(task);
        return status;
    }
    return aw_await(rounds(3));
}

/* Polls a join once, after the end of the runtime. */
static int join_now(struct job *handle) {
    aw_waker noop = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&noop);
    aw_task_join_future join = aw_task_join(handle);
    CHECK_EQ(aw_future_poll(&join.future, &cx), AW_READY);
    return join.out;
}

static void run_cell(cell *c) {
    static AW_TASK_STORAGE(struct job) task_storage;
    memory m;
    record r = {0};
    aw_notify go = AW_NOTIFY_INIT;
    struct job *handle = NULL;
    char *output = NULL;

    snprintf(c->name, sizeof c->name, "task %s, output %s, %s, %s",
             c->task_in_storage ? "in storage" : "allocated", c->owning ? "owning memory" : "plain",
             abort_names[c->abort], handle_names[c->handle]);
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);

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
        EXPECT(c, memory_in_use(&m), 1 + !c->task_in_storage);
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
    EXPECT(c, r.dropped, c->abort == BEFORE_FIRST_POLL);
    EXPECT(c, r.released, 1);
    EXPECT(c, pthread_equal(r.released_by, pthread_self()), 1);
    EXPECT(c, r.held, 0);
    EXPECT(c, r.made, finished);
    EXPECT(c, r.discarded, c->owning && finished && !taken);
    EXPECT(c, m.taken, 1 + !c->task_in_storage); /* stacks do not come from this allocator */
    EXPECT(c, m.given, m.taken);
    EXPECT(c, m.given_bytes, m.taken_bytes);
    EXPECT(c, aw_task_storage_free(&task_storage), true);
}

/* A test for each way to end, so that a failure names it. */
static void run_matrix(enum abort abort) {
    for (int bits = 0; bits < 4; bits++)
        for (int handle = 0; handle < HANDLES; handle++)
            run_cell(&(cell){.task_in_storage = bits & 1,
                             .owning = bits & 2,
                             .abort = abort,
                             .handle = (enum handle)handle});
}

TEST(a_fiber_that_is_never_aborted_is_released_once_however_its_handle_goes) {
    run_matrix(NEVER);
}

TEST(a_fiber_aborted_before_its_first_poll_is_dropped_once_however_its_handle_goes) {
    run_matrix(BEFORE_FIRST_POLL);
}

TEST(a_fiber_aborted_while_pending_is_released_once_however_its_handle_goes) {
    run_matrix(WHILE_PENDING);
}

TEST(a_fiber_aborted_after_completion_is_released_once_however_its_handle_goes) {
    run_matrix(AFTER_COMPLETION);
}

TEST(a_fiber_that_is_pending_when_its_runtime_ends_is_released_once_however_its_handle_goes) {
    run_matrix(BY_THE_END);
}
