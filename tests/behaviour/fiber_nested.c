/* SPDX-License-Identifier: MIT
 *
 * Fibers and async functions nested in each other, hundreds of levels deep: embedded, boxed, in
 * groups, arrays and sets. They finish, they are cancelled from the innermost outwards, and a
 * wake enters only the fiber that it is for. */
#include <errno.h>

#include "support/checked_waker.h"
#include "support/clock.h"
#include "support/script.h"

/* ---- Deep ------------------------------------------------------------------------------------- */

enum { DEEP = 400 };

static struct {
    struct script bottom;
    int entered, exited, order[DEEP + 1];
    bool shields; /* clean up with an await */
} tower;

static aw_box floor_below(int level);

static int floor_enters(int level) {
    tower.entered++;
    return ownership_enter(level < DEEP ? tower.order[level + 1] : 0);
}
static void floor_leaves(int level, int holder) {
    ownership_leave(holder); /* fails unless all floors below have ended */
    tower.exited++;
    (void)level;
}

AW_FIBER(int, fiber_floor, int level;) {
    int holder = tower.order[self->level] = floor_enters(self->level);
    aw_box below = floor_below(self->level - 1);
    int r = aw_await_future(&below.future);
    if (r == 0) r = *(int *)aw_future_out(below.inner);
    if (tower.shields) AW_SHIELD {
            CHECK_EQ(aw_fiber_yield(), 0);
        }
    aw_box_free(&below);
    floor_leaves(self->level, holder);
    return r;
}

AW_ASYNC(int, function_floor, int level, holder; aw_box below;) {
    AW_BEGIN;
    self->holder = tower.order[self->level] = floor_enters(self->level);
    AW_AWAIT(self->below, floor_below(self->level - 1));
    AW_RETURN(*(int *)aw_future_out(self->below.inner));
    AW_FINALLY;
    if (tower.shields) AW_YIELD;
    aw_box_free(&self->below);
    floor_leaves(self->level, self->holder);
    AW_END;
}

static aw_box floor_below(int level) {
    if (level == 0) {
        tower.bottom.parent = tower.order[1];
        return aw_box_new(leaf(&tower.bottom));
    }
    if (level % 2) return aw_box_new(AW_CALL(fiber_floor, .level = level, .stack_size = 64 * 1024));
    return aw_box_new(AW_CALL(function_floor, .level = level));
}

static aw_box tower_of(struct script bottom, bool shields) {
    tower.bottom = bottom;
    tower.entered = tower.exited = 0;
    tower.shields = shields;
    return floor_below(DEEP);
}

TEST(a_deep_tower_of_functions_and_fibers_finishes) {
    aw_box b = tower_of((struct script){.pends = 3, .busy = true}, false);
    CHECK_EQ(drive_poll_to_end(&b.future), AW_READY);
    CHECK_EQ(tower.entered, DEEP);
    CHECK_EQ(tower.exited, DEEP);
    CHECK_EQ(*(int *)aw_future_out(b.inner), tower.bottom.out);
    script_take(&tower.bottom);
    aw_box_free(&b);
    ownership_check_balanced();
}

TEST(a_deep_tower_is_cancelled_from_its_bottom_up) {
    for (int shields = 0; shields < 2; shields++) {
        aw_box b = tower_of((struct script){.pends = NEVER, .cancel_pends = 2, .busy = true},
                            shields);
        CHECK_EQ(drive_poll(&b.future), AW_PENDING);
        CHECK_EQ(drive_poll(&b.future), AW_PENDING);
        CHECK_EQ(drive_cancel(&b.future), AW_PENDING);
        CHECK_EQ(tower.exited, 0);
        CHECK_EQ(drive_cancel_to_end(&b.future), AW_CANCELLED);
        CHECK_EQ(tower.exited, DEEP);
        CHECK_EQ(tower.bottom.cancels, 3);
        ownership_check_balanced();
    }
}

TEST(a_value_that_came_first_goes_up_through_a_deep_tower) {
    aw_box b = tower_of((struct script){.pends = NEVER, .cancel_pends = 1, .wins = true}, false);
    CHECK_EQ(drive_poll(&b.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&b.future), AW_PENDING);
    script_finish_cancel(&tower.bottom);
    CHECK_EQ(drive_cancel(&b.future), AW_READY);
    CHECK_EQ(*(int *)aw_future_out(b.inner), tower.bottom.out);
    script_take(&tower.bottom);
    aw_box_free(&b);
    ownership_check_balanced();
}

/* Only fibers; each is first polled on the stack of the one above. */
AW_FIBER(int, recurses, int level; struct script * s;) {
    if (self->level == 0) return aw_await(leaf(self->s));
    return aw_await(
        AW_CALL(recurses, .level = self->level - 1, .s = self->s, .stack_size = 64 * 1024));
}

TEST(a_fiber_recurses_through_fibers) {
    for (int wins = 0; wins < 3; wins++) {
        struct script s = {.pends = wins == 2 ? 5 : NEVER, .busy = true, .wins = wins};
        struct recurses f = AW_CALL(recurses, .level = DEEP, .s = &s);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(wins == 2 ? drive_poll_to_end(&f.future) : drive_cancel_to_end(&f.future),
                 wins ? AW_READY : AW_CANCELLED);
        if (wins) ownership_release(f.out);
        ownership_check_balanced();
    }
}

/* ---- In groups -------------------------------------------------------------------------------- */

AW_FIBER(int, takes, int pends; int fails; struct script * s;) {
    for (int i = 0; i < self->pends; i++)
        if (aw_fiber_yield() < 0) return -ECANCELED;
    if (self->fails) return self->fails;
    return self->s ? aw_await(leaf(self->s)) : self->pends;
}
AW_ASYNC(int, takes_too, int pends; struct takes f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, AW_CALL(takes, .pends = self->pends));
    AW_RETURN(self->f.out);
    AW_END;
}

typedef AW_JOIN(struct takes, struct takes_too, aw_fiber) three;
typedef AW_SELECT(struct takes, three, struct takes_too) choice;

static int plain(void *arg) {
    return aw_await(AW_CALL(takes_too, .pends = *(int *)arg));
}

AW_FIBER(int, groups) {
    int two = 2;
    three j = AW_JOIN_OF(three, AW_CALL(takes, .pends = 3), AW_CALL(takes_too, .pends = 1),
                         aw_fiber_of(plain, &two));
    CHECK_EQ(aw_await_future(&j.future), 0);
    CHECK_EQ(j.f0.out, 3);
    CHECK_EQ(j.f1.out, 1);
    CHECK_EQ(j.f2.out, 2);

    three t = AW_TRY_JOIN_OF(three, AW_CALL(takes, .pends = 2, .fails = -EIO),
                             AW_CALL(takes_too, .pends = 1 << 30), aw_fiber_of(plain, &two));
    CHECK_EQ(aw_await(t), -EIO);

    j = AW_JOIN_OF(three, AW_CALL(takes, .pends = 1), AW_CALL(takes_too, .pends = 4),
                   aw_fiber_of(plain, &two));
    choice c = AW_SELECT_OF(choice, AW_CALL(takes, .pends = 1 << 30), j,
                            AW_CALL(takes_too, .pends = 1 << 30));
    CHECK_EQ(aw_await_future(&c.future), 0);
    CHECK_EQ(aw_select_winner(&c), 1);
    CHECK_EQ(c.f1.f1.out, 4);
    CHECK_EQ(c.f1.f2.out, 2);
    return 0;
}

TEST(groups_of_fibers_and_functions_in_a_fiber) {
    CHECK_EQ(aw_run(AW_CALL(groups)), 0);
}

enum { CROWD = 100 };

AW_FIBER(int, arrays_and_sets) {
    static struct takes many[CROWD];
    for (int i = 0; i < CROWD; i++)
        many[i] = AW_CALL(takes, .pends = i % 7, .stack_size = 32 * 1024);
    CHECK_EQ(aw_await(aw_join_all(many, CROWD)), 0);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(many[i].out, i % 7);

    for (int i = 0; i < CROWD; i++)
        many[i] = AW_CALL(takes, .pends = i == 42 ? 3 : 1 << 30, .stack_size = 32 * 1024);
    aw_all a = aw_select_all(many, CROWD);
    CHECK_EQ(aw_await_future(&a.future), 0);
    CHECK_EQ(aw_select_all_winner(&a), 42);

    aw_set set;
    aw_set_init(&set, sizeof(struct takes));
    int sum = 0, wanted = 0;
    for (int i = 0; i < CROWD; i++) {
        CHECK_EQ(aw_set_push(&set, AW_CALL(takes, .pends = i % 7, .stack_size = 32 * 1024)), 0);
        wanted += i % 7;
    }
    for (int i = 0; i < CROWD; i++) {
        aw_set_next_future next = aw_set_next(&set);
        CHECK_EQ(aw_await_future(&next.future), 0);
        sum += AW_SET_AS(struct takes, &next)->out;
    }
    CHECK_EQ(sum, wanted);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(aw_set_push(&set, AW_CALL(takes, .pends = 1 << 30, .stack_size = 32 * 1024)), 0);
    aw_future *done = NULL;
    CHECK_EQ(aw_await_into_for(AW_MSEC(1), &done, aw_set_next(&set)), -ETIMEDOUT);
    CHECK_EQ(aw_await_status(aw_set_clear(&set)), 0);
    CHECK_EQ(set.count, 0);
    aw_set_free(&set);
    return 0;
}

TEST(arrays_and_sets_of_fibers_in_a_fiber) {
    CHECK_EQ(aw_run(AW_CALL(arrays_and_sets)), 0);
}

/* Only the branch that was woken is entered. */
static int entered[CROWD];

AW_FIBER(int, counts_entries, int i; struct script * s;) {
    int r = 0;
    for (int n = 0; n < 2; n++) {
        entered[self->i]++;
        r = aw_await(leaf(&self->s[n]));
        if (r > 0) ownership_release(r);
    }
    return r;
}

TEST(a_wake_enters_only_the_fiber_that_it_is_for) {
    static struct script s[CROWD][2];
    static struct counts_entries many[CROWD];
    for (int i = 0; i < CROWD; i++) {
        s[i][0] = s[i][1] = (struct script){.pends = NEVER};
        many[i] = AW_CALL(counts_entries, .i = i, .s = s[i], .stack_size = 32 * 1024);
    }
    aw_all a = aw_join_all(many, CROWD);
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    for (int i = CROWD - 1; i >= 0; i--) {
        script_wake(&s[i][0]); /* spurious: the leaf is polled, but no fiber is entered */
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);
        CHECK_EQ(s[i][0].polls, 2);
        CHECK_EQ(entered[i], 1);
        script_finish(&s[i][0]);
        CHECK_EQ(drive_poll(&a.future), AW_PENDING);
        CHECK_EQ(entered[i], 2);
        CHECK_EQ(s[(i + 1) % CROWD][1].polls + s[(i + 1) % CROWD][0].polls, i == CROWD - 1 ? 1 : 4);
    }
    CHECK_EQ(drive_cancel_to_end(&a.future), AW_CANCELLED);
    ownership_check_balanced();
}

/* ---- Moved until it is polled ----------------------------------------------------------------- */

TEST(a_fiber_may_be_moved_until_it_is_polled_and_in_a_box_also_then) {
    struct script s = {.pends = 2};
    struct takes first = AW_CALL(takes, .pends = 1, .s = &s), moved = first;
    aw_box b = aw_box_new(moved);
    CHECK_EQ(drive_poll(&b.future), AW_PENDING);
    aw_box elsewhere = b;
    CHECK_EQ(drive_poll(&elsewhere.future), AW_PENDING);
    b = elsewhere;
    CHECK_EQ(drive_poll(&b.future), AW_PENDING);
    CHECK_EQ(drive_poll(&b.future), AW_READY);
    ownership_release(aw_box_take(struct takes, &b));
    ownership_check_balanced();
}

static void poll_moved(void) {
    struct script s = {.pends = NEVER};
    struct takes f = AW_CALL(takes, .pends = 1, .s = &s), moved;
    drive_poll(&f.future);
    moved = f;
    drive_poll(&moved.future);
}

TEST(a_fiber_that_is_moved_after_its_first_poll_is_caught) {
    DIES(poll_moved(), "'takes' was moved after its first poll");
}

static void poll_again(bool cancel) {
    struct takes f = AW_CALL(takes);
    drive_poll(&f.future);
    if (cancel)
        drive_cancel(&f.future);
    else
        drive_poll(&f.future);
}

TEST(a_fiber_that_is_called_after_its_end_is_caught) {
    DIES(poll_again(false), "'takes' was polled after it had finished");
    DIES(poll_again(true), "'takes' was cancelled after it had finished");
}

/* ---- Polled directly, in a fiber -------------------------------------------------------------- */

AW_FIBER(int, polls_directly, int pends;) {
    struct takes inner = AW_CALL(takes, .pends = self->pends);
    int polls = 1;
    while (aw_future_poll(&inner.future, aw_fiber_cx()) == AW_PENDING) {
        polls++;
        CHECK_EQ(aw_fiber_yield(), 0); /* yields this fiber, not the inner one */
    }
    CHECK_EQ(inner.out, self->pends);
    return polls;
}

TEST(a_fiber_may_poll_another_fiber_directly) {
    CHECK_EQ(aw_run(AW_CALL(polls_directly, .pends = 5)), 6);
}

/* Started inside a fiber, and then polled outside. */
static struct takes handed_on;

AW_FIBER(int, starts_it) {
    CHECK_EQ(aw_future_poll(&handed_on.future, aw_fiber_cx()), AW_PENDING);
    return 0;
}

TEST(a_fiber_may_be_polled_inside_another_one_first_and_outside_then) {
    handed_on = AW_CALL(takes, .pends = 3);
    struct starts_it f = AW_CALL(starts_it);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(drive_poll(&handed_on.future), AW_PENDING);
    DIES((void)aw_await(aw_ready_now(1)), "an await outside a fiber");
    CHECK_EQ(drive_poll(&handed_on.future), AW_PENDING);
    CHECK_EQ(drive_poll(&handed_on.future), AW_READY);
}
