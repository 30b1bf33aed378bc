/* SPDX-License-Identifier: MIT
 *
 * Cancelling async functions, on the core alone: the rules Unstarted, Resume, Cut and Decided,
 * with leaves that win the race against the cancel and leaves that lose it. The driver passes a
 * new waker to each call, and checks that only the latest is kept, and none after the end. */
#include <awake.h>

#include "support/checked_waker.h"
#include "support/script.h"
#include "test.h"

/* Three awaits. The body owns the outputs of the leaves. */
AW_ASYNC(int, three, struct script *a, *b, *c; int steps; bool was_cancelling; struct leaf leaf;
         int tokens[3];) {
    AW_BEGIN;
    self->steps = 1;
    AW_AWAIT(self->leaf, leaf(self->a));
    self->was_cancelling = AW_CANCELLING;
    self->tokens[0] = self->leaf.out;
    self->steps = 2;
    AW_AWAIT(self->leaf, leaf(self->b));
    self->tokens[1] = self->leaf.out;
    self->steps = 3;
    AW_AWAIT(self->leaf, leaf(self->c));
    self->tokens[2] = self->leaf.out;
    self->steps = 4;
    AW_RETURN(42);
    AW_FINALLY;
    for (int i = 0; i < 3; i++)
        if (self->tokens[i]) ownership_release(self->tokens[i]);
    AW_END;
}

static struct script scripts[3];

static struct three make(struct script s) {
    for (int i = 0; i < 3; i++)
        scripts[i] = s;
    return AW_CALL(three, .a = &scripts[0], .b = &scripts[1], .c = &scripts[2]);
}

/* ---- Unstarted ------------------------------------------------------------------------------- */

TEST(cancelled_before_its_first_poll_it_answers_cancelled_and_its_body_never_runs) {
    struct three f = make((struct script){.pends = 0});
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(f.steps, 0);
    CHECK_EQ(scripts[0].polls + scripts[0].cancels, 0);
    CHECK_EQ(f.out, 0);
    ownership_check_balanced();
}

AW_ASYNC(int, only_ready, aw_ready r;) {
    AW_BEGIN;
    AW_AWAIT(self->r, aw_ready_now(1));
    AW_RETURN(self->r.out);
    AW_END;
}

TEST(cancelled_before_its_first_poll_it_never_answers_ready) {
    struct only_ready f = AW_CALL(only_ready);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK(aw_future_ended(&f.future) && !aw_future_finished(&f.future));
}

/* ---- Cut ------------------------------------------------------------------------------------- */

TEST(a_child_that_is_gone_takes_its_function_with_it_from_every_await) {
    for (int at = 0; at < 3; at++) {
        struct three f = make((struct script){.pends = 0});
        scripts[at].pends = NEVER;
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
        CHECK_EQ(f.steps, at + 1);
        CHECK_EQ(scripts[at].cancels, 1);
        CHECK_EQ(scripts[at].cancelled, 1);
        CHECK_EQ(f.out, 0);
        ownership_check_balanced();
    }
}

TEST(a_child_that_takes_its_time_is_cancelled_again_on_each_wake) {
    struct three f = make((struct script){.pends = NEVER, .cancel_pends = 3});
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
        CHECK_EQ(scripts[0].cancels, i);
        CHECK(aw_future_cancelling(&f.future));
        CHECK_EQ(drive_wakes(), 0);
        script_wake(&scripts[0]); /* reaches the waker of this cancel: older ones are retired */
        CHECK_EQ(drive_wakes(), 1);
    }
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(scripts[0].polls, 1); /* after the first cancel it is only cancelled */
    ownership_check_balanced();
}

AW_ASYNC(int, nest1, struct script *s; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->s));
    AW_RETURN(self->leaf.out);
    AW_END;
}
AW_ASYNC(int, nest2, struct script *s; int *after; struct nest1 f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, AW_CALL(nest1, .s = self->s));
    ++*self->after;
    AW_RETURN(self->f.out);
    AW_END;
}
AW_ASYNC(int, nest3, struct script *s; int *after; struct nest2 f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, AW_CALL(nest2, .s = self->s, .after = self->after));
    ++*self->after;
    AW_RETURN(self->f.out);
    AW_END;
}

TEST(a_cut_goes_through_every_level) {
    struct script s = {.pends = NEVER, .cancel_pends = 2, .busy = true};
    int after = 0;
    struct nest3 f = AW_CALL(nest3, .s = &s, .after = &after);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(after, 0);
    CHECK_EQ(s.cancels, 3);
    CHECK(aw_future_ended(&f.f.future) && !aw_future_finished(&f.f.future));
    CHECK(aw_future_ended(&f.f.f.future) && !aw_future_finished(&f.f.f.future));
    ownership_check_balanced();
}

/* ---- Resume ---------------------------------------------------------------------------------- */

TEST(a_child_that_wins_hands_its_value_on_through_every_level) {
    struct script s = {.pends = NEVER, .cancel_pends = 2, .busy = true, .wins = true};
    int after = 0;
    struct nest3 f = AW_CALL(nest3, .s = &s, .after = &after);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_READY);
    CHECK_EQ(after, 2);
    CHECK_EQ(f.out, s.out);
    ownership_release(f.out);
    ownership_check_balanced();
}

TEST(after_a_child_that_won_the_body_runs_on_and_its_next_await_is_the_end) {
    struct three f = make((struct script){.pends = NEVER, .wins = true});
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK(f.was_cancelling);
    CHECK_EQ(f.steps, 2);
    CHECK_NE(f.tokens[0], 0);
    /* The second leaf was never polled: an unstarted leaf cannot win. */
    CHECK_EQ(scripts[1].polls, 0);
    CHECK_EQ(scripts[1].cancels, 1);
    CHECK_EQ(scripts[2].cancels, 0);
    ownership_check_balanced();
}

TEST(a_child_that_won_at_the_last_await_finishes_the_function) {
    struct three f = make((struct script){.pends = 0, .wins = true});
    scripts[2].pends = NEVER;
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(f.out, 42);
    CHECK_EQ(f.steps, 4);
    CHECK(aw_future_finished(&f.future));
    ownership_check_balanced();
}

AW_ASYNC(int, loops_over_ready, struct script *s; struct leaf leaf; aw_ready r; int rounds;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->s));
    ownership_release(self->leaf.out);
    for (;;) {
        self->rounds++;
        AW_AWAIT(self->r, aw_ready_now(1));
    }
    AW_END;
}

TEST(a_cancelled_loop_over_ready_futures_ends) {
    struct script s = {.pends = NEVER, .wins = true};
    struct loops_over_ready f = AW_CALL(loops_over_ready, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(f.rounds, 1);
    ownership_check_balanced();
}

AW_ASYNC(int, looks_and_leaves, struct script *s; struct leaf leaf; aw_never never;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->s));
    ownership_release(self->leaf.out);
    if (AW_CANCELLING) AW_RETURN(-1);
    AW_AWAIT(self->never, aw_never_ready());
    AW_END;
}

TEST(a_body_that_sees_that_it_is_cancelled_may_return_instead) {
    struct script s = {.pends = NEVER, .wins = true};
    struct looks_and_leaves f = AW_CALL(looks_and_leaves, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(f.out, -1);
    ownership_check_balanced();
}

/* ---- Yields ---------------------------------------------------------------------------------- */

AW_ASYNC(int, yields, struct script *s; struct leaf leaf; int steps;) {
    AW_BEGIN;
    if (self->s) {
        AW_AWAIT(self->leaf, leaf(self->s));
        ownership_release(self->leaf.out);
    }
    self->steps++;
    AW_YIELD;
    self->steps++;
    AW_RETURN(1);
    AW_END;
}

TEST(a_yield_is_cancelled_where_it_stands) {
    struct yields f = AW_CALL(yields, .s = NULL);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(f.steps, 1);
}

TEST(a_yield_that_is_reached_while_cancelling_ends_the_body_at_once) {
    struct script s = {.pends = NEVER, .wins = true};
    struct yields f = AW_CALL(yields, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(f.steps, 1);
    ownership_check_balanced();
}

/* ---- Decided --------------------------------------------------------------------------------- */

AW_ASYNC(int, decided, struct script *cleanup; struct leaf leaf;) {
    AW_BEGIN;
    AW_RETURN(7);
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->leaf, leaf(self->cleanup));
        ownership_release(self->leaf.out);
    }
    AW_END;
}

TEST(past_its_return_a_function_only_winds_up_and_ends_ready) {
    struct script s = {.pends = 3};
    struct decided f = AW_CALL(decided, .cleanup = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(f.out, 7);
    CHECK_EQ(s.polls, 4);
    CHECK_EQ(s.cancels, 0);
    ownership_check_balanced();
}

AW_ASYNC(int, awaits_decided, struct script *cleanup; struct decided d; aw_never never; int seen;) {
    AW_BEGIN;
    AW_AWAIT(self->d, AW_CALL(decided, .cleanup = self->cleanup));
    self->seen = self->d.out;
    AW_AWAIT(self->never, aw_never_ready());
    AW_END;
}

TEST(a_decided_child_hands_its_value_to_the_body_that_is_being_cancelled) {
    struct script s = {.pends = 2, .busy = true};
    struct awaits_decided f = AW_CALL(awaits_decided, .cleanup = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(f.seen, 7);
    ownership_check_balanced();
}

/* ---- All combinations ------------------------------------------------------------------------ */

TEST(at_every_await_winning_and_losing_nothing_is_left_and_one_end_is_reported) {
    for (int at = 0; at < 3; at++)
        for (int wins = 0; wins < 2; wins++)
            for (int slow = 0; slow < 3; slow++)
                for (int polls = 0; polls < 3; polls++) {
                    struct three f = make((struct script){.pends = 0});
                    scripts[at] = (struct script){
                        .pends = NEVER, .wins = wins, .cancel_pends = slow, .busy = true};
                    for (int i = 0; i < polls; i++)
                        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
                    bool finishes = polls > 0 && wins && at == 2;
                    CHECK_EQ(drive_cancel_to_end(&f.future), finishes ? AW_READY : AW_CANCELLED);
                    CHECK_EQ(f.out, finishes ? 42 : 0);
                    CHECK_EQ(f.steps, polls ? at + 1 + wins : 0);
                    for (int i = 0; i < 3; i++)
                        CHECK(scripts[i].waker.type == NULL);
                    ownership_check_balanced();
                }
}
