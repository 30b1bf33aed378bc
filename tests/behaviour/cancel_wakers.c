/* SPDX-License-Identifier: MIT
 *
 * Each call may pass a different waker: a future wakes only the latest, and holds none after its
 * end. The drive functions retire a waker when the next is passed, and any use of a retired
 * waker fails the test; see support/checked_waker.h. */
#include <errno.h>

#include "support/keep_tasks.h"
#include "support/settle.h"
#include "support/composites.h"

#define ONLY_THE_LATEST(kind, how, borrowed)                                                       \
    TEST(kind##_wakes_only_the_latest_waker_of_##how##_leaves) {                                   \
        struct script s = {.pends = NEVER, .cancel_pends = 1000, .borrows = borrowed};             \
        aw_future *f = subject_make(kind, s);                                                      \
        for (int call = 0; call < 6; call++) {                                                     \
            CHECK_EQ(call < 3 ? drive_poll(f) : drive_cancel(f), AW_PENDING);                      \
            CHECK_EQ(drive_wakes(), 0);                                                            \
            script_wake(child(call % subject.children));                                           \
            CHECK_GT(drive_wakes(), 0);                                                            \
        }                                                                                          \
        for (int i = 0; i < subject.children; i++)                                                 \
            script_finish_cancel(child(i));                                                        \
        CHECK_EQ(drive_cancel(f), AW_CANCELLED);                                                   \
        subject_check_released();                                                                  \
    }
#define OF_CLONING_LEAVES(kind)   ONLY_THE_LATEST(kind, cloning, false)
#define OF_BORROWING_LEAVES(kind) ONLY_THE_LATEST(kind, borrowing, true)
EVERY_COMPOSITE(OF_CLONING_LEAVES)
EVERY_COMPOSITE(OF_BORROWING_LEAVES)

#define NONE_AFTER_THE_END(kind)                                                                   \
    TEST(kind##_that_finished_holds_no_waker) {                                                    \
        aw_future *f = subject_make(kind, (struct script){.pends = NEVER});                        \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        CHECK_EQ(drive_poll(f), AW_PENDING);                                                       \
        for (int i = 0; i < subject.children; i++)                                                 \
            script_finish(child(i));                                                               \
        CHECK_EQ(drive_poll(f), AW_READY);                                                         \
        for (unsigned i = 0; i < DRIVE_WAKERS; i++)                                                \
            CHECK_EQ(drive.wakers[i].refs, 0);                                                     \
        subject_discard();                                                                         \
    }
EVERY_COMPOSITE(NONE_AFTER_THE_END)

/* ---- Timers ----------------------------------------------------------------------------------- */

/* Advances the clock and runs the timers of the entered runtime. */
static void advance(uint64_t duration) {
    CHECK_EQ(aw_clock_advance(subject.rt, duration), 0);
    aw_leave(NULL);
    run_a_while(subject.rt);
    aw_enter(subject.rt);
}

TEST(the_timer_of_a_timeout_wakes_only_the_latest_waker) {
    aw_future *f = subject_make(a_timeout, (struct script){.pends = NEVER});
    for (int call = 0; call < 4; call++)
        CHECK_EQ(drive_poll(f), AW_PENDING);
    advance(AW_SEC(8));
    CHECK_EQ(drive_wakes(), 0);
    advance(AW_SEC(1));
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_poll(f), AW_READY);
    CHECK_EQ(subject.as.timeout.out, -ETIMEDOUT);
    subject_check_released();
}

TEST(the_timer_of_a_timeout_is_gone_as_soon_as_the_timeout_is_cancelled) {
    aw_future *f = subject_make(a_timeout, (struct script){.pends = NEVER, .cancel_pends = 1000});
    CHECK_EQ(drive_poll(f), AW_PENDING);
    CHECK_EQ(drive_cancel(f), AW_PENDING);
    advance(AW_SEC(10));
    CHECK_EQ(drive_wakes(), 0);
    script_finish_cancel(child(0));
    CHECK_EQ(drive_cancel(f), AW_CANCELLED);
    subject_check_released();
}

/* ---- Sets ------------------------------------------------------------------------------------- */

TEST(a_next_of_a_set_wakes_only_the_latest_waker_and_none_once_it_is_cancelled) {
    enum { N = 12 }; /* two blocks */
    struct script s[N];
    aw_set set;
    aw_set_init(&set, sizeof(struct leaf));
    for (int i = 0; i < N; i++) {
        s[i] = (struct script){.pends = NEVER, .borrows = i % 2};
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    }
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(s[3].polls, 1);
    script_wake(&s[3]);
    script_wake(&s[10]);
    CHECK_GT(drive_wakes(), 0);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(s[3].polls, 2);
    CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);

    /* No next is pending: these wakes must not reach the retired waker, and must not be lost. */
    script_finish(&s[3]);
    script_finish(&s[10]);
    for (int i = 0; i < 2; i++) {
        next = aw_set_next(&set);
        CHECK_EQ(drive_poll(&next.future), AW_READY);
        ownership_release(AW_SET_AS(struct leaf, &next)->out);
    }
    CHECK_EQ(s[3].finished + s[10].finished, 2);
    next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(s[0].polls, 1);
    CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);
    aw_set_clear_future clear = aw_set_clear(&set);
    CHECK_EQ(drive_poll(&clear.future), AW_READY);
    aw_set_free(&set);
    ownership_check_balanced();
}

TEST(a_clear_of_a_set_wakes_only_the_latest_waker) {
    enum { N = 12 };
    struct script s[N];
    aw_set set;
    aw_set_init(&set, sizeof(struct leaf));
    for (int i = 0; i < N; i++) {
        s[i] = (struct script){.pends = NEVER, .cancel_pends = 1000, .borrows = i % 2};
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    }
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);
    aw_set_clear_future clear = aw_set_clear(&set);
    CHECK_EQ(drive_poll(&clear.future), AW_PENDING);
    CHECK_EQ(drive_poll(&clear.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&clear.future), AW_PENDING);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(drive_wakes(), 0);
        script_finish_cancel(&s[i]);
        CHECK_EQ(drive_wakes(), 1);
        CHECK_EQ(drive_cancel(&clear.future), i + 1 < N ? AW_PENDING : AW_READY);
        CHECK_EQ(s[i].cancels, 2);
    }
    aw_set_free(&set);
    ownership_check_balanced();
}

/* ---- Task joins ------------------------------------------------------------------------------- */

TEST(a_join_of_a_task_wakes_only_the_latest_waker) {
    aw_runtime *rt = keep_tasks_runtime();
    struct script s = {.pends = NEVER};
    struct leaf *task = aw_spawn_on(rt, leaf(&s));
    run_a_while(rt);
    aw_task_join_future f = aw_task_join(task);
    for (int call = 0; call < 3; call++)
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_wakes(), 0);
    script_finish(&s);
    run_a_while(rt);
    CHECK_EQ(drive_wakes(), 1);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    ownership_release(aw_task_take(task));
    aw_runtime_free(rt);
    ownership_check_balanced();
}

TEST(a_join_of_a_task_that_is_cancelled_holds_no_waker) {
    aw_runtime *rt = keep_tasks_runtime();
    struct script s = {.pends = NEVER};
    struct leaf *task = aw_spawn_on(rt, leaf(&s));
    run_a_while(rt);
    aw_task_join_future f = aw_task_join(task);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);
    script_finish(&s);
    run_a_while(rt); /* the end of the task wakes no joiner */
    CHECK(aw_task_is_finished(task));
    aw_task_drop(task);
    aw_runtime_free(rt);
    CHECK_EQ(s.discards, 1);
    ownership_check_balanced();
}

/* ---- Out of budget ---------------------------------------------------------------------------- */

/* One poll with its own waker and a budget of `budget` operations. */
static aw_poll poll_with_budget(aw_future *f, struct checked_waker *b, uint32_t budget) {
    aw__meter meter = {.budget = budget};
    *b = (struct checked_waker){0, 0, false};
    aw_waker waker = checked_waker_of(b);
    aw_cx cx = {&waker, aw_runtime_current(), &meter};
    return aw_future_poll(f, &cx);
}

/* A future that is ready but out of budget wakes the waker of this poll. It must forget the
 * waker of the previous poll, which may no longer exist. */
TEST(a_receive_that_is_out_of_budget_forgets_the_previous_waker) {
    AW_ONESHOT(int) c = AW_ONESHOT_INIT;
    struct checked_waker first, second;
    aw_oneshot_future r = aw_oneshot_recv(&c);
    CHECK_EQ(poll_with_budget(&r.future, &first, 9), AW_PENDING);
    CHECK_EQ(aw_oneshot_send(&c, 5), 0);
    CHECK_EQ(first.wakes, 1);
    CHECK_EQ(poll_with_budget(&r.future, &second, 0), AW_PENDING);
    CHECK_EQ(second.wakes, 1);
    checked_waker_retire(&first);
    aw_oneshot_close_sender(&c); /* no effect, but it looks for a waiter */
    CHECK_EQ(drive_poll(&r.future), AW_READY);
    CHECK_EQ(c.value, 5);
    CHECK_EQ(first.refs + second.refs, 0);
}

TEST(a_wait_that_is_out_of_budget_forgets_the_previous_waker) {
    aw_notify n = AW_NOTIFY_INIT;
    struct checked_waker first, second;
    aw_notified w = aw_notify_wait(&n);
    CHECK_EQ(poll_with_budget(&w.future, &first, 9), AW_PENDING);
    aw_notify_one(&n);
    CHECK_EQ(poll_with_budget(&w.future, &second, 0), AW_PENDING);
    CHECK_EQ(second.wakes, 1);
    checked_waker_retire(&first);
    aw_notify_waiters(&n);
    CHECK_EQ(drive_poll(&w.future), AW_READY);
    CHECK_EQ(first.refs + second.refs, 0);
}

static aw_sleep nap;
static struct checked_waker before, after;

/* In a task: advances the clock, so that the poll finds the sleep due before the timer wheel
 * does. */
static aw_poll out_of_budget(void *arg, aw_cx *cx, int *out) {
    int *call = arg;
    (void)cx;
    if (++*call == 1) {
        CHECK_EQ(poll_with_budget(&nap.future, &before, 9), AW_PENDING);
        CHECK_EQ(aw_clock_advance(subject.rt, AW_SEC(2)), 0);
        aw_sleep other = aw_sleep_for(0);
        CHECK_EQ(poll_with_budget(&other.future, &after, 9), AW_READY);
        CHECK_EQ(poll_with_budget(&nap.future, &after, 0), AW_PENDING);
        CHECK_EQ(after.wakes, 1);
        checked_waker_retire(&before);
        aw_cx_yield(cx);
        return AW_PENDING;
    }
    *out = 0;
    return poll_with_budget(&nap.future, &after, 9);
}

TEST(a_sleep_that_is_out_of_budget_forgets_the_previous_waker) {
    ON_THIS_THREAD("no other thread may fire the timer meanwhile");
    subject_prepare(a_timeout, (struct script){.pends = NEVER});
    aw_leave(NULL);
    int calls = 0;
    nap = aw_sleep_for(AW_SEC(1));
    CHECK_EQ(aw_block_on(subject.rt, aw_poll_fn_of(out_of_budget, &calls)), 0);
    CHECK_EQ(calls, 2);
    aw_runtime_free(subject.rt);
}
