/* SPDX-License-Identifier: MIT
 *
 * Misuse that only shows at run time ends the program with a message that has file and line of
 * the wrong call. tests/compile has what the compiler finds. */
#include <awake.h>

#include <stdio.h>
#include <string.h>

#include "support/script.h"
#include "test.h"

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x
/* The message names the line of this macro's use. */
#define DIES_HERE(call, f, text)                                                                   \
    DIES(call(&(f)->future, noop_cx()), __FILE__ ":" TEXT(__LINE__) ": " text)

static aw_cx *noop_cx(void) {
    static aw_waker waker;
    static aw_cx cx;
    waker = aw_noop_waker();
    cx = aw_cx_from_waker(&waker);
    return &cx;
}

/* "file:line: " of an await in this file. */
static const char *at(int line, const char *message) {
    static char text[256];
    snprintf(text, sizeof text, "%s:%d: %s", __FILE__, line, message);
    return text;
}

AW_ASYNC(int, work, struct script *s; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->s));
    AW_RETURN(1);
    AW_END;
}

/* ---- After the end --------------------------------------------------------------------------- */

TEST(a_finished_function_is_not_called_again) {
    struct script s = {.error = -1};
    struct work f = AW_CALL(work, .s = &s);
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&f.future, cx), AW_READY);
    DIES_HERE(aw_future_poll, &f, "future 'work' was polled after it had finished");
    DIES_HERE(aw_future_cancel, &f, "future 'work' was cancelled after it had finished");
}

TEST(a_cancelled_function_is_not_called_again) {
    struct script s = {.pends = NEVER};
    struct work f = AW_CALL(work, .s = &s);
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&f.future, cx), AW_PENDING);
    CHECK_EQ(aw_future_cancel(&f.future, cx), AW_CANCELLED);
    DIES_HERE(aw_future_poll, &f, "future 'work' was polled after it had been cancelled");
    DIES_HERE(aw_future_cancel, &f, "future 'work' was cancelled after it had been cancelled");
}

TEST(a_function_that_finished_while_it_was_cancelled_is_not_called_again) {
    struct script s = {.pends = NEVER, .wins = true};
    struct work f = AW_CALL(work, .s = &s);
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&f.future, cx), AW_PENDING);
    CHECK_EQ(aw_future_cancel(&f.future, cx), AW_READY);
    DIES_HERE(aw_future_cancel, &f, "future 'work' was cancelled after it had finished");
}

TEST(from_the_first_cancel_on_only_cancel_is_called) {
    struct script s = {.pends = NEVER, .cancel_pends = 1};
    struct work f = AW_CALL(work, .s = &s);
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&f.future, cx), AW_PENDING);
    CHECK_EQ(aw_future_cancel(&f.future, cx), AW_PENDING);
    DIES_HERE(aw_future_poll, &f, "future 'work' was polled while it is being cancelled");
    CHECK_EQ(aw_future_cancel(&f.future, cx), AW_CANCELLED);
}

TEST(the_functions_for_other_languages_check_too) {
    struct script s = {.error = -1};
    struct work f = AW_CALL(work, .s = &s);
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_poll_future(&f.future, cx), AW_READY);
    DIES(aw_poll_future(&f.future, cx), "future 'work' was polled after it had finished");
    DIES(aw_cancel_future(&f.future, cx), "future 'work' was cancelled after it had finished");
}

enum { SECOND_AWAIT = __LINE__ + 4 };
AW_ASYNC(int, awaits_it_again, struct work w; struct script * s;) {
    AW_BEGIN;
    AW_AWAIT(self->w, AW_CALL(work, .s = self->s));
    AW_AWAIT_FUTURE(self->w);
    AW_RETURN(1);
    AW_END;
}

TEST(a_child_that_has_ended_is_not_awaited_again) {
    struct script s = {.error = -1};
    struct awaits_it_again f = AW_CALL(awaits_it_again, .s = &s);
    DIES(aw_future_poll(&f.future, noop_cx()),
         at(SECOND_AWAIT, "future 'work' was polled after it had finished"));
}

/* ---- Moving ---------------------------------------------------------------------------------- */

TEST(a_function_does_not_move_after_its_first_poll) {
    struct script s = {.pends = NEVER};
    struct work f = AW_CALL(work, .s = &s), moved;
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&f.future, cx), AW_PENDING);
    memcpy(&moved, &f, sizeof f);
    DIES_HERE(aw_future_poll, &moved, "future 'work' was moved after its first poll");
    DIES_HERE(aw_future_cancel, &moved, "future 'work' was moved after its first poll");
    CHECK_EQ(aw_future_cancel(&f.future, cx), AW_CANCELLED);
}

TEST(a_function_does_not_move_while_it_is_cancelled) {
    struct script s = {.pends = NEVER, .cancel_pends = 1};
    struct work f = AW_CALL(work, .s = &s), moved;
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&f.future, cx), AW_PENDING);
    CHECK_EQ(aw_future_cancel(&f.future, cx), AW_PENDING);
    memcpy(&moved, &f, sizeof f);
    DIES_HERE(aw_future_cancel, &moved, "future 'work' was moved after its first poll");
    CHECK_EQ(aw_future_cancel(&f.future, cx), AW_CANCELLED);
}

TEST(a_finished_function_may_be_moved) {
    struct script s = {.error = -1};
    struct work f = AW_CALL(work, .s = &s), moved;
    CHECK_EQ(aw_future_poll(&f.future, noop_cx()), AW_READY);
    memcpy(&moved, &f, sizeof f);
    CHECK_EQ(*(int *)aw_future_out(&moved.future), 1);
    CHECK(aw_future_finished(&moved.future));
}

static aw_poll twice(void *arg, aw_cx *cx, int *out) {
    int *polls = arg;
    (void)cx;
    *out = ++*polls;
    return *polls == 2 ? AW_READY : AW_PENDING;
}

TEST(a_type_that_says_so_may_be_moved_between_polls) {
    int polls = 0;
    aw_poll_fn f = aw_poll_fn_of(twice, &polls), g;
    aw_never never = aw_never_ready(), elsewhere;
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&f.future, cx), AW_PENDING);
    memcpy(&g, &f, sizeof f);
    CHECK_EQ(aw_future_poll(&g.future, cx), AW_READY);
    CHECK_EQ(g.out, 2);
    CHECK_EQ(aw_future_poll(&never.future, cx), AW_PENDING);
    memcpy(&elsewhere, &never, sizeof never);
    CHECK_EQ(aw_future_poll(&elsewhere.future, cx), AW_PENDING);
    memcpy(&never, &elsewhere, sizeof never);
    CHECK_EQ(aw_future_cancel(&never.future, cx), AW_CANCELLED);
    /* The other rules still hold. */
    DIES_HERE(aw_future_poll, &never, "future 'never' was polled after it had been");
}

TEST(a_box_is_how_a_running_function_moves) {
    struct script s = {.pends = 1};
    aw_box box = aw_box_new(AW_CALL(work, .s = &s)), moved;
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&box.future, cx), AW_PENDING);
    memcpy(&moved, &box, sizeof box);
    CHECK_EQ(aw_future_poll(&moved.future, cx), AW_READY);
    CHECK_EQ(aw_box_take(struct work, &moved), 1);
}

/* ---- Awaits that cannot be resumed ----------------------------------------------------------- */

static aw_ready outside;

enum { OUTSIDE_AWAIT = __LINE__ + 3 };
AW_ASYNC(int, looks_outside) {
    AW_BEGIN;
    AW_AWAIT(outside, aw_ready_now(1));
    AW_RETURN(outside.out);
    AW_END;
}

TEST(a_future_outside_the_frame_is_not_awaited) {
    struct looks_outside f = AW_CALL(looks_outside);
    DIES(aw_future_poll(&f.future, noop_cx()),
         at(OUTSIDE_AWAIT, "async function 'looks_outside' awaits a future outside its frame"));
}

enum { FINALLY_AWAIT = __LINE__ + 6, FINALLY_YIELD = __LINE__ + 7 };
AW_ASYNC(int, hasty, bool yields; aw_ready r;) {
    AW_BEGIN;
    AW_AWAIT(self->r, aw_ready_now(1));
    AW_RETURN(1);
    AW_FINALLY;
    if (!self->yields) AW_AWAIT(self->r, aw_ready_now(2));
    if (self->yields) AW_YIELD;
    AW_END;
}

TEST(cleanup_of_what_never_started_does_not_await) {
    struct hasty f = AW_CALL(hasty, .yields = false), g = AW_CALL(hasty, .yields = true);
    DIES(aw_future_cancel(&f.future, noop_cx()),
         at(FINALLY_AWAIT, "async function 'hasty' awaits in AW_FINALLY though it never started: "
                           "check AW_STARTED first"));
    DIES(aw_future_cancel(&g.future, noop_cx()),
         at(FINALLY_YIELD, "async function 'hasty' awaits in AW_FINALLY though it never started"));
}

enum { SWITCH_AWAIT = __LINE__ + 4 };
AW_ASYNC(int, switches, uint64_t n; aw_yield pause;) {
    AW_BEGIN;
    switch (self->n) {
    case 1: AW_AWAIT(self->pause, aw_yield_now()); break;
    default: break;
    }
    AW_RETURN(5);
    AW_END;
}

TEST(an_await_inside_a_switch_on_64_bits_cannot_be_resumed) {
    struct switches f = AW_CALL(switches, .n = 1), g = AW_CALL(switches, .n = 2);
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&g.future, cx), AW_READY);
    CHECK_EQ(aw_future_poll(&f.future, cx), AW_PENDING);
    DIES(
        aw_future_poll(&f.future, cx),
        at(SWITCH_AWAIT, "async function 'switches' cannot resume here: an await inside a switch"));
    DIES(
        aw_future_cancel(&f.future, cx),
        at(SWITCH_AWAIT, "async function 'switches' cannot resume here: an await inside a switch"));
}

TEST(an_overwritten_frame_is_noticed) {
    struct script s = {.pends = NEVER};
    struct work f = AW_CALL(work, .s = &s);
    aw_cx *cx = noop_cx();
    CHECK_EQ(aw_future_poll(&f.future, cx), AW_PENDING);
    f.future.state = 1;
    DIES(aw_future_poll(&f.future, cx), "cannot resume here");
}

enum { FAIL_AT = __LINE__ + 3 };
AW_ASYNC(int, fails) {
    AW_BEGIN;
    AW_FAIL(-5);
    AW_END;
}

TEST(a_task_is_failed_only_inside_one) {
    struct fails f = AW_CALL(fails);
    DIES(aw_future_poll(&f.future, noop_cx()), at(FAIL_AT, "AW_FAIL outside a task of a runtime"));
}

enum { CLEANUP_FAIL_AT = __LINE__ + 3 };
AW_ASYNC(int, fails_in_cleanup) {
    AW_BEGIN;
    AW_FAIL(-5);
    AW_END;
}
AW_ASYNC(int, hides_a_fail, struct fails_in_cleanup f;) {
    AW_BEGIN;
    AW_RETURN(1);
    AW_FINALLY;
    AW_AWAIT(self->f, AW_CALL(fails_in_cleanup));
    AW_END;
}

TEST(what_cleanup_awaits_does_not_fail_the_task_either) {
    DIES((void)aw_run(AW_CALL(hides_a_fail)),
         at(CLEANUP_FAIL_AT, "AW_FAIL in async function 'fails_in_cleanup', which is awaited by"));
}

enum { OVERWRITING_AWAIT = __LINE__ + 5 };
AW_ASYNC(int, overwrites, struct script *a, *b; struct work w; aw_poll first;) {
    AW_BEGIN;
    self->w = AW_CALL(work, .s = self->a);
    self->first = aw_future_poll(&self->w.future, cx);
    AW_AWAIT(self->w, AW_CALL(work, .s = self->b));
    AW_RETURN(1);
    AW_END;
}

TEST(an_await_does_not_overwrite_what_is_running) {
    struct script runs = {.pends = NEVER}, ends = {.error = -1}, next = {.error = -1};
    struct overwrites f = AW_CALL(overwrites, .a = &runs, .b = &next);
    DIES(aw_future_poll(&f.future, noop_cx()),
         at(OVERWRITING_AWAIT, "this await overwrites future 'work', which is still running"));
    f = AW_CALL(overwrites, .a = &ends, .b = &next);
    CHECK_EQ(aw_future_poll(&f.future, noop_cx()), AW_READY);
}

/* ---- Hand-written futures that break the contract -------------------------------------------- */

struct broken {
    aw_future future;
    int out;
};
static aw_poll broken_poll(aw_future *self, aw_cx *cx) {
    (void)self;
    (void)cx;
    return AW_CANCELLED;
}
static aw_poll broken_cancel(aw_future *self, aw_cx *cx) {
    (void)self;
    (void)cx;
    return AW_READY;
}
static const aw_future_type broken_type = {AW_TYPE_OF(struct broken, "broken"), .poll = broken_poll,
                                           .cancel = broken_cancel};

TEST(a_poll_does_not_answer_cancelled) {
    struct broken f = {AW_FUTURE_INIT(&broken_type), 0};
    DIES_HERE(aw_future_poll, &f, "poll of future 'broken' returned");
}

TEST(the_cancel_of_what_never_ran_does_not_answer_ready) {
    struct broken f = {AW_FUTURE_INIT(&broken_type), 0};
    DIES_HERE(aw_future_cancel, &f, "cancel of future 'broken', which never ran, returned");
}

/* ---- The message ----------------------------------------------------------------------------- */

static void to_stderr(void *data, aw_log_level level, const char *message) {
    fprintf(stderr, "[%s %d %s]", (const char *)data, (int)level, message);
}

TEST(the_message_goes_through_the_log_of_the_process) {
    struct script s = {.error = -1};
    struct work f = AW_CALL(work, .s = &s);
    char mine[] = "mine";
    aw_set_log(to_stderr, mine);
    CHECK_EQ(aw_future_poll(&f.future, noop_cx()), AW_READY);
    DIES(aw_future_poll(&f.future, noop_cx()), "[mine 0 ");
    aw_set_log(NULL, NULL);
    DIES(aw_future_poll(&f.future, noop_cx()), "awake: misuse: ");
}
