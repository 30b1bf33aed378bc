/* SPDX-License-Identifier: MIT
 *
 * Discard: called once when the output of a finished future is dropped, and passed down through
 * every combinator and box. */
#include <errno.h>

#include "support/keep_tasks.h"
#include "support/settle.h"
#include "support/composites.h"

/* ---- Every composite -------------------------------------------------------------------------- */

#define PASSES_IT_DOWN(kind)                                                                       \
    TEST(kind##_passes_a_discard_down_once_to_each_output) {                                       \
        aw_future *f = subject_make(kind, (struct script){.pends = 0});                            \
        CHECK_EQ(drive_poll(f), AW_READY);                                                         \
        CHECK_EQ(count_discards(), 0);                                                             \
        int finished = count_finished();                                                           \
        subject_discard();                                                                         \
        CHECK_EQ(count_discards(), finished);                                                      \
    }
EVERY_COMPOSITE(PASSES_IT_DOWN)

#define LEAVES_WHAT_IS_TAKEN(kind)                                                                 \
    TEST(kind##_discards_nothing_by_itself_when_it_finishes) {                                     \
        aw_future *f = subject_make(kind, (struct script){.pends = 2, .busy = true});              \
        CHECK_EQ(drive_poll_to_end(f), AW_READY);                                                  \
        CHECK_EQ(count_discards(), 0);                                                             \
        for (int i = 0; i < subject.children; i++)                                                 \
            if (child(i)->finished) script_take(child(i));                                         \
        if (is_boxed(kind)) aw_box_free(&subject.as.box);                                          \
        subject_check_released();                                                                  \
        CHECK_EQ(count_discards(), 0);                                                             \
    }
EVERY_COMPOSITE(LEAVES_WHAT_IS_TAKEN)

/* ---- Nested ----------------------------------------------------------------------------------- */

typedef AW_JOIN(aw_box, leaf_timeout, leaf_join) mixed;
typedef AW_TIMEOUT(mixed) mixed_timeout;

TEST(a_discard_reaches_the_leaves_through_all_the_layers) {
    subject_prepare(a_join_all_of_many, (struct script){.pends = 1, .busy = true});
    mixed m = AW_JOIN_OF(mixed, aw_box_new(AW_CALL(relay, .script = child(0))),
                         AW_TIMEOUT_OF(leaf_timeout, AW_SEC(1), leaf(child(1))),
                         AW_JOIN_OF(leaf_join, leaf(child(2)), leaf(child(3)), leaf(child(4))));
    aw_box b = aw_box_new(AW_TIMEOUT_OF(mixed_timeout, AW_SEC(2), m));
    subject.children = 5;
    subject.future = &b.future;
    CHECK_EQ(drive_poll_to_end(&b.future), AW_READY);
    CHECK_EQ(count_discards(), 0);
    subject_discard();
    CHECK_EQ(count_discards(), 5);
    CHECK(b.inner == NULL);
}

/* The same tree, cancelled: one leaf is cancelled, four had finished or finish meanwhile, all
 * memory is freed. */
TEST(a_cut_reaches_the_finished_leaves_through_all_the_layers) {
    subject_prepare(a_join_all_of_many, (struct script){.pends = 0});
    *child(3) = (struct script){.pends = NEVER, .cancel_pends = 1, .busy = true};
    *child(4) = (struct script){.pends = NEVER, .wins = true};
    mixed m = AW_JOIN_OF(mixed, aw_box_new(AW_CALL(relay, .script = child(0))),
                         AW_TIMEOUT_OF(leaf_timeout, AW_SEC(1), leaf(child(1))),
                         AW_JOIN_OF(leaf_join, leaf(child(2)), leaf(child(3)), leaf(child(4))));
    aw_box b = aw_box_new(AW_TIMEOUT_OF(mixed_timeout, AW_SEC(2), m));
    subject.children = 5;
    CHECK_EQ(drive_poll(&b.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&b.future), AW_CANCELLED);
    CHECK_EQ(count_discards(), 4);
    CHECK_EQ(child(3)->discards, 0);
    CHECK(b.inner == NULL);
    subject_check_released();
}

TEST(a_timeout_that_gave_up_has_no_output_to_discard) {
    subject_prepare(a_timeout, (struct script){.pends = NEVER});
    subject.as.timeout = AW_TIMEOUT_AT_OF(leaf_timeout, 0, leaf(child(0)));
    subject.future = &subject.as.timeout.future;
    CHECK_EQ(drive_poll(subject.future), AW_READY);
    CHECK_EQ(subject.as.timeout.out, -ETIMEDOUT);
    subject_discard();
    CHECK_EQ(child(0)->discards, 0);
}

TEST(a_try_join_that_failed_has_discarded_already) {
    subject_prepare(a_try_join, (struct script){.pends = 0});
    child(2)->error = -EIO;
    aw_future *f = subject_begin();
    CHECK_EQ(drive_poll(f), AW_READY);
    CHECK_EQ(child(0)->discards, 1);
    CHECK_EQ(child(1)->discards, 1);
    subject_discard(); /* a second discard of the same output would fail here */
}

/* ---- Sets ------------------------------------------------------------------------------------- */

TEST(a_discarded_next_discards_the_child_it_yielded) {
    struct script s[2] = {{.pends = 0}, {.pends = 0}};
    aw_set set;
    aw_set_init(&set, sizeof(struct leaf));
    for (int i = 0; i < 2; i++)
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_READY);
    aw_future_discard(&next.future);
    CHECK_EQ(s[0].discards, 1);
    CHECK_EQ(s[1].discards, 0);
    CHECK_EQ(set.count, 1);

    next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_READY);
    ownership_release(AW_SET_AS(struct leaf, &next)->out);
    next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_READY);
    CHECK(next.out == NULL);
    aw_future_discard(&next.future); /* an empty set: nothing to discard */
    aw_set_free(&set);
    ownership_check_balanced();
}

TEST(a_clear_discards_what_finishes_once_and_releases_boxes) {
    enum { N = 50 };
    static struct script s[N];
    aw_set set;
    aw_set_init(&set, sizeof(aw_box));
    for (int i = 0; i < N; i++) {
        s[i] = (struct script){.pends = NEVER, .cancel_pends = i % 3, .wins = i % 2};
        s[i].busy = true;
        CHECK_EQ(aw_set_push(&set, aw_box_new(leaf(&s[i]))), 0);
    }
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);
    aw_set_clear_future clear = aw_set_clear(&set);
    CHECK_EQ(drive_poll_to_end(&clear.future), AW_READY);
    for (int i = 0; i < N; i++)
        CHECK_EQ(s[i].discards, i % 2);
    aw_set_free(&set);
    ownership_check_balanced();
}

/* ---- Tasks ------------------------------------------------------------------------------------ */

TEST(the_output_of_a_detached_task_is_discarded) {
    aw_runtime *rt = keep_tasks_runtime();
    struct script s = {.pends = 2, .busy = true};
    aw_task_drop(aw_spawn_on(rt, leaf(&s)));
    while (!s.finished)
        run_a_while(rt);
    CHECK_EQ(s.discards, 1);
    aw_runtime_free(rt);
    ownership_check_balanced();
}

TEST(the_output_of_a_task_whose_handle_is_dropped_late_is_discarded) {
    aw_runtime *rt = keep_tasks_runtime();
    struct script s = {.pends = 0};
    struct leaf *task = aw_spawn_on(rt, leaf(&s));
    run_a_while(rt);
    CHECK_EQ(s.discards, 0);
    aw_runtime_free(rt);
    CHECK_EQ(s.discards, 0);
    aw_task_drop(task);
    CHECK_EQ(s.discards, 1);
    ownership_check_balanced();
}

/* The finished join is discarded: the output goes back to the handle. */
TEST(a_join_that_is_discarded_leaves_the_output_to_the_handle) {
    aw_runtime *rt = keep_tasks_runtime();
    struct script s = {.pends = 0};
    struct leaf *task = aw_spawn_on(rt, leaf(&s));
    run_a_while(rt);
    aw_task_join_future f = aw_task_join(task);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    aw_future_discard(&f.future);
    CHECK_EQ(s.discards, 0);

    f = aw_task_join(task);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.out, 0);
    ownership_release(aw_task_take(task));
    aw_runtime_free(rt);
    CHECK_EQ(s.discards, 0);
    ownership_check_balanced();
}

TEST(a_join_that_is_discarded_and_never_repeated_has_its_output_discarded_with_the_handle) {
    aw_runtime *rt = keep_tasks_runtime();
    struct script s = {.pends = 0};
    struct leaf *task = aw_spawn_on(rt, leaf(&s));
    run_a_while(rt);
    aw_task_join_future f = aw_task_join(task);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    aw_future_discard(&f.future);
    aw_task_drop(task);
    aw_runtime_free(rt);
    CHECK_EQ(s.discards, 1);
    ownership_check_balanced();
}

/* The first join took the output; discarding a second join does not return it to the handle. */
TEST(an_output_that_was_taken_is_not_discarded_by_a_second_join) {
    aw_runtime *rt = keep_tasks_runtime();
    struct script s = {.pends = 0};
    struct leaf *task = aw_spawn_on(rt, leaf(&s));
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), 0);
    ownership_release(task->out);
    aw_task_join_future f = aw_task_join(task);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    aw_future_discard(&f.future);
    aw_task_drop(task);
    aw_runtime_free(rt);
    CHECK_EQ(s.discards, 0);
    ownership_check_balanced();
}

TEST(block_on_status_discards_the_output) {
    aw_runtime *rt = keep_tasks_runtime();
    struct script s = {.pends = 1, .busy = true};
    CHECK_EQ(aw_block_on_status(rt, leaf(&s)), 0);
    CHECK_EQ(s.discards, 1);
    aw_runtime_free(rt);
    ownership_check_balanced();
}

/* ---- Outputs that go back to their source ----------------------------------------------------- */

TEST(a_discarded_message_can_be_received_again) {
    AW_ONESHOT(int) c = AW_ONESHOT_INIT;
    aw_oneshot_future r = aw_oneshot_recv(&c);
    CHECK_EQ(drive_poll(&r.future), AW_PENDING);
    CHECK_EQ(aw_oneshot_send(&c, 5), 0);
    CHECK_EQ(drive_cancel(&r.future), AW_READY); /* the message came before the cancel */
    aw_future_discard(&r.future);
    CHECK_EQ(aw_oneshot_try_recv(&c), 0);
    CHECK_EQ(c.value, 5);
    CHECK_EQ(aw_oneshot_try_recv(&c), -EPIPE);
}

TEST(a_discarded_notification_goes_to_the_next_waiter) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_notified first = aw_notify_wait(&n), second = aw_notify_wait(&n);
    struct checked_waker b1 = {0, 0, false}, b2 = {0, 0, false};
    aw_waker w1 = checked_waker_of(&b1), w2 = checked_waker_of(&b2);
    aw_cx cx1 = aw_cx_from_waker(&w1), cx2 = aw_cx_from_waker(&w2);
    CHECK_EQ(aw_future_poll(&first.future, &cx1), AW_PENDING);
    CHECK_EQ(aw_future_poll(&second.future, &cx2), AW_PENDING);
    aw_notify_one(&n);
    CHECK_EQ(b1.wakes, 1);
    CHECK_EQ(b2.wakes, 0);
    CHECK_EQ(aw_future_cancel(&first.future, &cx1), AW_READY);
    aw_future_discard(&first.future);
    CHECK_EQ(b2.wakes, 1);
    CHECK_EQ(aw_future_poll(&second.future, &cx2), AW_READY);
    CHECK_EQ(b1.refs + b2.refs, 0);
}

typedef AW_JOIN(aw_notified, struct leaf) notified_and_leaf;

/* A join that is cut discards a notification that it had received: it must not be lost. */
TEST(a_notification_in_a_join_that_is_cut_is_passed_on) {
    aw_notify n = AW_NOTIFY_INIT;
    struct script s = {.pends = NEVER};
    notified_and_leaf j = AW_JOIN_OF(notified_and_leaf, aw_notify_wait(&n), leaf(&s));
    aw_notify_one(&n);
    CHECK_EQ(drive_poll(&j.future), AW_PENDING);
    CHECK_EQ(n.permit, 0);
    CHECK_EQ(drive_cancel(&j.future), AW_CANCELLED);
    CHECK_EQ(n.permit, 1);
    ownership_check_balanced();
}

TEST(a_discarded_tick_is_due_again) {
    subject_prepare(a_timeout, (struct script){.pends = NEVER});
    aw_interval i;
    CHECK_EQ(aw_interval_from(&i, aw_now(subject.rt), AW_SEC(1), AW_BURST), 0);
    aw_tick t = aw_interval_tick(&i);
    CHECK_EQ(drive_poll(&t.future), AW_READY);
    uint64_t at = t.at;
    aw_future_discard(&t.future);
    t = aw_interval_tick(&i);
    CHECK_EQ(drive_poll(&t.future), AW_READY);
    CHECK_EQ(t.at, at);
    aw_leave(NULL);
    aw_runtime_free(subject.rt);
}
