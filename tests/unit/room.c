/* SPDX-License-Identifier: MIT
 *
 * Room for tasks: no two get the same, all that have not ended are found, and the memory goes back. */
#include "test.h"

#include <awake.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static aw_runtime *rt;

static void begin(void) {
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    CHECK(aw__rt_acquire(rt));
}

static void end(void) {
    aw__rt_disown(rt);
    aw_runtime_free(rt);
}

/* A task that neither runs nor has ended. */
static aw__task *take(size_t frame) {
    aw__task *t = aw__room_take(rt, frame);
    CHECK(t != NULL);
    t->flags = 0;
    return t;
}

static void give(aw__task *t) {
    t->flags |= AW__FREED;
    aw__room_give(t);
}

static size_t walked(void) {
    size_t n = 0;
    for (aw__walk w = {.rt = rt}; aw__walk_next(&w);)
        n++;
    return n;
}

static size_t rooms(void) {
    size_t n = 0;
    for (size_t i = 0; i < AW__ROOM_SIZES; i++)
        for (const aw__room *r = rt->rooms.lists[i]; r; r = r->next)
            n++;
    return n;
}

TEST(no_two_tasks_share_a_place_and_each_is_found_once) {
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
            give(all[k].t);
            all[k].t = NULL;
            live--;
        } else {
            all[k].size = (size_t)(rand() % 100 + 2) * 8; /* some have a room of their own */
            all[k].t = take(all[k].size);
            all[k].mark = (unsigned char)rand();
            CHECK_EQ((uintptr_t)aw__task_frame(all[k].t) % 16, 0);
            memset(aw__task_frame(all[k].t), all[k].mark, all[k].size);
            live++;
        }
        if (i % 500 == 0) CHECK_EQ(walked(), live);
    }
    CHECK_EQ(walked(), live);
    for (int k = 0; k < TASKS; k++)
        if (all[k].t) give(all[k].t);
    CHECK_EQ(walked(), 0);
    end();
}

TEST(an_ended_task_is_not_found_though_somebody_has_its_handle) {
    begin();
    aw__task *a = take(24), *b = take(24), *large = take(4000);
    b->flags = large->flags = AW__DONE;
    aw__walk w = {.rt = rt};
    CHECK(aw__walk_next(&w) == a);
    CHECK(aw__walk_next(&w) == NULL);
    give(a);
    give(b);
    give(large);
    end();
}

TEST(slabs_go_back_when_their_tasks_are_gone) {
    if (!AW__SLABS) SKIP("a sanitizer sees each task");
    enum { TASKS = 5000 };
    static aw__task *tasks[TASKS];
    begin();
    for (int i = 0; i < TASKS; i++)
        tasks[i] = take(80);
    size_t many = rooms();
    CHECK_GT(many, 10);
    CHECK_LT(many, 20);
    for (int i = 0; i < TASKS; i += 2)
        give(tasks[i]);
    CHECK_EQ(rooms(), many); /* each has some left */
    for (int i = 1; i < TASKS; i += 2)
        give(tasks[i]);
    CHECK_EQ(rooms(), 1); /* kept for the next task */
    for (int i = 0; i < 2 * TASKS; i++)
        give(take(80)); /* which goes there */
    CHECK_EQ(rooms(), 1);
    end();
}

TEST(half_empty_slabs_are_filled_before_there_is_a_new_one) {
    if (!AW__SLABS) SKIP("a sanitizer sees each task");
    enum { TASKS = 5000 };
    static aw__task *tasks[TASKS];
    begin();
    for (int i = 0; i < TASKS; i++)
        tasks[i] = take(80);
    size_t many = rooms();
    for (int i = 0; i < TASKS; i += 2)
        give(tasks[i]);
    for (int i = 0; i < TASKS; i += 2)
        tasks[i] = take(80);
    CHECK_EQ(rooms(), many);
    for (int i = 0; i < TASKS; i++)
        give(tasks[i]);
    end();
}

/* ---- Handles that outlive the runtime ---------------------------------------------------------- */

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

TEST(a_slab_stays_while_somebody_has_a_handle_of_its_tasks) {
    CHECK_EQ(aw_run(AW_CALL(spawner)), 0);
    for (int i = 0; i < HANDLES; i++) {
        CHECK_EQ(handles[i]->out, i);
        aw_task_drop(handles[i]); /* the last one frees all there is */
    }
}
