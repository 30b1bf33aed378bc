/* SPDX-License-Identifier: MIT
 *
 * Which branch a select chooses: fair by default, repeatable from a seed, top to bottom on
 * request. */
#include <errno.h>

#include "support/keep_tasks.h"
#include "support/composites.h"

typedef AW_SELECT(aw_ready, aw_ready, aw_ready) three_ready;
#define THREE aw_ready_now(0), aw_ready_now(1), aw_ready_now(2)

enum { ROUNDS = 3000 };

/* Selects among branches that are all ready, again and again, and records the winners. */
AW_ASYNC(int, choose, char *winners; int n; bool biased; three_ready s;) {
    AW_BEGIN;
    for (self->n = 0; self->n < ROUNDS; self->n++) {
        if (self->biased)
            AW_AWAIT_SELECT_BIASED(self->s, THREE);
        else
            AW_AWAIT_SELECT(self->s, THREE);
        self->winners[self->n] = (char)aw_select_winner(&self->s);
    }
    AW_RETURN(0);
    AW_END;
}

static void choose_with_seed(uint64_t seed, char *winners) {
    aw_runtime *rt;
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.seed = seed;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(choose, .winners = winners)), 0);
    aw_runtime_free(rt);
}

static void check_fair(const char *winners) {
    int won[3] = {0, 0, 0}, max_row = 0, row = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_LT(winners[i], 3);
        won[(int)winners[i]]++;
        row = i && winners[i] == winners[i - 1] ? row + 1 : 1;
        if (row > max_row) max_row = row;
    }
    for (int i = 0; i < 3; i++)
        CHECK_GT(won[i], ROUNDS / 3 - 200);
    CHECK_LT(max_row, 30);
}

static char once[ROUNDS], twice[ROUNDS];

TEST(a_select_among_ready_branches_is_fair) {
    choose_with_seed(0, once);
    check_fair(once);
    choose_with_seed(test_seed(), once);
    check_fair(once);
}

TEST(the_choice_is_repeatable_from_a_seed) {
    choose_with_seed(7, once);
    choose_with_seed(7, twice);
    CHECK_EQ(memcmp(once, twice, ROUNDS), 0);
    choose_with_seed(8, twice);
    CHECK_NE(memcmp(once, twice, ROUNDS), 0);
}

TEST(a_select_without_a_runtime_is_fair_too) {
    struct choose f = AW_CALL(choose, .winners = once);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    check_fair(once);
}

/* Each child of a big array is polled with a context of its own. */
AW_ASYNC(int, choose_once, char *winner; three_ready s; aw_yield y;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->s, THREE);
    *self->winner = (char)aw_select_winner(&self->s);
    AW_RETURN(0);
    AW_END;
}

TEST(a_select_in_a_big_array_without_a_runtime_is_fair_too) {
    static struct choose_once jobs[60];
    for (int n = 0; n < ROUNDS; n += 60) {
        for (int i = 0; i < 60; i++)
            jobs[i] = AW_CALL(choose_once, .winner = &once[n + i]);
        aw_all a = aw_join_all(jobs, 60);
        CHECK_EQ(drive_poll(&a.future), AW_READY);
    }
    check_fair(once);
}

/* One child, polled each time with a new context of its own. */
AW_ASYNC(int, choose_slowly, char *winners; int n; three_ready s; aw_yield y;) {
    AW_BEGIN;
    for (self->n = 0; self->n < ROUNDS; self->n++) {
        AW_AWAIT_SELECT(self->s, THREE);
        self->winners[self->n] = (char)aw_select_winner(&self->s);
        AW_AWAIT(self->y, aw_yield_now());
    }
    AW_RETURN(0);
    AW_END;
}

TEST(a_select_in_a_set_without_a_runtime_is_fair_too) {
    aw_set set;
    aw_set_init(&set, sizeof(struct choose_slowly));
    CHECK_EQ(aw_set_push(&set, AW_CALL(choose_slowly, .winners = once)), 0);
    aw_set_next_future next = aw_set_next(&set);
    int calls = 0;
    while (drive_poll(&next.future) == AW_PENDING)
        calls++;
    CHECK_EQ(calls, ROUNDS);
    aw_set_free(&set);
    check_fair(once);
}

TEST(a_biased_select_takes_the_first_that_is_ready) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(choose, .winners = once, .biased = true)), 0);
    for (int i = 0; i < ROUNDS; i++)
        CHECK_EQ(once[i], 0);
    aw_runtime_free(rt);
}

TEST(a_biased_select_goes_top_to_bottom_each_time) {
    aw_future *f = subject_make(a_select, (struct script){.pends = NEVER});
    for (int n = 0; n < 5; n++) {
        CHECK_EQ(drive_poll(f), AW_PENDING);
        CHECK_LT(child(0)->called_at, child(1)->called_at);
        CHECK_LT(child(1)->called_at, child(2)->called_at);
    }
    child(1)->pends = child(2)->pends = 0;
    CHECK_EQ(drive_poll(f), AW_READY);
    CHECK_EQ(subject.as.select.out, 1 << 1);
    CHECK_EQ(child(2)->polls, 5); /* it was cancelled instead */
    subject_discard();
}

TEST(a_biased_select_by_reference_goes_top_to_bottom_too) {
    struct script s[3] = {{.pends = 2}, {.pends = 1}, {.pends = 1}};
    struct leaf a = leaf(&s[0]), b = leaf(&s[1]), c = leaf(&s[2]);
    aw_group g = aw_select_biased_refs(&a, &b, &c);
    CHECK_EQ(drive_poll(&g.future), AW_PENDING);
    CHECK_EQ(drive_poll(&g.future), AW_READY);
    CHECK_EQ(g.out, 1 << 1);
    CHECK_EQ(aw_select_winner(&g), 1);
    script_take(&s[1]);
    ownership_check_balanced();
}

/* While it waits, the branch that is polled first rotates. */
TEST(a_select_begins_with_another_branch_at_each_poll) {
    subject_prepare(a_select, (struct script){.pends = NEVER});
    subject.as.select = AW_SELECT_OF(leaf_select, LEAVES3);
    aw_future *f = subject.future = &subject.as.select.future;
    int seen[3] = {0, 0, 0};
    for (int n = 0; n < 9; n++) {
        CHECK_EQ(drive_poll(f), AW_PENDING);
        int first = 0;
        for (int i = 1; i < 3; i++)
            if (child(i)->called_at < child(first)->called_at) first = i;
        seen[first]++;
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(seen[i], 3);
    CHECK_EQ(drive_cancel(f), AW_CANCELLED);
    subject_check_released();
}

/* ---- Together with the budget ----------------------------------------------------------------- */

typedef AW_SELECT(aw_sleep, aw_sleep) two_sleeps;

/* A loop of selects over branches that are always ready and count as operations. */
AW_ASYNC(int, busy_select, long *rounds; bool *stop; two_sleeps s;) {
    AW_BEGIN;
    while (!*self->stop) {
        AW_AWAIT_SELECT(self->s, aw_sleep_for(0), aw_sleep_for(0));
        ++*self->rounds;
    }
    AW_RETURN(0);
    AW_END;
}

/* A task that yields runs after all that are ready, and after a batch of polls of tasks that
 * only ran out of budget; but it does run. */
AW_ASYNC(int, watcher, long *rounds; bool *stop; int n; aw_yield y;) {
    AW_BEGIN;
    for (self->n = 1; self->n <= 50; self->n++) {
        AW_AWAIT(self->y, aw_yield_now());
        CHECK_LE(*self->rounds, (long)self->n * 64 * 128);
        CHECK_EQ(*self->rounds % 128, 0);
    }
    CHECK_GE(*self->rounds, 49 * 128);
    *self->stop = true;
    AW_RETURN(0);
    AW_END;
}

TEST(a_loop_of_ready_selects_lets_the_others_run_after_its_budget) {
    ON_THIS_THREAD("it counts polls");
    aw_runtime *rt = keep_tasks_runtime();
    long rounds = 0;
    bool stop = false;
    struct busy_select *task = aw_spawn_on(rt,
                                           AW_CALL(busy_select, .rounds = &rounds, .stop = &stop));
    CHECK_EQ(aw_block_on(rt, AW_CALL(watcher, .rounds = &rounds, .stop = &stop)), 0);
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), 0);
    aw_task_drop(task);
    aw_runtime_free(rt);
}
