/* SPDX-License-Identifier: MIT
 *
 * Every way a task can live and end, crossed with every way its handle can be dropped, on
 * workers: nothing leaks, its future is released once, and a join says what happened. */
#include "support/workers.h"

typedef struct record {
    uint32_t started, finals, made, discarded, waits;
} record;

struct job {
    AW_FRAME(char *);
    record *record;
    gate *gate;
    char *held;
    struct through wait;
};

static void discard_job(aw_future *self) {
    struct job *job = (struct job *)self;
    ADD(job->record->discarded, 1);
    free(job->out);
}

AW_ASYNC_STATIC(job, .discard = discard_job) {
    AW_BEGIN;
    ADD(self->record->started, 1);
    self->held = malloc(8);
    AW_AWAIT(self->wait, through(self->gate));
    ADD(self->record->made, 1);
    if (self->future.type->discard) AW_RETURN(strdup("owned"));
    AW_RETURN("plain");
    AW_FINALLY;
    ADD(self->record->finals, 1);
    free(self->held);
    AW_END;
}

/* The same with an output that owns nothing. */
static aw_future_type plain_type;

enum abort { NEVER, BEFORE_FIRST_POLL, WHILE_PENDING, AFTER_COMPLETION, BY_THE_END, ABORTS };
enum handle { JOINED, JOINED_BY_A_TASK, EARLY, LATE, ELSEWHERE, HANDLES };

static const char *const abort_names[] = {"never aborted", "aborted before its first poll",
                                          "aborted while pending", "aborted after completion",
                                          "pending when the runtime ends"};
static const char *const handle_names[] = {"handle joined", "handle joined by a task",
                                           "handle dropped early", "handle dropped late",
                                           "handle dropped by another thread"};

typedef struct cell {
    enum abort abort;
    enum handle handle;
    bool owning, in_a_task;
    char name[256];
} cell;

#define EXPECT(c, what, wanted)                                                                    \
    do {                                                                                           \
        long long is_ = (long long)(what), wanted_ = (long long)(wanted);                          \
        if (is_ != wanted_)                                                                        \
            FAIL("%s: %s is %lld instead of %lld", (c)->name, #what, is_, wanted_);                \
    } while (0)

static struct job *spawn_job(const cell *c, record *r, gate *g, aw_runtime *rt) {
    struct job job = AW_CALL(job, .record = r, .gate = g);
    if (!c->owning) job.future.type = &plain_type;
    struct job *h = aw_spawn_on(rt, job);
    if (c->abort == BEFORE_FIRST_POLL) aw_task_abort(h);
    return h;
}

/* On a worker, a new task does not run before its spawner is pending. */
AW_ASYNC(int, spawner, const cell *cell; record * record; gate * gate; struct job * *job;) {
    AW_BEGIN;
    *self->job = spawn_job(self->cell, self->record, self->gate, aw_runtime_current());
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, joiner, struct job *job; aw_task_join_future join;) {
    AW_BEGIN;
    AW_AWAIT(self->join, aw_task_join(self->job));
    AW_RETURN(self->join.out);
    AW_END;
}

static void *drop_handle(void *task) {
    aw_task_drop((struct job *)task);
    return NULL;
}

static void run_cell(const cell *c, uint32_t workers) {
    memory m;
    record r = {0};
    gate g = GATE;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    struct job *h;
    int status = 1;
    char *output = NULL;
    if (c->in_a_task)
        EXPECT(c, RUN(rt, AW_CALL(spawner, .cell = c, .record = &r, .gate = &g, .job = &h)), 0);
    else
        h = spawn_job(c, &r, &g, rt);
    if (c->handle == EARLY && c->abort != WHILE_PENDING && c->abort != AFTER_COMPLETION)
        aw_task_drop(h);
    if (c->abort == WHILE_PENDING || c->abort == AFTER_COMPLETION || c->abort == BY_THE_END)
        gate_wait(&g, 1);
    if (c->abort == WHILE_PENDING) aw_task_abort(h);
    if (c->abort == NEVER || c->abort == AFTER_COMPLETION) gate_open(&g);
    if (c->abort == AFTER_COMPLETION) {
        WAIT_UNTIL(aw_task_is_finished(h));
        aw_task_abort(h);
    }
    if (c->handle == EARLY && (c->abort == WHILE_PENDING || c->abort == AFTER_COMPLETION))
        aw_task_drop(h);
    if (c->handle == ELSEWHERE) on_a_thread(drop_handle, h);
    if (c->abort != BY_THE_END && (c->handle == JOINED || c->handle == JOINED_BY_A_TASK)) {
        status = c->handle == JOINED ? JOIN_STATUS(rt, h) : RUN(rt, AW_CALL(joiner, .job = h));
        EXPECT(c, r.finals, 1);
        if (status == 0)
            output = aw_task_take(h);
        else
            aw_task_drop(h);
    } else if (c->abort != BY_THE_END) {
        WAIT_UNTIL(LOAD(r.finals) == 1);
    }
    aw_runtime_free(rt);
    if (c->abort == BY_THE_END && (c->handle == JOINED || c->handle == JOINED_BY_A_TASK)) {
        aw_waker noop = aw_noop_waker();
        aw_cx cx = aw_cx_from_waker(&noop);
        aw_task_join_future join = aw_task_join(h);
        EXPECT(c, aw_future_poll(&join.future, &cx), AW_READY);
        EXPECT(c, status = join.out, -ECANCELED);
        aw_task_drop(h);
    }
    if (c->handle == LATE) aw_task_drop(h);

    bool finishes = c->abort == NEVER || c->abort == AFTER_COMPLETION;
    bool joined = c->handle == JOINED || c->handle == JOINED_BY_A_TASK;
    EXPECT(c, r.finals, 1);
    EXPECT(c, r.made, finishes);
    if (joined) EXPECT(c, status, finishes ? 0 : -ECANCELED);
    EXPECT(c, output != NULL, joined && finishes);
    if (output) CHECK_STR(output, c->owning ? "owned" : "plain");
    EXPECT(c, r.discarded, c->owning && finishes && !joined);
    if (c->abort == BEFORE_FIRST_POLL && c->in_a_task) EXPECT(c, r.started, 0);
    if (output && c->owning) free(output);
    EXPECT(c, memory_in_use(&m), 0);
}

ON_WORKERS(every_end_of_a_task_with_every_end_of_its_handle) {
    plain_type = aw_type_job;
    plain_type.discard = NULL;
    for (int i = 0; i < 4 * ABORTS * HANDLES; i++) {
        cell c = {.owning = i & 1,
                  .in_a_task = i & 2,
                  .abort = (enum abort)(i / 4 % ABORTS),
                  .handle = (enum handle)(i / 4 / ABORTS)};
        snprintf(c.name, sizeof c.name, "%s, %s, %s output, spawned by a %s", abort_names[c.abort],
                 handle_names[c.handle], c.owning ? "owning" : "plain",
                 c.in_a_task ? "task" : "thread");
        run_cell(&c, workers);
    }
}

/* ---- Detaching at any moment ----------------------------------------------------------------- */

typedef struct detached {
    struct job *job;
    gate *gate;
} detached;

static void end_it(void *arg, int index, uint64_t *random) {
    detached *d = arg;
    jitter(random);
    jitter(random);
    if (index)
        gate_open(d->gate);
    else
        aw_task_drop(d->job);
}

/* Before its first poll, while it is queued, runs, or completes: at any moment. */
ON_WORKERS(a_handle_may_go_at_any_moment) {
    uint64_t random = test_seed();
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int i = 0; i < stress_rounds(400); i++) {
        record r = {0};
        gate g = GATE;
        thread_group s;
        detached d = {.gate = &g};
        thread_group_create(&s, 2, &random, end_it, &d);
        d.job = aw_spawn_on(rt, AW_CALL(job, .record = &r, .gate = &g));
        if (i % 2) gate_wait(&g, 1);
        thread_group_go(&s);
        thread_group_join(&s);
        WAIT_UNTIL(LOAD(r.discarded) == 1);
        CHECK_EQ(LOAD(r.finals), 1);
        CHECK_EQ(LOAD(r.made), 1);
        WAIT_UNTIL(aw_runtime_task_count(rt) == 0);
    }
    workers_end(rt, &m);
}
