/* SPDX-License-Identifier: MIT
 *
 * Creating runtimes: in the caller's memory, with an allocator that refuses everything, with
 * invalid options, a thousand in sequence. */
#include "support/tasks.h"

/* ---- No memory at all ------------------------------------------------------------------------ */

static int requests;

static void *refuse(void *data, size_t size) {
    (void)data;
    (void)size;
    requests++;
    return NULL;
}

static void refuse_release(void *data, void *at, size_t size) {
    (void)data;
    (void)at;
    FAIL("%zu bytes were freed that were never allocated", size);
}

static const aw_allocator none = {refuse, refuse_release, NULL};

/* A pipeline of stages, each a task in static storage, that pass numbers on by notify and
 * oneshot. */
enum { STAGES = 8, NUMBERS = 50 };

typedef AW_ONESHOT(long) cell;

typedef struct pipe_between {
    cell cells[NUMBERS];
} pipe_between;

static pipe_between pipes[STAGES + 1];

typedef AW_TIMEOUT(aw_oneshot_future) recv_in_time;

AW_ASYNC(long, stage, int n; int i; recv_in_time recv; aw_sleep nap;
         AW_JOIN(aw_sleep, aw_yield) pause; long sum;) {
    AW_BEGIN;
    for (self->i = 0; self->i < NUMBERS; self->i++) {
        AW_AWAIT_FOR(self->recv, AW_SEC(10), aw_oneshot_recv(&pipes[self->n].cells[self->i]));
        CHECK_EQ(self->recv.out, 0);
        CHECK_EQ(self->recv.inner.out, 0);
        self->sum += pipes[self->n].cells[self->i].value;
        if (self->i % 7 == 0)
            AW_AWAIT_JOIN(self->pause, aw_sleep_for(AW_USEC(self->n * 10)), aw_yield_now());
        CHECK_EQ(aw_oneshot_send(&pipes[self->n + 1].cells[self->i],
                                 pipes[self->n].cells[self->i].value + 1),
                 0);
    }
    AW_RETURN(self->sum);
    AW_END;
}

static AW_TASK_STORAGE(struct stage) stage_storage[STAGES];
static AW_TASK_STORAGE(aw_never) never_storage;

/* Forty children: join_all would like wakers of its own, and works without. */
struct feeders {
    aw_sleep naps[40];
};

AW_ASYNC(long, factory, struct stage *stages[STAGES]; aw_never * never; int i;
         aw_oneshot_future last; struct feeders * feeders; aw_all all; long sum;
         aw_task_join_future join; AW_SELECT(aw_task_join_future, aw_sleep) s;) {
    AW_BEGIN;
    for (int i = 0; i < STAGES; i++) {
        self->stages[i] = aw_spawn_in(&stage_storage[i], AW_CALL(stage, .n = i));
        CHECK_EQ(aw_task_error(self->stages[i]), 0);
    }
    self->never = aw_spawn_in(&never_storage, aw_never_ready());
    CHECK_EQ(aw_task_error(aw_spawn(AW_CALL(stage, .n = 0))), -ENOMEM); /* there really is none */
    for (int i = 0; i < 40; i++)
        self->feeders->naps[i] = aw_sleep_for(AW_USEC(i * 10));
    AW_AWAIT(self->all, aw_join_all(self->feeders->naps, 40));
    CHECK_EQ(self->all.out, 0);
    for (self->i = 0; self->i < NUMBERS; self->i++) {
        CHECK_EQ(aw_oneshot_send(&pipes[0].cells[self->i], self->i), 0);
        AW_AWAIT(self->last, aw_oneshot_recv(&pipes[STAGES].cells[self->i]));
        self->sum += pipes[STAGES].cells[self->i].value;
    }
    for (self->i = 0; self->i < STAGES; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->stages[self->i]));
        CHECK_EQ(self->join.out, 0);
        CHECK_EQ(self->stages[self->i]->out, NUMBERS * (NUMBERS - 1) / 2 + NUMBERS * self->i);
        aw_task_drop(self->stages[self->i]);
        CHECK(aw_task_storage_free(&stage_storage[self->i]));
    }
    aw_task_abort(self->never);
    AW_AWAIT_SELECT(self->s, aw_task_join(self->never), aw_sleep_for(AW_SEC(10)));
    CHECK_EQ(aw_select_winner(&self->s), 0);
    CHECK_EQ(self->s.f0.out, -ECANCELED);
    aw_task_drop(self->never);
    AW_RETURN(self->sum);
    AW_END;
}

TEST(a_program_runs_with_an_allocator_that_always_refuses) {
    ON_THIS_THREAD("workers need memory");
    static aw_runtime_storage storage;
    static struct feeders feeders;
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.allocator = &none;
    aw_set_allocator(&none);                  /* also allocations that belong to no runtime */
    for (int round = 0; round < 3; round++) { /* the same memory each time */
        memset(pipes, 0, sizeof pipes);
        CHECK_EQ(aw_runtime_new_in(&rt, &storage, sizeof storage, &o), 0);
        CHECK_EQ(aw_block_on(rt, AW_CALL(factory, .feeders = &feeders)),
                 NUMBERS * (NUMBERS - 1) / 2 + NUMBERS * STAGES);
        aw_runtime_free(rt);
        CHECK(aw_task_storage_free(&never_storage));
    }
    CHECK_EQ(requests, 3 * 2); /* the spawn that was to fail, and join_all's */
    CHECK_EQ(aw_runtime_new(&rt, &o), -ENOMEM);
}

/* ---- Memory of the caller -------------------------------------------------------------------- */

TEST(memory_that_is_too_small_or_askew_is_refused) {
    static char bytes[AW_RUNTIME_SIZE + 16] __attribute__((aligned(16)));
    aw_runtime *rt = NULL;
    CHECK_EQ(aw_runtime_new_in(&rt, bytes, 16, NULL), -ENOSPC);
    CHECK_EQ(aw_runtime_new_in(&rt, bytes, 0, NULL), -ENOSPC);
    CHECK_EQ(aw_runtime_new_in(&rt, bytes + 8, AW_RUNTIME_SIZE, NULL), -EINVAL);
    CHECK_EQ(rt, NULL);
    CHECK_EQ(aw_runtime_new_in(&rt, bytes, AW_RUNTIME_SIZE, NULL), 0);
    CHECK_EQ((char *)rt, bytes);
    CHECK_EQ(aw_block_on(rt, aw_ready_now(4)), 4);
    aw_runtime_free(rt);
}

/* ---- Options --------------------------------------------------------------------------------- */

static void park_only(void *data, uint64_t deadline) {
    (void)data;
    (void)deadline;
}
static void unpark_only(void *data) {
    (void)data;
}

TEST(options_that_make_no_sense_are_refused_and_nothing_is_left) {
    memory m;
    aw_runtime *rt = NULL;
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.allocator = memory_init(&m);
    o.self_size = 0;
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
    o.self_size = sizeof o + 1;
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
    o.self_size = sizeof o;
    aw_seam seam = {.self_size = sizeof seam, .park = park_only};
    o.seam = &seam;
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL); /* nothing could end that park */
    seam = (aw_seam){.self_size = sizeof seam, .unpark = unpark_only};
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
    seam = (aw_seam){.self_size = 3};
    CHECK_EQ(aw_runtime_new(&rt, &o), -EINVAL);
    CHECK_EQ(rt, NULL);
    CHECK_EQ(memory_in_use(&m), 0);
    m.refuse = true;
    o.seam = NULL;
    CHECK_EQ(aw_runtime_new(&rt, &o), -ENOMEM);
    m.refuse = false;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(options_of_an_older_and_shorter_kind_are_good) {
    ON_THIS_THREAD("it counts what a runtime allocates");
    memory m;
    aw_runtime *rt;
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.allocator = memory_init(&m);
    o.budget = 1;
    o.paused = true;
    o.self_size = offsetof(aw_runtime_options, seam); /* what follows is ignored */
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(m.taken, 1);
    CHECK_EQ(aw_clock_pause(rt), 0); /* it was not paused */
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(the_seam_is_copied) {
    sleeper s;
    aw_runtime *rt;
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.seam = sleeper_init(&s);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    memset(&s.seam, 0xa5, sizeof s.seam);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
    CHECK_GE(s.parks, 1);
    aw_runtime_free(rt);
}

TEST(the_default_allocator_is_the_one_that_was_set) {
    ON_THIS_THREAD("it counts what a runtime allocates");
    memory m;
    memory_init(&m);
    CHECK(aw_get_allocator() != NULL);
    aw_set_allocator(&m.allocator);
    CHECK_EQ(aw_get_allocator(), &m.allocator);
    CHECK_EQ(aw_run(aw_ready_now(2)), 2);
    CHECK_EQ(m.taken, 1);
    CHECK_EQ(memory_in_use(&m), 0);
    aw_set_allocator(NULL);
    CHECK_EQ(aw_run(aw_ready_now(2)), 2);
    CHECK_EQ(m.taken, 1);
}

/* ---- Many ------------------------------------------------------------------------------------ */

AW_ASYNC(int, small_program, aw_sleep nap; struct probe * task; probe_state state;
         struct rounds pause;) {
    AW_BEGIN;
    self->state = (probe_state)PROBE_STATE;
    self->task = aw_spawn(probe_of(&self->state));
    AW_AWAIT(self->nap, aw_sleep_for(AW_USEC(1)));
    AW_AWAIT(self->pause, rounds(1));
    aw_task_drop(self->task);
    probe_finish(&self->state);
    AW_AWAIT(self->pause, rounds(2));
    CHECK_EQ(self->state.discards, 1);
    AW_RETURN(1);
    AW_END;
}

TEST(a_thousand_runtimes_come_and_go) {
    memory m;
    memory_init(&m);
    for (int i = 0; i < 1000; i++) {
        aw_runtime *rt = runtime_new(&m, NULL, NULL, i % 2);
        CHECK_EQ(aw_block_on(rt, AW_CALL(small_program)), 1);
        aw_runtime_free(rt);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

TEST(a_hundred_runtimes_live_side_by_side) {
    enum { N = 100 };
    memory m;
    aw_runtime *rt[N];
    memory_init(&m);
    for (int i = 0; i < N; i++)
        rt[i] = runtime_new(&m, NULL, NULL, true);
    for (int i = 0; i < N; i++)
        CHECK_EQ(aw_block_on(rt[i], aw_sleep_for(AW_SEC((uint64_t)i))), 0);
    for (int i = 1; i < N; i++)
        CHECK_GT(aw_now(rt[i]), aw_now(rt[i - 1])); /* each has its own clock */
    for (int i = 0; i < N; i++)
        aw_runtime_free(rt[i]);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(a_runtime_that_never_ran_is_freed) {
    memory m;
    memory_init(&m);
    aw_runtime_free(runtime_new(&m, NULL, NULL, false));
    CHECK_EQ(memory_in_use(&m), 0);
}
