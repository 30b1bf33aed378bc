/* SPDX-License-Identifier: MIT
 *
 * AW_FAIL and aw_fail: a task ends with an error from any depth, and cleanup runs on the way
 * out. Its join reports the code; so does block_on for the main future. */
#include "support/tasks.h"

#include <limits.h>

/* ---- Three functions deep -------------------------------------------------------------------- */

/* The order of cleanup. */
typedef struct order {
    char text[64];
} order;

static void note(order *o, const char *what) {
    CHECK_LT(strlen(o->text) + strlen(what), sizeof o->text);
    strcat(o->text, what);
}

AW_ASYNC(int, inner, order *order; int code; struct rounds pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, rounds(1));
    AW_FAIL(self->code);
    note(self->order, "ran on ");
    AW_RETURN(1);
    AW_FINALLY;
    AW_AWAIT(self->pause, rounds(1));
    note(self->order, "inner ");
    AW_END;
}

AW_ASYNC(long, middle, order *order; int code; struct inner inner;) {
    AW_BEGIN;
    AW_AWAIT(self->inner, AW_CALL(inner, .order = self->order, .code = self->code));
    note(self->order, "ran on ");
    AW_RETURN(2);
    AW_FINALLY;
    note(self->order, "middle ");
    AW_END;
}

AW_ASYNC(int, outer, order *order; int code; struct middle middle;) {
    AW_BEGIN;
    AW_AWAIT(self->middle, AW_CALL(middle, .order = self->order, .code = self->code));
    note(self->order, "ran on ");
    AW_RETURN(3);
    AW_FINALLY;
    note(self->order, "outer ");
    AW_END;
}

TEST(a_failure_three_functions_deep_is_the_status_of_the_join) {
    order o = {""};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct outer *h = aw_spawn_on(rt, AW_CALL(outer, .order = &o, .code = -EBADMSG));
    CHECK_EQ(JOIN_STATUS(rt, h), -EBADMSG);
    CHECK_STR(o.text, "inner middle outer ");
    CHECK_EQ(JOIN_STATUS(rt, h), -EBADMSG);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

TEST(a_failure_of_the_main_future_is_what_block_on_and_run_return) {
    order o = {""};
    CHECK_EQ(aw_run(AW_CALL(outer, .order = &o, .code = -EPROTO)), -EPROTO);
    CHECK_STR(o.text, "inner middle outer ");
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    for (int i = 0; i < 2; i++) {
        o.text[0] = 0;
        CHECK_EQ(aw_block_on(rt, AW_CALL(outer, .order = &o, .code = -ENOLINK)), -ENOLINK);
        CHECK_STR(o.text, "inner middle outer ");
    }
    CHECK_EQ(aw_block_on(rt, rounds(1)), 0); /* the next main future is not affected */
    aw_runtime_free(rt);
}

TEST(a_failed_main_future_leaves_the_result_untouched) {
    order o = {""};
    long out = 77;
    CHECK_EQ(aw_run_into(&out, AW_CALL(middle, .order = &o, .code = -EIO)), -EIO);
    CHECK_EQ(out, 77);
    CHECK_EQ(aw_run_status(AW_CALL(middle, .order = &o, .code = -EIO)), -EIO);
}

TEST(a_failed_task_leaves_the_others_alone) {
    order a = {""};
    probe_state l = PROBE_STATE;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *other = aw_spawn_on(rt, probe_of(&l));
    struct outer *h = aw_spawn_on(rt, AW_CALL(outer, .order = &a, .code = -1));
    CHECK_EQ(JOIN_STATUS(rt, h), -1);
    CHECK_EQ(l.cancels, 0);
    probe_finish(&l);
    CHECK_EQ(JOIN_STATUS(rt, other), 0);
    aw_task_drop(h);
    aw_task_drop(other);
    aw_runtime_free(rt);
}

/* ---- Through combinators --------------------------------------------------------------------- */

AW_ASYNC(int, in_a_join, order *order; AW_JOIN(struct inner, aw_never) j;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->j, AW_CALL(inner, .order = self->order, .code = -EXDEV), aw_never_ready());
    note(self->order, "ran on ");
    AW_RETURN(0);
    AW_FINALLY;
    note(self->order, "outer ");
    AW_END;
}

AW_ASYNC(int, in_a_select, order *order; AW_SELECT(struct inner, aw_never) s;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->s, AW_CALL(inner, .order = self->order, .code = -EXDEV),
                    aw_never_ready());
    note(self->order, "ran on ");
    AW_RETURN(0);
    AW_FINALLY;
    note(self->order, "outer ");
    AW_END;
}

AW_ASYNC(int, in_a_timeout, order *order; AW_TIMEOUT(struct inner) t;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->t, AW_SEC(3600), AW_CALL(inner, .order = self->order, .code = -EXDEV));
    note(self->order, "ran on ");
    AW_RETURN(0);
    AW_FINALLY;
    note(self->order, "outer ");
    AW_END;
}

AW_ASYNC(int, in_a_box, order *order; aw_box box;) {
    AW_BEGIN;
    AW_AWAIT(self->box, aw_box_new(AW_CALL(inner, .order = self->order, .code = -EXDEV)));
    note(self->order, "ran on ");
    AW_RETURN(0);
    AW_FINALLY;
    note(self->order, "outer ");
    AW_END;
}

/* One of forty fails; each of the others is cleaned up too. */
struct crowd {
    struct inner all[40];
};

AW_ASYNC(int, in_join_all, order *order; order others[40]; struct crowd * crowd; aw_all all;) {
    AW_BEGIN;
    for (int i = 0; i < 40; i++)
        self->crowd->all[i] = AW_CALL(inner, .order = i == 33 ? self->order : &self->others[i],
                                      .code = -EXDEV);
    AW_AWAIT(self->all, aw_join_all(self->crowd->all, 40));
    note(self->order, "ran on ");
    AW_RETURN(0);
    AW_FINALLY;
    for (int i = 0; i < 40; i++)
        if (i != 33) CHECK_STR(self->others[i].text, "inner ");
    note(self->order, "outer ");
    AW_END;
}

TEST(a_failure_ends_the_whole_task_from_inside_any_combinator) {
    order o = {""};
    struct crowd crowd;
    const char *wanted = "inner outer ";
    CHECK_EQ(aw_run(AW_CALL(in_a_join, .order = &o)), -EXDEV);
    CHECK_STR(o.text, wanted);
    o.text[0] = 0;
    CHECK_EQ(aw_run(AW_CALL(in_a_select, .order = &o)), -EXDEV);
    CHECK_STR(o.text, wanted);
    o.text[0] = 0;
    CHECK_EQ(aw_run(AW_CALL(in_a_timeout, .order = &o)), -EXDEV);
    CHECK_STR(o.text, wanted);
    o.text[0] = 0;
    CHECK_EQ(aw_run(AW_CALL(in_a_box, .order = &o)), -EXDEV);
    CHECK_STR(o.text, wanted);
    o.text[0] = 0;
    CHECK_EQ(aw_run(AW_CALL(in_join_all, .order = &o, .crowd = &crowd)), -EXDEV);
    CHECK_STR(o.text, wanted);
}

/* ---- In futures without a frame -------------------------------------------------------------- */

static void fail_with(probe_state *l, aw_cx *cx) {
    const int *codes = l->arg;
    for (; *codes != INT_MAX; codes++)
        CHECK_EQ(aw_fail(cx, *codes), *codes >= 0 || *codes < -4095 ? -EINVAL : 0);
}

TEST(a_plain_future_fails_its_task_with_the_first_code) {
    int codes[] = {0, 5, -4096, INT_MIN, -ERANGE, -EDOM, INT_MAX};
    probe_state l = PROBE_STATE;
    l.during_poll = fail_with;
    l.arg = codes;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(JOIN_STATUS(rt, h), -ERANGE);
    CHECK_EQ(l.polls, 1);
    CHECK_EQ(l.cancels, 1);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

TEST(codes_that_are_no_errors_change_nothing) {
    int codes[] = {0, 1, INT_MIN, -4096, INT_MAX};
    probe_state l = PROBE_STATE;
    l.during_poll = fail_with;
    l.arg = codes;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(l.cancels, 0);
    aw_task_drop(h);
    aw_runtime_free(rt);
}

TEST(the_smallest_errno_is_a_code) {
    int codes[] = {-4095, INT_MAX};
    probe_state l = PROBE_STATE;
    l.during_poll = fail_with;
    l.arg = codes;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    CHECK_EQ(aw_block_on_status(rt, probe_of(&l)), -4095);
    aw_runtime_free(rt);
}

TEST(a_task_that_fails_and_is_ready_in_the_same_poll_has_finished) {
    int codes[] = {-ERANGE, INT_MAX};
    probe_state l = PROBE_STATE;
    l.during_poll = fail_with;
    l.arg = codes;
    l.answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(aw_task_take(h), 101);
    aw_runtime_free(rt);
}

TEST(a_failing_task_that_finishes_while_it_is_cancelled_has_finished) {
    int codes[] = {-ERANGE, INT_MAX};
    probe_state l = PROBE_STATE;
    l.during_poll = fail_with;
    l.arg = codes;
    l.cancel_answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct probe *h = aw_spawn_on(rt, probe_of(&l));
    CHECK_EQ(JOIN_STATUS(rt, h), 0);
    CHECK_EQ(aw_task_take(h), 201);
    aw_runtime_free(rt);
}

TEST(aw_fail_outside_a_task_says_so) {
    aw_waker w = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&w);
    CHECK_EQ(aw_fail(&cx, -EIO), -ENXIO);
}

/* ---- Fail and abort -------------------------------------------------------------------------- */

/* Its child finishes while it is being cancelled, so the body goes on and reaches AW_FAIL. */
AW_ASYNC(int, fails_when_cancelled, probe_state *state; order * order; struct probe child;) {
    AW_BEGIN;
    AW_AWAIT(self->child, probe_of(self->state));
    note(self->order, AW_CANCELLING ? "cancelled " : "");
    AW_FAIL(-ENODATA);
    note(self->order, "ran on ");
    AW_RETURN(0);
    AW_FINALLY;
    note(self->order, "finally ");
    AW_END;
}

TEST(a_task_that_fails_while_it_is_being_cancelled_joins_with_its_code) {
    probe_state l = PROBE_STATE;
    order o = {""};
    l.cancel_answer = AW_READY;
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct fails_when_cancelled *h = aw_spawn_on(
        rt, AW_CALL(fails_when_cancelled, .state = &l, .order = &o));
    run_a_while(rt);
    aw_task_abort(h);
    CHECK_EQ(JOIN_STATUS(rt, h), -ENODATA);
    CHECK_STR(o.text, "cancelled finally ");
    aw_task_drop(h);
    aw_runtime_free(rt);
}

TEST(aborting_a_task_that_has_failed_does_not_change_its_code) {
    order o = {""};
    aw_runtime *rt = runtime_new(NULL, NULL, NULL, false);
    struct outer *h = aw_spawn_on(rt, AW_CALL(outer, .order = &o, .code = -ENOSR));
    while (!aw_task_is_finished(h)) { /* at every stage of its life */
        CHECK_EQ(aw_block_on(rt, rounds(1)), 0);
        if (o.text[0]) aw_task_abort(h);
    }
    CHECK_EQ(JOIN_STATUS(rt, h), -ENOSR);
    CHECK_STR(o.text, "inner middle outer ");
    aw_task_drop(h);
    aw_runtime_free(rt);
}

/* ---- Misuse ---------------------------------------------------------------------------------- */

TEST(failing_with_what_is_no_error_is_caught) {
    order o = {""};
    DIES((void)aw_run(AW_CALL(inner, .order = &o, .code = 0)), "not a negative errno");
    DIES((void)aw_run(AW_CALL(inner, .order = &o, .code = 7)), "AW_FAIL(7): not a negative errno");
    DIES((void)aw_run(AW_CALL(inner, .order = &o, .code = -5000)), "not a negative errno");
}

AW_ASYNC(int, fails_at_once, int code;) {
    AW_BEGIN;
    AW_FAIL(self->code);
    AW_RETURN(0);
    AW_END;
}

static void poll_outside(void) {
    aw_waker w = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&w);
    struct fails_at_once f = AW_CALL(fails_at_once, .code = -EIO);
    aw_future_poll(&f.future, &cx);
}

TEST(failing_where_there_is_no_task_is_caught) {
    DIES(poll_outside(), "AW_FAIL outside a task");
}

/* ---- A follower ------------------------------------------------------------------------------ */

TEST(the_main_future_of_a_second_thread_can_fail_too) {
    order o = {""};
    host h;
    host_start(&h, NULL);
    CHECK_EQ(aw_block_on(h.rt, AW_CALL(outer, .order = &o, .code = -EUNATCH)), -EUNATCH);
    CHECK_STR(o.text, "inner middle outer ");
    host_stop(&h);
    aw_runtime_free(h.rt);
}
