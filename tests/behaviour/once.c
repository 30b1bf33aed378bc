/* SPDX-License-Identifier: MIT
 *
 * Once: one caller initialises, the others wait. A caller that fails or is cancelled hands over
 * to the next. */
#include "support/by_hand.h"
#include "support/workers.h"

typedef AW_ONCE_CELL(int) cell;

TEST(the_first_one_makes_it_and_the_others_wait) {
    enum { THEY = 20 };
    static cell c;
    static aw_once_future w[THEY];
    static aw_flag flags[THEY];
    aw_flag flag = {0};
    aw_once_future first = aw_once_enter(&c), late = aw_once_enter(&c);
    CHECK(aw_once_get(&c) == NULL);
    CHECK_EQ(POLL(&first, &flag), AW_READY);
    CHECK_EQ(first.out, 1);
    CHECK_EQ(aw_once_try_enter(&c), -EAGAIN);
    for (int i = 0; i < THEY; i++) {
        w[i] = aw_once_enter(&c);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    CHECK(aw_once_get(&c) == NULL);
    aw_once_set(&c, 42);
    CHECK_EQ(*aw_once_get(&c), 42);
    for (int i = 0; i < THEY; i++) {
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
        CHECK_EQ(w[i].out, 0);
    }
    CHECK_EQ(POLL(&late, &flag), AW_READY);
    CHECK_EQ(late.out, 0);
    CHECK_EQ(aw_once_try_enter(&c), 0);
    CHECK(!c.once.waiters.first);
}

TEST(giving_up_hands_over_to_the_longest_waiter) {
    cell c = {.once = AW_ONCE_INIT};
    aw_flag a = {0}, b = {0};
    aw_once_future second = aw_once_enter(&c), third = aw_once_enter(&c);
    CHECK_EQ(aw_once_try_enter(&c), 1);
    CHECK_EQ(POLL(&second, &a), AW_PENDING);
    CHECK_EQ(POLL(&third, &b), AW_PENDING);
    aw_once_give_up(&c);
    CHECK(aw_flag_take(&a) && !aw_flag_take(&b));
    CHECK_EQ(aw_once_try_enter(&c), -EAGAIN); /* no barging */
    CHECK_EQ(POLL(&second, &a), AW_READY);
    CHECK_EQ(second.out, 1);
    aw_once_give_up(&c);
    CHECK_EQ(POLL(&third, &b), AW_READY);
    aw_once_give_up(&c);
    CHECK_EQ(aw_once_try_enter(&c), 1); /* no waiter is queued: the next caller enters */
    aw_once_set(&c, 1);
    CHECK_EQ(*aw_once_get(&c), 1);
}

TEST(ending_a_once_that_was_not_begun_ends_the_program) {
    static cell c;
    DIES(aw_once_set(&c, 1), "a once was ended that was not begun");
    DIES(aw_once_give_up(&c), "a once was ended that was not begun");
    CHECK_EQ(aw_once_try_enter(&c), 1);
    aw_once_set(&c, 1);
    DIES(aw_once_set(&c, 2), "a once was ended that was not begun");
}

/* cancel-at-every-await: aw_once_begin */

TEST(an_enter_can_be_cancelled_at_any_moment) {
    cell c = {.once = AW_ONCE_INIT};
    aw_flag flag = {0}, other = {0};
    aw_once_future never_polled = aw_once_enter(&c), pending = aw_once_enter(&c),
                   granted = aw_once_enter(&c), behind = aw_once_enter(&c);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);
    CHECK_EQ(aw_once_try_enter(&c), 1);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(POLL(&granted, &flag), AW_PENDING);
    CHECK_EQ(POLL(&granted, &other), AW_PENDING);
    CHECK_EQ(POLL(&behind, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    DIES(CANCEL(&pending, &other), "cancelled after it had been cancelled");
    aw_once_give_up(&c);
    CHECK(!aw_flag_take(&flag) && aw_flag_take(&other));
    CHECK_EQ(CANCEL(&granted, &other), AW_READY);
    CHECK_EQ(granted.out, 1);
    aw_future_discard(&granted.future); /* granted, but unused: the next waiter enters */
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&behind, &flag), AW_READY);
    CHECK_EQ(behind.out, 1);
    aw_future_discard(&behind.future);
    CHECK_EQ(aw_once_try_enter(&c), 1);
    aw_once_future done = aw_once_enter(&c);
    CHECK_EQ(POLL(&done, &flag), AW_PENDING);
    aw_once_set(&c, 3);
    CHECK_EQ(CANCEL(&done, &other), AW_READY);
    CHECK_EQ(done.out, 0);
    aw_future_discard(&done.future); /* it stays initialised */
    CHECK_EQ(*aw_once_get(&c), 3);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

typedef struct made {
    cell c;
    uint32_t makers, tries; /* atomic */
} made;

/* The first few fail or are aborted while they initialise. */
AW_ASYNC(int, makes, made *m; bool fails; bool sticks; bool mine; aw_once_future enter;
         aw_never forever; aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->enter, aw_once_enter(&self->m->c));
    if (self->enter.out == 1) {
        self->mine = true;
        CHECK_EQ(ADD(self->m->makers, 1), 0);
        ADD(self->m->tries, 1);
        if (self->sticks) AW_AWAIT(self->forever, aw_never_ready());
        AW_AWAIT(self->pause, aw_yield_now());
        CHECK_EQ(ADD(self->m->makers, -1), 1);
        self->mine = false;
        if (self->fails) {
            aw_once_give_up(&self->m->c);
            AW_RETURN(-EIO);
        }
        aw_once_set(&self->m->c, 7);
    }
    AW_RETURN(*aw_once_get(&self->m->c));
    AW_FINALLY;
    if (self->mine) {
        ADD(self->m->makers, -1);
        aw_once_give_up(&self->m->c);
    }
    AW_END;
}

ON_BOTH(one_makes_it_after_others_have_failed_or_were_aborted) {
    enum { TASKS = 12 };
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int round = 0; round < test_scale(50); round++) {
        made m = {.c = {.once = AW_ONCE_INIT}};
        struct makes *h[TASKS];
        for (int i = 0; i < TASKS; i++)
            h[i] = aw_spawn_on(rt, AW_CALL(makes, .m = &m, .fails = i == 1, .sticks = i == 0));
        aw_task_abort(h[0]);
        int sevens = 0;
        for (int i = 0; i < TASKS; i++) {
            int status = JOIN_STATUS(rt, h[i]);
            if (i == 0)
                CHECK(status == -ECANCELED || (status == 0 && h[i]->out == 7));
            else
                CHECK_EQ(status, 0);
            if (i == 1 && h[i]->out == -EIO) CHECK_GE(m.tries, 2);
            sevens += status == 0 && h[i]->out == 7;
            aw_task_drop(h[i]);
        }
        CHECK_GE(sevens, TASKS - 2);
        CHECK_EQ(m.makers, 0);
        CHECK_LE(m.tries, 3);
    }
    workers_end(rt, NULL);
}

static void thread_makes(void *arg, int index, uint64_t *random) {
    made *m = arg;
    for (int tries = 0; !aw_once_get(&m->c); tries++) {
        int r = aw_wait_for(test_random(random) % AW_USEC(20), aw_once_enter(&m->c));
        if (r != 1) continue;
        CHECK_EQ(ADD(m->makers, 1), 0);
        ADD(m->tries, 1);
        jitter(random);
        CHECK_EQ(ADD(m->makers, -1), 1);
        if (tries == 0 && index % 2)
            aw_once_give_up(&m->c);
        else
            aw_once_set(&m->c, index + 1);
    }
    CHECK_GE(*aw_once_get(&m->c), 1);
}

TEST(plain_threads_make_it_once) {
    uint64_t random = test_seed();
    for (int i = 0; i < test_scale(100); i++) {
        made m = {.c = {.once = AW_ONCE_INIT}};
        thread_group threads;
        thread_group_create(&threads, 4, &random, thread_makes, &m);
        thread_group_go(&threads);
        thread_group_join(&threads);
        CHECK_GE(m.tries, 1);
    }
}
