/* SPDX-License-Identifier: MIT
 *
 * Cleanup: what follows AW_FINALLY is polled and never cancelled, not even by a second cancel.
 * It runs once, in every composite, and children end before their parents. */
#include <errno.h>

#include "support/settle.h"
#include "support/composites.h"

/* A function that waits in its body for one leaf and in its cleanup for another. */
struct care {
    struct script body, cleanup;
    int holder, cleaned;
};

AW_ASYNC(int, careful, struct care *c; struct leaf l;) {
    AW_BEGIN;
    self->c->holder = ownership_enter(0);
    self->c->body.parent = self->c->cleanup.parent = self->c->holder;
    AW_AWAIT(self->l, leaf(&self->c->body));
    ownership_release(self->l.out);
    AW_RETURN(1);
    AW_FINALLY;
    CHECK_EQ(self->c->cleaned++, 0);
    if (AW_STARTED) {
        AW_AWAIT(self->l, leaf(&self->c->cleanup));
        ownership_release(self->l.out);
        ownership_leave(self->c->holder);
    }
    AW_END;
}

static struct care cares[MANY];
static struct careful calls[MANY];

static struct careful call(int i) {
    cares[i] = (struct care){.body = {.pends = NEVER}, .cleanup = {.pends = NEVER}};
    return AW_CALL(careful, .c = &cares[i]);
}

/* Cancelled while its body waits, then again and again in its cleanup, which runs to its end. */
static void check_cleanup(aw_future *f, int n) {
    CHECK_EQ(drive_poll(f), AW_PENDING);
    for (int again = 0; again < 3; again++)
        CHECK_EQ(drive_cancel(f), AW_PENDING);
    for (int i = 0; i < n; i++) {
        CHECK_EQ(cares[i].body.cancelled, 1);
        CHECK_EQ(cares[i].cleaned, 1);
        script_finish(&cares[i].cleanup);
        CHECK_GT(drive_wakes(), 0);
        CHECK_EQ(drive_cancel(f), i + 1 < n ? AW_PENDING : AW_CANCELLED);
    }
    for (int i = 0; i < n; i++) {
        CHECK_EQ(cares[i].cleanup.cancels, 0);
        CHECK_EQ(cares[i].cleaned, 1);
    }
    ownership_check_balanced();
}

TEST(cleanup_of_a_function_is_polled_and_never_cancelled) {
    calls[0] = call(0);
    check_cleanup(&calls[0].future, 1);
}

AW_ASYNC(int, outer, int *cleaned; struct careful inner;) {
    AW_BEGIN;
    AW_AWAIT(self->inner, call(0));
    AW_RETURN(0);
    AW_FINALLY;
    CHECK_EQ(ownership.inside, 0); /* the inner function has ended */
    ++*self->cleaned;
    AW_END;
}

TEST(cleanup_of_an_inner_function_comes_before_that_of_its_caller) {
    int cleaned = 0;
    struct outer f = AW_CALL(outer, .cleaned = &cleaned);
    check_cleanup(&f.future, 1);
    CHECK_EQ(cleaned, 1);
}

typedef AW_TIMEOUT(struct careful) careful_timeout;
typedef AW_JOIN(struct careful, struct careful) careful_join;
typedef AW_SELECT(struct careful, struct careful) careful_select;

TEST(cleanup_in_a_timeout_is_not_cut_short) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    aw_enter(rt);
    careful_timeout t = AW_TIMEOUT_OF(careful_timeout, AW_SEC(1000), call(0));
    check_cleanup(&t.future, 1);
    aw_leave(NULL);
    aw_runtime_free(rt);
}

TEST(cleanup_in_a_timeout_that_expired_is_not_cut_short) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    aw_enter(rt);
    careful_timeout t = AW_TIMEOUT_AT_OF(careful_timeout, 0, call(0));
    for (int again = 0; again < 3; again++)
        CHECK_EQ(drive_poll(&t.future), AW_PENDING);
    CHECK_EQ(cares[0].body.cancels, 1);
    script_finish(&cares[0].cleanup);
    CHECK_EQ(drive_poll(&t.future), AW_READY);
    CHECK_EQ(t.out, -ETIMEDOUT);
    CHECK_EQ(cares[0].cleanup.cancels, 0);
    ownership_check_balanced();
    aw_leave(NULL);
    aw_runtime_free(rt);
}

TEST(cleanup_in_a_box_is_not_cut_short) {
    aw_box b = aw_box_new(call(0));
    check_cleanup(&b.future, 1);
}

TEST(cleanup_in_a_join_is_not_cut_short) {
    careful_join j = AW_JOIN_OF(careful_join, call(0), call(1));
    check_cleanup(&j.future, 2);
}

TEST(cleanup_in_a_try_join_is_not_cut_short) {
    careful_join j = AW_TRY_JOIN_OF(careful_join, call(0), call(1));
    check_cleanup(&j.future, 2);
}

TEST(cleanup_in_a_select_is_not_cut_short) {
    careful_select s = AW_SELECT_OF(careful_select, call(0), call(1));
    check_cleanup(&s.future, 2);
}

TEST(cleanup_of_a_loser_is_through_before_its_select_reports) {
    careful_select s = AW_SELECT_OF(careful_select, call(0), call(1));
    CHECK_EQ(drive_poll(&s.future), AW_PENDING);
    script_finish(&cares[1].body);
    CHECK_EQ(drive_poll(&s.future), AW_PENDING);
    script_finish(&cares[1].cleanup);
    CHECK_EQ(drive_poll(&s.future), AW_PENDING);
    CHECK_EQ(cares[0].body.cancels, 1);
    CHECK_EQ(drive_poll(&s.future), AW_PENDING);
    script_finish(&cares[0].cleanup);
    CHECK_EQ(drive_poll(&s.future), AW_READY);
    CHECK_EQ(s.out, 1 << 1);
    CHECK_EQ(cares[0].cleanup.cancels + cares[1].cleanup.cancels, 0);
    ownership_check_balanced();
}

static aw_all all_of(const aw_future_type *kind, int n) {
    for (int i = 0; i < n; i++)
        calls[i] = call(i);
    return aw_all_of(kind, &calls[0].future, sizeof calls[0], (size_t)n);
}

#define IN_AN_ARRAY(name, n)                                                                       \
    TEST(cleanup_in_##name##_of_##n##_is_not_cut_short) {                                          \
        aw_all a = all_of(&aw_##name##_type, n);                                                   \
        check_cleanup(&a.future, n);                                                               \
    }
IN_AN_ARRAY(join_all, 4)
IN_AN_ARRAY(join_all, 40)
IN_AN_ARRAY(try_join_all, 4)
IN_AN_ARRAY(try_join_all, 40)
IN_AN_ARRAY(select_all, 4)
IN_AN_ARRAY(select_all, 40)

TEST(cleanup_in_a_set_that_is_cleared_is_not_cut_short) {
    enum { N = 20 };
    aw_set set;
    aw_set_init(&set, sizeof(struct careful));
    for (int i = 0; i < N; i++)
        CHECK_EQ(aw_set_push(&set, call(i)), 0);
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);
    aw_set_clear_future clear = aw_set_clear(&set);
    CHECK_EQ(drive_poll(&clear.future), AW_PENDING);
    for (int again = 0; again < 3; again++)
        CHECK_EQ(drive_cancel(&clear.future), AW_PENDING);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(cares[i].body.cancelled, 1);
        script_finish(&cares[i].cleanup);
        CHECK_EQ(drive_cancel(&clear.future), i + 1 < N ? AW_PENDING : AW_READY);
        CHECK_EQ(cares[i].cleanup.cancels, 0);
    }
    aw_set_free(&set);
    ownership_check_balanced();
}

/* ---- Tasks ------------------------------------------------------------------------------------ */

AW_ASYNC(int, abort_often, struct careful *task; int n; struct rounds y; aw_task_join_future j;) {
    AW_BEGIN;
    AW_AWAIT(self->y, rounds(1));
    for (self->n = 0; self->n < 3; self->n++) {
        aw_task_abort(self->task);
        AW_AWAIT(self->y, rounds(1));
    }
    CHECK_EQ(cares[0].body.cancelled, 1);
    CHECK(!aw_task_is_finished(self->task));
    script_finish(&cares[0].cleanup);
    AW_AWAIT(self->j, aw_task_join(self->task));
    aw_task_drop(self->task);
    AW_RETURN(self->j.out);
    AW_END;
}

TEST(cleanup_of_a_task_is_not_cut_short_by_a_second_abort) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    struct careful *task = aw_spawn_on(rt, call(0));
    CHECK_EQ(aw_block_on(rt, AW_CALL(abort_often, .task = task)), -ECANCELED);
    CHECK_EQ(cares[0].cleanup.cancels, 0);
    aw_runtime_free(rt);
    ownership_check_balanced();
}

TEST(ending_a_runtime_waits_for_the_cleanup_of_its_tasks) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    struct careful patient = call(0);
    cares[0].cleanup = (struct script){.pends = 5, .busy = true};
    struct careful *task = aw_spawn_on(rt, patient);
    run_a_while(rt);
    aw_task_drop(task);
    aw_runtime_free(rt);
    CHECK_EQ(cares[0].cleaned, 1);
    CHECK_EQ(cares[0].cleanup.finished, 1);
    ownership_check_balanced();
}

/* ---- Groups in a cleanup ---------------------------------------------------------------------- */

AW_ASYNC(int, thorough, struct script *body, *parts; struct leaf l; leaf_join j; leaf_select s;) {
    AW_BEGIN;
    AW_AWAIT(self->l, leaf(self->body));
    ownership_release(self->l.out);
    AW_FINALLY;
    AW_AWAIT_JOIN(self->j, leaf(&self->parts[0]), leaf(&self->parts[1]), leaf(&self->parts[2]));
    ownership_release(self->j.f0.out);
    ownership_release(self->j.f1.out);
    ownership_release(self->j.f2.out);
    AW_AWAIT_SELECT_BIASED(self->s, leaf(&self->parts[3]), leaf(&self->parts[4]),
                           leaf(&self->parts[5]));
    CHECK_EQ(aw_select_winner(&self->s), 1);
    ownership_release(self->s.f1.out);
    AW_END;
}

/* Only the losers of the select in the cleanup are cancelled, by the select itself. */
TEST(groups_in_a_cleanup_run_as_if_there_were_no_cancel) {
    struct script body = {.pends = NEVER},
                  parts[6] = {{.pends = 1, .busy = true}, {.pends = 2, .busy = true},
                              {.pends = 3, .busy = true}, {.pends = NEVER, .cancel_pends = 1},
                              {.pends = 2, .busy = true}, {.pends = NEVER, .busy = true}};
    parts[3].busy = true;
    struct thorough f = AW_CALL(thorough, .body = &body, .parts = parts);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(parts[0].cancels + parts[1].cancels + parts[2].cancels + parts[4].cancels, 0);
    CHECK_EQ(parts[3].cancels, 2);
    CHECK_EQ(parts[5].cancels, 1);
    ownership_check_balanced();
}

/* ---- Yielding --------------------------------------------------------------------------------- */

AW_ASYNC(int, yielding, struct script *s; int *rounds; struct leaf l;) {
    AW_BEGIN;
    AW_AWAIT(self->l, leaf(self->s));
    AW_FINALLY;
    for (*self->rounds = 0; *self->rounds < 5; ++*self->rounds)
        AW_YIELD;
    AW_END;
}

TEST(a_cleanup_that_yields_goes_on) {
    struct script s = {.pends = NEVER};
    int rounds = 0;
    struct yielding f = AW_CALL(yielding, .s = &s, .rounds = &rounds);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(rounds, 5);
    ownership_check_balanced();
}
