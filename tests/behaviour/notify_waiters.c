/* SPDX-License-Identifier: MIT
 *
 * notify_waiters: wakes exactly the futures that wait at that moment, whatever their wakers do
 * meanwhile. A future waits from its creation, so that a condition can be tested between
 * creating and awaiting it. */
#include "test.h"

#include "support/by_hand.h"
#include "support/clock.h"
#include "support/atomics.h"

enum { WAITERS = 500 };

TEST(all_waiters_are_woken_and_none_that_begins_later) {
    static aw_notified w[WAITERS];
    static aw_flag flags[WAITERS];
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag late_flag = {0};
    for (int i = 0; i < WAITERS; i++) {
        w[i] = aw_notify_wait(&n);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    aw_notify_waiters(&n);
    aw_notified late = aw_notify_wait(&n);
    CHECK_EQ(POLL(&late, &late_flag), AW_PENDING);
    for (int i = 0; i < WAITERS; i++) {
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
        CHECK_EQ(w[i].out, 0);
    }
    CHECK(!aw_flag_take(&late_flag));
    CHECK_EQ(CANCEL(&late, &late_flag), AW_CANCELLED);
}

TEST(a_future_waits_for_a_notification_to_all_from_its_creation) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag flag = {0};
    aw_notified made = aw_notify_wait(&n), other = aw_notify_wait(&n);
    aw_notify_waiters(&n);
    aw_notify_one(&n); /* a permit that the future does not need */
    CHECK_EQ(POLL(&made, &flag), AW_READY);
    CHECK_EQ(made.out, 0);
    CHECK_EQ(n.permit, 1);
    aw_future_discard(&made.future); /* nothing is passed on */
    CHECK_EQ(n.permit, 1);
    CHECK_EQ(CANCEL(&other, &flag), AW_CANCELLED); /* it was never polled */
    CHECK_EQ(n.permit, 1);
}

TEST(a_future_that_was_made_before_is_ready_when_there_is_budget) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag flag = {0};
    aw_notified w = aw_notify_wait(&n);
    aw_notify_waiters(&n);
    aw__meter meter = {.budget = 0};
    aw_waker waker = aw_flag_waker(&flag);
    aw_cx cx = {&waker, NULL, &meter};
    CHECK_EQ(aw_future_poll(&w.future, &cx), AW_PENDING);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&w, &flag), AW_READY);
}

TEST(it_leaves_no_permit_and_takes_none) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag flag = {0};
    aw_notify_waiters(&n);
    aw_notified w = aw_notify_wait(&n);
    CHECK_EQ(POLL(&w, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&w, &flag), AW_CANCELLED);
    aw_notify_one(&n);
    aw_notify_waiters(&n);
    aw_notified kept = aw_notify_wait(&n);
    CHECK_EQ(POLL(&kept, &flag), AW_READY);
}

TEST(a_notification_to_all_is_not_passed_on) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag a = {0}, b = {0};
    aw_notified first = aw_notify_wait(&n);
    CHECK_EQ(POLL(&first, &a), AW_PENDING);
    aw_notify_waiters(&n);
    aw_notified late = aw_notify_wait(&n);
    CHECK_EQ(POLL(&late, &b), AW_PENDING);
    CHECK_EQ(CANCEL(&first, &a), AW_READY); /* it had been notified */
    aw_future_discard(&first.future);
    CHECK(!aw_flag_take(&b));
    CHECK_EQ(n.permit, 0);
    CHECK_EQ(CANCEL(&late, &b), AW_CANCELLED);
}

TEST(a_waker_replaced_before_is_not_woken) {
    aw_notify n = AW_NOTIFY_INIT;
    aw_flag old = {0}, new = {0};
    aw_notified w = aw_notify_wait(&n);
    CHECK_EQ(POLL(&w, &old), AW_PENDING);
    CHECK_EQ(POLL(&w, &new), AW_PENDING);
    aw_notify_waiters(&n);
    CHECK(aw_flag_take(&new) && !aw_flag_take(&old));
    CHECK_EQ(POLL(&w, &old), AW_READY);
}

/* ---- Wakers with side effects ---------------------------------------------------------------- */

/* Each waiter has its own waker, which runs `act` when it is woken, without the lock. */
struct actor {
    aw_counted counted;
    aw_notified wait;
    int number, wakes;
};

static aw_notify notify;
static struct actor actors[WAITERS];
static struct actor newcomers[WAITERS];
static void (*act)(struct actor *self);

static void actor_wake(aw_counted *counted) {
    struct actor *self = (struct actor *)counted;
    self->wakes++;
    act(self);
}

static void actor_release(aw_counted *counted) {
    (void)counted;
}

static aw_poll actor_poll(struct actor *a) {
    aw_waker waker = aw_counted_waker(&a->counted);
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_poll(&a->wait.future, &cx);
}

static void actor_wait(struct actor *a, int number) {
    a->number = number;
    aw_counted_init(&a->counted, actor_wake, actor_release);
    a->wait = aw_notify_wait(&notify);
    CHECK_EQ(actor_poll(a), AW_PENDING);
}

static void all_wait(void) {
    for (int i = 0; i < WAITERS; i++)
        actor_wait(&actors[i], i);
}

/* Each was woken once, and nothing is left behind. */
static void check_all_woken_once(void) {
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(actors[i].wakes, 1);
        CHECK_EQ(actor_poll(&actors[i]), AW_READY);
        CHECK_EQ(actors[i].counted.refs, 1);
    }
}

static void do_nothing(struct actor *self) {
    (void)self;
}

static void bring_a_newcomer(struct actor *self) {
    actor_wait(&newcomers[self->number], self->number);
}

TEST(a_wait_that_begins_while_waiters_are_being_woken_is_not_woken) {
    act = bring_a_newcomer;
    all_wait();
    aw_notify_waiters(&notify);
    check_all_woken_once();
    act = do_nothing;
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(newcomers[i].wakes, 0);
        CHECK_EQ(actor_poll(&newcomers[i]), AW_PENDING);
    }
    aw_notify_waiters(&notify); /* now the newcomers are woken */
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(newcomers[i].wakes, 1);
        CHECK_EQ(actor_poll(&newcomers[i]), AW_READY);
    }
    CHECK(notify.first == NULL);
}

/* A task that polls again inside its wake, and waits anew: no endless loop. */
static void wait_again(struct actor *self) {
    if (self->wakes > 1) return;
    CHECK_EQ(actor_poll(self), AW_READY);
    self->wait = aw_notify_wait(&notify);
    CHECK_EQ(actor_poll(self), AW_PENDING);
}

TEST(a_waiter_that_waits_again_inside_its_wake_is_woken_once) {
    act = wait_again;
    all_wait();
    aw_notify_waiters(&notify);
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(actors[i].wakes, 1);
    aw_notify_waiters(&notify);
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(actors[i].wakes, 2);
        CHECK_EQ(actor_poll(&actors[i]), AW_READY);
    }
}

static void cancel_the_next(struct actor *self) {
    aw_flag ignored = {0};
    if (self->number % 2 == 0)
        CHECK_EQ(CANCEL(&actors[self->number + 1].wait, &ignored), AW_CANCELLED);
}

TEST(a_waiter_that_is_cancelled_while_others_are_being_woken_is_not_woken) {
    act = cancel_the_next;
    all_wait();
    aw_notify_waiters(&notify);
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(actors[i].wakes, i % 2 == 0);
        if (i % 2 == 0) CHECK_EQ(actor_poll(&actors[i]), AW_READY);
        CHECK_EQ(actors[i].counted.refs, 1);
    }
    CHECK(notify.first == NULL && notify.last == NULL);
}

static void notify_again(struct actor *self) {
    if (self->number == 0) aw_notify_waiters(&notify);
}

TEST(notifying_all_inside_a_wake_wakes_each_once) {
    act = notify_again;
    all_wait();
    aw_notify_waiters(&notify);
    check_all_woken_once();
    CHECK_EQ(notify.permit, 0);
}

static void bring_one_and_notify_it(struct actor *self) {
    if (self->number != 0) return;
    actor_wait(&newcomers[0], WAITERS);
    aw_notify_one(&notify);
}

TEST(notifying_one_inside_a_wake_goes_to_a_current_waiter_and_not_to_a_notified_one) {
    act = bring_one_and_notify_it;
    all_wait();
    aw_notify_waiters(&notify);
    check_all_woken_once();
    CHECK_EQ(newcomers[0].wakes, 1);
    CHECK_EQ(actor_poll(&newcomers[0]), AW_READY);
    CHECK_EQ(notify.permit, 0);
}

static void notify_one_inside(struct actor *self) {
    if (self->number == 0) aw_notify_one(&notify);
}

TEST(notifying_one_inside_a_wake_is_kept_when_no_other_waiter_is_queued) {
    act = notify_one_inside;
    all_wait();
    aw_notify_waiters(&notify);
    check_all_woken_once();
    CHECK_EQ(notify.permit, 1);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static int served;

AW_ASYNC(int, customer, aw_notify *door; int *rounds; int n; aw_notified open;) {
    AW_BEGIN;
    for (self->n = 0; self->n < *self->rounds; self->n++) {
        AW_AWAIT(self->open, aw_notify_wait(self->door));
        ADD(served, 1);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, doorkeeper, aw_notify door; int rounds; int n; aw_sleep pause;) {
    AW_BEGIN;
    self->rounds = 5;
    for (int i = 0; i < WAITERS; i++)
        aw_task_drop(aw_spawn(AW_CALL(customer, .door = &self->door, .rounds = &self->rounds)));
    for (self->n = 1; self->n <= self->rounds; self->n++) {
        AW_AWAIT(self->pause, aw_sleep_for(AW_SEC(1))); /* all tasks wait by then */
        CHECK_EQ(LOAD(served), (self->n - 1) * WAITERS);
        aw_notify_waiters(&self->door);
    }
    AW_AWAIT(self->pause, aw_sleep_for(AW_SEC(1)));
    CHECK_EQ(LOAD(served), self->rounds * WAITERS);
    AW_RETURN(0);
    AW_END;
}

TEST(hundreds_of_tasks_are_woken_once_for_each_notification) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_CALL(doorkeeper)), 0);
    CHECK_EQ(aw_runtime_task_count(rt), 0);
    aw_runtime_free(rt);
}
