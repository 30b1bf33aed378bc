/* SPDX-License-Identifier: MIT
 *
 * Watch: receivers see the latest value, and the last one before the end. */
#include <errno.h>

#include "support/callback_waker.h"
#include "support/by_hand.h"
#include "support/workers.h"

typedef AW_WATCH(int) watched;

static aw_flag flag, other;

static void init(watched *w, int first) {
    aw_watch_init(w, &first);
}

static void send_to(watched *w, int n) {
    CHECK_EQ(aw_watch_send(w, &n), 0);
}

static int get(watched *w) {
    int n = -1;
    aw_watch_get(w, &n);
    return n;
}

/* ---- Values ---------------------------------------------------------------------------------- */

TEST(a_receiver_sees_what_changed_after_it_subscribed) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    CHECK_EQ(aw_watch_has_changed(&r), 0);
    CHECK_EQ(get(&w), 1);
    aw_watch_future f = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    send_to(&w, 2);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(aw_watch_has_changed(&r), 1);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    CHECK_EQ(get(&w), 2);
    CHECK_EQ(aw_watch_has_changed(&r), 0);
    aw_watch_unsubscribe(&r);
    aw_watch_free(&w);
}

TEST(only_the_latest_value_is_seen) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    for (int i = 2; i < 10; i++)
        send_to(&w, i);
    aw_watch_future f = aw_watch_changed(&r), g = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(get(&w), 9);
    CHECK_EQ(POLL(&g, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&g, &flag), AW_CANCELLED);
    aw_watch_unsubscribe(&r);
}

TEST(each_receiver_has_seen_what_it_has_seen) {
    watched w;
    int n = 0;
    init(&w, 1);
    aw_watch_receiver a = aw_watch_subscribe(&w), b = aw_watch_subscribe(&w);
    send_to(&w, 2);
    aw_watch_see(&w, &a, &n);
    CHECK_EQ(n, 2);
    CHECK_EQ(aw_watch_has_changed(&a), 0);
    CHECK_EQ(aw_watch_has_changed(&b), 1);
    aw_watch_unsubscribe(&a);
    aw_watch_unsubscribe(&b);
}

TEST(a_value_without_receivers_is_handed_back_or_set) {
    watched w;
    int n = 5;
    init(&w, 1);
    CHECK_EQ(aw_watch_send(&w, &n), -EPIPE);
    CHECK_EQ(get(&w), 1);
    aw_watch_set(&w, &n);
    CHECK_EQ(get(&w), 5);
}

TEST(subscribing_reopens) {
    watched w;
    int n = 5;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    aw_watch_unsubscribe(&r);
    CHECK_EQ(aw_watch_send(&w, &n), -EPIPE);
    r = aw_watch_subscribe(&w);
    CHECK_EQ(aw_watch_send(&w, &n), 0);
    CHECK_EQ(aw_watch_has_changed(&r), 1);
    aw_watch_unsubscribe(&r);
}

static bool add_if_even(void *value, void *arg) {
    int *n = value;
    if (*n % 2) return false;
    *n += *(int *)arg;
    return true;
}

TEST(a_value_is_changed_in_place_and_receivers_are_woken_if_it_was) {
    watched w;
    int three = 3;
    init(&w, 4);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    aw_watch_future f = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK(aw_watch_modify(&w, add_if_even, &three));
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(get(&w), 7);
    CHECK(!aw_watch_modify(&w, add_if_even, &three));
    CHECK_EQ(aw_watch_has_changed(&r), 0);
    CHECK_EQ(get(&w), 7);
    aw_watch_unsubscribe(&r);
}

/* ---- The end --------------------------------------------------------------------------------- */

TEST(the_final_value_is_seen_before_the_end) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    send_to(&w, 2);
    aw_watch_sender_drop(&w);
    CHECK_EQ(aw_watch_has_changed(&r), 1);
    aw_watch_future f = aw_watch_changed(&r), end = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    CHECK_EQ(get(&w), 2);
    CHECK_EQ(POLL(&end, &flag), AW_READY);
    CHECK_EQ(end.out, -EPIPE);
    CHECK_EQ(aw_watch_has_changed(&r), -EPIPE);
    aw_watch_unsubscribe(&r);
}

TEST(a_waiting_receiver_sees_a_value_that_is_followed_by_the_end) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    aw_watch_future f = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    send_to(&w, 2);
    aw_watch_sender_drop(&w);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    aw_watch_unsubscribe(&r);
}

static void drop_sender(void *arg, int index, uint64_t *random) {
    (void)index;
    jitter(random);
    aw_watch_sender_drop((watched *)arg);
}

TEST(several_senders_that_drop_at_once_still_notify) {
    uint64_t random = test_seed();
    for (int round = 0; round < test_scale(200); round++) {
        watched w;
        init(&w, 1);
        for (int i = 1; i < 4; i++)
            aw_watch_sender_keep(&w);
        aw_watch_receiver r = aw_watch_subscribe(&w);
        thread_group s;
        thread_group_create(&s, 4, &random, drop_sender, &w);
        thread_group_go(&s);
        CHECK_EQ(aw_wait(aw_watch_changed(&r)), -EPIPE);
        thread_group_join(&s);
        aw_watch_unsubscribe(&r);
    }
}

TEST(a_sender_learns_that_there_is_no_receiver) {
    watched w;
    init(&w, 1);
    aw_watch_future none = aw_watch_closed(&w);
    CHECK_EQ(POLL(&none, &flag), AW_READY);
    CHECK(aw_watch_is_closed(&w));
    aw_watch_receiver a = aw_watch_subscribe(&w), b = aw_watch_subscribe(&w);
    aw_watch_future f = aw_watch_closed(&w);
    CHECK(!aw_watch_is_closed(&w));
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_watch_unsubscribe(&a);
    CHECK(!aw_flag_take(&flag));
    aw_watch_unsubscribe(&b);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
}

/* ---- Values that own something --------------------------------------------------------------- */

typedef struct counted {
    uint32_t refs;
} counted;
typedef AW_WATCH(counted *) watched_pointer;

static void counted_clone(void *to, const void *from) {
    counted *c = *(counted *const *)from;
    ADD(c->refs, 1);
    *(counted **)to = c;
}

static watched_pointer *released_in;
static void counted_release(void *item) {
    counted *c = *(counted **)item, *now;
    if (released_in) { /* the lock is free */
        aw_watch_get(released_in, &now);
        ADD(now->refs, -1);
    }
    ADD(c->refs, -1);
}

TEST(values_that_own_something_are_cloned_and_released) {
    counted a = {1}, b = {1}, *p = &a, *copy;
    watched_pointer w;
    aw_watch_init(&w, &p);
    aw_watch_set_owned(&w, counted_clone, counted_release);
    released_in = &w;
    aw_watch_get(&w, &copy);
    CHECK_EQ(a.refs, 2);
    p = &b;
    CHECK_EQ(aw_watch_send(&w, &p), -EPIPE);
    CHECK_EQ(b.refs, 1);
    aw_watch_set(&w, &p);
    CHECK_EQ(a.refs, 1);
    CHECK(copy == &a);
    released_in = NULL;
    aw_watch_free(&w);
    CHECK_EQ(b.refs, 0);
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

/* cancel-at-every-await: aw_watch_changed */

TEST(a_wait_for_a_change_can_be_cancelled_at_any_moment) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    aw_watch_future f = aw_watch_changed(&r);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);

    f = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&f, &other), AW_CANCELLED);
    CHECK(w.watch.receivers.first == NULL);

    f = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    send_to(&w, 2);
    CHECK_EQ(CANCEL(&f, &flag), AW_READY); /* woken, and not polled again */
    CHECK_EQ(f.out, 0);
    CHECK_EQ(aw_watch_has_changed(&r), 0);
    aw_future_discard(&f.future); /* the value was not read */
    CHECK_EQ(aw_watch_has_changed(&r), 1);

    f = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    aw_future_discard(&f.future);
    CHECK_EQ(aw_watch_has_changed(&r), 1);
    aw_watch_see(&w, &r, &(int){0});

    f = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_watch_sender_drop(&w);
    CHECK_EQ(CANCEL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, -EPIPE);
    aw_future_discard(&f.future);
    aw_watch_unsubscribe(&r);
}

/* Seen by another call after the wake: there is nothing to report any more. */
TEST(a_change_that_was_seen_meanwhile_is_not_reported_by_a_cancel) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    aw_watch_future f = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    send_to(&w, 2);
    aw_watch_see(&w, &r, &(int){0});
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    CHECK(w.watch.receivers.first == NULL);
    aw_watch_unsubscribe(&r);
    aw_watch_free(&w);
}

/* ---- While other receivers are being woken --------------------------------------------------- */

enum { CROWD = 100 };
static watched crowd;
static aw_watch_receiver crowd_receivers[CROWD];
static aw_watch_future crowd_waits[CROWD];
static callback_waker crowd_wakers[CROWD];

static void see_all_but_the_last(callback_waker *self) {
    (void)self;
    for (int i = 1; i < CROWD - 1; i++)
        aw_watch_see(&crowd, &crowd_receivers[i], &(int){0});
}

/* These are woken for a change that they have already seen. They wait again. */
static void see_and_wait_again(callback_waker *self) {
    see_all_but_the_last(self);
    for (int i = 1; i < CROWD - 1; i++)
        CHECK_EQ(POLL_WITH(&crowd_waits[i], &crowd_wakers[i]), AW_PENDING);
}

static void wake_crowd(void (*act)(callback_waker *)) {
    init(&crowd, 1);
    for (int i = 0; i < CROWD; i++) {
        callback_waker_init(&crowd_wakers[i], i == 0 ? act : NULL);
        crowd_receivers[i] = aw_watch_subscribe(&crowd);
        crowd_waits[i] = aw_watch_changed(&crowd_receivers[i]);
        CHECK_EQ(POLL_WITH(&crowd_waits[i], &crowd_wakers[i]), AW_PENDING);
    }
    send_to(&crowd, 2);
    CHECK_EQ(crowd_wakers[CROWD - 1].wakes, 1);
    CHECK_EQ(POLL_WITH(&crowd_waits[0], &crowd_wakers[0]), AW_READY);
    CHECK_EQ(POLL_WITH(&crowd_waits[CROWD - 1], &crowd_wakers[CROWD - 1]), AW_READY);
    for (int i = 1; i < CROWD - 1; i++)
        CHECK_EQ(POLL_WITH(&crowd_waits[i], &crowd_wakers[i]), AW_PENDING);
    send_to(&crowd, 3);
    for (int i = 1; i < CROWD - 1; i++)
        CHECK_EQ(POLL_WITH(&crowd_waits[i], &crowd_wakers[i]), AW_READY);
    for (int i = 0; i < CROWD; i++)
        aw_watch_unsubscribe(&crowd_receivers[i]);
    aw_watch_free(&crowd);
}

TEST(a_receiver_that_has_seen_the_value_already_does_not_keep_it_from_others) {
    wake_crowd(see_all_but_the_last);
}

TEST(a_receiver_that_waits_again_does_not_keep_the_value_from_others) {
    wake_crowd(see_and_wait_again);
}

TEST(a_wait_for_the_last_receiver_goes_on_when_another_has_subscribed_before_it_is_polled) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    aw_watch_future f = aw_watch_closed(&w);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_watch_unsubscribe(&r);
    CHECK(aw_flag_take(&flag));
    r = aw_watch_subscribe(&w);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_watch_unsubscribe(&r);
    CHECK(aw_flag_take(&flag));
    r = aw_watch_subscribe(&w);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    aw_watch_unsubscribe(&r);
    aw_watch_free(&w);
}

TEST(unsubscribing_twice_is_harmless) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w), s = aw_watch_subscribe(&w), never = {0};
    aw_watch_unsubscribe(&r);
    aw_watch_unsubscribe(&r);
    aw_watch_unsubscribe(&never);
    CHECK(!aw_watch_is_closed(&w));
    aw_watch_unsubscribe(&s);
    CHECK(aw_watch_is_closed(&w));
    DIES(aw_watch_has_changed(&r), "a watch receiver was used that is not subscribed");
    aw_watch_future f = aw_watch_changed(&r);
    DIES(POLL(&f, &flag), "a watch receiver was used that is not subscribed");
    aw_watch_free(&w);
}

/* cancel-at-every-await: aw_watch_closed */

TEST(a_wait_for_the_last_receiver_can_be_cancelled_at_any_moment) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    aw_watch_future f = aw_watch_closed(&w);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    f = aw_watch_closed(&w);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    f = aw_watch_closed(&w);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_watch_unsubscribe(&r);
    CHECK_EQ(CANCEL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    aw_watch_free(&w);
}

TEST(only_the_waker_of_the_latest_poll_is_woken) {
    watched w;
    init(&w, 1);
    aw_watch_receiver r = aw_watch_subscribe(&w);
    aw_watch_future f = aw_watch_changed(&r);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(POLL(&f, &other), AW_PENDING);
    send_to(&w, 2);
    CHECK(aw_flag_take(&other) && !aw_flag_take(&flag));
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    aw_watch_unsubscribe(&r);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Values only grow; each watcher ends with the last one. */
AW_ASYNC(int, watches, watched *w; uint32_t * ready; int last, now; aw_watch_receiver r;
         aw_watch_future f;) {
    AW_BEGIN;
    self->r = aw_watch_subscribe(self->w);
    ADD(*self->ready, 1);
    for (;;) {
        AW_AWAIT(self->f, aw_watch_changed(&self->r));
        if (self->f.out < 0) break;
        aw_watch_get(self->w, &self->now);
        CHECK_GE(self->now, self->last);
        self->last = self->now;
    }
    CHECK_EQ(self->f.out, -EPIPE);
    aw_watch_unsubscribe(&self->r);
    AW_RETURN(self->last);
    AW_END;
}

ON_BOTH(a_thousand_receivers_see_the_last_value) {
    enum { WATCHERS = 1000 };
    static struct watches *h[WATCHERS];
    watched w;
    uint32_t ready = 0;
    init(&w, 0);
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    int watchers = test_scale(WATCHERS);
    for (int i = 0; i < watchers; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(watches, .w = &w, .ready = &ready));
    run_a_while(rt);
    CHECK_EQ(LOAD(ready), watchers);
    for (int i = 1; i <= 50; i++)
        send_to(&w, i);
    run_a_while(rt);
    send_to(&w, 51);
    aw_watch_sender_drop(&w);
    for (int i = 0; i < watchers; i++) {
        must_finish(rt, &h[i]->future);
        CHECK_EQ(aw_task_take(h[i]), 51);
    }
    aw_runtime_free(rt);
    CHECK_EQ(w.watch.receiver_count, 0);
    aw_watch_free(&w);
}
