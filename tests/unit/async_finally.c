/* SPDX-License-Identifier: MIT
 *
 * AW_FINALLY: runs once in each case; its awaits are polled and never cancelled; children before
 * parents. */
#include <awake.h>

#include <string.h>

#include "support/checked_waker.h"
#include "support/script.h"
#include "test.h"

static char trace[64];
static void mark(char c) {
    size_t n = strlen(trace);
    CHECK_LT(n, sizeof trace - 1);
    trace[n] = c;
}

/* What the cleanup saw. */
static struct seen {
    int cleanups, argument, member, child_out;
    bool started, cancelling;
} seen;

AW_ASYNC(int, tidy, int argument; struct script * s; int member; struct leaf leaf;) {
    AW_BEGIN;
    self->member = 5;
    AW_AWAIT(self->leaf, leaf(self->s));
    if (self->leaf.out == -5) AW_RETURN(-5);
    ownership_release(self->leaf.out);
    self->member = 6;
    AW_RETURN(1);
    AW_FINALLY;
    seen.cleanups++;
    seen.argument = self->argument;
    seen.member = self->member;
    seen.child_out = self->leaf.out;
    seen.started = AW_STARTED;
    seen.cancelling = AW_CANCELLING;
    AW_END;
}

/* ---- Exactly once ---------------------------------------------------------------------------- */

TEST(cleanup_runs_once_after_a_return) {
    struct script s = {.pends = 1, .busy = true};
    struct tidy f = AW_CALL(tidy, .argument = 3, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(seen.cleanups, 0);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(seen.cleanups, 1);
    CHECK(seen.started && !seen.cancelling);
    CHECK_EQ(seen.member, 6);
    CHECK_EQ(f.out, 1);
    ownership_check_balanced();
}

TEST(cleanup_runs_once_after_an_early_return_and_keeps_the_output) {
    struct script s = {.error = -5};
    struct tidy f = AW_CALL(tidy, .argument = 3, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(seen.cleanups, 1);
    CHECK_EQ(seen.child_out, -5);
    CHECK_EQ(f.out, -5);
}

TEST(cleanup_runs_once_after_a_cancel) {
    struct script s = {.pends = NEVER, .cancel_pends = 2, .busy = true};
    struct tidy f = AW_CALL(tidy, .argument = 3, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(seen.cleanups, 0); /* the child still runs */
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(seen.cleanups, 1);
    CHECK(seen.started && seen.cancelling);
    CHECK_EQ(seen.member, 5);
    ownership_check_balanced();
}

TEST(cleanup_runs_once_when_a_child_wins_against_the_cancel) {
    struct script s = {.pends = NEVER, .wins = true};
    struct tidy f = AW_CALL(tidy, .argument = 3, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_READY);
    CHECK_EQ(seen.cleanups, 1);
    CHECK_EQ(seen.member, 6);
    CHECK_EQ(f.out, 1);
    ownership_check_balanced();
}

TEST(cancelled_before_the_start_cleanup_sees_the_arguments_and_nothing_else) {
    struct script s = {.pends = 0};
    struct tidy f = AW_CALL(tidy, .argument = 3, .s = &s);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(seen.cleanups, 1);
    CHECK(!seen.started && seen.cancelling);
    CHECK_EQ(seen.argument, 3);
    CHECK_EQ(seen.member, 0);
    CHECK_EQ(s.polls + s.cancels, 0);
}

AW_ASYNC(void, falls, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    mark('b');
    AW_FINALLY;
    mark('f');
    AW_END;
}

TEST(cleanup_runs_once_after_falling_off_the_end) {
    struct falls f = AW_CALL(falls);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_STR(trace, "bf");
}

/* What the arguments own is released, started or not. A zero member may be a valid value (a
 * descriptor), so the cleanup checks AW_STARTED. */
AW_ASYNC(int, owns_argument, int token; int other; aw_yield pause;) {
    AW_BEGIN;
    self->other = ownership_token();
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(0);
    AW_FINALLY;
    ownership_release(self->token);
    if (AW_STARTED) ownership_release(self->other);
    AW_END;
}

TEST(what_the_arguments_own_is_released_once_whenever_it_is_cancelled) {
    for (int polls = 0; polls <= 2; polls++) {
        struct owns_argument f = AW_CALL(owns_argument, .token = ownership_token());
        aw_poll r = AW_PENDING;
        for (int i = 0; i < polls; i++)
            r = drive_poll(&f.future);
        if (r == AW_PENDING) r = drive_cancel(&f.future);
        CHECK_EQ(r, polls == 2 ? AW_READY : AW_CANCELLED);
        ownership_check_balanced();
    }
}

/* ---- Awaits in the cleanup ------------------------------------------------------------------- */

AW_ASYNC(int, slow_tidy, struct script *body, *first, *second; struct leaf leaf; int done;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->body));
    ownership_release(self->leaf.out);
    AW_RETURN(9);
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->leaf, leaf(self->first));
        ownership_release(self->leaf.out);
        self->done++;
        AW_YIELD;
        self->done++;
        AW_AWAIT(self->leaf, leaf(self->second));
        ownership_release(self->leaf.out);
        self->done++;
    }
    AW_END;
}

TEST(cleanup_may_await_after_a_return) {
    struct script body = {.pends = 0}, first = {.pends = 1}, second = {.pends = 1};
    struct slow_tidy f = AW_CALL(slow_tidy, .body = &body, .first = &first, .second = &second);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING); /* first */
    CHECK_EQ(drive_poll(&f.future), AW_PENDING); /* the yield */
    CHECK_EQ(f.done, 1);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING); /* second */
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.done, 3);
    CHECK_EQ(f.out, 9);
    ownership_check_balanced();
}

TEST(after_a_cancel_what_cleanup_awaits_is_polled_and_further_cancels_do_not_cut_it_short) {
    struct script body = {.pends = NEVER}, first = {.pends = 3}, second = {.pends = 2};
    struct slow_tidy f = AW_CALL(slow_tidy, .body = &body, .first = &first, .second = &second);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    /* The first call cancels the leaf of the body, which ends, and begins the cleanup. */
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
        CHECK_EQ(first.polls, i);
    }
    CHECK_EQ(drive_cancel(&f.future), AW_PENDING); /* the yield */
    CHECK_EQ(drive_wakes(), 1);
    for (int i = 1; i <= 2; i++) {
        CHECK_EQ(drive_cancel(&f.future), AW_PENDING);
        CHECK_EQ(second.polls, i);
    }
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_EQ(f.done, 3);
    CHECK_EQ(body.cancelled, 1);
    CHECK_EQ(first.cancels + second.cancels, 0);
    ownership_check_balanced();
}

TEST(a_cancel_that_comes_when_cleanup_runs_already_does_not_cut_it_short) {
    struct script body = {.pends = 0}, first = {.pends = 2}, second = {.pends = 2};
    struct slow_tidy f = AW_CALL(slow_tidy, .body = &body, .first = &first, .second = &second);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(first.polls, 1);
    int calls = 0;
    aw_poll r;
    do {
        r = drive_cancel(&f.future);
        CHECK_LT(++calls, 10);
    } while (r == AW_PENDING);
    CHECK_EQ(r, AW_READY); /* its return was already decided */
    CHECK_EQ(f.done, 3);
    CHECK_EQ(f.out, 9);
    CHECK_EQ(first.cancels + second.cancels, 0);
    ownership_check_balanced();
}

/* An async function as cleanup: its own awaits are polled, too. */
AW_ASYNC(int, says_goodbye, struct script *s; bool cancelling; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->s));
    ownership_release(self->leaf.out);
    self->cancelling = AW_CANCELLING;
    AW_YIELD;
    mark('g');
    AW_RETURN(4);
    AW_END;
}
AW_ASYNC(int, polite, struct script *s; aw_never never; struct says_goodbye bye;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->bye, AW_CALL(says_goodbye, .s = self->s));
        CHECK_EQ(self->bye.out, 4);
        CHECK(!self->bye.cancelling);
        mark('p');
    }
    AW_END;
}

TEST(a_function_awaited_in_cleanup_is_not_cancelled_either) {
    struct script s = {.pends = 2, .busy = true};
    struct polite f = AW_CALL(polite, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_STR(trace, "gp");
    CHECK_EQ(s.cancels, 0);
    ownership_check_balanced();
}

/* ---- Order ----------------------------------------------------------------------------------- */

AW_ASYNC(int, inner, struct script *s; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->s));
    ownership_release(self->leaf.out);
    AW_RETURN(1);
    AW_FINALLY;
    mark(AW_STARTED ? '1' : '-');
    AW_END;
}
AW_ASYNC(int, middle, struct script *s; struct inner f; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->f, AW_CALL(inner, .s = self->s));
    AW_RETURN(2);
    AW_FINALLY;
    mark(AW_STARTED ? '2' : '-');
    AW_END;
}
AW_ASYNC(int, outermost, struct script *s; struct middle f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, AW_CALL(middle, .s = self->s));
    AW_RETURN(3);
    AW_FINALLY;
    mark(AW_STARTED ? '3' : '-');
    AW_END;
}

TEST(cleanup_of_children_comes_before_that_of_their_parents) {
    for (int wins = 0; wins < 2; wins++) {
        struct script s = {.pends = NEVER, .cancel_pends = 1, .busy = true, .wins = wins};
        struct outermost f = AW_CALL(outermost, .s = &s);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_cancel_to_end(&f.future), wins ? AW_READY : AW_CANCELLED);
    }
    CHECK_STR(trace, "123123");
    ownership_check_balanced();
}

TEST(of_a_chain_that_never_started_only_the_outermost_is_there_to_clean_up) {
    struct script s = {.pends = 0};
    struct outermost f = AW_CALL(outermost, .s = &s);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_STR(trace, "-");
}

/* The first child wins; the second is then cancelled before its start, and cleans up
 * nevertheless. */
AW_ASYNC(int, in_turn, struct script *a, *b; struct inner first, second;) {
    AW_BEGIN;
    AW_AWAIT(self->first, AW_CALL(inner, .s = self->a));
    AW_AWAIT(self->second, AW_CALL(inner, .s = self->b));
    AW_RETURN(0);
    AW_FINALLY;
    mark('p');
    AW_END;
}

TEST(a_child_that_is_cancelled_before_its_start_cleans_up_too) {
    struct script a = {.pends = NEVER, .wins = true}, b = {.pends = 0};
    struct in_turn f = AW_CALL(in_turn, .a = &a, .b = &b);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    CHECK_STR(trace, "1-p");
    CHECK_EQ(b.polls + b.cancels, 0);
    ownership_check_balanced();
}
