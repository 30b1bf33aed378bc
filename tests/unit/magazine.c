/* SPDX-License-Identifier: MIT
 *
 * Magazines, the workers' caches of task memory: memory of ended tasks is reused, by any worker,
 * and freed when it is not needed. */
#include "base/allocate.h"
#include "sched/multi/pool.h"

#include "support/workers.h"

#define NEEDS_MAGAZINES                                                                            \
    if (!AW__USE_SLABS) SKIP("a sanitizer sees each task")

/* ---- Two workers, both played by this thread ------------------------------------------------- */

static struct {
    aw_runtime rt;
    aw__pool *pool;
} fake;

static void act_as(uint32_t worker) {
    aw__context.worker = &fake.pool->workers[worker];
}

static void begin(void) {
    fake.rt = (aw_runtime){.base.allocator = &aw__heap};
    fake.pool = aligned_alloc(64, sizeof(aw__pool) + 2 * sizeof(aw__worker));
    CHECK(fake.pool != NULL);
    memset((void *)fake.pool, 0, sizeof(aw__pool) + 2 * sizeof(aw__worker));
    fake.rt.pool = fake.pool;
    fake.pool->rt = &fake.rt;
    for (int i = 0; i < 2; i++) {
        fake.pool->workers[i].pool = fake.pool;
    }
    act_as(0);
}

static uint32_t in_magazines(uint32_t worker) {
    const aw__magazines *s = &fake.pool->workers[worker].magazines;
    uint32_t n = 0;
    for (int i = 0; i < AW__SLAB_SIZES; i++)
        n += s->loaded[i].count + s->previous[i].count;
    return n;
}

static uint32_t in_depot(void) {
    uint32_t n = 0;
    for (int i = 0; i < AW__SLAB_SIZES; i++)
        n += fake.pool->depot.counts[i] * AW__MAGAZINE_SIZE;
    return n;
}

static void end(void) {
    for (uint32_t i = 0; i < 2; i++)
        aw__magazine_clear(&fake.pool->workers[i]);
    CHECK_EQ(in_magazines(0) + in_magazines(1) + in_depot(), 0);
    aw__context.worker = NULL;
    free(fake.pool);
}

static aw__task *alloc_task(size_t frame) {
    aw__task *t = aw__magazine_alloc(fake.pool, frame);
    CHECK(t != NULL && aw__task_rt(t) == &fake.rt);
    memset(aw__task_frame(t), 0x5a, frame);
    return t;
}
static void free_task(aw__task *t) {
    aw__magazine_free(fake.pool, t);
}

enum { MANY = 4 * AW__MAGAZINE_SIZE };

static void alloc_many(aw__task **tasks, size_t frame) {
    for (int i = 0; i < MANY; i++)
        tasks[i] = alloc_task(frame);
}
static void free_many(aw__task **tasks) {
    for (int i = 0; i < MANY; i++)
        free_task(tasks[i]);
}

TEST(the_next_task_lies_where_the_last_one_of_its_size_lay) {
    NEEDS_MAGAZINES;
    begin();
    aw__task *small = alloc_task(24), *large = alloc_task(200);
    free_task(small);
    free_task(large);
    CHECK_EQ(alloc_task(200), large);
    CHECK_EQ(alloc_task(30), small); /* both round up to the same size */
    CHECK_EQ(in_magazines(0), 0);
    free_task(small);
    free_task(large);
    end();
}

TEST(what_one_worker_ends_another_spawns_again) {
    NEEDS_MAGAZINES;
    aw__task *tasks[MANY], *again[MANY];
    begin();
    alloc_many(tasks, 40);
    act_as(1);
    free_many(tasks);
    CHECK_EQ(in_magazines(1), 2 * AW__MAGAZINE_SIZE);
    CHECK_EQ(in_depot(), 2 * AW__MAGAZINE_SIZE);
    act_as(0);
    alloc_many(again, 40);
    CHECK_EQ(in_depot(), 0);
    for (int i = 0; i < 2 * AW__MAGAZINE_SIZE; i++) {
        int k = 0;
        while (k < MANY && tasks[k] != again[i])
            k++;
        CHECK_LT(k, MANY);
        tasks[k] = NULL; /* no task is allocated twice */
    }
    free_many(again);
    end();
}

TEST(only_so_much_is_kept) {
    NEEDS_MAGAZINES;
    enum {
        LIMIT = (2 + AW__DEPOT_MAGAZINES) * AW__MAGAZINE_SIZE,
        TASKS = LIMIT + 5 * AW__MAGAZINE_SIZE
    };
    static aw__task *tasks[TASKS];
    begin();
    for (int i = 0; i < TASKS; i++)
        tasks[i] = alloc_task(40);
    for (int i = 0; i < TASKS; i++)
        free_task(tasks[i]);
    CHECK_LE(in_magazines(0) + in_depot(), LIMIT);
    CHECK_GT(in_magazines(0) + in_depot(), LIMIT - AW__MAGAZINE_SIZE - 1);
    end();
}

TEST(large_tasks_and_those_of_other_threads_are_freed) {
    begin();
    free_task(alloc_task(AW__SLAB_SIZES * AW__SLAB_STEP));
    aw__context.worker = NULL;
    free_task(alloc_task(40));
    act_as(0);
    CHECK_EQ(in_magazines(0), 0);
    end();
}

TEST(a_task_in_storage_of_the_callers_is_not_kept) {
    _Alignas(16) char storage[AW_TASK_OVERHEAD + 64] = {0};
    begin();
    aw__task *t = aw__slab_in_storage(&fake.rt, storage);
    CHECK(!aw__task_storage_free(storage));
    free_task(t);
    CHECK(aw__task_storage_free(storage));
    CHECK_EQ(in_magazines(0), 0);
    end();
}

TEST(an_allocator_of_the_users_sees_each_task) {
    memory m;
    memory_init(&m);
    begin();
    fake.rt.base.allocator = &m.allocator;
    aw__task *t = alloc_task(40);
    CHECK_GT(memory_in_use(&m), 0);
    free_task(t);
    CHECK_EQ(memory_in_use(&m), 0);
    end();
}

TEST(a_worker_that_sleeps_keeps_one_magazine_and_the_last_one_empties_the_depot) {
    NEEDS_MAGAZINES;
    aw__task *tasks[MANY];
    begin();
    alloc_many(tasks, 40);
    free_many(tasks);
    CHECK_EQ(in_magazines(0), 2 * AW__MAGAZINE_SIZE);
    CHECK_GT(in_depot(), 0);
    aw__magazine_idle(aw__context.worker, false);
    CHECK_EQ(in_magazines(0), AW__MAGAZINE_SIZE);
    CHECK_GT(in_depot(), 0);
    aw__magazine_idle(aw__context.worker, true);
    CHECK_EQ(in_magazines(0), AW__MAGAZINE_SIZE);
    CHECK_EQ(in_depot(), 0);
    end();
}

/* ---- Real workers ---------------------------------------------------------------------------- */

AW_ASYNC(int, nothing, int n;) {
    AW_BEGIN;
    AW_RETURN(self->n);
    AW_END;
}

/* How often a task was at another address than the one before. */
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

static int in_own_magazines(void) {
    const aw__magazines *s = &aw__context.worker->magazines;
    uint32_t n = 0;
    for (int i = 0; i < AW__SLAB_SIZES; i++)
        n += s->loaded[i].count + s->previous[i].count;
    return (int)n;
}

enum { AT_ONCE = 5 * AW__MAGAZINE_SIZE };

AW_ASYNC(int, all_at_once, struct nothing *tasks[AT_ONCE]; int i; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < AT_ONCE; i++)
        self->tasks[i] = aw_spawn(AW_CALL(nothing, .n = i));
    for (self->i = 0; self->i < AT_ONCE; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        CHECK_EQ(aw_task_take(self->tasks[self->i]), self->i);
    }
    AW_RETURN(in_own_magazines());
    AW_END;
}

AW_ASYNC(int, count_magazines, int unused;) {
    AW_BEGIN;
    AW_RETURN(in_own_magazines());
    AW_END;
}

TEST(tasks_that_follow_each_other_share_an_address) {
    NEEDS_MAGAZINES;
    aw_runtime *rt = workers_new(1, NULL, NULL);
    CHECK_LE(RUN(rt, AW_CALL(one_by_one)), 1);
    workers_end(rt, NULL);
}

/* The two tasks of this test may have the same size, or not. */
TEST(a_worker_that_is_parked_keeps_little) {
    NEEDS_MAGAZINES;
    aw_runtime *rt = workers_new(1, NULL, NULL);
    CHECK_GT(RUN(rt, AW_CALL(all_at_once)), AW__MAGAZINE_SIZE + 2);
    WAIT_UNTIL(workers_sleep(rt->pool));
    CHECK_LE(RUN(rt, AW_CALL(count_magazines)), AW__MAGAZINE_SIZE + 2);
    workers_end(rt, NULL);
}
