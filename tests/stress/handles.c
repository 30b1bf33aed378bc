/* SPDX-License-Identifier: MIT
 *
 * Threads abort, drop and join handles while their tasks run, complete, and end with the runtime.
 * Every task ends once, on a thread of the runtime. Every output is taken or discarded once. Every
 * join reports what happened. */
#include "support/stress.h"

enum { TASKS = 24 };

typedef struct job_record {
    uint32_t finals, outputs, taken, discarded;
    uint32_t status_seen; /* a join has set `status` */
    int status;
} job_record;

typedef struct contest {
    aw_runtime *rt;
    pthread_t runner;
    job_record records[MAX_THREADS * TASKS];
    struct job *handles[MAX_THREADS * TASKS];
} contest;

/* ---- The task -------------------------------------------------------------------------------- */

struct job {
    AW_FRAME(char *);
    contest *contest;
    job_record *record;
    uint32_t yield_count;
    bool waits; /* never finishes by itself */
    aw_never never;
};

static void discard_job(aw_future *self) {
    struct job *job = (struct job *)self;
    ADD(job->record->discarded, 1);
    free(job->out);
}

AW_ASYNC_STATIC(job, .discard = discard_job) {
    AW_BEGIN;
    for (; self->yield_count > 0; self->yield_count--)
        AW_YIELD;
    if (self->waits) AW_AWAIT(self->never, aw_never_ready());
    self->record->outputs++;
    AW_RETURN(strdup("output"));
    AW_FINALLY;
    CHECK(test_on_workers() || pthread_equal(self->contest->runner, pthread_self()));
    self->record->finals++;
    AW_END;
}

/* ---- What threads do with a handle ----------------------------------------------------------- */

/* Joins without a runtime; cancels the join at random unless `to_the_end`. True: it reported. */
static bool join_some_time(struct job *h, job_record *r, uint64_t *random, bool to_the_end) {
    aw_parker *parker[2] = {aw_parker_new(), aw_parker_new()};
    aw_task_join_future join = aw_task_join(h);
    aw_poll answer = AW_PENDING;
    for (unsigned i = 0; answer == AW_PENDING; i++) {
        aw_waker w = aw_parker_waker(parker[i % 2]);
        aw_cx cx = aw_cx_from_waker(&w);
        if (!to_the_end && chance(random, 4)) {
            answer = aw_future_cancel(&join.future, &cx);
            CHECK_NE(answer, AW_PENDING);
            break;
        }
        answer = aw_future_poll(&join.future, &cx);
        if (answer == AW_PENDING && to_the_end && !chance(random, 4)) aw_parker_park(parker[i % 2]);
    }
    aw_parker_free(parker[0]);
    aw_parker_free(parker[1]);
    memset(parker, 0xa5, sizeof parker);
    if (answer != AW_READY) return false;
    if (join.out == 0 && chance(random, 4)) {
        aw_future_discard(&join.future); /* the output returns to the handle */
        return false;
    }
    r->status = join.out;
    STORE(r->status_seen, 1);
    return true;
}

static void use_handle(contest *c, int i, uint64_t *random) {
    struct job *h = c->handles[i];
    job_record *r = &c->records[i];
    bool joined = false;
    for (int k = (int)(test_random(random) % 4); k > 0 && !joined; k--) {
        switch (test_random(random) % 5) {
        case 0: aw_task_abort(h); break;
        case 1: joined = join_some_time(h, r, random, false); break;
        case 2: (void)aw_task_is_finished(h); break;
        case 3: joined = join_some_time(h, r, random, true); break;
        default: jitter(random);
        }
    }
    if (joined) {
        CHECK(aw_task_is_finished(h));
        if (r->status == 0) {
            CHECK_STR(h->out, "output");
            free(h->out);
            r->taken++;
        }
    }
    aw_task_drop(h);
}

static void use_handles(void *arg, int index, uint64_t *random) {
    contest *c = arg;
    for (int i = 0; i < TASKS; i++)
        use_handle(c, index * TASKS + i, random);
}

static void run_contest(uint64_t *random, int threads, memory *m) {
    static contest c;
    thread_group s;
    memset(&c, 0, sizeof c);
    c.rt = runtime_new(m, NULL, NULL, false);
    c.runner = pthread_self();
    int all = threads * TASKS;
    for (int i = 0; i < all; i++)
        c.handles[i] = aw_spawn_on(c.rt,
                                   AW_CALL(job, .contest = &c, .record = &c.records[i],
                                           .yield_count = (uint32_t)(test_random(random) % 20),
                                           .waits = chance(random, 4)));
    thread_group_create(&s, threads, random, use_handles, &c);
    thread_group_go(&s);
    CHECK_EQ(aw_block_on(c.rt, yields((int)(test_random(random) % 40))), 0);
    aw_runtime_free(c.rt); /* joins of waiting tasks end with -ECANCELED */
    thread_group_join(&s);
    for (int i = 0; i < all; i++) {
        job_record *r = &c.records[i];
        CHECK_EQ(r->finals, 1);
        CHECK_LE(r->outputs, 1);
        CHECK_EQ(r->taken + r->discarded, r->outputs);
        if (r->status_seen) CHECK_EQ(r->status, r->outputs ? 0 : -ECANCELED);
    }
    CHECK_EQ(memory_in_use(m), 0);
}

TEST_LIMIT(aborts_drops_and_joins_of_threads_race_with_completion_and_the_end, 60) {
    uint64_t random = test_seed();
    memory m;
    memory_init(&m);
    for (int round = 0; round < stress_rounds(1000); round++)
        run_contest(&random, 1 + round % 8, &m);
}

/* ---- One task, one join, one shutdown -------------------------------------------------------- */

/* The join is linked, looked up and unlinked within the few instructions in which the task and then
 * the runtime end. Nothing else runs. */
struct duel {
    struct probe *task;
    uint32_t polled;
    int status;
};

static void join_in_duel(void *arg, int index, uint64_t *random) {
    struct duel *d = arg;
    (void)index;
    aw_parker *parker = aw_parker_new();
    aw_waker w = aw_parker_waker(parker);
    aw_cx cx = aw_cx_from_waker(&w);
    aw_task_join_future join = aw_task_join(d->task);
    for (volatile int i = (int)(test_random(random) % 400); i > 0; i--)
        ;
    while (aw_future_poll(&join.future, &cx) == AW_PENDING)
        aw_parker_park(parker);
    d->status = join.out;
    aw_task_drop(d->task);
    aw_parker_free(parker);
}

TEST_LIMIT(a_join_that_meets_the_end_of_its_task_and_of_the_runtime_is_told, 60) {
    uint64_t random = test_seed() + 1;
    memory m;
    memory_init(&m);
    for (int round = 0; round < stress_rounds(10000); round++) {
        thread_group s;
        probe_state l = PROBE_STATE;
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        struct duel d = {.task = aw_spawn_on(rt, probe_of(&l))};
        run_a_while(rt);
        thread_group_create(&s, 1, &random, join_in_duel, &d);
        bool finish = round % 2;
        if (finish) probe_finish(&l);
        thread_group_go(&s);
        if (finish) run_a_while(rt);
        aw_runtime_free(rt);
        thread_group_join(&s);
        CHECK_EQ(d.status, finish ? 0 : -ECANCELED);
        CHECK_EQ(l.discards, 0);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}
