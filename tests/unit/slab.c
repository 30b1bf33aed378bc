/* SPDX-License-Identifier: MIT
 *
 * Slabs, the memory of tasks: no two tasks overlap, all that have not ended are found, and the
 * memory is freed. */
#include "test.h"

#include <awake.h>

#include <stdlib.h>
#include <string.h>

#include "sched/current/current.h"

static aw_runtime *rt;

static void begin(void) {
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    CHECK(aw__rt_own(rt));
}

static void end(void) {
    aw__rt_disown(rt);
    aw_runtime_free(rt);
}

/* A task that neither runs nor has ended. */
static aw__task *alloc_task(size_t frame) {
    aw__task *t = aw__slab_alloc(rt, frame);
    CHECK(t != NULL);
    t->flags = 0;
    return t;
}

static void free_task(aw__task *t) {
    t->flags |= AW__FREED;
    aw__slab_free(t);
}

static size_t walked(void) {
    size_t n = 0;
    for (aw__task_walk w = {.rt = rt}; aw__task_walk_next(&w);)
        n++;
    return n;
}

static size_t slabs(void) {
    size_t n = 0;
    for (size_t i = 0; i < AW__SLAB_SIZES; i++)
        for (const aw__slab *r = rt->slabs.lists[i]; r; r = r->next)
            n++;
    return n;
}

TEST(no_two_tasks_overlap_and_each_is_found_once) {
    enum { TASKS = 3000, ROUNDS = 20000 };
    static struct {
        aw__task *t;
        size_t size;
        unsigned char mark;
    } all[TASKS];
    memset(all, 0, sizeof all);
    begin();
    srand((unsigned)test_seed());
    size_t live = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int k = rand() % TASKS;
        if (all[k].t) {
            const unsigned char *bytes = (const unsigned char *)aw__task_frame(all[k].t);
            for (size_t b = 0; b < all[k].size; b++)
                CHECK_EQ(bytes[b], all[k].mark);
            CHECK(aw__task_rt(all[k].t) == rt);
            free_task(all[k].t);
            all[k].t = NULL;
            live--;
        } else {
            all[k].size = (size_t)(rand() % 100 + 2) * 8; /* some have their own slab */
            all[k].t = alloc_task(all[k].size);
            all[k].mark = (unsigned char)rand();
            CHECK_EQ((uintptr_t)aw__task_frame(all[k].t) % 16, 0);
            memset(aw__task_frame(all[k].t), all[k].mark, all[k].size);
            live++;
        }
        if (i % 500 == 0) CHECK_EQ(walked(), live);
    }
    CHECK_EQ(walked(), live);
    for (int k = 0; k < TASKS; k++)
        if (all[k].t) free_task(all[k].t);
    CHECK_EQ(walked(), 0);
    end();
}

TEST(an_ended_task_is_not_found_while_its_handle_exists) {
    begin();
    aw__task *a = alloc_task(24), *b = alloc_task(24), *large = alloc_task(4000);
    b->flags = large->flags = AW__DONE;
    aw__task_walk w = {.rt = rt};
    CHECK(aw__task_walk_next(&w) == a);
    CHECK(aw__task_walk_next(&w) == NULL);
    free_task(a);
    free_task(b);
    free_task(large);
    end();
}

TEST(slabs_go_back_when_their_tasks_are_gone) {
    if (!AW__USE_SLABS) SKIP("a sanitizer sees each task");
    enum { TASKS = 5000 };
    static aw__task *tasks[TASKS];
    begin();
    for (int i = 0; i < TASKS; i++)
        tasks[i] = alloc_task(80);
    size_t many = slabs();
    CHECK_GT(many, 10);
    CHECK_LT(many, 20);
    for (int i = 0; i < TASKS; i += 2)
        free_task(tasks[i]);
    CHECK_EQ(slabs(), many); /* each still has tasks */
    for (int i = 1; i < TASKS; i += 2)
        free_task(tasks[i]);
    CHECK_EQ(slabs(), 1); /* kept for the next task */
    for (int i = 0; i < 2 * TASKS; i++)
        free_task(alloc_task(80)); /* uses that slab */
    CHECK_EQ(slabs(), 1);
    end();
}

TEST(half_empty_slabs_are_filled_before_there_is_a_new_one) {
    if (!AW__USE_SLABS) SKIP("a sanitizer sees each task");
    enum { TASKS = 5000 };
    static aw__task *tasks[TASKS];
    begin();
    for (int i = 0; i < TASKS; i++)
        tasks[i] = alloc_task(80);
    size_t many = slabs();
    for (int i = 0; i < TASKS; i += 2)
        free_task(tasks[i]);
    for (int i = 0; i < TASKS; i += 2)
        tasks[i] = alloc_task(80);
    CHECK_EQ(slabs(), many);
    for (int i = 0; i < TASKS; i++)
        free_task(tasks[i]);
    end();
}

/* ---- Handles that outlive the runtime -------------------------------------------------------- */

AW_ASYNC(int, nothing, int n;) {
    AW_BEGIN;
    AW_RETURN(self->n);
    AW_END;
}

enum { HANDLES = 1000 };
static struct nothing *handles[HANDLES];

AW_ASYNC(int, spawner, aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < HANDLES; i++)
        handles[i] = aw_spawn(AW_CALL(nothing, .n = i));
    AW_AWAIT(self->join, aw_task_join(handles[HANDLES - 1]));
    AW_RETURN(0);
    AW_END;
}

TEST(a_slab_stays_while_a_handle_of_its_tasks_exists) {
    CHECK_EQ(aw_run(AW_CALL(spawner)), 0);
    for (int i = 0; i < HANDLES; i++) {
        CHECK_EQ(handles[i]->out, i);
        aw_task_drop(handles[i]); /* the last one frees the slabs */
    }
}
