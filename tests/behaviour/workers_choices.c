/* SPDX-License-Identifier: MIT
 *
 * Fair choices, wherever they are made: in each block_on of a runtime, in a follower, on plain
 * threads; and they are determined by the seed. */
#include "support/workers.h"

typedef AW_SELECT(aw_ready, aw_ready, aw_ready) three_ready;

enum { ROUNDS = 300 };

static char once[ROUNDS], twice[ROUNDS];

AW_ASYNC(int, choose, char *winner; three_ready s;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->s, aw_ready_now(0), aw_ready_now(1), aw_ready_now(2));
    *self->winner = (char)aw_select_winner(&self->s);
    AW_RETURN(0);
    AW_END;
}

/* Each about as often as the others: less than 50 of 300 has a probability of 10^-10. */
static void check_fair(const char *winners) {
    int won[3] = {0, 0, 0};
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_LT(winners[i], 3);
        won[(int)winners[i]]++;
    }
    for (int i = 0; i < 3; i++)
        CHECK_GT(won[i], ROUNDS / 6);
}

static aw_runtime *seeded(uint32_t workers, uint64_t seed) {
    aw_runtime *rt;
    aw_runtime_options o = workers_options(workers, NULL, NULL);
    if (!workers) o.flavour = AW_CURRENT_THREAD;
    o.seed = seed;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

static long nothing(void *unused) {
    (void)unused;
    return 0;
}

/* ---- In many block_ons ----------------------------------------------------------------------- */

static void choose_in_each(aw_runtime *rt, char *winners) {
    for (int i = 0; i < ROUNDS; i++)
        CHECK_EQ(aw_block_on(rt, AW_CALL(choose, .winner = &winners[i])), 0);
}

static void choose_with_seed(uint32_t workers, uint64_t seed, char *winners) {
    aw_runtime *rt = seeded(workers, seed);
    choose_in_each(rt, winners);
    aw_runtime_free(rt);
}

ON_BOTH(a_choice_in_each_of_many_block_ons_is_fair) {
    choose_with_seed(workers, 0, once);
    check_fair(once);
    choose_with_seed(workers, test_seed(), once);
    check_fair(once);
}

ON_BOTH(the_choices_of_block_ons_are_repeatable_from_a_seed) {
    choose_with_seed(workers, 7, once);
    choose_with_seed(workers, 7, twice);
    CHECK_EQ(memcmp(once, twice, ROUNDS), 0);
    choose_with_seed(workers, 8, twice);
    CHECK_NE(memcmp(once, twice, ROUNDS), 0);
}

TEST(a_choice_in_a_follower_is_fair) {
    ON_THIS_THREAD("with workers every block_on is separate from them");
    host h;
    host_start(&h, NULL);
    choose_in_each(h.rt, once);
    check_fair(once);
    host_stop(&h);
    aw_runtime_free(h.rt);
}

/* ---- In tasks -------------------------------------------------------------------------------- */

/* Between two choices it waits `waits` times for another thread. Meanwhile its worker looks for
 * other work. */
AW_ASYNC(int, choose_in_a_row, char *winners; int waits; int i; int w; three_ready s;
         aw_blocking_future job;) {
    AW_BEGIN;
    for (; self->i < ROUNDS; self->i++) {
        AW_AWAIT_SELECT(self->s, aw_ready_now(0), aw_ready_now(1), aw_ready_now(2));
        self->winners[self->i] = (char)aw_select_winner(&self->s);
        for (self->w = 0; self->w < self->waits && self->i % 10 == 0; self->w++)
            AW_AWAIT(self->job, aw_blocking(nothing, NULL));
    }
    AW_RETURN(0);
    AW_END;
}

static void choose_in_a_task(aw_flavour flavour, uint64_t seed, int waits, char *winners) {
    aw_runtime *rt;
    aw_runtime_options o = workers_options(flavour == AW_THREAD_PER_CORE ? 2 : 1, NULL, NULL);
    o.flavour = flavour;
    o.seed = seed;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    struct choose_in_a_row f = AW_CALL(choose_in_a_row, .winners = winners, .waits = waits), *h;
    h = flavour == AW_THREAD_PER_CORE ? aw_spawn_at(rt, 0, f) : aw_spawn_on(rt, f);
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

ON_FLAVOURS(the_choices_of_one_thread_follow_from_the_seed_however_often_it_sleeps) {
    choose_in_a_task(flavour, 7, 0, once);
    check_fair(once);
    choose_in_a_task(flavour, 7, 0, twice);
    CHECK_EQ(memcmp(once, twice, ROUNDS), 0);
    choose_in_a_task(flavour, 7, 3, twice);
    CHECK_EQ(memcmp(once, twice, ROUNDS), 0);
    choose_in_a_task(flavour, 8, 0, twice);
    CHECK_NE(memcmp(once, twice, ROUNDS), 0);
}

/* ---- Without a runtime ----------------------------------------------------------------------- */

static void *wait_once(void *winner) {
    CHECK_EQ(aw_wait(AW_CALL(choose, .winner = winner)), 0);
    return NULL;
}

TEST(the_first_choice_of_each_of_many_threads_is_fair) {
    for (int i = 0; i < ROUNDS; i++)
        on_a_thread(wait_once, &once[i]);
    check_fair(once);
}

TEST(a_choice_in_each_of_many_waits_is_fair) {
    aw_runtime *rt = seeded(0, 1);
    for (int i = 0; i < ROUNDS; i++) {
        aw_runtime *before = i % 2 ? aw_enter(rt) : NULL;
        wait_once(&once[i]);
        if (i % 2) aw_leave(before);
    }
    check_fair(once);
    aw_runtime_free(rt);
}
