/* SPDX-License-Identifier: MIT
 *
 * Task-local values: set, read, replaced, removed; released once, at the end of the task at the
 * latest; invisible to other tasks. */
#include "support/tasks.h"

static aw_local first, second;
static int released[8];

/* Values are pointers into this array; releasing one counts. */
static void count_release(void *value) {
    ++*(int *)value;
}

AW_ASYNC(int, set_and_get, struct rounds pause;) {
    AW_BEGIN;
    CHECK_EQ(aw_local_get(&first), NULL);
    CHECK_EQ(aw_local_set(&first, &released[0], count_release), 0);
    CHECK_EQ(aw_local_set(&second, &released[1], count_release), 0);
    CHECK_EQ(aw_local_get(&first), &released[0]);
    AW_AWAIT(self->pause, rounds(3));
    CHECK_EQ(aw_local_get(&first), &released[0]);
    CHECK_EQ(aw_local_get(&second), &released[1]);
    CHECK_EQ(released[0] + released[1], 0);
    AW_RETURN(0);
    AW_FINALLY;
    CHECK_EQ(aw_local_get(&first), &released[0]); /* still set during cleanup */
    CHECK_EQ(released[0] + released[1], 0);
    AW_END;
}

TEST(values_last_until_the_end_of_their_task) {
    memory m;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    struct set_and_get *h = aw_spawn_on(rt, AW_CALL(set_and_get));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(released[0], 1);
    CHECK_EQ(released[1], 1);
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(released[0] + released[1], 2);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST(the_main_future_has_values_too) {
    CHECK_EQ(aw_run(AW_CALL(set_and_get)), 0);
    CHECK_EQ(released[0], 1);
    CHECK_EQ(released[1], 1);
}

AW_ASYNC(int, replace) {
    AW_BEGIN;
    CHECK_EQ(aw_local_set(&first, &released[0], count_release), 0);
    CHECK_EQ(aw_local_set(&first, &released[1], count_release), 0);
    CHECK_EQ(released[0], 1); /* at once */
    CHECK_EQ(aw_local_get(&first), &released[1]);
    CHECK_EQ(aw_local_set(&first, NULL, NULL), 0);
    CHECK_EQ(released[1], 1);
    CHECK_EQ(aw_local_get(&first), NULL);
    CHECK_EQ(aw_local_set(&first, NULL, count_release), 0); /* nothing to remove */
    CHECK_EQ(aw_local_set(&first, &released[2], NULL), 0);  /* no release function */
    AW_RETURN(0);
    AW_END;
}

TEST(a_value_is_released_when_it_is_replaced_or_removed) {
    CHECK_EQ(aw_run(AW_CALL(replace)), 0);
    CHECK_EQ(released[0], 1);
    CHECK_EQ(released[1], 1);
    CHECK_EQ(released[2], 0);
}

/* ---- Ownership ------------------------------------------------------------------------------- */

AW_ASYNC(int, mine, int n; struct rounds pause;) {
    AW_BEGIN;
    CHECK_EQ(aw_local_get(&first), NULL); /* not inherited */
    CHECK_EQ(aw_local_set(&first, &released[self->n], count_release), 0);
    AW_AWAIT(self->pause, rounds(5));
    CHECK_EQ(aw_local_get(&first), &released[self->n]);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, parent, struct mine *child[2]; struct rounds pause;) {
    AW_BEGIN;
    CHECK_EQ(aw_local_set(&first, &released[7], count_release), 0);
    self->child[0] = aw_spawn(AW_CALL(mine, .n = 0));
    self->child[1] = aw_spawn(AW_CALL(mine, .n = 1));
    AW_AWAIT(self->pause, rounds(2));
    CHECK_EQ(aw_local_get(&first), &released[7]);
    AW_AWAIT(self->pause, rounds(10));
    CHECK_EQ(released[0] + released[1], 2);
    aw_task_drop(self->child[0]);
    aw_task_drop(self->child[1]);
    AW_RETURN(0);
    AW_END;
}

TEST(values_are_not_seen_by_other_tasks) {
    CHECK_EQ(aw_run(AW_CALL(parent)), 0);
    CHECK_EQ(released[7], 1);
}

AW_ASYNC(int, sets_and_waits, aw_never never;) {
    AW_BEGIN;
    CHECK_EQ(aw_local_set(&first, &released[0], count_release), 0);
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) {
        CHECK_EQ(aw_local_get(&first), &released[0]);
        CHECK_EQ(aw_local_set(&second, &released[1], count_release), 0); /* even this late */
    }
    AW_END;
}

TEST(values_of_an_aborted_task_are_released_once) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct sets_and_waits *h = aw_spawn_on(rt, AW_CALL(sets_and_waits));
    run_a_while(rt);
    aw_task_abort(h);
    CHECK_EQ(JOIN_STATUS(rt, h), -ECANCELED);
    CHECK_EQ(released[0], 1);
    CHECK_EQ(released[1], 1);
    aw_task_drop(h);
    aw_runtime_free(rt);
    CHECK_EQ(released[0] + released[1], 2);
}

TEST(values_of_a_task_that_the_runtime_ends_are_released_once) {
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_task_drop(aw_spawn_on(rt, AW_CALL(sets_and_waits)));
    run_a_while(rt);
    aw_runtime_free(rt);
    CHECK_EQ(released[0], 1);
    CHECK_EQ(released[1], 1);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

TEST(there_are_no_values_outside_a_task) {
    CHECK_EQ(aw_local_get(&first), NULL);
    CHECK_EQ(aw_local_set(&first, &released[0], count_release), -ENXIO);
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    aw_runtime *previous = aw_enter(rt); /* entering a runtime is not being in a task */
    CHECK_EQ(aw_local_set(&first, &released[0], count_release), -ENXIO);
    CHECK_EQ(aw_local_get(&first), NULL);
    aw_leave(previous);
    aw_runtime_free(rt);
    CHECK_EQ(released[0], 0);
}

AW_ASYNC(int, without_memory, memory *memory;) {
    AW_BEGIN;
    CHECK_EQ(aw_local_set(&first, &released[0], count_release), 0);
    self->memory->refuse = true;
    CHECK_EQ(aw_local_set(&first, &released[1], count_release), -ENOMEM);
    CHECK_EQ(aw_local_set(&second, &released[2], count_release), -ENOMEM);
    CHECK_EQ(aw_local_get(&first), &released[0]); /* nothing half done */
    CHECK_EQ(aw_local_get(&second), NULL);
    CHECK_EQ(released[0] + released[1] + released[2], 0); /* the caller still owns them */
    CHECK_EQ(aw_local_set(&first, NULL, NULL), 0);        /* removing needs none */
    CHECK_EQ(released[0], 1);
    self->memory->refuse = false;
    AW_RETURN(0);
    AW_END;
}

TEST(without_memory_the_old_value_stays_and_the_new_one_is_the_callers) {
    memory m;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    CHECK_EQ(aw_block_on(rt, AW_CALL(without_memory, .memory = &m)), 0);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
    CHECK_EQ(released[1] + released[2], 0);
}

/* A release function that sets values itself: when the task has ended there is no task to set
 * them in, which is harmless. */
static void meddle(void *value) {
    count_release(value);
    aw_local_set(&second, value, count_release);
}

AW_ASYNC(int, meddling) {
    AW_BEGIN;
    CHECK_EQ(aw_local_set(&first, &released[0], meddle), 0);
    CHECK_EQ(aw_local_set(&first, &released[1], meddle), 0); /* here there is a task */
    CHECK_EQ(aw_local_get(&second), &released[0]);
    CHECK_EQ(aw_local_get(&first), &released[1]);
    AW_RETURN(0);
    AW_END;
}

TEST(a_release_function_may_use_task_locals_itself) {
    memory m;
    memory_init(&m);
    aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
    CHECK_EQ(aw_block_on(rt, AW_CALL(meddling)), 0);
    aw_runtime_free(rt);
    CHECK_EQ(memory_in_use(&m), 0);
    CHECK_EQ(released[0], 2);
    CHECK_EQ(released[1], 1);
}
