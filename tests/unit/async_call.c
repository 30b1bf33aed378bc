/* SPDX-License-Identifier: MIT
 *
 * Async functions on the core alone: calls, arguments, awaits in all positions, outputs. The
 * driver passes a new waker to each poll, and requires that a pending future is woken. */
#include <awake.h>

#include <string.h>

#include "support/checked_waker.h"
#include "support/script.h"
#include "test.h"

#define FINISH(f) CHECK_EQ(drive_poll_to_end(&(f)->future), AW_READY)

static int steps;

AW_ASYNC(int, step, int n;) {
    AW_BEGIN;
    steps += self->n;
    AW_YIELD;
    steps += self->n;
    AW_RETURN(self->n);
    AW_END;
}

/* ---- Laziness -------------------------------------------------------------------------------- */

TEST(a_call_does_nothing_until_it_is_polled) {
    struct step f = AW_CALL(step, .n = 1);
    CHECK_EQ(steps, 0);
    CHECK(!aw_future_started(&f.future));
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(steps, 1);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(steps, 2);
}

AW_ASYNC(int, keeps_a_call, struct step call;) {
    AW_BEGIN;
    self->call = AW_CALL(step, .n = 10);
    AW_YIELD;
    CHECK_EQ(steps, 0);
    AW_AWAIT_FUTURE(self->call);
    AW_RETURN(self->call.out);
    AW_END;
}

TEST(a_call_in_a_member_does_nothing_until_it_is_awaited) {
    struct keeps_a_call f = AW_CALL(keeps_a_call);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(steps, 0);
    FINISH(&f);
    CHECK_EQ(steps, 20);
    CHECK_EQ(f.out, 10);
}

TEST(a_call_may_be_copied_and_moved_until_its_first_poll) {
    struct step a = AW_CALL(step, .n = 3), b = a, moved;
    memmove(&moved, &a, sizeof a);
    memset(&a, 0xff, sizeof a);
    FINISH(&moved);
    FINISH(&b);
    CHECK_EQ(moved.out + b.out, 6);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

AW_ASYNC(long, arguments, int a, b; const char *name; double x; char buffer[100]; aw_yield pause;) {
    AW_BEGIN;
    for (size_t i = 0; i < sizeof self->buffer; i++)
        CHECK_EQ(self->buffer[i], 0);
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(self->a * 100 + self->b * 10 + (long)strlen(self->name) + (long)self->x);
    AW_END;
}

TEST(arguments_are_given_by_name_and_the_rest_is_zero) {
    struct arguments f = AW_CALL(arguments, .name = "abc", .a = 2, .x = 4.0);
    CHECK_EQ(f.b, 0);
    FINISH(&f);
    CHECK_EQ(f.out, 207);
}

AW_ASYNC(int, without_any) {
    AW_BEGIN;
    AW_RETURN(7);
    AW_END;
}

TEST(a_function_may_have_no_arguments) {
    struct without_any f = AW_CALL(without_any);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.out, 7);
}

AW_ASYNC(int, takes_a_future, struct step work; aw_poll_fn fn;) {
    AW_BEGIN;
    AW_AWAIT_FUTURE(self->work);
    AW_RETURN(self->work.out + 1);
    AW_END;
}

TEST(an_argument_may_be_a_future) {
    struct takes_a_future f = AW_CALL(takes_a_future, .work = AW_CALL(step, .n = 4));
    FINISH(&f);
    CHECK_EQ(f.out, 5);
}

/* ---- Awaits in loops and branches ------------------------------------------------------------ */

static char trace[64];
static void mark(char c) {
    size_t n = strlen(trace);
    CHECK_LT(n, sizeof trace - 1);
    trace[n] = c;
}

AW_ASYNC(int, loops, int i, j; aw_yield pause; struct step s;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 3; self->i++)
        for (self->j = 0; self->j < 2; self->j++) {
            if (self->j == 1 && self->i == 1) continue;
            mark((char)('0' + self->i));
            AW_AWAIT(self->pause, aw_yield_now());
            mark((char)('a' + self->j));
        }
    while (self->i-- > 0) {
        AW_AWAIT(self->s, AW_CALL(step, .n = 1));
        mark('w');
        if (self->i == 1) break;
    }
    do {
        AW_YIELD;
        mark('d');
    } while (++self->j < 4);
    AW_RETURN(self->i);
    AW_END;
}

TEST(awaits_stand_in_loops) {
    struct loops f = AW_CALL(loops);
    FINISH(&f);
    CHECK_STR(trace, "0a0b1a2a2bwwdd");
    CHECK_EQ(f.out, 1);
}

AW_ASYNC(int, branches, int n; aw_yield pause; struct step s;) {
    AW_BEGIN;
    if (self->n == 0) {
        AW_AWAIT(self->s, AW_CALL(step, .n = 1));
        mark('0');
    } else if (self->n == 1)
        AW_AWAIT(self->pause, aw_yield_now());
    else {
        AW_YIELD;
        mark('2');
    }
    mark('.');
    AW_RETURN(self->n);
    AW_END;
}

TEST(awaits_stand_in_branches) {
    for (int n = 0; n < 3; n++) {
        struct branches f = AW_CALL(branches, .n = n);
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_poll(&f.future), AW_READY);
        CHECK_EQ(f.out, n);
    }
    CHECK_STR(trace, "0..2.");
}

AW_ASYNC(int, returns_early, int limit; int i; aw_yield pause;) {
    AW_BEGIN;
    if (self->limit < 0) AW_RETURN(-1);
    for (self->i = 0; self->i < 100; self->i++) {
        if (self->i == self->limit) AW_RETURN(self->i * 2);
        AW_AWAIT(self->pause, aw_yield_now());
        mark('.');
    }
    mark('!');
    AW_RETURN(1000);
    AW_END;
}

TEST(a_return_leaves_the_function_from_any_depth) {
    struct returns_early f = AW_CALL(returns_early, .limit = -5);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.out, -1);
    f = AW_CALL(returns_early, .limit = 4);
    FINISH(&f);
    CHECK_EQ(f.out, 8);
    CHECK_STR(trace, "....");
}

static int made;
static struct step make_step(void) {
    made++;
    return AW_CALL(step, .n = 1);
}

AW_ASYNC(int, awaits_twice, struct step a;) {
    AW_BEGIN;
    AW_AWAIT(self->a, make_step());
    AW_AWAIT(self->a, make_step());
    AW_RETURN(self->a.out);
    AW_END;
}

TEST(the_awaited_expression_is_evaluated_once_and_a_member_may_be_used_again) {
    struct awaits_twice f = AW_CALL(awaits_twice);
    FINISH(&f);
    CHECK_EQ(made, 2);
    CHECK_EQ(steps, 4);
}

/* ---- The number of polls --------------------------------------------------------------------- */

AW_ASYNC(int, waits_for_leaf, struct script *script; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->script));
    ownership_release(self->leaf.out);
    AW_RETURN(5);
    AW_END;
}

AW_ASYNC(int, waits_for_all, struct script *a, *b; struct waits_for_leaf w;
         struct without_any ready;) {
    AW_BEGIN;
    AW_AWAIT(self->ready, AW_CALL(without_any));
    AW_AWAIT(self->w, AW_CALL(waits_for_leaf, .script = self->a));
    AW_AWAIT(self->w, AW_CALL(waits_for_leaf, .script = self->b));
    AW_AWAIT(self->ready, AW_CALL(without_any));
    AW_RETURN(self->w.out + self->ready.out);
    AW_END;
}

TEST(what_is_ready_at_once_is_not_waited_for) {
    struct script a = {.pends = 0}, b = {.pends = 0};
    struct waits_for_all f = AW_CALL(waits_for_all, .a = &a, .b = &b);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.out, 12);
    CHECK_EQ(a.polls + b.polls, 2);
    ownership_check_balanced();
}

TEST(each_poll_polls_what_is_awaited_once_with_the_waker_of_this_poll) {
    struct script a = {.pends = 3}, b = {.pends = 1};
    struct waits_for_all f = AW_CALL(waits_for_all, .a = &a, .b = &b);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(a.polls, i);
        CHECK_EQ(drive_wakes(), 0);
        script_wake(&a);
        CHECK_EQ(drive_wakes(), 1);
    }
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(a.polls, 4);
    CHECK_EQ(b.polls, 1);
    script_wake(&b);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(b.polls, 2);
    ownership_check_balanced();
}

AW_ASYNC(int, yields, int times;) {
    AW_BEGIN;
    while (self->times-- > 0)
        AW_YIELD;
    AW_RETURN(0);
    AW_END;
}

TEST(a_yield_is_pending_once_and_wakes) {
    struct yields f = AW_CALL(yields, .times = 3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_wakes(), 1);
    }
    CHECK_EQ(drive_poll(&f.future), AW_READY);
}

/* ---- Outputs --------------------------------------------------------------------------------- */

struct point {
    double x, y;
    const char *name;
};

AW_ASYNC(void, gives_nothing, int *count;) {
    AW_BEGIN;
    AW_YIELD;
    ++*self->count;
    if (*self->count == 1) AW_RETURN_VOID;
    AW_YIELD;
    ++*self->count;
    AW_END;
}
AW_ASYNC(const char *, gives_pointer, const char *p;) {
    AW_BEGIN;
    AW_YIELD;
    AW_RETURN(self->p + 1);
    AW_END;
}
AW_ASYNC(struct point, gives_struct, double x;) {
    AW_BEGIN;
    AW_YIELD;
    AW_RETURN((struct point){.x = self->x, .y = 2 * self->x, .name = "here"});
    AW_END;
}
AW_ASYNC(double, gives_double, double x;) {
    AW_BEGIN;
    AW_YIELD;
    AW_RETURN(self->x / 2);
    AW_END;
}
AW_ASYNC(unsigned char, gives_byte) {
    AW_BEGIN;
    AW_RETURN(200);
    AW_END;
}
AW_ASYNC(long long, gives_long_long) {
    AW_BEGIN;
    AW_RETURN(-(1LL << 40));
    AW_END;
}
AW_ASYNC(signed char, gives_error) {
    AW_BEGIN;
    AW_RETURN(-5);
    AW_END;
}

TEST(a_function_may_give_nothing) {
    int count = 0;
    struct gives_nothing f = AW_CALL(gives_nothing, .count = &count);
    FINISH(&f);
    CHECK_EQ(count, 1);
    f = AW_CALL(gives_nothing, .count = &count);
    FINISH(&f);
    CHECK_EQ(count, 3);
}

AW_ASYNC(int, every_output, struct gives_pointer p; struct gives_struct s; struct gives_double d;
         struct gives_byte b; struct gives_long_long l; struct gives_error e;) {
    AW_BEGIN;
    AW_AWAIT(self->p, AW_CALL(gives_pointer, .p = "xyz"));
    CHECK_STR(self->p.out, "yz");
    AW_AWAIT(self->s, AW_CALL(gives_struct, .x = 1.5));
    CHECK(self->s.out.x == 1.5 && self->s.out.y == 3.0);
    CHECK_STR(self->s.out.name, "here");
    AW_AWAIT(self->d, AW_CALL(gives_double, .x = 5));
    CHECK(self->d.out == 2.5);
    AW_AWAIT(self->b, AW_CALL(gives_byte));
    CHECK_EQ(self->b.out, 200);
    AW_AWAIT(self->l, AW_CALL(gives_long_long));
    CHECK_EQ(self->l.out, -(1LL << 40));
    AW_AWAIT(self->e, AW_CALL(gives_error));
    CHECK_EQ(self->e.out, -5);
    AW_RETURN(1);
    AW_END;
}

TEST(an_output_has_the_type_that_was_declared) {
    struct every_output f = AW_CALL(every_output);
    FINISH(&f);
    CHECK_EQ(f.out, 1);
}

TEST(erased_code_finds_the_output_and_the_error_in_it) {
    struct gives_struct s = AW_CALL(gives_struct, .x = 1.5);
    FINISH(&s);
    CHECK_EQ(s.future.type->size, sizeof s);
    CHECK_EQ(s.future.type->out_size, sizeof(struct point));
    CHECK(((struct point *)aw_future_out(&s.future))->x == 1.5);
    CHECK_EQ(s.future.type->flags & AW_OUT_ERRNO, 0);
    CHECK_EQ(aw_future_error(&s.future), 0);

    struct gives_error e = AW_CALL(gives_error);
    FINISH(&e);
    CHECK_NE(e.future.type->flags & AW_OUT_ERRNO, 0);
    CHECK_EQ(aw_future_error(&e.future), -5);

    /* 200 is -56 in a signed char: it must not count as an error. */
    struct gives_byte b = AW_CALL(gives_byte);
    FINISH(&b);
    CHECK_EQ(b.future.type->flags & AW_OUT_ERRNO, 0);
    CHECK_EQ(aw_future_error(&b.future), 0);
}

AW_ASYNC(int, gives_no_value, aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_END;
}

TEST(falling_off_the_end_gives_zero) {
    struct gives_no_value f = AW_CALL(gives_no_value);
    FINISH(&f);
    CHECK_EQ(f.out, 0);
}

/* ---- Discard --------------------------------------------------------------------------------- */

struct gives_token {
    AW_FRAME(int);
    aw_yield pause;
};
static void token_discard(aw_future *f) {
    ownership_release(((struct gives_token *)f)->out);
}
AW_ASYNC_STATIC(gives_token, .discard = token_discard) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    AW_RETURN(ownership_token());
    AW_END;
}

TEST(an_output_that_is_not_taken_goes_to_the_discard_of_its_function) {
    struct gives_token f = AW_CALL(gives_token);
    FINISH(&f);
    CHECK_EQ(ownership.owned, 1);
    aw_future_discard(&f.future);
    ownership_check_balanced();
}

TEST(a_function_without_a_discard_may_be_discarded) {
    struct without_any f = AW_CALL(without_any);
    FINISH(&f);
    aw_future_discard(&f.future);
}
