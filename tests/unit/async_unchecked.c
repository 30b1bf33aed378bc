/* SPDX-License-Identifier: MIT
 *
 * A file compiled without checks, linked with a library that has them. */
#define AW_CHECKS 0
#include <awake.h>

#include <string.h>

#include "support/checked_waker.h"
#include "support/script.h"
#include "test.h"

AW_ASYNC(int, work, struct script *s; int *cleanups; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->leaf, leaf(self->s));
    ownership_release(self->leaf.out);
    AW_YIELD;
    AW_RETURN(5);
    AW_FINALLY;
    ++*self->cleanups;
    AW_END;
}

AW_ASYNC(int, mixed, struct script *a, *b, *c; int *cleanups; AW_JOIN(struct work, aw_box) both;
         AW_SELECT(struct work, aw_never) either;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->both, AW_CALL(work, .s = self->a, .cleanups = self->cleanups),
                  aw_box_new(AW_CALL(work, .s = self->b, .cleanups = self->cleanups)));
    aw_box_free(&self->both.f1);
    AW_AWAIT_SELECT(self->either, AW_CALL(work, .s = self->c, .cleanups = self->cleanups),
                    aw_never_ready());
    AW_RETURN(aw_select_winner(&self->either));
    AW_END;
}

static struct script scripts[3];
static int cleanups;

static struct mixed make(struct script s) {
    for (int i = 0; i < 3; i++)
        scripts[i] = s;
    return AW_CALL(mixed, .a = &scripts[0], .b = &scripts[1], .c = &scripts[2],
                   .cleanups = &cleanups);
}

TEST(functions_without_checks_run_through_the_combinators_of_a_library_with_them) {
    struct mixed f = make((struct script){.pends = 2, .busy = true});
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_EQ(f.out, 0);
    CHECK_EQ(cleanups, 3);
    ownership_check_balanced();
}

TEST(functions_without_checks_are_cancelled_at_every_step_by_the_same_rules) {
    for (int polls = 0; polls < 6; polls++) {
        struct mixed f = make((struct script){.pends = 2, .cancel_pends = 1, .busy = true});
        for (int i = 0; i < polls; i++)
            CHECK_EQ(drive_poll(&f.future), AW_PENDING);
        CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
        ownership_check_balanced();
    }
}

TEST(functions_without_checks_run_as_tasks) {
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    struct mixed *task = aw_spawn_on(rt, make((struct script){.pends = 2, .busy = true}));
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), 0);
    CHECK_EQ(aw_task_take(task), 0);
    CHECK_EQ(cleanups, 3);
    aw_runtime_free(rt);
    ownership_check_balanced();
}

TEST(life_and_layout_are_the_same_without_checks) {
    struct script s = {.pends = NEVER};
    struct work f = AW_CALL(work, .s = &s, .cleanups = &cleanups);
    CHECK(!aw_future_started(&f.future));
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK(aw_future_started(&f.future));
    aw_flag flag = {0};
    aw_waker waker = aw_flag_waker(&flag);
    aw_cx cx = aw_cx_from_waker(&waker);
    /* A checked call continues what an unchecked one began. */
    CHECK_EQ(aw_cancel_future(&f.future, &cx), AW_CANCELLED);
    CHECK(aw_future_ended(&f.future));
    DIES(aw_poll_future(&f.future, &cx), "future 'work' was polled after it had been cancelled");
    ownership_check_balanced();
}

TEST(without_checks_nothing_is_caught) {
    aw_ready r = aw_ready_now(3);
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    CHECK_EQ(aw_future_poll(&r.future, &cx), AW_READY);
    CHECK_EQ(aw_future_poll(&r.future, &cx), AW_READY);
}
