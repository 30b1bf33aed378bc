/* SPDX-License-Identifier: MIT
 *
 * Room for the next tasks of workers: what a task leaves behind is used again, by whichever worker needs it,
 * and given back when nobody does. */
#include "core/alloc.h"
#include "workers/pool.h"

#include "support/workers.h"

#define NEEDS_SHELVES                                                                              \
    if (!AW__SLABS) SKIP("a sanitizer sees each task")

/* ---- Two workers that this thread plays by turns ----------------------------------------------- */

static struct {
    aw_runtime rt;
    aw__pool *pool;
} stage;

static void act(uint32_t worker) {
    aw__thread.worker = &stage.pool->workers[worker];
}

static void begin(void) {
    stage.rt = (aw_runtime){.allocator = &aw__heap};
    stage.pool = aligned_alloc(64, sizeof(aw__pool) + 2 * sizeof(aw__worker));
    CHECK(stage.pool != NULL);
    memset((void *)stage.pool, 0, sizeof(aw__pool) + 2 * sizeof(aw__worker));
    stage.rt.pool = stage.pool;
    stage.pool->rt = &stage.rt;
    for (int i = 0; i < 2; i++) {
        stage.pool->workers[i].pool = stage.pool;
    }
    act(0);
}

static uint32_t on_shelf(uint32_t worker) {
    const aw__shelf *s = &stage.pool->workers[worker].shelf;
    uint32_t n = 0;
    for (int i = 0; i < AW__ROOM_SIZES; i++)
        n += s->first[i].count + s->second[i].count;
    return n;
}

static uint32_t in_depot(void) {
    uint32_t n = 0;
    for (int i = 0; i < AW__ROOM_SIZES; i++)
        n += stage.pool->depot.counts[i] * AW__PILE;
    return n;
}

static void end(void) {
    for (uint32_t i = 0; i < 2; i++)
        aw__shelf_clear(&stage.pool->workers[i]);
    CHECK_EQ(on_shelf(0) + on_shelf(1) + in_depot(), 0);
    aw__thread.worker = NULL;
    free(stage.pool);
}

static aw__task *take(size_t frame) {
    aw__task *t = aw__shelf_take(stage.pool, frame);
    CHECK(t != NULL && aw__task_rt(t) == &stage.rt);
    memset(aw__task_frame(t), 0x5a, frame);
    return t;
}
static void give(aw__task *t) {
    aw__shelf_give(stage.pool, t);
}

enum { MANY = 4 * AW__PILE };

static void take_many(aw__task **tasks, size_t frame) {
    for (int i = 0; i < MANY; i++)
        tasks[i] = take(frame);
}
static void give_many(aw__task **tasks) {
    for (int i = 0; i < MANY; i++)
        give(tasks[i]);
}

TEST(the_next_task_lies_where_the_last_one_of_its_size_lay) {
    NEEDS_SHELVES;
    begin();
    aw__task *small = take(24), *large = take(200);
    give(small);
    give(large);
    CHECK_EQ(take(200), large);
    CHECK_EQ(take(30), small); /* both fit into two steps */
    CHECK_EQ(on_shelf(0), 0);
    give(small);
    give(large);
    end();
}

TEST(what_one_worker_ends_another_spawns_again) {
    NEEDS_SHELVES;
    aw__task *tasks[MANY], *again[MANY];
    begin();
    take_many(tasks, 40);
    act(1);
    give_many(tasks);
    CHECK_EQ(on_shelf(1), 2 * AW__PILE);
    CHECK_EQ(in_depot(), 2 * AW__PILE);
    act(0);
    take_many(again, 40);
    CHECK_EQ(in_depot(), 0);
    for (int i = 0; i < 2 * AW__PILE; i++) {
        int k = 0;
        while (k < MANY && tasks[k] != again[i])
            k++;
        CHECK_LT(k, MANY);
        tasks[k] = NULL; /* nobody gets it twice */
    }
    give_many(again);
    end();
}

TEST(only_so_much_is_kept) {
    NEEDS_SHELVES;
    enum { LIMIT = (2 + AW__DEPOT_PILES) * AW__PILE, TASKS = LIMIT + 5 * AW__PILE };
    static aw__task *tasks[TASKS];
    begin();
    for (int i = 0; i < TASKS; i++)
        tasks[i] = take(40);
    for (int i = 0; i < TASKS; i++)
        give(tasks[i]);
    CHECK_LE(on_shelf(0) + in_depot(), LIMIT);
    CHECK_GT(on_shelf(0) + in_depot(), LIMIT - AW__PILE - 1);
    end();
}

TEST(large_tasks_and_those_of_other_threads_are_freed) {
    begin();
    give(take(AW__ROOM_SIZES * AW__ROOM_STEP));
    aw__thread.worker = NULL;
    give(take(40));
    act(0);
    CHECK_EQ(on_shelf(0), 0);
    end();
}

TEST(a_task_in_storage_of_the_callers_is_not_kept) {
    _Alignas(16) char storage[AW_TASK_OVERHEAD + 64] = {0};
    begin();
    aw__task *t = aw__room_in(&stage.rt, storage);
    CHECK(!aw__task_storage_free(storage));
    give(t);
    CHECK(aw__task_storage_free(storage));
    CHECK_EQ(on_shelf(0), 0);
    end();
}

TEST(an_allocator_of_the_users_sees_each_task) {
    memory m;
    memory_init(&m);
    begin();
    stage.rt.allocator = &m.allocator;
    aw__task *t = take(40);
    CHECK_GT(memory_in_use(&m), 0);
    give(t);
    CHECK_EQ(memory_in_use(&m), 0);
    end();
}

TEST(a_worker_that_sleeps_keeps_one_pile_and_the_last_one_empties_the_depot) {
    NEEDS_SHELVES;
    aw__task *tasks[MANY];
    begin();
    take_many(tasks, 40);
    give_many(tasks);
    CHECK_EQ(on_shelf(0), 2 * AW__PILE);
    CHECK_GT(in_depot(), 0);
    aw__shelf_idle(aw__thread.worker, false);
    CHECK_EQ(on_shelf(0), AW__PILE);
    CHECK_GT(in_depot(), 0);
    aw__shelf_idle(aw__thread.worker, true);
    CHECK_EQ(on_shelf(0), AW__PILE);
    CHECK_EQ(in_depot(), 0);
    end();
}

/* ---- Real workers ------------------------------------------------------------------------------ */

AW_ASYNC(int, nothing, int n;) {
    AW_BEGIN;
    AW_RETURN(self->n);
    AW_END;
}

/* How many tasks lay elsewhere than the one before. */
AW_ASYNC(int, one_by_one, int i; int moved; struct nothing * last; struct nothing * task;
         aw_task_join_future join;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 1000; self->i++) {
        self->task = aw_spawn(AW_CALL(nothing, .n = self->i));
        self->moved += self->task != self->last;
        self->last = self->task;
        AW_AWAIT(self->join, aw_task_join(self->task));
        CHECK_EQ(aw_task_take(self->task), self->i);
    }
    AW_RETURN(self->moved);
    AW_END;
}

static int on_this_shelf(void) {
    const aw__shelf *s = &aw__thread.worker->shelf;
    uint32_t n = 0;
    for (int i = 0; i < AW__ROOM_SIZES; i++)
        n += s->first[i].count + s->second[i].count;
    return (int)n;
}

enum { AT_ONCE = 5 * AW__PILE };

AW_ASYNC(int, all_at_once, struct nothing *tasks[AT_ONCE]; int i; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < AT_ONCE; i++)
        self->tasks[i] = aw_spawn(AW_CALL(nothing, .n = i));
    for (self->i = 0; self->i < AT_ONCE; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        CHECK_EQ(aw_task_take(self->tasks[self->i]), self->i);
    }
    AW_RETURN(on_this_shelf());
    AW_END;
}

AW_ASYNC(int, count_shelf, int unused;) {
    AW_BEGIN;
    AW_RETURN(on_this_shelf());
    AW_END;
}

TEST(tasks_that_follow_each_other_share_a_place) {
    NEEDS_SHELVES;
    aw_runtime *rt = workers_new(1, NULL, NULL);
    CHECK_LE(RUN(rt, AW_CALL(one_by_one)), 1);
    workers_end(rt, NULL);
}

/* The two tasks of this test itself are of the same size or of others. */
TEST(a_worker_that_is_parked_keeps_little) {
    NEEDS_SHELVES;
    aw_runtime *rt = workers_new(1, NULL, NULL);
    CHECK_GT(RUN(rt, AW_CALL(all_at_once)), AW__PILE + 2);
    WAIT_UNTIL(workers_sleep(rt->pool));
    CHECK_LE(RUN(rt, AW_CALL(count_shelf)), AW__PILE + 2);
    workers_end(rt, NULL);
}
